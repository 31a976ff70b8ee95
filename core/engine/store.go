package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Store is all that the engine needs of its surroundings: of a file, a database, or a
// service that keeps runs. Suite core/engine/enginetest runs whole programs upon one.
//
// What the surroundings need not do: they start nothing and time nothing. A run that sleeps,
// or waits to try a call again, is one that runs; whoever takes it over waits for the rest,
// by the times in its journal. Which runs have nobody who runs them, and which process lives,
// is asked by whoever owns an engine (store.Runners), not by the engine.
type Store interface {
	Steps
	Runs
	Others
}

// Steps is how the one process that has a run changes it.
//
// A run has one runner at a time, and an epoch that grows with each claim. Both are in each
// step, and the surroundings compare them as they write: a process that was taken for dead may
// be alive, and what it still writes must change nothing (core.CodeFenced). No clock of a
// runner takes part in that.
type Steps interface {
	// Commit keeps a step whole or not at all; what it must refuse is said at store.Step. When
	// it returns nil the step survives the end of any process. When it fails the step may have
	// been kept all the same (an answer can be lost): the engine then reads the run, and
	// commits again only what is not there, so a step has to be visible to its own runner's
	// reads as soon as it is kept. Two things it refuses are about others than the run, and it
	// must know them as it writes, or the engine asks again before it sends a call:
	// that calls are halted, and whether a permission given in another run of the tree counts.
	Commit(ctx context.Context, step store.Step) error
	// Claim makes runner the one of a run that nobody runs, and returns the run with its new
	// epoch. Of any number who claim at the same time, each comes after the other: no two have
	// the same epoch. A run whose runner lives is core.CodeFenced.
	Claim(ctx context.Context, id core.ID, runner string) (core.Run, error)
}

// Runs is what the engine reads of single runs. A runner reads what it has committed, and
// what others had written to its run before it was woken (Others.WatchOthers). What it reads
// of other runs (those that it has started, those of its agent) may be older.
type Runs interface {
	Run(ctx context.Context, id core.ID) (core.Run, error)
	Program(ctx context.Context, id core.ID) (core.Program, error)
	// Journal returns the records after a sequence number, in order and without a gap.
	Journal(ctx context.Context, id core.ID, after int64) ([]core.Record, error)
	// Approvals is asked for those of a run (RunID, with Into the run as of the same moment),
	// and for those below an agent (Agent), by which calls are permitted that a person has
	// permitted elsewhere in the tree.
	Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error)
	// Events is asked for the lines that a run has logged, which a replay does not repeat.
	Events(ctx context.Context, f store.EventFilter) ([]core.Event, error)
}

// Others is what reaches a run from outside, and what it does to other runs.
type Others interface {
	// WatchOthers returns a channel that receives, coalescing and without blocking, after
	// somebody else than this Store has changed what its runs act upon: a decision, a request
	// to abort, a replan, a halt that is over. To be woken for nothing does no harm; a change
	// of which no runner ever hears leaves its run waiting.
	WatchOthers(ctx context.Context) (<-chan struct{}, error)
	// Halted returns who has halted calls, nil while they may begin. It is asked right before
	// a call is sent, and must then be what holds, or have held at most core.HaltLease ago.
	Halted(ctx context.Context) (*core.Halt, error)
	// RequestAbort asks for the end of a run below one that ends.
	RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error)
}

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
