// Package presence keeps what the pml processes of a home tell each other about
// themselves while they live, such as the host that is connected to one: a process
// writes a record and holds a lock beside it. The kernel gives the lock back however
// the process ends, so what a process that was killed has told is not listed.
package presence

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
)

// The files of a record, which differ in their suffix.
const (
	lockSuffix   = ".lock" // locked while the process lives
	recordSuffix = ".json" // written once the lock is held
	freshSuffix  = ".new"  // a record that is being written
)

// maxRecord bounds what is read of a record, in bytes.
const maxRecord = 16 << 10

// Join lists a record in a folder until leave is called or the process ends; the caller
// keeps leave until then, because a lock that nobody refers to is given back. The record
// must be small: 16 KiB as JSON at most.
func Join[T any](dir string, record T) (leave func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	lock, err := joinLock(dir)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	base := strings.TrimSuffix(lock.Path(), lockSuffix)
	leave = func() { remove(lock) } // List removes what stays
	if err := writeRecord(base, record); err != nil {
		leave()
		return nil, unwritable(dir, err)
	}
	return leave, nil
}

// mostTries bounds how often a lock is made: one that List takes for that of a dead
// process, in the moment before it is held, is made anew.
const mostTries = 100

// newLock returns the lock of a file that exists: it never makes the file, so that a name
// is used once. Else who removes what stood under it would take what stands there now.
func newLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(os.O_RDONLY))
}

// joinLock returns a new lock that is held.
func joinLock(dir string) (*flock.Flock, error) {
	for range mostTries {
		f, err := os.CreateTemp(dir, "*"+lockSuffix) // 0600
		if err != nil {
			return nil, err
		}
		lock := newLock(f.Name())
		held, err := lock.TryLock()
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // List has removed it
		}
		if err := errors.Join(f.Close(), err); err != nil {
			remove(lock)
			return nil, err
		}
		if held && stands(lock) {
			return lock, nil
		}
		_ = lock.Close()
	}
	return nil, errors.New("others remove each lock that is made there")
}

// stands reports whether the file of a lock that is held has not been removed.
func stands(lock *flock.Flock) bool {
	held, err := lock.Stat()
	named, err2 := os.Stat(lock.Path())
	return err == nil && err2 == nil && os.SameFile(held, named)
}

// remove removes the files of a lock that is held, and gives it back. The lock's file goes
// while it is held, where the system lets it: whoever waits for it sees that.
func remove(lock *flock.Flock) {
	base := strings.TrimSuffix(lock.Path(), lockSuffix)
	_ = os.Remove(base + recordSuffix)
	_ = os.Remove(base + freshSuffix)
	err := os.Remove(lock.Path())
	_ = lock.Close()
	if err != nil {
		_ = os.Remove(lock.Path())
	}
}

// writeRecord shows readers all of a record or nothing. It does not sync: after a loss
// of power no process lives.
func writeRecord(base string, record any) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+freshSuffix, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(base+freshSuffix, base+recordSuffix)
}

func unwritable(dir string, err error) error {
	return core.Errorf(core.CodeStoreFailed, "cannot note in %s what this process does: %w; make the folder writable, or use another PML_HOME", dir, err)
}

// List returns the records of processes that live, in no order, and removes the files of
// those that have ended. A folder that does not exist has none.
func List[T any](dir string) ([]T, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "cannot read what other processes do: %w", err)
	}
	var list []T
	seen := map[string]bool{}
	for _, f := range files { // a process that was killed may have left any of its files
		path := filepath.Join(dir, f.Name())
		suffix := filepath.Ext(path)
		base := strings.TrimSuffix(path, suffix)
		if suffix != lockSuffix && suffix != recordSuffix && suffix != freshSuffix || seen[base] {
			continue
		}
		seen[base] = true
		if !alive(base) {
			continue
		}
		if record, ok := readRecord[T](base); ok {
			list = append(list, record)
		}
	}
	return list, nil
}

// alive reports whether a process holds the lock of a record. It asks for a shared
// lock, so that two who ask at the same time do not take each other for the process.
func alive(base string) bool {
	lock := newLock(base + lockSuffix)
	free, err := lock.TryRLock()
	if free || errors.Is(err, fs.ErrNotExist) {
		remove(lock) // only tidiness: what stays is found dead again
	}
	return !free && err == nil
}

// readRecord reads a record; false when its process has left meanwhile, or wrote what
// is none.
func readRecord[T any](base string) (record T, ok bool) {
	f, err := os.Open(base + recordSuffix)
	if err != nil {
		return record, false
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRecord))
	return record, err == nil && json.Unmarshal(raw, &record) == nil
}
