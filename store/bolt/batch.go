package bolt

// A batch is everything that waits for the file in this process: the worker (queue.go)
// takes the whole queue, gets the lock of the file, and runs all of it in one bbolt
// transaction. Reads run before writes, on the state before the batch. An operation
// that is refused before it wrote fails alone. One that fails after it wrote spoils
// the transaction, which is rolled back and run again without that operation. So
// every operation has an outcome of its own and all that succeed share one commit.
//
// A process that dies leaves this behind:
//
//   - while it prepares a step: blobs that no row names, which are garbage;
//   - with the lock, before bbolt writes its meta page: pages that no meta page
//     leads to. The database is that before the batch, the kernel releases the lock;
//   - after the meta page is written: the whole batch is in the database, although
//     no caller got an answer. The process that takes a run over reads it there;
//   - before it notifies others: they look by themselves every two seconds;
//   - while it compacts: a complete database, the old one before the rename, the
//     new one after it.
//
// If the machine loses power, the same holds: bbolt syncs the pages before it writes
// the meta page, and that one before the commit returns. A sync that fails leaves
// open which of both states is on the disk (see resync_failed.go).

import (
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	bbolt "go.etcd.io/bbolt"
)

// batches runs operations in the database file. One batch runs at a time, by whoever
// holds the lock of the file.
type batches struct {
	access  access
	path    string // of the file, for messages
	now     func() time.Time
	log     *slog.Logger
	runners registry
	watch   *watchers

	notBefore time.Time // of the next compaction

	mu     sync.Mutex
	commit func(*bbolt.Tx) error // (*bbolt.Tx).Commit; tests replace it
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

// run runs the operations in one transaction, and reports what it committed.
// Outcomes of single operations are in their err; the error returned is that of the
// rest of the batch. The lock is held.
func (b *batches) run(batch []*op) (done committed, err error) {
	write := false
	for _, o := range batch {
		write = write || o.write
	}
	h, err := b.access.open(write)
	if err != nil {
		return committed{}, fileFailure("open", b.path, err)
	}
	// A damaged file may lead bbolt to addresses that are not mapped; this
	// makes that a panic, which becomes an error here.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	damaged := true // until the functions have returned without a panic
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("the store is damaged", "path", b.path, "panic", p, "stack", string(debug.Stack()))
			err = fileFailure("use", b.path, &damage{reason: panicText(p)})
		}
		if cerr := b.access.release(h, damaged); cerr != nil && err == nil {
			b.log.Warn("cannot close the store", "path", b.path, "error", cerr)
		}
	}()
	if write {
		done, err = b.runWrites(h, batch)
	} else {
		err = b.runReads(h, batch)
	}
	damaged = false
	return done, err
}

func (b *batches) runReads(h *handle, batch []*op) error {
	tx, err := h.db.Begin(false)
	if err != nil {
		return fileFailure("read", b.path, err)
	}
	t := b.readTxn(tx)
	for _, o := range batch {
		o.run(t)
	}
	return fileFailure("read", b.path, tx.Rollback())
}

// runWrites runs reads first: what they see is committed, whatever becomes of
// the writes.
func (b *batches) runWrites(h *handle, batch []*op) (committed, error) {
	for {
		tx, err := h.db.Begin(true)
		if err != nil {
			return committed{}, fileFailure("write", b.path, err)
		}
		t := &txn{tx: tx, now: b.now(), runners: b.runners}
		own, spoiled, err := b.runOps(t, batch)
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
			return committed{}, fileFailure("write", b.path, err)
		}
		h.tune()
		h.changed = true
		done := committed{txid: uint64(tx.ID()), own: own}
		if err := b.commitTx(tx); err != nil {
			h.spent, h.doubtful = true, true
			b.watch.all() // it may be there all the same
			return committed{}, commitFailure(b.path, err)
		}
		b.compact(h)
		return done, nil
	}
}

// runOps reports whether an operation failed after it had begun to write, and
// whether nothing but steps of runners was written.
func (b *batches) runOps(t *txn, batch []*op) (own, spoiled bool, err error) {
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
	if _, ok := errors.AsType[*refused](o.err); ok {
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
func (b *batches) compact(h *handle) {
	if !h.wasteful() || b.now().Before(b.notBefore) {
		return
	}
	h.spent = true
	if err := b.access.compact(h); err != nil {
		h.doubtful = true // also the name of the new file has to be durable
		b.notBefore = b.now().Add(compactAgain)
		b.log.Warn("cannot compact the store", "path", b.path, "error", err)
	}
}

func (b *batches) readTxn(tx *bbolt.Tx) *txn {
	return &txn{tx: tx, now: b.now(), runners: b.runners, indexed: stampedBy(tx, tx.ID())}
}

func (b *batches) commitTx(tx *bbolt.Tx) error {
	b.mu.Lock()
	commit := b.commit
	b.mu.Unlock()
	return commit(tx)
}
