package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// op is a step that waits to be committed.
type op struct {
	*prepared

	ctx  context.Context
	done chan error
}

// mostAtOnce and mostBytes bound what goes in one statement; a step that is
// larger than largeStep has a transaction of its own, so that no other step waits until
// it is sent.
const (
	mostAtOnce = 256
	mostBytes  = 1 << 20
	largeStep  = 256 << 10
)

// Commit implements store.Writer. While the database cannot be reached it is
// tried again for Options.Patience, longer when the step is large.
func (s *Store) Commit(ctx context.Context, step store.Step) error {
	if err := store.CheckStep(step); err != nil {
		return err
	}
	p, err := prepare(step, string(s.opts.NewID()))
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	limit, cancel := context.WithTimeoutCause(ctx, patienceFor(p, s.opts.Patience), errPatience)
	defer cancel()
	o := &op{prepared: p, ctx: limit, done: make(chan error, 1)}
	if s.queue.add(o) {
		s.lead()
	}
	return s.await(o)
}

// patienceFor is how long a step is tried again: what is large takes its time.
func patienceFor(p *prepared, usual time.Duration) time.Duration {
	if p.size <= largeStep {
		return usual
	}
	return usual + 2*timeToSend(p.size)
}

// await waits for the outcome. Whoever gives up while the step is under way
// still waits a moment: only the outcome says whether it was committed.
func (s *Store) await(o *op) error {
	select {
	case err := <-o.done:
		return err
	case <-o.ctx.Done():
	}
	if s.queue.abandon(o) {
		s.inflight.Done()
		return cancelled(o.ctx)
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case err := <-o.done:
		return err
	case <-t.C:
		return cancelled(o.ctx)
	}
}

// lead commits what waits, once, in the caller's goroutine: while no worker runs,
// starting one would only cost time. A worker gets what is left and what fails.
func (s *Store) lead() {
	short := s.begin()
	err := s.commitShort(short)
	if s.queue.led(err) {
		go func() {
			s.insist(short, err)
			s.work()
		}()
	}
}

// work commits batches until nothing waits that can be begun.
func (s *Store) work() {
	for {
		short := s.begin()
		if short == nil {
			return
		}
		s.insist(short, s.commitShort(short))
	}
}

// begin starts the steps that need a transaction of their own (the long way,
// step_rules.go), and returns those for one statement (the short way, commit.go): nil
// when no step can start.
func (s *Store) begin() []*op {
	short, long := s.queue.take()
	for _, o := range long {
		go func() { s.finish(o, s.commitLong(o)) }()
	}
	if short == nil && len(long) > 0 {
		short = []*op{}
	}
	return short
}

// finish reports the outcome of a step, and the next step of its run can start.
func (s *Store) finish(o *op, err error) {
	again := s.queue.ended(o, err)
	o.done <- err
	s.inflight.Done()
	if again {
		go s.work()
	}
}

// commitLong commits one step in a transaction of its own.
func (s *Store) commitLong(o *op) error {
	if o.size > largeStep {
		return s.commitAside(o)
	}
	return s.commitAlone(o)
}

// commitAside is commitLong for what may take long: it leaves connections for
// the others.
func (s *Store) commitAside(o *op) error {
	select {
	case s.aside <- struct{}{}:
		defer func() { <-s.aside }()
		return s.commitAlone(o)
	case <-o.ctx.Done():
		return cancelled(o.ctx)
	}
}

func (s *Store) commitAlone(o *op) error {
	if o.ctx.Err() != nil {
		return cancelled(o.ctx)
	}
	try := 0
	err := s.patiently(o.ctx, patienceFor(o.prepared, s.opts.Patience), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limitOfTry(o.size, try))
		defer cancel()
		try++
		return s.transact(ctx, func(t *txn) error { return t.step(o.prepared) })
	})
	if err == nil {
		s.watch.committed(true) // also when a try before this one was kept
	}
	return err
}

// commitShort commits steps with one statement, and those that it does not take
// by themselves. An error leaves it unknown what was committed; then it can be
// called again: what is kept is marked and not taken twice.
func (s *Store) commitShort(batch []*op) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.background, limitOfTry(sizeOf(batch), 0))
	kept, due, err := s.send(ctx, batch)
	slow := ctx.Err() != nil
	cancel()
	var known *core.Error
	switch {
	case errors.As(err, &known):
		s.watch.committed(true)
		for _, o := range batch {
			s.finish(o, err)
		}
		return nil
	case passing(err) && slow:
		// Whatever of them it was: the others, and those that come, do not wait for it.
		s.opts.Logger.Warn("a commit takes too long; trying its steps one by one", "steps", len(batch), "error", err)
		for _, o := range batch {
			go func() { s.finish(o, s.commitAside(o)) }()
		}
		return nil
	case passing(err):
		return err
	}
	if due {
		s.sweep(s.background)
	}
	s.share(batch, kept) // with an error one of them spoils it, or none would succeed
	return nil
}

// insist repeats a commit until its outcome is known, or nobody waits for it.
func (s *Store) insist(batch []*op, err error) {
	for wait := firstWait; err != nil; wait = min(2*wait, longestWait) {
		s.opts.Logger.Warn("a commit failed; trying again", "steps", len(batch), "error", err)
		if batch = s.dropDone(batch, err); len(batch) == 0 {
			return
		}
		if !pause(s.background, wait) {
			for _, o := range batch {
				s.finish(o, closed())
			}
			return
		}
		err = s.commitShort(batch)
	}
}

// attemptLimit is how long one try of a commit may take before its connection
// counts as lost, and slowest the bytes in a second beyond that.
const (
	attemptLimit = 5 * time.Second
	slowest      = 128 << 10
)

// limitOfTry is how long a try to send so many bytes may take: each one longer
// than the one before.
func limitOfTry(size, try int) time.Duration { return attemptLimit + timeToSend(size)<<min(try, 4) }

func timeToSend(size int) time.Duration { return time.Duration(size) * time.Second / slowest }

func sizeOf(batch []*op) (n int) {
	for _, o := range batch {
		n += o.size
	}
	return n
}

// share ends the steps that were kept and commits the others the long way.
func (s *Store) share(batch []*op, kept map[string]bool) {
	if len(kept) > 0 {
		s.watch.committed(true)
	}
	for _, o := range batch {
		if kept[string(o.Run.ID)] {
			s.finish(o, nil)
		} else {
			go func() { s.finish(o, s.commitLong(o)) }()
		}
	}
}

// dropDone ends the steps that nobody waits for any more.
func (s *Store) dropDone(batch []*op, err error) []*op {
	var rest []*op
	for _, o := range batch {
		if o.ctx.Err() != nil {
			s.finish(o, failure(err))
		} else {
			rest = append(rest, o)
		}
	}
	return rest
}

// faults are errors that tests put in the way of the next commit.
type faults struct{ beforeNext, afterNext atomic.Pointer[core.Error] }

func (f *faults) before() error { return swap(&f.beforeNext) }
func (f *faults) after() error  { return swap(&f.afterNext) }

func swap(p *atomic.Pointer[core.Error]) error {
	if err := p.Swap(nil); err != nil {
		return err
	}
	return nil
}
