package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// What is granted is JSON, indented by two. Of these parts of it, which programs
// write, lines that are indented deeper than so many spaces are folded: what is
// left are names, versions and digests.
var foldedParts = map[string]int{`  "flow files": {`: flowDepth, `  "pml.lock": {`: lockDepth}

// flowDepth is the depth of the digest and the content of a file of flows. Of a content that has
// changed in a few lines, those are for people: whether a flow is enabled, and what it matches.
const (
	flowDepth = 6
	fewLines  = 20
)

// lockDepth is the depth of the members of a server in pml.lock. Of their lists one
// is for people: the tools of which it is accepted that they only read.
const (
	lockDepth    = 10
	readOnlyList = `          "readonly": [`
)

// Fold leaves out of a text of what is granted, or of its changes, what only a
// program reads; n is how many lines those are. content is all that is granted:
// which line of it a new line is says whether that is folded, so that nothing
// that is granted elsewhere is taken for a line of these parts.
func Fold(text, content string, changes bool) (out string, n int) {
	var b strings.Builder
	run := 0
	end := func() {
		if run > 0 {
			fmt.Fprintf(&b, "            … %s\n", layout.Plural(run, "line"))
		}
		n, run = n+run, 0
	}
	limits, next, gone := limitsOf(content), 1, unfolded
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		bare := strings.TrimRight(line, "\n")
		limit := unfolded
		switch {
		case !changes:
			limit = limits.at(next)
			next++
		case strings.HasPrefix(bare, "@@"):
			if _, err := fmt.Sscanf(bare, "@@ line %d @@", &next); err != nil {
				return text, 0
			}
			gone = limits.at(next)
		case strings.HasPrefix(bare, "-"):
			bare = bare[1:]
			gone = limitAt(bare, gone)
			limit = gone
		case bare != "":
			bare, limit = bare[1:], limits.at(next)
			gone = limit
			next++
		}
		if limit != unfolded && depth(bare) > limit && !(changes && limit == flowDepth && changedFew(lines, i)) {
			run++
			continue
		}
		end()
		b.WriteString(line)
	}
	end()
	return b.String(), n
}

// changedFew reports whether a line of a difference is one of a few that have changed together.
func changedFew(lines []string, at int) bool {
	changed := func(i int) bool {
		return i >= 0 && i < len(lines) && (lines[i][0] == '+' || lines[i][0] == '-')
	}
	from, to := at, at
	for changed(from-1) && at-from <= fewLines {
		from--
	}
	for changed(to+1) && to-at <= fewLines {
		to++
	}
	return changed(at) && to-from < fewLines
}

// unfolded is the limit of a line that stays, whatever it is.
const unfolded = -1

// lineLimits are the limits of the lines of a content, in their order.
type lineLimits []int

func limitsOf(content string) lineLimits {
	var out lineLimits
	limit := unfolded
	for line := range strings.Lines(content) {
		limit = limitAt(strings.TrimRight(line, "\n"), limit)
		out = append(out, limit)
	}
	return out
}

// limitAt is the limit of a line after one that had another.
func limitAt(line string, before int) int {
	switch {
	case depth(line) > 2 && before == lockDepth && line == readOnlyList:
		return lockDepth + 2
	case depth(line) > 2 && before == lockDepth+2 && depth(line) <= lockDepth && !strings.HasPrefix(strings.TrimLeft(line, " "), "]"):
		return lockDepth
	case depth(line) > 2:
		return before
	}
	if l, ok := foldedParts[line]; ok {
		return l
	}
	return unfolded
}

func depth(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// at is the limit of a line, by its number from 1.
func (l lineLimits) at(n int) int {
	if n < 1 || n > len(l) {
		return unfolded
	}
	return l[n-1]
}

// Counted says how much is granted; nothing of a content that is no JSON.
func Counted(content string) string {
	var all struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		Expose  json.RawMessage            `json:"expose"`
		Allow   struct {
			Allow []json.RawMessage `json:"allow"`
		} `json:"permissions"`
		Flows  map[string]json.RawMessage `json:"flow files"`
		Models map[string]json.RawMessage `json:"models"`
		Lock   struct {
			Content struct {
				Servers map[string]struct {
					Packages []json.RawMessage          `json:"packages"`
					Tools    map[string]json.RawMessage `json:"tools"`
				} `json:"servers"`
			} `json:"content"`
		} `json:"pml.lock"`
	}
	if json.Unmarshal([]byte(content), &all) != nil {
		return ""
	}
	delete(all.Models, "default") // the name of one of them
	packages, tools := 0, 0
	for _, s := range all.Lock.Content.Servers {
		packages, tools = packages+len(s.Packages), tools+len(s.Tools)
	}
	grants := counted(counts{
		{len(all.Servers), "server", ""}, {len(all.Allow.Allow), "allow rule", ""}, {patternsOf(all.Expose), "pattern", " of expose"},
		{len(all.Flows), "flow", ""}, {len(all.Models), "model", ""},
	})
	pins := counted(counts{{len(all.Lock.Content.Servers), "server", ""}, {packages, "package", ""}, {tools, "tool", ""}})
	return "what it grants: " + grants + "\npml.lock pins: " + pins + "\n\n"
}

// inShortOf is how many servers and rules InShort names at most.
const inShortOf = 8

// InShort says in a few lines what the granted servers start and which rules let tools on: for
// who has scrolled past the content. Empty for neither.
func InShort(content string) string {
	var all struct {
		Servers map[string]struct {
			Command, URL string
			Args         []string
		} `json:"mcpServers"`
		Permissions struct {
			Allow []json.RawMessage `json:"allow"`
		} `json:"permissions"`
	}
	if json.Unmarshal([]byte(content), &all) != nil {
		return ""
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(all.Servers)) {
		s := all.Servers[name]
		does := "starts " + strings.Join(append([]string{s.Command}, s.Args...), " ")
		if s.Command == "" {
			does = "connects to " + s.URL
		}
		lines = append(lines, core.Visible(name+" "+does, 160, false))
	}
	lines = append(first(lines, "server"), first(allowed(all.Permissions.Allow), "rule")...)
	if len(lines) == 0 {
		return ""
	}
	return "in short:\n  " + strings.Join(lines, "\n  ") + "\n"
}

// allowed says which tools rules let on.
func allowed(rules []json.RawMessage) (lines []string) {
	for _, raw := range rules {
		text := string(raw)
		var pattern string
		if json.Unmarshal(raw, &pattern) == nil {
			text = pattern
		}
		lines = append(lines, "allows "+core.Visible(text, 160, false)+" without a question")
	}
	return lines
}

// first are as many lines as InShort has room for.
func first(lines []string, what string) []string {
	if n := len(lines) - inShortOf; n > 0 {
		return append(lines[:inShortOf:inShortOf], "and "+layout.Plural(n, "more "+what))
	}
	return lines
}

// patternsOf counts what expose names: it is a list, or an object with one.
func patternsOf(expose json.RawMessage) int {
	var list []string
	if json.Unmarshal(expose, &list) == nil {
		return len(list)
	}
	var object struct {
		Tools []string `json:"tools"`
	}
	if json.Unmarshal(expose, &object) != nil {
		return 0
	}
	return len(object.Tools)
}

// counts are numbers of things, each with what follows its name.
type counts []struct {
	n           int
	what, after string
}

// counted names the things that there are any of.
func counted(list counts) string {
	var out []string
	for _, c := range list {
		if c.n > 0 {
			out = append(out, layout.Plural(c.n, c.what)+c.after)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}
