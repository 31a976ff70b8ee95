package temporal_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// flowRun is what a flow did for a call of a run, some seconds after a fixed time.
func flowRun(key core.FlowKey, of core.ID, second int) core.FlowRun {
	at := time.Date(2026, 11, 28, 8, 0, second, 0, time.UTC)
	return core.FlowRun{
		ID: enginetest.NewID(), Flow: key.Flow, Workspace: key.Workspace, Owner: "ann", RunID: of, CallID: "c1", Tool: "mail:send", State: core.FlowPending, StartedAt: at,
		Nodes: []core.FlowNodeRun{{Node: "h", Type: "hook", State: core.FlowOK, StartedAt: at, Console: []string{"seen"}}},
	}
}

func wantFlowRuns(t *testing.T, s *temporal.Store, f store.FlowRunFilter, want ...core.FlowRun) {
	t.Helper()
	got, err := s.FlowRuns(t.Context(), f)
	if err != nil || len(got) != len(want) || len(want) > 0 && !cmp.Equal(got, want) {
		t.Errorf("%+v: %v\n%s", f, err, cmp.Diff(want, got))
	}
}

// What flows did is there for another process at once, as it was saved last, and goes with the run whose
// calls they did it for; its blobs go, too.
func TestFlowRuns_OfOthers(t *testing.T) {
	t.Parallel()
	opts := options(t)
	dir := t.TempDir()
	opts.Blobs = temporal.Folder(dir)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	here, home := core.FlowKey{Workspace: "/w", Flow: "ask"}, core.FlowKey{Flow: "log"}
	gone, kept := newRun(time.Now()), newRun(time.Now())
	gone.State = core.RunComplete
	for _, run := range []core.Run{gone, kept} {
		if err := s.Commit(t.Context(), begun(run)); err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := flowRun(here, gone.ID, 1), flowRun(home, gone.ID, 2), flowRun(home, kept.ID, 3)
	twice := third
	twice.State, twice.Reason = core.FlowBlocked, "no"
	if err := s.SaveFlowRuns(t.Context(), first, second, third, twice); err != nil {
		t.Fatal(err)
	}
	wantFlowRuns(t, other, store.FlowRunFilter{}, twice, second, first)
	third.State = core.FlowOK
	if err := other.SaveFlowRuns(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	wantFlowRuns(t, s, store.FlowRunFilter{Key: home}, third, second)
	wantFlowRuns(t, s, store.FlowRunFilter{RunID: gone.ID}, second, first)
	wantFlowRuns(t, s, store.FlowRunFilter{Owner: "bob"})
	if err := other.Remove(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	for _, st := range []*temporal.Store{s, other} {
		wantFlowRuns(t, st, store.FlowRunFilter{}, third)
	}
	if n := files(t, dir, "flow-"); n != 1 {
		t.Errorf("%d blobs of flows, want that of the one that is left", n)
	}
}

// A process that is killed between two writes of what flows did hides nothing and loses nothing of others, and
// who saves again has each once.
func TestFlowRuns_Killed(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	ask, log := core.FlowKey{Workspace: "/w", Flow: "ask"}, core.FlowKey{Workspace: "/w", Flow: "log"}
	run := newRun(time.Now(), func(r *core.Run) { r.State = core.RunComplete })
	if err := s.Commit(t.Context(), begun(run)); err != nil {
		t.Fatal(err)
	}
	first, second := flowRun(ask, "of-nobody", 1), flowRun(log, "of-nobody", 2)
	if err := temporal.EnterFlow(t.Context(), s, ask); err != nil { // killed before the flow's workflow begins
		t.Fatal(err)
	}
	wantFlowRuns(t, other, store.FlowRunFilter{})
	if v, err := other.FlowVariables(t.Context(), ask); err != nil || v.Version != 0 {
		t.Errorf("%+v %v", v, err)
	}
	if err := other.Remove(t.Context(), run.ID); err != nil {
		t.Errorf("a run: %v", err)
	}
	if err := temporal.PutFlowRuns(t.Context(), s, first); err != nil { // killed before the workflow hears of it
		t.Fatal(err)
	}
	wantFlowRuns(t, other, store.FlowRunFilter{})
	if err := s.SaveFlowRuns(t.Context(), first); err != nil { // killed before the second flow
		t.Fatal(err)
	}
	wantFlowRuns(t, other, store.FlowRunFilter{}, first)
	if err := other.SaveFlowRuns(t.Context(), first, second); err != nil {
		t.Fatal(err)
	}
	wantFlowRuns(t, s, store.FlowRunFilter{}, second, first)
}

// A flow whose runs two processes save again and again goes on in new histories with all that it keeps, and has no more
// blobs than it needs and some that are removed next.
func TestFlowRuns_OverHistories(t *testing.T) {
	t.Parallel()
	opts := options(t)
	dir := t.TempDir()
	opts.Blobs = temporal.Folder(dir)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	key := core.FlowKey{Flow: "limit"}
	var runs []core.FlowRun // newest first
	for i := range 6 {
		runs = append(runs, flowRun(key, core.ID("r"+strconv.Itoa(i)), 10-i))
	}
	if err := s.SaveFlowRuns(t.Context(), runs...); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: opts.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := func() string {
		d, err := c.DescribeWorkflowExecution(t.Context(), temporal.FlowWorkflow(s, key), "")
		if err != nil {
			t.Fatal(err)
		}
		return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	large := json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)
	v := core.FlowVariables{}
	for before := began(); before == began(); {
		v = core.FlowVariables{Version: v.Version + 1, Values: map[string]json.RawMessage{"large": large, "n": json.RawMessage(strconv.FormatInt(v.Version, 10))}}
		if err := s.SetFlowVariables(t.Context(), key, v); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 5 {
			runs[i].DurationUS++
			wg.Go(func() {
				if err := []*temporal.Store{s, other}[i%2].SaveFlowRuns(t.Context(), runs[i]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if v.Version == 500 {
			t.Fatal("30 MB are in one history")
		}
	}
	wantFlowRuns(t, other, store.FlowRunFilter{}, runs...)
	if got, err := other.FlowVariables(t.Context(), key); err != nil || !cmp.Equal(got, v) {
		t.Errorf("version %d instead of %d, %v", got.Version, v.Version, err)
	}
	if n := files(t, dir, "flow-"); n > 250 {
		t.Errorf("%d blobs after version %d", n, v.Version)
	}
	if err := s.SetFlowVariables(t.Context(), key, core.FlowVariables{Version: v.Version}); core.CodeOf(err) != core.CodeNotWaiting {
		t.Errorf("another one under the same version: %v", err)
	}
}

// Where somebody has ended the workflow of a flow nobody counts anew in its place: it can be read, and a change
// says how it is reset. Runs can be removed.
func TestFlow_Ended(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	key := core.FlowKey{Flow: "limit"}
	run := newRun(time.Now(), func(r *core.Run) { r.State = core.RunComplete })
	if err := s.Commit(t.Context(), begun(run)); err != nil {
		t.Fatal(err)
	}
	did := flowRun(key, run.ID, 1)
	v := core.FlowVariables{Version: 1, Values: map[string]json.RawMessage{"n": json.RawMessage("7")}}
	if err := s.SaveFlowRuns(t.Context(), did); err != nil {
		t.Fatal(err)
	}
	if err := s.SetFlowVariables(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: opts.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TerminateWorkflow(t.Context(), temporal.FlowWorkflow(s, key), "", "by hand"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.FlowVariables(t.Context(), key); err != nil || !cmp.Equal(got, v) {
		t.Errorf("%+v %v", got, err)
	}
	wantFlowRuns(t, s, store.FlowRunFilter{}, did)
	for range 2 {
		err := s.SetFlowVariables(t.Context(), key, core.FlowVariables{Version: 2})
		if core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), "workflow reset") {
			t.Errorf("%v", err)
		}
	}
	if err := s.Remove(t.Context(), run.ID); err != nil {
		t.Error(err)
	}
}
