// Package service has pml's use-cases: execute, continue, decide, abort, retry,
// replan, and what people set up (servers, trust, hosts, the PIN). A command that
// runs programs on this machine has one, and pml serve has one; both keep runs in
// a store of their own and take up those whose process is gone.
package service

import (
	"context"
	"errors"
	"log/slog"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/audit"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/live"
	"github.com/casys-ai/pml/core/machine"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// Options are what a Service is made of. All fields but Publish, Server, By, Models and
// Hooks are needed.
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
	Remote  gate.Remote
	Store   store.Store
	Sandbox *sandbox.Pool
	// Hooks runs the scripts of hook flows (hook.Limits), and nothing else. Without it
	// the calls that a flow matches are refused.
	Hooks    *sandbox.Pool
	Clock    core.Clock
	NewID    func() core.ID
	LookPath func(string) (string, error)
	Logger   *slog.Logger
	Version  string
	// By is who uses this client: the audit log names it where a request names
	// nobody.
	By core.Actor
	// Models are what agents ask; nil: those of the configuration.
	Models Models
	// Publish is called with events of a run of this kind after they are committed.
	Publish func(core.Kind, []core.Event)
	// Working is called, often, with what is being installed and how far it is, in words,
	// and an empty text when it is over; nil discards it.
	Working func(string)
}

// Models are the language models that a workspace may ask.
type Models interface {
	// Describe is what is known of a model, of the default one without a name.
	Describe(workspace, name string) (ModelInfo, error)
	// Ask sends one request.
	Ask(ctx context.Context, workspace, name string, req model.Request) (model.Answer, error)
}

// ModelInfo is what is known of a model.
type ModelInfo struct {
	Name      string
	MaxTokens int              // of an answer
	Window    int              // tokens in all; 0: not known
	Price     *core.AgentPrice // nil: not known
	Base      string           // the URL that requests go to; empty: nowhere
	Missing   []string         // the variables of its key that are not set
}

// Service runs programs of workspaces on this machine. What it does not need it
// does not start: a client that only lists approvals has no engine, no child
// and no server. In gives further ones for other workspaces and owners, which
// share all that costs something. Each method is that of one part.
type Service struct {
	*view
	*execution
	*history
	*decisions
	*handover
	*waiting
	*programs
	*hookFlows
	*halting
	auditLog
	refusals
	pin
	derived bool // by In: Close leaves the process alone
}

// What there is of runs, a Service has.
var (
	_ api.Runs      = (*Service)(nil)
	_ api.Workflows = (*Service)(nil)
	_ api.Archive   = (*Service)(nil)
	_ api.Details   = (*Service)(nil)
	_ api.Traces    = (*Service)(nil)
	_ api.Approvals = (*Service)(nil)
	_ api.Answers   = (*Service)(nil)
	_ api.Catalog   = (*Service)(nil)
	_ api.DAGs      = (*Service)(nil)
	_ api.Flows     = (*Service)(nil)
	_ api.HostCalls = (*Service)(nil)
	_ api.Halting   = (*Service)(nil)
	_ api.Audit     = (*Service)(nil)
	_ api.Refusals  = (*Service)(nil)
)

// The parts of the contract that others implement.
type (
	auditLog = api.Audit
	refusals = api.Refusals
	pin      = pinKeeper
)

// pinKeeper is what a server tells of the PIN, and lets a person change.
type pinKeeper interface {
	api.Pin
	AdoptPin(ctx context.Context, old string, atTerminal bool) error
}

// Open returns a client. It reads and starts nothing yet.
func Open(o Options) *Service {
	if o.Side == "" {
		o.Side = core.SideClient
	}
	s := &process{parkAfter: serverPark, through: newThrough()}
	s.life, s.end = context.WithCancel(context.Background())
	mo := machine.Options{
		Home: o.Home, Workspace: o.Workspace, Environ: o.Environ, Names: o.Names, Server: o.Server, LookPath: o.LookPath,
		Clock: o.Clock, Logger: o.Logger, Version: o.Version, Changed: s.through.told, Working: o.Working,
	}
	if o.Side == core.SideServer {
		mo.StopGrace = upstreamGrace
	} else if o.Remote != nil {
		mo.Remote = o.Remote
	}
	if o.Hooks != nil {
		s.hooks = newHooks(o, s)
		mo.Flows = s.hooks
	}
	s.machine = machine.Open(mo)
	o.Logger = s.machine.Logger()
	s.texts = live.NewTexts(o.Clock, o.Logger)
	if o.Models == nil {
		o.Models = &configuredModels{process: s, client: model.NewClient(nil, o.Clock)}
	}
	s.base, s.open.store = o, o.Store
	s.brake = brake{read: o.Store.Halted, now: o.Clock.Now}
	trail := audit.Open(audit.Options{Home: o.Home, Side: o.Side, Store: o.Store, Machine: s.machine, Clock: o.Clock, Logger: o.Logger}, auditView(o, false))
	return newView(o, api.Scope{By: o.By}, s, trail)
}

func auditView(o Options, partial bool) audit.View {
	return audit.View{Store: o.Store, Partial: partial, Workspace: o.Workspace.Dir, By: o.By}
}

// Logger is what the client logs to: it leaves values of keys out, so that what
// is around the client can log to it too.
func (c *Service) Logger() *slog.Logger { return c.o.Logger }

// Close stops what was started: runs first, so that they can record where
// they stand, then servers and children, then the store. Of a view it does
// nothing.
func (c *Service) Close() error {
	if c.derived {
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
	c.closeProxy(late)
	if c.hooks != nil {
		keep(c.hooks.Close())
		keep(c.o.Hooks.Close())
	}
	c.trail.Close(late)
	c.mu.Lock()
	defer c.mu.Unlock()
	keep(c.machine.Close())
	keep(c.o.Sandbox.Close())
	keep(c.closeStore(late, c.runner))
	return errors.Join(errs...)
}
