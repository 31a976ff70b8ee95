package tui

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/casys-ai/pml/core"
)

// draft is a file in a folder of its own, which nobody else can read, for the
// person's editor. The folder is named after the process, so that another one can
// tell whether it was left behind.
type draft struct{ dir, file string }

func newDraft(name, text string, mode os.FileMode) (draft, error) {
	dir, err := os.MkdirTemp("", draftsOf(os.Getpid())) // with mode 0700
	if err != nil {
		return draft{}, core.Errorf(core.CodeStoreFailed, "cannot make a folder for the editor: %w", err)
	}
	d := draft{dir, filepath.Join(dir, fileName(name))}
	if err := d.write(text); err != nil {
		d.remove()
		return draft{}, err
	}
	if err := os.Chmod(d.file, mode); err != nil {
		d.remove()
		return draft{}, core.Errorf(core.CodeStoreFailed, "cannot make a file for the editor: %w", err)
	}
	return d, nil
}

func (d draft) write(text string) error {
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write the file for the editor: %w", err)
	}
	return nil
}

// maxDraft bounds what is read from an editor, in bytes.
const maxDraft = 4 << 20

func (d draft) read() (string, error) {
	fi, err := os.Stat(d.file)
	if err == nil && fi.Size() > maxDraft {
		return "", core.Errorf(core.CodeTooLarge, "the file has %d bytes; at most %d are read", fi.Size(), maxDraft)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(d.file)
	}
	if err != nil {
		return "", core.Errorf(core.CodeStoreFailed, "cannot read what the editor left: %w", err)
	}
	return string(data), nil
}

// remove takes the file and its folder away. What cannot be removed stays until
// another process sweeps.
func (d draft) remove() { _ = os.RemoveAll(d.dir) }

// draftPrefix begins the names of the folders of drafts.
const draftPrefix = "pml-draft-"

// draftsOf begins the names of the folders of a process.
func draftsOf(pid int) string { return draftPrefix + strconv.Itoa(pid) + "-" }

// sweepDrafts removes the folders that processes left behind which were killed
// while an editor was open: they hold arguments of calls. Whoever may not read a
// folder cannot remove it, so that those of other persons stay.
func sweepDrafts(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing can be left in a folder that cannot be read
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), draftPrefix)
		number, _, named := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if ok && named && err == nil && pid > 0 && e.IsDir() && ended(pid) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
}

// ended reports whether it is certain that a process is there no more.
func ended(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true // only Windows looks for it here
	}
	defer func() { _ = p.Release() }()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
