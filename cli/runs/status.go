package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
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
	Halted      []core.Halt     `json:"halted,omitempty"`
	HaltedRuns  []core.Run      `json:"halted_runs,omitempty"` // that the halt has stopped
	Waiting     []core.Approval `json:"waiting"`               // also what has expired and is asked again by a decision
	Running     []core.Run      `json:"running"`
	Interrupted []core.Run      `json:"interrupted"`
	Failed      []core.Run      `json:"failed"` // within a day, and not done by a newer run since
	failedInAll int             // those of Failed and the others, at most statusLimit
	Decides     decides         `json:"decides"`
	// Connected are the hosts of agents that are connected to this machine.
	Connected []api.ConnectedHost `json:"connected"`
	// Silent are the carriers of messages about approvals that do not take them now.
	Silent   []api.NotifyCarrier `json:"silent,omitempty"`
	Warnings []string            `json:"warnings,omitempty"`
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
what failed within a day and no newer run of the same name has completed, and who
may decide in this workspace. It is about all workspaces: a row of another one than
this says which. "pml" alone shows it on a terminal when something waits.`,
		Example: "  pml status\n  pml status --json | jq '.waiting | length'",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			s, err := statusOf(ctx, a, b)
			if err != nil {
				return err
			}
			app.NoteTrust(ctx, a, b)
			return printStatus(a, s, whole)
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
	if err != nil || len(s.Waiting)+len(s.Halted) == 0 {
		return false
	}
	return printStatus(a, s, brief) == nil
}

func statusOf(ctx context.Context, a *app.App, b app.Backend) (s status, err error) {
	if s.Waiting, err = openNow(ctx, a, b); err != nil {
		return s, err
	}
	if s.Halted, err = b.Halts(ctx); err != nil {
		return s, err
	}
	since := a.Now().Add(-lately)
	if len(s.Halted) > 0 {
		page, err := b.Workflows(ctx, []core.RunState{core.RunWaiting}, statusLimit, "")
		if err != nil {
			return s, err
		}
		s.HaltedRuns = slices.DeleteFunc(slices.Clone(page.Items), func(r core.Run) bool { return r.Halted == nil })
	}
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
		if of.state == core.RunFailed {
			s.failedInAll = len(page.Items)
		}
		*of.into = slices.DeleteFunc(slices.Clone(page.Items), func(r core.Run) bool { return of.keep != nil && !of.keep(r) })
		for _, w := range page.Warnings {
			if !slices.Contains(s.Warnings, w) {
				s.Warnings = append(s.Warnings, w)
			}
		}
	}
	if s.Failed, err = notDoneSince(ctx, b, s.Failed); err != nil {
		return s, err
	}
	if s.Connected, err = b.ConnectedHosts(ctx); err != nil {
		return s, err
	}
	carriers, err := b.NotifyCarriers(ctx)
	if err != nil {
		return s, err
	}
	s.Silent = slices.DeleteFunc(carriers, func(c api.NotifyCarrier) bool { return c.State == api.NotifyReady })
	s.Decides, err = decidesOf(ctx, b, since)
	return s, err
}

// notDoneSince leaves out of what failed what a newer run of the same name, in the same
// workspace, has completed.
func notDoneSince(ctx context.Context, b app.Backend, failed []core.Run) ([]core.Run, error) {
	if len(failed) == 0 {
		return failed, nil
	}
	done, err := b.Workflows(ctx, []core.RunState{core.RunComplete}, statusLimit, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(failed, func(r core.Run) bool {
		return r.Name != "" && slices.ContainsFunc(done.Items, func(d core.Run) bool {
			return d.Name == r.Name && d.Workspace == r.Workspace && d.Owner == r.Owner && d.CreatedAt.After(r.CreatedAt)
		})
	}), nil
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

// detail is how much of a status is shown.
type detail int

const (
	whole detail = iota // pml status
	brief               // "pml" alone: what fits on the smallest usual terminal, 24 lines
)

func printStatus(a *app.App, s status, d detail) error {
	for _, w := range s.Warnings {
		if a.Human() {
			a.Say("warning: %s", core.Visible(w, 2000, false))
		}
	}
	return a.Print(s, func(w *strings.Builder) {
		v := statusView{a: a, w: w, brief: d == brief, here: s.Decides.Workspace}
		v.halted(s.Halted)
		v.waiting(s.Waiting)
		v.runs("halted", "pml resume, then pml continue ID goes on", s.HaltedRuns, false)
		v.runs("running", "", s.Running, false)
		v.runs("interrupted", "pml continue ID goes on", s.Interrupted, false)
		v.runs("failed", "in the last day"+ofAllFailed(s)+failedNext(s.Failed), s.Failed, true)
		if d == whole {
			v.connected(s.Connected)
			v.silent(s.Silent)
		}
		v.decides(s.Decides)
	})
}

// statusView writes a status for a person.
type statusView struct {
	a     *app.App
	w     *strings.Builder
	brief bool
	here  string // the workspace that it is shown in
}

// in names the workspace of a row that is not of this one.
func (v statusView) in(workspace string) layout.Cell {
	if workspace == "" || workspace == v.here {
		return layout.Cell{}
	}
	return layout.Cell{Text: "in " + core.OneLine(filepath.Base(workspace), 24)}
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

// rows writes as many as fit on one screen, and says how to see the others. Of what
// waits "pml" alone shows the most.
func (v statusView) rows(rows [][]layout.Cell, few int, more string) {
	n, most := len(rows), statusRows
	if v.brief && n > few {
		most = few - 1 // and the line that says how many more
	}
	v.w.WriteString(layout.AlignCells(rows[:min(n, most)], v.a.LineLimit(), v.a.Colour()))
	if n > most {
		fmt.Fprintf(v.w, "  %d more: %s\n", n-most, more)
	}
}

func (v statusView) halted(list []core.Halt) {
	if len(list) == 0 {
		return
	}
	v.w.WriteString(v.a.Paint(layout.Bad, "ALL CALLS ARE HALTED") + "  " + v.a.Paint(layout.Dim, "pml resume lets them go on") + "\n")
	writeHalts(v.w, list, "  ")
}

func (v statusView) waiting(list []core.Approval) {
	if len(list) == 0 {
		v.w.WriteString("nothing waits for a decision\n")
		return
	}
	v.head("waiting", len(list), "pml approve shows them one after another and asks")
	var rows [][]layout.Cell
	for _, alike := range groupsOf(list) {
		p := alike[0]
		rows = append(rows, []layout.Cell{
			{Text: "  " + p.ID.Short(), Style: layout.Ident}, {Text: string(p.Risk), Style: layout.StyleOf(string(p.Risk))},
			{Text: core.OneLine(whatOfAll(alike), 60)}, {Text: core.OneLine(runOf(p), 40)}, {Text: leftText(v.a, p), Style: layout.Dim}, v.in(p.Workspace),
		})
	}
	v.rows(rows, 6, "pml approvals ls")
}

// groupsOf are approvals with those that are alike together, where the first of them
// stands.
func groupsOf(list []core.Approval) (groups [][]core.Approval) {
	at := map[approval.Kin]int{}
	for _, p := range list {
		kin, ok := approval.KinOf(p)
		if i, had := at[kin]; ok && had {
			groups[i] = append(groups[i], p)
			continue
		}
		if ok {
			at[kin] = len(groups)
		}
		groups = append(groups, []core.Approval{p})
	}
	return groups
}

// whatOfAll is what approvals that are alike ask for: how many, and what they have in
// common.
func whatOfAll(alike []core.Approval) string {
	if len(alike) == 1 {
		return whatOf(alike[0])
	}
	whats := make([]string, len(alike))
	for i, p := range alike {
		whats[i] = whatOf(p)
	}
	return fmt.Sprintf("%d × %s", len(alike), approval.Pattern(whats))
}

// whatOf is an approval in a few words: the call with the argument that says most.
func whatOf(p core.Approval) string {
	var c struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if (p.Type == core.ApproveTool || p.Type == core.ApproveHost) && json.Unmarshal(p.Context, &c) == nil && len(c.Arguments) > 0 {
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

// ofAllFailed says how many runs have failed in all, as pml tui counts them, where that is another
// number: a run that failed long ago, or that a newer one has completed, is no news.
func ofAllFailed(s status) string {
	switch {
	case s.failedInAll == len(s.Failed):
		return ""
	case s.failedInAll == statusLimit:
		return fmt.Sprintf(" and not done since, of %d or more in all", s.failedInAll)
	}
	return fmt.Sprintf(" and not done since, of %d in all", s.failedInAll)
}

// failedNext says how runs that failed are tried again: by their failed calls, or, where the fault
// is that of their program, as the program is by then.
func failedNext(list []core.Run) string {
	own := 0
	for _, r := range list {
		if r.FaultOfProgram() {
			own++
		}
	}
	switch own {
	case 0:
		return "; pml retry ID runs again what failed"
	case len(list):
		return "; mend the program and run it anew with pml run"
	}
	return "; pml retry ID runs failed calls again, pml run a program that was mended"
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
			{Text: "started " + layout.Ago(v.a.Now(), r.CreatedAt) + " ago", Style: layout.Dim}, {Text: core.Visible(r.RequestedBy.Label(), 40, false), Style: layout.Dim},
			v.in(r.Workspace),
		}
		if r.Agent != nil {
			row = append(row, layout.Cell{Text: r.Agent.Text()})
		}
		if failed && r.Error != nil {
			row = append(row, layout.Cell{Text: core.OneLine(core.ShownAbort(r.Error.Message), 200)})
		}
		rows = append(rows, row)
	}
	state := word
	if word == "halted" {
		state = string(core.RunWaiting) // as which a run waits for the end of a halt
	}
	v.rows(rows, 2, "pml workflows ls --state "+state)
}

// silent says which messages do not arrive.
func (v statusView) silent(list []api.NotifyCarrier) {
	if len(list) == 0 {
		return
	}
	v.head("not notified", len(list), "carriers that take no messages; pml notify test tries one")
	var rows [][]layout.Cell
	for _, c := range list {
		rows = append(rows, []layout.Cell{{Text: "  " + c.Name, Style: layout.Ident}, {Text: c.State, Style: layout.Bad}, {Text: core.OneLine(c.Error, 200)}})
	}
	v.rows(rows, statusRows, "pml notify ls")
}

func (v statusView) connected(list []api.ConnectedHost) {
	if len(list) == 0 {
		return
	}
	v.head("connected", len(list), "hosts of agents")
	var rows [][]layout.Cell
	for _, c := range list {
		rows = append(rows, []layout.Cell{
			{Text: "  " + core.OneLine(strings.TrimSpace(c.Client.Name+" "+c.Client.Version), 60)}, {Text: core.Visible(c.Workspace, 200, false)},
			{Text: fmt.Sprintf("%s, process %d", core.Visible(c.Transport, 10, false), c.PID), Style: layout.Dim}, {Text: "for " + layout.Ago(v.a.Now(), c.Since), Style: layout.Dim},
		})
	}
	v.rows(rows, statusRows, "pml status --json")
}

func (v statusView) decides(d decides) {
	v.head("who decides", 0, core.Visible(d.Workspace, 200, false))
	switch {
	case d.Decider == deciderHuman:
		v.w.WriteString("  only people (approvals.decider is human)\n")
	case d.AgentMay == "high":
		v.w.WriteString("  agents too, also what is of high risk (approvals.agent_may is high)\n")
	default:
		v.w.WriteString("  agents too, by MCP, but not what is of high risk (approvals.decider is " + core.Visible(d.Decider, 20, false) + ");\n" +
			"  a command without a terminal that names an ID counts as yours\n")
	}
	if !d.Chosen {
		v.w.WriteString(v.a.Paint(layout.Warn, "  nobody has chosen that: pml init asks, and writes approvals.decider") + "\n")
	}
	if d.ByAgents > 0 {
		fmt.Fprintf(v.w, "  agents have made %s in the last day: pml audit ls --by agent\n", layout.Plural(d.ByAgents, "decision"))
	}
}
