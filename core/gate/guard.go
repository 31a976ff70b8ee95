package gate

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

// errChanged is wrapped by the error of a start that was refused because what
// would run is not what was checked any more.
var errChanged = errors.New("it is checked again before it is started")

// guard is what a process is started from, as it was when it was checked. It is
// asked again before each start: servers end when idle, and by themselves.
type guard struct {
	name  string
	in    *install.Installer
	clock core.Clock
	// pkg is the installed package and tree the hash of its files that was
	// accepted; empty for a server that is not installed.
	pkg  install.Installed
	tree string
	// spec is a command, run at place; located are its files beside those of an
	// installed package and digest is that of their content, empty where there
	// are none.
	spec    install.Spec
	place   install.Place
	located install.Located
	digest  string

	mu sync.Mutex
	at time.Time // of the last check that found nothing
}

// guardFresh is how long a check stands: that of the gate and that of the
// start which follows it are one.
const guardFresh = 250 * time.Millisecond

// check reports, as an error that wraps errChanged, that something is not what
// it was. What cannot be read is an error too.
func (g *guard) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if since := now.Sub(g.at); since >= 0 && since < guardFresh {
		return nil
	}
	if g.tree != "" {
		change, err := g.in.Verify(g.pkg)
		if err != nil {
			return err
		}
		hash := g.pkg.TreeHash
		if change != nil {
			hash = change.NewHash
		}
		if hash != g.tree {
			return core.Errorf(core.CodeIntegrityFailed, "the installed files of %s@%s, which the server %s runs, have just changed; %w", g.pkg.Name, g.pkg.Version, g.name, errChanged)
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
func (g *guard) checkFiles() error {
	now, err := g.in.Locate(g.spec, g.place)
	if err != nil {
		return err
	}
	hash, err := g.in.HashFiles(now.Files)
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
	return core.Errorf(core.CodeIntegrityFailed, "%s, which the server %s runs, has just changed; %w", core.Visible(what, 300, false), g.name, errChanged)
}
