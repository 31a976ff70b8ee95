package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/upstream"
)

// listings are the tools of servers as flows about lists have left them, each for the
// list that was compared last and the flows of that moment.
type listings struct {
	mu  sync.Mutex
	ofs map[string]listing // by server
}

type listing struct {
	at    time.Time // of the readiness whose tools these are
	flows *flow.Set
	tools map[string]core.Tool
}

// listed returns a server's readiness with the tools that flows about lists leave of
// it: one that they hide is none that can be called. Without such flows that is the
// readiness itself. An error means that the list is not known, and no tool of it can
// be called.
func (g *flowGate) listed(ctx context.Context, s *settings, server string, r readiness) (readiness, error) {
	if len(r.asks) > 0 || !s.flows.MatchesList(server) {
		return r, nil
	}
	if g.runner == nil {
		return r, noFlows(server + ":*")
	}
	l := &g.listings
	l.mu.Lock()
	known, ok := l.ofs[server]
	l.mu.Unlock()
	if !ok || !known.at.Equal(r.at) || known.flows != s.flows {
		tools := slices.SortedFunc(maps.Values(r.tools), func(a, b core.Tool) int { return cmp.Compare(a.Name, b.Name) })
		left, err := g.runner.List(ctx, s.flows, flow.Request{Tool: server, Workspace: g.workspace}, tools)
		if err != nil {
			return r, err
		}
		known = listing{r.at, s.flows, make(map[string]core.Tool, len(left))}
		for _, t := range left {
			known.tools[t.Name] = t
		}
		l.mu.Lock()
		if l.ofs == nil {
			l.ofs = map[string]listing{}
		}
		l.ofs[server] = known
		l.mu.Unlock()
	}
	r.tools = known.tools
	return r, nil
}

// listedRemote refuses a tool of the named server that flows about lists hide on this
// machine, and all of them while its list is not known. at is when it was listed.
func (g *flowGate) listedRemote(ctx context.Context, s *settings, server, tool string, all map[string]core.Tool, at time.Time) error {
	if !s.flows.MatchesList(server) {
		return nil
	}
	own := map[string]core.Tool{}
	for _, t := range all {
		if t.Server == server {
			own[t.Name] = t
		}
	}
	if len(own) == 0 {
		return core.Errorf(core.CodeHookFailed, "%s is refused: a flow says which tools of its server there are, and the server's list is not known", core.Visible(tool, 120, false))
	}
	left, err := g.listed(ctx, s, server, readiness{at: at, tools: own})
	if err != nil {
		return err
	}
	for name := range left.tools {
		if server+":"+name == tool {
			return nil
		}
	}
	return noSuchTool(tool, slices.Sorted(maps.Keys(left.tools)))
}

// relisted is the definition of a tool as its server gave it, with what flows about
// lists have made of its title, description and annotations.
func relisted(d upstream.Definition, t core.Tool) json.RawMessage {
	if d.Tool.Title == t.Title && d.Tool.Description == t.Description && reflect.DeepEqual(d.Tool.Annotations, t.Annotations) {
		return d.Raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(d.Raw, &members) != nil {
		return withheld(t)
	}
	put := func(name string, value any) {
		if raw, err := json.Marshal(value); err == nil {
			members[name] = raw
		}
	}
	put("title", t.Title)
	put("description", t.Description)
	hints := map[string]any{}
	if json.Unmarshal(members["annotations"], &hints) != nil || hints == nil {
		hints = map[string]any{}
	}
	for name, hint := range map[string]*bool{
		"readOnlyHint": t.Annotations.ReadOnly, "destructiveHint": t.Annotations.Destructive,
		"idempotentHint": t.Annotations.Idempotent, "openWorldHint": t.Annotations.OpenWorld,
	} {
		if hint != nil {
			hints[name] = *hint
		}
	}
	if len(hints) > 0 {
		put("annotations", hints)
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return withheld(t)
	}
	return raw
}
