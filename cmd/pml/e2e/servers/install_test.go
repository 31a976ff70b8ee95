//go:build unix

package servers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// treesOf are the folders of a package's installed versions.
func treesOf(m *pmltest.Machine, name string) []string {
	m.T.Helper()
	found, err := filepath.Glob(filepath.Join(m.Home, "packages", name, "*"))
	if err != nil {
		m.T.Fatal(err)
	}
	return found
}

// TestInstall_TwoAtOnce: two runs need the same package, and two processes
// approve it at the same moment. It is installed once, and both finish.
func TestInstall_TwoAtOnce(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages")
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := pmltest.WithToolbox(t, reg)
	var procs []*pmltest.Process
	for _, r := range []api.Result{m.Execute(8, pmltest.CallSteady), m.Execute(8, pmltest.CallSteady)} {
		procs = append(procs, m.Start("continue", string(r.WorkflowID), "--approve", "--json"))
	}
	for _, p := range procs {
		if r := p.Wait().Want(0).Result(); string(r.Result) != `"1.0.0"` {
			t.Errorf("result %s", r.Result)
		}
	}
	if trees := treesOf(m, "toolbox"); len(trees) != 1 {
		t.Errorf("installed: %q", trees)
	}
	if n := reg.Requests("/-/"); n > 2 {
		t.Errorf("the archive was fetched %d times", n)
	}
}

// TestInstall_OneYes: of runs that ask whether to install the same package, a yes to one
// answers those that go on by themselves. One whose process has ended keeps its question,
// and the audit log has a row for each.
func TestInstall_OneYes(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install a package")
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := pmltest.WithToolbox(t, reg)
	parked, asks := m.Execute(8, pmltest.CallSteady), m.Execute(8, pmltest.CallSteady)
	var live []*pmltest.Process
	for range 2 {
		live = append(live, m.Start("execute", "--code", pmltest.CallSteady, "--on-approval", "wait", "--json"))
	}
	pmltest.WaitFor(t, "all ask", func() bool { return len(m.Approvals()) == 4 })
	if r := m.JSON(0, "continue", string(asks.WorkflowID), "--approve"); string(r.Result) != `"1.0.0"` {
		t.Errorf("result %s", r.Result)
	}
	for _, p := range live {
		if r := p.Wait().Want(0).Result(); string(r.Result) != `"1.0.0"` {
			t.Errorf("result %s", r.Result)
		}
	}
	if left := m.Approvals(); len(left) != 1 || left[0].RunID != parked.WorkflowID || m.Audited(core.ApprovalApproved) != 3 {
		t.Errorf("%d rows, left: %+v", m.Audited(core.ApprovalApproved), left)
	}
	m.JSON(0, "continue", string(parked.WorkflowID), "--approve")
}

// TestInstall_Killed: pml is killed in the middle of an installation, while npm
// lives on. Nothing of it runs; who goes on with the run finishes it, also with
// the same command, which has approved already.
func TestInstall_Killed(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	for name, with := range map[string][]string{"continue": nil, "the same again": {"--approve"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedWhileInstalling(t, with...)
		})
	}
}

func killedWhileInstalling(t *testing.T, with ...string) {
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := pmltest.WithToolbox(t, reg)
	r := m.Execute(8, pmltest.CallSteady)
	reg.Break("/-/", registrytest.Hangs)
	p := m.Start("continue", string(r.WorkflowID), "--approve")
	reg.Await("/-/", 1)
	npm := pmltest.Descendants(t, p.Cmd.Process.Pid)
	p.Signal(syscall.SIGKILL)
	p.Wait()
	if len(npm) == 0 {
		t.Error("no npm ran")
	}
	if trees := treesOf(m, "toolbox"); len(trees) != 0 {
		t.Fatalf("half an installation: %q", trees)
	}
	if w := m.Workflow(r.WorkflowID); w.State != core.RunInterrupted && w.State != core.RunWaiting {
		t.Errorf("the run is %s", w.State)
	}
	m.OK("approvals", "ls")
	reg.Break("/-/", registrytest.Answers)
	if len(with) > 0 {
		m.Exit(12, "continue", string(r.WorkflowID), "--deny")
	}
	if r = m.JSON(0, append([]string{"continue", string(r.WorkflowID)}, with...)...); string(r.Result) != `"1.0.0"` || len(treesOf(m, "toolbox")) != 1 {
		t.Errorf("result %s, installed %q", r.Result, treesOf(m, "toolbox"))
	}
	for _, pid := range npm {
		_ = syscall.Kill(pid, syscall.SIGKILL) // what is left of it waits for the registry
	}
	m.Execute(0, pmltest.CallSteady)
}

// TestInstall_Fails: an installation that fails asks again, with the reason, in
// whatever process looks; with the registry in order again an approval is enough.
func TestInstall_Fails(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	for name, mode := range map[string]registrytest.Mode{"hangs": registrytest.Hangs, "fails": registrytest.Fails, "cuts off": registrytest.Cuts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.New(t)
			reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
			m := pmltest.WithToolbox(t, reg)
			m.Setenv("npm_config_fetch_timeout", "1000")
			first := m.Execute(8, pmltest.CallSteady)
			reg.Break("/-/", mode)
			failed := m.Exit(1, "continue", string(first.WorkflowID), "--approve", "--json").Fault()
			if failed.Code != core.CodeInstallFailed && failed.Code != core.CodeIntegrityFailed {
				t.Errorf("%+v", failed)
			}
			r := m.JSON(8, "retry", string(first.WorkflowID))
			if r.ApprovalType != core.ApproveDependency || r.CheckpointID == first.CheckpointID || !strings.Contains(string(r.Context), `"error"`) && !strings.Contains(r.Description, "fail") {
				t.Errorf("after the failure: %s %q: %s", r.ApprovalType, r.Description, r.Context)
			}
			if trees, n := treesOf(m, "toolbox"), reg.Requests("/-/"); len(trees) != 0 || n != 1 {
				t.Errorf("installed %q, with %d requests; want none, with one", trees, n)
			}
			// The same words, whoever looks.
			seen := m.Approvals()
			if len(seen) != 1 || seen[0].ID != r.CheckpointID || canonical(t, seen[0].Context) != canonical(t, r.Context) {
				t.Errorf("another process sees %+v", seen)
			}
			pmltest.Wants(t, m.OK("approvals", "show", string(r.CheckpointID)).Stdout, "toolbox", "install")
			reg.Break("/-/", registrytest.Answers)
			if r = m.JSON(0, "continue", string(r.WorkflowID), "--approve"); string(r.Result) != `"1.0.0"` {
				t.Errorf("result %s", r.Result)
			}
		})
	}
}

// TestInstall_RegistryHangs: before there is anything to ask, a registry that
// never answers is an error with clear words.
func TestInstall_RegistryHangs(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits for a registry that does not answer")
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := pmltest.WithToolbox(t, reg)
	m.Setenv("npm_config_fetch_timeout", "1000")
	reg.Break("", registrytest.Hangs)
	f := m.Exit(1, "execute", "--json", "--code", pmltest.CallSteady).Fault()
	if f.Code != core.CodeInstallFailed || !strings.Contains(f.Message, "toolbox@^1.0.0") || !strings.Contains(f.Message, "timeout at: "+reg.URL) {
		t.Errorf("%+v", f)
	}
	reg.Break("", registrytest.Answers)
	m.Execute(8, pmltest.CallSteady)
}

// TestInstall_FullDisk: the disk is full in the middle of an installation. The
// error says so, nothing half installed is there, and with space again a retry
// works.
func TestInstall_FullDisk(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	reg := registrytest.New(t)
	big := pmltest.Toolbox("1.0.0", "Shift.")
	big.Files["big.bin"] = strings.Repeat("0123456789abcdef", 1<<19)
	reg.Publish(big)
	skiptest.Tool(t, "npm")
	m := pmltest.BareMachine(t)
	m.OnDisk("4m")
	m.Env = reg.Env(m.Env)
	m.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"*"}}, Servers: map[string]map[string]any{
		"rec": nil, "toolbox": {"command": "npx", "args": []string{"-y", "toolbox@^1.0.0"}},
	}})
	r := m.Execute(8, pmltest.CallSteady)
	again := []string{"continue", string(r.WorkflowID)}
	// Where the run itself had something to write at that moment, the decision stays.
	f := m.Exit(1, slices.Concat(again, []string{"--approve", "--json"})...).Fault()
	if f.Code != core.CodeInstallFailed && f.Code != core.CodeStoreFailed || !strings.Contains(f.Message, "the disk is full") {
		t.Errorf("%+v", f)
	}
	if trees := treesOf(m, "toolbox"); len(trees) != 0 {
		t.Errorf("installed: %q", trees)
	}
	if out, err := exec.Command("mount", "-o", "remount,size=64m", filepath.Dir(m.Home)).CombinedOutput(); err != nil {
		skiptest.Missing(t, fmt.Sprintf("cannot remount: %v %s", err, out))
	}
	if f.Code == core.CodeInstallFailed {
		m.JSON(8, "retry", string(r.WorkflowID))
		again = append(again, "--approve")
	}
	if r = m.JSON(0, again...); string(r.Result) != `"1.0.0"` {
		t.Errorf("with space: %s", r.Result)
	}
}

// TestInstall_Scripts: the scripts that run on installation are named before,
// and run only where the approval said so.
func TestInstall_Scripts(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	for name, allowed := range map[string]bool{"without leave": false, "with leave": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.New(t)
			m := pmltest.WithToolbox(t, reg)
			ran := filepath.Join(m.Dir, "ran")
			p := pmltest.Toolbox("1.0.0", "Shift.")
			p.Scripts = map[string]string{"postinstall": "echo 1 > '" + ran + "'"}
			reg.Publish(p)
			r := m.Execute(8, pmltest.CallSteady)
			if d := dependencyOf(t, r.Pending[0]); len(d.Scripts) != 1 || !strings.Contains(d.Scripts[0], "toolbox") {
				t.Errorf("scripts %q", d.Scripts)
			}
			pmltest.Wants(t, m.OK("approvals", "show", string(r.CheckpointID)).Stdout, "script")
			args := []string{"continue", string(r.WorkflowID), "--approve"}
			if allowed {
				args = append(args, "--allow-scripts")
			}
			m.JSON(0, args...)
			if _, err := os.Stat(ran); (err == nil) != allowed {
				t.Errorf("it ran: %v", err == nil)
			}
		})
	}
}
