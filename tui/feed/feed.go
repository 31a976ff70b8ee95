// Package feed reads what the terminal shows: the lists at first, then events
// as they happen, and what they changed. It hands everything over in batches,
// so that a thousand events a second are a dozen changes.
//
// What is shown is what was read. An event says which run has to be read again;
// only what it says itself is shown at once. No error of the backend ends a
// feed: it becomes the Err of a link or a warning, and is tried again.
package feed

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// Link is a change of the connection to a half.
type Link struct {
	Side core.Side
	Up   bool
	None bool // there is no server, which is no fault
	// Connecting is whether it was not tried yet: the server has a name only.
	Connecting bool
	Name       string // of the server
	Err        error
}

// Options are what a Feed is made of.
type Options struct {
	Backend Reader
	// Links calls a function with each change of a connection until the context
	// ends, from any goroutine. Nil: both halves are live. Whatever it says of the
	// client half, a failing read of that makes it lost.
	Links func(ctx context.Context, f func(Link))
	Clock core.Clock
	// Every is how long changes are gathered, 80 ms without.
	Every time.Duration
	// MaxRuns bounds how many runs are read at first, newest first; 0: 10,000.
	MaxRuns int
	// Recheck is how often is looked for what no event tells: a run whose process
	// is gone, an approval whose missing key is there; 0: 5 seconds.
	Recheck time.Duration
	// Listed is called once, a moment after all runs were read for the first time. May
	// be nil.
	Listed func()
}

// Feed reads in the background. Its methods are safe for concurrent use.
type Feed struct {
	o    Options
	wake chan struct{} // has a value when something was asked for

	mu sync.Mutex
	asked
}

// asked is what the terminal wants of a running feed.
type asked struct {
	want    []core.ID
	wanted  bool // want is new
	listen  core.ID
	refresh bool
	touched []core.ID
	// pruned are runs whose layers the state has forgotten.
	pruned []core.ID
}

// New returns a feed that has read nothing yet.
func New(o Options) *Feed {
	if o.Every <= 0 {
		o.Every = 80 * time.Millisecond
	}
	if o.MaxRuns <= 0 {
		o.MaxRuns = 10_000
	}
	if o.Recheck <= 0 {
		o.Recheck = 5 * time.Second
	}
	return &Feed{o: o, wake: make(chan struct{}, 1)}
}

// Change puts what was read into a state. It must be called from the goroutine
// that owns the state.
type Change func(*state.State)

// Run reads until the context ends, and calls apply with one change after the
// other, from goroutines of its own. apply may take its time: what happens
// meanwhile is gathered. All that Run has started has ended when it returns,
// with the context's cause. It is called once.
func (f *Feed) Run(ctx context.Context, apply func(Change)) error {
	inner, cancel := context.WithCancel(ctx)
	l := newLoop(inner, f, apply)
	defer l.wg.Wait()
	defer cancel()
	l.begin()
	for {
		events := l.events
		if l.held >= maxHeld {
			events = nil // who sends them waits until these are taken
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case do := <-l.done:
			do()
		case e := <-events:
			l.take(e)
		case k := <-l.linked:
			l.link(k)
		case <-f.wake:
			l.answer()
		}
		l.handOver()
	}
}

// Want says which runs are to be loaded with their layers, most wanted first,
// and kept up to date. It returns at once.
func (f *Feed) Want(ids []core.ID) {
	f.ask(func(a *asked) bool {
		if slices.Equal(a.want, ids) {
			return false
		}
		a.want, a.wanted = slices.Clone(ids), true
		return true
	})
}

// Refresh reads all lists again. It returns at once.
func (f *Feed) Refresh() {
	f.ask(func(a *asked) bool {
		a.refresh = true
		return true
	})
}

// Touch reads one run and its approvals again: something was done to it. It
// returns at once.
func (f *Feed) Touch(id core.ID) {
	f.ask(func(a *asked) bool {
		a.touched = append(a.touched, id)
		return true
	})
}

// ask notes what is asked for and wakes the loop if there is something to do.
func (f *Feed) ask(note func(*asked) bool) {
	f.mu.Lock()
	news := note(&f.asked)
	f.mu.Unlock()
	if !news {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default: // it is awake
	}
}

// taken returns what was asked for since the last time.
func (f *Feed) taken() asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.asked
	f.asked = asked{want: a.want, listen: a.listen}
	return a
}
