package bolt

import (
	"errors"
	"runtime/debug"
	"time"
)

// turn is what one batch does with the file, from the lock to its end.
type turn struct {
	h    *handle // nil when the file was not opened
	done committed
	// write brings a commit that counts already into the file; nil without one.
	write func() error
	// written is closed when that is done.
	written chan struct{}
	wake    func() // wakes who watches in this process; may be nil
	// damaged is set when a part of the turn has panicked.
	damaged bool
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
func (s *Store) runBatch(t *turn, batch []*op) (err error) {
	write := false
	for _, o := range batch {
		write = write || o.write
	}
	if t.h, err = s.opener.open(write); err != nil {
		return s.failure("open", err)
	}
	return s.use(t, func() error {
		if write {
			return s.runWrites(t, batch)
		}
		return s.runReads(t.h, batch)
	})
}

// use runs a part of a turn. A damaged file may lead bbolt to addresses that are
// not mapped; that, too, is a panic here, and becomes an error.
func (s *Store) use(t *turn, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("the store is damaged", "path", s.path(), "panic", p, "stack", string(debug.Stack()))
			t.damaged, err = true, s.failure("use", &damage{reason: panicText(p)})
		}
	}()
	return f()
}

// later tells the others of a commit that counts: if this process dies now, who
// looks for it makes it.
func (s *Store) later(t *turn) {
	t.written = make(chan struct{})
	s.mu.Lock()
	s.written = t.written
	s.mu.Unlock()
	t.wake = s.watch.committed(t.done)
}

// writeLater brings a commit into the file and ends its turn. If it fails, who
// opens the file next does it: until then nobody reads it.
func (s *Store) writeLater(t *turn) {
	err := s.use(t, t.write)
	if err == nil {
		close(t.written)
		_ = s.use(t, func() error { s.compact(t.h); return nil })
		s.end(t)
		return
	}
	s.opts.Logger.Warn("a commit is in the log and not in the store yet", "path", s.path(), "error", err)
	t.h.spent, t.wake = true, s.watch.all
	s.end(t)
	close(t.written)
}

// end ends the use of the file, tells of what was committed and gives the lock back.
func (s *Store) end(t *turn) {
	if t.h != nil {
		if err := s.opener.release(t.h, t.damaged); err != nil {
			s.opts.Logger.Warn("cannot close the store", "path", s.path(), "error", err)
		}
	}
	if t.done.txid > 0 && t.written == nil {
		// Numbers are told in the order of the commits.
		t.wake = s.watch.committed(t.done)
	}
	s.opener.unlock()
	if t.wake != nil {
		t.wake()
	}
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
func (s *Store) runWrites(in *turn, batch []*op) error {
	h := in.h
	for {
		tx, err := h.db.Begin(true)
		if err != nil {
			return s.failure("write", err)
		}
		t := &txn{tx: tx, now: s.now(), runners: s.runners, rows: &s.rows, asked: &s.asked}
		t.changes.raw = s.changes[:0]
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
			return s.failure("write", err)
		}
		h.tune()
		h.changed = true
		done := committed{txid: uint64(tx.ID()), own: own}
		if in.write, err = s.commitTx(h, t); err != nil {
			h.spent = true
			s.watch.all() // it may be there all the same
			return s.failure("write", err)
		}
		if in.done = done; in.write == nil {
			s.compact(h)
		}
		return nil
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

func (s *Store) commitTx(h *handle, t *txn) (write func() error, err error) {
	s.mu.Lock()
	finish, commit := s.finish, s.commit
	s.mu.Unlock()
	if commit == nil {
		commit = s.opener.commit
	}
	return commit(h, t.tx, &t.changes, finish)
}
