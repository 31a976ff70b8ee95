package screen

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// firstFile is the script that the first page offers, and firstScript what is in it.
const (
	firstFile   = "first.ts"
	firstScript = `// What pml runs: each mcp.SERVER.TOOL(…) is one call, and its result is kept.
// Reading this folder needs no answer; what writes stops and asks you. Again: pml run first.ts
const { entries } = await mcp.workspace.list_directory({ path: "." });
return entries.length + " entries: " + entries.slice(0, 10).map((e) => e.name).join(", ");
`
)

// firstStep is something to begin with.
type firstStep struct {
	command, what string
	intent        Shell
}

// firstSteps are what the page of an empty pml offers.
var firstSteps = []firstStep{
	{"pml init", "tell Claude Code, Cursor and other agents of pml, and choose who decides", Shell{Args: []string{"init"}}},
	{"pml tui --demo", "look around first: made-up runs and questions, nothing is changed", Shell{Args: []string{"tui", "--demo"}, Full: true}},
	{"pml execute " + firstFile, "write a first script into this folder and run it: it lists the folder", Shell{Args: []string{"execute", firstFile}, File: firstFile, Text: firstScript}},
}

// trustStep comes in the place of the first step where the files of the workspace, which
// are there, do not count.
var trustStep = firstStep{"pml trust", "look at what this workspace's files grant: nobody has trusted them yet", Shell{Args: []string{"trust"}}}

// stepsOf are what the page offers.
func stepsOf(e *Env) []firstStep {
	if !slices.ContainsFunc(e.State.Notices, func(n string) bool { return strings.HasSuffix(n, api.LookAndTrust) }) {
		return firstSteps
	}
	return append([]firstStep{trustStep}, firstSteps[1:]...)
}

// first reports whether there is nothing yet: no run, and nothing that was asked.
func first(e *Env) bool {
	return e.State.Loaded && e.State.CountRuns() == 0 && len(e.State.Waiting(e.Now)) == 0 && len(e.State.Warnings) == 0
}

// firstPage is what the list of runs shows while there is none.
type firstPage struct{ cursor int }

func (p *firstPage) do(act keys.Action, e *Env) ([]Intent, bool) {
	offered := stepsOf(e)
	switch act {
	case keys.Up, keys.Down, keys.First, keys.Last:
		var s widget.Scroll
		p.cursor, _ = s.Move(act, p.cursor, len(offered))
		return nil, true
	case keys.Open: // the next step is marked when it comes back
		chosen := offered[p.cursor].intent
		p.cursor = min(p.cursor+1, len(offered)-1)
		return []Intent{chosen}, true
	case keys.CopyCommand, keys.CopyID:
		return []Intent{Copy{What: "a command", Text: offered[p.cursor].command}}, true
	default:
		return nil, false
	}
}

func (p *firstPage) draw(in paint.Area, e *Env, focus bool) {
	y, small := 0, in.H < 16
	say := func(style paint.Style, text string) {
		for _, l := range paint.Wrap(text, in.W) {
			in.Put(0, y, style, l)
			y++
		}
	}
	say(paint.Style{}.Bold(), "Nothing has run yet.")
	if !small {
		y++
	}
	say(paint.Style{}, "pml runs scripts and graphs of MCP tool calls that your agent hands over, keeps every result, and stops before what is risky: then it asks you, here.")
	if !small {
		y++
	}
	say(paint.Style{Role: paint.Muted}, "To begin, j and k choose, enter does it:")
	if !small {
		y++
	}
	for i, s := range stepsOf(e) {
		row := in.Sub(0, y, in.W, 2)
		row.Put(2, 0, paint.Style{Role: paint.Accent}.Bold(), s.command)
		x := 24
		switch {
		case small:
		case in.W < 96:
			x = 4
			row.Text(x, 1, row.W-x, paint.Style{Role: paint.Muted}, s.what)
			y++
		default:
			row.Text(x, 0, row.W-x, paint.Style{}, s.what)
		}
		if i == p.cursor {
			widget.DrawCursor(row, 0, focus)
		}
		y++
	}
	y++
	say(paint.Style{Role: paint.Muted}, "Then ask your agent to use pml, or run a file: pml run FILE. What it does appears here by itself. "+keyOf(e, keys.Palette)+" takes any command, such as servers add.")
}
