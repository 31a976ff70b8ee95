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
// wildcard; a tie asks. Where nothing matches, a read-only tool is allowed if
// the rules say so, and everything else asks.
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
	Allow, Deny, Ask []string
	// ReadOnly is "allow" to let tools annotated read-only through where no
	// pattern matches; "ask" or empty otherwise.
	ReadOnly string
}

// Verdict is the answer to one call, and why.
type Verdict struct {
	Effect Effect
	// Rule is the pattern that decided, ReadOnlyRule, or empty when none matched.
	Rule string
	// List is the list that Rule stands in: "allow", "ask" or "deny".
	List string
}

// Finding is something about a pattern that its author should know.
type Finding struct {
	Rule, List, Message string
}

// Policy is a compiled set of rules. It is safe for concurrent use.
type Policy struct {
	deny, allow, ask []*pattern
	readOnly         bool
}

// Compile checks all patterns and compiles them. The error is
// core.CodeInvalidConfig with one fault for each malformed pattern, whose Path
// is its JSON pointer in a configuration ("/permissions/deny/0").
func Compile(r Rules) (*Policy, error) {
	p := &Policy{readOnly: r.ReadOnly == "allow"}
	var faults []core.Fault
	for _, l := range []struct {
		name  string
		texts []string
		to    *[]*pattern
	}{{"deny", r.Deny, &p.deny}, {"allow", r.Allow, &p.allow}, {"ask", r.Ask, &p.ask}} {
		for i, text := range l.texts {
			c, err := compile(l.name, text)
			if err != nil {
				faults = append(faults, core.Fault{
					Path:    fmt.Sprintf("/permissions/%s/%d", l.name, i),
					Message: fmt.Sprintf("malformed pattern %q: %v", core.Visible(text, 60, false), err),
				})
				continue
			}
			*l.to = append(*l.to, c)
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

// Decide says what is to be done with a call of a tool (server:tool).
// readOnly is whether the tool counts as one that changes nothing.
func (p *Policy) Decide(tool string, readOnly bool) Verdict {
	if rule, denied := p.Denied(tool); denied {
		return Verdict{Effect: Deny, Rule: rule, List: "deny"}
	}
	ask := best(p.ask, tool)
	// A name with characters that nobody sees may pose as another tool.
	if hasControl(tool) {
		return verdict(Ask, ask)
	}
	allow := best(p.allow, tool)
	switch {
	case allow != nil && (ask == nil || allow.beats(ask)):
		return verdict(Allow, allow)
	case ask != nil:
		return verdict(Ask, ask)
	case readOnly && p.readOnly:
		return Verdict{Effect: Allow, Rule: ReadOnlyRule}
	}
	return Verdict{Effect: Ask}
}

// Denied reports whether a deny pattern matches the tool, and which: the most
// specific one.
func (p *Policy) Denied(tool string) (rule string, denied bool) {
	if d := best(p.deny, tool); d != nil {
		return d.text, true
	}
	return "", false
}

func verdict(e Effect, p *pattern) Verdict {
	if p == nil {
		return Verdict{Effect: e}
	}
	return Verdict{Effect: e, Rule: p.text, List: p.list}
}

// best returns the most specific pattern that matches, the first of equals.
func best(list []*pattern, tool string) *pattern {
	var found *pattern
	for _, p := range list {
		if p.matches(tool) && (found == nil || p.beats(found)) {
			found = p
		}
	}
	return found
}

// beats reports whether p is strictly more specific than q.
func (p *pattern) beats(q *pattern) bool {
	if p.exact != q.exact {
		return p.exact
	}
	return len(p.literal) > len(q.literal)
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
