package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
)

func (a *app) workflowsCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:     "workflows",
		Aliases: []string{"wf", "workflow"},
		Short:   "Runs: list, show, watch, results, logs",
		Long:    "Lists runs, shows one with its layers and tasks, follows it, prints its result and what it logged, and removes runs that ended.",
		Example: "  pml workflows ls --state waiting\n  pml wf show @latest\n  pml wf result 7f3a91c2",
	}, a.workflowsLsCmd(), a.workflowsShowCmd(), a.workflowsWatchCmd(), a.workflowsResultCmd(),
		a.workflowsLogsCmd(), a.workflowsRmCmd(), a.workflowsPruneCmd())
}

type listOptions struct {
	states []string
	limit  int
	cursor string
}

func (a *app) workflowsLsCmd() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List runs, newest first",
		Long:    "Lists runs, newest first. --state may be given several times or as a list.",
		Example: "  pml workflows ls\n  pml workflows ls --state waiting,interrupted -o wide",
		Args:    maxArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listWorkflows(cmd.Context(), o) },
	}
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "only runs in this state")
	cmd.Flags().IntVar(&o.limit, "limit", 50, "at most this many")
	cmd.Flags().StringVar(&o.cursor, "cursor", "", "go on after an earlier list (its \"next\")")
	_ = cmd.RegisterFlagCompletionFunc("state", completeStates)
	return cmd
}

func (a *app) listWorkflows(ctx context.Context, o listOptions) error {
	var states []core.RunState
	for _, s := range o.states {
		if !slices.Contains(core.RunStates, core.RunState(s)) {
			return oneOf("state", s, stateNames()...)
		}
		states = append(states, core.RunState(s))
	}
	if o.limit <= 0 {
		return usagef("--limit %d is not a number of runs", o.limit)
	}
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	page, err := b.Workflows(ctx, states, o.limit, o.cursor)
	if err != nil {
		return err
	}
	return printList(a, page, "no workflows", []column[core.Run]{
		{title: "WORKFLOW", get: func(r core.Run) string { return r.ID.Short() }},
		{title: "STATE", get: func(r core.Run) string { return string(r.State) }},
		{title: "KIND", get: func(r core.Run) string { return string(r.Kind) }},
		{title: "LAYER", get: layerOf},
		{title: "AGE", get: func(r core.Run) string { return a.ago(r.CreatedAt) }},
		{title: "CREATED", wide: true, get: func(r core.Run) string { return stamp(r.CreatedAt) }},
		{title: "UPDATED", wide: true, get: func(r core.Run) string { return stamp(r.UpdatedAt) }},
		{title: "SIDE", wide: true, get: func(r core.Run) string { return string(r.Side) }},
		{title: "BY", wide: true, get: func(r core.Run) string { return r.RequestedBy.Who + "/" + string(r.RequestedBy.Via) }},
		{title: "WORKSPACE", wide: true, get: func(r core.Run) string { return r.Workspace }},
		{title: "INTENT", get: func(r core.Run) string { return r.Intent }},
	})
}

func stateNames() []string {
	names := make([]string, len(core.RunStates))
	for i, s := range core.RunStates {
		names[i] = string(s)
	}
	return names
}

// runCmd is a command about one run.
func (a *app) runCmd(c *cobra.Command, do func(ctx context.Context, b Backend, id core.ID) error) *cobra.Command {
	c.Args = exactArgs("ID")
	c.ValidArgsFunction = a.completeRuns
	c.RunE = func(cmd *cobra.Command, args []string) error {
		b, err := a.open(cmd.Context())
		if err != nil {
			return err
		}
		id, err := a.resolveRun(cmd.Context(), b, args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), b, id)
	}
	return c
}

func (a *app) workflowsShowCmd() *cobra.Command {
	return a.runCmd(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a run with its layers, tasks and approvals",
		Long:    "Shows a run: its state, every layer with its tasks, what waits and, when it failed, why.",
		Example: "  pml workflows show @latest\n  pml wf show 7f3a91c2 --json",
	}, func(ctx context.Context, b Backend, id core.ID) error {
		w, err := b.Workflow(ctx, id)
		if err != nil {
			return err
		}
		return a.print(w, func(out *strings.Builder) { a.writeWorkflow(out, w) })
	})
}

func (a *app) workflowsResultCmd() *cobra.Command {
	return a.runCmd(&cobra.Command{
		Use:     "result ID",
		Short:   "Print the result of a run that is complete",
		Long:    "Prints what the script of a complete run returned: a string as it is, anything else as JSON. A run that failed, waits or was aborted ends with its own exit code.",
		Example: "  pml workflows result 7f3a91c2 > result.json",
	}, func(ctx context.Context, b Backend, id core.ID) error {
		w, err := b.Workflow(ctx, id)
		if err != nil {
			return err
		}
		return a.workflowResult(w)
	})
}

// workflowResult prints the result of a complete run; every other state is an
// error of its own.
func (a *app) workflowResult(w core.Workflow) error {
	short := w.ID.Short()
	next := []string{"pml", "workflows", "show", short}
	fail := func(code core.Code, text string) error {
		return core.Errorf(code, "workflow %s %s", short, text).WithRun(w.ID).WithNext(next...)
	}
	switch w.State {
	case core.RunComplete:
		if !a.human() {
			raw := w.Result
			if len(raw) == 0 {
				raw = core.Null
			}
			return a.encode(raw, a.format())
		}
		return a.printResult(w.Result)
	case core.RunFailed:
		if w.Error != nil {
			return failedRun{w.Error.WithRun(w.ID)}
		}
		return fail(core.CodeToolFailed, "failed")
	case core.RunAborted:
		return fail(core.CodeAborted, "was aborted")
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

func (a *app) workflowsLogsCmd() *cobra.Command {
	var follow bool
	cmd := a.runCmd(&cobra.Command{
		Use:     "logs ID",
		Short:   "Print what a run logged",
		Long:    "Prints the console output of a run's script and the warnings about its tasks; with --follow also what comes.",
		Example: "  pml workflows logs 7f3a91c2\n  pml wf logs @latest --follow",
	}, func(ctx context.Context, b Backend, id core.ID) error {
		return a.events(ctx, b, eventsOptions{id: id, follow: follow, logs: true})
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as more comes")
	return cmd
}

func (a *app) workflowsRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "rm ID…",
		Short:             "Remove runs that ended",
		Long:              "Removes runs that ended, with their journals and results. The audit log keeps its lines.",
		Example:           "  pml workflows rm 7f3a91c2 41d2e07b",
		Args:              atLeastOne("ID"),
		ValidArgsFunction: a.completeRuns,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.removeWorkflows(cmd.Context(), args) },
	}
}

// removeWorkflows resolves every id before it removes anything.
func (a *app) removeWorkflows(ctx context.Context, texts []string) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	var ids []core.ID
	for _, t := range texts {
		id, err := a.resolveRun(ctx, b, t)
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
	return a.print(map[string]any{"removed": ids}, func(w *strings.Builder) {
		for _, id := range ids {
			w.WriteString("removed " + id.Short() + "\n")
		}
	})
}

func (a *app) workflowsPruneCmd() *cobra.Command {
	var older string
	cmd := &cobra.Command{
		Use:     "prune",
		Short:   "Remove runs that ended long ago",
		Long:    "Removes all runs that ended before a time: RFC 3339, or a duration counted back from now (36h, 7d).",
		Example: "  pml workflows prune --older-than 7d",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			before, err := a.parseSince("older-than", older)
			if err != nil {
				return err
			}
			b, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			n, err := b.Prune(cmd.Context(), before)
			if err != nil {
				return err
			}
			return a.print(map[string]int{"removed": n}, line("removed %d", n))
		},
	}
	cmd.Flags().StringVar(&older, "older-than", "30d", "how long ago they ended")
	return cmd
}

// atLeastOne wants one or more arguments.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs at least one %s", cmd.CommandPath(), name).
				WithNext(append(strings.Fields(cmd.CommandPath()), "--help")...)
		}
		return nil
	}
}
