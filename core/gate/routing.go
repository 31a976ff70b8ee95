package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/upstream"
)

// Remote is a server's tools, for the calls that routing gives to it.
type Remote interface {
	// CallTool makes a call as a run of the server's own, once for an
	// idempotency key, and waits for it as long as the context lasts.
	CallTool(ctx context.Context, call engine.Call, key string) (json.RawMessage, error)
	Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error)
}

// routing says which half of pml runs a tool: the most specific pattern does,
// and of two that are equally specific the one for the client.
type routing struct {
	patterns *policy.Policy // server patterns allow, client patterns ask
	standard core.Side
	explicit bool // the default was configured
}

func newRouting(cfg *env.Config) (routing, error) {
	p, err := policy.Compile(policy.Rules{Allow: policy.Patterns(cfg.Routing.Server...), Ask: policy.Patterns(cfg.Routing.Client...)})
	if e, ok := errors.AsType[*core.Error](err); ok {
		out := *e
		out.Message = "the routing is not valid; correct it in .pml.json or config.json"
		out.Faults = nil
		places := strings.NewReplacer("/permissions/allow/", "/routing/server/", "/permissions/ask/", "/routing/client/")
		for _, f := range e.Faults {
			f.Path = places.Replace(f.Path)
			out.Faults = append(out.Faults, f)
		}
		err = &out
	}
	return routing{p, cfg.Routing.Default, cfg.Origin("/routing/default") != env.FromDefault}, err
}

// side is the half that a tool is given to; explicit is false where nobody has
// said so.
func (r routing) side(tool string) (side core.Side, explicit bool) {
	switch v := r.patterns.Decide(tool, false); {
	case v.Rule == "":
		return r.standard, r.explicit
	case v.Effect == policy.Allow:
		return core.SideServer, true
	}
	return core.SideClient, true
}

// Side says which half of pml the workspace's configuration gives a tool to.
// explicit is false where it says nothing of it.
func (h *Host) Side(tool string) (side core.Side, explicit bool, err error) {
	s, err := h.reader.recent()
	if err != nil {
		return "", false, err
	}
	side, explicit = s.routing.side(tool)
	return side, explicit, nil
}

// remoteFor is how long the list of a server's tools is believed.
const remoteFor = time.Minute

// remoteTools is what is known of the tools of the named server.
type remoteTools struct {
	mu    sync.Mutex
	at    time.Time
	tools map[string]core.Tool
	names map[string]bool // of MCP servers, also of those that have a problem
}

// known is the list as far as it is fresh.
func (r *remoteTools) known(now time.Time) (tools map[string]core.Tool, names map[string]bool, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Sub(r.at)
	return r.tools, r.names, r.tools != nil && since >= 0 && since < remoteFor
}

// listedAt is when the list was read.
func (r *remoteTools) listedAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *remoteTools) learn(now time.Time, tools []core.Tool, problems []core.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.tools, r.names = now, make(map[string]core.Tool, len(tools)), map[string]bool{}
	for _, t := range tools {
		r.tools[t.ID()], r.names[t.Server] = t, true
	}
	for _, f := range problems {
		r.names[f.Path] = true
	}
}

// remote makes the calls that routing gives to a named server.
type remote struct {
	server   Remote // nil where none is named
	sessions *sessions
	clock    core.Clock
	log      *slog.Logger
	tools    remoteTools
}

// makes reports whether a tool is the server's: routing says so, or it is of no
// MCP server that this workspace knows. An agent is a run below its caller's, within
// what bounds that: it is where that one is.
func (r *remote) makes(s *settings, tool, server string) bool {
	if r.server == nil || server == core.AgentServer {
		return false
	}
	side, explicit := s.routing.side(tool)
	if explicit || builtin(server) {
		return side == core.SideServer && explicit
	}
	_, known := s.all.Servers[server]
	return side == core.SideServer || !known
}

// side is the half that makes the calls of a tool.
func (r *remote) side(s *settings, tool, server string) core.Side {
	if r.makes(s, tool, server) {
		return core.SideServer
	}
	return core.SideClient
}

// try judges a call of a tool of the server's when its tools are known.
func (r *remote) try(e entry, call engine.Call) (engine.Verdict, bool) {
	if deny := e.set.forbidden(call.Tool); deny != nil {
		return engine.Verdict{Deny: deny}, true
	}
	tools, names, ok := r.tools.known(r.clock.Now())
	if !ok {
		return engine.Verdict{}, false
	}
	return r.judge(e, call, tools, names), true
}

// checkRemote passes a call of a tool of the server's through the flows of this
// machine and judges it. That the server's tools cannot be listed is not the call's
// fault: the gates treat it as one that changes something.
func (h *Host) checkRemote(ctx context.Context, e entry, call engine.Call) engine.Verdict {
	r := h.remote
	if deny := e.set.forbidden(call.Tool); deny != nil {
		return engine.Verdict{Deny: deny}
	}
	tools, names, ok := r.tools.known(r.clock.Now())
	if !ok {
		list, problems, err := r.server.Tools(ctx)
		if err != nil {
			r.log.Warn("cannot list the tools of the server", "error", e.set.clean(err))
		} else {
			r.tools.learn(r.clock.Now(), list, problems)
			tools, names, _ = r.tools.known(r.clock.Now())
		}
	}
	if err := h.flows.listedRemote(ctx, e.set, e.server, call.Tool, tools, r.tools.listedAt()); err != nil {
		return engine.Verdict{Deny: e.set.clean(err)}
	}
	v := r.judge(e, call, tools, names)
	if v.Deny != nil || call.Planned || !e.meets(call) {
		return v
	}
	call, passage, err := h.flows.before(ctx, e, call, believed(tools[call.Tool]))
	if err != nil {
		return engine.Verdict{Deny: e.set.clean(err)}
	}
	v = r.judge(e, call, tools, names)
	v.Passage = passage
	return v
}

// judge applies what this machine has to say of a call that the server
// makes: its deny and ask rules. All other gates are the server's. names is nil
// when the server's tools are not known.
func (r *remote) judge(e entry, call engine.Call, tools map[string]core.Tool, names map[string]bool) engine.Verdict {
	s, server := e.set, e.server
	if _, explicit := s.routing.side(call.Tool); names != nil && !names[server] && !explicit {
		deny := s.refused(call.Tool, server)
		if deny == nil {
			deny = noSuchTool(call.Tool, nil)
		}
		return engine.Verdict{Deny: deny}
	}
	tool, known := tools[call.Tool]
	hints := believed(tool)
	v := engine.Verdict{Side: core.SideServer, Known: known, ReadOnly: hints.IsReadOnly(), Repeatable: known && hints.Repeatable()}
	var of *core.Annotations
	if known {
		of = &hints
	}
	p := s.policy.DecideCall(s.ruled(call, of), v.ReadOnly)
	if p.Effect == policy.Deny {
		return engine.Verdict{Deny: deniedBy(call.Tool, p)}
	}
	if p.Effect == policy.Allow {
		v.AllowedBy = s.ruleShown(p)
	}
	asks := p.Effect == policy.Ask && p.Rule != "" && call.ArgsKnown
	if asks && r.sessions.allow(call) {
		v.AllowedBy, asks = forSession, false
	}
	if (asks || asksByFlow(call)) && !(call.Planned && e.meets(call)) {
		v.Ask = append(v.Ask, s.byFlows(call, s.byRule(s.permission(call, hints, false), p)))
	}
	return v
}

// callRemote makes a call at the server. The key makes it one call there,
// however often a lost connection makes it necessary to send it.
func (h *Host) callRemote(ctx context.Context, s *settings, call engine.Call) ended {
	tools, _, _ := h.remote.tools.known(h.remote.clock.Now())
	tool, known := tools[call.Tool]
	deny := s.forbidden(call.Tool)
	if deny == nil {
		hints := &core.Annotations{}
		if *hints = believed(tool); !known {
			hints = nil
		}
		deny = s.denies(call, hints)
	}
	if deny != nil {
		return ended{err: deny}
	}
	if err := h.flows.unmet(s, call, believed(tool)); err != nil {
		return ended{err: err}
	}
	server, _, _ := core.SplitTool(call.Tool)
	if err := h.flows.listedRemote(ctx, s, server, call.Tool, tools, h.remote.tools.listedAt()); err != nil {
		return ended{err: s.clean(err).WithNotMade()}
	}
	e, ok := h.flows.given(call, tool)
	if !ok {
		e.plain = true
		if call.Before != nil {
			if err := call.Before(ctx); err != nil {
				return ended{err: core.AsError(err).WithNotMade()}
			}
		}
		key := string(call.RunID) + "/" + call.ID + "/" + strconv.Itoa(call.Attempt)
		value, err := h.remote.server.CallTool(ctx, call, key)
		if err == nil {
			e.Response = upstream.Response{Value: value, Raw: value}
		} else {
			e.err = s.clean(err)
		}
	}
	if e = h.flows.after(ctx, s, call, tool, e); e.err != nil {
		e.err = s.clean(e.err)
	}
	return e
}
