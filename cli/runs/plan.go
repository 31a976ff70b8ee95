package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
)

// PlanCmd is pml plan.
func PlanCmd(a *app.App) *cobra.Command {
	var s program.Source
	cmd := &cobra.Command{
		Use:   "plan [FILE|-]",
		Short: "Show what a program would do; run nothing",
		Long: `Shows the calls that a script or a DAG would make: layers, tools, what each
call waits for, the gates it meets now, and what cannot be known before running.

A program that "pml run" refuses before it begins is refused here with the same
error and exit code: a DAG with faults (13), among them a reference that cannot
be what the tool returns or the argument takes, and a script that is sure to
call a tool that does not exist (3). What may be wrong all the same is a warning.`,
		Example:           "  pml plan script.ts\n  pml plan flow.yaml --json",
		Args:              app.MaxArgs(1),
		ValidArgsFunction: programFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.File = args[0]
			}
			s.CodeSet = cmd.Flags().Changed("code")
			return plan(cmd.Context(), a, s)
		},
	}
	cmd.Flags().StringVar(&s.Code, "code", "", "plan this code")
	return cmd
}

func plan(ctx context.Context, a *app.App, s program.Source) error {
	if err := s.Check("plan"); err != nil {
		return err
	}
	p, err := program.Read(ctx, a, s)
	if err != nil {
		return err
	}
	a.File = p.File
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	req, err := p.Request(b, nil)
	if err != nil {
		return err
	}
	req.By = a.Actor()
	plan, err := b.Plan(ctx, req)
	if err != nil {
		return p.Locate(err)
	}
	return a.Print(plan, func(w *strings.Builder) { writePlan(w, plan) })
}

func writePlan(w *strings.Builder, p core.Plan) {
	calls := map[string]core.PlanCall{}
	for _, c := range p.Calls {
		calls[c.ID] = c
	}
	before := map[string][]string{}
	for _, e := range p.Edges {
		before[e.To] = append(before[e.To], e.From+" ("+string(e.Kind)+")")
	}
	if len(p.Calls) == 0 {
		w.WriteString("calls no tools\n")
	}
	for i, ids := range p.Layers {
		fmt.Fprintf(w, "layer %d\n", i+1)
		rows := make([][]string, 0, len(ids))
		for _, id := range ids {
			rows = append(rows, planRow(calls[id], before[id]))
		}
		w.WriteString(layout.Align(rows, 0))
	}
	if len(p.Tools) > 0 {
		fmt.Fprintf(w, "tools: %s\n", core.Visible(strings.Join(p.Tools, ", "), 0, false))
	}
	writeNotes(w, "not known", p.Unknown)
	writeNotes(w, "warning", p.Warnings)
}

func planRow(c core.PlanCall, before []string) []string {
	var about []string
	if len(before) > 0 {
		about = append(about, "after "+strings.Join(before, ", "))
	}
	if c.Conditional {
		about = append(about, "perhaps")
	}
	if c.Repeated {
		about = append(about, "any number of times")
	}
	for _, g := range c.Gates {
		word := string(g.Type)
		if word == "" {
			word = "denied"
		}
		about = append(about, "gate "+word+": "+g.Message)
	}
	at := ""
	if c.At.Line > 0 {
		at = fmt.Sprintf("%d:%d", c.At.Line, c.At.Column)
	}
	row := []string{"  " + c.ID, c.Tool, at, strings.Join(about, "; ")}
	for i := range row {
		row[i] = core.Visible(row[i], 0, false)
	}
	return row
}

func writeNotes(w *strings.Builder, word string, notes []core.PlanNote) {
	for _, n := range notes {
		at := ""
		if n.At.Line > 0 {
			at = fmt.Sprintf(" %d:%d", n.At.Line, n.At.Column)
		}
		fmt.Fprintf(w, "%s%s: %s\n", word, at, core.Visible(n.Message, 0, false))
	}
}
