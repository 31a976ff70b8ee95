// Package policy decides, from the permission patterns of the configuration,
// whether a tool may be called, needs a person, or is denied. It is pure: no
// files, no clock, no environment.
//
// # Patterns
//
// A pattern is a glob on server:tool. `*` stands for any run of characters,
// `?` for one, `[a-z]` and `[!a-z]` for one of a class, `{a,b}` for one of
// several; a backslash takes the next character literally. The first colon of
// a pattern separates server from tool, as the first colon of a tool's name
// does: on the server's side no wildcard matches a colon, on the tool's side
// one may (a tool can be called "a:b", and `server:*` means all tools). A
// pattern without a colon is a server, or a glob on servers, and means all
// their tools; so `*` means everything. Case matters.
//
// # Decisions
//
// A deny pattern that matches always wins. Otherwise the most specific of the
// matching allow and ask patterns decides: one without wildcards that names
// server and tool first, then the one with the longest text before its first
// wildcard, then the one with a condition; a tie asks. Where nothing matches, a
// read-only tool is allowed if the rules say so, and everything else asks.
//
// # Conditions
//
// A rule with a condition (package where) matches the calls of its pattern for
// which the condition holds. Where nobody can know that, because the condition
// fails, a rule that denies or asks matches and one that allows does not. While
// what the condition speaks of is not known yet, such as the arguments of a call
// that is only planned, the rule matches nothing; it is judged again when it is.
package policy

import (
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Effect is what is to be done with a call.
type Effect string

// The effects.
const (
	Allow Effect = "allow"
	Ask   Effect = "ask"
	Deny  Effect = "deny"
)

// ReadOnlyRule is the Rule of a verdict that let a read-only tool through
// because Rules.ReadOnly says so.
const ReadOnlyRule = "readonly"

// Rules are the permissions of a configuration, as they are written.
type Rules struct {
	Allow, Deny, Ask []Rule
	// ReadOnly is "allow" to let tools annotated read-only through where no
	// pattern matches; "ask" or empty otherwise.
	ReadOnly string
}

// Verdict is the answer to one call, and why.
type Verdict struct {
	Effect Effect
	// Rule is the text of the rule that decided (Rule.String), ReadOnlyRule, or empty
	// when none matched.
	Rule string
	// List is the list that Rule stands in: "allow", "ask" or "deny".
	List string
	// Failed is set where a condition could not be evaluated: that of Rule, which matches
	// for that reason, otherwise that of a rule which might have decided.
	Failed *Failed
}

// Failed is a rule whose condition could not be evaluated for a call.
type Failed struct {
	Rule string // its text
	List string // that it stands in
	Err  error  // why
}

// Finding is something about a pattern that its author should know.
type Finding struct {
	Rule, List, Message string
}

// Policy is a compiled set of rules. It is safe for concurrent use.
type Policy struct {
	deny, allow, ask []*pattern
	readOnly         bool
	conditional      bool
}

// Conditional reports whether any rule has a condition: otherwise nothing but the tool
// of a call decides.
func (p *Policy) Conditional() bool { return p.conditional }

// Compile checks all patterns and compiles them. The error is
// core.CodeInvalidConfig with one fault for each malformed pattern, whose Path
// is its JSON pointer in a configuration ("/permissions/deny/0").
func Compile(r Rules) (*Policy, error) {
	p := &Policy{readOnly: r.ReadOnly == "allow"}
	var faults []core.Fault
	for _, l := range []struct {
		name  string
		rules []Rule
		to    *[]*pattern
	}{{"deny", r.Deny, &p.deny}, {"allow", r.Allow, &p.allow}, {"ask", r.Ask, &p.ask}} {
		for i, rule := range l.rules {
			c, wrong := compileRule(l.name, rule, fmt.Sprintf("/permissions/%s/%d", l.name, i))
			faults = append(faults, wrong...)
			*l.to = append(*l.to, c)
			p.conditional = p.conditional || rule.Where != ""
		}
	}
	if r.ReadOnly != "" && r.ReadOnly != "allow" && r.ReadOnly != "ask" {
		faults = append(faults, core.Fault{
			Path:    "/permissions/readonly",
			Message: fmt.Sprintf(`must be "allow" or "ask", not %q`, core.Visible(r.ReadOnly, 60, false)),
		})
	}
	if len(faults) > 0 {
		return nil, &core.Error{
			Code:    core.CodeInvalidConfig,
			Message: "the permissions are not valid; correct them in .pml.json or config.json",
			Faults:  faults,
		}
	}
	return p, nil
}

// Decide says what is to be done with a call of a tool (server:tool) of which
// nothing else is known. readOnly is whether the tool counts as one that changes
// nothing.
func (p *Policy) Decide(tool string, readOnly bool) Verdict {
	return p.DecideCall(Call{Tool: tool}, readOnly)
}

// DecideCall says what is to be done with a call. readOnly is as for Decide.
func (p *Policy) DecideCall(call Call, readOnly bool) Verdict {
	e := evaluation{call: &call}
	if deny := e.best(p.deny); deny != nil {
		return e.verdict(Deny, deny)
	}
	ask := e.best(p.ask)
	// A name with characters that nobody sees may pose as another tool.
	if hasControl(call.Tool) {
		return e.verdict(Ask, ask)
	}
	allow := e.best(p.allow)
	switch {
	case allow != nil && (ask == nil || allow.beats(ask)):
		return e.verdict(Allow, allow)
	case ask != nil:
		return e.verdict(Ask, ask)
	case readOnly && p.readOnly:
		return Verdict{Effect: Allow, Rule: ReadOnlyRule}
	}
	return e.verdict(Ask, nil)
}

// Denied returns the verdict on a call that a rule denies, by the most specific
// one; denied is false for all others.
func (p *Policy) Denied(call Call) (v Verdict, denied bool) {
	e := evaluation{call: &call}
	if deny := e.best(p.deny); deny != nil {
		return e.verdict(Deny, deny), true
	}
	return Verdict{}, false
}

// beats reports whether p is strictly more specific than q.
func (p *pattern) beats(q *pattern) bool {
	switch {
	case p.exact != q.exact:
		return p.exact
	case len(p.literal) != len(q.literal):
		return len(p.literal) > len(q.literal)
	}
	return p.where != nil && q.where == nil
}

// Literal returns the pattern that matches exactly the given tool
// (server:tool), its special characters escaped: what is written when a
// person's answer is remembered as a rule.
func Literal(tool string) string {
	var b strings.Builder
	for _, r := range tool {
		if strings.ContainsRune(`*?[]{}\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
