package process

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/route"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/tui/feed"
)

// Each method of a backend is that of exactly one of these, or written out below:
// two that had the same would not compile.
type (
	servers   = api.Servers
	packages  = api.Packages
	workspace = api.Workspace
	changes   = api.Changes
	pin       = api.Pin
	hosts     = api.Hosts
	doctor    = api.Doctor

	permissions = api.Permissions
	models      = api.Models
	notices     = api.Notify
	flows       = api.Flows
	hostCalls   = api.HostCalls
)

// backend is this machine and a server as one: runs of both, and the set-up of
// this machine.
type backend struct {
	*route.Backend
	servers
	packages
	workspace
	changes
	pin
	hosts
	doctor
	permissions
	models
	notices
	flows
	hostCalls

	half   *service.Service
	server *connector
}

func newBackend(router *route.Backend, half *service.Service, server *connector) *backend {
	set := half.Setup
	return &backend{
		Backend: router, servers: set.Servers, packages: set.Servers, workspace: set.Workspace, changes: set.Workspace,
		pin: set.Pin, hosts: set.Hosts, doctor: set.Doctor, permissions: set.Permissions, models: set.Models, notices: set.Notify, flows: half, hostCalls: half, half: half, server: server,
	}
}

var (
	_ app.Backend  = (*backend)(nil)
	_ feed.Backend = (*backend)(nil)
)

// Close ends what runs on this machine, and the connections.
func (b *backend) Close() error { return errors.Join(b.half.Close(), b.server.Close()) }

// Servers are the servers of this machine; of those that pml's own server runs with what that
// one knows of them.
func (b *backend) Servers(ctx context.Context) ([]api.ServerInfo, error) {
	list, err := b.half.Setup.Servers.Servers(ctx)
	return b.served(ctx, list), err
}

// served adds what pml's own server knows of the processes that it runs. Where it does not say
// so, it is not known.
func (b *backend) served(ctx context.Context, list []api.ServerInfo) []api.ServerInfo {
	if !slices.ContainsFunc(list, runsInServer) || b.server.named != "" {
		return list
	}
	c, err := b.server.connect(ctx, false)
	if err != nil || c == nil {
		return list
	}
	theirs, err := c.Servers(ctx)
	if err != nil {
		return list
	}
	for i := range list {
		if at := slices.IndexFunc(theirs, func(s api.ServerInfo) bool { return s.Name == list[i].Name }); at >= 0 && runsInServer(list[i]) {
			list[i].Served = theirs[at].Health
		}
	}
	return list
}

// runsInServer reports whether pml's own server runs a process of a server.
func runsInServer(s api.ServerInfo) bool {
	return slices.ContainsFunc(s.Elsewhere, func(p api.ServerProcess) bool { return p.Serves })
}

// RestartServer ends the process that a server has here, or in pml's own server, and starts it
// anew there.
func (b *backend) RestartServer(ctx context.Context, name string) ([]api.ServerInfo, error) {
	list, err := b.half.Setup.Servers.Servers(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(s api.ServerInfo) bool { return s.Name == name })
	here := at >= 0 && list[at].Health != nil && list[at].Health.PID != 0
	if at < 0 || here || !runsInServer(list[at]) || b.server.named != "" {
		return b.half.Setup.Servers.RestartServer(ctx, name)
	}
	c, err := b.server.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	if c == nil { // it has ended meanwhile
		return b.half.Setup.Servers.CheckServers(ctx, name)
	}
	if _, err := c.RestartServer(ctx, name); err != nil {
		return nil, err
	}
	list, err = b.Servers(ctx)
	return slices.DeleteFunc(list, func(s api.ServerInfo) bool { return s.Name != name }), err
}

// PinChange prepares another PIN, or none, in the configuration of the home.
func (b *backend) PinChange(ctx context.Context, old, fresh string) (api.ChangeSet, error) {
	return b.half.Setup.Pin.PinChange(ctx, old, fresh)
}

// AdoptPin makes the store of this machine want the PIN of the configuration, and
// that of this machine's server, if one runs.
func (b *backend) AdoptPin(ctx context.Context, old string, atTerminal bool) error {
	if err := b.half.AdoptPin(ctx, old, atTerminal); err != nil {
		return err
	}
	if b.server.named != "" {
		return nil // whoever runs it sets its PIN there
	}
	c, err := b.server.connect(ctx, false)
	if err != nil || c == nil {
		return err
	}
	return c.AdoptPin(ctx, old)
}

// connector knows the server: the one that is named, else this machine's own.
// It connects when it is first asked.
type connector struct {
	named     string // its URL; empty: this machine's own
	home      env.Home
	workspace env.Workspace
	environ   env.Environ
	warn      func(string)
	started   func(string) // called when the command has started a server; may be nil
	link      func(app.Link)
	via       core.Via
	noStart   bool
	// passive: once it was looked for, only what decides or runs starts a server.
	passive bool

	mu     sync.Mutex
	looked bool
	client *client.Client
}

// connect returns the server. This machine's own is started where start wants
// it or its store exists: then somebody may look for what is in it. Otherwise
// there is none, and nil is returned.
func (c *connector) connect(ctx context.Context, start bool) (*client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	o := client.Options{Version: buildVersion().Version, Via: c.via, Workspace: c.workspace.Dir, Clock: systemClock{}, Warn: c.warn, Passive: c.passive}
	if c.link != nil {
		o.Link = c.linked
	}
	if c.named != "" {
		o.URL = c.named
		o.APIKey, _ = c.environ("PML_API_KEY")
	} else {
		d, err := newDaemon(c.home, c.environ)
		if err != nil {
			return nil, err
		}
		again := c.passive && c.looked
		c.looked = true
		started := false
		s, err := d.Connect(ctx, func() bool {
			started = !c.noStart && (start || !again && c.kept())
			return started
		})
		if err != nil || s == nil {
			return nil, err
		}
		if started && c.started != nil {
			c.started("pml's server was started in the background (process " + strconv.Itoa(s.PID) + "), and goes on with the runs that it keeps; pml server stop ends it")
		}
		if s.Warning != "" && c.warn != nil {
			c.warn(s.Warning)
		}
		o.Socket, o.Checked, o.Redial = s.Socket, true, c.redial(d)
	}
	fresh, err := client.New(o)
	if err != nil {
		return nil, err
	}
	c.client = fresh
	return fresh, nil
}

// linked passes on how the stream of events of the server is.
func (c *connector) linked(live bool, err error) { c.link(app.Link{Up: live, Name: c.named, Err: err}) }

// missing passes on that there is no server, or why it cannot be reached.
func (c *connector) missing(err error) { c.link(app.Link{None: err == nil, Name: c.named, Err: err}) }

// redial finds this machine's server when it is not where it was, and starts
// another one if that is wanted.
func (c *connector) redial(d *daemon.Daemon) func(context.Context, bool) (string, error) {
	return func(ctx context.Context, start bool) (string, error) {
		s, err := d.Connect(ctx, func() bool { return start && !c.noStart })
		if err != nil || s == nil {
			return "", err
		}
		return s.Socket, nil
	}
}

// kept reports whether an earlier server has kept anything.
func (c *connector) kept() bool {
	for _, name := range []string{"PML_STORE", "PML_ENGINE"} {
		if url, _ := c.environ(name); url != "" {
			return true
		}
	}
	_, err := os.Stat(c.home.ServerDB())
	return err == nil
}

// remote is connect for the router, which knows a nil interface only.
func (c *connector) remote(ctx context.Context, start bool) (route.Remote, error) {
	r, err := c.connect(ctx, start)
	if err != nil || r == nil {
		return nil, err
	}
	return r, nil
}

// Close ends the connections.
func (c *connector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil
	}
	return c.client.Close()
}

// CallTool implements gate.Remote: a call of a run here that the server makes.
func (c *connector) CallTool(ctx context.Context, call engine.Call, key string) (json.RawMessage, error) {
	r, err := c.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	return r.CallToolOnce(ctx, call.Tool, call.Args, key, call.RunID)
}

// Tools implements gate.Remote.
func (c *connector) Tools(ctx context.Context) ([]core.Tool, []core.Fault, error) {
	r, err := c.connect(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	return r.Tools(ctx)
}

// settings is the configuration of a workspace as far as it is trusted.
func settings(o app.OpenOptions, home env.Home, ws env.Workspace, environ env.Environ) (*env.Config, error) {
	all, err := env.Load(env.LoadOptions{Workspace: ws, Home: home, Environ: environ, Server: o.Server})
	if err != nil {
		return nil, err
	}
	trust, err := home.TrustOf(all)
	if err != nil {
		return nil, err
	}
	return all.Effective(trust.Counts()), nil
}

// namedServer is the URL of the server that a flag, the environment or the
// configuration names, empty for none. A configuration that cannot be read
// names none: whoever needs it says what is wrong with it.
func namedServer(o app.OpenOptions, home env.Home, ws env.Workspace, environ env.Environ) string {
	if o.Server != "" {
		return o.Server
	}
	if url, _ := environ("PML_SERVER"); url != "" {
		return url
	}
	cfg, err := settings(o, home, ws, environ)
	if err != nil {
		return ""
	}
	return cfg.Server.URL
}
