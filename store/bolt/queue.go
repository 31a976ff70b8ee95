package bolt

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// op is one operation that waits for the file. Its function may run more than
// once (when another one of the batch spoils the transaction), so it assigns
// its outcome instead of adding to it.
type op struct {
	write bool
	// sweeps is set when the operation itself records what expired.
	sweeps bool
	// own is set for what a runner does with its runs: it does not wake WatchOthers.
	own bool
	f   func(*txn) error

	done chan struct{}
	err  error
	ran  bool // f has succeeded
}

// read runs f in a transaction that may be shared with other operations.
func (s *Store) read(ctx context.Context, f func(*txn) error) error {
	if done, err := s.readBeside(ctx, f); done {
		return err
	}
	return s.submit(ctx, &op{f: f})
}

// readBeside runs f at once, concurrently with a write, when the file is open for
// that; false when it is not.
func (s *Store) readBeside(ctx context.Context, f func(*txn) error) (done bool, err error) {
	if ctx.Err() != nil {
		return false, nil
	}
	if !s.enter() {
		return false, nil
	}
	defer s.inflight.Done()
	h, leave := s.access.reader()
	if h == nil {
		return false, nil
	}
	defer leave()
	tx, err := h.db.Begin(false)
	if err != nil {
		return true, s.failure("read", err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("the store is damaged", "path", s.path(), "panic", p, "stack", string(debug.Stack()))
			err = s.failure("use", &damage{reason: panicText(p)})
		}
		_ = tx.Rollback()
	}()
	return true, f(s.batches.readTxn(tx))
}

// enter counts an operation, so that Close waits for it; false when the store
// is closed.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.inflight.Add(1)
	}
	return !s.closed
}

// update runs f in a write transaction that is committed when update returns
// nil. f checks everything before it writes, so that one that is refused
// leaves nothing; if it fails later the batch is run again without it.
func (s *Store) update(ctx context.Context, f func(*txn) error) error {
	return s.submit(ctx, &op{f: f, write: true})
}

func (s *Store) submit(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return cancelled(ctx)
	}
	o.done = make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return core.Errorf(core.CodeStoreFailed, "the store %s is closed: pml is stopping", s.path())
	}
	s.inflight.Add(1)
	defer s.inflight.Done()
	s.queue = append(s.queue, o)
	lead := !s.working
	s.working = true
	s.mu.Unlock()

	// With nobody at work and the lock free, the operation runs right here: to
	// wake another thread would cost more than the operation.
	if lead {
		if ok, err := s.access.tryLock(); ok || err != nil {
			s.runQueue(err)
			if s.leave() {
				return s.await(ctx, o)
			}
		}
		go s.work()
	}
	return s.await(ctx, o)
}

// await waits for an operation's outcome, for as long as the lock may take. While this
// process has the lock it waits for the disk, as long as that takes.
func (s *Store) await(ctx context.Context, o *op) error {
	select {
	case <-o.done:
		return o.err
	default:
	}
	late := time.NewTimer(s.opts.LockTimeout)
	defer late.Stop()
	for before, _ := s.turns.look(); ; {
		select {
		case <-o.done:
			return o.err
		case <-ctx.Done():
			if s.abandon(o) {
				return cancelled(ctx)
			}
		case <-late.C:
			if now, ours := s.turns.look(); ours || now != before {
				before = now
				late.Reset(s.opts.LockTimeout)
				continue
			}
			if s.abandon(o) {
				return s.busy()
			}
		}
		// It is under way: only its outcome says whether it was committed.
		<-o.done
		return o.err
	}
}

// turns counts how often this process has had the lock of the file.
type turns struct {
	mu   sync.Mutex
	n    int
	ours bool // it has it now
}

func (t *turns) begin() {
	t.mu.Lock()
	t.ours = true
	t.mu.Unlock()
}

func (t *turns) end() {
	t.mu.Lock()
	t.n, t.ours = t.n+1, false
	t.mu.Unlock()
}

func (t *turns) look() (n int, ours bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n, t.ours
}

func cancelled(ctx context.Context) error {
	return core.Errorf(core.CodeCancelled, "stopped waiting for the store: %w", context.Cause(ctx))
}

// abandon takes an operation out of the queue; false when it runs already.
func (s *Store) abandon(o *op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.queue {
		if q == o {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (s *Store) busy() error {
	return core.Errorf(core.CodeStoreBusy, "the store %s was locked for %s by %s; try again, and if that does not help look at what that process does",
		s.path(), s.opts.LockTimeout, s.access.holder())
}

// work runs batches until nothing waits. It waits for the lock in a thread of its own:
// operations may give up meanwhile, and a lock that comes too late for all of them is
// released at once.
func (s *Store) work() {
	for {
		s.runQueue(s.access.lock())
		if s.leave() {
			return
		}
	}
}

// leave ends the worker, unless something waits.
func (s *Store) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return false
	}
	s.working = false
	switch {
	case s.closed:
		s.access.close()
	case s.access.keeps():
		s.restLater()
	}
	return true
}

// restLater closes the file when it has not been used for a while. s.mu is held.
func (s *Store) restLater() {
	if s.rest != nil {
		s.rest.Reset(keepTime)
		return
	}
	s.rest = time.AfterFunc(keepTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.working {
			s.access.drop()
		}
	})
}

// runQueue runs all that waits as one batch. err is that of the lock; if it is nil the
// lock is held, and runQueue releases it.
func (s *Store) runQueue(err error) {
	s.mu.Lock()
	batch := s.queue
	s.queue = nil
	s.mu.Unlock()
	var wake func()
	if err == nil {
		s.turns.begin()
		var done committed
		if len(batch) > 0 {
			done, err = s.batches.run(batch)
		}
		if done.txid > 0 {
			// Sequence numbers are published in the order of the commits.
			wake = s.watch.committed(done)
		}
		s.access.unlock()
		s.turns.end()
	}
	if wake != nil {
		wake()
	}
	for _, o := range batch {
		o.finish(err)
	}
}

// finish gives an operation that has no outcome of its own the batch's.
func (o *op) finish(err error) {
	if skip, ok := errors.AsType[*refused](o.err); ok {
		o.err = skip.err
	} else if err != nil && (o.write || !o.ran) {
		o.err = err // a read that succeeded saw what was committed before
	}
	close(o.done)
}
