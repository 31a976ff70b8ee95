package process

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/route"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store/bolt"
)

// open wires the two halves together. Nothing of them does anything before it
// is used.
func open(_ context.Context, o app.OpenOptions) (app.Backend, error) {
	b, err := openBackend(o, func(half *service.Service) (*service.Service, error) { return half, nil })
	if err != nil {
		return nil, err
	}
	return b, nil
}

// openBackend is open with the client half as seen by whoever decides what may
// be seen of it.
func openBackend(o app.OpenOptions, seen func(*service.Service) (*service.Service, error)) (*backend, error) {
	environ := env.OS()
	home, err := ownHome(o.Home, environ)
	if err != nil {
		return nil, err
	}
	ws, err := workspaceOf(o.Workspace, environ)
	if err != nil {
		return nil, err
	}
	c := &connector{
		named: namedServer(o, home, ws, environ), home: home, workspace: ws, environ: environ,
		warn: o.Warn, started: o.Started, link: o.Link, via: cmp.Or(o.Via, core.ViaCLI), noStart: o.NoStart, passive: o.Watching,
	}
	half, err := openHalf(o, c, newLogger(o.Log, c.via))
	if err != nil {
		return nil, err
	}
	view, err := seen(half)
	if err != nil {
		return nil, errors.Join(err, half.Close())
	}
	var missing func(error)
	if c.link != nil {
		missing = c.missing
	}
	router := route.New(route.Options{
		Link: missing, Local: view, Servers: view.Setup.Servers.Servers, Connect: c.remote, Server: c.named, Warn: o.Warn, Progress: o.Progress, Partial: o.Watching,
		Routing: func() (route.Routing, error) {
			cfg, err := settings(o, home, ws, environ)
			if err != nil {
				return route.Routing{}, err
			}
			return route.Routing{Client: cfg.Routing.Client, Server: cfg.Routing.Server, Default: cfg.Routing.Default}, nil
		},
	})
	return newBackend(router, half, c), nil
}

// openHalf opens the client half. Calls that it gives to a server go through c.
func openHalf(o app.OpenOptions, c *connector, logger *slog.Logger) (*service.Service, error) {
	clock := systemClock{}
	st, err := bolt.Open(bolt.Options{
		Dir: c.home.PendingDir(), Clock: clock, NewID: newID, PID: os.Getpid(), Process: filepath.Base(os.Args[0]), Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	self, err := executable()
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	warm, hooks := -1, 1 // a command runs one program: no child is kept ready for a next one
	if c.via == core.ViaMCP {
		warm, hooks = 0, 0 // as many as are usual
	}
	kept := &announced{Store: st, start: starter(c.home, c.environ, logger)}
	if c.via == core.ViaMCP || c.via == core.ViaTUI {
		kept.news() // the process that notifies may have been killed before it did
	}
	lo := service.Options{
		Side: core.SideClient, Home: c.home, Workspace: c.workspace, Environ: c.environ, Names: env.OSNames(), Server: o.Server,
		Store: kept, Sandbox: sandbox.NewPool(sandbox.Options{Command: []string{self, sandboxCommand}, Warm: warm, Reuse: true}),
		Hooks: sandbox.NewPool(hook.PoolOptions([]string{self, sandboxCommand}, hooks)),
		Clock: clock, NewID: newID, LookPath: exec.LookPath, Logger: logger, Version: buildVersion().Version,
		Publish: publisher(o.Progress), Working: o.Working, By: core.Actor{Who: userName(), Via: c.via},
	}
	if c.named != "" {
		lo.Remote = c
	}
	return service.Open(lo), nil
}

// workspaceOf is the workspace of a folder, of the current one without.
func workspaceOf(dir string, environ env.Environ) (env.Workspace, error) {
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return env.Workspace{}, core.Errorf(core.CodeInvalidConfig, "cannot find the current folder: %w", err)
		}
	}
	return env.FindWorkspace(dir, environ)
}

// executable is pml's own binary, which starts itself as a child.
func executable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", core.Errorf(core.CodeInternal, "cannot find pml's own binary: %w", err)
	}
	return self, nil
}

// publisher hands events on one at a time.
func publisher(progress func(core.Event)) func(core.Kind, []core.Event) {
	if progress == nil {
		return nil
	}
	var mu sync.Mutex
	return func(_ core.Kind, events []core.Event) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			progress(e)
		}
	}
}

// ownHome is the home that the flag or the environment names, if it is one of its own.
func ownHome(flag string, environ env.Environ) (env.Home, error) {
	home, err := env.FindHome(flag, environ)
	if err == nil {
		err = home.Check()
	}
	return home, err
}
