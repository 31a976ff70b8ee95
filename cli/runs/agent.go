package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type agentOptions struct {
	spec    core.AgentSpec
	allow   []string
	context string
	schema  string
	name    string
	key     string
	detach  bool
	events  bool
	wait    WaitFlags
}

// AgentCmd is pml agent.
func AgentCmd(a *app.App) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent GOAL",
		Short: "Let a model work towards a goal with your tools",
		Long: `Asks a model (pml models) what to do, runs the scripts that it writes, shows it
what came of them, and asks again, until it says that the goal is reached or a
bound is. Each script is a run of its own, with the same rules, approvals and
audit as any other; the model cannot approve anything. pml keeps every answer of
the model before it acts on it, so a run that was stopped goes on with
"pml continue" and pays for no answer twice.

pml asks once before the first conversation of a workspace goes to a provider.
--allow bounds the tools that the scripts may call; it never allows more than
your rules do. --budget-tokens, --budget-usd and --budget-calls bound what may
be spent: pml does not ask for an answer that could cost more than is left. When
80 % of it is used, pml asks you once whether the agent may use as much again
(with --on-approval prompt or wait). An agent that has used up what it had goes
on with "pml continue ID --more 5 --budget-usd 0.50".

At a terminal you see what the model writes while it comes, and what has been
used so far. --events prints the events of the agent instead, one JSON object
a line with those texts among them (type agent_text), and its result as the last
line, as --json has it.

It prints what the model says at the end. The exit code is 1 if it stopped
before the goal was reached, and 8 if a decision is needed.`,
		Example: `  pml agent "how many TODO are in src, by file?" --allow 'workspace:*'
  pml agent "summarize the open issues" --allow 'linear:list_*' \
    --budget-tokens 50000
  pml agent "tidy the notes" --context @notes.json --max-iterations 10 --json
  pml agent "translate README.md" --model local --on-approval wait`,
		Args: app.ExactArgs("GOAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.spec.Goal = args[0]
			if cmd.Flags().Changed("allow") {
				o.spec.Allowed = &o.allow
			}
			if err := app.NotEmpty(cmd, "idempotency-key", "model"); err != nil {
				return err
			}
			if o.events && o.detach {
				return app.Usagef("--events prints while it waits, and --detach does not wait; follow a detached agent with: pml events --follow --run ID")
			}
			if o.events {
				a.Flags.Output = app.FormatJSONL
			}
			if err := o.wait.Check(a, cmd, false); err != nil {
				return err
			}
			if o.detach {
				o.wait.detach(cmd)
			}
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.allow, "allow", nil, "a tool that may be called, as server:tool with wildcards; repeatable (default all that your rules let it call)")
	f.StringVar(&o.spec.Model, "model", "", "the model to ask (default models.default)")
	f.IntVar(&o.spec.Iterations, "max-iterations", 0, "how many answers of the model are worked off, 1 to 50 (default 5)")
	f.IntVar(&o.spec.Budget.Tokens, "budget-tokens", 0, "tokens that may be read and written in all")
	f.Float64Var(&o.spec.Budget.USD, "budget-usd", 0, "US dollars that may be spent in all; needs a model whose price is known")
	f.IntVar(&o.spec.Budget.Calls, "budget-calls", 0, "tool calls that may be made in all")
	f.StringVar(&o.context, "context", "", "data that goes with the goal: JSON, or @FILE")
	f.StringVar(&o.schema, "output-schema", "", "the JSON schema of the result: JSON, or @FILE; the result is JSON then")
	f.StringVar(&o.name, "name", "", "what to call the run (default the goal)")
	f.StringVar(&o.key, "idempotency-key", "", "a second agent with the same key and the same goal gives the run of the first")
	f.BoolVar(&o.detach, "detach", false, "let a server run it, and do not wait for the end")
	f.BoolVar(&o.events, "events", false, "print what happens, and what the model writes, as lines of JSON while it happens")
	AddWaitFlags(cmd, &o.wait, true)
	return cmd
}

func (o *agentOptions) run(ctx context.Context, a *app.App) error {
	if o.context != "" {
		raw, err := program.ReadJSON(ctx, a, "context", o.context)
		if err != nil {
			return err
		}
		o.spec.Context = raw
	}
	if o.schema != "" {
		raw, err := program.ReadJSON(ctx, a, "output-schema", o.schema)
		if err != nil {
			return err
		}
		o.spec.OutputSchema = raw
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	a.StartProgress()
	defer holding(ctx, a, b, o.wait)()
	// Whoever waits for decisions, here or elsewhere, is asked before the budget ends.
	o.spec.Budget.Ask = o.wait.onApproval == onPrompt || o.wait.onApproval == onWait
	seen, done := context.WithCancel(ctx)
	defer done()
	var lines *eventLines
	r, err := b.Execute(ctx, api.ExecuteRequest{
		Agent: &o.spec, Name: o.name, IdempotencyKey: o.key, By: a.Actor(), Detach: o.detach,
		Wait: o.wait.Limit(a), HoldApprovals: o.wait.hold(), Started: func(id core.ID) {
			a.Progress.Begun(id)
			switch {
			case o.events && lines == nil:
				lines = printEvents(seen, a, b, id)
			case !o.events && !o.detach:
				watchAgent(seen, a, b, id)
			}
		},
	})
	if bad := lines.end(ctx); err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	return Settle(ctx, a, b, r, nil, o.wait)
}

// agentReport prints what an agent said at its end, and on stderr what it took.
func agentReport(a *app.App, id core.ID, raw json.RawMessage) error {
	var r core.AgentResult
	if json.Unmarshal(raw, &r) != nil {
		return a.PrintResult(raw)
	}
	text := strings.TrimRight(core.Visible(r.Result, 0, true), "\n")
	seen := text
	if a.StdoutTTY && a.StderrTTY { // the text stands on the terminal already, or most of it
		text = a.Progress.Rest(text)
	}
	if len(r.Output) > 0 && text != "" {
		if err := a.PrintResult(r.Output); err != nil {
			return err
		}
	} else if seen != "" && text != "" {
		if err := a.Write(text + "\n"); err != nil {
			return err
		}
	}
	u := r.Usage
	took := fmt.Sprintf("%s, %s, %s read, %s written", layout.Plural(r.Iterations, "answer"), layout.Plural(r.Calls, "tool call"),
		layout.Plural(u.Input+u.CacheRead+u.CacheWrite, "token"), layout.Plural(u.Output, "token"))
	if u.USD != nil {
		took += fmt.Sprintf(", $%.4f", *u.USD)
	}
	a.Note("%s", took)
	if r.Success {
		return nil
	}
	a.Say("stopped before the goal was reached: %s", agentStops[r.Stop])
	switch r.Stop {
	case core.AgentMaxIterations:
		a.SayNext("pml", "continue", id.Short(), "--more", "5")
	case core.AgentBudgetSpent:
		a.Say("a person can give it more: pml continue %s --budget-usd, --budget-tokens or --budget-calls", id.Short())
	case core.AgentEndTurn, core.AgentRefused, core.AgentNoProgress, core.AgentDenied, core.AgentFailed, core.AgentTimeout, core.AgentAborted:
	}
	return app.ExitStatus(app.ExitFailed)
}

// stoppedEarly reports whether a result is that of an agent which stopped before its goal
// was reached.
func stoppedEarly(r api.Result) bool {
	var out core.AgentResult
	return r.Kind == core.KindAgent && json.Unmarshal(r.Result, &out) == nil && out.Stop != "" && !out.Success
}

// agentStops says why an agent stopped before its goal was reached.
var agentStops = map[core.AgentStop]string{
	core.AgentMaxIterations: "it has had all its iterations (--max-iterations)",
	core.AgentBudgetSpent:   "the next answer could cost more than is left of the budget",
	core.AgentRefused:       "the model refused",
	core.AgentNoProgress:    "it went round in circles",
	core.AgentDenied:        "the same call was refused twice",
}
