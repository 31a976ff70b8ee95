package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// patient is a run's view of a store that may be away for a while: a disk is
// full, a database starts anew. What the run asks of it is tried again until it
// works, the time is over, or the context ends.
type patient struct {
	Store
	limit   time.Duration
	endless bool // the time is never over
	logger  *slog.Logger
	run     core.ID
}

func newPatient(e *Engine, l Limits, run core.ID) patient {
	return patient{Store: e.opts.Store, limit: l.StoreRetry, logger: e.opts.Logger, run: run}
}

// The waits between two tries grow from the first to the longest.
const (
	firstRetry   = 50 * time.Millisecond
	longestRetry = 2 * time.Second
)

// busyTries is how often a commit is tried at least while others hold the
// store; each try waits as long as the store lets it.
const busyTries = 3

// try calls f until it does not fail for a reason of the store's that may pass.
func (p patient) try(ctx context.Context, f func() error) error {
	err := f()
	if err == nil || p.limit <= 0 {
		return err
	}
	over := time.NewTimer(p.limit)
	defer over.Stop()
	if p.endless {
		over.Stop()
	}
	level := slog.LevelWarn // once is enough for what may last for hours
	for wait := firstRetry; passing(err); wait = min(2*wait, longestRetry) {
		p.logger.Log(ctx, level, "the store fails; trying again", "workflow_id", p.run, "error", err)
		level = slog.LevelDebug
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-over.C:
			again.Stop()
			return err
		case <-ctx.Done():
			again.Stop()
			return err
		}
		err = f()
	}
	return err
}

// passing reports whether a store may recover from an error.
func passing(err error) bool {
	code := core.CodeOf(err)
	return code == core.CodeStoreFailed || code == core.CodeStoreBusy
}

// commit commits a step once, however often the store fails: whether a try that
// failed was kept all the same is looked up before the next one. A run that cannot be
// created is not there: its caller gets the error at once.
func (p patient) commit(ctx context.Context, step store.Step) error {
	if step.Create {
		return p.Store.Commit(ctx, step)
	}
	tried := 0
	return p.try(ctx, func() error {
		if tried > 0 {
			kept, err := p.kept(ctx, step)
			if kept || err != nil {
				return err
			}
		}
		err := p.Store.Commit(ctx, step)
		for tried++; core.CodeOf(err) == core.CodeStoreBusy && tried < busyTries; tried++ {
			p.logger.Warn("the store is busy; trying again", "workflow_id", p.run, "error", err)
			err = p.Store.Commit(ctx, step)
		}
		return err
	})
}

// kept reports whether a step is in the store. Its run has one writer: what has
// its records has all of it. A step without any is known by its time, to the
// precision that every store keeps.
func (p patient) kept(ctx context.Context, step store.Step) (bool, error) {
	run, err := p.Store.Run(ctx, p.run)
	if err != nil {
		return false, err
	}
	if run.Runner != step.Run.Runner || run.Epoch != step.Run.Epoch {
		return false, nil // the commit says so
	}
	if len(step.Records) > 0 {
		return run.JournalSeq >= step.Records[len(step.Records)-1].Seq, nil
	}
	return run.UpdatedAt.Truncate(time.Microsecond).Equal(step.Run.UpdatedAt.Truncate(time.Microsecond)), nil
}

// Run implements Store.
func (p patient) Run(ctx context.Context, id core.ID) (run core.Run, err error) {
	err = p.try(ctx, func() error { run, err = p.Store.Run(ctx, id); return err })
	return run, err
}

// Program implements Store.
func (p patient) Program(ctx context.Context, id core.ID) (program core.Program, err error) {
	err = p.try(ctx, func() error { program, err = p.Store.Program(ctx, id); return err })
	return program, err
}

// Journal implements Store.
func (p patient) Journal(ctx context.Context, id core.ID, after int64) (list []core.Record, err error) {
	err = p.try(ctx, func() error { list, err = p.Store.Journal(ctx, id, after); return err })
	return list, err
}

// Approvals implements Store.
func (p patient) Approvals(ctx context.Context, f store.ApprovalFilter) (list []core.Approval, err error) {
	err = p.try(ctx, func() error { list, err = p.Store.Approvals(ctx, f); return err })
	return list, err
}

// Halted implements Store.
func (p patient) Halted(ctx context.Context) (h *core.Halt, err error) {
	err = p.try(ctx, func() error { h, err = p.Store.Halted(ctx); return err })
	return h, err
}

// Events implements Store.
func (p patient) Events(ctx context.Context, f store.EventFilter) (list []core.Event, err error) {
	err = p.try(ctx, func() error { list, err = p.Store.Events(ctx, f); return err })
	return list, err
}
