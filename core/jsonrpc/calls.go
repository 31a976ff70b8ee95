package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
)

// Ways in which a request gets no answer.
var (
	ErrClosed  = errors.New("the connection has ended")
	ErrTooMany = errors.New("too many requests wait for an answer")
	ErrSameID  = errors.New("the id is that of a request that is not answered yet")
)

// Calls are the requests that one side has sent and that have no answer yet. The
// zero value has none.
type Calls struct {
	mu      sync.Mutex
	waiting map[string]chan Message // by keyOf
}

// Do has a request sent and waits for its answer. Of an answer that comes as ctx
// ends, or as over is closed, the answer counts. Without one the error is that of
// send, the cause of ctx, ErrClosed, or ErrTooMany where most others wait (0: any
// number may).
func (c *Calls) Do(ctx context.Context, id json.RawMessage, most int, over <-chan struct{}, send func() error) (Message, error) {
	key, answer := keyOf(id), make(chan Message, 1)
	c.mu.Lock()
	if most > 0 && len(c.waiting) >= most {
		c.mu.Unlock()
		return Message{}, ErrTooMany
	}
	if c.waiting == nil {
		c.waiting = map[string]chan Message{}
	}
	c.waiting[key] = answer
	c.mu.Unlock()
	if err := send(); err != nil && ctx.Err() == nil {
		c.take(key)
		return Message{}, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-over:
	case <-ctx.Done():
	}
	c.take(key)
	select {
	case m := <-answer:
		return m, nil
	default:
	}
	if ctx.Err() != nil {
		return Message{}, context.Cause(ctx)
	}
	return Message{}, ErrClosed
}

func (c *Calls) take(key string) chan Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.waiting[key]
	delete(c.waiting, key)
	return answer
}

// Answered gives a response to who waits for it. One that answers nothing is
// dropped.
func (c *Calls) Answered(m Message) {
	if answer := c.take(keyOf(m.ID)); answer != nil {
		answer <- m
	}
}

// SameID reports whether two texts are the same id.
func SameID(a, b json.RawMessage) bool { return keyOf(a) == keyOf(b) }

// keyOf is the same for each way to write an id: 1 and 1.0, "a" and "\u0061".
func keyOf(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + string(Unquoted(id))
	}
	if bytes.ContainsAny(id, ".eE") {
		if f, err := strconv.ParseFloat(string(id), 64); err == nil && float64(int64(f)) == f {
			return strconv.FormatInt(int64(f), 10)
		}
	}
	return string(id)
}

// Served are the requests of the other side that are being answered: each can be
// cancelled. The zero value has none.
type Served struct {
	mu    sync.Mutex
	calls map[string]context.CancelCauseFunc // by the text of the id
	ended error
}

// Begin registers a request unless most others are being answered, and returns
// the context that ends with it. done has to be called once it was answered.
func (s *Served) Begin(ctx context.Context, id json.RawMessage, most int) (_ context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(id)
	switch _, same := s.calls[key]; {
	case s.ended != nil:
		return nil, nil, s.ended
	case len(s.calls) >= most:
		return nil, nil, ErrTooMany
	case same:
		return nil, nil, ErrSameID
	}
	if s.calls == nil {
		s.calls = map[string]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.calls[key] = cancel
	return ctx, func() {
		s.mu.Lock()
		delete(s.calls, key)
		s.mu.Unlock()
		cancel(nil)
	}, nil
}

// Cancel ends the context of a request, if it is being answered.
func (s *Served) Cancel(id json.RawMessage, cause error) {
	s.mu.Lock()
	cancel := s.calls[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// End ends the contexts of all requests; no more are taken.
func (s *Served) End(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = cause
	for _, cancel := range s.calls {
		cancel(cause)
	}
}

// Len is how many requests are being answered.
func (s *Served) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}
