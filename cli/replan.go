package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
)

type replanOptions struct {
	id, tasks, requirement, reason string
}

func (a *app) replanCmd() *cobra.Command {
	var o replanOptions
	cmd := &cobra.Command{
		Use:   "replan ID",
		Short: "Add tasks to a DAG that is paused",
		Long: `Adds tasks to the DAG of a run that is paused. The next "pml continue" runs
the new plan; what is done is not done again. With --requirement the tasks are
those that fit what is needed best; a task that lacks an argument is not added.`,
		Example:           "  pml replan 7f3a91c2 --tasks more.yaml\n  pml replan 7f3a91c2 --requirement \"also read the changelog\"\n  pml continue 7f3a91c2",
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return a.replan(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.tasks, "tasks", "", "a DAG file with the new tasks, or -")
	cmd.Flags().StringVar(&o.requirement, "requirement", "", "what is needed, in words: tasks are suggested and added")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why")
	return cmd
}

func (a *app) replan(ctx context.Context, o replanOptions) error {
	switch {
	case o.requirement != "" && o.tasks != "":
		return usagef("give either --tasks or --requirement, not both")
	case o.requirement != "":
		return a.replanFor(ctx, o)
	case o.tasks == "":
		return usagef("replan needs --tasks FILE or --requirement TEXT").WithNext("pml", "replan", "--help")
	}
	p, err := a.readProgram(source{file: o.tasks})
	if err != nil {
		return err
	}
	if p.dag == nil {
		return usagef("%s is code; --tasks wants a DAG in JSON or YAML: {\"tasks\": […]}", o.tasks)
	}
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	id, err := a.resolveRun(ctx, b, o.id)
	if err != nil {
		return err
	}
	tasks, input, err := b.ParseDAG(p.dag)
	if err != nil {
		if p.yaml {
			err = unplaced(err)
		}
		return inFile(err, p.file, p.places)
	}
	if len(input) > 0 {
		return core.Errorf(core.CodeDAGInvalid, "%s gives an input, but a replan cannot change the input of a run; take it out", o.tasks)
	}
	r, err := b.Replan(ctx, id, tasks, a.actor(), o.reason)
	if err != nil {
		return inFile(err, p.file, p.places)
	}
	return a.report(r)
}

// replanFor adds what is suggested for words.
func (a *app) replanFor(ctx context.Context, o replanOptions) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	id, err := a.resolveRun(ctx, b, o.id)
	if err != nil {
		return err
	}
	r, err := b.ReplanFor(ctx, id, o.requirement, nil, a.actor(), o.reason)
	if err != nil {
		return err
	}
	return a.report(r)
}
