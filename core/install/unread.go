package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
)

// What is kept only to be shown or to be faster, one file for each: it can be
// lost at any time.
const (
	toolsDir  = ".tools"
	hashedDir = ".hashed"
)

// restUnread is how long such a file is kept after it was last of use.
const restUnread = 180 * 24 * time.Hour

// touchAfter is how old the note of a use may get before it is renewed.
const touchAfter = 30 * 24 * time.Hour

// touch notes, in a file's own time, that it is of use. A note that cannot be
// made means at worst that the file is made again.
func (in *Installer) touch(file string) {
	now := in.o.Clock.Now()
	if info, err := os.Stat(file); err != nil || now.Sub(info.ModTime()) < touchAfter {
		return
	}
	if err := os.Chtimes(file, now, now); err != nil {
		in.o.Logger.Debug("cannot note the use of a file", "file", file, "error", err)
	}
}

// forgetUnread removes kept definitions and hashes that were of no use for long.
func (in *Installer) forgetUnread(ctx context.Context) error {
	now := in.o.Clock.Now()
	var failed error
	for _, dir := range []string{toolsDir, hashedDir} {
		dir = filepath.Join(in.o.Home, dir)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, diskError("read "+dir, err))
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return errors.Join(failed, core.Errorf(core.CodeCancelled, "stopped while packages were removed: %w", context.Cause(ctx)))
			}
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || now.Sub(info.ModTime()) < restUnread {
				continue // gone already, or not ours, or young
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, diskError("remove an old file in "+dir, err))
			}
		}
	}
	return failed
}
