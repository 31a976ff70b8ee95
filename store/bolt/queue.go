package bolt

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	bbolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

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
	if ctx.Err() != nil || !s.enter() {
		return false, nil
	}
	defer s.inflight.Done()
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
// is closed.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.inflight.Add(1)
	}
	return !s.closed
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
		if ok, err := s.opener.tryLock(); ok || err != nil {
			s.runQueue(err)
			if s.leave() {
				return s.await(ctx, o)
			}
		}
		go s.work()
	}
	return s.await(ctx, o)
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
		s.runQueue(s.opener.lock())
		if s.leave() {
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
		idle := !s.working
		s.working = true
		s.mu.Unlock()
		if !idle {
			return
		}
		s.opener.drop()
		if !s.leave() {
			s.work()
		}
	})
}

// runQueue runs all that waits as one batch. err is that of the lock; without
// one the lock is held and is given back.
func (s *Store) runQueue(err error) {
	s.mu.Lock()
	batch := s.queue
	s.queue = nil
	s.mu.Unlock()
	var wake func()
	if err == nil {
		var done committed
		if len(batch) > 0 {
			done, err = s.runBatch(batch)
		}
		if done.txid > 0 {
			// Numbers are told in the order of the commits.
			wake = s.watch.committed(done)
		}
		s.opener.unlock()
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
	var skip *refused
	if errors.As(o.err, &skip) {
		o.err = skip.err
	} else if err != nil && (o.write || !o.ran) {
		o.err = err // a read that succeeded saw what was committed before
	}
	close(o.done)
}

// committed says what a batch committed; txid is 0 when it changed nothing.
type committed struct {
	txid uint64
	own  bool // nothing but steps of this process's runners
}

// refused marks the error of an operation as final, whatever becomes of the
// rest of its batch.
type refused struct{ err error }

// Error says why the operation was refused.
func (r *refused) Error() string { return r.err.Error() }

// runBatch runs the operations in one transaction. The lock is held.
func (s *Store) runBatch(batch []*op) (done committed, err error) {
	write := false
	for _, o := range batch {
		write = write || o.write
	}
	h, err := s.opener.open(write)
	if err != nil {
		return committed{}, s.failure("open", err)
	}
	// A damaged file may lead bbolt to addresses that are not mapped; this
	// makes that a panic, which becomes an error here.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	damaged := true // until the functions have returned without a panic
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("the store is damaged", "path", s.path(), "panic", p, "stack", string(debug.Stack()))
			err = s.failure("use", &damage{reason: panicText(p)})
		}
		if cerr := s.opener.release(h, damaged); cerr != nil && err == nil {
			s.opts.Logger.Warn("cannot close the store", "path", s.path(), "error", cerr)
		}
	}()
	if write {
		done, err = s.runWrites(h, batch)
	} else {
		err = s.runReads(h, batch)
	}
	damaged = false
	return done, err
}

func (s *Store) runReads(h *handle, batch []*op) error {
	tx, err := h.db.Begin(false)
	if err != nil {
		return s.failure("read", err)
	}
	t := s.readTxn(tx)
	for _, o := range batch {
		o.run(t)
	}
	return s.failure("read", tx.Rollback())
}

// runWrites runs reads first: what they see is committed, whatever becomes of
// the writes.
func (s *Store) runWrites(h *handle, batch []*op) (committed, error) {
	unlogged := false
	for {
		tx, err := h.db.Begin(true)
		if err != nil {
			return committed{}, s.failure("write", err)
		}
		t := &txn{tx: tx, now: s.now(), runners: s.runners, rows: &s.rows, asked: &s.asked}
		t.changes = changes{raw: s.changes[:0], unknown: unlogged}
		own, spoiled, err := s.runOps(t, batch)
		if s.changes = t.changes.raw; cap(s.changes) > redoExclusive {
			s.changes = nil // of a transaction that is larger than any log
		}
		if err == nil && t.changed && !spoiled {
			err = stamp(tx)
		}
		if err != nil || !t.changed || spoiled {
			if rerr := tx.Rollback(); err == nil {
				err = rerr
			}
			if spoiled && err == nil {
				continue
			}
			return committed{}, s.failure("write", err)
		}
		h.tune()
		done := committed{txid: uint64(tx.ID()), own: own}
		h.changed = true
		if err := s.commitTx(h, t); err != nil {
			if errors.Is(err, berrors.ErrMaxSizeReached) && !unlogged {
				unlogged = true // then the file can be mapped anew
				continue
			}
			h.spent = true
			s.watch.all() // it may be there all the same
			return committed{}, s.failure("write", err)
		}
		s.compact(h)
		return done, nil
	}
}

// runOps reports whether an operation failed after it had begun to write, and
// whether nothing but steps of runners was written.
func (s *Store) runOps(t *txn, batch []*op) (own, spoiled bool, err error) {
	sweeps := false
	own = true
	if err := t.ensureIndexed(); err != nil {
		return false, false, err
	}
	for _, o := range batch {
		sweeps = sweeps || o.sweeps
		if !o.write {
			o.run(t)
		}
	}
	if !sweeps {
		n, err := t.expireDue(t.now, sweepAtOnce)
		if err != nil {
			return false, false, err
		}
		own = n == 0
	}
	for _, o := range batch {
		if !o.write {
			continue
		}
		t.wrote = false
		if !o.run(t) && t.wrote {
			return false, true, nil
		}
		own = own && (o.own || !t.wrote)
	}
	return own, false, nil
}

// sweepAtOnce bounds what a commit does for others that expired.
const sweepAtOnce = 100

// run runs the operation unless it was refused before; false when it failed.
func (o *op) run(t *txn) bool {
	var skip *refused
	if errors.As(o.err, &skip) {
		return true
	}
	o.err, o.ran = nil, false
	if err := o.f(t); err != nil {
		o.err = &refused{err}
		return false
	}
	o.ran = true
	return true
}

// compactAgain is how long a compaction that failed is not tried again: it costs
// as much as one that works.
const compactAgain = time.Hour

// compact makes the file smaller when much of it is free. Whoever works calls it.
func (s *Store) compact(h *handle) {
	if !h.wasteful() || s.now().Before(s.notBefore) {
		return
	}
	h.spent = true
	if err := s.opener.compact(h); err != nil {
		s.notBefore = s.now().Add(compactAgain)
		s.opts.Logger.Warn("cannot compact the store", "path", s.path(), "error", err)
	}
}

func (s *Store) commitTx(h *handle, t *txn) error {
	s.mu.Lock()
	finish := s.finish
	s.mu.Unlock()
	return s.opener.commit(h, t.tx, &t.changes, finish)
}
