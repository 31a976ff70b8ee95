//go:build unix

package server_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// serversStarted are the servers that said that they were ready, by the log.
func serversStarted(m *pmltest.Machine) int {
	m.T.Helper()
	return strings.Count(pmltest.ReadFile(m.T, daemon.LogFile(m.Home)), "the server is ready")
}

// TestDetach_ManyAtOnce: twenty commands on a fresh machine start one server
// and get twenty results.
//
// Scenario 26.
func TestDetach_ManyAtOnce(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	// A DAG: twenty scripts at once may take longer than one script may.
	file := m.DAG("dag.json", pmltest.Task("e", "rec:echo", `{"value":42}`, nil))
	var wg sync.WaitGroup
	results := make([]string, 20)
	for i := range results {
		p := m.Start("execute", file, "--detach", "--wait", "150s")
		wg.Go(func() {
			out := p.Wait()
			results[i] = strings.TrimSpace(out.Stdout)
			if out.Exit != 0 {
				t.Errorf("exit %d: %s", out.Exit, out.Stderr)
			}
		})
	}
	wg.Wait()
	for i, r := range results {
		if !strings.Contains(r, "42") {
			t.Errorf("result %d is %q", i, r)
		}
	}
	if n := serversStarted(m); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	if n := m.Count("echo"); n != 20 {
		t.Errorf("%d calls", n)
	}
	if s := m.Status(0); !s.Server.Background {
		t.Errorf("status %+v", s)
	}
}

// TestDetach_Says: a command that starts the server says so, also one that only looks at
// what an earlier server has kept; the next one has nothing to say.
func TestDetach_Says(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	file := m.DAG("dag.json", pmltest.Task("e", "rec:echo", `{"value":42}`, nil))
	const said = "pml's server was started in the background (process "
	for _, step := range []struct {
		args []string
		says bool
	}{
		{[]string{"execute", file, "--detach", "--wait", "60s"}, true},
		{[]string{"workflows", "ls"}, false},
		{[]string{"server", "stop"}, false},
		{[]string{"workflows", "ls"}, true},
		{[]string{"server", "stop"}, false},
		{[]string{"status", "--json"}, false}, // output for a program has no notes
	} {
		out := m.OK(step.args...)
		if strings.Contains(out.Stderr, said) != step.says {
			t.Errorf("%q says %q", step.args, out.Stderr)
		}
	}
}

// TestDetach_Pipe: whoever reads the output of a command that has started a
// server sees its end with the command's.
//
// Scenario 26.
func TestDetach_Pipe(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	// Descriptor 5 is one that a shell has left open.
	sh := exec.CommandContext(ctx, "sh", "-c", `exec 5>&1; { "$0" execute --code 'return 1' --detach 2>&1; } | cat`, m.Binary())
	sh.Dir, sh.Env = m.WS, append([]string{}, m.Env...)
	sh.WaitDelay = 30 * time.Second
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if s := m.Status(0); !s.Running {
		t.Error("the server is gone: the test shows nothing")
	}
	if len(strings.TrimSpace(string(out))) < 36 {
		t.Errorf("output %q", out)
	}
}

// TestDetach_Decided: a run outlives its caller, waits for a decision, and goes
// on when another process decides; a reader after the server has left starts
// the next one.
func TestDetach_Decided(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	id := strings.TrimSpace(m.OK("execute", "--code", `await mcp.rec.inc({key: "a"}); await mcp.rec.danger({x: "b"}); return "done"`, "--detach").Stdout)
	pmltest.WaitFor(t, "an approval waits", func() bool { return len(m.Approvals()) == 1 })
	if p := m.Approvals()[0]; string(p.RunID) != id || p.Side != core.SideServer {
		t.Errorf("approval %+v", p)
	}
	m.OK("server", "stop")
	r := m.JSON(0, "continue", id[:8], "--approve")
	if r.Status != api.StatusComplete || string(r.Result) != `"done"` || string(r.WorkflowID) != id {
		t.Errorf("result %+v", r)
	}
	if a, b := m.Count("inc"), m.Count("danger"); a != 1 || b != 1 {
		t.Errorf("inc ran %d times, danger %d", a, b)
	}
	m.OK("server", "stop")
	if out := m.OK("workflows", "result", id); out.Stdout != "done\n" {
		t.Errorf("result %q", out.Stdout)
	}
	if n := serversStarted(m); n != 3 {
		t.Errorf("%d servers, want 3", n)
	}
}

// TestDetach_Killed: a server that is killed in the middle is replaced by the
// next command, and the run goes on without running anything twice.
func TestDetach_Killed(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	dag := m.Write("dag.json", `{"tasks":[
		{"id":"a","tool":"rec:inc","arguments":{"key":"a"}},
		{"id":"w","tool":"rec:wait","arguments":{"file":"`+gate+`"},"depends_on":["a"]},
		{"id":"b","tool":"rec:inc","arguments":{"key":"b"},"depends_on":["w"]}]}`)
	id := strings.TrimSpace(m.OK("execute", dag, "--detach").Stdout)
	pmltest.WaitFor(t, "the second task runs", func() bool { return m.Count("wait") == 1 })
	pid := m.Status(0).Server.PID
	below := pmltest.Descendants(t, pid)
	for _, p := range append([]int{pid}, below...) {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := m.OK("workflows", "watch", id); !strings.Contains(out.Stdout, "workflow_complete") {
		t.Errorf("events:\n%s", out.Stdout)
	}
	if a, b := m.Count("inc"), m.Count("wait"); a != 2 || b != 2 {
		t.Errorf("inc ran %d times, wait %d: what reads may run again, what writes may not", a, b)
	}
	if s := m.Status(0); s.Server.PID == pid {
		t.Error("the killed server answers")
	}
}

// TestDetach_WaitsThrough: a command that waits for a run, while its server is
// killed and no other command comes, has another one started and gets the result.
func TestDetach_WaitsThrough(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	p := m.Start(append(m.Halfway("code", "wait", gate), "--detach", "--wait", "150s")...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
	pid := m.Status(0).Server.PID
	for _, pid := range append([]int{pid}, pmltest.Descendants(t, pid)...) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	pmltest.WaitFor(t, "the next server runs it", func() bool { return m.Count("wait") == 2 })
	pmltest.Touch(t, gate)
	out := p.Wait().Want(0)
	if n := strings.Count(out.Stderr, "warning: the pml server at "); n != 1 {
		t.Errorf("a person is told %d times:\n%s", n, out.Stderr)
	}
	if n := m.Count("inc"); n != 2 || serversStarted(m) != 2 {
		t.Errorf("inc ran %d times, %d servers were started", n, serversStarted(m))
	}
}

// TestDetach_Refused: where no server may be started the command says so and
// starts none; one that runs is used.
func TestDetach_Refused(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Setenv("CI", "true")
	f := m.Exit(5, "execute", "--code", "return 1", "--detach", "--json").Fault()
	if f.Code != core.CodeServerUnreachable || !slices.Contains(f.Next, "serve") || !strings.Contains(f.Message, "CI is set") {
		t.Errorf("%+v", f)
	}
	m.Status(5)
	m.Serving()
	m.OK("execute", "--code", "return 1", "--detach", "--wait", "150s")
}

// TestDetach_StartFails: what keeps a server in the background from starting is
// what the command ends with.
//
// Scenario 27.
func TestDetach_StartFails(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	m.OK("execute", "--code", "return 1", "--detach", "--wait", "150s")
	m.OK("server", "stop")
	db := filepath.Join(m.Home, "server.db")
	if err := os.Truncate(db, 100); err != nil {
		t.Fatal(err)
	}
	f := m.Exit(1, "execute", "--code", "return 1", "--detach", "--json").Fault()
	if f.Code != core.CodeStoreFailed || !strings.Contains(f.Message, "server.db") {
		t.Errorf("%+v", f)
	}
	// What is on this machine can still be listed, and says what is missing.
	out := m.OK("workflows", "ls")
	pmltest.Wants(t, out.Stderr, "warning: ", "server.db")
	m.OK("execute", "--code", "return 1")
}

// TestRead_StartsNothing: without anything that a server has kept, no command
// that reads starts one.
func TestRead_StartsNothing(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Execute(0, "return 1")
	for _, args := range [][]string{{"workflows", "ls"}, {"approvals", "ls"}, {"events"}, {"workflows", "show", "@latest"}, {"workflows", "result", "@latest"}} {
		m.OK(args...)
	}
	m.Exit(3, "workflows", "show", "00000000")
	for _, name := range []string{"server.db", "server.json", "server.lock"} {
		if _, err := os.Stat(filepath.Join(m.Home, name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
}

// TestLists_BothHalves: a list has what is on this machine and what a server
// has, and says which is which.
func TestLists_BothHalves(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	here := m.Execute(0, "return 1").WorkflowID
	there := m.Execute(0, "return 2", "--detach", "--wait", "150s").WorkflowID
	var page api.Page[core.Run]
	m.OK("workflows", "ls", "--json").Decode(&page)
	got := map[core.ID]core.Side{}
	for _, r := range page.Items {
		got[r.ID] = r.Side
	}
	if len(got) != 2 || got[here] != core.SideClient || got[there] != core.SideServer {
		t.Errorf("runs %v", got)
	}
	pmltest.Wants(t, m.OK("events").Stdout, "client", "server")
	if out := m.OK("workflows", "result", "@latest"); out.Stdout != "2\n" {
		t.Errorf("the newest: %q", out.Stdout)
	}
	// Both are removed by one command.
	m.OK("workflows", "rm", string(here), string(there))
}

// TestDetach_RestartsServer: what a server says that runs in the background is shown in the
// terminal, and R starts it anew there, in place of a second one beside it.
func TestDetach_RestartsServer(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	m.OK("execute", "--detach", "--wait", "150s", "--code", `return await mcp.rec.inc({key: "k"})`)
	process := func() (p api.ServerProcess) {
		var page api.Page[api.ServerInfo]
		m.OK("servers", "ls", "--json").Decode(&page)
		for _, s := range page.Items {
			if len(s.Elsewhere) > 1 {
				t.Errorf("a second one runs: %+v", s.Elsewhere)
			}
			if len(s.Elsewhere) > 0 {
				if p = s.Elsewhere[0]; s.Served == nil || s.Served.PID != p.PID {
					t.Errorf("of %d its pml says %+v", p.PID, s.Served)
				}
			}
		}
		return p
	}
	before := process()
	if !before.Serves || before.PID == 0 {
		t.Fatalf("%+v", before)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.LongPatience)
	defer cancel()
	s := m.OnScreen(100, 30, m.Command(ctx, "tui"))
	s.Shows("complete")
	s.Types("7")
	s.Shows("runs in pml's background server")
	s.Types("R")
	s.Shows("Restart rec?")
	s.Types("y")
	s.Shows("rec answers")
	s.Types("q")
	s.End()
	if after := process(); after.PID == before.PID || after.Owner != before.Owner {
		t.Errorf("%+v, before %+v", after, before)
	}
}
