package runs

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// WorkflowsCmd is pml workflows.
func WorkflowsCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "workflows",
		Aliases: []string{"runs", "wf", "workflow"},
		Short:   "Runs: list, show, watch, result, logs",
		Long:    "Lists runs, shows one with its layers and tasks, follows it, prints its result and what it logged, and removes runs that ended.",
		Example: "  pml workflows ls --state waiting\n  pml wf show @latest\n  pml wf result 7f3a91c2",
	}, workflowsLsCmd(a), workflowsShowCmd(a), workflowsWatchCmd(a), workflowsResultCmd(a),
		workflowsLogsCmd(a), workflowsRmCmd(a), workflowsPruneCmd(a), workflowsExportCmd(a), workflowsImportCmd(a))
}

type listOptions struct {
	states []string
	limit  int
	cursor string
	// children lists the runs of agents below them.
	children bool
	// words are what each run shows that is listed; none: all are.
	words []string
}

func workflowsLsCmd(a *app.App) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "ls [WORD…]",
		Aliases: []string{"list"},
		Short:   "List runs, newest first",
		Long: `Lists runs, newest first. Words choose those that show each of them in their name,
id, state, folder, or in who started them. --state may be given several times or as a list.
The runs that an agent has started are not listed by themselves: --children lists them
below it.`,
		Example: "  pml workflows ls\n  pml workflows ls nightly failed\n  pml workflows ls --state waiting,interrupted -o wide\n  pml workflows ls --children",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.words = args
			return listWorkflows(cmd.Context(), a, o)
		},
	}
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "only runs in this state")
	cmd.Flags().IntVar(&o.limit, "limit", 50, "at most this many")
	cmd.Flags().BoolVar(&o.children, "children", false, "also the runs that agents have started, below each")
	cmd.Flags().StringVar(&o.cursor, "cursor", "", "go on after an earlier list (its \"next\")")
	_ = cmd.RegisterFlagCompletionFunc("state", app.CompleteFixed(stateNames()...))
	return cmd
}

func listWorkflows(ctx context.Context, a *app.App, o listOptions) error {
	var states []core.RunState
	for _, s := range o.states {
		if !slices.Contains(core.RunStates, core.RunState(s)) {
			return app.OneOf("state", s, stateNames()...)
		}
		states = append(states, core.RunState(s))
	}
	if o.limit <= 0 {
		return app.Usagef("--limit %d is not a number of runs", o.limit)
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	page, err := readRuns(ctx, b, o, states)
	if err != nil {
		return err
	}
	depth := map[core.ID]int{}
	if o.children {
		if page.Items, err = withChildren(ctx, b, page.Items, depth); err != nil {
			return err
		}
	}
	failed := map[core.ID]int{}
	if a.Human() {
		failed = failedLayers(ctx, b, page.Items)
	}
	columns := []app.Column[core.Run]{
		{Title: "NAME", Get: func(r core.Run) string { return strings.Repeat("  ", depth[r.ID]) + nameBelow(r, depth[r.ID]) }, Flex: true},
		{Title: "RUN", Get: func(r core.Run) string { return r.ID.Short() }, Style: app.Always[core.Run](layout.Ident)},
		{Title: "STATE", Get: stateOf, Style: func(r core.Run) layout.Style { return layout.StyleOf(string(r.State)) }},
		{Title: "LAYER", Drop: 3, Get: func(r core.Run) string { return layerOf(r, failed[r.ID]) }},
		{Title: costTitle, Drop: 4, Get: costOf},
		{Title: "AGE", Get: func(r core.Run) string { return layout.Ago(a.Now(), r.CreatedAt) }},
		{Title: "BY", Drop: 1, Get: func(r core.Run) string { return r.RequestedBy.Label() }},
		{Title: "WORKSPACE", Drop: 2, Get: func(r core.Run) string { return r.Workspace }},
		{Title: "CREATED", Wide: true, Get: func(r core.Run) string { return layout.Stamp(r.CreatedAt) }},
		{Title: "UPDATED", Wide: true, Get: func(r core.Run) string { return layout.Stamp(r.UpdatedAt) }},
		{Title: "KIND", Wide: true, Get: func(r core.Run) string { return string(r.Kind) }},
		{Title: "SIDE", Wide: true, Get: func(r core.Run) string { return string(r.Side) }},
	}
	if !slices.ContainsFunc(page.Items, func(r core.Run) bool { return r.Agent != nil }) {
		columns = slices.DeleteFunc(columns, func(c app.Column[core.Run]) bool { return c.Title == costTitle })
	}
	empty := "no runs"
	if len(o.words) > 0 {
		empty = "no run shows " + core.Visible(strings.Join(o.words, " and "), 80, false)
	}
	return app.PrintList(a, page, empty, columns)
}

func readRuns(ctx context.Context, b app.Backend, o listOptions, states []core.RunState) (api.Page[core.Run], error) {
	if len(o.words) > 0 {
		return runsLike(ctx, b, o, states)
	}
	return b.Workflows(ctx, states, o.limit, o.cursor)
}

// costTitle heads the column of what agents have cost; a list without agents has none.
const costTitle = "COST"

func stateNames() []string {
	names := make([]string, len(core.RunStates))
	for i, s := range core.RunStates {
		names[i] = string(s)
	}
	return names
}

// lookCmd is runCmd of a command that only looks: it takes the name of a run as well.
func lookCmd(a *app.App, c *cobra.Command, do func(ctx context.Context, b app.Backend, id core.ID) error) *cobra.Command {
	c = runCmd(a, c, do)
	c.Args = app.ExactArgs("ID or NAME")
	c.RunE = a.With(func(ctx context.Context, b app.Backend, args []string) error {
		id, err := findRun(ctx, a, b, args[0])
		if err != nil {
			return err
		}
		return do(ctx, b, id)
	})
	return c
}

// runCmd is a command about one run.
func runCmd(a *app.App, c *cobra.Command, do func(ctx context.Context, b app.Backend, id core.ID) error) *cobra.Command {
	c.Args = app.ExactArgs("ID")
	c.ValidArgsFunction = completeRuns(a)
	c.RunE = a.With(func(ctx context.Context, b app.Backend, args []string) error {
		id, err := resolveRun(ctx, a, b, args[0])
		if err != nil {
			return err
		}
		return do(ctx, b, id)
	})
	return c
}

func workflowsShowCmd(a *app.App) *cobra.Command {
	var args bool
	cmd := lookCmd(a, &cobra.Command{
		Use:   "show ID|NAME",
		Short: "Show a run with its layers, tasks and approvals",
		Long: `Shows a run: its state, every layer with its tasks, what waits and, when it
failed, why. The name of a run does for its ID where one run alone of this
workspace has it. Of a call it shows the argument that tells most; --args shows
all of them, whole, but for those of a call under way that only reads: they are
kept once it has answered, and are shown before where the script names them. A
call that was made anew has "2nd attempt" beside it. What the calls returned is
in --json.`,
		Example: "  pml workflows show @latest\n  pml workflows show nightly.ts --args\n  pml wf show 7f3a91c2 --json",
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		w, past, err := readWithPast(ctx, b, id)
		if err != nil {
			return err
		}
		var below map[core.ID]core.Workflow
		if a.Human() {
			if below, err = readBelow(ctx, b, w); err != nil {
				return err
			}
		}
		shown := shownRun{Workflow: w, below: below, args: args, past: past}
		if a.Human() && w.FaultOfProgram() {
			shown.file = fileOf(ctx, b, id)
		}
		return a.Print(w, func(out *strings.Builder) { shown.write(a, out) })
	})
	cmd.Flags().BoolVar(&args, "args", false, "show the arguments of each call, whole; JSON always has them")
	return cmd
}

func workflowsResultCmd(a *app.App) *cobra.Command {
	return lookCmd(a, &cobra.Command{
		Use:     "result ID|NAME",
		Aliases: []string{"results"},
		Short:   "Print the result of a run that is complete",
		Long:    "Prints what the script of a complete run returned: a string as it is, anything else as JSON. A run that failed, waits or was aborted ends with its own exit code.",
		Example: "  pml workflows result 7f3a91c2 > result.json",
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		w, err := b.Workflow(ctx, id)
		if err != nil {
			return err
		}
		return workflowResult(a, w)
	})
}

// workflowResult prints the result of a complete run; every other state is an
// error of its own.
func workflowResult(a *app.App, w core.Workflow) error {
	short := w.ID.Short()
	next := []string{"pml", "workflows", "show", short}
	fail := func(code core.Code, text string) error {
		return core.Errorf(code, "run %s %s", short, text).WithRun(w.ID).WithNext(next...)
	}
	switch w.State {
	case core.RunComplete:
		if !a.Human() {
			raw := resultOf(w)
			if len(raw) == 0 {
				raw = core.Null
			}
			return a.Encode(raw, a.Format())
		}
		return a.PrintResult(resultOf(w))
	case core.RunFailed:
		if w.Error != nil {
			return app.FailedRun{Err: w.Error.WithRun(w.ID)}
		}
		return fail(core.CodeToolFailed, "failed")
	case core.RunAborted:
		next = append(next, "--json")
		return fail(core.CodeAborted, "was aborted, so it has no result; the JSON of the run has what its calls returned")
	case core.RunExpired:
		return fail(core.CodeWorkflowExpired, "has expired")
	case core.RunWaiting:
		return fail(core.CodeAwaitingHuman, "waits for a decision and has no result yet")
	case core.RunRunning, core.RunInterrupted:
		if w.State == core.RunInterrupted {
			next = []string{"pml", "continue", short}
		}
	}
	return fail(core.CodeNotWaiting, "is "+string(w.State)+" and has no result yet")
}

func workflowsLogsCmd(a *app.App) *cobra.Command {
	var follow bool
	cmd := lookCmd(a, &cobra.Command{
		Use:     "logs ID|NAME",
		Short:   "Print what a run logged",
		Long:    "Prints the console output of a run's script and the warnings about its tasks; with --follow also what comes.",
		Example: "  pml workflows logs 7f3a91c2\n  pml wf logs @latest --follow",
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		return logs(ctx, a, b, id, follow)
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as more comes")
	return cmd
}

func workflowsRmCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:               "rm ID…",
		Short:             "Remove runs that ended",
		Long:              "Removes runs that ended, with their journals and results. The audit log keeps its lines.",
		Example:           "  pml workflows rm 7f3a91c2 41d2e07b",
		Args:              app.AtLeastOne("ID"),
		ValidArgsFunction: completeRuns(a),
		RunE:              a.With(func(ctx context.Context, b app.Backend, args []string) error { return removeWorkflows(ctx, a, b, args) }),
	}
}

// removeWorkflows resolves every id before it removes anything.
func removeWorkflows(ctx context.Context, a *app.App, b app.Backend, texts []string) error {
	var ids []core.ID
	for _, t := range texts {
		id, err := resolveRun(ctx, a, b, t)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if err := b.RemoveWorkflows(ctx, ids...); err != nil {
		return err
	}
	return a.Print(map[string]any{"removed": ids}, func(w *strings.Builder) {
		for _, id := range ids {
			w.WriteString("removed " + id.Short() + "\n")
		}
	})
}

func workflowsPruneCmd(a *app.App) *cobra.Command {
	var older string
	cmd := &cobra.Command{
		Use:     "prune",
		Short:   "Remove runs that ended long ago",
		Long:    "Removes all runs that ended before a time: RFC 3339, or a duration counted back from now (36h, 7d).",
		Example: "  pml workflows prune --older-than 7d",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			before, err := a.ParseSince("older-than", older)
			if err != nil {
				return err
			}
			b, err := a.Backend(cmd.Context())
			if err != nil {
				return err
			}
			n, err := b.Prune(cmd.Context(), before)
			if err != nil {
				return err
			}
			return a.Print(map[string]int{"removed": n}, app.Line("removed %d", n))
		},
	}
	cmd.Flags().StringVar(&older, "older-than", "30d", "how long ago they ended")
	return cmd
}
