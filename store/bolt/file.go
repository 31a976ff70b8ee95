package bolt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bbolt "go.etcd.io/bbolt"
)

// dbFile opens and replaces the database file. Whoever uses it has the lock.
type dbFile struct {
	dir, path string
	// used reports whether anything was ever committed, so that an existing file
	// cannot be empty.
	used         func() bool
	freelist     bbolt.FreelistType
	syncFreelist bool
	redo         redoer
}

func dbPath(opts Options) string { return filepath.Join(opts.Dir, opts.Name+".db") }

// openReady opens the file, which is set up when it is new.
func (o *dbFile) openReady(write bool) (*handle, error) {
	if err := o.restore(); err != nil {
		return nil, err
	}
	for {
		h, err := o.openFile(write)
		if !write && errors.Is(err, fs.ErrNotExist) {
			write = true
			continue
		}
		if err != nil {
			return nil, err
		}
		state, err := inspect(h, o.path)
		if err != nil {
			return nil, errors.Join(err, h.finish(false))
		}
		if state.ready {
			return h, nil
		}
		if !write { // it must be set up or migrated first
			if err := h.finish(false); err != nil {
				return nil, err
			}
			write = true
			continue
		}
		err = o.logOff(h)
		if err == nil {
			err = migrate(h, state.version)
		}
		if err == nil {
			err = syncDir(o.dir)
		}
		if err != nil {
			return nil, errors.Join(err, h.finish(false))
		}
		return h, nil
	}
}

// openFile opens the database. A panic or a fault of bbolt on a damaged file
// becomes an error.
func (o *dbFile) openFile(write bool) (h *handle, err error) {
	h = &handle{writable: write}
	if write && o.redo.boot != "" {
		h.mapped = o.mapped()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &damage{reason: panicText(p)}
			if h.file != nil {
				unlockFile(h.file)
				_ = h.file.Close()
			}
			h = nil
		}
	}()
	h.db, err = bbolt.Open(o.path, 0o600, &bbolt.Options{
		// Nobody else has the file while we have the sidecar's lock, so there
		// is nothing to wait for.
		Timeout:         time.Millisecond,
		ReadOnly:        !write,
		NoFreelistSync:  !o.syncFreelist,
		FreelistType:    o.freelist,
		InitialMmapSize: int(h.mapped),
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			_, missing := os.Stat(path)
			f, err := os.OpenFile(path, flag, mode)
			if err != nil {
				return nil, err
			}
			if err := checkSize(f, func() bool { return missing == nil && o.used() }); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			h.file = f
			return f, nil
		},
	})
	if err != nil {
		return nil, err
	}
	if h.mapped > 0 {
		h.db.AllocSize = o.redo.step // else the file would grow by what is mapped
	}
	return h, nil
}

// mapped is how much of the file is mapped at once, so that it can grow while a
// base is held.
func (o *dbFile) mapped() int64 {
	size := int64(0)
	if info, err := os.Stat(o.path); err == nil {
		size = info.Size()
	}
	return max(o.redo.least, mappedFor(2*size))
}

// compact writes a new file beside the old one and puts it in its place. Until
// the rename the old file is untouched.
func (o *dbFile) compact(h *handle) error {
	if err := o.logOff(h); err != nil {
		return err
	}
	tmp := o.path + ".compact"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dst, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: time.Millisecond, NoSync: true, NoGrowSync: true})
	if err != nil {
		return err
	}
	err = bbolt.Compact(dst, h.db, 4<<20)
	if err == nil {
		err = dst.Update(stamp) // what was indexed still is
	}
	if err == nil {
		err = dst.Sync()
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = syncFile(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, o.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(o.dir)
}

// sameFile reports whether path still leads to the open file.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
