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
	applyLog, o := false, app.EngineOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and this workspace",
		Long: `Checks what pml needs: its folder, the database, Node, the configuration, servers and keys. A check that fails ends with exit code 1:
also a configured server that was tried and does not work. A warning (warn) does not: a server that is not trusted or not installed yet, or needs a key.

--apply-log checks nothing: it brings the redo log that an older pml has left beside pending.db or server.db into that file and removes the log.
pml asks for it when it finds such a log; end all other pml processes first.

--engine checks Temporal and nothing else: the server, the namespace, its retention and search attributes, the clock, the blobs
and the keys. It changes nothing there that stays; with --prepare it first begins the namespace and adds the search attributes
where they are missing, which one person does, once. The address is that of pml serve --engine.`,
		Example: `  pml doctor
  pml doctor --json
  pml doctor --engine temporal://127.0.0.1:7233/default --prepare`,
		Args: app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := app.NotEmpty(cmd, "engine"); err != nil {
				return err
			}
			switch {
			case o.Prepare && o.Address == "":
				return app.Usagef("--prepare is for what --engine names")
			case applyLog && o.Address != "":
				return app.Usagef("--apply-log is for this machine's database: it has no meaning beside --engine")
			case o.Address != "":
				return engineDoctor(cmd.Context(), a, o)
			}
			if applyLog {
				return applyLogs(cmd.Context(), a)
			}
			return doctor(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&applyLog, "apply-log", false, "apply the redo log that an older pml has left")
	cmd.Flags().StringVar(&o.Address, "engine", "", "check Temporal at temporal://HOST:PORT/NAMESPACE, and nothing else")
	cmd.Flags().BoolVar(&o.Prepare, "prepare", false, "make what Temporal lacks: the namespace, the search attributes")
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.NoFileCompletions)
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
	return findings(a, checks)
}

// engineDoctor checks what servers keep their runs in.
func engineDoctor(ctx context.Context, a *app.App, o app.EngineOptions) error {
	if a.Engine == nil {
		return app.Usagef("this build of pml has no server")
	}
	o.Home = a.Flags.Home
	o.Log, _ = a.Environ("PML_LOG")
	checks, err := a.Engine(ctx, o)
	if err != nil {
		return err
	}
	return findings(a, checks)
}

// findings prints checks; one that fails is the exit code.
func findings(a *app.App, checks []api.Check) (err error) {
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
