package app

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// errorBody is an error in JSON output, under the key "error".
type errorBody struct {
	Code       core.Code       `json:"code"`
	Message    string          `json:"message"`
	Exit       int             `json:"exit"`
	Next       []string        `json:"next,omitempty"`
	NextIn     string          `json:"next_in,omitempty"` // the folder where next is to be run
	Faults     []core.Fault    `json:"faults,omitempty"`
	Failures   []core.Failure  `json:"failures,omitempty"`
	Warnings   []core.PlanNote `json:"warnings,omitempty"`
	Location   *core.Position  `json:"location,omitempty"`
	WorkflowID core.ID         `json:"workflow_id,omitempty"`
	Decided    *core.DecidedBy `json:"decided_by,omitempty"`
	Stack      string          `json:"stack,omitempty"`
}

// printError writes an error to stderr, in the format of the output.
func (a *App) printError(e *core.Error, exit int) {
	next := e.Next
	if len(next) == 0 {
		next = defaultNext(a, e)
	}
	if a.AsJSON() {
		a.printErrorJSON(e, exit, next)
		return
	}
	var b strings.Builder
	const head = "error:"
	text := a.folded(head + " " + core.Visible(strings.TrimRight(e.Message, "\n"), 8000, true))
	fmt.Fprintf(&b, "%s%s\n", a.PaintErr(layout.Bad, head), strings.TrimPrefix(text, head))
	if e.Location != nil && len(e.Faults) == 0 {
		at := core.Fault{File: a.File, At: e.Location}.String()
		b.WriteString(Below(a, "at "+core.Visible(strings.TrimSuffix(at, ": "), 0, false)))
	}
	for _, f := range e.Faults {
		text := f.String()
		if strings.Contains(e.Message, f.Message) {
			// It was said above; only the place is new.
			text = "at " + strings.TrimSuffix(text, ": "+f.Message)
			if text == "at "+f.Message {
				continue
			}
		}
		b.WriteString(Below(a, core.Visible(text, 0, false)))
	}
	if len(e.Failures) != 1 || !strings.Contains(e.Message, e.Failures[0].Error) { // else it was said above
		for _, text := range failures(e.Failures) {
			b.WriteString(Below(a, text))
		}
	}
	for _, n := range e.Warnings {
		b.WriteString(Below(a, "warning: "+core.Visible(n.Message, 0, false)))
	}
	if e.Stack != "" {
		last := ""
		for line := range strings.Lines(core.Visible(strings.TrimRight(e.Stack, "\n"), 4000, true)) {
			// A recursion without end has the same line over and over.
			if line = strings.TrimSpace(line); line != last {
				fmt.Fprintf(&b, "  %s\n", line)
			}
			last = line
		}
	}
	if len(next) > 0 {
		fmt.Fprintf(&b, "next: %s\n", a.PaintErr(layout.Ident, nextText(a, next)))
	}
	io.WriteString(a.Stderr, b.String())
}

// nextText is the command that comes next as a person types it, with the way to its folder.
func nextText(a *App, argv []string) string {
	argv = shortIDs(argv)
	if a.NextIn == "" {
		return layout.ShellJoin(argv)
	}
	return layout.ShellJoin([]string{"cd", a.NextIn}) + " && " + layout.ShellJoin(argv)
}

var wholeID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// shortIDs is a command of pml's with the short ids that people read everywhere else. What stands
// behind -- is another program's.
func shortIDs(argv []string) []string {
	out := slices.Clone(argv)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if wholeID.MatchString(arg) {
			out[i] = core.ID(arg).Short()
		}
	}
	return out
}

// maxFailures is how many different failures of calls an error lists.
const maxFailures = 20

// failures are the lines about calls that failed: one for all that failed with the same
// words, so that a loop that is refused 10,000 times is told in one.
func failures(list []core.Failure) []string {
	type same struct{ tool, text string }
	ids := map[same][]string{}
	var order []same
	for _, f := range list {
		k := same{f.Tool, f.Error}
		if ids[k] == nil {
			order = append(order, k)
		}
		ids[k] = append(ids[k], f.TaskID)
	}
	var lines []string
	for _, k := range order[:min(len(order), maxFailures)] {
		which := strings.Join(ids[k], ", ")
		if n := len(ids[k]); n > 3 {
			which = fmt.Sprintf("%s … %s, %d calls", ids[k][0], ids[k][n-1], n)
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", core.Visible(which, 0, false), core.Visible(k.tool, 0, false), core.Visible(layout.Joined(k.text), 2000, false)))
	}
	if more := len(order) - maxFailures; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d other failures; pml workflows show lists them all", more))
	}
	return lines
}

func (a *App) printErrorJSON(e *core.Error, exit int, next []string) {
	raw, err := json.Marshal(map[string]errorBody{"error": {
		Code: e.Code, Message: e.Message, Exit: exit, Next: next, NextIn: a.NextIn, Faults: e.Faults, Failures: e.Failures, Warnings: e.Warnings,
		Location: e.Location, WorkflowID: e.RunID, Decided: e.Decided, Stack: e.Stack,
	}})
	if err != nil {
		raw = []byte(`{"error":{"code":"internal","message":"an error that cannot be encoded","exit":1}}`)
	}
	fmt.Fprintf(a.Stderr, "%s\n", raw)
}

// defaultNext is the command that helps with an error that names none itself.
func defaultNext(a *App, e *core.Error) []string {
	switch e.Code {
	case core.CodeNotFound:
		return []string{"pml", "workflows", "ls"}
	case core.CodeNoSuchTool:
		return []string{"pml", "tools", "ls"}
	case core.CodeNotTrusted:
		return []string{"pml", "trust"}
	case core.CodeApprovalExpired:
		if e.RunID != "" {
			return []string{"pml", "continue", e.RunID.Short()}
		}
		return []string{"pml", "approvals", "ls"}
	case core.CodeAwaitingHuman:
		return []string{"pml", "approvals", "ls"}
	case core.CodeStoreFailed, core.CodeStoreBusy:
		if e.RunID != "" { // nothing is lost: it goes on once the cause is mended
			return []string{"pml", "continue", e.RunID.Short()}
		}
		return []string{"pml", "doctor"}
	case core.CodeStoreNewer, core.CodeStoreKey, core.CodeInternal:
		return []string{"pml", "doctor"}
	case core.CodeUsage:
		if len(a.command) == 0 {
			return []string{"pml", "--help"}
		}
		return append(slices.Clone(a.command), "--help")
	default:
	}
	if e.RunID != "" {
		return []string{"pml", "workflows", "show", e.RunID.Short()}
	}
	return nil
}
