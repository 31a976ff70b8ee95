package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/casys-ai/pml/core"
)

// Status is what a run looks like from outside after a turn.
type Status struct {
	Run core.Run
	// Pending are the open approvals of a run that waits.
	Pending []core.Approval
	// Layer is set when the run waits at the end of a layer.
	Layer *LayerPause
	// Idle is set while the run only waits for runs of its own, which wait for people.
	Idle bool
	// Asleep is set while the run waits without a child.
	Asleep bool
	// Turned is set once the run has had a turn in this process; before, the
	// status is what the store said.
	Turned bool
	// Seen is the newest Wake after which the run has looked at the store and
	// has had a turn: what was committed before that Wake is in this status.
	Seen uint64
	// Summary counts the calls of a run that has ended.
	Summary Summary
	// Replayed counts the calls that were answered from the journal.
	Replayed int
	// Stopped is set when the run's goroutine has ended, for whatever reason;
	// Err says which when it was a failure of pml itself.
	Stopped bool
	Err     error
	// Away is set when it has ended because the run waits, and has left memory.
	Away bool
}

// Summary counts the calls of a run, sleeps left out.
type Summary struct {
	OK, Failed, Tasks int
	Tools             []string // distinct, sorted
}

// LayerPause is a pause between two layers.
type LayerPause struct {
	Done  int // the layer that is complete, -1 before the first
	Total int // known layers
	Next  []core.Task
}

// Handle is a caller's hold on a run.
type Handle struct {
	ID     core.ID
	wakeCh chan struct{}
	asked  atomic.Uint64 // how often it was woken

	mu      sync.Mutex
	status  *Status       // not changed any more
	changed chan struct{} // closed and replaced with each new status
}

func newHandle(id core.ID) *Handle {
	return &Handle{ID: id, wakeCh: make(chan struct{}, 1), status: &Status{}, changed: make(chan struct{})}
}

func (h *Handle) wake() uint64 {
	n := h.asked.Add(1)
	select {
	case h.wakeCh <- struct{}{}:
	default: // it is about to look
	}
	return n
}

func (h *Handle) set(s *Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = s
	close(h.changed)
	h.changed = make(chan struct{})
}

// Status returns the newest status and a channel that is closed by the next.
func (h *Handle) Status() (Status, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *h.status, h.changed
}

// Wait returns when done says so of a status, when the run's goroutine has
// ended, or with the context's error.
func (h *Handle) Wait(ctx context.Context, done func(Status) bool) (Status, error) {
	s, err := h.Await(ctx, done)
	return *s, err
}

// Await is Wait for who keeps no copy of the status, and does not change it.
func (h *Handle) Await(ctx context.Context, done func(Status) bool) (*Status, error) {
	for {
		s, changed, over := h.newest(done)
		if over {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// newest is the newest status, and whether there is nothing more to wait for.
func (h *Handle) newest(done func(Status) bool) (s *Status, changed <-chan struct{}, over bool) {
	h.mu.Lock()
	s, changed = h.status, h.changed
	h.mu.Unlock()
	return s, changed, s.Stopped || done(*s)
}

// Paused is a Wait condition: the run has ended or waits for a decision.
func Paused(s Status) bool {
	return s.Run.State.Final() || s.Turned && s.Run.State == core.RunWaiting
}

// Ended is a Wait condition: the run has ended.
func Ended(s Status) bool { return s.Run.State.Final() }

func (h *Handle) stateNow() core.RunState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.Run.State
}
