package flow

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Set is what the enabled flows of a workspace and of its home say about calls. A nil
// Set has none. It does not change.
type Set struct {
	flows []*Flow // enabled, in the order in which they run
	// refusals are why flows that may match refuse; nil for those that run.
	refusals map[*Flow]*core.Error
	// scripts is set when a flow that runs has JavaScript.
	scripts bool
}

// NewSet has the flows of the home, which need no trust, and those of a workspace.
// With trusted false the workspace's enabled flows refuse what they may match.
func NewSet(home, workspace *Folder, trusted bool) *Set {
	s := &Set{refusals: map[*Flow]*core.Error{}}
	for _, folder := range []*Folder{home, workspace} {
		if folder == nil {
			continue
		}
		for _, f := range folder.Flows {
			if !f.Enabled {
				continue
			}
			refusal := f.refusal(f.Home || trusted)
			if f.Mode == Audit && refusal != nil {
				continue // it decides nothing
			}
			s.flows = append(s.flows, f)
			if refusal != nil {
				s.refusals[f] = refusal
			} else {
				s.scripts = s.scripts || f.scripted()
			}
		}
	}
	slices.SortStableFunc(s.flows, func(a, b *Flow) int {
		if a.Home != b.Home {
			if a.Home {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.ID, b.ID), strings.Compare(a.File, b.File))
	})
	return s
}

// refusal is why a flow cannot run, nil when it can.
func (f *Flow) refusal(trusted bool) *core.Error {
	switch {
	case len(f.Faults) > 0:
		err := core.Errorf(core.CodeInvalidConfig, "the flow %s is not valid, so what it checks is refused; correct it, or set \"enabled\": false in it", quoted(f.where()))
		err.Faults = f.Faults
		return err.WithNext("pml", "flows", "validate")
	case !trusted:
		return core.Errorf(core.CodeNotTrusted, "the flow %s would check this call, and is not trusted on this machine or has changed since; look at it and trust it", quoted(f.where())).
			WithNext("pml", "trust")
	}
	return nil
}

// where says which file a flow is in.
func (f *Flow) where() string {
	if f.Home {
		return "flows/" + f.File + " of the home"
	}
	return f.File
}

// Flows are the enabled flows in the order in which they run.
func (s *Set) Flows() []*Flow {
	if s == nil {
		return nil
	}
	return slices.Clone(s.flows)
}

// Scripts reports whether a flow that runs has JavaScript.
func (s *Set) Scripts() bool { return s != nil && s.scripts }

// scripted reports whether a node of the flow runs JavaScript.
func (f *Flow) scripted() bool {
	return slices.ContainsFunc(f.Nodes, func(n *Node) bool {
		d := n.Data
		return n.Script != "" || d.Condition != nil && d.Condition.Expression != "" || d.Set != nil && d.Set.Expression != ""
	})
}

// Refusal is why a flow of the set refuses what it may match, nil for one that runs.
func (s *Set) Refusal(f *Flow) *core.Error { return s.refusals[f] }

// Matches reports whether a flow may match a call of a tool. It is quick, and looks at
// no arguments.
func (s *Set) Matches(tool string) bool {
	if s == nil || len(s.flows) == 0 {
		return false
	}
	server, name, _ := core.SplitTool(tool)
	return slices.ContainsFunc(s.flows, func(f *Flow) bool { return f.Type != ListTools && f.match.tool(tool, server, name) })
}

// MatchesList reports whether a flow may match the list of a server's tools.
func (s *Set) MatchesList(server string) bool {
	return s != nil && slices.ContainsFunc(s.flows, func(f *Flow) bool { return f.Type == ListTools && f.match.tool(server, server, "") })
}

// Meets reports whether a call, as the flows before have left it, meets one of Flows.
// The error refuses it, as that of For does.
func (s *Set) Meets(f *Flow, req Request) (bool, error) {
	if f.Type == ListTools {
		return false, nil
	}
	one := &Set{flows: []*Flow{f}, refusals: s.refusals}
	met, err := one.For(req)
	return len(met) > 0, err
}

// For returns the flows that a call meets, in their order. The error refuses the call:
// a flow that matches, or may match, cannot run, or cannot say whether it matches. A
// client without a name meets the flows of all clients.
func (s *Set) For(req Request) ([]*Flow, error) {
	return s.matching(req, func(f *Flow) bool { return f.Type != ListTools })
}

// Meets reports whether a call, or the list of a server's tools, meets the flow, were it
// enabled. One that cannot say so does.
func (f *Flow) Meets(req Request) bool {
	flows, err := (&Set{flows: []*Flow{f}}).matching(req, func(*Flow) bool { return true })
	return err != nil || len(flows) > 0
}

// Refused is the error of For for a call whose arguments are not known: a flow that
// may match it, and cannot run.
func (s *Set) Refused(tool string) error {
	if s == nil {
		return nil
	}
	server, name, _ := core.SplitTool(tool)
	for _, f := range s.flows {
		if err := s.refusals[f]; err != nil && f.Type != ListTools && f.match.tool(tool, server, name) {
			return err
		}
	}
	return nil
}

// ForList returns the flows that the list of a server's tools meets; req.Tool is the
// server.
func (s *Set) ForList(req Request) ([]*Flow, error) {
	return s.matching(req, func(f *Flow) bool { return f.Type == ListTools })
}

func (s *Set) matching(req Request, is func(*Flow) bool) (out []*Flow, err error) {
	if s == nil || len(s.flows) == 0 {
		return nil, nil
	}
	server, name, ok := core.SplitTool(req.Tool)
	if !ok {
		server = req.Tool
	}
	for _, f := range s.flows {
		if !is(f) || !f.match.tool(req.Tool, server, name) || req.Client != "" && !matchesAny(f.match.clients, req.Client) {
			continue
		}
		if err := s.refusals[f]; err != nil {
			return nil, err
		}
		if f.match.where != nil {
			holds, err := f.match.where.holds(Input{Flow: f, Request: req, Variables: f.Variables})
			switch {
			case err != nil && f.Mode == Audit:
				continue
			case err != nil:
				return nil, core.Errorf(core.CodeHookFailed, "the flow %s cannot say whether it matches this call, which is refused: %w", quoted(f.name()), err)
			case !holds:
				continue
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// Passed returns a flow that ran before a call, to run its second half. One that was
// changed, switched off or is not trusted any more is an error: what it would have made
// of the answer is not known.
func (s *Set) Passed(p core.PassedFlow) (*Flow, error) {
	if s != nil {
		for _, f := range s.flows {
			if f.ID == p.Flow && f.Home == p.Home && f.Digest == p.Digest && s.refusals[f] == nil {
				return f, nil
			}
		}
	}
	return nil, core.Errorf(core.CodeHookFailed, "the flow %s has changed, or was switched off, since it let this call pass, so its answer cannot be checked", quoted(p.Flow))
}

// matcher is a Match that was compiled. What could not be compiled matches all.
type matcher struct {
	servers, tools, clients globs
	where                   *expression
}

func (m *matcher) tool(id, server, name string) bool {
	return matchesAny(m.servers, server) && matchesAny(m.tools, name, id)
}

// Reach are the servers and tools that a flow may match, whatever else it asks of a
// call: what cannot be read matches all.
func (f *Flow) Reach() (m Match) {
	if f.match.servers != nil {
		m.Server = f.Match.Server
	}
	if f.match.tools != nil && f.Type != ListTools { // which is about a server as a whole
		m.Tool = f.Match.Tool
	}
	return m
}

// Covers reports whether the globs on server and tool match a tool (server:tool).
func (m Match) Covers(tool string) bool {
	servers, err1 := compileGlobs(m.Server)
	tools, err2 := compileGlobs(m.Tool)
	server, name, _ := core.SplitTool(tool)
	return err1 != nil || err2 != nil || (&matcher{servers: servers, tools: tools}).tool(tool, server, name)
}

// globs are patterns in which * is any text and ? any character, in any case: one, or
// a list.
type globs []*regexp.Regexp

// patterns reads a glob, or a list of them. An empty one says nothing: any.
func patterns(data json.RawMessage) (list []string, err error) {
	if json.Unmarshal(data, &list) != nil {
		list = make([]string, 1)
		if err := json.Unmarshal(data, &list[0]); err != nil {
			return nil, err
		}
	}
	if slices.Contains(list, "") {
		return nil, nil
	}
	return list, nil
}

func compileGlobs(list []string) (out globs, err error) {
	for _, text := range list {
		text = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(text))
		re, err := regexp.Compile(`(?is)^(?:` + text + `)$`)
		if err != nil {
			return nil, err
		}
		out = append(out, re)
	}
	return out, nil
}

func matchesAny(list globs, names ...string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(re *regexp.Regexp) bool {
		return slices.ContainsFunc(names, re.MatchString)
	})
}
