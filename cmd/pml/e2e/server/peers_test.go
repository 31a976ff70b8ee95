//go:build unix

package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// allowMany lets everything of the recorder through, many calls at once.
func allowMany() pmltest.Config {
	c := pmltest.AllowRec()
	c.Limits["per_server"] = 200
	return c
}

// TestPeers_OneKilled: two servers share a database, and one is killed while it
// runs 50 workflows. The other one finishes them all; nothing that had completed
// runs again, and whatever may or may not have run is asked about.
func TestPeers_OneKilled(t *testing.T) {
	t.Parallel()
	const runs = 50
	m := pmltest.NewMachine(t, allowMany())
	at := shared(t)
	b := besideOf(m, "home-b").Node(at...)
	a := m.Node(at...)
	events := b.Follow()
	gate := filepath.Join(m.Dir, "gate")
	ids := make([]core.ID, runs)
	for i := range ids {
		var req api.ExecuteRequest
		switch held := fmt.Sprintf("%s-%d", gate, i); i % 5 {
		case 0: // a call that changes something is under way
			req.Code = fmt.Sprintf(`await mcp.rec.inc({key: "a%d"}); await mcp.rec.hold({file: %q}); await mcp.rec.inc({key: "b%d"}); return %d`, i, held, i, i)
		case 1: // one that may run again
			req.Tasks = []core.TaskSpec{
				taskOf("a", "rec:inc", fmt.Sprintf(`{"key":"a%d"}`, i)), taskOf("w", "rec:wait", fmt.Sprintf(`{"file":%q}`, held), "a"),
				taskOf("b", "rec:inc", fmt.Sprintf(`{"key":"b%d"}`, i), "w"),
			}
		case 2: // a DAG in the middle
			for k := range 10 {
				spec := taskOf(fmt.Sprintf("s%d", k), "rec:inc", fmt.Sprintf(`{"key":"s%d-%d"}`, i, k))
				pause := taskOf(fmt.Sprintf("p%d", k), "rec:slow", `{"ms":100}`, spec.ID)
				if k > 0 {
					spec.DependsOn = []string{fmt.Sprintf("p%d", k-1)}
				}
				req.Tasks = append(req.Tasks, spec, pause)
			}
		default: // a script in the middle
			req.Code = fmt.Sprintf(`for (let k = 0; k < 10; k++) { await mcp.rec.inc({key: "s%d-" + k}); await mcp.rec.slow({ms: 100}); } return %d`, i, i)
		}
		ids[i] = a.Begin(req)
	}
	within(t, pmltest.LongPatience, "all of them run", func() bool {
		n := map[string]bool{}
		for _, e := range m.Entries() {
			if e.Tool == "hold" || e.Tool == "wait" || e.Tool == "slow" {
				n[e.Tool+string(e.Args)] = true
			}
		}
		return len(n) == 2*runs/5+1 && m.Count("inc") >= 2*runs
	})
	own := map[int]bool{} // the tools of the other server
	b.Begin(api.ExecuteRequest{Code: `return await mcp.rec.read({path: "warm"})`, Wait: -1})
	for _, e := range m.Entries() {
		if e.Tool == "read" {
			own[e.PID] = true
		}
	}
	below := pmltest.Descendants(t, a.Cmd.Process.Pid)
	killed := time.Now()
	a.Signal(syscall.SIGKILL)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
	}
	before := countStarts(m)
	for i := range runs {
		pmltest.Touch(t, fmt.Sprintf("%s-%d", gate, i))
	}
	in := &answers{n: b, asked: map[string]core.InDoubtAnswer{}}
	within(t, pmltest.LongPatience, "the other server finishes all", func() bool {
		in.give(t.Context())
		_, ended := events.Seen()
		return ended == runs+1
	})
	first := time.Duration(0)
	for _, e := range m.Entries() {
		if own[e.PID] && e.Event == "start" && e.At.After(killed) {
			first = e.At.Sub(killed)
			break
		}
	}
	t.Logf("kill to the first task on the other server: %s; to the end of all: %s; asked about %d calls", first, time.Since(killed), len(in.asked))
	// A lease is 10 s and a second of grace; the rest is to take up, also on a machine with much else to do.
	if first > pmltest.Patience {
		t.Errorf("the first task ran %s after the kill", first)
	}

	doubled := 0
	for call, n := range countStarts(m) {
		if tool, _, _ := strings.Cut(call, " "); tool != "inc" && tool != "hold" {
			continue
		}
		if in.asked[call] == core.RunAgain {
			doubled++
			n--
		}
		if n > 1 {
			t.Errorf("%s ran %d times, %d before the kill; answered %q", call, n, before[call], in.asked[call])
		}
	}
	if doubled < runs/5 {
		t.Errorf("%d calls ran again, want at least the %d that were under way", doubled, runs/5)
	}
	for i, id := range ids {
		run, err := b.Client.Workflow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if run.State != core.RunComplete {
			t.Errorf("run %d is %s: %v", i, run.State, run.Error)
		}
		settled := map[string]int{}
		for k, r := range b.Records(id) {
			if r.Seq != int64(k)+1 {
				t.Errorf("run %d: record %d has number %d", i, k+1, r.Seq)
			}
			if r.Kind == core.RecordSettled {
				settled[r.CallID]++
			}
		}
		for call, n := range settled {
			if n != 1 {
				t.Errorf("run %d: %s has %d outcomes", i, call, n)
			}
		}
		if want := 3; i%5 < 2 && len(settled) != want || i%5 >= 2 && len(settled) != 20 {
			t.Errorf("run %d: %d outcomes", i, len(settled))
		}
	}
}

// TestPeers_DecideOnTheOther: any server answers any request: a decision on one
// lets a run go on that the other one runs, and stays with it.
func TestPeers_DecideOnTheOther(t *testing.T) {
	t.Parallel()
	const n = 20
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	at := shared(t)
	b := besideOf(m, "home-b").Node(at...)
	a := m.Node(at...)
	id := a.Begin(api.ExecuteRequest{Code: fmt.Sprintf(`for (let i = 0; i < %d; i++) { await mcp.rec.danger({x: String(i)}) } return "done"`, n)})
	var waits []time.Duration
	for i := range n {
		var open []core.Approval
		pmltest.WaitFor(t, "an approval waits", func() bool {
			var err error
			if open, err = b.Client.Approvals(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			return len(open) == 1
		})
		r, err := b.Client.Continue(t.Context(), api.ContinueRequest{ID: id, Decision: &api.Decision{Approve: true, Checkpoint: open[0].ID}})
		if err != nil || r.Decided == nil {
			t.Fatalf("%+v %v", r, err)
		}
		pmltest.WaitFor(t, "the call runs", func() bool { return m.Count("danger") == i+1 })
		entries := m.Entries()
		last := entries[slices.IndexFunc(entries, func(e pmltest.LogEntry) bool {
			return e.Event == "start" && string(e.Args) == fmt.Sprintf(`{"x":"%d"}`, i)
		})]
		waits = append(waits, last.At.Sub(r.Decided.At))
	}
	pmltest.WaitFor(t, "the run ends", func() bool {
		w, err := b.Client.Workflow(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return w.State == core.RunComplete && string(w.Result) == `"done"`
	})
	pids := map[int]bool{}
	for _, e := range m.Entries() {
		if e.Tool == "danger" {
			pids[e.PID] = true
		}
	}
	if len(pids) != 1 {
		t.Errorf("%d servers of tools were started: the run has moved", len(pids))
	}
	slices.Sort(waits)
	t.Logf("decided on one server to the call on the other: p50 %s, max %s of %d", waits[n/2], waits[n-1], n)
}

// taskOf is a task of a DAG.
func taskOf(id, tool, args string, after ...string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: []byte(args), DependsOn: after}
}
