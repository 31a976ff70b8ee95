package sandbox

import (
	"context"
	"errors"
	"sync"
)

var errWrongReply = errors.New("a reply of another kind was expected")

// Session is one running script. One goroutine at a time uses it; Close may
// come from any.
type Session struct {
	pool *Pool
	p    *process
	mu   sync.Mutex
	over bool // the script has ended, and nothing went wrong
	once sync.Once
}

// Open starts a script and runs it until it waits or ends. An exception of the
// script is Turn.Err; the error is for limits (CodeSandboxTimeout,
// CodeSandboxMemory, CodeResultTooLarge, CodeCallLimit), for a child that died
// (CodeSandboxCrashed), and for a context that ended (CodeCancelled). After an
// error there is no session.
func (p *Pool) Open(ctx context.Context, s Start) (*Session, Turn, error) {
	c, err := p.take()
	if err != nil {
		return nil, Turn{}, err
	}
	// The next run must not wait for a child either.
	p.warmLater()
	session := &Session{pool: p, p: c}
	t, err := session.ask(ctx, &request{
		Op: opOpen, Limits: p.o.Limits, Script: s.Script, Input: s.Input, Seed: s.Seed, Now: millis(s.Now),
	})
	if err != nil {
		return nil, Turn{}, err
	}
	return session, t, nil
}

// Deliver hands results to the script one by one, in order; after each one it
// runs until it waits again, and its time is that delivery's. The turn is that
// of the whole list. Errors are those of Open, and CodeReplay for the outcome
// of a call that the script has not made; after one the session is closed.
func (s *Session) Deliver(ctx context.Context, list []Delivery) (Turn, error) {
	r := &request{Op: opDeliver, Deliveries: make([]wireDelivery, len(list))}
	for i, d := range list {
		r.Deliveries[i] = wireDelivery{Seq: d.Seq, ID: d.CallID, Size: len(d.Value), value: d.Value, Err: d.Err, At: millis(d.At)}
	}
	return s.ask(ctx, r)
}

func (s *Session) ask(ctx context.Context, r *request) (Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rep, err := s.p.ask(ctx, r)
	if err == nil && rep.Kind != replyTurn {
		err = crashed("gave the wrong answer", errWrongReply)
	}
	if err != nil {
		s.over = false
		s.pool.drop(s.p)
		return Turn{}, err
	}
	s.over = rep.Turn.Done
	return rep.Turn.turn(), nil
}

// Close ends the session at once, whatever the script does, and with it the
// child, unless the script is over and its pool gives children more than one.
// It may be called again.
func (s *Session) Close() {
	s.once.Do(func() {
		if s.pool.o.Reuse && s.mu.TryLock() {
			over := s.over
			s.mu.Unlock()
			if over {
				s.pool.recycle(s.p)
				return
			}
		}
		s.pool.drop(s.p)
	})
}
