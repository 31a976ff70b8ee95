package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// TestRetry_StoppedInBackoff: pml ends between two attempts of a call with side
// effects. Nobody is asked whether the first has run, for it answered; the next
// process makes the rest of the attempts, and no more.
func TestRetry_StoppedInBackoff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Tools["a:flaky"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, core.Errorf(core.CodeToolFailed, "not yet")
	}}
	flaky := task("t", "a:flaky")
	flaky.Retry = &core.Retry{MaxAttempts: 3, BackoffMS: 3600e3}
	p := b.process()
	h := b.dag(p, []core.TaskSpec{flaky}, core.RunOptions{})
	for attempt := 1; attempt <= 2; attempt++ {
		waitRecord(t, p.st, h.ID, func(r core.Record) bool { return r.Kind == core.RecordVoid && r.Attempt == attempt && r.Error != nil })
		p.close()
		p = b.process()
		h = b.Resume(p.Process, h.ID)
	}
	s := b.Wait(h, engine.Paused)
	if s.Run.State != core.RunFailed || len(s.Pending) != 0 {
		t.Errorf("%s, pending %+v", s.Run.State, s.Pending)
	}
	if n := len(b.Host.Called()); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

// view is a run as callers see it.
func (b *bench) view(st store.Store, id core.ID) core.Workflow {
	b.T.Helper()
	run, err := st.Run(b.T.Context(), id)
	if err != nil {
		b.T.Fatal(err)
	}
	program, err := st.Program(b.T.Context(), id)
	if err != nil {
		b.T.Fatal(err)
	}
	records, err := st.Journal(b.T.Context(), id, 0)
	if err != nil {
		b.T.Fatal(err)
	}
	return engine.View(run, program, records, nil)
}

// TestView_MayHaveRun: of a run that is aborted after pml ended, a call that
// had been started is no skipped one: the server may have it. The same holds
// after somebody was asked about it. One that failed and was to be tried again
// has failed.
func TestView_MayHaveRun(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"AtOnce": false, "Asked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.StopGrace = 1
			started := make(chan struct{}, 1)
			b.Host.Tools["a:once"] = tool{Run: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				started <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			again := task("again", "a:fail")
			again.Retry = &core.Retry{MaxAttempts: 2, BackoffMS: 3600e3}
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("done", "a:read"), task("once", "a:once", "done"), again, task("after", "a:read", "once")}, core.RunOptions{})
			<-started
			waitRecord(t, p.st, h.ID, func(r core.Record) bool { return r.Kind == core.RecordVoid && r.CallID == "again" })
			p.close()
			p = b.process()
			var resumed *engine.Handle
			if asked {
				b.Host.Tools["a:fail"] = tool{Ask: true} // nothing else runs meanwhile
				resumed = b.Resume(p.Process, h.ID)
				b.Wait(resumed, engine.Paused)
			}
			if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me"}, At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			if !asked { // else it may have ended already
				resumed = b.Resume(p.Process, h.ID)
			}
			s := b.Wait(resumed, engine.Ended)
			if s.Run.State != core.RunAborted || s.Summary.Failed < 1 || s.Summary.OK != 1 {
				t.Errorf("%s: %+v", s.Run.State, s.Summary)
			}
			got := map[string]core.TaskState{}
			for _, l := range b.view(p.st, h.ID).Layers {
				for _, task := range l.Tasks {
					got[task.ID] = task.State
					if task.ID == "once" && (task.Error == nil || task.Error.Message == "") {
						t.Error("nothing says that it may have run")
					}
				}
			}
			want := map[string]core.TaskState{"done": core.TaskSuccess, "once": core.TaskError, "again": core.TaskError, "after": core.TaskSkipped}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
		})
	}
}
