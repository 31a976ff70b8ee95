package tui

import (
	"sync"
	"time"
)

// flights counts what runs behind the program, so that it does not end under
// it.
type flights struct {
	mu     sync.Mutex
	n      int
	closed bool
	empty  chan struct{} // closed when none is left after the end
}

func newFlights() *flights { return &flights{empty: make(chan struct{})} }

// begin reports whether something may still begin; then end must follow.
func (f *flights) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.closed {
		close(f.empty)
	}
}

// close lets nothing more begin, and waits for what does until the patience is
// over; then it calls stop and waits for the rest.
func (f *flights) close(patience time.Duration, stop func()) {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	if first && f.n == 0 {
		close(f.empty)
	}
	f.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-f.empty:
	case <-t.C:
	}
	stop()
	<-f.empty
}
