// Package gate passes calls of one workspace through the gates, in their fixed
// order: deny rules, the tool and its arguments, then what a person may have to
// decide (keys, installation, integrity, permission). It implements the
// engine's Host. Gates fail closed: what cannot be checked is not called.
package gate

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/upstream"
)

// Builtin is the name of the server inside the binary. Its read-only tools
// need no rule.
const Builtin = "workspace"

// Options are what a Host is made of. All fields but OAuth are needed.
type Options struct {
	Workspace env.Workspace
	Home      env.Home
	Environ   env.Environ
	Names     []string // of all variables of the process environment
	Upstream  *upstream.Manager
	Installer *install.Installer
	Clock     core.Clock
	Logger    *slog.Logger
	// Server is the --server flag, for the configuration.
	Server string
	// OAuth connects HTTP servers; without it one that asks for authorization
	// cannot be used unless its entry brings the header.
	OAuth *oauth.Client
	// Remote makes the calls that routing gives to a server; nil where none is
	// named.
	Remote Remote
	// Applied is told the name of a server after something was carried out that a
	// person has approved for it; it must return at once. May be nil.
	Applied func(server string)
}

// Host is one workspace as the engine sees it: its gates and its tools. It is
// safe for concurrent use.
type Host struct {
	o Options

	mu      sync.Mutex
	config  *settings // replaced as a whole when the files change
	servers map[string]*keeper
	looked  time.Time // when the files were last looked at; zero: look again
	looks   atomic.Uint64
	// session are the tools that a person has allowed, and until when; zero: until
	// this process ends.
	session  map[permit]time.Time
	failures map[string]*core.Error // of the last installation, by server
	remote   remoteTools

	guestMu sync.RWMutex
	guests  map[core.ID]*Guest // by run: for whom its calls are made

	newsMu sync.Mutex     // held for a moment only
	newsOf map[string]int // see ToolsChanged

	life        context.Context // ends with Close
	end         context.CancelFunc
	waiting     sync.WaitGroup // flows whose callback is awaited
	connMu      sync.Mutex
	connections map[string]*connection  // by URL
	challenged  map[string]oauth.Server // with what their 401 said

	lockWrite sync.Mutex // held while pml.lock or .pml.json is rewritten
}

// settings are the configuration with all that is derived from it.
type settings struct {
	stamp stamps // of the files it was read from
	// files is the same for settings that differ only in what this host itself
	// has written since, so that what it knows of servers stays.
	files   *int
	all     *env.Config
	granted *env.Config // what this machine trusts of it
	trust   env.TrustState
	policy  *policy.Policy
	routing routing
	expose  exposing
	redact  *redaction
	// lock pins the workspace's own servers, homeLock those of the home.
	lock, homeLock install.Lock
}

// Open reads the workspace's configuration. Faults in it are
// core.CodeInvalidConfig with all of them.
func Open(o Options) (*Host, error) {
	h := &Host{
		o: o, servers: map[string]*keeper{}, session: map[permit]time.Time{}, failures: map[string]*core.Error{},
		newsOf: map[string]int{}, guests: map[core.ID]*Guest{}, connections: map[string]*connection{}, challenged: map[string]oauth.Server{},
	}
	h.life, h.end = context.WithCancel(context.Background())
	s, err := h.read()
	if err != nil {
		h.end()
		return nil, err
	}
	h.config = s
	return h, nil
}

// Close stops listening for those who connect servers. The host's other work
// belongs to the parts that it was given.
func (h *Host) Close() error {
	h.connMu.Lock()
	h.end()
	h.connMu.Unlock()
	h.waiting.Wait()
	return nil
}

// Config returns the configuration as far as this machine trusts it.
func (h *Host) Config() (*env.Config, error) {
	s, err := h.settingsNow()
	if err != nil {
		return nil, err
	}
	return s.granted, nil
}

// Try answers when everything about the call's server is known and unchanged.
func (h *Host) Try(call engine.Call) (engine.Verdict, bool) {
	name, tool, ok := core.SplitTool(call.Tool)
	if !ok {
		return engine.Verdict{Deny: noSuchTool(call.Tool, nil)}, true
	}
	s, err := h.settings()
	if err != nil {
		return engine.Verdict{Deny: core.AsError(err)}, true
	}
	if h.goesRemote(s, call.Tool, name) {
		return h.tryRemote(s, call, name)
	}
	if deny := h.refused(s, call.Tool, name); deny != nil {
		return engine.Verdict{Deny: deny}, true
	}
	srv := h.serverFor(name, call)
	ready, ok := srv.peek(s)
	if !ok {
		return engine.Verdict{}, false
	}
	return h.judge(s, srv, ready, call, tool), true
}

// Check passes a call through all gates. It may start the call's server.
func (h *Host) Check(ctx context.Context, call engine.Call) engine.Verdict {
	name, tool, ok := core.SplitTool(call.Tool)
	if !ok {
		return engine.Verdict{Deny: noSuchTool(call.Tool, nil)}
	}
	s, err := h.settings()
	if err != nil {
		return engine.Verdict{Deny: core.AsError(err)}
	}
	if h.goesRemote(s, call.Tool, name) {
		return h.checkRemote(ctx, s, call, name)
	}
	if deny := h.refused(s, call.Tool, name); deny != nil {
		return engine.Verdict{Deny: deny}
	}
	srv := h.serverFor(name, call)
	ready, err := srv.prepare(ctx, s)
	if err != nil {
		return engine.Verdict{Deny: s.clean(err)}
	}
	return h.judge(s, srv, ready, call, tool)
}

// refused applies what holds whatever else is known: deny rules, and servers
// that nobody configured or trusted.
func (h *Host) refused(s *settings, id, name string) *core.Error {
	if rule, denied := s.policy.Denied(id); denied {
		return deniedBy(id, rule)
	}
	if name == Builtin {
		return nil
	}
	if _, ok := s.granted.Servers[name]; ok {
		return nil
	}
	if _, ok := s.all.Servers[name]; ok {
		return s.notTrusted(name)
	}
	names := append(slices.Sorted(maps.Keys(s.granted.Servers)), Builtin)
	return core.Errorf(core.CodeNoSuchTool, "there is no server %q for %s%s; servers are configured in mcpServers of .pml.json",
		core.Visible(name, 60, false), core.Visible(id, 120, false), core.Suggest(name, names))
}

// Trusts refuses a tool whose server is configured by files that this machine
// does not trust: core.CodeNotTrusted.
func (h *Host) Trusts(tool string) error {
	s, err := h.settings()
	if err != nil {
		return err
	}
	name, _, ok := core.SplitTool(tool)
	if !ok {
		return nil
	}
	if deny := h.refused(s, tool, name); deny != nil && deny.Code == core.CodeNotTrusted {
		return deny
	}
	return nil
}

// notTrusted is the error of a server of the workspace that this machine does
// not trust.
func (s *settings) notTrusted(name string) *core.Error {
	return core.Errorf(core.CodeNotTrusted, "the server %s is configured by %s, which is not trusted on this machine; look at it and trust it", name, s.all.Workspace.Config()).
		WithNext("pml", "trust")
}

// judge decides a call of a server about which everything is known: what it
// still asks for, or its tool, arguments and permission.
func (h *Host) judge(s *settings, srv *keeper, r readiness, call engine.Call, name string) engine.Verdict {
	if len(r.asks) > 0 {
		v := engine.Verdict{Ask: slices.Clone(r.asks)}
		// What is asked for the server is asked together with the permission,
		// unless it may turn out to be read-only and so need none.
		if p := s.policy.Decide(call.Tool, true); p.Effect != policy.Allow && call.ArgsKnown && !h.grantedForSession(call) {
			v.Ask = append(v.Ask, h.permission(s, call, core.Annotations{}, true))
		}
		return v
	}
	tool, ok := r.tools[name]
	if !ok {
		return engine.Verdict{Deny: noSuchTool(call.Tool, slices.Sorted(maps.Keys(r.tools)))}
	}
	v := engine.Verdict{Known: true, ReadOnly: tool.Annotations.IsReadOnly(), Repeatable: tool.Annotations.Repeatable()}
	if ask, changed := r.changed[name]; changed {
		v.Ask = append(v.Ask, ask)
		return v
	}
	if call.ArgsKnown {
		if err := h.o.Upstream.Check(tool, call.Args); err != nil {
			return engine.Verdict{Deny: s.clean(err)}
		}
	}
	p := s.policy.Decide(call.Tool, v.ReadOnly)
	builtinRead := srv.name == Builtin && v.ReadOnly && p.Rule == ""
	switch {
	case p.Effect == policy.Deny:
		return engine.Verdict{Deny: deniedBy(call.Tool, p.Rule)}
	case p.Effect == policy.Allow || builtinRead || h.grantedForSession(call):
	default:
		v.Ask = append(v.Ask, h.permission(s, call, tool.Annotations, false))
	}
	return v
}

// Tools lists the tools of every server that needs no decision first; problems
// names the others. Servers are asked at the same time. When the context ends
// before all have answered, the error says so and the lists hold what was found.
func (h *Host) Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error) {
	s, err := h.settings()
	if err != nil {
		return nil, nil, err
	}
	names := append(slices.Sorted(maps.Keys(s.all.Servers)), Builtin)
	found := make([]offer, len(names))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for n, name := range names {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			defer core.Recover(h.o.Logger, "a server was asked for its tools", func(err *core.Error) {
				found[n] = offer{problems: []core.Fault{{Path: name, Message: err.Message}}}
			}, "server", name)
			found[n] = h.offered(ctx, s, name)
		})
	}
	wg.Wait()
	for _, o := range found {
		tools, problems = append(tools, o.tools...), append(problems, o.problems...)
	}
	return tools, problems, stopped(ctx)
}

// offer is what a server offers, or why it is not known.
type offer struct {
	tools    []core.Tool
	problems []core.Fault
}

// offered asks a server for its tools. That the context has ended is no problem
// of the server.
func (h *Host) offered(ctx context.Context, s *settings, name string) (o offer) {
	if deny := h.refused(s, name+":*", name); deny != nil && deny.Code == core.CodeNotTrusted {
		o.problems = append(o.problems, core.Fault{Path: name, Message: deny.Message})
		return o
	}
	r, err := h.server(name).prepare(ctx, s)
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		o.problems = append(o.problems, core.Fault{Path: name, Message: s.clean(err).Message})
	case len(r.asks) > 0:
		for _, ask := range r.asks {
			o.problems = append(o.problems, core.Fault{Path: name, Message: ask.Description})
		}
	default:
		for _, tool := range slices.Sorted(maps.Keys(r.tools)) {
			o.tools = append(o.tools, s.redact.Tool(r.tools[tool]))
		}
	}
	return o
}

// stopped is the error of asking several servers when the context has ended.
func stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return core.Errorf(core.CodeCancelled, "stopped before every server had answered: %w", context.Cause(ctx))
}

// Redact takes the values of keys, as they were last read, out of what is about
// to be shown.
func (h *Host) Redact(text string) string {
	return h.redaction().String(text)
}

// RedactJSON is Redact for a JSON value.
func (h *Host) RedactJSON(raw json.RawMessage) json.RawMessage { return h.redaction().JSON(raw) }

func (h *Host) redaction() *redaction {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config.redact
}

// clean makes an error fit to be shown and journaled.
func (s *settings) clean(err error) *core.Error {
	e := *core.AsError(err)
	e.Message = s.redact.String(e.Message)
	faults := slices.Clone(e.Faults)
	for i := range faults {
		faults[i].Message = s.redact.String(faults[i].Message)
	}
	e.Faults = faults
	return &e
}

func noSuchTool(id string, names []string) *core.Error {
	server, tool, _ := core.SplitTool(id)
	hint := ""
	if near := core.Nearest(tool, names, 3); len(near) > 0 {
		for i := range near {
			near[i] = server + ":" + core.Visible(near[i], 80, false)
		}
		hint = " (did you mean " + strings.Join(near, ", ") + "?)"
	}
	return core.Errorf(core.CodeNoSuchTool, "there is no tool %s%s", core.Visible(id, 120, false), hint).
		WithNext("pml", "tools", "ls")
}
