package bolt

import (
	"errors"
	"os"
	"strings"
	"sync"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
)

// exclusive keeps the file open for the life of the store and everybody else
// out. It holds the sidecar's lock beside that of the database, so that nobody
// comes in between when the file has to be opened anew.
type exclusive struct {
	dbFile
	sidecar

	mu sync.RWMutex // readers of h share it; whoever closes or sets h has it alone
	h  *handle
}

func newExclusive(opts Options) *exclusive {
	o := &exclusive{sidecar: newSidecar(opts)}
	// A long list of free pages is not written with each commit: after many
	// removals that would cost more than the commit. close writes it, so that only
	// after a crash the next open has to read the whole file.
	o.dbFile = dbFile{dir: opts.Dir, path: dbPath(opts), side: &o.sidecar, used: o.wasUsed, freelist: bbolt.FreelistMapType}
	return o
}

// start takes the file, or says who has it.
func (o *exclusive) start() error {
	ok, err := o.lockWith(tryLockFile)
	if err != nil {
		return fileFailure("lock", o.path, err)
	}
	if !ok {
		defer o.sidecar.close()
		return core.Errorf(core.CodeStoreBusy, "the store %s is in use by %s, and only one process can have it; connect to that one or stop it",
			o.path, o.holder()).WithNext("pml", "server", "status")
	}
	if _, err := o.open(true); err != nil {
		o.sidecar.close()
		return fileFailure("open", o.path, err)
	}
	o.markUsed()
	return nil
}

// usedMark lies in the lock file behind the label once the database was set up.
const usedMark = "used\n"

func (o *exclusive) markUsed() {
	if f, err := o.file(); err == nil {
		_, _ = f.WriteAt([]byte(usedMark), labelLen)
	}
}

func (o *exclusive) wasUsed() bool {
	raw, err := os.ReadFile(o.lockPath)
	return err == nil && len(raw) >= labelLen && strings.HasPrefix(string(raw[labelLen:]), usedMark)
}

// lock, tryLock and unlock implement opener: the lock is held all the time.
func (o *exclusive) lock() error            { return nil }
func (o *exclusive) tryLock() (bool, error) { return true, nil }
func (o *exclusive) unlock()                {}

// keeps and drop implement opener: the file never rests.
func (o *exclusive) keeps() bool { return false }
func (o *exclusive) drop()       {}

func (o *exclusive) open(bool) (*handle, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.h != nil {
		return o.h, nil
	}
	h, err := o.openReady(true)
	if err == nil {
		h.lean, o.h = true, h
	}
	return h, err
}

func (o *exclusive) release(h *handle, damaged bool) error {
	if !damaged && !h.spent {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.h = nil
	return errors.Join(h.finish(damaged), o.distrust(h))
}

func (o *exclusive) reader() (*handle, func()) {
	o.mu.RLock()
	if o.h == nil {
		o.mu.RUnlock()
		return nil, nil
	}
	return o.h, o.mu.RUnlock
}

func (o *exclusive) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.h; h != nil {
		if h.changed {
			h.db.NoFreelistSync = false
			if h.db.Update(stamp) != nil { // an open without the freelist only takes longer
				h.doubtful = true
			}
		}
		_ = h.finish(false)
		_ = o.distrust(h)
		o.h = nil
	}
	o.sidecar.unlock()
	o.sidecar.close()
}
