// Package suggest finds, for an intent in words, the tools that fit it and a DAG
// of them: ranking by words (BM25) over names, descriptions and schemas, helped by
// runs that went well before. No model is asked and nothing is run. Pure.
//
// # Ranking
//
// Names and texts are cut into words (at separators and at camel case), lowered,
// stemmed a little and looked up with a few synonyms. A tool has five fields: its
// name, its title, its server, its description, and its properties. A word counts by
// how rare it is among the tools and by the weight of the fields it is in (BM25F).
// The sum is lowered by the share of the intent that a tool does not explain,
// raised by successful runs with a similar intent, and made a number below 1:
//
//	score = s / (s + 5)
//
// It grows with s, it is 0 when no word fits, and it never reaches 1. Confidence
// is the score of the first tool.
//
// # DAG
//
// The intent is cut into steps, each step gets its best tool, and what the step says
// for certain becomes arguments. What is required and not said is named as missing;
// nothing is made up.
package suggest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The bounds of what is looked at and given back.
const (
	maxIntent = 4 << 10 // bytes; the rest of a longer intent is not looked at
	maxSteps  = 12
	maxTools  = 8
	// fits is the lowest score of a tool that gets a step.
	fits = 0.20
	// worth is the lowest score of a tool that is named at all.
	worth = 0.10
)

// Run is a kind of run that went well before.
type Run struct {
	Intent string
	Tools  []string // server:tool
	Count  int      // how often; less than 1 counts as 1
}

// Request is what to suggest for.
type Request struct {
	Intent string
	// Past are successful runs; those with a similar intent speak for their tools.
	Past []Run
	// Context is a JSON object of values that may be used as arguments, by the
	// name of the property. Anything else is ignored.
	Context json.RawMessage
	// NewID names the n-th task, from 1; nil: t1, t2, …
	NewID func(n int) string
}

// Suggest finds tools and a DAG for an intent. The same request gives the same
// answer. Without a fitting tool the confidence is 0 and Error says so.
func (x *Index) Suggest(r Request) api.Suggestions {
	out := api.Suggestions{Tools: []api.SuggestedTool{}}
	intent := clip(r.Intent)
	memories := x.remember(r.Past)
	past := x.similar(intent, memories)
	ranked := x.rank(intent, past)
	if len(ranked) == 0 {
		out.Error = "none of the known tools fits; say it in other words, or name the tool"
		if len(x.docs) == 0 {
			out.Error = "no tools are known: configure a server first"
		}
		return out
	}
	plan := x.plan(intent, past, memories, r)
	for _, hit := range ahead(ranked, plan.used) {
		out.Tools = append(out.Tools, suggested(x.docs[hit.doc].tool, hit.score))
	}
	out.Confidence = out.Tools[0].Score
	if len(plan.tasks) > 0 {
		out.SuggestedDAG = &api.SuggestedDAG{Tasks: plan.tasks, Missing: plan.missing}
		out.Confidence = plan.confidence
	}
	if len(plan.unmatched) > 0 {
		out.Error = fmt.Sprintf("nothing fits %q", core.Visible(plan.unmatched[0], 80, false))
	}
	return out
}

// ahead puts the tools of the DAG before the others, each once.
func ahead(ranked, used []hit) []hit {
	var out []hit
	add := func(h hit) {
		if len(out) < maxTools && !slices.ContainsFunc(out, func(o hit) bool { return o.doc == h.doc }) {
			out = append(out, h)
		}
	}
	for _, h := range used {
		add(h)
	}
	for _, h := range ranked {
		if h.score >= worth {
			add(h)
		}
	}
	if len(out) == 0 {
		out = ranked[:1]
	}
	return out
}

func suggested(t core.Tool, score float64) api.SuggestedTool {
	out := api.SuggestedTool{CallName: t.ID(), Score: round(score), Description: t.Description, Risk: risk(t)}
	if json.Valid(t.InputSchema) {
		out.InputSchema = t.InputSchema
	}
	return out
}

// risk is what a tool says of itself, and what its name does.
func risk(t core.Tool) core.Risk {
	switch {
	case Destroys(t):
		return core.RiskHigh
	case t.Annotations.IsReadOnly():
		return core.RiskLow
	}
	return core.RiskMedium
}

// round keeps four digits, so that programs and people see the same number.
func round(v float64) float64 { return float64(int(v*1e4+0.5)) / 1e4 }

// clip bounds an intent at the start of a rune.
func clip(s string) string {
	if len(s) > maxIntent {
		s = s[:maxIntent]
	}
	return strings.ToValidUTF8(s, "")
}

// Complete reports whether a suggested DAG can run as it is: every step has a
// tool and every required argument a value.
func Complete(s api.Suggestions) bool {
	return s.SuggestedDAG != nil && len(s.SuggestedDAG.Tasks) > 0 && len(s.SuggestedDAG.Missing) == 0 && s.Error == ""
}

// destruction are the words of names of tools that destroy something.
var destruction = stems("delete remove drop destroy purge erase wipe kill truncate reset revoke rm uninstall clear terminate prune forget shred format")

// Destroys reports whether a tool's name says that it destroys something. Such a
// tool is suggested and never started unasked.
func Destroys(t core.Tool) bool {
	for _, w := range words(t.Name) {
		if destruction[w] {
			return true
		}
	}
	return false
}
