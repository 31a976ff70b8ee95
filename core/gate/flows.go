package gate

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// flow is an enabled flow of the workspace. This version of pml runs none: the
// calls that one matches are refused, because a check that is skipped is worse
// than none.
type flow struct {
	file string
	// unread: pml cannot tell what it says.
	unread bool
	// server and tool match names; nil: any.
	server, tool globs
}

// flowsOf reads the enabled flows, trusted or not: to refuse needs no trust. What
// cannot be read counts as enabled, and matches every call.
func flowsOf(c *env.Config) []flow {
	files := c.FlowFiles()
	var out []flow
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if f, enabled := flowOf(name, files[name]); enabled {
			out = append(out, f)
		}
	}
	return out
}

// flowOf reads one file; enabled is false for a flow that is switched off, and for
// a file of a subfolder that is none.
func flowOf(name string, data []byte) (f flow, enabled bool) {
	f = flow{file: name, unread: true}
	// By their exact names: readers that take ENABLED for enabled are not all.
	var members map[string]json.RawMessage
	if core.CheckKeys("the flow", data) != nil || json.Unmarshal(data, &members) != nil || members == nil {
		return f, true
	}
	is := func(key string) bool { return members[key] != nil }
	if strings.Contains(name, "/") && !is("enabled") && !is("match") && !is("workflowType") && !is("nodes") {
		return f, false // what flows bring with them
	}
	on, mode := true, ""
	if is("enabled") && json.Unmarshal(members["enabled"], &on) != nil || is("mode") && json.Unmarshal(members["mode"], &mode) != nil {
		return f, true
	}
	if !on || mode == "audit" {
		return f, false
	}
	match := map[string]json.RawMessage{}
	if is("match") && json.Unmarshal(members["match"], &match) != nil {
		return f, true
	}
	for key, list := range map[string]*globs{"server": &f.server, "tool": &f.tool} {
		if len(match[key]) > 0 && json.Unmarshal(match[key], list) != nil {
			return flow{file: name, unread: true}, true
		}
	}
	f.unread = false
	return f, true
}

// globs are patterns in which * is any text and ? any character, in any case: one, or
// a list.
type globs []*regexp.Regexp

// UnmarshalJSON implements json.Unmarshaler.
func (g *globs) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) != nil {
		list = make([]string, 1)
		if err := json.Unmarshal(data, &list[0]); err != nil {
			return err
		}
	}
	for _, text := range list {
		if text == "" { // says nothing: any
			*g = nil
			return nil
		}
		text = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(text))
		re, err := regexp.Compile(`(?is)^(?:` + text + `)$`)
		if err != nil {
			return err
		}
		*g = append(*g, re)
	}
	return nil
}

func matchesAny(list globs, names ...string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(re *regexp.Regexp) bool {
		return slices.ContainsFunc(names, re.MatchString)
	})
}

// forbidden applies what holds whatever else is known of a call: deny rules, and
// flows that would have to look at it.
func (s *settings) forbidden(id string) *core.Error {
	if rule, denied := s.policy.Denied(id); denied {
		return deniedBy(id, rule)
	}
	server, tool, _ := core.SplitTool(id)
	for _, f := range s.flows {
		if matchesAny(f.server, server) && matchesAny(f.tool, tool, id) {
			if f.unread {
				return core.Errorf(core.CodeHookFailed, "%s is refused: pml cannot read %s in %s, which may be a flow that checks this call; take the file out of that folder, or write it as a JSON object with \"enabled\": false",
					core.Visible(id, 120, false), core.Visible(f.file, 120, false), core.Visible(s.all.Flows, 200, false)).WithNext("pml", "doctor")
			}
			return core.Errorf(core.CodeHookFailed, "%s is refused: the flow %s is enabled and would check this call, and this version of pml does not run flows; set \"enabled\": false in it, or take it out of %s",
				core.Visible(id, 120, false), core.Visible(f.file, 120, false), core.Visible(s.all.Flows, 200, false)).WithNext("pml", "doctor")
		}
	}
	return nil
}

// EnabledFlows are the files of the flows that refuse calls.
func (h *Host) EnabledFlows() ([]string, error) {
	s, err := h.reader.recent()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(s.flows))
	for i, f := range s.flows {
		out[i] = f.file
	}
	return out, nil
}
