// Package local is the client half of pml: it runs programs on this machine,
// keeps what waits for people in the pending store, and takes up runs whose
// process is gone. Nothing of it needs a server.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/upstream"
	"github.com/casys-ai/pml/core/upstream/workspace"
	"github.com/casys-ai/pml/store"
)

// Options are what a Client is made of. All fields but Publish, Server and By
// are needed.
type Options struct {
	Home      env.Home
	Workspace env.Workspace
	Environ   env.Environ
	Names     []string // of all variables of the process environment
	Server    string   // the --server flag
	// Side is what the runs of this client belong to: core.SideClient (the
	// default), or core.SideServer where a server runs them for others.
	Side core.Side
	// Remote makes the calls of tools that routing gives to a server; nil where
	// no server is named.
	Remote   Remote
	Store    store.Store
	Sandbox  *sandbox.Pool
	Clock    core.Clock
	NewID    func() core.ID
	LookPath func(string) (string, error)
	Logger   *slog.Logger
	Version  string
	// By is who uses this client: the audit log names it where a request names
	// nobody.
	By core.Actor
	// Publish is told of events of a run of this kind after they are committed.
	Publish func(core.Kind, []core.Event)
}

// Remote is a server's tools, for calls of a run that this machine runs.
type Remote interface {
	// CallTool makes a call as a run of the server's own, once for an
	// idempotency key, and waits for it as long as the context lasts.
	CallTool(ctx context.Context, call engine.Call, key string) (json.RawMessage, error)
	Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error)
}

// Client runs programs of workspaces on this machine. What it does not need it
// does not start: a client that only lists approvals has no engine, no child
// and no server. In gives further ones for other workspaces and owners, which
// share all that costs something.
type Client struct {
	// o are this client's own options: those of a view differ in Workspace, By
	// and Store, which keeps what is not the owner's out of sight.
	o     Options
	scope api.Scope
	view  bool
	*shared
}

// shared is what all views of a client have in common.
type shared struct {
	base Options // of the client that was opened

	indexes indexes // of tools, for suggestions

	hostsMu sync.RWMutex // guards hosts for readers that may hold nothing else
	hosts   map[string]*gate.Host

	mu        sync.Mutex
	upstream  *upstream.Manager
	installer *install.Installer
	oauth     *oauth.Client
	removing  map[string]string // by server: the URL of one that RemoveServer was asked for
	checkTime time.Duration     // for one server, in doctor
	parkAfter time.Duration     // how long a waiting run of a server stays in memory
	runner    store.Runner
	engine    *engine.Engine

	// life ends when Close begins: who waits for a run is answered.
	life context.Context
	end  context.CancelFunc

	through *through // what is offered to clients under its own name

	traces sync.Mutex // held while a run that was given away is ended
	events newest     // the newest event that was seen

	refusals refusals // attempts that were refused, until they are in the audit log
}

// Open returns a client. It reads and starts nothing yet.
func Open(o Options) *Client {
	if o.Side == "" {
		o.Side = core.SideClient
	}
	s := &shared{hosts: map[string]*gate.Host{}, removing: map[string]string{}, checkTime: checkTime, parkAfter: serverPark, through: newThrough()}
	s.life, s.end = context.WithCancel(context.Background())
	o.Logger = slog.New(redacting{o.Logger.Handler(), s.redact})
	s.base = o
	return &Client{o: o, scope: api.Scope{By: o.By}, shared: s}
}

// Close stops what was started: runs first, so that they can record where
// they stand, then servers and children, then the store. Of a view it does
// nothing.
func (c *Client) Close() error {
	if c.view {
		return nil
	}
	late, cancel := context.WithTimeout(context.Background(), serverClose)
	defer cancel()
	c.end()
	if c.ran() && c.o.Side == core.SideClient { // a server tidies while it runs
		c.tidy()
	}
	c.mu.Lock()
	eng := c.engine
	c.mu.Unlock()
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	if eng != nil { // without the lock: what is under way may need a host yet
		keep(eng.Close())
	}
	keep(c.closeThrough(late))
	if c.refusals.pending() {
		c.settleRefused(late)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hosts {
		keep(h.Close())
	}
	if c.upstream != nil {
		keep(c.upstream.Close())
	}
	keep(c.o.Sandbox.Close())
	keep(c.closeStore(late, c.runner))
	return errors.Join(errs...)
}

// ran reports whether this client has run anything.
func (c *Client) ran() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine != nil
}

// host returns the host of a workspace: this client's own, or that of a run
// that is taken over.
func (c *Client) host(dir string) (*gate.Host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hostLocked(dir)
}

func (c *Client) hostLocked(dir string) (*gate.Host, error) {
	if h := c.hosts[dir]; h != nil {
		return h, nil
	}
	ws := c.base.Workspace
	if dir != ws.Dir {
		ws = env.Workspace{Dir: dir, Source: "run"}
	}
	c.prepare()
	o := gate.Options{
		Workspace: ws, Home: c.o.Home, Environ: c.o.Environ, Names: c.o.Names, Upstream: c.upstream,
		Installer: c.installer, OAuth: c.oauth, Clock: c.o.Clock, Logger: c.o.Logger, Server: c.o.Server,
		Applied: func(name string) { c.through.told(name, dir) },
	}
	if c.o.Remote != nil && c.o.Side == core.SideClient {
		o.Remote = c.o.Remote
	}
	h, err := gate.Open(o)
	if err != nil {
		return nil, err
	}
	c.hostsMu.Lock()
	defer c.hostsMu.Unlock()
	c.hosts[dir] = h
	return h, nil
}

// prepare makes the parts that hosts share; none of them starts anything.
func (c *Client) prepare() {
	if c.upstream != nil {
		return
	}
	var bounds upstream.Limits
	if c.o.Side == core.SideServer {
		bounds.StopGrace = upstreamGrace
	}
	c.upstream = upstream.New(upstream.Options{
		Limits: bounds,
		Clock:  c.o.Clock, Logger: c.o.Logger, ClientName: "pml", ClientVersion: c.o.Version,
		ToolsChanged: c.toolsChanged,
		Local:        map[string]upstream.LocalServer{gate.Builtin: workspace.New()},
	})
	c.installer = install.New(install.Options{
		Home: c.o.Home.Packages(), Env: env.NpmEnv(c.o.Environ, c.o.Names), LookPath: c.o.LookPath,
		Clock: c.o.Clock, Logger: c.o.Logger,
	})
	c.oauth = oauth.New(oauth.Options{Dir: c.o.Home.Credentials(), Clock: c.o.Clock, Logger: c.o.Logger})
}

// toolsChanged tells the host of a workspace that one of its servers announced
// other tools.
func (s *shared) toolsChanged(name, workspace string) {
	s.hostsMu.RLock()
	h := s.hosts[workspace]
	s.hostsMu.RUnlock()
	if h != nil {
		h.ToolsChanged(name)
	}
	s.through.told(name, workspace)
}

// own is the host of the client's own workspace.
func (c *Client) own() (*gate.Host, error) { return c.host(c.o.Workspace.Dir) }

// config is the configuration of the client's own workspace, as far as it is
// trusted.
func (c *Client) config() (*env.Config, error) {
	h, err := c.own()
	if err != nil {
		return nil, err
	}
	return h.Config()
}

func (c *Client) now() time.Time { return c.o.Clock.Now().UTC() }
