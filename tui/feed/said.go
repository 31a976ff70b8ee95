package feed

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// saidAgain is how long a feed waits before it looks again for who asks a model.
const saidAgain = 200 * time.Millisecond

// Listen has what the model of a run writes come as it is written, and no other's; an
// empty id has none come. It returns at once.
func (f *Feed) Listen(id core.ID) {
	f.ask(func(a *asked) bool {
		if a.listen == id {
			return false
		}
		a.listen = id
		return true
	})
}

// hear follows what the model of a run writes instead of what it followed before. What
// comes is handed over at once: it is not for gathering, and what the terminal is too
// slow for comes together.
func (l *loop) hear(id core.ID) {
	if id == l.listens {
		return
	}
	l.listens = id
	l.unhear()
	ctx, cancel := context.WithCancel(l.ctx)
	l.unhear = cancel
	if id == "" {
		return
	}
	l.wg.Go(func() {
		again := time.NewTicker(saidAgain)
		defer again.Stop()
		for {
			_ = l.o.Backend.Said(ctx, id, func(e core.Event) error { // best effort
				if ctx.Err() == nil {
					l.apply(func(s *state.State) { s.PutPiece(e) })
				}
				return ctx.Err()
			})
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	})
}
