//go:build unix

package servers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// serverOf is a configured server as servers ls shows it.
func serverOf(m *pmltest.Machine, name string) api.ServerInfo {
	m.T.Helper()
	var page api.Page[api.ServerInfo]
	m.OK("servers", "ls", "--json").Decode(&page)
	for _, s := range page.Items {
		if s.Name == name {
			return s
		}
	}
	m.T.Fatalf("no server %s in %+v", name, page.Items)
	return api.ServerInfo{}
}

// withEmptyProject is a machine whose npm knows one registry, in a workspace
// without any files.
func withEmptyProject(t *testing.T, reg *registrytest.Registry) *pmltest.Machine {
	t.Helper()
	skiptest.Tool(t, "npm")
	skiptest.Tool(t, "node")
	m := pmltest.BareMachine(t)
	m.Env = reg.Env(m.Env)
	return m
}

// TestServers_Life: a server is added, checked, pinned, cloned by a colleague,
// used, updated on both machines and removed, and every command ends with the
// code that a script needs.
func TestServers_Life(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := withEmptyProject(t, reg)
	m.Write(".pml.json", "{\n  // ours\n  \"permissions\": {\"allow\": [\"toolbox\"]}\n}\n")
	m.OK("trust", "--yes")
	add := []string{"servers", "add", "toolbox", "--", "npx", "-y", "toolbox@^1.0.0"}
	shown := m.Exit(8, add...)
	pmltest.Wants(t, shown.Stdout+shown.Stderr, ".pml.json", `toolbox@^1.0.0`)
	m.OK("servers", "add", "toolbox", "--yes", "--trust", "--", "npx", "-y", "toolbox@^1.0.0")
	text := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json"))
	pmltest.Wants(t, text, "// ours", `"toolbox@^1.0.0"`)
	if s := serverOf(m, "toolbox"); s.Kind != "npm" || s.Installed || s.Version != "" {
		t.Errorf("added: %+v", s)
	}

	// It needs a person, and check says so without starting or writing anything.
	pmltest.Wants(t, m.Exit(8, "servers", "check").Stdout, "toolbox", "dependency")
	m.Exit(1, "servers", "lock", "--check")
	if _, err := os.Stat(filepath.Join(m.WS, "pml.lock")); err == nil {
		t.Fatal("a check wrote pml.lock")
	}
	m.OK("servers", "lock")
	m.OK("servers", "lock", "--check")
	digest := serverOf(m, "toolbox").Digest
	if len(digest) != len("sha256:")+64 || serverOf(m, "toolbox").Version != "1.0.0" || len(treesOf(m, "toolbox")) != 0 {
		t.Errorf("pinned: %+v, installed %q", serverOf(m, "toolbox"), treesOf(m, "toolbox"))
	}

	// Whoever clones it later gets that tree, whatever is newer by then.
	reg.Publish(pmltest.Toolbox("1.1.0", "Shift more."))
	colleague := withEmptyProject(t, reg)
	cloneFrom := func() {
		for _, name := range []string{".pml.json", "pml.lock"} {
			colleague.Write(name, pmltest.ReadFile(t, filepath.Join(m.WS, name)))
		}
		colleague.OK("trust", "--yes")
	}
	cloneFrom()
	m.OK("trust", "--yes") // servers lock is no approval either
	for _, one := range []*pmltest.Machine{m, colleague} {
		r := one.Execute(8, pmltest.CallSteady)
		if d := dependencyOf(t, r.Pending[0]); r.ApprovalType != core.ApproveDependency || d.Version != "1.0.0" || d.Integrity != digest {
			t.Errorf("asked for %s of %+v, want %s", r.ApprovalType, d, digest)
		}
		if r = one.JSON(0, "continue", string(r.WorkflowID), "--approve"); string(r.Result) != `"1.0.0"` {
			t.Errorf("result %s", r.Result)
		}
		one.OK("servers", "check")
		one.OK("servers", "lock", "--check")
		if s := serverOf(one, "toolbox"); !s.Installed || s.State != api.ServerReady || s.Digest != digest {
			t.Errorf("installed: %+v", s)
		}
	}
	if filepath.Base(treesOf(m, "toolbox")[0]) != filepath.Base(treesOf(colleague, "toolbox")[0]) {
		t.Errorf("not the same tree: %q and %q", treesOf(m, "toolbox"), treesOf(colleague, "toolbox"))
	}

	// An update on one machine is asked for on the other.
	m.Exit(8, "servers", "update", "toolbox")
	m.OK("servers", "update", "toolbox", "--yes")
	m.OK("servers", "update", "toolbox") // there is nothing newer
	if s := serverOf(m, "toolbox"); s.Version != "1.1.0" || s.Digest == digest {
		t.Errorf("updated: %+v", s)
	}
	cloneFrom()
	r := colleague.Execute(8, pmltest.CallSteady)
	if n := r.Pending[0]; n.Type != core.ApproveDependency && n.Type != core.ApproveIntegrity {
		t.Errorf("another tree asks for %s", n.Type)
	}
	for r.Status == api.StatusApprovalRequired {
		r = colleague.PML("continue", string(r.WorkflowID), "--approve", "--json").Result()
	}
	if string(r.Result) != `"1.1.0"` {
		t.Errorf("after the colleague's approval: %s", r.Result)
	}

	// Removed, it is gone from the file; purged, from the machine.
	m.Exit(8, "servers", "rm", "toolbox")
	m.OK("servers", "rm", "toolbox", "--yes", "--trust")
	if after := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")); strings.Contains(after, "npx") || !strings.Contains(after, "// ours") {
		t.Errorf("removed: %s", after)
	}
	m.Exit(3, "execute", "--code", pmltest.CallSteady)
	if len(treesOf(m, "toolbox")) == 0 {
		t.Error("rm without --purge removed the packages")
	}
	m.OK("servers", "rm", "toolbox", "--purge", "--yes", "--trust")
	for _, left := range treesOf(m, "toolbox") { // an older one goes with the next collection
		if strings.HasPrefix(filepath.Base(left), "1.1.0-") {
			t.Errorf("purged, and there is still %q", left)
		}
	}
	if lock := pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock")); strings.Contains(lock, "toolbox") {
		t.Errorf("purged, and pinned: %s", lock)
	}
}

// TestServers_ExitCodes: wrong uses of the commands end with the codes of the
// contract, and change nothing.
func TestServers_ExitCodes(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.OK("servers", "check", "rec")
	before := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")) + pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock"))
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
		{3, []string{"servers", "rm", "rec", "nope", "--yes"}},
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
			o := m.In(t).PML(c.args...)
			if o.Exit != c.exit {
				t.Errorf("exit %d, want %d: %s%s", o.Exit, c.exit, o.Stdout, o.Stderr)
			}
			if c.exit != 0 && !strings.Contains(o.Stderr, "error: ") {
				t.Errorf("no error is shown: %s", o.Stderr)
			}
		})
	}
	if after := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")) + pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock")); after != before {
		t.Errorf("the files were changed:\n%s", after)
	}
}

// TestServers_AddAtOnce: several processes change the configuration at the same
// moment. None takes the change of another away: each is written whole, or
// refused with the code of a conflict, and the workspace stays trusted.
func TestServers_AddAtOnce(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.Config{Permissions: map[string]any{"allow": []string{"*"}}})
	procs := map[string]*pmltest.Process{}
	for i := range 6 {
		name := fmt.Sprintf("s%d", i)
		procs[name] = m.Start("servers", "add", name, "--yes", "--trust", "--", pmltest.Recorder(t), "--log", m.Log, "--name", name)
	}
	ended := map[string]pmltest.Output{}
	for name, p := range procs { // none of them writes any more when their servers are called
		ended[name] = p.Wait()
	}
	written := 0
	for name, o := range ended {
		there := strings.Contains(pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")), `"`+name+`": {`)
		switch {
		case o.Exit == 0 && there:
			written++
			m.Execute(0, `return await mcp.`+name+`.echo({value: 1})`)
		case o.Exit != 12 || there:
			t.Errorf("%s: exit %d, written: %v: %s%s", name, o.Exit, there, o.Stdout, o.Stderr)
		}
	}
	if written == 0 {
		t.Error("nobody's change was written")
	}
	if o := m.OK("trust", "--show"); strings.Contains(o.Stdout, "not trusted") {
		t.Errorf("the trust is gone: %s", o.Stdout)
	}
}
