// Package mcp offers pml's tools to MCP clients: execute, continue, abort,
// replan, approval_response, workflow_status, flow_status and discover, over streamable HTTP
// and stdio.
//
// mcp-go speaks the protocol (revisions, handshake, lists); the transports are
// this package's own, because an answer must never be overtaken by its progress,
// a call that waits must not keep others from being answered, and a session
// belongs to who opened it.
//
// A call waits while its run computes, never for a person unless it says how
// long (options.wait). One that is cancelled, or whose client is gone, stops
// waiting; its run goes on and is found by its id.
package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Options are what an Edge works with. Backend, Scope, Validate and Clock are
// needed.
type Options struct {
	// Backend gives what a scope may use.
	Backend func(scope api.Scope) (Backend, error)
	// Scope says for whom a call is made; ok is false where nobody is known, and
	// then the call is refused. The edge itself sets that the way in was MCP and
	// that a caller without an owner sees the runs of its workspace only.
	Scope func(ctx context.Context) (scope api.Scope, ok bool)
	// Validate says all that is wrong with arguments by a JSON schema.
	Validate func(schema, args json.RawMessage) []core.Fault
	// Rank names the tools that fit an intent, best first, at most limit.
	// Without it plain words are compared.
	Rank func(intent string, tools []core.Tool, limit int) []api.SuggestedTool
	// Proxy gives what upstream servers offer in a scope; nil, or a nil
	// Proxy: nothing.
	Proxy func(scope api.Scope) (Proxy, error)
	// Introduced gets the client over stdio, once, as soon as it has said who it is; no
	// message is answered before it returns. May be nil.
	Introduced func(core.Client)
	// Secret keys the integrity of what clients keep for pml (requestState). It
	// must be the same after a restart; nil: a random one, for this Edge only.
	Secret []byte
	Clock  core.Clock
	Log    *slog.Logger // nil: none
	// Random is where ids of sessions come from; nil: the system's.
	Random  io.Reader
	Version string

	// Limits; zero stands for the default.
	MaxMessage    int64         // bytes of one message: 8 MiB
	MaxCalls      int           // of a session at the same time: 1000
	OwnerCalls    int           // of an API key at the same time, over all its sessions: 100
	Beginning     int           // runs that begin at the same time, of all callers: 2 for each CPU
	MaxSessions   int           // over HTTP, of all callers: 10,000
	OwnerSessions int           // over HTTP, of an API key, or of the socket's own user: a tenth of MaxSessions
	SessionIdle   time.Duration // without a message of its client, until a session over HTTP is forgotten: 8 h
	Beat          time.Duration // between signs of life of a call that runs: 15 s
	Grace         time.Duration // for calls to end once stdin has: 2 s
	Asking        time.Duration // the least time that a host's question stays open in a call that says how long it waits: 60 s
	Holding       time.Duration // for a client to bring the answer that a server behind pml waits for: 5 min
}

// Edge answers MCP clients. It is made once and serves any number of them.
type Edge struct {
	o        Options
	protocol *server.MCPServer
	tools    map[string]tool
	list     []tool

	sessions *sessions
	owners   ownerLimit
	states   *states
	held     heldCalls
	peers    peers
	turns    turns
	info     json.RawMessage // who answers, as modern results say it
}

// New makes an Edge.
func New(o Options) (*Edge, error) {
	if o.Backend == nil || o.Scope == nil || o.Validate == nil || o.Clock == nil {
		return nil, core.Errorf(core.CodeInternal, "core/mcp: Backend, Scope, Validate and Clock are needed")
	}
	if err := defaults(&o); err != nil {
		return nil, err
	}
	list, err := published()
	if err != nil {
		return nil, err
	}
	e := &Edge{
		o: o, list: list, tools: map[string]tool{}, sessions: newSessions(o),
		owners: ownerLimit{most: o.OwnerCalls, calls: map[string]int{}}, turns: make(turns, o.Beginning),
		states: &states{clock: o.Clock, random: o.Random, secret: o.Secret},
	}
	e.held = heldCalls{o: o, states: e.states, peers: &e.peers}
	e.peers.log, e.peers.abandoned = o.Log, e.held.abandon
	e.protocol = server.NewMCPServer("pml", o.Version,
		server.WithTitle("PML"), server.WithInstructions(instructions),
		server.WithCacheHints(0, mcp.CacheScopePrivate), // runs and tools are the caller's own
		server.WithToolCapabilities(o.Proxy != nil), server.WithToolFilter(inOrder(list)),
		server.WithResourceCapabilities(true, o.Proxy != nil), server.WithPromptCapabilities(o.Proxy != nil),
		server.WithLogging(), server.WithCompletions(), server.WithPromptCompletionProvider(completer{e}), server.WithResourceCompletionProvider(completer{e}))
	e.info, _ = json.Marshal(mcp.Implementation{Name: "pml", Title: "PML", Version: o.Version}) // strings
	for _, t := range list {
		t.run = handlers[t.Name]
		if t.run == nil {
			return nil, core.Errorf(core.CodeInternal, "core/mcp: no handler for %s", t.Name)
		}
		e.tools[t.Name] = t
		e.protocol.AddTool(t.definition(), e.admit)
	}
	e.offerResources()
	e.offerPrompts()
	return e, nil
}

// Sessions counts the sessions over HTTP.
func (e *Edge) Sessions() int { return e.sessions.count() }

// instructions are what a client may show its model about pml as a whole.
const instructions = "pml runs code and workflows over MCP tools so that they survive crashes and wait for people. " +
	"Use discover to find tools, execute to run, continue after a pause. A workflow_id stays valid across restarts."

func defaults(o *Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Version == "" {
		o.Version = "0"
	}
	o.MaxMessage = or(o.MaxMessage, 8<<20)
	o.MaxCalls = or(o.MaxCalls, 1000)
	o.OwnerCalls = or(o.OwnerCalls, 100)
	o.Beginning = or(o.Beginning, 2*runtime.GOMAXPROCS(0))
	o.MaxSessions = or(o.MaxSessions, 10_000)
	o.OwnerSessions = or(o.OwnerSessions, max(1, o.MaxSessions/10))
	o.SessionIdle = or(o.SessionIdle, 8*time.Hour)
	o.Beat = or(o.Beat, 15*time.Second)
	o.Grace = or(o.Grace, 2*time.Second)
	o.Asking = or(o.Asking, time.Minute)
	o.Holding = or(o.Holding, 5*time.Minute)
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		if _, err := io.ReadFull(o.Random, o.Secret); err != nil {
			return core.Errorf(core.CodeInternal, "no random numbers for a secret: %w", err)
		}
	}
	return nil
}

func or[T int | int64 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// backend gives what a caller may use, and who it is.
func (e *Edge) backend(ctx context.Context) (Backend, core.Actor, error) {
	scope, ok := e.scope(ctx)
	if !ok {
		return nil, core.Actor{}, core.Errorf(core.CodePermissionDenied, "nobody is known to be calling")
	}
	b, err := e.o.Backend(scope)
	return b, scope.By, err
}

// admitCaller sets what the caller of a call may use, and who it is.
func (e *Edge) admitCaller(ctx context.Context, c *call) (err error) {
	c.backend, c.by, err = e.backend(ctx)
	c.by.Client = c.agent
	return err
}

// scope is for whom a call is made, as an MCP caller.
func (e *Edge) scope(ctx context.Context) (api.Scope, bool) {
	s, ok := e.o.Scope(ctx)
	if !ok {
		return api.Scope{}, false
	}
	s.By.Via = core.ViaMCP
	if s.By.Who == "" {
		s.By.Who = "agent"
	}
	s.Confined = s.Confined || s.Owner == ""
	return s, true
}
