package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Lint names the patterns that match none of the known tools (server:tool),
// with the nearest name, and those that match some but never decide because
// other rules do. With no known tools it finds nothing.
func (p *Policy) Lint(knownTools []string) []Finding {
	if len(knownTools) == 0 {
		return nil
	}
	var out []Finding
	for _, list := range [][]*pattern{p.deny, p.allow, p.ask} {
		for i, pat := range list {
			if f, ok := p.lint(pat, list[:i], knownTools); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

func (p *Policy) lint(pat *pattern, before []*pattern, known []string) (Finding, bool) {
	f := Finding{Rule: pat.rule().String(), List: pat.list}
	for _, b := range before {
		if b.rule() == pat.rule() {
			f.Message = "stands twice in the list"
			return f, true
		}
	}
	var winner Verdict
	matched := false
	for _, tool := range known {
		if !pat.matches(tool) {
			continue
		}
		// One deny rule that another one covers is a second lock, not a mistake. When a
		// condition holds is not known.
		if pat.list == "deny" || pat.where != nil {
			return f, false
		}
		v := p.Decide(tool, false)
		if v.List == pat.list && v.Rule == f.Rule {
			return f, false
		}
		if !matched {
			matched, winner = true, v
		}
	}
	if matched {
		f.Message = fmt.Sprintf("never decides: %s %q does", winner.List, winner.Rule)
		return f, true
	}
	f.Message = "matches no known tool" + hint(pat, known)
	return f, true
}

// hint suggests what the author of a pattern without a match may have meant.
func hint(pat *pattern, known []string) string {
	var servers []string
	for _, tool := range known {
		s, _, _ := strings.Cut(tool, ":")
		servers = append(servers, s)
	}
	slices.Sort(servers)
	servers = slices.Compact(servers)
	if pat.server != "" && !slices.Contains(servers, pat.server) {
		return core.Suggest(pat.server, servers)
	}
	if pat.exact {
		return core.Suggest(pat.literal, known)
	}
	// Compare the text itself, wildcards and all: a typo before or after a
	// wildcard still leaves the rest alike.
	return core.Suggest(pat.text, known)
}
