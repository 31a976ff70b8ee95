// Package machine has what runs and set-up share of one process's machine: the
// host of each workspace, upstream servers, installed packages and sign-ins. All
// of them are made on first use, so that a command that needs none starts none.
package machine

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/redact"
	"github.com/casys-ai/pml/core/upstream"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

// Options are what a Machine is made of. Remote, StopGrace and Changed may be
// left out.
type Options struct {
	Home      env.Home
	Workspace env.Workspace // of the process; other folders have only their path
	Environ   env.Environ
	Names     []string // of all variables of the process environment
	Server    string   // the --server flag
	Remote    gate.Remote
	Flows     gate.Flows    // nil: calls that a flow matches are refused
	StopGrace time.Duration // of upstream servers, twice
	LookPath  func(string) (string, error)
	Clock     core.Clock
	Logger    *slog.Logger
	Version   string
	// Changed is called with the name of a server of a workspace whose tools may be others
	// now; it must return at once.
	Changed func(server, workspace string)
	// Working is called, often, with what is being installed and how far it is, in words,
	// and an empty text when it is over; nil discards it.
	Working func(string)
}

// Machine is safe for concurrent use.
type Machine struct {
	o Options

	hostsMu sync.RWMutex // guards hosts for readers that may hold nothing else
	hosts   map[string]*gate.Host

	mu        sync.Mutex
	upstream  *upstream.Manager
	installer *install.Installer
	oauth     *oauth.Client
}

// Open returns a Machine. It reads and starts nothing yet.
func Open(o Options) *Machine {
	m := &Machine{o: o, hosts: map[string]*gate.Host{}}
	m.o.Logger = slog.New(redact.Log(o.Logger.Handler(), m.redact))
	return m
}

// Close stops the hosts and the servers that were started.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, h := range m.hosts {
		errs = append(errs, h.Close())
	}
	if m.upstream != nil {
		errs = append(errs, m.upstream.Close())
	}
	return errors.Join(errs...)
}

// Logger leaves the values of keys out of what is logged to it: those of every
// workspace in use.
func (m *Machine) Logger() *slog.Logger { return m.o.Logger }

// Host returns the host of a workspace: the process's own, or that of a run that
// is taken over.
func (m *Machine) Host(dir string) (*gate.Host, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.hosts[dir]; h != nil {
		return h, nil
	}
	ws := m.o.Workspace
	if dir != ws.Dir {
		ws = env.Workspace{Dir: dir, Source: "run"}
	}
	m.prepare()
	o := gate.Options{
		Workspace: ws, Home: m.o.Home, Environ: m.o.Environ, Names: m.o.Names, Upstream: m.upstream, Installer: m.installer,
		OAuth: m.oauth, Clock: m.o.Clock, Logger: m.o.Logger, Server: m.o.Server, Remote: m.o.Remote, Flows: m.o.Flows,
	}
	if m.o.Changed != nil {
		o.Applied = func(name string) { m.o.Changed(name, dir) }
	}
	h, err := gate.Open(o)
	if err != nil {
		return nil, err
	}
	m.hostsMu.Lock()
	defer m.hostsMu.Unlock()
	m.hosts[dir] = h
	return h, nil
}

// Config is the configuration of a workspace, as far as it is trusted.
func (m *Machine) Config(dir string) (*env.Config, error) {
	h, err := m.Host(dir)
	if err != nil {
		return nil, err
	}
	return h.Config()
}

// Load reads the files of a workspace, trusted or not.
func (m *Machine) Load(ws env.Workspace) (*env.Config, error) {
	return env.Load(env.LoadOptions{Workspace: ws, Home: m.o.Home, Environ: m.o.Environ, Server: m.o.Server})
}

// LoadFiles is Load without the variables of this process, which the server of this
// machine does not have.
func (m *Machine) LoadFiles(ws env.Workspace) (*env.Config, error) {
	none := func(string) (string, bool) { return "", false }
	return env.Load(env.LoadOptions{Workspace: ws, Home: m.o.Home, Environ: none, Server: m.o.Server})
}

// prepare makes the parts that hosts share; none of them starts anything.
func (m *Machine) prepare() {
	if m.upstream != nil {
		return
	}
	m.upstream = upstream.New(upstream.Options{
		Limits: upstream.Limits{StopGrace: m.o.StopGrace},
		Clock:  m.o.Clock, Logger: m.o.Logger, ClientName: "pml", ClientVersion: m.o.Version,
		ToolsChanged: m.toolsChanged, Started: m.started,
		Local: map[string]upstream.LocalServer{gate.Builtin: workspace.New()},
	})
	m.installer = install.New(install.Options{
		Home: m.o.Home.Packages(), Env: env.NpmEnv(m.o.Environ, m.o.Names), LookPath: m.o.LookPath,
		Clock: m.o.Clock, Logger: m.o.Logger, Progress: m.o.Working,
	})
	m.oauth = oauth.New(oauth.Options{Dir: m.o.Home.Credentials(), Clock: m.o.Clock, Logger: m.o.Logger})
}

// toolsChanged tells the host of a workspace that one of its servers announced
// other tools.
func (m *Machine) toolsChanged(name, workspace string) {
	m.hostsMu.RLock()
	h := m.hosts[workspace]
	m.hostsMu.RUnlock()
	if h != nil {
		h.ToolsChanged(name)
	}
	if m.o.Changed != nil {
		m.o.Changed(name, workspace)
	}
}

// PeerGone stops what was started for a client alone that has left.
func (m *Machine) PeerGone(peer string) {
	m.hostsMu.RLock()
	for _, h := range m.hosts {
		h.PeerGone(peer)
	}
	m.hostsMu.RUnlock()
	m.mu.Lock()
	up := m.upstream
	m.mu.Unlock()
	if up != nil {
		up.Gone(peer)
	}
}

// Disconnect forgets the credentials of a server.
func (m *Machine) Disconnect(s oauth.Server) error {
	m.mu.Lock()
	m.prepare()
	c := m.oauth
	m.mu.Unlock()
	return c.Disconnect(s)
}

// Exclusive keeps other processes from changing what this one changes.
func (m *Machine) Exclusive() (unlock func(), err error) {
	m.mu.Lock()
	m.prepare()
	in := m.installer
	m.mu.Unlock()
	return in.Approvals.Exclusive()
}

// Redactor is the view of the runs of a workspace. Where its configuration cannot be read
// any more, all that its .env holds counts as a key.
func (m *Machine) Redactor(dir string) redact.View {
	if h, err := m.Host(dir); err == nil {
		return redact.NewView(h.Redact, h.RedactJSON).Streaming(h.RedactOpen)
	}
	name := filepath.Join(dir, ".env")
	data, err := os.ReadFile(name)
	if err != nil {
		data = nil
	}
	values, _ := env.ParseDotEnv(name, data) // what can be read of a malformed one counts
	r := redact.New(values)
	return redact.NewView(r.String, r.JSON).Streaming(r.Open)
}

// redact takes out what any of the workspaces in use declares as a key.
func (m *Machine) redact(text string) string {
	m.hostsMu.RLock()
	defer m.hostsMu.RUnlock()
	for _, h := range m.hosts {
		text = h.Redact(text)
	}
	return text
}
