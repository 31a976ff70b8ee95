package policy

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/where"
)

// Rule is an entry of one of the lists: a pattern and, where Where is not empty, a
// condition on the call (package where). In JSON it is the pattern alone, or
// {"tool": …, "where": …}.
type Rule struct {
	Tool  string
	Where string
}

// Patterns are rules without conditions.
func Patterns(patterns ...string) []Rule {
	var out []Rule
	for _, p := range patterns {
		out = append(out, Rule{Tool: p})
	}
	return out
}

// String is the rule as messages name it.
func (r Rule) String() string {
	if r.Where == "" {
		return r.Tool
	}
	return r.Tool + " where " + r.Where
}

// conditional is the JSON form of a rule with a condition.
type conditional struct {
	Tool  string `json:"tool"`
	Where string `json:"where"`
}

// MarshalJSON implements json.Marshaler.
func (r Rule) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // "<" stays readable
	if r.Where == "" {
		err := enc.Encode(r.Tool)
		return bytes.TrimSpace(b.Bytes()), err
	}
	err := enc.Encode(conditional(r))
	return bytes.TrimSpace(b.Bytes()), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rule) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(`"`)) {
		*r = Rule{}
		return json.Unmarshal(data, &r.Tool)
	}
	return json.Unmarshal(data, (*conditional)(r))
}

// compileRule compiles a rule that stands at a JSON pointer. Its pattern is nil where
// there are faults.
func compileRule(list string, r Rule, at string) (p *pattern, faults []core.Fault) {
	inPattern, inWhere := at, at
	if r.Where != "" {
		inPattern, inWhere = at+"/tool", at+"/where"
	}
	p, err := compile(list, r.Tool)
	if err != nil {
		faults = append(faults, core.Fault{Path: inPattern, Message: fmt.Sprintf("malformed pattern %q: %v", core.Visible(r.Tool, 60, false), err)})
	}
	if r.Where == "" {
		return p, faults
	}
	e, err := where.Compile(r.Where, where.Request)
	if err != nil {
		wrong := core.AsError(err).Faults
		if len(wrong) == 0 {
			wrong = []core.Fault{{Message: err.Error()}}
		}
		for _, f := range wrong {
			place := ""
			if f.At != nil {
				place = fmt.Sprintf(" at its character %d", f.At.Column)
				if f.At.Line > 1 {
					place = fmt.Sprintf(" in its line %d at character %d", f.At.Line, f.At.Column)
				}
			}
			faults = append(faults, core.Fault{Path: inWhere, Message: fmt.Sprintf("the condition is not valid%s: %s", place, f.Message)})
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	p.where = e
	return p, nil
}

// rule is the pattern as it was written.
func (p *pattern) rule() Rule {
	r := Rule{Tool: p.text}
	if p.where != nil {
		r.Where = p.where.String()
	}
	return r
}

// Call is a call as far as it is known.
type Call struct {
	Tool string // server:tool
	// Facts gives what conditions see of the call; nil: nothing is known of it. It is
	// called at most once, and only when a rule with a condition may match. Tool and
	// Server need not be set.
	Facts func() Facts
}

// Facts are what conditions see of a call.
type Facts struct {
	where.Call
	// ToolKnown is false while the annotations of the tool are not known: conditions
	// that speak of them match nothing.
	ToolKnown bool
}

// evaluation is the judgement of one call.
type evaluation struct {
	call     *Call
	facts    *Facts
	failures []failure
}

// failure is a rule whose condition failed.
type failure struct {
	p   *pattern
	err error
}

// best returns the most specific rule that matches, the first of equals.
func (e *evaluation) best(list []*pattern) (found *pattern) {
	for _, p := range list {
		if p.matches(e.call.Tool) && (found == nil || p.beats(found)) && e.holds(p) {
			found = p
		}
	}
	return found
}

// holds reports whether the condition of a rule lets it match.
func (e *evaluation) holds(p *pattern) bool {
	if p.where == nil {
		return true
	}
	if e.call.Facts == nil {
		return false
	}
	if e.facts == nil {
		f := e.call.Facts()
		f.Server, f.Call.Tool, _ = core.SplitTool(e.call.Tool)
		e.facts = &f
	}
	if p.where.UsesAnnotations() && !e.facts.ToolKnown {
		return false
	}
	holds, err := p.where.Eval(e.facts.Call)
	if err != nil {
		e.failures = append(e.failures, failure{p, err})
		return p.list != "allow"
	}
	return holds
}

// verdict is the answer by a rule; p is nil where none matched.
func (e *evaluation) verdict(effect Effect, p *pattern) Verdict {
	v := Verdict{Effect: effect}
	if p != nil {
		v.Rule, v.List = p.rule().String(), p.list
	}
	for _, f := range e.failures {
		if effect != Allow && (v.Failed == nil || f.p == p) {
			v.Failed = &Failed{f.p.rule().String(), f.p.list, f.err}
		}
	}
	return v
}
