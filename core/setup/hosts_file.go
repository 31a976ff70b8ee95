package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/hosts"
)

// maxHostFile bounds a host's file; ~/.claude.json holds histories.
const maxHostFile = 16 << 20

// hostFile is a host's file as it is.
type hostFile struct {
	path   string // where to write: symbolic links followed
	text   []byte
	exists bool
	mode   fs.FileMode
}

// hostFile reads a file that may be changed. Errors say why it may not.
func (hs *Hosts) hostFile(t hosts.Target) (hostFile, error) {
	f := hostFile{path: t.File, mode: 0o600}
	within := ""
	if t.Shared {
		within, f.mode = hs.o.Workspace.Dir, 0o644
		if err := insideOf(filepath.Dir(t.File), within); err != nil {
			return f, err
		}
	}
	path, err := atomicfile.Target(t.File, within)
	switch {
	case errors.Is(err, atomicfile.ErrOutside):
		return f, errors.New("it is a symbolic link out of the workspace, which pml does not follow")
	case err != nil:
		return f, fmt.Errorf("it cannot be found: %w", plainError(err))
	}
	f.path = path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return f, plainError(err)
	case !info.Mode().IsRegular():
		return f, errors.New("it is no plain file")
	case info.Size() > maxHostFile:
		return f, errors.New("it is larger than 16 MiB")
	case info.Mode().Perm()&0o200 == 0:
		return f, errors.New("it is read-only")
	}
	f.exists, f.mode = true, info.Mode().Perm()
	if f.text, err = os.ReadFile(path); err != nil {
		return f, fmt.Errorf("it cannot be read: %w", plainError(err))
	}
	return f, nil
}

// insideOf refuses a folder that symbolic links lead out of the workspace.
func insideOf(dir, workspace string) error {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(dir); lerr == nil {
			return errors.New("its folder is a symbolic link to nothing")
		}
		return nil
	}
	if err != nil {
		return plainError(err)
	}
	if workspace, err = filepath.EvalSymlinks(workspace); err != nil {
		return plainError(err)
	}
	if rel, err := filepath.Rel(workspace, real); err != nil || rel != "." && !filepath.IsLocal(rel) {
		return errors.New("its folder is a symbolic link out of the workspace, which pml does not follow")
	}
	return nil
}

// plainError is an error of the file system without its path.
func plainError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// write puts the change into the place of the file.
func (j *hostJob) write() error {
	failed := func(err error) error {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w; free some space or make it writable", j.File, err)
	}
	if j.Change.After == nil {
		if err := os.Remove(j.file.path); err != nil {
			return failed(err)
		}
		if j.was.Dir != "" {
			_ = os.Remove(j.was.Dir) // only an empty one goes
		}
		return nil
	}
	if j.next.Dir != "" {
		if err := os.MkdirAll(j.next.Dir, 0o755); err != nil {
			return failed(err)
		}
	}
	draft, err := atomicfile.Create(j.file.path)
	if err != nil {
		return failed(err)
	}
	defer draft.Discard()
	now, err := os.ReadFile(j.file.path)
	if err != nil && (j.file.exists || !errors.Is(err, fs.ErrNotExist)) || !bytes.Equal(now, j.file.text) || err == nil && !j.file.exists {
		return core.Errorf(core.CodeDigestMismatch, "%s has changed meanwhile; nothing was written, look at it again", j.File)
	}
	if err := draft.Commit(j.Change.After, j.file.mode); err != nil {
		return failed(err)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
