package temporal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// orphanage is a store with runs whose runners the test makes up.
type orphanage struct {
	t  *testing.T
	st *temporal.Store
}

// keep creates a run.
func (o *orphanage) keep(state core.RunState, runner string, open ...core.Approval) core.Run {
	o.t.Helper()
	now := time.Now().UTC()
	run := core.Run{
		ID: enginetest.NewID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: state, CreatedAt: now,
		UpdatedAt: now, Runner: runner, Epoch: 1, DAGVersion: 1, RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}
	for i := range open {
		open[i].RunID = run.ID
	}
	if err := o.st.Commit(o.t.Context(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1}, Open: open}); err != nil {
		o.t.Fatal(err)
	}
	return run
}

func (o *orphanage) commit(s store.Step) {
	o.t.Helper()
	if err := o.st.Commit(o.t.Context(), s); err != nil {
		o.t.Fatal(err)
	}
}

func (o *orphanage) register() store.Runner {
	o.t.Helper()
	r, err := o.st.Register(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = r.Close() })
	return r
}

// want waits until the index knows what there is: it lags behind.
func (o *orphanage) want(what, self string, want ...core.Run) {
	o.t.Helper()
	ids := make([]core.ID, 0, len(want))
	for _, r := range want {
		ids = append(ids, r.ID)
	}
	var got []core.ID
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); pause(20 * time.Millisecond) {
		var err error
		if got, err = o.st.Orphans(o.t.Context(), self, 0); err != nil {
			o.t.Fatal(err)
		}
		if slices.Equal(got, ids) {
			return
		}
	}
	o.t.Fatalf("%s: orphans %v, want %v", what, got, ids)
}

// What there is to do is found when its runner has died, and what waits, has ended or is
// somebody's is not.
func TestOrphans(t *testing.T) {
	t.Parallel()
	o := &orphanage{t, open(t, options(t))}
	t.Cleanup(func() { _ = o.st.Close() })
	self, rival := o.register(), o.register()
	running := o.keep(core.RunRunning, "dead")
	interrupted := o.keep(core.RunInterrupted, "")
	own := o.keep(core.RunRunning, self.ID())
	o.keep(core.RunWaiting, "dead")
	taken := o.keep(core.RunRunning, rival.ID())
	o.keep(core.RunComplete, "dead")
	o.want("all", self.ID(), running, interrupted, own)
	if ids, err := o.st.Orphans(t.Context(), self.ID(), 2); err != nil || len(ids) != 2 || ids[0] != running.ID {
		t.Errorf("the oldest two: %v, %v", ids, err)
	}
	if err := rival.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-self.Gone():
	case <-time.After(enginetest.Hung):
		t.Error("nobody says that the rival has gone")
	}
	o.want("after the rival", self.ID(), running, interrupted, own, taken)
	claimed, err := o.st.Claim(t.Context(), taken.ID, self.ID())
	if err != nil || claimed.Epoch != 2 {
		t.Fatalf("epoch %d, %v", claimed.Epoch, err)
	}
	o.want("what somebody has taken", "somebody", running, interrupted)
	running.State = core.RunWaiting
	o.commit(store.Step{Run: running})
	interrupted.State = core.RunAborted
	o.commit(store.Step{Run: interrupted})
	o.want("after the commits", "somebody")
}

// A run that waits has something to do once somebody has decided, or asked for its end.
func TestOrphans_Waiting(t *testing.T) {
	t.Parallel()
	o := &orphanage{t, open(t, options(t))}
	t.Cleanup(func() { _ = o.st.Close() })
	me := core.Actor{Who: "me", Via: core.ViaCLI}
	ask := core.Approval{ID: enginetest.NewID(), Type: core.ApproveTool, State: core.ApprovalOpen, Workspace: "/w", CreatedAt: time.Now().UTC(), Digest: "d"}
	decided, aborted := o.keep(core.RunWaiting, "dead", ask), o.keep(core.RunWaiting, "dead")
	if _, err := o.st.Decide(t.Context(), core.Decision{ApprovalID: ask.ID, Approved: true, By: me, At: time.Now()}, store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	o.want("decided", "me", decided)
	if _, err := o.st.RequestAbort(t.Context(), aborted.ID, core.AbortRequest{By: me, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	o.want("both", "me", decided, aborted)
	o.commit(store.Step{Run: decided})
	o.want("after something else of the runner", "me", decided, aborted)
	o.commit(store.Step{Run: decided, Used: []store.Use{{Approval: ask.ID}}})
	o.want("after it was acted upon", "me", aborted)
}

// A runner whose workflow somebody has ended by hand has told nobody: it is found out.
func TestOrphans_Terminated(t *testing.T) {
	t.Parallel()
	opts := options(t)
	o := &orphanage{t, open(t, opts)}
	t.Cleanup(func() { _ = o.st.Close() })
	self, rival := o.register(), o.register()
	taken := o.keep(core.RunRunning, rival.ID())
	c, err := client.Dial(client.Options{HostPort: opts.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TerminateWorkflow(t.Context(), opts.Name+"/runner/"+rival.ID(), "", "by hand"); err != nil {
		t.Fatal(err)
	}
	o.want("after the end", self.ID(), taken)
}

// A process that has not met the run of an approval finds it in the index, and does not ask
// all the runs that there are.
func TestDecide_AmongMany(t *testing.T) {
	t.Parallel()
	opts := options(t)
	o := &orphanage{t, open(t, opts)}
	t.Cleanup(func() { _ = o.st.Close() })
	for range 10 {
		o.keep(core.RunComplete, "dead")
	}
	ask := core.Approval{ID: enginetest.NewID(), Type: core.ApproveTool, State: core.ApprovalOpen, Workspace: "/w", CreatedAt: time.Now().UTC(), Digest: "d"}
	asks := o.keep(core.RunWaiting, "dead", ask)
	abort := core.AbortRequest{By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now()}
	last := o.keep(core.RunRunning, "dead")
	if _, err := o.st.RequestAbort(t.Context(), last.ID, abort); err != nil {
		t.Fatal(err)
	}
	o.want("so the index knows the earlier ones, too", "me", last)
	st := open(t, opts)
	t.Cleanup(func() { _ = st.Close() })
	for range 2 { // the second time as if the answer had been lost
		a, err := st.Decide(t.Context(), core.Decision{ApprovalID: ask.ID, Approved: true, By: abort.By, At: time.Now()}, store.Renewal{})
		if err != nil || a.RunID != asks.ID || a.State != core.ApprovalApproved {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if met := temporal.Met(st); met != 1 {
		t.Errorf("%d runs were asked", met)
	}
}

// TestRegister_Unheard: a process whose runner's workflow ends before it has given a sign of life is told so, and does not wait for ever.
func TestRegister_Unheard(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Hung)
	defer cancel()
	c := raw(t, opts)
	err := temporal.RegisterDeaf(ctx, s, func(workflow string) {
		go func() { // as Temporal ends it when it hears nothing
			for c.TerminateWorkflow(ctx, workflow, "", "a test") != nil && ctx.Err() == nil {
				pause(10 * time.Millisecond)
			}
		}()
	})
	if core.CodeOf(err) != core.CodeStoreBusy {
		t.Errorf("%v", err)
	}
	if r, err := s.Register(ctx); err != nil || r.Holds(ctx) != nil {
		t.Errorf("tried again: %v", err)
	}
}
