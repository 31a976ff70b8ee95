package sandbox

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/casys-ai/pml/core"
)

var errWrongReply = errors.New("a reply of another kind was expected")

// Session is one running script. One goroutine at a time uses it; Close may
// come from any. While the script waits, its VM may be given back (Rest, or for
// want of memory): the next delivery makes it again from what it was told so far.
type Session struct {
	pool  *Pool
	start Start
	place *place
	mu    sync.Mutex
	began bool
	over  bool // the script has ended, and nothing went wrong
	once  sync.Once
	// told are the deliveries so far, and made a sum of each call that they led to.
	told [][]Delivery
	made []uint64
}

// Open starts a script and runs it until it waits or ends. An exception of the
// script is Turn.Err; the error is for limits (CodeSandboxTimeout,
// CodeSandboxMemory, CodeResultTooLarge, CodeCallLimit), for a child that died
// (CodeSandboxCrashed), and for a context that ended (CodeCancelled). After an
// error there is no session. It waits while the scripts of the pool hold all the
// memory that they may.
func (p *Pool) Open(ctx context.Context, s Start) (*Session, Turn, error) {
	session := &Session{pool: p, start: s, place: &place{owner: s.Owner}}
	t, err := session.turn(ctx, nil)
	if err != nil {
		return nil, Turn{}, err
	}
	return session, t, nil
}

// Deliver hands results to the script one by one, in order; after each one it
// runs until it waits again, and its time is that delivery's. The turn is that
// of the whole list. Errors are those of Open, and CodeReplay for the outcome
// of a call that the script has not made; after one the session is closed. The
// session keeps the list.
func (s *Session) Deliver(ctx context.Context, list []Delivery) (Turn, error) {
	return s.turn(ctx, list)
}

// Rest gives the VM of a script that waits back.
func (s *Session) Rest() { s.pool.room.giveBack(s.place) }

// turn is one turn of the script, the first one without a list.
func (s *Session) turn(ctx context.Context, list []Delivery) (Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.run(ctx, list)
	if err != nil {
		s.over = false
		if c := s.pool.room.leave(s.place); c != nil {
			s.pool.drop(c)
		}
		return Turn{}, err
	}
	if s.began {
		s.told = append(s.told, list)
	}
	s.began, s.over = true, t.Done
	s.made = sums(s.made, t.Calls)
	s.pool.room.rest(s.place)
	return t, nil
}

func (s *Session) run(ctx context.Context, list []Delivery) (Turn, error) {
	if err := s.pool.room.enter(ctx, s.place); err != nil {
		return Turn{}, err
	}
	c := s.pool.room.child(s.place)
	if c == nil {
		var t Turn
		var err error
		if c, t, err = s.open(ctx); err != nil || !s.began {
			return t, err
		}
		if err := s.again(ctx, c, t); err != nil {
			return Turn{}, err
		}
	}
	return deliver(ctx, c, list)
}

// open starts the script in a child.
func (s *Session) open(ctx context.Context) (*process, Turn, error) {
	c, err := s.pool.take()
	if err != nil {
		return nil, Turn{}, err
	}
	if !s.pool.room.hold(s.place, c) {
		s.pool.drop(c)
		return nil, Turn{}, core.Errorf(core.CodeCancelled, "the script was stopped")
	}
	// The next run must not wait for a child either.
	s.pool.warmLater()
	limits := s.pool.o.Limits.of(s.start)
	c.bound(limits)
	t, err := askTurn(ctx, c, &request{
		Op: opOpen, Limits: limits, Script: s.start.Script, Input: s.start.Input, Results: s.start.Results, Seed: s.start.Seed, Now: millis(s.start.Now), Told: s.start.ToldBytes,
	})
	return c, t, err
}

// again brings a script that was started anew to where it was. The calls that it
// makes on the way are those that it has made.
func (s *Session) again(ctx context.Context, c *process, t Turn) error {
	made := sums(nil, t.Calls)
	for _, list := range s.told {
		t, err := deliver(ctx, c, list)
		if err != nil {
			return err
		}
		made = sums(made, t.Calls)
	}
	if !slices.Equal(made, s.made) {
		return core.Errorf(core.CodeReplay, "replay went another way: the script was started again, because its memory was given back while it waited, and its calls were not those that it had made; the journal is kept, nothing was called")
	}
	return nil
}

func deliver(ctx context.Context, c *process, list []Delivery) (Turn, error) {
	r := &request{Op: opDeliver, Deliveries: make([]wireDelivery, len(list))}
	for i, d := range list {
		r.Deliveries[i] = wireDelivery{Seq: d.Seq, ID: d.CallID, Size: len(d.Value), value: d.Value, Err: d.Err, At: millis(d.At)}
	}
	return askTurn(ctx, c, r)
}

func askTurn(ctx context.Context, c *process, r *request) (Turn, error) {
	rep, err := c.ask(ctx, r)
	if err != nil {
		return Turn{}, err
	}
	if rep.Kind != replyTurn {
		return Turn{}, crashed("gave the wrong answer", errWrongReply)
	}
	return rep.Turn.turn(), nil
}

var sumSeed = maphash.MakeSeed()

// sums adds a sum of each call.
func sums(to []uint64, calls []Call) []uint64 {
	for _, c := range calls {
		var h maphash.Hash
		h.SetSeed(sumSeed)
		fmt.Fprintf(&h, "%d %q %q %v %d ", c.ID, c.Server, c.Tool, c.IsSleep, c.Sleep)
		_, _ = h.Write(c.Args)
		to = append(to, h.Sum64())
	}
	return to
}

// Close ends the session at once, whatever the script does, and with it the
// child, unless the script is over and its pool gives children more than one.
// It may be called again.
func (s *Session) Close() {
	s.once.Do(func() {
		c, over := s.pool.room.leave(s.place), false
		if s.pool.o.Reuse && s.mu.TryLock() {
			over = s.over
			s.mu.Unlock()
		}
		switch {
		case c == nil:
		case over:
			s.pool.recycle(c)
		default:
			s.pool.drop(c)
		}
	})
}
