package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/casys-ai/pml/core"
)

// ranked is a tool and how well it fits, 0 to 1.
type ranked struct {
	tool  core.Tool
	score float64
}

// How many tools discover names unless more are wanted.
const (
	found       = 5
	listedTools = 50
)

// maxAbout cuts a description in a list; details give it whole.
const maxAbout = 300

type discoverArgs struct {
	Intent  string `json:"intent"`
	Pattern string `json:"pattern"`
	Name    string `json:"name"`
	ID      string `json:"id"`
	Details bool   `json:"details"`
	Filter  struct {
		Type     string  `json:"type"` // tool or all, which is the same: the original had capabilities beside tools
		MinScore float64 `json:"minScore"`
	} `json:"filter"`
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	Related bool `json:"include_related"`
}

// discovery is the result of discover.
type discovery struct {
	Tools    []foundTool `json:"tools"`
	Total    int         `json:"total"`
	Next     int         `json:"next_offset,omitempty"`
	Related  []string    `json:"related,omitempty"`
	Problems []string    `json:"problems,omitempty"`
}

type foundTool struct {
	ID          string          `json:"id"`
	Call        string          `json:"call"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	ReadOnly    bool            `json:"read_only"`
	Score       float64         `json:"score,omitempty"`
	Input       json.RawMessage `json:"input_schema,omitempty"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
}

// discover finds tools. Of several ways to say which, pattern comes first, then
// name, id and intent.
func discover(ctx context.Context, e *Edge, c *call) (any, error) {
	var in discoverArgs
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	if in.Pattern+in.Name+in.ID+in.Intent == "" {
		return nil, refuse("discover", "", "give one of intent, pattern, name, id")
	}
	tools, problems, err := c.backend.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b core.Tool) int { return cmp.Compare(a.ID(), b.ID()) })
	hits, limit := in.pick(e, tools)
	if len(hits) == 0 && (in.Name != "" || in.ID != "") && in.Pattern == "" {
		return nil, noSuchTool(cmp.Or(in.Name, in.ID), tools)
	}
	out := discovery{Tools: []foundTool{}, Total: len(hits)}
	hits = hits[min(in.Offset, len(hits)):]
	if limit = or(in.Limit, limit); len(hits) > limit {
		hits = hits[:limit]
		out.Next = in.Offset + limit
	}
	for _, h := range hits {
		out.Tools = append(out.Tools, h.shown(in.Details || in.ID != ""))
	}
	if in.Related {
		out.Related = related(hits, tools)
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, core.Visible(p.String(), 500, false))
	}
	return out, nil
}

// pick returns the tools that are meant, best first, and how many of them are
// shown unless the caller says.
func (in discoverArgs) pick(e *Edge, tools []core.Tool) ([]ranked, int) {
	var match func(core.Tool) bool
	switch {
	case in.Pattern != "":
		glob := globOf(in.Pattern)
		match = func(t core.Tool) bool { return glob.MatchString(t.ID()) }
	case in.Name != "":
		match = func(t core.Tool) bool { return t.ID() == in.Name || t.Name == in.Name }
	case in.ID != "":
		match = func(t core.Tool) bool { return t.ID() == in.ID }
	default:
		hits := in.ranked(e, tools)
		hits = slices.DeleteFunc(hits, func(h ranked) bool { return h.score < in.Filter.MinScore })
		return hits, found
	}
	var hits []ranked
	for _, t := range tools {
		if match(t) {
			hits = append(hits, ranked{tool: t})
		}
	}
	return hits, listedTools
}

// maxRanked bounds how many tools a search ranks.
const maxRanked = 500

func (in discoverArgs) ranked(e *Edge, tools []core.Tool) []ranked {
	if e.o.Rank == nil {
		return byWords(in.Intent, tools)
	}
	known := make(map[string]core.Tool, len(tools))
	for _, t := range tools {
		known[t.ID()] = t
	}
	var hits []ranked
	for _, s := range e.o.Rank(in.Intent, tools, maxRanked) {
		if t, ok := known[s.CallName]; ok {
			hits = append(hits, ranked{tool: t, score: s.Score})
		}
	}
	return hits
}

// globOf matches with * for any text and ? for one character; a bare server
// name means all its tools.
func globOf(pattern string) *regexp.Regexp {
	if !strings.ContainsAny(pattern, ":*?") {
		pattern += ":*"
	}
	expr := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)\A` + expr + `\z`)
}

func noSuchTool(name string, tools []core.Tool) error {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.ID()
	}
	return core.Errorf(core.CodeNoSuchTool, "there is no tool %q%s", core.Visible(name, 120, false), core.Suggest(name, names)).
		WithNext("pml", "tools", "ls")
}

func (h ranked) shown(details bool) foundTool {
	t := h.tool
	f := foundTool{
		ID: t.ID(), Call: spelled(t), Title: core.Visible(t.Title, 120, false),
		ReadOnly: t.Annotations.IsReadOnly(), Score: h.score,
	}
	if !details {
		f.Description = core.Visible(t.Description, maxAbout, true)
		return f
	}
	f.Description = core.Visible(t.Description, 0, true)
	f.Input, f.Output = t.InputSchema, t.OutputSchema
	return f
}

var plainName = regexp.MustCompile(`\A[A-Za-z_$][A-Za-z0-9_$]*\z`)

// spelled is how code calls a tool.
func spelled(t core.Tool) string {
	var b strings.Builder
	b.WriteString("mcp")
	for _, name := range []string{t.Server, t.Name} {
		if plainName.MatchString(name) {
			b.WriteString("." + name)
		} else {
			b.WriteString("[" + strconv.Quote(name) + "]")
		}
	}
	return b.String()
}

// maxRelated bounds the names of related tools.
const maxRelated = 20

// related are the other tools of the servers of what was found.
func related(hits []ranked, tools []core.Tool) []string {
	servers, shown := map[string]bool{}, map[string]bool{}
	for _, h := range hits {
		servers[h.tool.Server], shown[h.tool.ID()] = true, true
	}
	var out []string
	for _, t := range tools {
		if servers[t.Server] && !shown[t.ID()] && len(out) < maxRelated {
			out = append(out, t.ID())
		}
	}
	return out
}

// byWords ranks by the part of the intent's words that a tool has in its name
// or, at half the weight, in its description.
func byWords(intent string, tools []core.Tool) []ranked {
	wanted := words(intent)
	if len(wanted) == 0 {
		return nil
	}
	var out []ranked
	for _, t := range tools {
		name, about := words(t.ID()+" "+t.Title), words(t.Description)
		var score float64
		for w := range wanted {
			switch {
			case name[w]:
				score++
			case about[w]:
				score += 0.5
			}
		}
		if score > 0 {
			out = append(out, ranked{tool: t, score: score / float64(len(wanted))})
		}
	}
	slices.SortStableFunc(out, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	return out
}

// words are the words of a text in lower case, a plural counted as its singular.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) > 3 {
			w = strings.TrimSuffix(w, "s")
		}
		if len(w) > 1 {
			out[w] = true
		}
	}
	return out
}
