//go:build unix

package servers_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestNPM_RealServer: a server from npm asks to be installed, is installed by
// the approval of another process, is run by node itself, and asks nothing the
// second time, with neither npm nor npx there.
func TestNPM_RealServer(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs from the npm registry")
	skiptest.Tool(t, "npm")
	node := skiptest.Tool(t, "node")
	m := pmltest.BareMachine(t)
	if home, err := os.UserHomeDir(); err == nil {
		m.Setenv("HOME", home) // npm's own cache and settings
	}
	m.Configure(pmltest.Config{
		Permissions: map[string]any{"allow": []any{"filesystem:read*", map[string]any{"tool": "filesystem:write_file", "where": "under(args.path, 'docs')"}}},
		Servers: map[string]map[string]any{"filesystem": {
			"command": "npx", "args": []string{"-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."},
		}},
	})
	m.Write("hello.txt", "hello from the workspace")
	const code = `return await mcp.filesystem.read_text_file({path: "hello.txt"})`
	unreached := func(o pmltest.Output) bool { return o.Exit == 1 && strings.Contains(o.Stderr, "check the network") }
	o := m.PML("execute", "--json", "--code", code)
	for tries := 0; unreached(o) && tries < 4; tries++ { // npm keeps what it has got
		o = m.PML("execute", "--json", "--code", code)
	}
	if unreached(o) {
		skiptest.Missing(t, "needs the npm registry: "+o.Fault().Message)
	}
	r := o.Want(8).Result()
	if r.ApprovalType != core.ApproveDependency || len(r.Pending) != 1 {
		t.Fatalf("waits for %s (%d)", r.ApprovalType, len(r.Pending))
	}
	var asked struct {
		Dependency struct {
			Name, Version, Install, Integrity string
			Packages                          int
			Scripts                           []string
		}
	}
	if err := json.Unmarshal(r.Context, &asked); err != nil {
		t.Fatal(err)
	}
	d := asked.Dependency
	if d.Name != "@modelcontextprotocol/server-filesystem" || d.Version != "2026.8.31" || d.Packages < 10 || len(d.Integrity) != len("sha256:")+64 || d.Scripts == nil {
		t.Errorf("what is asked: %+v", d)
	}
	if _, err := os.Stat(filepath.Join(m.Home, "packages", "@modelcontextprotocol")); err == nil {
		t.Error("it was installed before it was approved")
	}
	r = m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if r.Status != api.StatusComplete || !strings.Contains(string(r.Result), "hello from the workspace") {
		t.Errorf("%s: %s", r.Status, r.Result)
	}
	m.Write("docs/a.md", "a")
	m.Execute(0, `await mcp.filesystem.write_file({path: "docs/a.md", content: "b"})`)
	m.Execute(8, `await mcp.filesystem.write_file({path: "docs/../a.md", content: "b"})`)
	if pmltest.ReadFile(t, filepath.Join(m.WS, "docs", "a.md")) != "b" {
		t.Error("what the condition allows was not written")
	}
	if lock := pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock")); !strings.Contains(lock, "2026.8.31") || !strings.Contains(lock, d.Integrity) {
		t.Errorf("pml.lock does not pin it: %s", lock)
	}

	bin := filepath.Join(m.Dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(node, filepath.Join(bin, "node")); err != nil {
		t.Fatal(err)
	}
	m.Setenv("PATH", bin)
	if r = m.Execute(0, code); !strings.Contains(string(r.Result), "hello from the workspace") {
		t.Errorf("the second run: %s", r.Result)
	}

	// A colleague who has the lock is asked for the very same tree.
	before := d.Integrity
	m.Setenv("PATH", os.Getenv("PATH"))
	m.Setenv("PML_HOME", filepath.Join(m.Dir, "home2"))
	m.OK("trust", "--yes")
	r = m.Execute(8, code)
	if err := json.Unmarshal(r.Context, &asked); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, asked.Dependency.Integrity); diff != "" || r.ApprovalType != core.ApproveDependency {
		t.Errorf("with pml.lock another machine is asked for %s (-want +got):\n%s", r.ApprovalType, diff)
	}
}

// TestNPM_Missing: without node or npm there is one clear error that says so,
// and the run can go on once it is there.
func TestNPM_Missing(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Configure(pmltest.Config{
		Permissions: map[string]any{"allow": []string{"a"}},
		Servers:     map[string]map[string]any{"a": pmltest.NPX("a")},
	})
	empty := filepath.Join(m.Dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	m.Setenv("PATH", empty)
	const code = `return await mcp.a.echo({value: 1})`
	missingOne := func(name, args string) {
		t.Helper()
		o := m.PML(append(strings.Fields(args), "--json")...)
		if args == "" {
			o = m.PML("execute", "--json", "--code", code)
		}
		o.Want(1)
		f := o.Fault()
		if f.Code != core.CodeInstallFailed || !strings.Contains(f.Message, name+" is not on PATH") || strings.Count(o.Stderr, "is not on PATH") > 2 {
			t.Errorf("%s: %s", name, o.Stderr)
		}
	}
	missingOne("npm", "")
	m.WithNPM("/usr/bin/env node")
	r := m.Execute(8, code)
	// Approved and installed, it cannot be started.
	missingOne("node", "continue "+string(r.WorkflowID)+" --approve")
	missingOne("node", "")
}

// TestNPM_InstallFails: an install that fails ends the run with the reason; a
// later run asks anew.
func TestNPM_InstallFails(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.WithNPM("/bin/sh")
	m.Configure(pmltest.Config{
		Permissions: map[string]any{"allow": []string{"a"}},
		Servers:     map[string]map[string]any{"a": pmltest.NPX("a")},
	})
	r := m.Execute(8, `return (await mcp.a.inc({key: "k"})).count`)
	npm := filepath.Join(m.Dir, "bin", "npm")
	good := pmltest.ReadFile(t, npm)
	if err := os.WriteFile(npm, []byte("#!/bin/sh\necho 'npm error code ENOSPC' >&2\necho 'npm error no space left on device' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	failed := m.JSON(1, "continue", string(r.WorkflowID), "--approve")
	if failed.ErrorCode != core.CodeInstallFailed || !strings.Contains(failed.Error, "no space left") {
		t.Errorf("ended with %s: %s", failed.ErrorCode, failed.Error)
	}
	if err := os.WriteFile(npm, []byte(good), 0o755); err != nil {
		t.Fatal(err)
	}
	r = m.Execute(8, `return (await mcp.a.inc({key: "k"})).count`)
	if got := m.JSON(0, "continue", string(r.WorkflowID), "--approve"); string(got.Result) != "1" {
		t.Errorf("result %s", got.Result)
	}
}

// TestNPM_InterruptedInstall: what ends pml in the middle of an approved
// installation does not take the approval back: continue installs.
//
// Scenario 34, at the gate.
func TestNPM_InterruptedInstall(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	for _, e := range pmltest.Ends {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			m := pmltest.BareMachine(t)
			m.WithNPM("/bin/sh")
			m.Configure(pmltest.Config{
				Permissions: map[string]any{"allow": []string{"a"}},
				Servers:     map[string]map[string]any{"a": pmltest.NPX("a")},
			})
			r := m.Execute(8, `return (await mcp.a.inc({key: "k"})).count`)
			npm, began := filepath.Join(m.Dir, "bin", "npm"), filepath.Join(m.Dir, "began")
			good := pmltest.ReadFile(t, npm)
			slow := "#!/bin/sh\n/bin/mkdir -p node_modules/a; echo half > node_modules/a/package.json; : > " + began + "; exec /bin/sleep 60\n"
			if err := os.WriteFile(npm, []byte(slow), 0o755); err != nil {
				t.Fatal(err)
			}
			p := m.Start("continue", string(r.WorkflowID), "--approve")
			pmltest.WaitFor(t, "npm installs", func() bool { _, err := os.Stat(began); return err == nil })
			e.Do(p)
			if o := p.Wait(); e.Exit != 0 {
				o.Want(e.Exit)
			}
			if err := os.WriteFile(npm, []byte(good), 0o755); err != nil {
				t.Fatal(err)
			}
			if got := m.JSON(0, "continue", string(r.WorkflowID)); string(got.Result) != "1" {
				t.Errorf("result %s", got.Result)
			}
			if got := m.Workflow(r.WorkflowID).Approvals; len(got) != 1 {
				t.Errorf("asked %d times, want once", len(got))
			}
		})
	}
}
