package env

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
)

// guarded are the parts of a home that have to be its own: what was decided, what
// is trusted, who runs what, and the logs.
var guarded = []string{
	"pending.db", "pending.db.lock", "pending.db.redo", "pending.seq", "server.db", "server.db.lock", "server.db.redo",
	"blobs", "server.blobs", "runners", "trust", "logs",
}

// Check refuses a home that borrows the database, the locks, the trust or the logs
// of another one, by a link of either kind, or that belongs to somebody else: its
// configuration would speak for what it does not own. A home that is not there is
// fine, and so is one that is a link as a whole. Error: core.CodeInvalidConfig,
// naming what is wrong.
func (h Home) Check() error {
	info, err := os.Stat(h.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return core.Errorf(core.CodeInvalidConfig, "pml's home %s cannot be looked at: %w; set PML_HOME or pass --home to use another folder", h.Dir, err)
	}
	if !ours(info) {
		return core.Errorf(core.CodeInvalidConfig, "pml's home %s belongs to another user; set PML_HOME or pass --home to use a folder of your own", h.Dir)
	}
	for _, name := range guarded {
		path := filepath.Join(h.Dir, name)
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return core.Errorf(core.CodeInvalidConfig, "%s cannot be looked at: %w; make it readable", path, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return core.Errorf(core.CodeInvalidConfig, "%s is a symbolic link: a home has its own database, locks, trust and logs, so that no other configuration speaks for them; remove the link, or make the whole home one", path)
		case !ours(info):
			return core.Errorf(core.CodeInvalidConfig, "%s belongs to another user; give it back to the owner of the home, or use another home (PML_HOME, --home)", path)
		case info.Mode().IsRegular() && names(info) > 1:
			return core.Errorf(core.CodeInvalidConfig, "%s has another name, too (a hard link): a home has its own database and locks; copy the file instead", path)
		}
	}
	return nil
}
