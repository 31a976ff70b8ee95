package runs

import (
	"context"
	"sync"
	"time"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// saidAgain is how long a command waits before it looks again for who asks the model.
const saidAgain = 200 * time.Millisecond

// watchAgent shows what an agent has used so far and, at a terminal, what its model writes,
// until the context ends. It changes nothing about how the run goes on.
func watchAgent(ctx context.Context, a *app.App, b api.Workflows, id core.ID) {
	w, err := b.Workflow(ctx, id)
	if err != nil || w.Agent == nil {
		return
	}
	a.Progress.Agent(id, *w.Agent)
	if !a.StderrTTY { // nobody watches
		return
	}
	go said(ctx, b, id, func(e core.Event) error {
		a.Progress.Text(e, core.PieceOf(e).Offset)
		return nil
	})
}

// said calls f with what the model of a run writes, whoever asks it, until the context
// ends or f fails.
func said(ctx context.Context, b api.Workflows, id core.ID, f func(core.Event) error) {
	again := time.NewTicker(saidAgain)
	defer again.Stop()
	for b.Said(ctx, id, f) == nil {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// eventLines prints the events of a run, and what its model writes, each on a line as
// they come.
type eventLines struct {
	a  *app.App
	b  api.Workflows
	id core.ID

	stop context.CancelFunc
	wg   sync.WaitGroup
	mu   sync.Mutex
	last int64
	err  error
}

// printEvents begins to print.
func printEvents(ctx context.Context, a *app.App, b api.Workflows, id core.ID) *eventLines {
	ctx, cancel := context.WithCancel(ctx)
	l := &eventLines{a: a, b: b, id: id, stop: cancel}
	l.wg.Go(func() { _ = b.Events(ctx, id, api.Since{}, true, l.print) })
	l.wg.Go(func() { said(ctx, b, id, l.print) })
	return l
}

func (l *eventLines) print(e core.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && (e.Seq == 0 || e.Seq > l.last) {
		l.last = max(l.last, e.Seq)
		l.err = printEvent(l.a, e)
	}
	return l.err
}

// end prints what is left.
func (l *eventLines) end(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.stop()
	l.wg.Wait()
	if err := l.b.Events(ctx, l.id, api.Since{Any: l.last}, false, l.print); err != nil && l.err == nil {
		return err
	}
	return l.err
}
