//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// end is a way in which a pml process ends before its run does.
type end struct {
	name string
	do   func(*process)
	exit int // 0: not looked at
}

var ends = []end{
	{"SIGINT", func(p *process) { p.signal(syscall.SIGINT) }, 130},
	{"SIGTERM", func(p *process) { p.signal(syscall.SIGTERM) }, 143},
	// Ctrl-C reaches every process of the terminal's group.
	{"Ctrl-C", func(p *process) { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) }, 130},
	{"kill", func(p *process) { p.signal(syscall.SIGKILL) }, 0},
	{"kill all", (*process).kill, 0},
}

// touch makes a file that the recorder waits for.
func touch(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// halfway is a program that counts a, waits in a call for a file, and counts b;
// kind is code or dag. args are those of execute.
func (m *machine) halfway(kind, tool, file string) (args []string) {
	m.t.Helper()
	if kind == "code" {
		return []string{"execute", "--code", fmt.Sprintf(`
			const a = await mcp.rec.inc({key: "a"});
			const w = await mcp.rec.%s({file: %q});
			const b = await mcp.rec.inc({key: "b"});
			return [a.count, w?.file ?? w, b.count];`, tool, file)}
	}
	return []string{"execute", m.write("half.json", fmt.Sprintf(`{"tasks":[
		{"id":"a","tool":"rec:inc","arguments":{"key":"a"}},
		{"id":"w","tool":"rec:%s","arguments":{"file":%q},"depends_on":["a"]},
		{"id":"b","tool":"rec:inc","arguments":{"key":"b"},"depends_on":["w"]}]}`, tool, file))}
}

// latest is the newest run.
func (m *machine) latest() core.Run {
	m.t.Helper()
	var page api.Page[core.Run]
	m.ok("workflows", "ls", "--json").decode(&page)
	if len(page.Items) == 0 {
		m.t.Fatal("there is no run")
	}
	return page.Items[0]
}

// TestInterrupted_GoesOn: whatever ends pml in the middle of a run, continue
// goes on from the journal and nothing runs twice.
//
// Scenario 34.
func TestInterrupted_GoesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"code", "dag"} {
		for _, e := range ends {
			t.Run(kind+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t, allowRec())
				file := filepath.Join(m.Dir, "go-on")
				p := m.start(m.halfway(kind, "wait", file)...)
				waitFor(t, "the call in the middle runs", func() bool { return m.count("wait") == 1 })
				e.do(p)
				o := p.wait()
				run := m.latest()
				if e.exit != 0 {
					o.want(e.exit)
					if !strings.Contains(o.Stderr, "next: pml continue "+run.ID.Short()) || !strings.Contains(o.Stderr, "interrupted") {
						t.Errorf("the message does not say how to go on: %s", o.Stderr)
					}
				}
				if run.State != core.RunInterrupted {
					t.Errorf("the run is %s, want interrupted", run.State)
				}
				touch(t, file)
				if r := m.json(0, "continue", string(run.ID)); r.Status != api.StatusComplete {
					t.Errorf("status %s", r.Status)
				}
				want := []string{`inc {"key":"a"}`, fmt.Sprintf(`wait {"file":%q}`, file), fmt.Sprintf(`wait {"file":%q}`, file), `inc {"key":"b"}`}
				if diff := cmp.Diff(want, m.calls()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestInterrupted_InDoubt: a call with a side effect that was under way when
// pml ended is asked about, and each answer does what it says.
//
// Scenario 34: nothing that ran runs twice.
func TestInterrupted_InDoubt(t *testing.T) {
	t.Parallel()
	answers := []struct {
		name   string
		args   []string
		exit   int
		holds  int // how often the call in doubt was started, in all
		counts string
	}{
		{"run again", []string{"--answer", "run-again"}, 0, 2, `[1,"FILE",1]`},
		{"approve, without saying which", []string{"--approve"}, 2, 1, ""},
		{"skip", []string{"--answer", "skip", "--result", `{"file":"assumed"}`}, 0, 1, `[1,"assumed",1]`},
		{"deny", []string{"--deny"}, 9, 1, ""},
		{"abort", []string{"--deny", "--abort"}, 10, 1, ""},
	}
	for i, answer := range answers {
		e := ends[i%len(ends)]
		t.Run(answer.name+"/"+e.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, allowRec())
			file := filepath.Join(m.Dir, "go-on")
			p := m.start(m.halfway("code", "hold", file)...)
			waitFor(t, "the call in the middle runs", func() bool { return m.count("hold") == 1 })
			e.do(p)
			p.wait()
			run := string(m.latest().ID)
			for range 2 { // asking again asks the same
				r := m.json(8, "continue", run)
				if r.ApprovalType != core.ApproveInDoubt || len(r.Pending) != 1 || r.Pending[0].Tool != "rec:hold" {
					t.Fatalf("waits for %s: %+v", r.ApprovalType, r.Pending)
				}
			}
			touch(t, file)
			o := m.exit(answer.exit, append([]string{"continue", run, "--json"}, answer.args...)...)
			if answer.counts != "" {
				if diff := cmp.Diff(strings.ReplaceAll(answer.counts, "FILE", file), compact(t, o.result().Result)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			}
			if got := m.count("hold"); got != answer.holds {
				t.Errorf("the call in doubt ran %d times, want %d", got, answer.holds)
			}
			if slices.Index(m.calls(), `inc {"key":"a"}`) != 0 || slices.Contains(m.calls()[1:], `inc {"key":"a"}`) {
				t.Errorf("calls: %q", m.calls())
			}
		})
	}
}

// TestContinue_AnswerIsNoApproval: an answer about a call in doubt approves
// nothing else.
func TestContinue_AnswerIsNoApproval(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	r := m.execute(8, `return await mcp.rec.danger({x: "1"})`)
	for _, more := range [][]string{{}, {"--checkpoint", string(r.CheckpointID)}} {
		args := append([]string{"continue", string(r.WorkflowID), "--json", "--answer", "run-again"}, more...)
		if f := m.exit(2, args...).fault(); f.Code != core.CodeInvalidArguments {
			t.Errorf("%q: %+v", args, f)
		}
	}
	if n := m.count("danger"); n != 0 || len(m.approvals()) != 1 {
		t.Errorf("danger ran %d times, %d approvals wait", n, len(m.approvals()))
	}
}

// TestInterrupted_OutcomeInTime: a call that answers soon after the signal is
// journaled; nobody is asked about it.
func TestInterrupted_OutcomeInTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.start(m.halfway("code", "hold", file)...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("hold") == 1 })
	p.signal(syscall.SIGTERM)
	touch(t, file)
	if o := p.wait(); o.Exit != 0 { // on a busy machine the call may end, and the run, before pml hears of the signal
		o.want(143)
		m.json(0, "continue", "@latest")
	}
	want := []string{`inc {"key":"a"}`, fmt.Sprintf(`hold {"file":%q}`, file), `inc {"key":"b"}`}
	if diff := cmp.Diff(want, m.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestInterrupted_SecondSignal: a second signal ends pml at once, and the run
// can still be continued.
func TestInterrupted_SecondSignal(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.start(m.halfway("dag", "wait", file)...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("wait") == 1 })
	waitFor(t, "pml ends", func() bool {
		p.signal(syscall.SIGINT)
		select {
		case <-p.ended():
			return true
		default:
			return false
		}
	})
	p.wait().want(130)
	touch(t, file)
	m.json(0, "continue", "@latest")
	if n := m.count("inc"); n != 2 {
		t.Errorf("inc ran %d times, want 2", n)
	}
}

// TestPending_SurvivesKill: an approval waits, every process of pml is killed;
// a new one lists it and finishes the run.
//
// Scenario 6. Scenario 35: the runner is dead, the decider takes over.
func TestPending_SurvivesKill(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wait", "exit"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, allowRec())
			p := m.start("execute", "--on-approval", mode, "--code",
				`const a = await mcp.rec.inc({key: "a"}); return (await mcp.rec.danger({x: "n" + a.count})).done`)
			var list []core.Approval
			waitFor(t, "an approval waits", func() bool { list = m.approvals(); return len(list) == 1 })
			if mode == "wait" {
				p.kill()
			} else {
				p.wait().want(8)
			}
			if got := m.approvals(); len(got) != 1 || got[0].ID != list[0].ID || got[0].State != core.ApprovalOpen {
				t.Fatalf("after the kill: %+v", got)
			}
			// From another folder: the run goes on in its own workspace.
			m.Env = slices.DeleteFunc(m.Env, func(v string) bool { return strings.HasPrefix(v, "PML_WORKSPACE=") })
			o := m.startIn(m.Dir, "continue", list[0].RunID.Short(), "--approve", "--json").wait().want(0)
			if r := o.result(); string(r.Result) != `"n1"` || r.Status != api.StatusComplete {
				t.Errorf("%s: %s", r.Status, r.Result)
			}
			if diff := cmp.Diff([]string{`inc {"key":"a"}`, `danger {"x":"n1"}`}, m.calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecision_WakesRunner: a decision in one process lets the process of the
// run go on at once, and that one does the work.
//
// Scenario 35.
func TestDecision_WakesRunner(t *testing.T) {
	t.Parallel()
	const n = 11
	m := newMachine(t, allowRec())
	p := m.start("execute", "--json", "--on-approval", "wait", "--code", fmt.Sprintf(`
		const r = await mcp.rec.list({n: %d});
		return (await Promise.all(r.map(i => mcp.rec.danger({x: String(i)})))).map(r => r.done)`, n))
	var list []core.Approval
	waitFor(t, "all approvals wait", func() bool { list = m.approvals(); return len(list) == n })
	var waits []time.Duration
	for i, ap := range list {
		exit := 8
		if i == n-1 {
			exit = 0
		}
		r := m.json(exit, "continue", string(ap.RunID), "--approve", "--checkpoint", string(ap.ID))
		waitFor(t, "the call runs", func() bool { return m.count("danger") == i+1 })
		var last entry
		for _, e := range m.entries() {
			if e.Tool == "danger" && e.Event == "start" {
				last = e
			}
		}
		if r.Decided == nil {
			t.Fatal("nobody decided")
		}
		waits = append(waits, last.At.Sub(r.Decided.At))
	}
	o := p.wait().want(0)
	if r := o.result(); r.Status != api.StatusSuccess || strings.Count(string(r.Result), ",") != n-1 {
		t.Errorf("the first process: %s %s", r.Status, r.Result)
	}
	if got := m.count("danger"); got != n {
		t.Errorf("danger ran %d times", got)
	}
	pids := map[int]bool{}
	for _, e := range m.entries() {
		pids[e.PID] = true
	}
	if len(pids) != 1 {
		t.Errorf("%d servers were started, want that of the first process alone", len(pids))
	}
	slices.Sort(waits)
	t.Logf("decision committed to call started, across processes: p50 %s, max %s of %d", waits[n/2], waits[n-1], n)
	// Far above the figure, far below the two seconds of the backstop.
	if waits[n/2] > 500*time.Millisecond {
		t.Errorf("median %s: the runner was not woken", waits[n/2])
	}
}

// TestContinue_FollowsRunner: continue without a decision waits for a run that
// lives elsewhere; when that process dies it takes the run over.
//
// Scenario 35: who follows takes over.
func TestContinue_FollowsRunner(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.start(m.halfway("code", "wait", file)...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("wait") == 1 })
	q := m.start("continue", "@latest", "--json")
	p.kill()
	waitFor(t, "the follower runs it", func() bool { return m.count("wait") == 2 })
	touch(t, file)
	if r := q.wait().want(0).result(); r.Status != api.StatusComplete {
		t.Errorf("status %s", r.Status)
	}
	if n := m.count("inc"); n != 2 {
		t.Errorf("inc ran %d times, want 2: %q", n, m.calls())
	}
}

// TestIdempotencyKey: two executes with one key at the same instant are one
// run; so is a later one.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	args := []string{"execute", "--json", "--idempotency-key", "k1", "--code", `return (await mcp.rec.inc({key: "k"})).count`}
	procs := []*process{m.start(args...), m.start(args...), m.start(args...)}
	ids := map[core.ID]bool{}
	for _, p := range procs {
		r := p.wait().want(0).result()
		ids[r.WorkflowID] = true
		if string(r.Result) != "1" {
			t.Errorf("result %s of %s", r.Result, r.Status)
		}
	}
	ids[m.json(0, args...).WorkflowID] = true
	if len(ids) != 1 || m.count("inc") != 1 {
		t.Errorf("%d runs, %d calls, want one of each", len(ids), m.count("inc"))
	}
	args[3] = "k2"
	if r := m.json(0, args...); ids[r.WorkflowID] || m.count("inc") != 2 {
		t.Errorf("another key gave the run %s, %d calls", r.WorkflowID, m.count("inc"))
	}
}

// TestRetry: the failed task of a DAG and what depends on it run again, nothing
// else; a run that did not fail cannot be retried.
func TestRetry(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := m.write("retry.json", `{"tasks":[
		{"id":"a","tool":"rec:inc","arguments":{"key":"a"}},
		{"id":"f","tool":"workspace:read_file","arguments":{"path":"later.txt"},"depends_on":["a"]},
		{"id":"after","tool":"rec:echo","arguments":{"value":"$f"},"depends_on":["f"]},
		{"id":"b","tool":"rec:inc","arguments":{"key":"b"}}]}`)
	o := m.exit(1, "execute", file, "--json")
	id := string(m.latest().ID)
	if !strings.Contains(o.Stdout+o.Stderr, "later.txt") {
		t.Errorf("the failure does not name the file: %s", o.Stderr)
	}
	m.exit(1, "retry", id)
	m.write("later.txt", "here now")
	r := m.json(0, "retry", id)
	if !strings.Contains(string(r.Result), "here now") {
		t.Errorf("result %s", r.Result)
	}
	calls := m.calls()
	slices.Sort(calls)
	if diff := cmp.Diff([]string{`echo`, `inc {"key":"a"}`, `inc {"key":"b"}`}, append([]string{calls[0][:4]}, calls[1:]...)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if f := m.exit(12, "retry", id, "--json").fault(); f.Code != core.CodeNotWaiting {
		t.Errorf("retrying a complete run: %+v", f)
	}
}

// TestAbort_FromElsewhere: abort ends a run of another process; its call is
// cancelled upstream, what was done is kept.
//
// Scenario 18, for code: the command line's part.
func TestAbort_FromElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"code", "dag"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, allowRec())
			p := m.start(append(m.halfway(kind, "wait", filepath.Join(m.Dir, "never")), "--json")...)
			waitFor(t, "the call in the middle runs", func() bool { return m.count("wait") == 1 })
			r := m.ok("abort", "@latest", "--reason", "changed my mind", "--json").result()
			if r.Status != api.StatusAborted || r.Reason != "changed my mind" {
				t.Errorf("abort: %s %q", r.Status, r.Reason)
			}
			if r := p.wait().want(10).result(); r.Status != api.StatusAborted {
				t.Errorf("the run's own process: %s", r.Status)
			}
			waitFor(t, "the call is cancelled upstream", func() bool { return m.events("wait", "cancelled") == 1 })
			w := m.workflow(r.WorkflowID)
			if w.State != core.RunAborted || len(w.Layers) == 0 || w.Layers[0].Tasks[0].State != core.TaskSuccess {
				t.Errorf("%s: %+v", w.State, w.Layers)
			}
			m.ok("abort", "@latest") // again: the same
			m.exit(10, "continue", "@latest")
			if n := m.count("inc"); n != 1 {
				t.Errorf("inc ran %d times, want 1", n)
			}
		})
	}
}

// TestAbort_OfWhatWaits: a run without a process is aborted by whoever asks.
func TestAbort_OfWhatWaits(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	r := m.execute(8, `return await mcp.rec.danger({x: "1"})`)
	m.ok("abort", string(r.WorkflowID))
	if got := m.approvals(); len(got) != 0 {
		t.Errorf("%d approvals still wait", len(got))
	}
	if got := m.workflow(r.WorkflowID); got.Approvals[0].State != core.ApprovalSuperseded {
		t.Errorf("the approval is %s, want superseded", got.Approvals[0].State)
	}
	m.exit(12, "continue", string(r.WorkflowID), "--approve")
}

// TestWatch: watch follows a run of another process to its end and has its
// exit code.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.start(m.halfway("dag", "wait", file)...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("wait") == 1 })
	w := m.start("workflows", "watch", "@latest")
	waitFor(t, "watch shows what was before", func() bool { return strings.Contains(w.out.String()+w.err.String(), "rec:wait") })
	touch(t, file)
	p.wait().want(0)
	o := w.wait().want(0)
	if text := o.Stdout + o.Stderr; strings.Count(text, "rec:inc") < 2 {
		t.Errorf("watch did not show the last task: %s", text)
	}
}

// sandboxes are the sandbox children of a pml.
func (p *process) sandboxes() []int {
	p.m.t.Helper()
	var out []int
	for _, pid := range descendants(p.m.t, p.cmd.Process.Pid) {
		args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
		if err == nil && strings.Contains(string(args), sandboxCommand) { // it may have ended
			out = append(out, pid)
		}
	}
	return out
}

// TestSandboxKilled: the process of a script's sandbox is killed from outside,
// as the kernel does when memory runs out: the run goes on in another one, and
// nothing runs twice.
//
// Scenario 34.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.start(append(m.halfway("code", "hold", file), "--json")...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("hold") == 1 })
	pids := p.sandboxes()
	if len(pids) == 0 {
		t.Fatal("there is no sandbox to kill")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	touch(t, file)
	r := p.wait().want(0).result()
	if diff := cmp.Diff(fmt.Sprintf(`[1,%q,1]`, file), compact(t, r.Result)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	want := []string{`inc {"key":"a"}`, fmt.Sprintf(`hold {"file":%q}`, file), `inc {"key":"b"}`}
	if diff := cmp.Diff(want, m.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestKilled_InBackoff: pml is killed while it waits to try a failed call
// again that its task says can be made twice. Nobody is asked about it.
func TestKilled_InBackoff(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.start("execute", m.write("retry.json", fmt.Sprintf(`{"tasks":[{"id":"h","tool":"rec:hold","arguments":{"file":%q},
		"timeout_ms":200,"side_effects":false,"retry":{"max_attempts":2,"backoff_ms":3600000}}]}`, file)))
	waitFor(t, "the first attempt has failed", func() bool {
		var page api.Page[core.Run]
		m.ok("workflows", "ls", "--json").decode(&page)
		if len(page.Items) == 0 {
			return false
		}
		task := tasksOf(m.workflow(page.Items[0].ID))["h"]
		return task.State == core.TaskQueued && task.Error != nil
	})
	p.kill()
	touch(t, file)
	if r := m.json(0, "continue", "@latest"); r.Status != api.StatusComplete {
		t.Errorf("status %s: %+v", r.Status, r.Pending)
	}
	if n := m.count("hold"); n != 2 {
		t.Errorf("the call was made %d times, want 2", n)
	}
}

// TestKilled_ThenDecided: what is left of a killed run can be planned anew, and
// when it is aborted, the call that was under way is not called skipped.
func TestKilled_ThenDecided(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	file := filepath.Join(m.Dir, "never")
	p := m.start(m.halfway("dag", "hold", file)...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("hold") == 1 })
	p.kill()
	if o := m.exit(12, "workflows", "rm", "@latest"); !strings.Contains(o.Stderr, "interrupted") {
		t.Errorf("rm does not say that the run was interrupted: %s", o.Stderr)
	}
	add := m.write("add.json", `{"tasks":[{"id":"new","tool":"rec:inc","arguments":{"key":"new"},"depends_on":["b"]}]}`)
	if r := m.json(0, "replan", "@latest", "--tasks", add); r.Status != api.StatusReplanned {
		t.Errorf("replan: %s", r.Status)
	}
	m.ok("abort", "@latest")
	w := m.workflow(m.latest().ID)
	states := map[string]core.TaskState{}
	for id, task := range tasksOf(w) {
		states[id] = task.State
	}
	want := map[string]core.TaskState{"a": core.TaskSuccess, "w": core.TaskError, "b": core.TaskSkipped, "new": core.TaskSkipped}
	if diff := cmp.Diff(want, states); w.State != core.RunAborted || diff != "" {
		t.Errorf("%s (-want +got):\n%s", w.State, diff)
	}
}
