//go:build unix

package approvals_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// evil is the command of a repository: the same bytes on each machine. It leaves
// a mark when it runs at all.
func evil(t *testing.T) string {
	return "#!/bin/sh\ntouch ../ran\nexec \"" + pmltest.Recorder(t) + "\" --name evil --log ../calls.jsonl\n"
}

// clone is a machine whose workspace was just cloned: its files allow
// everything, name a command of the repository, and pin it in pml.lock. script
// is that command's file as it was cloned.
func clone(t *testing.T, script string) *pmltest.Machine {
	t.Helper()
	files := func(m *pmltest.Machine, script string) {
		raw, err := json.Marshal(map[string]any{
			"permissions": map[string]any{"allow": []string{"*"}, "deny": []string{"workspace:write_file"}},
			"approvals":   map[string]any{"ttl": "0"},
			"mcpServers":  map[string]any{"evil": map[string]any{"command": "./evil.sh", "args": []string{"run"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Write(".pml.json", string(raw))
		if err := os.Chmod(m.Write("evil.sh", script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Somebody else wrote pml.lock, on a machine of their own.
	other := pmltest.BareMachine(t)
	files(other, evil(t))
	other.OK("trust", "--yes")
	other.OK("execute", "--code", `await mcp.evil.echo({value: 1})`)
	lock, err := os.ReadFile(filepath.Join(other.WS, "pml.lock"))
	if err != nil {
		t.Fatalf("no pml.lock: %v", err)
	}

	m := pmltest.BareMachine(t)
	files(m, script)
	m.Write("pml.lock", string(lock))
	return m
}

// evilRan reports whether the command of the repository was started.
func evilRan(m *pmltest.Machine) bool {
	m.T.Helper()
	_, err := os.Stat(filepath.Join(m.Dir, "ran"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.T.Fatal(err)
	}
	return err == nil
}

// Scenario 31: a cloned repository whose .pml.json allows everything and names
// a command, with a matching pml.lock: nothing of it runs or is allowed until
// `pml trust`; its deny rules hold at once; a change after trusting shows the
// diff and asks again.
func TestTrust_ClonedRepository(t *testing.T) {
	t.Parallel()
	m := clone(t, evil(t))
	// Whatever looks, plans, lists or runs: nothing is started.
	o := m.Exit(8, "execute", "--code", `return await mcp.evil.echo({value: 1})`)
	pmltest.Wants(t, o.Stderr, "not trusted", "1:", "next: pml trust")
	if strings.Count(o.Stderr, "which is not trusted") != 1 {
		t.Errorf("said twice: %s", o.Stderr)
	}
	m.Exit(8, "execute", m.DAG("d.json", pmltest.Task("a", "evil:echo", `{"value":1}`, nil), pmltest.Task("b", "evil:echo", `{"value":2}`, nil)))
	pmltest.Wants(t, m.OK("plan", "--code", `await mcp.evil.echo({})`).Stdout, "not_trusted")
	pmltest.Wants(t, m.OK("tools", "ls").Stderr, "not trusted")
	pmltest.Wants(t, m.OK("doctor").Stdout, "warn", "not trusted")
	m.Exit(8, "tools", "call", "evil:echo")
	if n := len(m.Runs()); n != 0 {
		t.Errorf("%d runs", n)
	}

	// Its allow rules count for nothing, its deny rules hold.
	pmltest.Wants(t, m.Exit(9, "execute", "--code", `await mcp.workspace.write_file({path: "a", content: "b"})`).Stderr, "denied by the rule")
	r := m.Execute(8, `return await mcp.workspace.delete_file({path: "evil.sh"})`)
	if r.Status != api.StatusApprovalRequired || r.ApprovalType != core.ApproveTool || len(r.Pending) != 1 || r.Pending[0].Tool != "workspace:delete_file" {
		t.Errorf("allow without trust: %+v", r)
	}
	if r.ExpiresAt == nil {
		t.Error("approvals.ttl 0 was taken from an untrusted file")
	}
	pmltest.Wants(t, m.OK("config", "show").Stderr, "not trusted on this machine: pml ignores what they allow and set")
	if evilRan(m) {
		t.Fatal("the repository's command ran")
	}

	// Without a terminal trust is not given by asking for it.
	m.Exit(8, "trust")
	pmltest.Wants(t, m.OK("trust", "--show").Stdout, "not trusted", "./evil.sh", "\"*\"")
	if evilRan(m) || m.Exit(8, "execute", "--code", `await mcp.evil.echo({value: 1})`).Exit != 8 {
		t.Fatal("looking was taken for trusting")
	}
	m.OK("trust", "--yes")
	m.OK("execute", "--code", `return await mcp.evil.echo({value: 1})`)
	if !evilRan(m) {
		t.Error("trusted, and not run")
	}

	// A pull changes one line.
	raw, err := os.ReadFile(filepath.Join(m.WS, ".pml.json"))
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", strings.Replace(string(raw), `"run"`, `"steal"`, 1))
	n := m.Count("echo")
	m.Exit(8, "execute", "--code", `return await mcp.evil.echo({value: 2})`)
	pmltest.Wants(t, m.OK("status").Stderr, "have changed since you trusted them")
	pmltest.Wants(t, m.OK("trust", "--show").Stdout, "it changed since you trusted it", "-        \"run\"", "+        \"steal\"")
	m.OK("trust", "--yes")
	// The command differs from the one that ran here: that is asked as well.
	r = m.Execute(8, `return await mcp.evil.echo({value: 2})`)
	if r.ApprovalType != core.ApproveIntegrity || m.Count("echo") != n {
		t.Errorf("a changed command: %s, %d calls", r.ApprovalType, m.Count("echo")-n)
	}
	m.OK("continue", string(r.WorkflowID), "--approve")
	if m.Count("echo") != n+1 {
		t.Errorf("%d calls after the approval", m.Count("echo")-n)
	}
}

// Scenario 31: the file of the command is not the one that pml.lock pins. Trust
// in the files that name it is none in that file.
func TestTrust_ClonedFileDiffers(t *testing.T) {
	t.Parallel()
	m := clone(t, strings.Replace(evil(t), "touch ../ran", "touch ../ran # and more", 1))
	m.OK("trust", "--yes")
	const code = `return await mcp.evil.echo({value: 1})`
	r := m.Execute(8, code)
	if r.ApprovalType != core.ApproveIntegrity || !strings.Contains(string(r.Context), "evil.sh") {
		t.Errorf("%s: %s", r.ApprovalType, r.Context)
	}
	if evilRan(m) {
		t.Fatal("another file than the pinned one ran")
	}
	m.OK("continue", string(r.WorkflowID), "--approve")
	if !evilRan(m) {
		t.Error("approved, and not run")
	}
}

// Scenario 31: what pml writes to pml.lock itself asks nobody again. What somebody
// else writes there counts once it is trusted; what was trusted goes on until then.
func TestTrust_Lock(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.OK("execute", "--code", `await mcp.rec.echo({value: 1})`)
	m.OK("execute", "--code", `await mcp.rec.echo({value: 1})`)
	path := filepath.Join(m.WS, "pml.lock")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(raw), `"echo": "sha256:`) + len(`"echo": "sha256:`)
	forged := string(raw[:i]) + strings.Repeat("0", 64) + string(raw[i+64:])
	m.Write("pml.lock", forged)
	o := m.OK("execute", "--code", `await mcp.rec.echo({value: 1})`)
	pmltest.Wants(t, o.Stderr, "pml.lock", "not the one that was trusted", "pml trust")
	if now := pmltest.ReadFile(t, path); now != forged {
		t.Errorf("written over: %s", now)
	}
	pmltest.Wants(t, m.OK("doctor").Stdout, "not the one that was trusted")
	o = m.Exit(8, "servers", "lock")
	pmltest.Wants(t, o.Stderr, "next: pml trust")
	pmltest.Wants(t, m.OK("trust", "--show", "--full").Stdout, "pml.lock changed", strings.Repeat("0", 64))
	m.OK("trust", "--yes")
	if r := m.Execute(8, `await mcp.rec.echo({value: 1})`); r.ApprovalType != core.ApproveIntegrity {
		t.Errorf("a forged pml.lock, trusted: %s", r.ApprovalType)
	}
}

// Scenario 32: .env, links out of the workspace, "..", absolute paths, and
// writes to what pml and git rely on are refused, through the whole program.
func TestWorkspace_Refuses(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.Config{Permissions: map[string]any{"allow": []string{"workspace"}}, Servers: map[string]map[string]any{"rec": nil}})
	m.Write(".env", "KEY=top-secret-value\n")
	m.Write(".git/hooks/pre-commit", "#!/bin/sh\n")
	m.Write("sub/file.txt", "inside")
	outside := filepath.Join(m.Dir, "outside.txt")
	if err := os.WriteFile(outside, []byte("outside-text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"abs": outside, "rel": "../outside.txt", "dir": "..", "env": ".env", "sub/up": "..", "hooks": ".git/hooks", "cfg": ".pml.json",
	} {
		if err := os.Symlink(to, filepath.Join(m.WS, link)); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]string{}
	guarded := []string{".pml.json", ".env", ".git/hooks/pre-commit"}
	for _, name := range guarded {
		before[name] = string(pmltest.ReadBytes(t, filepath.Join(m.WS, name)))
	}
	r := m.Execute(0, `
		const reads = [".env", "./sub/../.env", "sub/up/.env", "env", ".ENV", ".env.local", "abs", "rel", "dir/outside.txt", "../outside.txt", "/etc/passwd", "sub/../../outside.txt"];
		const writes = [".pml.json", "cfg", "pml.lock", "sub/up/pml.lock", ".git/hooks/pre-commit", "hooks/post-commit", ".GIT/config", ".pml/flows/a.json", ".env", "../new.txt", "dir/new.txt", "abs", "rel"];
		const passed = [], said = [];
		const attempt = async (name, call) => { try { passed.push([name, await call()]) } catch (e) { said.push(e.message) } };
		for (const path of reads) {
			await attempt("read " + path, () => mcp.workspace.read_file({path}));
		}
		for (const path of writes) {
			await attempt("write " + path, () => mcp.workspace.write_file({path, content: "x"}));
			await attempt("edit " + path, () => mcp.workspace.edit_file({path, old: "#", new: "x"}));
			await attempt("move " + path, () => mcp.workspace.move_file({from: "sub/file.txt", to: path}));
		}
		for (const path of writes) {
			await attempt("delete " + path, () => mcp.workspace.delete_file({path}));
		}
		const found = await mcp.workspace.search({query: "top-secret"});
		return {passed, said: said.length, found: JSON.stringify(found), ok: (await mcp.workspace.read_file({path: "sub/file.txt"})).content}`)
	var out struct {
		Passed [][]any
		Said   int
		Found  string
		OK     string
	}
	if err := json.Unmarshal(r.Result, &out); err != nil {
		t.Fatal(err)
	}
	// A link itself may be deleted: what it leads to stays.
	for _, p := range out.Passed {
		if name, _ := p[0].(string); !strings.HasPrefix(name, "delete ") {
			t.Errorf("passed: %v", p)
		}
	}
	if strings.Contains(out.Found, "top-secret") || out.OK != "inside" || out.Said < 50 {
		t.Errorf("%+v", out)
	}
	for _, name := range guarded {
		if got := string(pmltest.ReadBytes(t, filepath.Join(m.WS, name))); got != before[name] {
			t.Errorf("%s was changed: %q", name, got)
		}
	}
	if string(pmltest.ReadBytes(t, outside)) != "outside-text" {
		t.Error("a file outside was changed")
	}
	for _, name := range []string{"new.txt", "ws/pml.lock", "ws/.pml", "ws/.git/hooks/post-commit"} {
		if _, err := os.Stat(filepath.Join(m.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there", name)
		}
	}
}
