//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install/registrytest"
)

// server is a configured server as servers ls shows it.
func (m *machine) server(name string) api.ServerInfo {
	m.t.Helper()
	var page api.Page[api.ServerInfo]
	m.ok("servers", "ls", "--json").decode(&page)
	for _, s := range page.Items {
		if s.Name == name {
			return s
		}
	}
	m.t.Fatalf("no server %s in %+v", name, page.Items)
	return api.ServerInfo{}
}

// withEmptyProject is a machine whose npm knows one registry, in a workspace
// without any files.
func withEmptyProject(t *testing.T, reg *registrytest.Registry) *machine {
	t.Helper()
	requireTool(t, "npm")
	requireTool(t, "node")
	m := bareMachine(t)
	m.Env = reg.Env(m.Env)
	return m
}

// TestServers_Life: a server is added, checked, pinned, cloned by a colleague,
// used, updated on both machines and removed, and every command ends with the
// code that a script needs.
func TestServers_Life(t *testing.T) {
	t.Parallel()
	reg := registrytest.New(t)
	reg.Publish(toolbox("1.0.0", "Shift."))
	m := withEmptyProject(t, reg)
	m.write(".pml.json", "{\n  // ours\n  \"permissions\": {\"allow\": [\"toolbox\"]}\n}\n")
	m.ok("trust", "--yes")
	add := []string{"servers", "add", "toolbox", "--", "npx", "-y", "toolbox@^1.0.0"}
	shown := m.exit(8, add...)
	wants(t, shown.Stdout+shown.Stderr, ".pml.json", `toolbox@^1.0.0`)
	m.ok("servers", "add", "toolbox", "--yes", "--trust", "--", "npx", "-y", "toolbox@^1.0.0")
	text := readFile(t, filepath.Join(m.WS, ".pml.json"))
	wants(t, text, "// ours", `"toolbox@^1.0.0"`)
	if s := m.server("toolbox"); s.Kind != "npm" || s.Installed || s.Version != "" {
		t.Errorf("added: %+v", s)
	}

	// It needs a person, and check says so without starting or writing anything.
	wants(t, m.exit(8, "servers", "check").Stdout, "toolbox", "dependency")
	m.exit(1, "servers", "lock", "--check")
	if _, err := os.Stat(filepath.Join(m.WS, "pml.lock")); err == nil {
		t.Fatal("a check wrote pml.lock")
	}
	m.ok("servers", "lock")
	m.ok("servers", "lock", "--check")
	digest := m.server("toolbox").Digest
	if len(digest) != len("sha256:")+64 || m.server("toolbox").Version != "1.0.0" || len(m.trees("toolbox")) != 0 {
		t.Errorf("pinned: %+v, installed %q", m.server("toolbox"), m.trees("toolbox"))
	}

	// Whoever clones it later gets that tree, whatever is newer by then.
	reg.Publish(toolbox("1.1.0", "Shift more."))
	colleague := withEmptyProject(t, reg)
	cloneFrom := func() {
		for _, name := range []string{".pml.json", "pml.lock"} {
			colleague.write(name, readFile(t, filepath.Join(m.WS, name)))
		}
		colleague.ok("trust", "--yes")
	}
	cloneFrom()
	m.ok("trust", "--yes") // servers lock is no approval either
	for _, one := range []*machine{m, colleague} {
		r := one.execute(8, steady)
		if d := dependencyOf(t, r.Pending[0]); r.ApprovalType != core.ApproveDependency || d.Version != "1.0.0" || d.Integrity != digest {
			t.Errorf("asked for %s of %+v, want %s", r.ApprovalType, d, digest)
		}
		if r = one.json(0, "continue", string(r.WorkflowID), "--approve"); string(r.Result) != `"1.0.0"` {
			t.Errorf("result %s", r.Result)
		}
		one.ok("servers", "check")
		one.ok("servers", "lock", "--check")
		if s := one.server("toolbox"); !s.Installed || s.State != api.ServerReady || s.Digest != digest {
			t.Errorf("installed: %+v", s)
		}
	}
	if filepath.Base(m.trees("toolbox")[0]) != filepath.Base(colleague.trees("toolbox")[0]) {
		t.Errorf("not the same tree: %q and %q", m.trees("toolbox"), colleague.trees("toolbox"))
	}

	// An update on one machine is asked for on the other.
	m.exit(8, "servers", "update", "toolbox")
	m.ok("servers", "update", "toolbox", "--yes")
	m.ok("servers", "update", "toolbox") // there is nothing newer
	if s := m.server("toolbox"); s.Version != "1.1.0" || s.Digest == digest {
		t.Errorf("updated: %+v", s)
	}
	cloneFrom()
	r := colleague.execute(8, steady)
	if n := r.Pending[0]; n.Type != core.ApproveDependency && n.Type != core.ApproveIntegrity {
		t.Errorf("another tree asks for %s", n.Type)
	}
	for r.Status == api.StatusApprovalRequired {
		r = colleague.pml("continue", string(r.WorkflowID), "--approve", "--json").result()
	}
	if string(r.Result) != `"1.1.0"` {
		t.Errorf("after the colleague's approval: %s", r.Result)
	}

	// Removed, it is gone from the file; purged, from the machine.
	m.exit(8, "servers", "rm", "toolbox")
	m.ok("servers", "rm", "toolbox", "--yes", "--trust")
	if after := readFile(t, filepath.Join(m.WS, ".pml.json")); strings.Contains(after, "npx") || !strings.Contains(after, "// ours") {
		t.Errorf("removed: %s", after)
	}
	m.exit(3, "execute", "--code", steady)
	if len(m.trees("toolbox")) == 0 {
		t.Error("rm without --purge removed the packages")
	}
	m.ok("servers", "rm", "toolbox", "--purge", "--yes", "--trust")
	for _, left := range m.trees("toolbox") { // an older one goes with the next collection
		if strings.HasPrefix(filepath.Base(left), "1.1.0-") {
			t.Errorf("purged, and there is still %q", left)
		}
	}
	if lock := readFile(t, filepath.Join(m.WS, "pml.lock")); strings.Contains(lock, "toolbox") {
		t.Errorf("purged, and pinned: %s", lock)
	}
}

// TestServers_ExitCodes: wrong uses of the commands end with the codes of the
// contract, and change nothing.
func TestServers_ExitCodes(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.ok("servers", "check", "rec")
	before := readFile(t, filepath.Join(m.WS, ".pml.json")) + readFile(t, filepath.Join(m.WS, "pml.lock"))
	for _, c := range []struct {
		exit int
		args []string
	}{
		{2, []string{"servers", "add", "x"}},
		{2, []string{"servers", "add", "x", "--url", "https://x.example/mcp", "--", "y"}},
		{2, []string{"servers", "add", "--yes", "--", "y"}},
		{2, []string{"servers", "add", "x", "--env", "=1", "--", "y"}},
		{2, []string{"servers", "rm"}},
		{2, []string{"servers", "update"}},
		{2, []string{"servers", "nonsense"}},
		{2, []string{"servers", "update", "rec", "--expect-digest", ""}},
		{3, []string{"servers", "rm", "nope", "--yes"}},
		{3, []string{"servers", "check", "nope"}},
		{3, []string{"servers", "update", "nope"}},
		{3, []string{"servers", "connect", "nope"}},
		{2, []string{"servers", "update", "rec"}},
		{2, []string{"servers", "connect", "rec"}},
		{0, []string{"servers", "ls"}},
		{0, []string{"servers", "check", "rec"}},
		{0, []string{"servers", "lock", "--check"}},
	} {
		t.Run(strings.Join(c.args, "_"), func(t *testing.T) {
			o := m.on(t).pml(c.args...)
			if o.Exit != c.exit {
				t.Errorf("exit %d, want %d: %s%s", o.Exit, c.exit, o.Stdout, o.Stderr)
			}
			if c.exit != 0 && !strings.Contains(o.Stderr, "error: ") {
				t.Errorf("no error is shown: %s", o.Stderr)
			}
		})
	}
	if after := readFile(t, filepath.Join(m.WS, ".pml.json")) + readFile(t, filepath.Join(m.WS, "pml.lock")); after != before {
		t.Errorf("the files were changed:\n%s", after)
	}
}

// TestServers_AddAtOnce: several processes change the configuration at the same
// moment. None takes the change of another away: each is written whole, or
// refused with the code of a conflict, and the workspace stays trusted.
func TestServers_AddAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t, config{Permissions: map[string]any{"allow": []string{"*"}}})
	procs := map[string]*process{}
	for i := range 6 {
		name := fmt.Sprintf("s%d", i)
		procs[name] = m.start("servers", "add", name, "--yes", "--trust", "--", recorderBin(t), "--log", m.Log, "--name", name)
	}
	written := 0
	for name, p := range procs {
		o := p.wait()
		there := strings.Contains(readFile(t, filepath.Join(m.WS, ".pml.json")), `"`+name+`": {`)
		switch {
		case o.Exit == 0 && there:
			written++
			m.execute(0, `return await mcp.`+name+`.echo({value: 1})`)
		case o.Exit != 12 || there:
			t.Errorf("%s: exit %d, written: %v: %s%s", name, o.Exit, there, o.Stdout, o.Stderr)
		}
	}
	if written == 0 {
		t.Error("nobody's change was written")
	}
	if o := m.ok("trust", "--show"); strings.Contains(o.Stdout, "not trusted") {
		t.Errorf("the trust is gone: %s", o.Stdout)
	}
}
