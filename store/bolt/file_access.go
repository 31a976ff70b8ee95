package bolt

import (
	"os"

	bbolt "go.etcd.io/bbolt"
)

// access is how a store comes at its database file: the shared one locks and
// opens it for each batch of operations, the exclusive one holds it for its life.
type access interface {
	locker
	opener
}

// locker decides which process may open the file.
type locker interface {
	// lock waits, for as long as it takes, until this process may open the file.
	lock() error
	// tryLock is lock without waiting; false when another process has it.
	tryLock() (bool, error)
	unlock()
	// holder names who has the lock, as far as that can be known.
	holder() string
}

// opener opens the file. Its caller has the lock.
type opener interface {
	// open opens the file, which is set up when it is new. The handle is
	// writable when asked for, or when the file had to be set up.
	open(write bool) (*handle, error)
	// release ends the use of a handle that open returned.
	release(h *handle, damaged bool) error
	// keeps reports whether release has kept a handle for the next open; drop
	// closes it. Nobody may be at work.
	keeps() bool
	drop()
	// compact replaces the file with a copy that has no free pages. The handle
	// stays on the old file and can only be finished.
	compact(h *handle) error
	// reader returns the open database for a read beside the batches, which stays
	// open until done is called; nil when reads have to wait for their turn.
	reader() (h *handle, done func())
	close()
}

// handle is an open database.
type handle struct {
	db       *bbolt.DB
	file     *os.File
	writable bool
	// changed is set by a commit since mark; spent means that the file has to be
	// opened anew: it was replaced, or a commit failed.
	changed, spent bool
	// doubtful is set when a sync may have failed: nobody may believe what the file
	// shows before it was made durable.
	doubtful bool
	mark     *kept
	// lean leaves the list of free pages out of commits while it is long.
	lean bool
}

// shortList is how many free pages are listed in the file with each commit of a
// lean handle. A short list costs next to nothing, and without one the next open
// after a crash has to read the whole file; a long one would cost more than the
// commit.
const shortList = 1024

// tune says whether the next commit writes the list of free pages.
func (h *handle) tune() {
	if h.lean {
		st := h.db.Stats()
		h.db.NoFreelistSync = st.FreePageN+st.PendingPageN > shortList
	}
}

// finish closes the database. After damage bbolt's own locks may be held for
// ever; then only the file is closed and what was mapped is left behind.
func (h *handle) finish(damaged bool) error {
	// An explicit unlock, because a child process that is just being started
	// may hold a copy of the descriptor for a moment.
	unlockFile(h.file)
	if damaged {
		return h.file.Close()
	}
	return h.db.Close()
}

// Compaction pays when a large file is half empty.
const compactOver = 64 << 20

func (h *handle) wasteful() bool {
	st := h.db.Stats()
	free := int64(st.FreePageN+st.PendingPageN) * int64(h.db.Info().PageSize)
	if free*2 <= compactOver {
		return false
	}
	info, err := h.file.Stat()
	return err == nil && info.Size() > compactOver && free*2 > info.Size()
}

// shared opens the file for one batch at a time, under the lock of a sidecar
// file that is never removed.
type shared struct {
	dbFile
	sidecar

	kept *kept // belongs to whoever works
}

func newShared(opts Options, seq *seqFile) *shared {
	o := &shared{sidecar: newSidecar(opts)}
	// The freelist is kept in the file: without it every open for writing would
	// read the whole file.
	o.dbFile = dbFile{dir: opts.Dir, path: dbPath(opts), side: &o.sidecar, used: seq.used, freelist: bbolt.FreelistArrayType, syncFreelist: true}
	return o
}

func (o *shared) lock() error {
	_, err := o.lockWith(func(f *os.File) (bool, error) { return true, lockFile(f) })
	return fileFailure("lock", o.path, err)
}

func (o *shared) tryLock() (bool, error) {
	ok, err := o.lockWith(tryLockFile)
	return ok, fileFailure("lock", o.path, err)
}

// reader implements opener: a file that is opened for each batch is read in one.
func (o *shared) reader() (*handle, func()) { return nil, nil }

func (o *shared) close() {
	o.drop()
	o.sidecar.close()
}

func (o *shared) open(write bool) (*handle, error) {
	if h := o.reuse(); h != nil {
		return h, nil
	}
	return o.openReady(write)
}
