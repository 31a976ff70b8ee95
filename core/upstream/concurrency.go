package upstream

import (
	"context"
	"math"
)

// places bounds the calls that run at once on one server: a value is in the
// channel for each.
type places chan struct{}

// place waits until a call may run on a server, and returns what to do when it
// has ended. queued is called if it has to wait; it may be nil. The bound is the launch's; with another one than before (the
// configuration has changed), what runs already is not counted.
func (m *Manager) place(ctx context.Context, s *server, l Launch, queued func()) (leave func(), ok bool) {
	m.mu.Lock()
	if n := l.atOnce(m.limits); cap(s.places) != n {
		s.places = make(places, n)
	}
	p := s.places
	m.mu.Unlock()
	leave = func() { <-p }
	select {
	case p <- struct{}{}:
		return leave, true
	default:
	}
	if queued != nil {
		queued()
	}
	select {
	case p <- struct{}{}:
		return leave, true
	case <-ctx.Done():
		return nil, false
	}
}

// resultBytes bounds one result of the server of a launch.
func (l Launch) resultBytes(limits Limits) int {
	if l.ResultBytes > 0 {
		return int(min(l.ResultBytes, math.MaxInt/2))
	}
	return limits.ResultBytes
}

// atOnce is how many calls may run at once on the server of a launch.
func (l Launch) atOnce(limits Limits) int {
	if l.AtOnce > 0 {
		return l.AtOnce
	}
	return limits.PerServer
}
