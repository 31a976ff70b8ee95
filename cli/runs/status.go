package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// lately is how long ago what failed and what agents decided is still told.
const lately = 24 * time.Hour

// statusRows is how many rows of each kind one screen has; JSON has more.
const (
	statusRows  = 8
	statusLimit = 100
	statusAudit = 1000 // rows of the audit log that are looked through
)

// status is what pml status tells.
type status struct {
	Waiting     []core.Approval `json:"waiting"` // also what has expired and is asked again by a decision
	Running     []core.Run      `json:"running"`
	Interrupted []core.Run      `json:"interrupted"`
	Failed      []core.Run      `json:"failed"` // within a day
	Decides     decides         `json:"decides"`
	Warnings    []string        `json:"warnings,omitempty"`
}

// decides is who may decide in this workspace.
type decides struct {
	Decider   string `json:"decider"`
	Chosen    bool   `json:"chosen"` // by somebody, in a file
	AgentMay  string `json:"agent_may,omitempty"`
	ByAgents  int    `json:"by_agents"` // decisions within a day
	Workspace string `json:"workspace"`
}

// StatusCmd is pml status.
func StatusCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "What waits, what runs, what failed, and who decides",
		Long: `Shows on one screen what waits for a decision, what runs or was interrupted,
what failed within a day, and who may decide in this workspace. "pml" alone
shows it on a terminal when something waits.`,
		Example: "  pml status\n  pml status --json | jq '.waiting | length'",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			s, err := statusOf(ctx, a, b)
			if err != nil {
				return err
			}
			return printStatus(a, s)
		}),
	}
}

// StatusIfWaiting prints the status where something waits for a person, and reports
// whether it did. It starts no server, and says nothing of what goes wrong.
func StatusIfWaiting(ctx context.Context, a *app.App) bool {
	b, err := a.PassiveBackend(ctx)
	if err != nil {
		return false
	}
	s, err := statusOf(ctx, a, b)
	if err != nil || len(s.Waiting) == 0 {
		return false
	}
	return printStatus(a, s) == nil
}

func statusOf(ctx context.Context, a *app.App, b app.Backend) (s status, err error) {
	if s.Waiting, err = openNow(ctx, a, b); err != nil {
		return s, err
	}
	since := a.Now().Add(-lately)
	for _, of := range []struct {
		state core.RunState
		into  *[]core.Run
		keep  func(core.Run) bool
	}{
		{core.RunRunning, &s.Running, nil},
		{core.RunInterrupted, &s.Interrupted, nil},
		{core.RunFailed, &s.Failed, func(r core.Run) bool { return r.UpdatedAt.After(since) }},
	} {
		page, err := b.Workflows(ctx, []core.RunState{of.state}, statusLimit, "")
		if err != nil {
			return s, err
		}
		*of.into = slices.DeleteFunc(slices.Clone(page.Items), func(r core.Run) bool { return of.keep != nil && !of.keep(r) })
		for _, w := range page.Warnings {
			if !slices.Contains(s.Warnings, w) {
				s.Warnings = append(s.Warnings, w)
			}
		}
	}
	s.Decides, err = decidesOf(ctx, b, since)
	return s, err
}

// decidesOf reads who may decide here out of the configuration, and what agents have
// decided out of the audit log.
func decidesOf(ctx context.Context, b app.Backend, since time.Time) (d decides, err error) {
	raw, err := b.Config(ctx)
	if err != nil {
		return d, err
	}
	var cfg struct {
		Approvals struct {
			Decider string `json:"decider"`
			From    string `json:"decider_from"`
			Agent   string `json:"agent_may"`
		} `json:"approvals"`
		Paths struct {
			Workspace string `json:"workspace"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return d, core.Errorf(core.CodeInternal, "the configuration cannot be read: %w", err)
	}
	d = decides{Decider: cfg.Approvals.Decider, Chosen: cfg.Approvals.From != "default", AgentMay: cfg.Approvals.Agent, Workspace: cfg.Paths.Workspace}
	if d.Decider == deciderHuman {
		d.AgentMay = ""
	}
	q := api.AuditQuery{Newest: true, Limit: statusAudit}
	q.From = since
	rows, err := b.Audit(ctx, q)
	for _, r := range rows {
		if r.By.Via == core.ViaMCP && (r.Outcome == core.ApprovalApproved || r.Outcome == core.ApprovalDenied) {
			d.ByAgents++
		}
	}
	return d, err
}

// deciderHuman is approvals.decider where only people decide.
const deciderHuman = "human"

func printStatus(a *app.App, s status) error {
	for _, w := range s.Warnings {
		if a.Human() {
			a.Say("warning: %s", core.Visible(w, 2000, false))
		}
	}
	return a.Print(s, func(w *strings.Builder) {
		v := statusView{a: a, w: w}
		v.waiting(s.Waiting)
		v.runs("running", "", s.Running, false)
		v.runs("interrupted", "pml continue ID goes on", s.Interrupted, false)
		v.runs("failed", "in the last day; pml retry ID runs again what failed", s.Failed, true)
		v.decides(s.Decides)
	})
}

// statusView writes a status for a person.
type statusView struct {
	a *app.App
	w *strings.Builder
}

func (v statusView) head(word string, n int, note string) {
	style := layout.StyleOf(word)
	if n > 0 {
		word = fmt.Sprintf("%s (%d)", word, n)
	}
	v.w.WriteString(v.a.Paint(style, word))
	if note != "" {
		v.w.WriteString("  " + v.a.Paint(layout.Dim, note))
	}
	v.w.WriteByte('\n')
}

// rows writes as many as fit on one screen, and says how to see the others.
func (v statusView) rows(rows [][]layout.Cell, more string) {
	n := len(rows)
	v.w.WriteString(layout.AlignCells(rows[:min(n, statusRows)], v.a.LineLimit(), v.a.Colour()))
	if n > statusRows {
		fmt.Fprintf(v.w, "  %d more: %s\n", n-statusRows, more)
	}
}

func (v statusView) waiting(list []core.Approval) {
	if len(list) == 0 {
		v.w.WriteString("nothing waits for a decision\n")
		return
	}
	v.head("waiting", len(list), "pml approve shows them one after another and asks")
	var rows [][]layout.Cell
	for _, p := range list {
		rows = append(rows, []layout.Cell{
			{Text: "  " + p.ID.Short(), Style: layout.Ident}, {Text: string(p.Risk), Style: layout.StyleOf(string(p.Risk))},
			{Text: core.OneLine(whatOf(p), 60)}, {Text: core.OneLine(runOf(p), 40)}, {Text: layout.Left(v.a.Now(), p.ExpiresAt), Style: layout.Dim},
		})
	}
	v.rows(rows, "pml approvals ls")
}

// whatOf is an approval in a few words: the call with the argument that says most.
func whatOf(p core.Approval) string {
	var c struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if p.Type == core.ApproveTool && json.Unmarshal(p.Context, &c) == nil && len(c.Arguments) > 0 {
		return core.CallName(p.Tool, c.Arguments)
	}
	return strings.TrimSpace(strings.ReplaceAll(string(p.Type), "_", " ") + " " + p.Tool)
}

// runOf is the run that asks, by its name.
func runOf(p core.Approval) string {
	if p.RunName == "" {
		return "run " + p.RunID.Short()
	}
	return p.RunName
}

func (v statusView) runs(word, note string, list []core.Run, failed bool) {
	if len(list) == 0 {
		return
	}
	v.head(word, len(list), note)
	var rows [][]layout.Cell
	for _, r := range list {
		row := []layout.Cell{
			{Text: "  " + r.ID.Short(), Style: layout.Ident}, {Text: core.OneLine(r.Title(), 40)},
			{Text: layout.Ago(v.a.Now(), r.UpdatedAt), Style: layout.Dim}, {Text: core.Visible(r.RequestedBy.Label(), 40, false), Style: layout.Dim},
		}
		if failed && r.Error != nil {
			row = append(row, layout.Cell{Text: core.OneLine(r.Error.Message, 200)})
		}
		rows = append(rows, row)
	}
	v.rows(rows, "pml workflows ls --state "+word)
}

func (v statusView) decides(d decides) {
	v.head("who decides", 0, core.Visible(d.Workspace, 200, false))
	switch {
	case d.Decider == deciderHuman:
		v.w.WriteString("  only people (approvals.decider is human)\n")
	case d.AgentMay == "high":
		v.w.WriteString("  agents as well, also what is of high risk (approvals.agent_may is high)\n")
	default:
		v.w.WriteString("  agents as well, but not what is of high risk (approvals.decider is " + core.Visible(d.Decider, 20, false) + ")\n")
	}
	if !d.Chosen {
		v.w.WriteString(v.a.Paint(layout.Warn, "  nobody has chosen that: pml init asks, and writes approvals.decider") + "\n")
	}
	if d.ByAgents > 0 {
		fmt.Fprintf(v.w, "  agents have made %s in the last day: pml audit ls --by agent\n", layout.Plural(d.ByAgents, "decision"))
	}
}
