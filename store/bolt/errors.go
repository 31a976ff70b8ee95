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
	return failureWith(doing, path, err, "nothing was changed")
}

// commitFailure is the failure of a commit, which may have been kept all the same.
func commitFailure(path string, err error) error {
	return failureWith("write", path, err, "whether this change was kept shows when the file is read again, which pml does before it uses it")
}

// failureWith says at its end what became of the file.
func failureWith(doing, path string, err error, outcome string) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*core.Error](err); ok {
		return known
	}
	switch {
	case isDamage(err), errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum),
		errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrInvalidMapping):
		return core.Errorf(core.CodeStoreFailed,
			"the store %s is damaged: %w; move it away or restore a backup; %s", path, err, outcome)
	case errors.Is(err, berrors.ErrTimeout):
		return core.Errorf(core.CodeStoreBusy,
			"another program has the store %s open without its lock; close it and try again", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return core.Errorf(core.CodeStoreFailed,
			"cannot %s the store %s: the disk is full (%w); free some space and try again; %s", doing, path, err, outcome)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return core.Errorf(core.CodeStoreFailed,
			"cannot %s the store %s: %w; make the folder writable for you or choose another with --home; %s", doing, path, err, outcome)
	}
	return core.Errorf(core.CodeStoreFailed,
		"cannot %s the store %s: %w; %s", doing, path, err, outcome)
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
