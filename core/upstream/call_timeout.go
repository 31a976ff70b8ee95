package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Causes of the end of a call that takes too long.
var (
	errSilent = errors.New("it gave no sign of life")
	errTotal  = errors.New("it took too long in all")
)

// silence ends a call that has given no sign of life for too long. While its
// client is asked something, the call waits for it and not for the server.
type silence struct {
	limit time.Duration
	alive func() // called at each sign of life; may be nil

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // of the signs
	asked int       // questions that are open
	since time.Time // when there was none
}

// now is only ever subtracted from: the timers beside it run by the same clock.
func now() time.Time {
	return time.Now() //nolint:forbidigo // how long it is, not what time it is
}

// answerWait is how long a client may take for its answers.
const answerWait = time.Hour

// bounded is a context that ends with errSilent after a silence, and with errTotal
// when all of the call takes too long; a limit of 0 or less is none. stop has to
// be called.
func bounded(ctx context.Context, limit, total time.Duration, alive func()) (_ context.Context, _ *silence, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &silence{limit: limit, alive: alive}
	var whole *time.Timer
	if total > 0 {
		whole = time.AfterFunc(total, func() { cancel(errTotal) })
	}
	if limit > 0 {
		s.mu.Lock()
		s.last = now()
		s.timer = time.AfterFunc(limit, func() {
			if s.over() {
				cancel(errSilent)
			}
		})
		s.mu.Unlock()
	}
	return ctx, s, func() {
		if whole != nil {
			whole.Stop()
		}
		if s.timer != nil {
			s.timer.Stop()
		}
		cancel(nil)
	}
}

// over reports whether the silence is that of the server.
func (s *silence) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == 0 || now().Sub(s.since) >= answerWait {
		left := s.limit - now().Sub(s.last) // a sign may have come just now
		if left > 0 {
			s.timer.Reset(left)
		}
		return left <= 0
	}
	s.lives()
	return false
}

// sign notes that the server works, or its client.
func (s *silence) sign() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives()
}

// lives begins the silence anew. While the client is asked, who else waits for
// signs of the call gets some in time. s.mu is held.
func (s *silence) lives() {
	if s.alive != nil {
		s.alive()
	}
	if s.timer == nil {
		return
	}
	s.last = now()
	if s.asked > 0 {
		s.timer.Reset(s.limit / 4)
	} else {
		s.timer.Reset(s.limit)
	}
}

// asks notes that the client is asked something, until done is called.
func (s *silence) asks() (done func()) {
	change := func(by int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked += by; s.asked == by {
			s.since = now()
		}
		s.lives()
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}

// waiting notes that the client is asked on behalf of a call, or of all that run
// where nothing says of which.
func (c *conn) waiting(ctx context.Context) (done func()) {
	var all []func()
	if f, _ := ctx.Value(flightKey{}).(*flight); f != nil {
		all = append(all, f.silence.asks())
	} else {
		c.serving.mu.Lock()
		for f := range c.serving.calls {
			all = append(all, f.silence.asks())
		}
		c.serving.mu.Unlock()
	}
	return func() {
		for _, done := range all {
			done()
		}
	}
}
