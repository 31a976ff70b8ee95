package runs

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// addMore adds the flags that give more to an agent that has used up what it had.
func (o *continueOptions) addMore(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.more.Iterations, "more", 0, "for an agent that has used up its iterations: how many more it gets")
	f.IntVar(&o.more.Tokens, "budget-tokens", 0, "for an agent that has used up its budget: how many tokens more it gets")
	f.Float64Var(&o.more.USD, "budget-usd", 0, "how many US dollars more")
	f.IntVar(&o.more.Calls, "budget-calls", 0, "how many tool calls more")
}

// gives reports whether the command line gives an agent more.
func (o continueOptions) gives() bool { return o.more != (core.AgentMore{}) }

// checkMore finds flags that contradict giving more.
func (o continueOptions) checkMore() error {
	switch m := o.more; {
	case !o.gives():
	case m.Iterations < 0 || m.Tokens < 0 || m.USD < 0 || m.Calls < 0:
		return app.Usagef("what is given to an agent cannot be negative")
	case o.decides() || o.all || o.checkpoint != "" || o.digest != "" || o.allOfType != "" || o.edits():
		return app.Usagef("--more and --budget-… give an agent more that has ended: they go with no decision")
	}
	return nil
}

// decideMore makes the decision to give an agent more. At a terminal it shows what the
// agent has used, and asks.
func (o continueOptions) decideMore(ctx context.Context, a *app.App, b app.Backend, id core.ID) (*api.Decision, error) {
	d := &api.Decision{Approve: true, More: &o.more, Reason: o.reason}
	w, err := b.Workflow(ctx, id)
	if err != nil {
		return nil, err
	}
	if w.Agent != nil {
		io.WriteString(a.Stderr, core.Visible("agent  "+w.Title()+"\nused   "+w.Agent.Text()+"\nmore   "+o.more.Text(), 0, true)+"\n")
	}
	if a.CanAsk() && !o.extras.yes {
		yes, err := a.AskYes(ctx, "Let it go on?")
		if err != nil {
			return nil, core.AsError(err).WithRun(id)
		}
		if !yes {
			return nil, core.Errorf(core.CodeCancelled, "nothing was given to the agent %s", id.Short()).WithRun(id)
		}
		d.Presence = core.PresenceTerminal
	}
	if d.Pin, err = a.PinFor(ctx, b, o.extras.pin); err != nil {
		return nil, core.AsError(err).WithRun(id)
	}
	return d, nil
}
