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
	side      *sidecar
	unsynced  bool // see distrust
	// used reports whether anything was ever committed, so that an existing file
	// cannot be empty.
	used         func() bool
	freelist     bbolt.FreelistType
	syncFreelist bool
}

func dbPath(opts Options) string { return filepath.Join(opts.Dir, opts.Name+".db") }

// openReady opens the file, which is set up when it is new.
func (o *dbFile) openReady(write bool) (*handle, error) {
	if err := o.resync(); err != nil {
		return nil, err
	}
	if err := o.settleLog(); err != nil {
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
		err = migrate(h, state.version)
		if err == nil {
			err = syncDir(o.dir)
		}
		if err != nil {
			h.doubtful = true
			return nil, errors.Join(err, h.finish(false), o.distrust(h))
		}
		return h, nil
	}
}

// openFile opens the database. A panic or a fault of bbolt on a damaged file
// becomes an error.
func (o *dbFile) openFile(write bool) (h *handle, err error) {
	h = &handle{writable: write}
	_, missing := os.Stat(o.path)
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
		Timeout:        time.Millisecond,
		ReadOnly:       !write,
		NoFreelistSync: !o.syncFreelist,
		FreelistType:   o.freelist,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
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
		if errors.Is(missing, fs.ErrNotExist) { // what bbolt began may never reach the disk
			err = errors.Join(err, removeIfThere(o.path))
		}
		return nil, err
	}
	return h, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// compact writes a new file and renames it over the old one. Until the rename the old
// file is untouched.
func (o *dbFile) compact(h *handle) error {
	tmp := o.path + ".compact"
	if err := removeIfThere(tmp); err != nil {
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
