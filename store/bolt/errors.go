package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/casys-ai/pml/core"
)

// damage says that a file does not hold what it must.
type damage struct{ reason string }

// Error says what is damaged.
func (d *damage) Error() string { return d.reason }

// failure turns an error of the file into one that says what to do. nil stays
// nil, and what is a core.Error already stays as it is.
func (s *Store) failure(doing string, err error) error {
	return fileFailure(doing, s.path(), err)
}

func fileFailure(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	var known *core.Error
	if errors.As(err, &known) {
		return known
	}
	switch {
	case isDamage(err), errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum),
		errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrInvalidMapping):
		return core.Errorf(core.CodeStoreFailed,
			"the store %s is damaged: %w; move it away or restore a backup; nothing was changed", path, err)
	case errors.Is(err, berrors.ErrTimeout):
		return core.Errorf(core.CodeStoreBusy,
			"another program has the store %s open without its lock; close it and try again", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return core.Errorf(core.CodeStoreFailed,
			"cannot %s the store %s: the disk is full (%w); free some space and try again; nothing was changed", doing, path, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return core.Errorf(core.CodeStoreFailed,
			"cannot %s the store %s: %w; make the folder writable for you or choose another with --home; nothing was changed", doing, path, err)
	}
	return core.Errorf(core.CodeStoreFailed,
		"cannot %s the store %s: %w; nothing was changed", doing, path, err)
}

func panicText(p any) string {
	if err, ok := p.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(p)
}

func newer(path string, version uint64) error {
	return core.Errorf(core.CodeStoreNewer,
		"the store %s has format %d and this pml knows formats up to %d: it was written by a newer pml; update pml, or use another --home",
		path, version, formatVersion).WithNext("pml", "version")
}

func isDamage(err error) bool {
	var d *damage
	return errors.As(err, &d)
}
