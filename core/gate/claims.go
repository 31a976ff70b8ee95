package gate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/policy"
)

// approvedClaims is the kind of the question whether the tools of a server only
// read, as they say. The answer is in pml.lock.
const approvedClaims = "readonly"

// onlyByClaim reports whether a rule lets a call through for no other reason than
// that its tool says that it only reads, and nobody has accepted that of it.
func (s *server) onlyByClaim(v policy.Verdict, tool string) bool {
	return s.name != Builtin && v.Effect == policy.Allow && v.List == "" && v.Rule == policy.ReadOnlyRule && !slices.Contains(s.locked().ReadOnly, tool)
}

// claimsOpen reports whether a tool of a server that is ready would be let through
// by nothing but its own claim.
func (s *server) claimsOpen(r readiness) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(r.tools)), func(name string) bool { return claimOpen(s, r, name) })
}

// claimOpen is claimsOpen of one tool.
func claimOpen(s *server, r readiness, name string) bool {
	t := r.tools[name]
	_, changed := r.changed[name]
	return !changed && believed(t).IsReadOnly() && s.onlyByClaim(s.set.policy.Decide(t.ID(), true), name)
}

// claimsAsk asks once for a server whether its tools only read, as they say. A
// tool that is asked about for its definition is not in the list.
func (s *server) claimsAsk(r readiness) (engine.Ask, error) {
	l := claimList{accepted: s.locked().ReadOnly}
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		if _, changed := r.changed[name]; !changed {
			l.add(r.tools[name])
		}
	}
	question := fmt.Sprintf("Do %d tools of the server %s only read, as the server says of them?", len(l.claimed), s.name)
	if len(l.claimed) == 1 {
		question = fmt.Sprintf("Does 1 tool of the server %s only read, as the server says of it?", s.name)
	}
	description := question + ` pml cannot check that; "readonly": "allow" lets such tools run without a question.`
	if n := len(l.odd) + len(l.refused); n > 0 {
		description += fmt.Sprintf(" Names that do not sound like it: %d (marked with !).", n)
	}
	lines := l.lines()
	for i, line := range lines { // all of them: a yes is about each name
		lines[i] = core.Visible(s.set.redact.String(line), maxChangeLine, false)
	}
	old, now, err := l.digests()
	if err != nil {
		return engine.Ask{}, err
	}
	ask := s.integrityAsk(s.name, description, approvedClaims, old, now, lines)
	if context, ok := ask.Context.(map[string]any); ok {
		context["read_only"] = l.claimed
	}
	return ask, nil
}

// claimList are the tools of a server that say that they only read, by what there
// is to say of them.
type claimList struct {
	accepted []string // of whom a person has accepted it before
	claimed  []string // those that a yes is about, with the accepted ones
	hashes   []string // their definitions
	odd      []string // those among them whose name does not sound like it
	refused  []string // those whose name says otherwise, which a yes is not about
}

func (l *claimList) add(t core.Tool) {
	switch {
	case !t.Annotations.IsReadOnly():
		return
	case !believed(t).IsReadOnly():
		l.refused = append(l.refused, t.Name)
		return
	case slices.ContainsFunc(nameWords(t.Name), func(word string) bool { return slices.Contains(changingWords, word) }):
		l.odd = append(l.odd, t.Name)
	}
	l.claimed, l.hashes = append(l.claimed, t.Name), append(l.hashes, install.ToolDigest(t))
}

// digests are those of the list that was accepted before, empty for the first
// one, and of this one with the definitions of its tools.
func (l *claimList) digests() (old, now string, err error) {
	if len(l.accepted) > 0 {
		if old, err = core.DigestOf(l.accepted); err != nil {
			return "", "", err
		}
	}
	now, err = core.DigestOf([][]string{l.claimed, l.hashes, l.refused})
	return old, now, err
}

// claimsWidth is about how many characters a line of names has.
const claimsWidth = 100

// lines show all of the list, the names that do not fit first.
func (l *claimList) lines() []string {
	var out []string
	part := func(mark, title string, names []string) {
		if len(names) == 0 {
			return
		}
		out = append(out, "  "+title)
		line := mark
		for i, name := range names {
			if i > 0 && len(line)+len(name) > claimsWidth {
				out, line = append(out, line), mark
			}
			if line != mark {
				line += ", "
			}
			line += name
		}
		out = append(out, line)
	}
	known := func(name string) bool { return slices.Contains(l.accepted, name) }
	odd := func(name string) bool { return slices.Contains(l.odd, name) }
	without := func(f func(string) bool) []string { return slices.DeleteFunc(slices.Clone(l.claimed), f) }
	part("! ", "the name says otherwise; pml does not believe these and asks about each call:", l.refused)
	part("! ", "the name does not sound like only reading; a yes lets them run without a question:", without(func(n string) bool { return !odd(n) || known(n) }))
	part("+ ", "a yes lets these run without a question:", without(func(n string) bool { return odd(n) || known(n) }))
	part("  ", "accepted before:", without(func(n string) bool { return !known(n) }))
	return out
}

// acceptClaims adds tools to those of which a person has accepted that they only
// read.
func acceptClaims(e *install.LockEntry, tools ...string) {
	all := slices.Concat(e.ReadOnly, tools)
	slices.Sort(all)
	if all = slices.Compact(all); !slices.Equal(all, e.ReadOnly) {
		e.ReadOnly = all
	}
}
