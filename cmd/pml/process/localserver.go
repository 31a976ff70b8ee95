package process

import (
	"context"
	"errors"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/server"
)

// localServer is this machine's server, as the commands under "server" see it.
type localServer struct {
	daemon *daemon.Daemon
	keys   *server.Keys
	// flag is what --server names, named what any of the flag, the environment
	// and the configuration does: its status is asked for.
	flag, named string
}

func openLocalServer(o app.OpenOptions) (app.LocalServer, error) {
	environ := env.OS()
	home, err := ownHome(o.Home, environ)
	if err != nil {
		return nil, err
	}
	d, err := newDaemon(home, environ)
	if err != nil {
		return nil, err
	}
	s := &localServer{daemon: d, keys: server.NewKeys(home.Keys(), systemClock{}), flag: o.Server, named: o.Server}
	if ws, err := workspaceOf(o.Workspace, environ); err == nil { // without one there is the flag, and the environment
		s.named = namedServer(o, home, ws, environ)
	} else if s.named == "" {
		s.named, _ = environ("PML_SERVER")
	}
	return s, nil
}

// newDaemon looks after the server of a home.
func newDaemon(home env.Home, environ env.Environ) (*daemon.Daemon, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	return daemon.New(daemon.Options{
		Home: home.Dir, Version: buildVersion().Version, Command: []string{self, "serve"},
		Environ: environ, Names: env.OSNames(), NoStart: daemon.Refusal(environ),
	}), nil
}

// Status implements cli.LocalServer.
func (s *localServer) Status(ctx context.Context) (*app.ServerState, error) {
	if s.named == "" {
		return stateOf(s.daemon.Status(ctx))
	}
	c, err := newClient(s.named, "", env.OS())
	if err != nil {
		return nil, err
	}
	st, err := c.Status(ctx)
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	return &app.ServerState{ServerStatus: st, Warning: daemon.Compare(buildVersion().Version, st)}, nil
}

// Stop implements cli.LocalServer.
func (s *localServer) Stop(ctx context.Context) (*app.ServerState, error) {
	if s.flag != "" {
		return nil, core.Errorf(core.CodeUsage, "--server names a server that is not this machine's own; stop it where it runs")
	}
	return stateOf(s.daemon.Stop(ctx))
}

// stateOf is what a daemon found, nil when it found nothing.
func stateOf(found *daemon.Server, err error) (*app.ServerState, error) {
	if err != nil || found == nil {
		return nil, err
	}
	return &app.ServerState{ServerStatus: found.ServerStatus, Warning: found.Warning}, nil
}

// AddKey implements cli.ServerKeys.
func (s *localServer) AddKey(_ context.Context, name string) (string, error) {
	return s.keys.Create(name)
}

// Keys implements cli.ServerKeys.
func (s *localServer) Keys(context.Context) ([]app.ServerKey, error) {
	list, err := s.keys.List()
	if err != nil {
		return nil, err
	}
	out := make([]app.ServerKey, len(list))
	for i, k := range list {
		out[i] = app.ServerKey{Name: k.Name, CreatedAt: k.CreatedAt}
	}
	return out, nil
}

// RemoveKey implements cli.ServerKeys.
func (s *localServer) RemoveKey(_ context.Context, name string) error { return s.keys.Remove(name) }

// newClient is a client of a named server. Over a socket it names the workspace.
func newClient(address, workspace string, environ env.Environ) (*client.Client, error) {
	key, _ := environ("PML_API_KEY")
	o := client.Options{
		URL: address, APIKey: key, Version: buildVersion().Version, Via: core.ViaCLI, Workspace: workspace, Clock: systemClock{},
	}
	if strings.HasPrefix(address, "unix:") {
		o.APIKey = ""
	}
	return client.New(o)
}
