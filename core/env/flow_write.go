package env

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// FlowFile is a file to write in the workspace's folder of flows, or in the home's: Text
// in the place of Was, which is nil where there is none. Without Text it is removed.
type FlowFile struct {
	Home      bool
	Name      string // its path in the folder, with /
	Text, Was []byte
}

// WriteFlow writes a file of a flow, or of what flows use. A flow that is enabled and
// has faults is core.CodeInvalidConfig with all of them; a file that is not what it was
// and not yet what it is to be is core.CodeInvalidArguments. A link that leads out of the folder is not followed.
func (c *Config) WriteFlow(f FlowFile) error {
	home, folder := c.HookFlows()
	dir := c.Flows
	if f.Home {
		folder, dir = home, c.HomeFlows
	}
	shown := core.Visible(f.Name, 80, false)
	if !filepath.IsLocal(filepath.FromSlash(f.Name)) || strings.Contains(f.Name, `\`) {
		return core.Errorf(core.CodeInvalidArguments, "%s is no name of a file in the folder of flows", shown)
	}
	if f.Text != nil && !strings.Contains(f.Name, "/") {
		if made := folder.ParseOne(f.Name, f.Text); made.Enabled && len(made.Faults) > 0 {
			err := core.Errorf(core.CodeInvalidConfig, "the flow %s has faults, and cannot be enabled before they are corrected", shown).WithNext("pml", "flows", "edit", f.Name)
			err.Faults = made.Faults
			return err
		}
	}
	name := filepath.Join(dir, filepath.FromSlash(f.Name))
	target, err := atomicfile.Target(name, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.CodeStoreFailed, "the flow cannot be written: %w", err)
	}
	target = cmp.Or(target, name)
	unlock, err := c.lockFlows()
	if err != nil {
		return err
	}
	defer unlock()
	switch now, err := os.ReadFile(target); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return core.Errorf(core.CodeStoreFailed, "the flow's file cannot be read: %w", err)
	case now != nil && f.Text != nil && bytes.Equal(now, f.Text):
		return nil
	case (now == nil) != (f.Was == nil) || !bytes.Equal(now, f.Was):
		return core.Errorf(core.CodeInvalidArguments, "%s is there already, or has changed since it was read; nothing was written", name).WithNext("pml", "flows", "ls")
	}
	if f.Text == nil {
		err = os.Remove(target)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o700); err == nil {
		err = atomicfile.Write(target, f.Text, 0o600)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "the flow cannot be written: %w", err)
	}
	return nil
}

// lockFlows keeps other processes of this home from writing flows, so that what was compared
// is what is replaced.
func (c *Config) lockFlows() (unlock func(), err error) {
	if err := c.Home.Ensure(); err != nil {
		return nil, err
	}
	name := filepath.Join(c.Home.Dir, "flows.lock")
	if unlock, err = atomicfile.Lock(context.Background(), name); err != nil {
		return nil, core.Errorf(core.CodeStoreBusy, "another pml writes a flow and holds %s: %w; try again", name, err)
	}
	return unlock, nil
}
