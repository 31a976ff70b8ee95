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
	p, err := policy.Compile(policy.Rules{Allow: cfg.Routing.Server, Ask: cfg.Routing.Client})
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
// MCP server that this workspace knows.
func (r *remote) makes(s *settings, tool, server string) bool {
	if r.server == nil {
		return false
	}
	side, explicit := s.routing.side(tool)
	if explicit || server == Builtin {
		return side == core.SideServer && explicit
	}
	_, known := s.all.Servers[server]
	return side == core.SideServer || !known
}

// try judges a call of a tool of the server's when its tools are known.
func (r *remote) try(s *settings, call engine.Call, server string) (engine.Verdict, bool) {
	if deny := s.forbidden(call.Tool); deny != nil {
		return engine.Verdict{Deny: deny}, true
	}
	tools, names, ok := r.tools.known(r.clock.Now())
	if !ok {
		return engine.Verdict{}, false
	}
	return r.judge(s, call, server, tools, names), true
}

// check judges a call of a tool of the server's. That its tools cannot be
// listed is not the call's fault: it counts as one that changes something.
func (r *remote) check(ctx context.Context, s *settings, call engine.Call, server string) engine.Verdict {
	if v, ok := r.try(s, call, server); ok {
		return v
	}
	tools, problems, err := r.server.Tools(ctx)
	if err != nil {
		r.log.Warn("cannot list the tools of the server", "error", s.clean(err))
		return r.judge(s, call, server, nil, nil)
	}
	r.tools.learn(r.clock.Now(), tools, problems)
	known, names, _ := r.tools.known(r.clock.Now())
	return r.judge(s, call, server, known, names)
}

// judge applies what this machine has to say of a call that the server
// makes: its deny and ask rules. All other gates are the server's. names is nil
// when the server's tools are not known.
func (r *remote) judge(s *settings, call engine.Call, server string, tools map[string]core.Tool, names map[string]bool) engine.Verdict {
	if _, explicit := s.routing.side(call.Tool); names != nil && !names[server] && !explicit {
		deny := s.refused(call.Tool, server)
		if deny == nil {
			deny = noSuchTool(call.Tool, nil)
		}
		return engine.Verdict{Deny: deny}
	}
	tool, known := tools[call.Tool]
	hints := believed(tool)
	v := engine.Verdict{Known: known, ReadOnly: hints.IsReadOnly(), Repeatable: known && hints.Repeatable()}
	p := s.policy.Decide(call.Tool, v.ReadOnly)
	if p.Effect == policy.Ask && p.Rule != "" && call.ArgsKnown && !r.sessions.allow(call) {
		v.Ask = append(v.Ask, s.permission(call, hints, false))
	}
	return v
}

// call makes a call at the server. The key makes it one call there,
// however often a lost connection makes it necessary to send it.
func (r *remote) call(ctx context.Context, s *settings, call engine.Call) (json.RawMessage, error) {
	if deny := s.forbidden(call.Tool); deny != nil {
		return nil, deny
	}
	key := string(call.RunID) + "/" + call.ID + "/" + strconv.Itoa(call.Attempt)
	value, err := r.server.CallTool(ctx, call, key)
	if err != nil {
		return nil, s.clean(err)
	}
	return s.redact.JSON(value), nil
}

func deniedBy(tool, rule string) *core.Error {
	return core.Errorf(core.CodePermissionDenied, "%s is denied by the rule %q in permissions.deny", tool, rule)
}
