// Package setup is what a person arranges: MCP servers, trust in a workspace,
// registration with agents' hosts, the PIN, and a doctor that looks at all of it.
// Methods that return a change write nothing; what a person agreed to is written
// by Workspace.Write and Hosts.WriteHost.
package setup

import (
	"context"
	"log/slog"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/audit"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/machine"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// Options are what a Setup is made of. All fields are needed.
type Options struct {
	Home      env.Home
	Workspace env.Workspace
	Environ   env.Environ
	Scope     api.Scope   // who asks
	Store     store.Store // as the scope sees it
	Whole     store.Store // all of it: the PIN is of the store, whoever asks
	Machine   *machine.Machine
	Audit     *audit.Trail
	Sandbox   *sandbox.Pool
	LookPath  func(string) (string, error)
	Clock     core.Clock
	NewID     func() core.ID
	Logger    *slog.Logger
	// Explore starts a server of which something is offered to agents' hosts, if it
	// may be started, and says what it has.
	Explore func(ctx context.Context, peer *api.Peer, server string) (api.Exposed, error)
	// Accepted is told what a person has accepted of a server: the question, who has
	// answered it, and what has proved the PIN.
	Accepted func(ctx context.Context, asked core.Approval, req api.AcceptRequest, proved string)
}

// Setup is what can be arranged in one workspace.
type Setup struct {
	Servers   *Servers
	Workspace *Workspace
	Pin       *Pin
	Hosts     *Hosts
	Doctor    *Doctor

	Permissions *Permissions
	Models      *Models
	Notify      *Notify
}

var (
	_ api.Servers   = (*Servers)(nil)
	_ api.Packages  = (*Servers)(nil)
	_ api.Workspace = (*Workspace)(nil)
	_ api.Changes   = (*Workspace)(nil)
	_ api.PinSetup  = (*Pin)(nil)
	_ api.Hosts     = (*Hosts)(nil)
	_ api.Doctor    = (*Doctor)(nil)

	_ api.Permissions = (*Permissions)(nil)
	_ api.Models      = (*Models)(nil)
	_ api.Notify      = (*Notify)(nil)
)

// New makes the parts of a Setup; none of them reads anything yet.
func New(o Options) *Setup {
	b := base{o}
	pin := &Pin{b}
	ws := &Workspace{b, pin}
	told := &Notify{b}
	return &Setup{
		Servers: &Servers{base: b, pin: pin, removing: map[string]string{}}, Workspace: ws, Pin: pin, Hosts: &Hosts{b},
		Doctor:      &Doctor{base: b, pin: pin, workspace: ws, notify: told, CheckTime: checkTime},
		Permissions: &Permissions{b}, Models: &Models{b}, Notify: told,
	}
}

// base is what all parts of a Setup know.
type base struct{ o Options }

// own is the host of the workspace.
func (b *base) own() (*gate.Host, error) { return b.o.Machine.Host(b.o.Workspace.Dir) }

// config is the configuration of the workspace, as far as it is trusted.
func (b *base) config() (*env.Config, error) { return b.o.Machine.Config(b.o.Workspace.Dir) }

// load reads the files of the workspace, trusted or not.
func (b *base) load() (*env.Config, error) { return b.o.Machine.Load(b.o.Workspace) }

func (b *base) now() time.Time { return b.o.Clock.Now().UTC() }
