package bolt

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
)

// The largest values that lie in the database itself. Those of the journal are
// written once, in order, beside nothing else that changes: there a blob costs
// two syncs and a file more than the row (ten results of 16 KiB: 12 ms against
// 1.2 ms). Inputs, results of runs and contexts share their pages with rows
// that are written again and again.
const (
	inlineMax   = 4 << 10
	inlineValue = 64 << 10 // in the journal
)

// blobs keeps large values in a folder for each run, so that removing a run
// removes its blobs and nothing has to be counted.
type blobs struct{ dir string }

func (b blobs) folder(run core.ID) string { return filepath.Join(b.dir, string(run)) }

// stager writes the blobs of one step, before it is committed.
type stager struct {
	blobs blobs
	run   core.ID
	// dirty is set when the folder holds names that may not be durable yet,
	// made when the folder itself is new.
	dirty, made bool
}

// part returns the value as it is kept in a row that holds up to most bytes of it.
func (s *stager) part(value []byte, most int) (part, error) {
	if len(value) <= most {
		return part{data: value}, nil
	}
	ref := blobRef{sum: sha256.Sum256(value), size: uint64(len(value))}
	path := filepath.Join(s.blobs.folder(s.run), ref.name())
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(value)) {
		s.dirty = true
		return part{blob: &ref}, nil
	}
	if err := s.write(path, value); err != nil {
		return part{}, fileFailure("write", path, err)
	}
	s.dirty = true
	return part{blob: &ref}, nil
}

func (s *stager) write(path string, value []byte) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		s.made = true
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// sync makes the names of the step's blobs durable.
func (s *stager) sync() error {
	if !s.dirty {
		return nil
	}
	folder := s.blobs.folder(s.run)
	dirs := []string{folder}
	if s.made {
		dirs = append(dirs, s.blobs.dir, filepath.Dir(s.blobs.dir))
	}
	for _, dir := range dirs {
		if err := syncDir(dir); err != nil {
			return fileFailure("write", folder, err)
		}
	}
	return nil
}

// load returns a part's value.
func (b blobs) load(run core.ID, p part) ([]byte, error) {
	if p.blob == nil {
		return p.data, nil
	}
	path := filepath.Join(b.folder(run), p.blob.name())
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.CodeStoreFailed,
			"the file %s is missing, which holds a large value of the run %s; was the run removed meanwhile? Otherwise restore it from a backup",
			path, run.Short()).WithRun(run)
	}
	if err != nil {
		return nil, fileFailure("read", path, err)
	}
	if sha256.Sum256(raw) != p.blob.sum {
		return nil, fileFailure("read", path, &damage{reason: "its content does not have the hash " + p.blob.name()})
	}
	return raw, nil
}

// remove deletes what belongs to runs that are gone.
func (b blobs) remove(ids []core.ID) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, os.RemoveAll(b.folder(id)))
	}
	return errors.Join(errs...)
}

// orphanAge is how old the blobs of an unknown run must be before they are
// removed: a run that is just being created has its blobs before its row.
const orphanAge = time.Hour

// old lists the runs that have had blobs for longer than orphanAge.
func (b blobs) old(now time.Time) ([]core.ID, error) {
	entries, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []core.ID
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > orphanAge {
			ids = append(ids, core.ID(e.Name()))
		}
	}
	return ids, err
}
