package engine

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
)

// stopped reports whether calls wait in the queue because all calls are halted.
func (t *callTable) stopped() bool { return t.halted != nil && t.in[callQueued] > 0 }

// halts takes up that calls are halted, as one has met with it; nil says nothing. The
// run looks at once whether that is over: then nobody wakes it any more.
func (d *dispatcher) halts(h *core.Halt) {
	if h != nil {
		d.calls.halted = h
		d.eng.Wake(d.run.ID)
	}
}

// requeue takes calls that were begun, and whose beginning was not committed, back into
// the queue, in front.
func (t *callTable) requeue() []string {
	ids := make([]string, len(t.pending))
	for i, c := range t.pending {
		ids[i] = c.id
		t.unstart(c)
		c.attempt--
		t.move(c, callQueued)
	}
	t.queue, t.pending, t.cleared = slices.Concat(t.pending, t.queue), nil, 0
	return ids
}

// takeBackHalted takes back the calls of a step that the store has refused because
// somebody has halted all calls. Where that is over already they begin again.
func (a *actor) takeBackHalted(ctx context.Context) error {
	begun := a.calls.requeue()
	a.batch.step.Events = slices.DeleteFunc(slices.Clone(a.batch.step.Events), func(e core.Event) bool {
		return e.Type == core.EventTaskStart && slices.Contains(begun, e.TaskID)
	})
	h, err := a.store.Halted(ctx)
	if err != nil {
		return err
	}
	if a.calls.halted = h; h == nil {
		a.calls.dequeue()
	}
	return nil
}
