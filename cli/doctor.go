package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func doctorCmd(a *app.App) *cobra.Command {
	applyLog := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and this workspace",
		Long: `Checks what pml needs: its folder, the database, Node, the configuration, servers and keys. A check that fails ends with exit code 1:
also a configured server that was tried and does not work. A warning (warn) does not: a server that is not trusted or not installed yet, or needs a key.

--apply-log checks nothing: it brings the redo log that an older pml has left beside pending.db or server.db into that file and removes the log.
pml asks for it when it finds such a log; end all other pml processes first.`,
		Example: "  pml doctor\n  pml doctor --json",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if applyLog {
				return applyLogs(cmd.Context(), a)
			}
			return doctor(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&applyLog, "apply-log", false, "apply the redo log that an older pml has left")
	return cmd
}

func doctor(ctx context.Context, a *app.App) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	checks, err := b.Doctor(ctx)
	if err != nil {
		return err
	}
	failed := false
	for _, c := range checks {
		failed = failed || c.Status == "fail"
	}
	if a.Human() {
		err = a.Write(doctorText(a, checks))
	} else {
		err = app.PrintList(a, api.Page[api.Check]{Items: checks}, "", nil)
	}
	if err == nil && failed {
		return app.ExitStatus(app.ExitFailed)
	}
	return err
}

func doctorText(a *app.App, checks []api.Check) string {
	var rows [][]layout.Cell
	left := 0 // columns in front of a detail
	for _, c := range checks {
		name := core.Visible(c.Name, 0, false)
		left = max(left, layout.Width(name))
		rows = append(rows, []layout.Cell{{Text: c.Status, Style: layout.StyleOf(c.Status)}, {Text: name}, {Text: core.Visible(c.Detail, 0, false)}})
	}
	var folded [][]layout.Cell
	for _, r := range rows {
		for i, line := range layout.Wrap(r[2].Text, max(a.LineLimit()-left-8, 0)) {
			if i > 0 {
				r = []layout.Cell{{}, {}, {}}
			}
			r[2].Text = line
			folded = append(folded, r)
		}
	}
	var b strings.Builder
	b.WriteString(layout.AlignCells(folded, 0, a.Colour()))
	said := map[string]bool{}
	for _, c := range checks {
		if next := layout.ShellJoin(c.Next); next != "" && c.Status != "ok" && !said[next] {
			said[next] = true
			b.WriteString("next: " + a.Paint(layout.Ident, next) + "\n")
		}
	}
	return b.String()
}
