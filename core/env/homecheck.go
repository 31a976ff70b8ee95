package env

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// guarded are the parts of a home that have to be its own: what was decided, what
// is trusted, which commands are, who runs what, who may see the pages, and the logs.
var guarded = []string{
	"pending.db", "pending.db.lock", "pending.db.redo", "pending.seq", "server.db", "server.db.lock", "server.db.redo",
	"blobs", "server.blobs", "runners", "trust", "logs", "commands", "visitors.json", "visitors.json.lock",
}

// Check refuses a home that borrows the database, the locks, the trust or the logs
// of another one, by a link of either kind, that belongs to somebody else, or that
// others can write to: its configuration would speak for what it does not own. Check
// also refuses a pipe or a device where pml would open a file. A home that is not there is
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
	if othersWrite(info) {
		return core.Errorf(core.CodeInvalidConfig, "pml's home %s can be written to by other users (%s), who could change what is trusted and decided; look at what is in it, then chmod go-w it", h.Dir, info.Mode().Perm()).
			WithNext("chmod", "go-w", h.Dir)
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
		case !info.Mode().IsRegular() && !info.IsDir():
			return core.Errorf(core.CodeInvalidConfig, "%s is a pipe, a socket or a device, not a file: pml would wait for it for ever; remove it, or use another home (PML_HOME, --home)", path)
		case info.Mode().IsRegular() && names(info) > 1:
			return core.Errorf(core.CodeInvalidConfig, "%s has another name, too (a hard link): a home has its own database and locks; copy the file instead", path)
		}
	}
	return nil
}

// own are the other names that pml gives to what it keeps in a home.
var own = []string{
	"server.seq", "server", "server.json", "server.log", "server.lock", "notify.lock", "pml.sock", "config.json", "pml.lock", ".env", "hosts.json",
	"pin.json", "tui-crash.log", "secret", "tidied", "packages", "offered", "credentials", "keys", "broken", "clients", "processes", "flows", "live",
}

// ownBegins are beginnings of such names: parts that end in an id, and files that were
// being written when a process was stopped.
var ownBegins = []string{"refused-", ".pml-", ".backup-", ".doctor-", ".new-"}

// Foreign are the entries of a home that pml does not know as its own, in their order:
// nothing that pml does may remove them.
func (h Home) Foreign() ([]string, error) {
	entries, err := os.ReadDir(h.Dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if !isOwn(e.Name()) {
			list = append(list, e.Name())
		}
	}
	return list, nil
}

// isOwn reports whether pml gives a name to what it keeps in a home.
func isOwn(name string) bool {
	is := func(known string) bool { return name == known || strings.HasPrefix(name, known+".") }
	begins := func(known string) bool { return strings.HasPrefix(name, known) }
	temp, isTemp := strings.CutPrefix(name, ".")
	return slices.ContainsFunc(guarded, is) || slices.ContainsFunc(own, is) || slices.ContainsFunc(ownBegins, begins) || isTemp && temp != "" && isOwn(temp)
}
