package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/casys-ai/pml/core"
)

// Bounds of what waits for a client that does not read. One message always fits.
const (
	maxQueued      = 256
	maxQueuedBytes = 4 << 20
)

var (
	errStreamFull = errors.New("the client does not read what waits for it")
	errStreamOver = errors.New("the stream has ended")
)

// stream takes what is sent to a client outside of answers. It has a queue and a
// writer of its own: who sends never waits for the client to read. After end
// nothing is sent any more: the answer is the last that a client gets.
type stream struct {
	// send writes one message. Calls do not overlap.
	send func(message []byte) error
	// cut makes a write that is under way fail; nil where that cannot be done.
	cut func()
	// log gets a panic in a write; nil: it is discarded.
	log *slog.Logger

	mu    sync.Mutex
	ended bool
	queue []queued
	size  int
	full  func()        // called once when the queue is full, which ends the stream; nil: what does not fit is left out
	rests chan struct{} // closed when the writer has nothing left; nil: none is at work
}

type queued struct {
	write func() error
	size  int
	done  chan<- error // takes what came of it; nil: nobody waits
}

func (s *stream) notify(method string, params any) {
	// A client that is gone is noticed by its transport.
	_ = s.pass(notification(method, params))
}

// open reports whether messages still reach the client. There is none of a nil
// stream.
func (s *stream) open() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.send != nil
}

// pass sends a message, without waiting for that.
func (s *stream) pass(message any) error {
	if !s.open() {
		return nil
	}
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return s.put(queued{write: func() error { return s.send(raw) }, size: len(raw)})
}

// deliver sends a message and says what came of it, unless the context ends.
func (s *stream) deliver(ctx context.Context, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	if err := s.put(queued{write: func() error { return s.send(raw) }, size: len(raw), done: done}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// put adds to what is written, and has it written.
func (s *stream) put(q queued) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errStreamOver
	}
	if len(s.queue) > 0 && (len(s.queue) >= maxQueued || s.size+q.size > maxQueuedBytes) {
		full := s.full
		if full != nil {
			s.leave()
		}
		s.mu.Unlock()
		if full != nil {
			full()
		}
		return errStreamFull
	}
	s.add(q)
	s.mu.Unlock()
	return nil
}

// add is put where there is room. The caller holds the lock.
func (s *stream) add(q queued) {
	s.queue = append(s.queue, q)
	s.size += q.size
	if s.rests == nil {
		s.rests = make(chan struct{})
		go s.drain(s.rests)
	}
}

// drain writes what waits, until that is nothing.
func (s *stream) drain(rests chan<- struct{}) {
	defer close(rests)
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.queue, s.rests = nil, nil
			s.mu.Unlock()
			return
		}
		q := s.queue[0]
		s.queue = s.queue[1:]
		s.size -= q.size
		s.mu.Unlock()
		err := s.written(q)
		if q.done != nil {
			q.done <- err
		}
	}
}

// written writes one message. A panic in that is an error of that write.
func (s *stream) written(q queued) (err error) {
	defer core.Recover(s.log, "a message was sent to a client", func(e *core.Error) { err = e })
	return q.write()
}

// alive writes a sign of life, if nothing else is being written.
func (s *stream) alive(write func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && s.rests == nil {
		s.add(queued{write: write})
	}
}

// flush waits until all is written that has been sent so far.
func (s *stream) flush() {
	done := make(chan error, 1)
	s.mu.Lock()
	if s.ended || s.rests == nil {
		s.mu.Unlock()
		return
	}
	s.add(queued{write: func() error { return nil }, done: done})
	s.mu.Unlock()
	_ = <-done //nolint:staticcheck // whether it came to that is of no interest
}

// dropWhenFull ends the stream, and what it belongs to by end, when the client
// does not read; where a write cannot be cut, what does not fit is left out.
func (s *stream) dropWhenFull(end func()) {
	if s.cut == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = func() {
		end()
		s.cut()
	}
}

// end takes nothing more, and waits until all is written.
func (s *stream) end() {
	s.mu.Lock()
	s.ended = true
	rests := s.rests
	s.mu.Unlock()
	if rests != nil {
		<-rests
	}
}

// abandon takes nothing more and forgets what waits. A write may be under way.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
}

// leave is abandon for who holds the lock.
func (s *stream) leave() {
	s.ended = true
	for _, q := range s.queue {
		if q.done != nil {
			q.done <- errStreamOver
		}
	}
	s.queue, s.size = nil, 0
}

// quit is abandon, and cuts the write that is under way and waits for that.
func (s *stream) quit() {
	s.abandon()
	s.mu.Lock()
	rests := s.rests
	s.mu.Unlock()
	if rests != nil {
		s.cut()
		<-rests
	}
}
