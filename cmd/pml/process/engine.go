package process

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/store"
)

// Engine keeps the runs of servers in a service that is neither pml's own file nor PostgreSQL. Its
// client is large, so that it is a program of its own: this one with the engine.
type Engine struct {
	// Scheme is that of its addresses, of --engine.
	Scheme string
	// Open opens the runs at an address.
	Open func(ctx context.Context, at EngineAddress) (store.Store, error)
	// Check says what stands at an address, and with prepare makes there what is missing before.
	Check func(ctx context.Context, at EngineAddress, prepare bool) ([]api.Check, error)
}

// EngineAddress is where an engine is, and what it needs of this process.
type EngineAddress struct {
	URL     *url.URL
	Environ func(name string) (string, bool)
	Home    string // pml's own folder
	Clock   core.Clock
	NewID   func() core.ID
	Logger  *slog.Logger
}

// engines are those that this program brings.
var engines []Engine

// engineOf parses an address, and finds the engine for it: nil where another program has it.
func engineOf(address string) (*Engine, *url.URL, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "temporal" || at.Host == "" || strings.Trim(at.Path, "/") == "" {
		return nil, nil, core.Errorf(core.CodeInvalidArguments, "the address of an engine is temporal://HOST:PORT/NAMESPACE, and this is none")
	}
	if at.User != nil {
		return nil, nil, core.Errorf(core.CodeInvalidArguments, "an address of an engine has neither a name nor a password: whoever lists processes would read it; the key of an API goes into PML_TEMPORAL_API_KEY")
	}
	for i := range engines {
		if engines[i].Scheme == at.Scheme {
			return &engines[i], at, nil
		}
	}
	return nil, at, nil
}

// elsewhere goes on as the program that has the engine of an address, with the same arguments. It
// returns where this program has it, or with the error that nothing has.
func elsewhere(ctx context.Context, address string) error {
	own, at, err := engineOf(address)
	if err != nil || own != nil {
		return err
	}
	program, err := companion("pml-" + at.Scheme)
	if err != nil {
		return err
	}
	return become(ctx, program)
}

// companion finds a program of pml beside this one, or in PATH.
func companion(name string) (string, error) {
	self, err := executable()
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	real, err := filepath.EvalSymlinks(self)
	if err != nil {
		real = self
	}
	for _, dir := range []string{filepath.Dir(self), filepath.Dir(real), ""} {
		path := name
		if dir != "" {
			path = filepath.Join(dir, name)
		}
		found, err := exec.LookPath(path)
		if err == nil && !same(found, self) {
			return found, nil
		}
	}
	return "", core.Errorf(core.CodeInvalidConfig, "runs in Temporal need the program %s, which is neither beside pml nor in PATH; in a checkout of pml, cd store/temporal && go build -o %s ./cmd/pml-temporal makes it",
		name, filepath.Join(filepath.Dir(self), name))
}

// same reports whether two paths are one file: a program that is pml under another name would go on for ever.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// faces are the programs that ask people for this server: pml beside it where it is the program of an engine. One elsewhere is
// not believed: it could be anything that comes first in PATH.
func (s *serving) faces() []string {
	self, err := executable()
	if err != nil || s.o.Engine == "" {
		return nil
	}
	name := "pml"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return []string{filepath.Join(filepath.Dir(self), name)}
}

// openEngine opens the runs of a server at the address of an engine.
func (s *serving) openEngine(ctx context.Context) (store.Store, error) {
	own, at, err := engineOf(s.o.Engine)
	if err != nil {
		return nil, err
	}
	if own == nil {
		return nil, core.Errorf(core.CodeInternal, "this program has no engine %s", at.Scheme)
	}
	return own.Open(ctx, EngineAddress{URL: at, Environ: s.environ, Home: s.home.Dir, Clock: systemClock{}, NewID: newID, Logger: s.log})
}

// checkEngine is pml doctor --engine.
func checkEngine(ctx context.Context, o app.EngineOptions) ([]api.Check, error) {
	environ := env.OS()
	if err := elsewhere(ctx, o.Address); err != nil {
		return nil, err
	}
	own, at, err := engineOf(o.Address)
	if err != nil {
		return nil, err
	}
	home, err := ownHome(o.Home, environ)
	if err == nil {
		err = home.Ensure()
	}
	if err != nil {
		return nil, err
	}
	return own.Check(ctx, EngineAddress{URL: at, Environ: environ, Home: home.Dir, Clock: systemClock{}, NewID: newID, Logger: newLogger(o.Log, core.ViaCLI)}, o.Prepare)
}

// cannotBecome is the error of a program that cannot be started.
func cannotBecome(program string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return core.Errorf(core.CodeInvalidConfig, "%s may not be started: %w", program, err)
	}
	return core.Errorf(core.CodeInvalidConfig, "%s cannot be started: %w", program, err)
}
