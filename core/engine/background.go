package engine

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
)

// background is what runs beside the actor of a run: checks, calls, evaluations,
// timers, approvals that are carried out. It touches none of the run's state: what
// follows from it is a function that it returns, which the actor executes.
type background struct {
	batch    *batch
	stop     *stopper
	panicked func(doing string, v any) *core.Error

	// busy counts what will report to inbox, exactly once each.
	busy  int
	inbox chan func(ctx context.Context) error
	notes chan *core.Event // progress
	// children tells which of the runs that calls have started wait for people.
	children chan childState
	// backoffs counts those of busy that only wait until a call is tried again.
	backoffs int
}

func newBackground(b *batch, s *stopper, panicked func(string, any) *core.Error) background {
	return background{
		batch: b, stop: s, panicked: panicked,
		inbox: make(chan func(context.Context) error, 64), notes: make(chan *core.Event, 64), children: make(chan childState),
	}
}

// run runs f in a goroutine; what it returns is executed by the actor.
func (b *background) run(f func(ctx context.Context) func(ctx context.Context) error) {
	b.busy++
	go func() { b.inbox <- b.guarded(f) }()
}

// drain waits for what still runs beside the actor, without acting on it.
func (b *background) drain() {
	for b.busy > 0 {
		<-b.inbox
		b.busy--
	}
}

// guarded is what runs beside the actor. A panic in it says nothing against the
// state of the run: it ends in order.
func (b *background) guarded(f func(ctx context.Context) func(ctx context.Context) error) (done func(ctx context.Context) error) {
	defer func() {
		if v := recover(); v != nil {
			err := b.panicked("a call was made or checked", v)
			done = func(context.Context) error { b.stop.crash(err); return nil }
		}
	}()
	return f(b.stop.work)
}

// after runs f in the actor after a while, unless it is dropped or the run's
// work is cancelled.
func (b *background) after(d time.Duration, dropped <-chan struct{}, f func()) {
	b.run(func(ctx context.Context) func(context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return func(context.Context) error {
				select {
				case <-dropped:
				default:
					f()
				}
				return nil
			}
		case <-dropped:
			return nil
		case <-ctx.Done():
			return nil
		}
	})
}

// report turns the progress of something that runs beside the actor into an
// event.
func (b *background) report(callID, tool, msg string) {
	e := b.batch.event(core.EventTaskLog)
	e.TaskID, e.Tool, e.Message = callID, tool, msg
	select {
	case b.notes <- &e:
	default: // best effort: progress is dropped when there is no room
	}
}
