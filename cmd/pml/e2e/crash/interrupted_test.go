//go:build unix

package crash_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestInterrupted_GoesOn: whatever ends pml in the middle of a run, continue
// goes on from the journal and nothing runs twice.
//
// Scenario 34.
func TestInterrupted_GoesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"code", "dag"} {
		for _, e := range pmltest.Ends {
			t.Run(kind+"/"+e.Name, func(t *testing.T) {
				t.Parallel()
				if kind == "dag" && e.Name != pmltest.Ends[0].Name {
					skiptest.Long(t, "a DAG is stopped as a script is")
				}
				m := pmltest.NewMachine(t, pmltest.AllowRec())
				file := filepath.Join(m.Dir, "go-on")
				p := m.Start(m.Halfway(kind, "wait", file)...)
				pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
				e.Do(p)
				o := p.Wait()
				run := m.Latest()
				if e.Exit != 0 {
					o.Want(e.Exit)
					if !strings.Contains(o.Stderr, "next: pml continue "+run.ID.Short()) || !strings.Contains(o.Stderr, "interrupted") {
						t.Errorf("the message does not say how to go on: %s", o.Stderr)
					}
				}
				if run.State != core.RunInterrupted {
					t.Errorf("the run is %s, want interrupted", run.State)
				}
				pmltest.Touch(t, file)
				if r := m.JSON(0, "continue", string(run.ID)); r.Status != api.StatusComplete {
					t.Errorf("status %s", r.Status)
				}
				want := []string{`inc {"key":"a"}`, fmt.Sprintf(`wait {"file":%q}`, file), fmt.Sprintf(`wait {"file":%q}`, file), `inc {"key":"b"}`}
				if diff := cmp.Diff(want, m.Calls()); diff != "" {
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
		e := pmltest.Ends[i%len(pmltest.Ends)]
		t.Run(answer.name+"/"+e.Name, func(t *testing.T) {
			t.Parallel()
			m := pmltest.NewMachine(t, pmltest.AllowRec())
			file := filepath.Join(m.Dir, "go-on")
			p := m.Start(m.Halfway("code", "hold", file)...)
			pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("hold") == 1 })
			e.Do(p)
			p.Wait()
			run := string(m.Latest().ID)
			for range 2 { // asking again asks the same
				r := m.JSON(8, "continue", run)
				if r.ApprovalType != core.ApproveInDoubt || len(r.Pending) != 1 || r.Pending[0].Tool != "rec:hold" {
					t.Fatalf("waits for %s: %+v", r.ApprovalType, r.Pending)
				}
			}
			pmltest.Touch(t, file)
			o := m.Exit(answer.exit, append([]string{"continue", run, "--json"}, answer.args...)...)
			if answer.counts != "" {
				if diff := cmp.Diff(strings.ReplaceAll(answer.counts, "FILE", file), pmltest.Compact(t, o.Result().Result)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			}
			if got := m.Count("hold"); got != answer.holds {
				t.Errorf("the call in doubt ran %d times, want %d", got, answer.holds)
			}
			if slices.Index(m.Calls(), `inc {"key":"a"}`) != 0 || slices.Contains(m.Calls()[1:], `inc {"key":"a"}`) {
				t.Errorf("calls: %q", m.Calls())
			}
		})
	}
}

// TestContinue_AnswerIsNoApproval: an answer about a call in doubt approves
// nothing else.
func TestContinue_AnswerIsNoApproval(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, `return await mcp.rec.danger({x: "1"})`)
	for _, more := range [][]string{{}, {"--checkpoint", string(r.CheckpointID)}} {
		args := append([]string{"continue", string(r.WorkflowID), "--json", "--answer", "run-again"}, more...)
		if f := m.Exit(2, args...).Fault(); f.Code != core.CodeInvalidArguments {
			t.Errorf("%q: %+v", args, f)
		}
	}
	if n := m.Count("danger"); n != 0 || len(m.Approvals()) != 1 {
		t.Errorf("danger ran %d times, %d approvals wait", n, len(m.Approvals()))
	}
}

// TestInterrupted_OutcomeInTime: a call that answers soon after the signal is
// journaled; nobody is asked about it.
func TestInterrupted_OutcomeInTime(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.Start(m.Halfway("code", "hold", file)...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("hold") == 1 })
	p.Signal(syscall.SIGTERM)
	pmltest.Touch(t, file)
	if o := p.Wait(); o.Exit != 0 { // on a busy machine the call may end, and the run, before pml hears of the signal
		o.Want(143)
		m.JSON(0, "continue", "@latest")
	}
	want := []string{`inc {"key":"a"}`, fmt.Sprintf(`hold {"file":%q}`, file), `inc {"key":"b"}`}
	if diff := cmp.Diff(want, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestInterrupted_SecondSignal: a second signal ends pml at once, and the run
// can still be continued.
func TestInterrupted_SecondSignal(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.Start(m.Halfway("dag", "wait", file)...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
	pmltest.WaitFor(t, "pml ends", func() bool {
		p.Signal(syscall.SIGINT)
		select {
		case <-p.Ended():
			return true
		default:
			return false
		}
	})
	p.Wait().Want(130)
	pmltest.Touch(t, file)
	m.JSON(0, "continue", "@latest")
	if n := m.Count("inc"); n != 2 {
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
			m := pmltest.NewMachine(t, pmltest.AllowRec())
			p := m.Start("execute", "--on-approval", mode, "--code",
				`const a = await mcp.rec.inc({key: "a"}); return (await mcp.rec.danger({x: "n" + a.count})).done`)
			var list []core.Approval
			pmltest.WaitFor(t, "an approval waits", func() bool { list = m.Approvals(); return len(list) == 1 })
			if mode == "wait" {
				p.Kill()
			} else {
				p.Wait().Want(8)
			}
			if got := m.Approvals(); len(got) != 1 || got[0].ID != list[0].ID || got[0].State != core.ApprovalOpen {
				t.Fatalf("after the kill: %+v", got)
			}
			// From another folder: the run goes on in its own workspace.
			m.Env = slices.DeleteFunc(m.Env, func(v string) bool { return strings.HasPrefix(v, "PML_WORKSPACE=") })
			o := m.StartIn(m.Dir, "continue", list[0].RunID.Short(), "--approve", "--json").Wait().Want(0)
			if r := o.Result(); string(r.Result) != `"n1"` || r.Status != api.StatusComplete {
				t.Errorf("%s: %s", r.Status, r.Result)
			}
			if diff := cmp.Diff([]string{`inc {"key":"a"}`, `danger {"x":"n1"}`}, m.Calls()); diff != "" {
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
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	p := m.Start("execute", "--json", "--on-approval", "wait", "--code", fmt.Sprintf(`
		const r = await mcp.rec.list({n: %d});
		return (await Promise.all(r.map(i => mcp.rec.danger({x: String(i)})))).map(r => r.done)`, n))
	var list []core.Approval
	pmltest.WaitFor(t, "all approvals wait", func() bool { list = m.Approvals(); return len(list) == n })
	var waits, looks []time.Duration
	for i, ap := range list {
		exit := 8
		if i == n-1 {
			exit = 0
		}
		r := m.JSON(exit, "continue", string(ap.RunID), "--approve", "--checkpoint", string(ap.ID))
		pmltest.WaitFor(t, "the call runs", func() bool { return m.Count("danger") == i+1 })
		var last pmltest.LogEntry
		for _, e := range m.Entries() {
			if e.Tool == "danger" && e.Event == "start" {
				last = e
			}
		}
		if r.Decided == nil {
			t.Fatal("nobody decided")
		}
		waits = append(waits, last.At.Sub(r.Decided.At))
		began := time.Now()
		m.Approvals()
		looks = append(looks, time.Since(began))
	}
	o := p.Wait().Want(0)
	if r := o.Result(); r.Status != api.StatusSuccess || strings.Count(string(r.Result), ",") != n-1 {
		t.Errorf("the first process: %s %s", r.Status, r.Result)
	}
	if got := m.Count("danger"); got != n {
		t.Errorf("danger ran %d times", got)
	}
	pids := map[int]bool{}
	for _, e := range m.Entries() {
		pids[e.PID] = true
	}
	if len(pids) != 1 {
		t.Errorf("%d servers were started, want that of the first process alone", len(pids))
	}
	slices.Sort(waits)
	slices.Sort(looks)
	t.Logf("decision committed to call started, across processes: p50 %s, max %s of %d; a command takes %s", waits[n/2], waits[n-1], n, looks[n/2])
	// Far above the figure, far below the two seconds of the backstop, on a machine that takes as long for a command as this one.
	if waits[n/2] > max(500*time.Millisecond, 2*looks[n/2]) {
		t.Errorf("median %s: the runner was not woken", waits[n/2])
	}
}

// TestContinue_FollowsRunner: continue without a decision waits for a run that
// lives elsewhere; when that process dies it takes the run over.
//
// Scenario 35: who follows takes over.
func TestContinue_FollowsRunner(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.Start(m.Halfway("code", "wait", file)...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
	q := m.Start("continue", "@latest", "--json")
	p.Kill()
	pmltest.WaitFor(t, "the follower runs it", func() bool { return m.Count("wait") == 2 })
	pmltest.Touch(t, file)
	if r := q.Wait().Want(0).Result(); r.Status != api.StatusComplete {
		t.Errorf("status %s", r.Status)
	}
	if n := m.Count("inc"); n != 2 {
		t.Errorf("inc ran %d times, want 2: %q", n, m.Calls())
	}
}

// TestIdempotencyKey: two executes with one key at the same instant are one
// run; so is a later one.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	args := []string{"execute", "--json", "--idempotency-key", "k1", "--code", `return (await mcp.rec.inc({key: "k"})).count`}
	procs := []*pmltest.Process{m.Start(args...), m.Start(args...), m.Start(args...)}
	ids := map[core.ID]bool{}
	for _, p := range procs {
		r := p.Wait().Want(0).Result()
		ids[r.WorkflowID] = true
		if string(r.Result) != "1" {
			t.Errorf("result %s of %s", r.Result, r.Status)
		}
	}
	ids[m.JSON(0, args...).WorkflowID] = true
	if len(ids) != 1 || m.Count("inc") != 1 {
		t.Errorf("%d runs, %d calls, want one of each", len(ids), m.Count("inc"))
	}
	args[3] = "k2"
	if r := m.JSON(0, args...); ids[r.WorkflowID] || m.Count("inc") != 2 {
		t.Errorf("another key gave the run %s, %d calls", r.WorkflowID, m.Count("inc"))
	}
}

// TestRetry: the failed task of a DAG and what depends on it run again, nothing
// else; a run that did not fail cannot be retried.
func TestRetry(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.Write("retry.json", `{"tasks":[
		{"id":"a","tool":"rec:inc","arguments":{"key":"a"}},
		{"id":"f","tool":"workspace:read_file","arguments":{"path":"later.txt"},"depends_on":["a"]},
		{"id":"after","tool":"rec:echo","arguments":{"value":"$f"},"depends_on":["f"]},
		{"id":"b","tool":"rec:inc","arguments":{"key":"b"}}]}`)
	o := m.Exit(1, "execute", file, "--json")
	id := string(m.Latest().ID)
	if !strings.Contains(o.Stdout+o.Stderr, "later.txt") {
		t.Errorf("the failure does not name the file: %s", o.Stderr)
	}
	m.Exit(1, "retry", id)
	m.Write("later.txt", "here now")
	r := m.JSON(0, "retry", id)
	if !strings.Contains(string(r.Result), "here now") {
		t.Errorf("result %s", r.Result)
	}
	calls := m.Calls()
	slices.Sort(calls)
	if diff := cmp.Diff([]string{`echo`, `inc {"key":"a"}`, `inc {"key":"b"}`}, append([]string{calls[0][:4]}, calls[1:]...)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if f := m.Exit(12, "retry", id, "--json").Fault(); f.Code != core.CodeNotWaiting {
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
			m := pmltest.NewMachine(t, pmltest.AllowRec())
			p := m.Start(append(m.Halfway(kind, "wait", filepath.Join(m.Dir, "never")), "--json")...)
			pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
			r := m.OK("abort", "@latest", "--reason", "changed my mind", "--json").Result()
			if r.Status != api.StatusAborted || r.Reason != "changed my mind" {
				t.Errorf("abort: %s %q", r.Status, r.Reason)
			}
			if r := p.Wait().Want(10).Result(); r.Status != api.StatusAborted {
				t.Errorf("the run's own process: %s", r.Status)
			}
			pmltest.WaitFor(t, "the call is cancelled upstream", func() bool { return m.Events("wait", "cancelled") == 1 })
			w := m.Workflow(r.WorkflowID)
			if w.State != core.RunAborted || len(w.Layers) == 0 || w.Layers[0].Tasks[0].State != core.TaskSuccess {
				t.Errorf("%s: %+v", w.State, w.Layers)
			}
			m.OK("abort", "@latest") // again: the same
			m.Exit(10, "continue", "@latest")
			if n := m.Count("inc"); n != 1 {
				t.Errorf("inc ran %d times, want 1", n)
			}
		})
	}
}

// TestAbort_OfWhatWaits: a run without a process is aborted by whoever asks.
func TestAbort_OfWhatWaits(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, `return await mcp.rec.danger({x: "1"})`)
	m.OK("abort", string(r.WorkflowID))
	if got := m.Approvals(); len(got) != 0 {
		t.Errorf("%d approvals still wait", len(got))
	}
	if got := m.Workflow(r.WorkflowID); got.Approvals[0].State != core.ApprovalSuperseded {
		t.Errorf("the approval is %s, want superseded", got.Approvals[0].State)
	}
	m.Exit(12, "continue", string(r.WorkflowID), "--approve")
}

// TestWatch: watch follows a run of another process to its end and has its
// exit code.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.Start(m.Halfway("dag", "wait", file)...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
	w := m.Start("workflows", "watch", "@latest")
	pmltest.WaitFor(t, "watch shows what was before", func() bool { return strings.Contains(w.Out.String()+w.Err.String(), "rec:wait") })
	pmltest.Touch(t, file)
	p.Wait().Want(0)
	o := w.Wait().Want(0)
	if text := o.Stdout + o.Stderr; strings.Count(text, "rec:inc") < 2 {
		t.Errorf("watch did not show the last task: %s", text)
	}
}

// sandboxes are the sandbox children of a pml.
func sandboxes(p *pmltest.Process) []int {
	p.M.T.Helper()
	var out []int
	for _, pid := range pmltest.Descendants(p.M.T, p.Cmd.Process.Pid) {
		args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
		if err == nil && strings.Contains(string(args), "__sandbox") { // it may have ended
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
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.Start(append(m.Halfway("code", "hold", file), "--json")...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("hold") == 1 })
	pids := sandboxes(p)
	if len(pids) == 0 {
		t.Fatal("there is no sandbox to kill")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	pmltest.Touch(t, file)
	r := p.Wait().Want(0).Result()
	if diff := cmp.Diff(fmt.Sprintf(`[1,%q,1]`, file), pmltest.Compact(t, r.Result)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	want := []string{`inc {"key":"a"}`, fmt.Sprintf(`hold {"file":%q}`, file), `inc {"key":"b"}`}
	if diff := cmp.Diff(want, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestKilled_InBackoff: pml is killed while it waits to try a failed call
// again that its task says can be made twice. Nobody is asked about it.
func TestKilled_InBackoff(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "go-on")
	p := m.Start("execute", m.Write("retry.json", fmt.Sprintf(`{"tasks":[{"id":"h","tool":"rec:hold","arguments":{"file":%q},
		"timeout_ms":200,"side_effects":false,"retry":{"max_attempts":2,"backoff_ms":3600000}}]}`, file)))
	pmltest.WaitFor(t, "the first attempt has failed", func() bool {
		var page api.Page[core.Run]
		m.OK("workflows", "ls", "--json").Decode(&page)
		if len(page.Items) == 0 {
			return false
		}
		task := pmltest.TasksOf(m.Workflow(page.Items[0].ID))["h"]
		return task.State == core.TaskQueued && task.Error != nil
	})
	p.Kill()
	pmltest.Touch(t, file)
	if r := m.JSON(0, "continue", "@latest"); r.Status != api.StatusComplete {
		t.Errorf("status %s: %+v", r.Status, r.Pending)
	}
	if n := m.Count("hold"); n != 2 {
		t.Errorf("the call was made %d times, want 2", n)
	}
}

// TestKilled_ThenDecided: what is left of a killed run can be planned anew, and
// when it is aborted, the call that was under way is not called skipped.
func TestKilled_ThenDecided(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := filepath.Join(m.Dir, "never")
	p := m.Start(m.Halfway("dag", "hold", file)...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("hold") == 1 })
	p.Kill()
	if o := m.Exit(12, "workflows", "rm", "@latest"); !strings.Contains(o.Stderr, "interrupted") {
		t.Errorf("rm does not say that the run was interrupted: %s", o.Stderr)
	}
	add := m.Write("add.json", `{"tasks":[{"id":"new","tool":"rec:inc","arguments":{"key":"new"},"depends_on":["b"]}]}`)
	if r := m.JSON(0, "replan", "@latest", "--tasks", add); r.Status != api.StatusReplanned {
		t.Errorf("replan: %s", r.Status)
	}
	m.OK("abort", "@latest")
	w := m.Workflow(m.Latest().ID)
	states := map[string]core.TaskState{}
	for id, task := range pmltest.TasksOf(w) {
		states[id] = task.State
	}
	want := map[string]core.TaskState{"a": core.TaskSuccess, "w": core.TaskError, "b": core.TaskSkipped, "new": core.TaskSkipped}
	if diff := cmp.Diff(want, states); w.State != core.RunAborted || diff != "" {
		t.Errorf("%s (-want +got):\n%s", w.State, diff)
	}
}
