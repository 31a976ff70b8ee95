package bolt

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// keepTime is how long an unused handle is kept. One that is kept for ever
// would hold the space of a file that another process has compacted.
const keepTime = 250 * time.Millisecond

// keepHandles is off where an open file cannot be replaced by another process.
const keepHandles = runtime.GOOS != "windows"

// kept is a handle between two batches. While the lock is not held it is
// nothing but a cache: it is used again only when the file is the same and no
// other process has committed meanwhile, which the meta pages tell.
type kept struct {
	h     *handle
	info  fs.FileInfo
	metas [2][stampLen]byte
}

// stampLen covers a page header and the meta behind it, checksum included.
const stampLen = 80

// mark remembers the state of the file. The lock is held.
func mark(h *handle) (*kept, error) {
	info, err := h.file.Stat()
	if err != nil {
		return nil, err
	}
	k := &kept{h: h, info: info}
	if err := readMetas(h, &k.metas); err != nil {
		return nil, err
	}
	return k, nil
}

func readMetas(h *handle, into *[2][stampLen]byte) error {
	page := int64(h.db.Info().PageSize)
	for i := range into {
		if _, err := h.file.ReadAt(into[i][:], int64(i)*page); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports whether the file at path still is the one that was kept.
// The lock is held.
func (k *kept) unchanged(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != k.info.Size() || !os.SameFile(info, k.info) {
		return false
	}
	var now [2][stampLen]byte
	if readMetas(k.h, &now) != nil {
		return false
	}
	for i := range now {
		if !bytes.Equal(now[i][:], k.metas[i][:]) {
			return false
		}
	}
	// An older pml that runs at the same time may have commits in its redo log only.
	if _, err := os.Lstat(path + logExtension); err == nil {
		return false
	}
	// bbolt's own lock excludes programs that do not know the sidecar.
	ok, err := tryLockFile(k.h.file)
	return ok && err == nil
}

// release ends the use of a handle in a batch: it is kept for the next one, or
// closed when it is of no further use.
func (o *shared) release(h *handle, damaged bool) error {
	if !keepHandles || damaged || h.spent || !h.writable {
		return errors.Join(h.finish(damaged), o.distrust(h))
	}
	unlockFile(h.file)
	if k := h.mark; k != nil && !h.changed {
		o.kept = k
		return nil
	}
	k, err := mark(h)
	if err != nil {
		return errors.Join(err, h.finish(false))
	}
	h.mark, h.changed = k, false
	o.kept = k
	return nil
}

// reuse returns the kept handle if it can be used again. The lock is held.
func (o *shared) reuse() *handle {
	k := o.kept
	o.kept = nil
	switch {
	case k == nil:
		return nil
	case !o.unsure() && k.unchanged(o.path):
		return k.h
	}
	_ = k.h.finish(false)
	return nil
}

// drop closes the kept handle. Nobody may be at work.
func (o *shared) drop() {
	if k := o.kept; k != nil {
		o.kept = nil
		_ = k.h.finish(false)
	}
}

func (o *shared) keeps() bool { return o.kept != nil }
