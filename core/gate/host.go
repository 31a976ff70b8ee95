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
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/redact"
	"github.com/casys-ai/pml/core/upstream"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

// Builtin is the name of the server inside the binary. Its read-only tools
// need no rule.
const Builtin = "workspace"

// builtin reports whether a server is inside the binary: that of the workspace, or that of
// agents, whose calls the engine makes.
func builtin(name string) bool { return name == Builtin || name == core.AgentServer }

// Options are what a Host is made of. All fields but OAuth and those that say so are needed.
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
	// Flows runs the hook flows that calls meet; without it the calls that a flow
	// matches are refused.
	Flows Flows
	// Remote makes the calls that routing gives to a server; nil where none is
	// named.
	Remote Remote
	// Applied is called with the name of a server after something was carried out that a
	// person has approved for it; it must return at once. May be nil.
	Applied func(server string)
}

// Host is one workspace as the engine sees it: its gates and its tools. It is
// safe for concurrent use.
type Host struct {
	o           Options
	reader      *settingsReader
	config      configFile
	locks       *lockFiles
	sessions    *sessions
	servers     *servers
	clients     *clients
	connections *connections
	commands    commandLines
	remote      *remote
	flows       *flowGate
	starts      lastStarts
	faulty      faulty
}

// Open reads the workspace's configuration. Faults in it are
// core.CodeInvalidConfig with all of them.
func Open(o Options) (*Host, error) {
	reader := &settingsReader{workspace: o.Workspace, home: o.Home, environ: o.Environ, server: o.Server, oauth: o.OAuth, clock: o.Clock}
	var err error
	if reader.last, err = reader.read(); err != nil {
		return nil, err
	}
	h := &Host{
		o:        o,
		reader:   reader,
		config:   configFile{o.Workspace.Config(), o.Workspace.Dir},
		locks:    &lockFiles{reader: reader, approvals: o.Installer.Approvals},
		sessions: &sessions{clock: o.Clock, until: map[permit]time.Time{}},
		clients:  &clients{byRun: map[core.ID]*Guest{}},
		commands: commandLines{filepath.Join(o.Home.Dir, "commands"), o.Logger},
		flows:    &flowGate{runner: o.Flows, workspace: o.Workspace.Dir, results: o.Upstream},
		starts:   lastStarts{o.Home.Broken(), o.Workspace.Dir, o.Clock, o.Logger},
	}
	h.servers = &servers{clock: o.Clock, at: h.serverOf, lives: o.Upstream.Lives, keepers: map[string]*keeper{}, newsOf: map[string]int{}}
	h.connections = newConnections(o.OAuth, o.Logger, h.connected)
	h.remote = &remote{server: o.Remote, sessions: h.sessions, clock: o.Clock, log: o.Logger}
	return h, nil
}

// Close stops listening for those who connect servers. The host's other work
// belongs to the parts that it was given.
func (h *Host) Close() error {
	h.connections.close()
	return nil
}

// connected looks at a server again after an attempt to connect it has ended.
func (h *Host) connected(server string, err error) {
	if err == nil {
		h.servers.of(server).refused.Store(nil)
	}
	h.servers.changed(server)
}

// ToolsChanged is called when a server has announced other tools, or is another
// process than before: its next call compares them again. It returns at once.
func (h *Host) ToolsChanged(name string) { h.servers.changed(name) }

// Config returns the configuration as far as this machine trusts it.
func (h *Host) Config() (*env.Config, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	return s.granted, nil
}

// entry is a call that nothing stands against before its server is looked at.
type entry struct {
	set          *settings
	server, tool string
	remote       bool // it is made by the named server
}

// meets reports whether flows may have to look at a call before it is judged.
func (e entry) meets(call engine.Call) bool {
	return call.Passage == nil && e.set.flows.Matches(call.Tool)
}

// enter reads the settings for a call and applies what holds whatever is known of
// its server.
func (h *Host) enter(call engine.Call) (e entry, err error) {
	ok := false
	if e.server, e.tool, ok = core.SplitTool(call.Tool); !ok {
		return e, noSuchTool(call.Tool, nil)
	}
	if e.set, err = h.reader.recent(); err != nil {
		return e, err
	}
	if e.remote = h.remote.makes(e.set, call.Tool, e.server); e.remote {
		return e, nil
	}
	deny := e.set.refused(call.Tool, e.server)
	if deny == nil {
		deny = e.set.denies(call, nil)
	}
	if deny != nil {
		return e, deny
	}
	return e, nil
}

// Try answers when everything about the call's server is known and unchanged.
func (h *Host) Try(call engine.Call) (engine.Verdict, bool) {
	if ofHost(call) {
		return h.hostVerdict(call), true
	}
	e, err := h.enter(call)
	switch {
	case err != nil:
		return engine.Verdict{Deny: core.AsError(err)}, true
	case e.meets(call) && !call.Planned: // which takes a while
		return engine.Verdict{}, false
	case e.remote && !e.set.flows.MatchesList(e.server):
		return h.remote.try(e, call)
	case e.remote:
		return engine.Verdict{}, false
	}
	ready, ok := h.serverFor(e.server, call).peek(e.set)
	if !ok {
		return engine.Verdict{}, false
	}
	if e.set.flows.MatchesList(e.server) { // which takes a while, too
		return engine.Verdict{}, false
	}
	return h.judge(context.Background(), e, ready, call), true
}

// Check passes a call through all gates. It may start the call's server.
func (h *Host) Check(ctx context.Context, call engine.Call) engine.Verdict {
	if ofHost(call) {
		return h.hostVerdict(call)
	}
	e, err := h.enter(call)
	switch {
	case err != nil:
		return engine.Verdict{Deny: core.AsError(err)}
	case e.remote:
		return h.checkRemote(ctx, e, call)
	case e.meets(call):
		h.flows.ready(e.set)
	}
	ready, err := h.serverFor(e.server, call).prepare(ctx, e.set)
	if err != nil {
		return engine.Verdict{Deny: e.set.clean(err)}
	}
	if ready, err = h.flows.listed(ctx, e.set, e.server, ready); err != nil {
		return engine.Verdict{Deny: e.set.clean(err)}
	}
	return h.judge(ctx, e, ready, call)
}

// refused applies what holds whatever else is known: deny rules, and servers
// that nobody configured or trusted.
func (s *settings) refused(id, name string) *core.Error {
	if deny := s.forbidden(id); deny != nil {
		return deny
	}
	if builtin(name) {
		return nil
	}
	if _, ok := s.granted.Servers[name]; ok {
		return nil
	}
	if _, ok := s.all.Servers[name]; ok {
		return s.notTrusted(name)
	}
	names := append(slices.Sorted(maps.Keys(s.granted.Servers)), core.AgentServer, Builtin)
	return core.Errorf(core.CodeNoSuchTool, "there is no server %q for %s%s; servers are configured in mcpServers of .pml.json",
		core.Visible(name, 60, false), core.Visible(id, 120, false), core.Suggest(name, names))
}

// Trusts refuses a tool whose server is configured by files that this machine
// does not trust: core.CodeNotTrusted.
func (h *Host) Trusts(tool string) error {
	s, err := h.reader.recent()
	if err != nil {
		return err
	}
	name, _, ok := core.SplitTool(tool)
	if !ok {
		return nil
	}
	if deny := s.refused(tool, name); deny != nil && deny.Code == core.CodeNotTrusted {
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
// still asks for, or its tool, the flows that it meets, arguments and permission.
func (h *Host) judge(ctx context.Context, e entry, r readiness, call engine.Call) engine.Verdict {
	s, name, meets := e.set, e.tool, e.meets(call)
	if len(r.asks) > 0 {
		v := engine.Verdict{Side: core.SideClient, Ask: slices.Clone(r.asks)}
		// What is asked for the server is asked together with the permission,
		// unless it may turn out to be read-only and so need none, or flows may
		// change the arguments.
		if p := s.policy.DecideCall(s.ruled(call, nil), true); p.Effect != policy.Allow && call.ArgsKnown && !meets && (!h.sessions.allow(call) || asksByFlow(call)) {
			v.Ask = append(v.Ask, s.byFlows(call, s.byRule(s.permission(call, core.Annotations{}, true), p)))
		}
		return v
	}
	tool, ok := r.tools[name]
	if !ok {
		if why := h.o.Upstream.LeftOut(r.launch, name); why != "" {
			return engine.Verdict{Deny: core.Errorf(core.CodeNoSuchTool, "the tool %s cannot be called, because %s; whoever makes the server can correct that", core.Visible(call.Tool, 120, false), s.redact.String(why))}
		}
		return engine.Verdict{Deny: noSuchTool(call.Tool, slices.Sorted(maps.Keys(r.tools)))}
	}
	hints := believed(tool)
	v := engine.Verdict{Side: core.SideClient, Known: true, ReadOnly: hints.IsReadOnly(), Repeatable: hints.Repeatable()}
	if ask, changed := r.changed[name]; changed {
		v.Ask = append(v.Ask, ask)
		return v
	}
	if meets && call.Planned {
		return v // what flows make of it is not known yet
	}
	call, passage, err := h.flows.before(ctx, e, call, hints)
	if err != nil {
		return engine.Verdict{Deny: s.clean(err)}
	}
	v.Passage = passage
	if v = h.permitted(e, r, call, hints, v); v.Deny != nil && passage != nil {
		h.Unanswered(call, v.Deny) // which is all that is left of the passage
	}
	return v
}

// permitted decides a call of a known tool as flows have left it: by its arguments, and
// by what is allowed.
func (h *Host) permitted(e entry, r readiness, call engine.Call, hints core.Annotations, v engine.Verdict) engine.Verdict {
	s, name := e.set, e.tool
	if call.ArgsKnown {
		if err := h.o.Upstream.Check(r.tools[name], call.Args); err != nil {
			return engine.Verdict{Deny: s.clean(s.changedBy(call, err))}
		}
	}
	if mark := s.lossy(e.server, name, call.Args); mark != "" {
		return engine.Verdict{Deny: wouldLose(call.Tool, mark)}
	}
	if path := guarded(e.server, name, call.Args); path != "" {
		return engine.Verdict{Deny: s.clean(core.Errorf(core.CodePermissionDenied, "%s is refused: it would change %s, and .pml.json, pml.lock, .pml, .git and .env files are never changed by a tool",
			core.Visible(call.Tool, 120, false), core.Visible(path, 200, false)))}
	}
	p := s.policy.DecideCall(s.ruled(call, &hints), v.ReadOnly)
	// What an agent calls passes its own gates.
	builtinRead := (e.server == Builtin && v.ReadOnly || e.server == core.AgentServer) && p.Rule == ""
	switch {
	case p.Effect == policy.Deny:
		return engine.Verdict{Deny: deniedBy(call.Tool, p)}
	case e.server == Builtin && workspace.Executed(name, call.Args) != "":
		v.Ask = append(v.Ask, s.byFlows(call, s.executing(call, hints, workspace.Executed(name, call.Args))))
		return v
	case builtinRead:
	case h.sessions.allow(call):
		v.AllowedBy = forSession
	case p.Effect == policy.Allow:
		v.AllowedBy = s.ruleShown(p)
		if of := h.serverOf(s, e.server); of.onlyByClaim(p, name) {
			ask, err := of.claimsAsk(r)
			if err != nil {
				return engine.Verdict{Deny: s.clean(err)}
			}
			v.Ask = append(v.Ask, ask)
		}
	default:
		v.Ask = append(v.Ask, s.byFlows(call, s.byRule(s.permission(call, hints, false), p)))
		return v
	}
	if asksByFlow(call) {
		v.Ask = append(v.Ask, s.byFlows(call, s.permission(call, hints, false)))
	}
	return v
}

// Tools lists the tools of every server that needs no decision first; problems
// names the others. Servers are asked at the same time. When the context ends
// before all have answered, the error says so and the lists hold what was found.
func (h *Host) Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error) {
	s, err := h.reader.recent()
	if err != nil {
		return nil, nil, err
	}
	found := ofEach(h.o.Logger, s.names(), "a server was asked for its tools",
		func(name string) offer { return h.offered(ctx, s, name) },
		func(name string, err *core.Error) offer {
			return offer{problems: []core.Fault{{Path: name, Message: err.Message}}}
		})
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
	if deny := s.refused(name+":*", name); deny != nil && deny.Code == core.CodeNotTrusted {
		o.problems = append(o.problems, core.Fault{Path: name, Message: deny.Message})
		return o
	}
	r, err := h.servers.of(name).prepare(ctx, s)
	if err == nil {
		r, err = h.flows.listed(ctx, s, name, r)
	}
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
	return h.reader.redaction().String(text)
}

// RedactOpen is how much of the end of a text may be the beginning of a value that Redact
// takes out.
func (h *Host) RedactOpen(text string) int { return h.reader.redaction().Open(text) }

// RedactJSON is Redact for a JSON value.
func (h *Host) RedactJSON(raw json.RawMessage) json.RawMessage { return h.reader.redaction().JSON(raw) }

// clean makes an error fit to be shown and journaled.
func (s *settings) clean(err error) *core.Error {
	return redact.NewView(s.redact.String, s.redact.JSON).Error(core.AsError(err))
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
