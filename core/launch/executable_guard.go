package launch

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// ErrChanged is wrapped by the error of a start that was refused because what
// would run is not what was checked any more.
var ErrChanged = errors.New("it is checked again before it is started")

// Guard is what a process is started from, as it was when it was checked. It is
// asked again before each start: servers end when idle, and by themselves.
type Guard struct {
	server string
	files  *Files
	spec   Spec
	place  Place

	located Located
	digest  string
	tree    tree

	mu sync.Mutex
	at time.Time // of the last check that found nothing
}

// tree is an installed package with the hash of its files that was accepted;
// empty for a server that is not installed.
type tree struct {
	pkg  Package
	hash string
	now  func() (hash string, err error)
}

// guardFresh is how long a check stands: that of the gate and that of the
// start which follows it are one.
const guardFresh = 250 * time.Millisecond

// Guard finds and hashes what a command of a server runs at a place. The guard
// is returned beside an error too, with what was found.
func (f *Files) Guard(server string, spec Spec, at Place) (*Guard, error) {
	g := &Guard{server: server, files: f, spec: spec, place: at}
	var err error
	if g.located, err = f.Locate(spec, at); err == nil {
		g.digest, err = f.HashFiles(g.located.Files)
	}
	return g, err
}

// Found are the files that the command runs, beside those of an installed
// package.
func (g *Guard) Found() Located { return g.located }

// Digest is that of the content of these files, empty where there are none.
func (g *Guard) Digest() string { return g.digest }

// Covers adds an installed package, whose files have just been found to have a
// hash that was accepted. now hashes them again.
func (g *Guard) Covers(p Package, hash string, now func() (string, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tree, g.at = tree{p, hash, now}, g.files.o.Clock.Now()
}

// DigestWith is the digest of an entry's own digest, of a command line, and of
// all that the guard watches: another version of a package is another process.
func (g *Guard) DigestWith(entry, command string, args []string) (string, error) {
	return core.DigestOf([]any{entry, command, args, g.tree.hash, g.digest})
}

// Check reports, as an error that wraps ErrChanged, that something is not what
// it was. What cannot be read is an error too.
func (g *Guard) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.files.o.Clock.Now()
	if since := now.Sub(g.at); since >= 0 && since < guardFresh {
		return nil
	}
	if p := g.tree.pkg; g.tree.hash != "" {
		hash, err := g.tree.now()
		if err != nil {
			return err
		}
		if hash != g.tree.hash {
			return core.Errorf(core.CodeIntegrityFailed, "the installed files of %s@%s, which the server %s runs, have just changed; %w", p.Name, p.Version, g.server, ErrChanged)
		}
	}
	if err := g.checkFiles(); err != nil {
		return err
	}
	g.at = now
	return nil
}

// checkFiles looks for the files of a command again: an interpreter may find
// another one by now.
func (g *Guard) checkFiles() error {
	now, err := g.files.Locate(g.spec, g.place)
	if err != nil {
		return err
	}
	hash, err := g.files.HashFiles(now.Files)
	if err != nil {
		return err
	}
	if now.Program == g.located.Program && slices.Equal(now.Files, g.located.Files) && hash == g.digest {
		return nil
	}
	what := "its program"
	if len(now.Files) > 0 {
		what = now.Files[len(now.Files)-1].Path
	}
	return core.Errorf(core.CodeIntegrityFailed, "%s, which the server %s runs, has just changed; %w", core.Visible(what, 300, false), g.server, ErrChanged)
}
