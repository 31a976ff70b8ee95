package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// statsPage is how many runs are read at once.
const statsPage = 200

// stats is what pml stats tells. All of it is of runs that began since a time.
type stats struct {
	Since      time.Time  `json:"since"`
	Total      statsRow   `json:"total"`
	Days       []statsRow `json:"days"`   // newest first, in UTC
	Models     []statsRow `json:"models"` // of agents only
	Workspaces []statsRow `json:"workspaces"`
	Warnings   []string   `json:"warnings,omitempty"`
}

// statsRow counts runs, and what they have used. The runs that an agent has started count
// as the agent's calls, not as runs.
type statsRow struct {
	Name   string `json:"name,omitempty"`
	Runs   int    `json:"runs"`
	Agents int    `json:"agents"`
	Calls  int    `json:"calls"` // of tools
	Input  int    `json:"input_tokens"`
	Output int    `json:"output_tokens"`
	// USD is what is known of the cost; Unknown counts the agents that have cost more, or
	// something, of which nobody knows how much.
	USD     float64 `json:"usd"`
	Unknown int     `json:"unknown_cost"`
}

func (s *statsRow) add(r core.Run, calls int) {
	s.Runs++
	s.Calls += calls
	if r.Agent == nil {
		return
	}
	u := r.Agent.Usage
	s.Agents++
	s.Input += u.Input + u.CacheRead + u.CacheWrite
	s.Output += u.Output
	if u.USD != nil {
		s.USD += *u.USD
	}
	if u.USD == nil && r.Agent.Iterations > 0 || u.LostAttempts > 0 || u.Unreported > 0 {
		s.Unknown++
	}
}

// cost is the money as people read it: what nobody knows is never 0.
func (s statsRow) cost() string {
	switch {
	case s.Agents == 0:
		return "-"
	case s.USD == 0 && s.Unknown > 0:
		return "unknown"
	}
	return core.CostText(s.USD, s.Unknown > 0)
}

// StatsCmd is pml stats.
func StatsCmd(a *app.App) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Runs, calls, tokens and money by day, model and workspace",
		Long: `Counts the runs that began since a time, their tool calls (also those that were
denied or failed), and the tokens and the money that agents have used: in all,
by day (UTC), by model and by workspace. Runs of this machine and of its server
count. A cost that nobody knows is never 0: it is "unknown", or "or more" behind
what is known.`,
		Example: "  pml stats\n  pml stats --since 30d --json | jq .total.usd",
		Args:    app.MaxArgs(0),
	}
	cmd.Flags().StringVar(&since, "since", "7d", "a time, or how long ago: 36h, 7d")
	cmd.RunE = a.With(func(ctx context.Context, b app.Backend, _ []string) error {
		from, err := a.ParseSince("since", since)
		if err != nil {
			return err
		}
		s, err := statsOf(ctx, b, from)
		if err != nil {
			return err
		}
		for _, w := range s.Warnings {
			if a.Human() {
				a.Say("warning: %s", core.Visible(w, 2000, false))
			}
		}
		return a.Print(s, func(w *strings.Builder) { writeStats(a, w, s) })
	})
	return cmd
}

func statsOf(ctx context.Context, b api.Workflows, since time.Time) (stats, error) {
	s := stats{Since: since.UTC(), Days: []statsRow{}, Models: []statsRow{}, Workspaces: []statsRow{}}
	days, models, workspaces := map[string]*statsRow{}, map[string]*statsRow{}, map[string]*statsRow{}
	cursor := ""
	for {
		page, err := b.Workflows(ctx, nil, statsPage, cursor)
		if err != nil {
			return s, err
		}
		for _, w := range page.Warnings {
			if !slices.Contains(s.Warnings, w) {
				s.Warnings = append(s.Warnings, w)
			}
		}
		old := false
		for _, r := range page.Items {
			if old = r.CreatedAt.Before(since); old {
				break // they come newest first
			}
			calls, err := callsOf(ctx, b, r)
			if err != nil {
				return s, err
			}
			s.Total.add(r, calls)
			named(days, r.CreatedAt.UTC().Format(time.DateOnly)).add(r, calls)
			named(workspaces, r.Workspace).add(r, calls)
			if r.Agent != nil {
				named(models, r.Agent.Model).add(r, calls)
			}
		}
		if old || page.Next == "" || page.Next == cursor {
			break
		}
		cursor = page.Next
	}
	s.Days = sortedStats(days, func(a, b statsRow) int { return strings.Compare(b.Name, a.Name) })
	byUse := func(a, b statsRow) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Runs, a.Runs), strings.Compare(a.Name, b.Name))
	}
	s.Models, s.Workspaces = sortedStats(models, byUse), sortedStats(workspaces, byUse)
	return s, nil
}

// callsOf counts the tool calls of a run that have their outcome. A run that was removed
// meanwhile has none.
func callsOf(ctx context.Context, b api.Workflows, r core.Run) (int, error) {
	if r.Agent != nil {
		return r.Agent.Calls, nil
	}
	w, err := b.Workflow(ctx, r.ID)
	if core.CodeOf(err) == core.CodeNotFound {
		return 0, nil
	}
	n := 0
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			if t.State.Settled() && t.State != core.TaskSkipped && !strings.HasPrefix(t.Tool, "pml:") {
				n++
			}
		}
	}
	return n, err
}

func named(rows map[string]*statsRow, name string) *statsRow {
	if rows[name] == nil {
		rows[name] = &statsRow{Name: name}
	}
	return rows[name]
}

func sortedStats(rows map[string]*statsRow, compare func(a, b statsRow) int) []statsRow {
	out := make([]statsRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, compare)
	return out
}

func writeStats(a *app.App, w *strings.Builder, s stats) {
	fmt.Fprintf(w, "since %s\n", layout.Stamp(s.Since))
	total := s.Total
	total.Name = "all"
	for _, part := range []struct {
		title string
		rows  []statsRow
	}{{"", []statsRow{total}}, {"DAY", s.Days}, {"MODEL", s.Models}, {"WORKSPACE", s.Workspaces}} {
		if len(part.rows) == 0 {
			continue
		}
		var rows [][]layout.Cell
		head := []string{part.title, "RUNS", "AGENTS", "CALLS", "READ", "WRITTEN", "COST"}
		rows = append(rows, cellsOf(layout.Bold, head...))
		for _, r := range part.rows {
			rows = append(rows, cellsOf(layout.Plain, core.Visible(r.Name, 200, false), strconv.Itoa(r.Runs), strconv.Itoa(r.Agents),
				strconv.Itoa(r.Calls), strconv.Itoa(r.Input), strconv.Itoa(r.Output), r.cost()))
		}
		w.WriteString("\n" + layout.AlignCells(rows, a.LineLimit(), a.Colour()))
	}
}

func cellsOf(style layout.Style, texts ...string) []layout.Cell {
	out := make([]layout.Cell, len(texts))
	for i, t := range texts {
		out[i] = layout.Cell{Text: t, Style: style}
	}
	return out
}
