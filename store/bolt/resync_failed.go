package bolt

import (
	"errors"
	"io/fs"
	"os"
)

// After a failed sync the page cache may show what never reached the disk, and a later
// sync does not write it again (https://wiki.postgresql.org/wiki/Fsync_Errors). So the
// process closes its handle and marks the lock file (distrust). The next process that
// has the lock, this one or another, writes and syncs the two meta pages again before
// it reads or writes anything else (resync). The meta pages suffice: bbolt writes them
// only after it has synced all pages that they lead to.

// distrust notes that a sync may have failed. The lock is held.
func (o *dbFile) distrust(h *handle) error {
	if !h.doubtful {
		return nil
	}
	o.unsynced = true // if the mark cannot be set, at least this process knows
	return o.side.doubt()
}

// unsure reports whether the file has to be made durable before it is used.
func (o *dbFile) unsure() bool {
	doubted, err := o.side.doubted()
	return o.unsynced || doubted || err != nil
}

// resync makes durable what the file shows after a sync that failed, and fails as long
// as that cannot be done. The lock is held.
func (o *dbFile) resync() error {
	doubted, err := o.side.doubted()
	if err != nil {
		return err
	}
	if !doubted && !o.unsynced {
		return nil
	}
	err = rewriteMetas(o.path)
	if err == nil {
		err = syncDir(o.dir)
	}
	if err == nil {
		err = o.side.trust()
	}
	if err == nil {
		o.unsynced = false
	}
	return err
}

// rewriteMetas reads the pages that name the last commits, and writes and syncs them.
func rewriteMetas(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	m, err := readMeta(f, info.Size())
	if err != nil {
		return err
	}
	pages := make([]byte, 2*int(m.pageSize))
	if _, err := f.ReadAt(pages, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(pages, 0); err != nil {
		return err
	}
	return f.Sync()
}
