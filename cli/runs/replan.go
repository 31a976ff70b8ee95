package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
)

type replanOptions struct {
	id, tasks, requirement, reason string
}

// ReplanCmd is pml replan.
func ReplanCmd(a *app.App) *cobra.Command {
	var o replanOptions
	cmd := &cobra.Command{
		Use:   "replan ID",
		Short: "Add tasks to a DAG that is paused",
		Long: `Adds tasks to the DAG of a paused run. The next "pml continue" runs the new plan;
tasks that are done are not run again. --requirement describes what is needed,
and pml adds the tasks that fit best, unless one of their arguments is missing.`,
		Example:           "  pml replan 7f3a91c2 --tasks more.yaml\n  pml replan 7f3a91c2 --requirement \"also read the changelog\"\n  pml continue 7f3a91c2",
		Args:              app.ExactArgs("ID"),
		ValidArgsFunction: completeRuns(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return replan(cmd.Context(), a, o)
		},
	}
	cmd.Flags().StringVar(&o.tasks, "tasks", "", "a DAG file with the new tasks, or -")
	cmd.Flags().StringVar(&o.requirement, "requirement", "", "what is needed, in words: tasks are suggested and added")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why")
	return cmd
}

func replan(ctx context.Context, a *app.App, o replanOptions) error {
	switch {
	case o.requirement != "" && o.tasks != "":
		return app.Usagef("give either --tasks or --requirement, not both")
	case o.requirement != "":
		return replanFor(ctx, a, o)
	case o.tasks == "":
		return app.Usagef("replan needs --tasks FILE or --requirement TEXT").WithNext("pml", "replan", "--help")
	}
	p, err := program.Read(ctx, a, program.Source{File: o.tasks})
	if err != nil {
		return err
	}
	if !p.IsDAG() {
		return app.Usagef("%s is code; --tasks wants a DAG in JSON or YAML: {\"tasks\": […]}", o.tasks)
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	id, err := resolveRun(ctx, a, b, o.id)
	if err != nil {
		return err
	}
	tasks, input, err := p.Tasks(b)
	if err != nil {
		return err
	}
	if len(input) > 0 {
		return core.Errorf(core.CodeDAGInvalid, "%s gives an input, but a replan cannot change the input of a run; take it out", o.tasks)
	}
	r, err := b.Replan(ctx, id, tasks, a.Actor(), o.reason)
	if err != nil {
		return p.Locate(err)
	}
	return report(a, r, "")
}

// replanFor adds what is suggested for words.
func replanFor(ctx context.Context, a *app.App, o replanOptions) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	id, err := resolveRun(ctx, a, b, o.id)
	if err != nil {
		return err
	}
	r, err := b.ReplanFor(ctx, id, o.requirement, nil, a.Actor(), o.reason)
	if err != nil {
		return err
	}
	return report(a, r, "")
}
