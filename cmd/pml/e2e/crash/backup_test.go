//go:build unix

package crash_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestBackup: both halves are backed up while the server runs, and are back, with their
// large values, after others have come; what is lost by that has to be meant.
func TestBackup(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	const large = `return "x".repeat(100000)`
	here := m.Execute(0, large).WorkflowID
	there := m.Execute(0, large, "--detach", "--wait", "150s").WorkflowID
	waits := m.Execute(8, `await mcp.rec.danger({x: "a"}); return "decided"`).WorkflowID
	file := filepath.Join(m.Dir, "b.tar")
	m.OK("backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if out := m.PML("restore", os.DevNull); out.Exit != 2 || !strings.Contains(out.Stderr, "no regular file") {
		t.Errorf("a device: %+v", out)
	}
	if out := m.PML("backup", file); out.Exit != 2 {
		t.Errorf("over another one: %+v", out)
	}
	if out := m.PML("restore", file, "--force"); out.Exit == 0 || !strings.Contains(out.Stderr, "server.db is in use by process") || !strings.Contains(out.Stderr, "pml server stop") {
		t.Errorf("while the server runs: %+v", out)
	}
	m.OK("server", "stop")
	m.OK("continue", string(waits), "--approve") // later than the backup
	later := m.Execute(0, large).WorkflowID
	if out := m.PML("restore", file); out.Exit != 2 || !strings.Contains(out.Stderr, "1 workflow(s) and 1 row(s) of the audit log") {
		t.Errorf("without --force: %+v", out)
	}
	if err := os.RemoveAll(filepath.Join(m.Home, "blobs")); err != nil {
		t.Fatal(err)
	}
	m.OK("restore", file, "--force")
	for _, id := range []string{string(here), string(there)} {
		if out := m.OK("workflows", "show", id, "--json"); !strings.Contains(out.Stdout, strings.Repeat("x", 1000)) {
			t.Errorf("%s: %.300s", id, out.Stdout)
		}
	}
	if out := m.PML("workflows", "show", string(later)); out.Exit == 0 {
		t.Errorf("later than the backup: %+v", out)
	}
	m.OK("continue", string(waits), "--approve")
	if out := m.OK("audit", "ls", "--json"); strings.Count(out.Stdout, "restored from a backup") != 2 {
		t.Errorf("%s", out.Stdout)
	}
	m.OK("audit", "verify")
	left, err := filepath.Glob(filepath.Join(m.Home, ".backup-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestExport: a run of either half is read by another machine, where it is looked at and
// nothing else.
func TestExport(t *testing.T) {
	t.Parallel()
	from, to := pmltest.NewMachine(t, pmltest.AllowRec()), pmltest.NewMachine(t, pmltest.AllowRec())
	from.StopAtEnd()
	here := string(from.Execute(8, `const s = await mcp.rec.echo({text: "a"}); await mcp.rec.danger({x: "b"}); return "x".repeat(100000)`).WorkflowID)
	there := string(from.Execute(0, `return "x".repeat(100000)`, "--detach", "--wait", "150s").WorkflowID)
	for id, state := range map[string]string{here: "aborted", there: "complete"} {
		file := filepath.Join(from.Dir, id+".json")
		from.OK("workflows", "export", id, file)
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if out := to.OK("workflows", "import", file, "--json"); !strings.Contains(out.Stdout, `"state": "`+state+`"`) {
			t.Errorf("%s", out.Stdout)
		}
		if out := to.OK("workflows", "import", file); !strings.Contains(out.Stdout, "is already there") {
			t.Errorf("%s", out.Stdout)
		}
		if out := to.OK("workflows", "show", id, "--json"); !strings.Contains(out.Stdout, `"imported"`) {
			t.Errorf("%s", out.Stdout)
		}
	}
	to.PML("continue", here, "--approve")
	to.PML("retry", here)
	if calls := to.Calls(); len(calls) > 0 {
		t.Errorf("a copy made the calls %v", calls)
	}
	if out := to.OK("workflows", "result", there); len(out.Stdout) < 100000 {
		t.Errorf("%d bytes", len(out.Stdout))
	}
	to.OK("audit", "verify")
	from.OK("continue", here, "--approve") // it goes on where it was
}

// TestRestore_Others: a process that executes keeps a restore out and loses nothing; one
// that follows events goes on with those of the restored store.
func TestRestore_Others(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "works on one home from several processes for seconds")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "b.tar")
	m.Execute(0, `return 1`)
	m.OK("backup", file)
	follower := m.Start("events", "--follow", "--json")
	seen := func(id core.ID) func() bool {
		return func() bool { return strings.Contains(follower.Out.String(), string(id)) }
	}
	before := m.Execute(0, `await mcp.rec.echo({text: "a"}); return 2`).WorkflowID
	pmltest.WaitFor(t, "the follower sees a run", seen(before))
	busy := m.Start("execute", "--code", `await mcp.rec.slow({ms: 5000, value: 1}); return await mcp.rec.echo({text: "c"})`, "--json")
	pmltest.WaitFor(t, "the run is under way", func() bool { return m.Count("slow") == 1 })
	if out := m.PML("restore", file, "--force"); out.Exit == 0 || !strings.Contains(out.Stderr, "executes workflows") {
		t.Errorf("while a process executes: %+v", out)
	}
	if out := busy.Wait(); out.Exit != 0 {
		t.Errorf("%+v", out)
	}
	m.OK("workflows", "show", string(before))
	m.OK("restore", file, "--force")
	if out := m.PML("workflows", "show", string(before)); out.Exit == 0 {
		t.Errorf("it was not restored: %+v", out)
	}
	after := m.Execute(0, `return 3`).WorkflowID
	pmltest.WaitFor(t, "the follower sees a run after the restore", seen(after))
	follower.Signal(syscall.SIGINT)
	follower.Wait()
}
