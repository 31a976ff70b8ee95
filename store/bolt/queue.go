package bolt

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
)

// op is one operation that waits for the file. Its function may run more than
// once (when another one of the batch spoils the transaction), so it assigns
// its outcome instead of adding to it.
type op struct {
	write bool
	// sweeps is set when the operation itself records what expired.
	sweeps bool
	// own is set for a step of a runner: WatchOthers does not tell of it.
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

// readBeside runs f at once, beside whatever is being written, when the file is
// open for that; false when it is not.
func (s *Store) readBeside(ctx context.Context, f func(*txn) error) (done bool, err error) {
	if ctx.Err() != nil {
		return false, nil
	}
	written, ok := s.enter()
	if !ok {
		return false, nil
	}
	defer s.inflight.Done()
	if written != nil {
		select {
		case <-written: // what counts is seen
		case <-ctx.Done():
			return true, cancelled(ctx)
		}
	}
	h, leave := s.opener.reader()
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
	return true, f(s.readTxn(tx))
}

// enter counts an operation, so that Close waits for it; false when the store
// is closed. Once written is closed, the file has what counted by then.
func (s *Store) enter() (written <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.inflight.Add(1)
	}
	return s.written, !s.closed
}

func (s *Store) readTxn(tx *bbolt.Tx) *txn {
	return &txn{tx: tx, now: s.now(), runners: s.runners, rows: &s.rows, asked: &s.asked, indexed: stampedBy(tx, tx.ID())}
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
		s.begin()
	}
	return s.await(ctx, o)
}

// begin begins to work. What is left then goes on beside: to bring into the file what
// counts already, or to wait for the lock.
func (s *Store) begin() {
	ok, err := s.opener.tryLock()
	if !ok && err == nil {
		go s.work()
		return
	}
	later, rest := s.runQueue(err)
	if !later && rest() {
		return
	}
	go func() {
		if later && rest() {
			return
		}
		s.work()
	}()
}

// await waits for an operation's outcome, for as long as the lock may take. Of
// an exclusive file the lock is there already: what is waited for is the disk.
func (s *Store) await(ctx context.Context, o *op) error {
	select {
	case <-o.done:
		return o.err
	default:
	}
	var late <-chan time.Time
	if !s.opts.Exclusive {
		timer := time.NewTimer(s.opts.LockTimeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		if s.abandon(o) {
			return cancelled(ctx)
		}
	case <-late:
		if s.abandon(o) {
			return s.busy()
		}
	}
	// It is under way: only its outcome says whether it was committed.
	<-o.done
	return o.err
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
		s.path(), s.opts.LockTimeout, s.opener.holder())
}

// work runs batches until nothing waits. The lock is waited for here, in the
// worker's own thread: operations may give up meanwhile, and a lock that comes
// too late for all of them is given back at once.
func (s *Store) work() {
	for {
		if _, rest := s.runQueue(s.opener.lock()); rest() {
			return
		}
	}
}

// leave ends the turn of whoever works, unless something waits.
func (s *Store) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return false
	}
	s.working = false
	switch {
	case s.closed:
		s.opener.close()
	case s.opener.keeps():
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
		idle := !s.working && !s.closed
		if idle {
			s.working = true
			s.inflight.Add(1)
		}
		s.mu.Unlock()
		if !idle {
			return
		}
		s.opener.drop()
		over := s.leave()
		s.inflight.Done()
		if !over {
			s.work()
		}
	})
}

// runQueue runs all that waits as one batch. err is that of the lock; without
// one the lock is held and is given back. rest ends the turn, and reports whether
// nobody waits any more; later says that it has something to write, which nobody
// need wait for.
func (s *Store) runQueue(err error) (later bool, rest func() (over bool)) {
	s.mu.Lock()
	batch := s.queue
	s.queue = nil
	if len(batch) > 0 {
		s.inflight.Add(1) // the batch's operations are counted still
	}
	s.mu.Unlock()
	var t turn
	if err == nil {
		if len(batch) > 0 {
			err = s.runBatch(&t, batch)
		}
		if t.write != nil {
			s.later(&t)
		} else {
			s.end(&t)
		}
	}
	for _, o := range batch {
		o.finish(err)
	}
	return t.write != nil, func() bool {
		if t.write != nil {
			s.writeLater(&t)
		}
		over := s.leave()
		if len(batch) > 0 {
			s.inflight.Done()
		}
		return over
	}
}

// finish gives an operation that has no outcome of its own the batch's.
func (o *op) finish(err error) {
	var skip *refused
	if errors.As(o.err, &skip) {
		o.err = skip.err
	} else if err != nil && (o.write || !o.ran) {
		o.err = err // a read that succeeded saw what was committed before
	}
	close(o.done)
}
