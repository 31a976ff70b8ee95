// Package route puts the two halves of pml together: what is this machine's own
// is looked for here first, everything else goes whole to a server; and it
// decides, before anything is sent, which half runs a program.
//
// A Backend has the methods that are about runs. What only this machine has
// (trust, MCP servers, configuration) is no matter of routing.
//
// A run belongs to the half whose store has it, in any state. A full id, and a
// prefix of 8 digits or more, that is there belongs to this machine; a shorter
// prefix must be the only one of both halves.
package route

import (
	"context"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/policy"
)

// Half is what both halves can do.
type Half interface {
	api.Runs
	api.Workflows
	api.Approvals
	api.Catalog
	api.Audit
	api.Halting
}

// Local is the half of this machine.
type Local interface {
	Half
	api.DAGs
	api.Archive
	api.Answers
	api.Refusals
	api.Visits
	Elsewhere
}

// Elsewhere is what this machine answers about runs that a server keeps.
type Elsewhere interface {
	// RuleOf is the rule that would remember an approval which the server of this
	// machine keeps.
	RuleOf(ctx context.Context, a core.Approval) (api.Rule, error)
	// KeysOf names the keys that such an approval asks for and that are set by now.
	KeysOf(ctx context.Context, a core.Approval) ([]string, error)
	// TraceOf is what to report of a run that a server gave to this machine.
	TraceOf(ctx context.Context, id core.ID) (api.Trace, error)
}

// Remote is the half of a server.
type Remote interface {
	Half
	api.Traces
	// Name is the server in messages.
	Name() string
	// Live calls f for events of a run as they happen: those after a number, or
	// from now on when it is negative. ready is called once it listens.
	Live(ctx context.Context, id core.ID, since int64, ready func(), f func(core.Event) error) error
}

// A Backend has what both halves have, and what only this machine has for runs.
var (
	_ Half         = (*Backend)(nil)
	_ api.DAGs     = (*Backend)(nil)
	_ api.Archive  = (*Backend)(nil)
	_ api.Answers  = (*Backend)(nil)
	_ api.Refusals = (*Backend)(nil)
)

// Routing says which half runs a tool, as the configuration does: the most
// specific pattern; of two that are equally specific the one for the client.
type Routing struct {
	Client, Server []string // patterns of core/policy
	Default        core.Side
}

// Options are what a Backend is made of. Local, Servers and Connect are needed.
type Options struct {
	Local Local
	// Servers lists the MCP servers that are configured, and starts none.
	Servers func(ctx context.Context) ([]api.ServerInfo, error)
	// Connect returns the server: the one that is named, otherwise this
	// machine's own. With start there must be one, and one is started where none
	// runs. Without, it is nil where none is named, none runs, and none has kept
	// anything. It is called again after an error or nil.
	Connect func(ctx context.Context, start bool) (Remote, error)
	// Server is the URL of the server that a flag, the environment or the
	// configuration names; empty: none.
	Server string
	// Routing gives the configuration's, read when it is needed.
	Routing func() (Routing, error)
	// Progress is called with the events of a run of a server while its caller waits
	// for it. It may be nil.
	Progress func(core.Event)
	// Partial has lists and events leave out the part of a server that is not to
	// be had, whatever the reason, a named one that refuses the key, too: who
	// looks on wants to see what is here. Without, that is an error of the whole.
	Partial bool
	// Link is called, while all events are followed, when there is no server (err
	// is nil) or why it cannot be followed, again and again. That it is there says
	// its client. It may be nil.
	Link func(err error)
	// Warn is called with what a person should know of an answer that has a gap, once
	// for each text. It may be nil.
	Warn func(text string)
}

// Backend is both halves as one. It is safe for concurrent use.
type Backend struct {
	api.Visits // of this machine: what it lets in is in its own log
	o          Options

	mu       sync.Mutex
	remote   Remote
	warned   map[string]bool
	reported map[core.ID]bool
	patterns *policy.Policy
}

// New returns a backend. It connects to nothing yet.
func New(o Options) *Backend {
	if o.Routing == nil {
		o.Routing = func() (Routing, error) { return Routing{Default: core.SideClient}, nil }
	}
	return &Backend{Visits: o.Local, o: o, warned: map[string]bool{}, reported: map[core.ID]bool{}}
}

// server returns the server, nil where there is none.
func (b *Backend) server(ctx context.Context, start bool) (Remote, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.remote != nil {
		return b.remote, nil
	}
	r, err := b.o.Connect(ctx, start)
	if err != nil {
		return nil, err
	}
	b.remote = r
	return r, nil
}

// mustServer returns the server where one must be.
func (b *Backend) mustServer(ctx context.Context) (Remote, error) {
	r, err := b.server(ctx, true)
	if err == nil && r == nil {
		err = core.Errorf(core.CodeServerUnreachable, "there is no server that could run this, and none can be started here").WithNext("pml", "serve")
	}
	return r, err
}

// warn tells a person something, once.
func (b *Backend) warn(text string) {
	b.mu.Lock()
	again := b.warned[text]
	b.warned[text] = true
	b.mu.Unlock()
	if !again && b.o.Warn != nil {
		b.o.Warn(text)
	}
}

// missing says that a list has only what is on this machine.
func missing(err error) string {
	return "the server does not answer, so its part is missing: " + core.AsError(err).Message
}

// absent reports whether an error means that the part of the server is missing
// for now. One that a person has named and that is not to be had like this, a
// mistyped one or one that refuses the key, is an error of the whole.
func (b *Backend) absent(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if b.o.Server == "" || b.o.Partial {
		return true
	}
	switch core.CodeOf(err) {
	case core.CodeServerUnreachable, core.CodeStoreBusy, core.CodeStoreFailed, core.CodeRateLimited:
		return true
	default:
		return false
	}
}

// unknown reports whether an error says that a half does not have an id.
func unknown(err error) bool { return core.CodeOf(err) == core.CodeNotFound }

// half is the half that a run belongs to. Where no server is, it is this
// machine, which then says what is wrong with the id.
func (b *Backend) half(ctx context.Context, id core.ID) (h Half, local bool, err error) {
	_, _, err = b.o.Local.Resolve(ctx, string(id))
	if !unknown(err) {
		return b.o.Local, true, err
	}
	r, rerr := b.server(ctx, false)
	if rerr != nil {
		return nil, false, rerr
	}
	if r == nil {
		return b.o.Local, true, nil
	}
	return r, false, nil
}
