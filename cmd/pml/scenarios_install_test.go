//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install/registrytest"
)

// trees are the folders of a package's installed versions.
func (m *machine) trees(name string) []string {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.Home, "packages", name, "*"))
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

// TestInstall_TwoAtOnce: two runs need the same package, and two processes
// approve it at the same moment. It is installed once, and both finish.
func TestInstall_TwoAtOnce(t *testing.T) {
	t.Parallel()
	reg := registrytest.New(t)
	reg.Publish(toolbox("1.0.0", "Shift."))
	m := withToolbox(t, reg)
	var procs []*process
	for _, r := range []api.Result{m.execute(8, steady), m.execute(8, steady)} {
		procs = append(procs, m.start("continue", string(r.WorkflowID), "--approve", "--json"))
	}
	for _, p := range procs {
		if r := p.wait().want(0).result(); string(r.Result) != `"1.0.0"` {
			t.Errorf("result %s", r.Result)
		}
	}
	if trees := m.trees("toolbox"); len(trees) != 1 {
		t.Errorf("installed: %q", trees)
	}
	if n := reg.Requests("/-/"); n > 2 {
		t.Errorf("the archive was fetched %d times", n)
	}
}

// TestInstall_Killed: pml is killed in the middle of an installation, while npm
// lives on. Nothing of it runs; who goes on with the run finishes it, also with
// the same command, which has approved already.
func TestInstall_Killed(t *testing.T) {
	t.Parallel()
	for name, with := range map[string][]string{"continue": nil, "the same again": {"--approve"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedWhileInstalling(t, with...)
		})
	}
}

func killedWhileInstalling(t *testing.T, with ...string) {
	reg := registrytest.New(t)
	reg.Publish(toolbox("1.0.0", "Shift."))
	m := withToolbox(t, reg)
	r := m.execute(8, steady)
	reg.Break("/-/", registrytest.Hangs)
	p := m.start("continue", string(r.WorkflowID), "--approve")
	reg.Await("/-/", 1)
	npm := descendants(t, p.cmd.Process.Pid)
	p.signal(syscall.SIGKILL)
	p.wait()
	if len(npm) == 0 {
		t.Error("no npm ran")
	}
	if trees := m.trees("toolbox"); len(trees) != 0 {
		t.Fatalf("half an installation: %q", trees)
	}
	if w := m.workflow(r.WorkflowID); w.State != core.RunInterrupted && w.State != core.RunWaiting {
		t.Errorf("the run is %s", w.State)
	}
	m.ok("approvals", "ls")
	reg.Break("/-/", registrytest.Answers)
	if len(with) > 0 {
		m.exit(12, "continue", string(r.WorkflowID), "--deny")
	}
	if r = m.json(0, append([]string{"continue", string(r.WorkflowID)}, with...)...); string(r.Result) != `"1.0.0"` || len(m.trees("toolbox")) != 1 {
		t.Errorf("result %s, installed %q", r.Result, m.trees("toolbox"))
	}
	for _, pid := range npm {
		_ = syscall.Kill(pid, syscall.SIGKILL) // what is left of it waits for the registry
	}
	m.execute(0, steady)
}

// TestInstall_Fails: an installation that fails asks again, with the reason, in
// whatever process looks; with the registry in order again an approval is enough.
func TestInstall_Fails(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]registrytest.Mode{"hangs": registrytest.Hangs, "fails": registrytest.Fails, "cuts off": registrytest.Cuts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.New(t)
			reg.Publish(toolbox("1.0.0", "Shift."))
			m := withToolbox(t, reg)
			m.setenv("npm_config_fetch_timeout", "1000")
			first := m.execute(8, steady)
			reg.Break("/-/", mode)
			r := m.json(8, "continue", string(first.WorkflowID), "--approve")
			if r.ApprovalType != core.ApproveDependency || r.CheckpointID == first.CheckpointID || !strings.Contains(string(r.Context), `"error"`) && !strings.Contains(r.Description, "fail") {
				t.Errorf("after the failure: %s %q: %s", r.ApprovalType, r.Description, r.Context)
			}
			if trees, n := m.trees("toolbox"), reg.Requests("/-/"); len(trees) != 0 || n != 1 {
				t.Errorf("installed %q, with %d requests; want none, with one", trees, n)
			}
			// The same words, whoever looks.
			seen := m.approvals()
			if len(seen) != 1 || seen[0].ID != r.CheckpointID || canonical(t, seen[0].Context) != canonical(t, r.Context) {
				t.Errorf("another process sees %+v", seen)
			}
			wants(t, m.ok("approvals", "show", string(r.CheckpointID)).Stdout, "toolbox", "install")
			reg.Break("/-/", registrytest.Answers)
			if r = m.json(0, "continue", string(r.WorkflowID), "--approve"); string(r.Result) != `"1.0.0"` {
				t.Errorf("result %s", r.Result)
			}
		})
	}
}

// TestInstall_RegistryHangs: before there is anything to ask, a registry that
// never answers is an error with clear words.
func TestInstall_RegistryHangs(t *testing.T) {
	t.Parallel()
	reg := registrytest.New(t)
	reg.Publish(toolbox("1.0.0", "Shift."))
	m := withToolbox(t, reg)
	m.setenv("npm_config_fetch_timeout", "1000")
	reg.Break("", registrytest.Hangs)
	f := m.exit(1, "execute", "--json", "--code", steady).fault()
	if f.Code != core.CodeInstallFailed || !strings.Contains(f.Message, "toolbox@^1.0.0") || !strings.Contains(f.Message, "timeout at: "+reg.URL) {
		t.Errorf("%+v", f)
	}
	reg.Break("", registrytest.Answers)
	m.execute(8, steady)
}

// TestInstall_FullDisk: the disk is full in the middle of an installation. The
// question comes again and says so, nothing half installed is there, and with
// space again it works.
func TestInstall_FullDisk(t *testing.T) {
	t.Parallel()
	reg := registrytest.New(t)
	big := toolbox("1.0.0", "Shift.")
	big.Files["big.bin"] = strings.Repeat("0123456789abcdef", 1<<19)
	reg.Publish(big)
	requireTool(t, "npm")
	m := bareMachine(t)
	m.onDisk("4m")
	m.Env = reg.Env(m.Env)
	m.configure(config{Permissions: map[string]any{"allow": []string{"*"}}, Servers: map[string]map[string]any{
		"rec": nil, "toolbox": {"command": "npx", "args": []string{"-y", "toolbox@^1.0.0"}},
	}})
	r := m.execute(8, steady)
	again := []string{"continue", string(r.WorkflowID)}
	switch out := m.pml(slices.Concat(again, []string{"--approve", "--json"})...); out.Exit {
	case 8:
		r, again = out.result(), append(again, "--approve")
		if r.ApprovalType != core.ApproveDependency || !strings.Contains(string(r.Context), "disk") && !strings.Contains(string(r.Context), "ENOSPC") && !strings.Contains(string(r.Context), "no space") {
			t.Errorf("asks for %s: %s", r.ApprovalType, r.Context)
		}
	case 1: // the run itself had something to write at that moment: the decision stays
		if f := out.fault(); f.Code != core.CodeStoreFailed || !strings.Contains(f.Message, "the disk is full") {
			t.Errorf("%+v", f)
		}
	default:
		t.Fatalf("exit %d: %s %s", out.Exit, out.Stdout, out.Stderr)
	}
	if trees := m.trees("toolbox"); len(trees) != 0 {
		t.Errorf("installed: %q", trees)
	}
	if out, err := exec.Command("mount", "-o", "remount,size=64m", filepath.Dir(m.Home)).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("cannot remount: %v %s", err, out))
	}
	if r = m.json(0, again...); string(r.Result) != `"1.0.0"` {
		t.Errorf("with space: %s", r.Result)
	}
}

// TestInstall_Scripts: the scripts that run on installation are named before,
// and run only where the approval said so.
func TestInstall_Scripts(t *testing.T) {
	t.Parallel()
	for name, allowed := range map[string]bool{"without leave": false, "with leave": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.New(t)
			m := withToolbox(t, reg)
			ran := filepath.Join(m.Dir, "ran")
			p := toolbox("1.0.0", "Shift.")
			p.Scripts = map[string]string{"postinstall": "echo 1 > '" + ran + "'"}
			reg.Publish(p)
			r := m.execute(8, steady)
			if d := dependencyOf(t, r.Pending[0]); len(d.Scripts) != 1 || !strings.Contains(d.Scripts[0], "toolbox") {
				t.Errorf("scripts %q", d.Scripts)
			}
			wants(t, m.ok("approvals", "show", string(r.CheckpointID)).Stdout, "script")
			args := []string{"continue", string(r.WorkflowID), "--approve"}
			if allowed {
				args = append(args, "--allow-scripts")
			}
			m.json(0, args...)
			if _, err := os.Stat(ran); (err == nil) != allowed {
				t.Errorf("it ran: %v", err == nil)
			}
		})
	}
}
