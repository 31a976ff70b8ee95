package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// watched calls a function before a step with outcomes is committed.
type watched struct {
	store.Store
	before func(ctx context.Context)
}

func (w *watched) Commit(ctx context.Context, s store.Step) error {
	for _, r := range s.Records {
		if r.Kind == core.RecordSettled {
			w.before(ctx)
			break
		}
	}
	return w.Store.Commit(ctx, s)
}

// TestRefill: a queued call that may be repeated takes a free place while the
// outcome of the call before it is being committed; one that may not be
// repeated waits until its own record is committed.
func TestRefill(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, tool string, before func(b *bench, second <-chan struct{})) {
		t.Helper()
		b := newBench(t)
		b.Limits.Concurrency = 1
		second := make(chan struct{})
		calls := 0
		b.Host.OnCall = func(engine.Call) { // with one place, one call at a time
			if calls++; calls == 2 {
				close(second)
			}
		}
		first := true
		b.wrap = func(s store.Store) store.Store {
			return &watched{Store: s, before: func(context.Context) {
				if first {
					first = false
					before(b, second)
				}
			}}
		}
		h := b.dag(b.process(), []core.TaskSpec{task("x", tool), task("y", tool)}, core.RunOptions{})
		if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
			t.Error(s.Run.Error)
		}
	}
	t.Run("Reads", func(t *testing.T) {
		t.Parallel()
		run(t, "a:read", func(_ *bench, second <-chan struct{}) {
			select {
			case <-second:
			case <-time.After(hung):
				t.Error("the second call waited for the commit of the first one's outcome")
			}
		})
	})
	t.Run("Writes", func(t *testing.T) {
		t.Parallel()
		run(t, "a:write", func(b *bench, _ <-chan struct{}) {
			if got := len(b.Host.Called()); got != 1 {
				t.Errorf("%d calls before the record of the second one was committed", got)
			}
		})
	})
}
