// Package feed reads what the terminal shows: the lists at first, then events
// as they happen, and what they changed. It hands everything over in batches,
// so that a thousand events a second are twenty changes.
package feed

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// Link is a change of the connection to a half.
type Link struct {
	Side core.Side
	Up   bool
	None bool   // there is no server, which is no fault
	Name string // of the server
	Err  error
}

// Options are what a Feed is made of.
type Options struct {
	Backend Reader
	// Links calls a function with each change of a connection until the context
	// ends, from any goroutine. Nil: both halves are live.
	Links func(ctx context.Context, f func(Link))
	Clock core.Clock
	// Every is how long changes are gathered, 80 ms without.
	Every time.Duration
	// MaxRuns bounds how many runs are read at first, newest first; 0: 10,000.
	MaxRuns int
}

// Feed reads in the background.
type Feed struct{ o Options }

// New returns a feed that has read nothing yet.
func New(o Options) *Feed { return &Feed{o: o} }

// Change puts what was read into a state. It must be called from the goroutine
// that owns the state; quiet says that a person need not notice.
type Change func(*state.State)

// Run reads until the context ends, and calls f with one change after the
// other. f may take its time: what happens meanwhile is gathered.
func (f *Feed) Run(ctx context.Context, apply func(Change)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Want says which runs are to be loaded with their layers, most wanted first,
// and kept up to date. It returns at once.
func (f *Feed) Want(ids []core.ID) {}

// Refresh reads all lists again. It returns at once.
func (f *Feed) Refresh() {}

// Touch reads one run and its approvals again: something was done to it.
func (f *Feed) Touch(id core.ID) {}
