// Package atomicfile replaces files as a whole: whoever reads one sees the old
// content or the new one, whatever ends the writer in between, and what Write
// has returned for survives a loss of power.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// prefix begins the names of the files in which new content is written. Those
// that a kill leaves are of no use to anybody.
const prefix = ".new-"

// replaced, when a test has set it, is called with each file that has just been
// replaced. Tests end the process there.
var replaced func(name string)

// Write replaces the content and the mode of a file, which need not exist.
// Missing folders are made, 0700. A symbolic link in the place of the file is
// replaced, not followed; see Target. After an error the file is what it was
// and nothing new is beside it, unless the folder alone could not be made
// durable: then the file is the new one.
func Write(name string, data []byte, mode fs.FileMode) error {
	d, err := Create(name)
	if err != nil {
		return err
	}
	defer d.Discard()
	return d.Commit(data, mode)
}

// Draft is a file that is about to be replaced. What can be out of order shows
// when it is made, so that little can go wrong later.
type Draft struct {
	name string
	temp *os.File // nil once it is committed or discarded
}

// Create makes a draft beside the file that it is to replace.
func Create(name string) (*Draft, error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(dir, prefix+"*") // 0600
	if err != nil {
		return nil, err
	}
	return &Draft{name: name, temp: temp}, nil
}

// Commit writes the draft and puts it in the place of its file, as Write does.
func (d *Draft) Commit(data []byte, mode fs.FileMode) error {
	if d.temp == nil {
		return &fs.PathError{Op: "write", Path: d.name, Err: fs.ErrClosed}
	}
	_, err := d.temp.Write(data)
	if err == nil {
		err = d.temp.Chmod(mode)
	}
	if err == nil {
		err = d.temp.Sync()
	}
	if err = errors.Join(err, d.temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(d.temp.Name(), d.name); err != nil {
		return err
	}
	d.temp = nil
	if replaced != nil {
		replaced(d.name)
	}
	return SyncDir(filepath.Dir(d.name))
}

// Discard removes a draft that was not committed. It may be called always.
func (d *Draft) Discard() {
	if d.temp != nil {
		_ = errors.Join(d.temp.Close(), os.Remove(d.temp.Name())) // nothing was promised
		d.temp = nil
	}
}

// SyncDir makes what was renamed or removed in a folder durable, where folders
// can be synced.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	// Windows refuses to sync a folder and does not need it.
	_ = f.Sync()
	return f.Close()
}

// touchAfter is how old the note of a use may get before it is renewed.
const touchAfter = 30 * 24 * time.Hour

// Touch notes, in a file's own time, that it is of use, so that whoever removes
// what is of none leaves it. A note of the last thirty days is not renewed.
func Touch(name string, now time.Time) error {
	if info, err := os.Stat(name); err != nil || now.Sub(info.ModTime()) < touchAfter {
		return nil //nolint:nilerr // a file that is gone needs no note
	}
	return os.Chtimes(name, now, now)
}

// Leftover reports whether a file, by its name, is what a kill has left of one
// that was being written.
func Leftover(name string) bool { return strings.HasPrefix(filepath.Base(name), prefix) }

// ErrOutside is wrapped by the error for a symbolic link that leads out of the
// folder in which a file must be.
var ErrOutside = errors.New("it is a symbolic link that leads out of the folder")

// Target is the file to give to Write for one that a person keeps, who may have
// put a symbolic link in its place: the file that the link leads to. With
// within, a link out of that folder is refused with an error that wraps
// ErrOutside: whoever cloned the folder did not choose what the link points to. A file that is not there is its own target; a link to nothing is
// an error.
func Target(name, within string) (string, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() {
		return name, nil
	}
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil || within == "" {
		return real, err
	}
	if within, err = filepath.EvalSymlinks(within); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(within, real); err != nil || !filepath.IsLocal(rel) {
		return "", &fs.PathError{Op: "write", Path: real, Err: ErrOutside}
	}
	return real, nil
}
