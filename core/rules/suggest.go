// Package rules proposes permission rules from what people have decided before. It is
// pure: no files, no clock, no store.
//
// # What is proposed
//
// A rule that allows, for a tool that people have approved at least MinApproved times
// with arguments that have something fixed in common. Every argument must be bounded by
// what was seen: a value that is always the same, one of few values, a number between
// the smallest and the largest, a path below a folder of the workspace. Only texts that
// people write (a body, a comment) are free, up to twice the longest. Other arguments
// than those that were seen are not let through.
//
// A rule that would have let through a call that somebody denied, or one of high risk,
// is not proposed.
package rules

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/where"
)

// MinApproved is how often people must have approved what a rule would allow.
const MinApproved = 5

// maxRules bounds the rules that are proposed for one tool.
const maxRules = 5

// Decision is how a question about a call of a tool was answered.
type Decision struct {
	Tool string // server:tool
	Args json.RawMessage
	// Approved is set when a person said yes to a call that is not of high risk and not
	// asked about each time. All others speak against a rule.
	Approved bool
}

// Suggestion is a rule that allows, and how many of the questions it would have saved.
type Suggestion struct {
	Rule  policy.Rule
	Saves int
}

// call is a decision with its arguments as conditions see them.
type call struct {
	Decision
	facts where.Call
	args  map[string]any
}

// Suggest proposes rules for calls of a workspace, the folder at an absolute path. The
// rule that saves most is first.
func Suggest(decisions []Decision, workspace string) []Suggestion {
	yes, no := map[string][]*call{}, map[string][]*call{}
	for _, d := range decisions {
		v, err := where.Decode(d.Args)
		if err != nil {
			continue
		}
		c := &call{Decision: d, facts: where.Call{Args: v, Workspace: workspace}}
		if v == nil {
			v = map[string]any{}
		}
		args, ok := v.(map[string]any)
		c.args = args
		if d.Approved && ok {
			yes[d.Tool] = append(yes[d.Tool], c)
		} else {
			no[d.Tool] = append(no[d.Tool], c)
		}
	}
	var out []Suggestion
	for tool, calls := range yes {
		out = append(out, forTool(tool, calls, no[tool], workspace)...)
	}
	slices.SortFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Saves, a.Saves), strings.Compare(a.Rule.Tool, b.Rule.Tool), strings.Compare(a.Rule.Where, b.Rule.Where))
	})
	return out
}

// candidate is a condition and the calls that it lets through.
type candidate struct {
	where string
	lets  []*call
}

// forTool takes the condition that saves most, then the one that saves most of what is
// left, and so on.
func forTool(tool string, calls, against []*call, workspace string) (out []Suggestion) {
	for len(calls) >= MinApproved && len(out) < maxRules {
		var best candidate
		for _, group := range groups(calls, workspace) {
			c, ok := candidateFor(group, calls, against, workspace)
			if ok && (len(c.lets) > len(best.lets) || len(c.lets) == len(best.lets) && better(c.where, best.where)) {
				best = c
			}
		}
		if len(best.lets) < MinApproved {
			break
		}
		out = append(out, Suggestion{policy.Rule{Tool: policy.Literal(tool), Where: best.where}, len(best.lets)})
		calls = slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return slices.Contains(best.lets, c) })
	}
	return out
}

// better prefers the shorter of two conditions.
func better(a, b string) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) < 0
}

// groups are all calls, and those that have a value, or a folder, in common.
func groups(calls []*call, workspace string) [][]*call {
	out := [][]*call{calls}
	by := map[string][]*call{}
	for _, c := range calls {
		for key, v := range c.args {
			if lit, ok := literal(v); ok {
				by[key+"\x00"+lit] = append(by[key+"\x00"+lit], c)
			}
			s, isText := v.(string)
			if !isText || !isPathName(key) {
				continue
			}
			for dir := folderOf(s, workspace); dir != "" && dir != "."; dir = parent(dir) {
				by[key+"\x00/"+dir] = append(by[key+"\x00/"+dir], c)
			}
		}
	}
	for _, group := range by {
		if len(group) >= MinApproved && len(group) < len(calls) {
			out = append(out, group)
		}
	}
	return out
}

// candidateFor is the condition that a group of calls has in common, if it lets through
// nothing that speaks against it.
func candidateFor(group, all, against []*call, workspace string) (candidate, bool) {
	text, ok := conditionOf(group, workspace)
	if !ok {
		return candidate{}, false
	}
	e, err := where.Compile(text, where.Request)
	if err != nil {
		return candidate{}, false
	}
	lets := func(c *call) bool {
		holds, err := e.Eval(c.facts)
		return err == nil && holds
	}
	if slices.ContainsFunc(against, lets) {
		return candidate{}, false
	}
	out := candidate{where: text}
	for _, c := range all {
		if lets(c) {
			out.lets = append(out.lets, c)
		}
	}
	return out, true
}
