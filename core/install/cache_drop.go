package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// toolsDir holds the definitions of tools, one file for each. Like the hashes of
// launch.HashesDir they can be lost at any time.
const toolsDir = ".tools"

// restUnread is how long a file of either folder is kept after it was last of use.
const restUnread = 180 * 24 * time.Hour

// forgetUnread removes kept definitions and hashes that were of no use for long.
func (in *Installer) forgetUnread(ctx context.Context) error {
	now := in.o.Clock.Now()
	var failed error
	for _, dir := range []string{toolsDir, launch.HashesDir} {
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
