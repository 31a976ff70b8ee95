package engine

import (
	"context"

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
	// and for those below an agent (Agent), by which calls are let on that a person has
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
