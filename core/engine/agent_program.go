package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
)

// agentProgram runs an agent: each request to its model is a call, and so is each run
// that the model asks for. The conversation follows from their outcomes, so replay asks
// the model nothing that was answered.
type agentProgram struct {
	run   core.ID
	spec  core.AgentSpec
	check func(schema, value json.RawMessage) []core.Fault
	loop  *agent.Loop
}

func newAgentProgram(run core.ID, p core.Program, check func(schema, value json.RawMessage) []core.Fault) (*agentProgram, error) {
	if p.Agent == nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "the run %s of an agent has no goal", run.Short()).WithRun(run)
	}
	return &agentProgram{run: run, spec: *p.Agent, check: check}, nil
}

func (p *agentProgram) start(context.Context) (turn, error) {
	p.loop = agent.New(p.spec, p.check)
	return p.turn(p.loop.Begin(), 0)
}

func (p *agentProgram) deliver(_ context.Context, list []delivery) (turn, error) {
	var out turn
	for _, d := range list {
		step, err := p.took(d)
		if err != nil {
			return turn{}, err
		}
		t, err := p.turn(step, d.call.layer+1)
		if err != nil {
			return turn{}, err
		}
		out.calls = append(out.calls, t.calls...)
		out.done, out.result, out.err = t.done, t.result, t.err
	}
	return out, nil
}

// took hands an outcome to the conversation. A request to the model that has failed,
// after it was tried again, ends the agent.
func (p *agentProgram) took(d delivery) (agent.Step, error) {
	if d.call.tool == core.ModelTool {
		if d.outcome == core.OutcomeDenied && d.call.question != nil && d.err != nil && d.err.Decided != nil && !refusedProvider(d) {
			return p.loop.Stopped(), nil
		}
		if d.err != nil && d.err.Code == core.CodeModelContext {
			if step, ok := p.loop.TooLong(); ok {
				return step, nil
			}
		}
		if d.err != nil && d.err.Code == core.CodeModelRefused {
			return p.loop.Refused(), nil
		}
		if d.outcome != core.OutcomeSuccess {
			return agent.Step{Done: true, Err: d.err}, nil
		}
		a, err := agent.Decode(d.value)
		if err != nil {
			return agent.Step{}, core.Errorf(core.CodeReplay, "the answer of the model that is journaled as %s cannot be read: %w", d.call.id, err)
		}
		return p.loop.Answered(a, d.call.attempt-d.call.failures), nil
	}
	var o agent.Outcome
	if len(d.value) > 0 {
		if err := json.Unmarshal(d.value, &o); err != nil {
			return agent.Step{}, core.Errorf(core.CodeReplay, "the outcome of the run that is journaled as %s cannot be read: %w", d.call.id, err)
		}
	}
	if d.outcome != core.OutcomeSuccess {
		o.Err = d.err
	}
	return p.loop.Ran(d.call.id, o), nil
}

// turn makes calls of what comes next.
func (p *agentProgram) turn(s agent.Step, layer int) (turn, error) {
	var t turn
	if s.Done {
		t.done, t.err = true, s.Err
		if s.Result == nil {
			return t, nil
		}
		raw, err := json.Marshal(s.Result)
		if err != nil {
			return turn{}, core.Errorf(core.CodeInternal, "cannot encode the result of the agent: %w", err)
		}
		t.result = raw
		return t, nil
	}
	if s.Ask != nil {
		args, err := json.Marshal(map[string]any{"model": p.spec.Model, "messages": len(s.Ask.Messages), "max_tokens": s.Ask.MaxTokens})
		if err != nil {
			return turn{}, core.Errorf(core.CodeInternal, "cannot encode a request to the model: %w", err)
		}
		ask := issued{id: s.Call, tool: core.ModelTool, args: args, layer: layer, spec: &askSpec, prompt: &prompt{p.spec.Model, *s.Ask}}
		if s.Question != nil {
			if ask.question, err = budgetAsk(p.spec.Goal, *s.Question); err != nil {
				return turn{}, err
			}
		}
		t.calls = append(t.calls, ask)
	}
	for _, r := range s.Runs {
		args, err := json.Marshal(childArgs{ID: core.ChildID(p.run, r.Call), Intent: r.Intent, Code: r.Code, Results: r.Results, Budget: r.Budget})
		if err != nil {
			return turn{}, core.Errorf(core.CodeInternal, "cannot encode a run of the agent: %w", err)
		}
		t.calls = append(t.calls, issued{id: r.Call, tool: core.RunTool, args: args, layer: layer})
	}
	return t, nil
}

// askSpec is how a request to a model is tried: what is refused for now, several times.
var askSpec = core.TaskSpec{
	Type: core.TypeTool, Tool: core.ModelTool, SideEffects: new(bool), Retry: &core.Retry{MaxAttempts: 5, BackoffMS: 1000},
}

// maxGoalShown bounds what a question about an agent shows of its goal.
const maxGoalShown = 400

// budgetAsk asks whether an agent may use as much again as it was given.
func budgetAsk(goal string, q agent.Question) (*Ask, error) {
	spent := core.AgentSpent{Iterations: q.Iterations, Calls: q.Calls, Usage: q.Usage, Budget: q.Budget}
	digest, err := core.DigestOf(q)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode the question for more budget: %w", err)
	}
	return &Ask{
		Type: core.ApproveBudget, Subject: "budget", Tool: core.ModelTool, Risk: core.RiskMedium, Digest: digest, Once: true,
		Description: fmt.Sprintf("The agent has used %s. May it use as much again? A no ends it with what it has.", spent.Bounded()),
		Context: map[string]any{
			"tool": core.ModelTool, "goal": core.Visible(goal, maxGoalShown, true), "used": spent.Bounded(), "more": q.More.Text(),
			"iterations": q.Iterations, "risk_why": "it spends tokens and money",
		},
	}, nil
}

// partial is what the agent had come to when its run ended otherwise; nil if it has not
// begun.
func (p *agentProgram) partial(why core.AgentStop) json.RawMessage {
	if p.loop == nil {
		return nil
	}
	raw, err := json.Marshal(p.loop.Failed(why))
	if err != nil {
		return nil
	}
	return raw
}

func (p *agentProgram) rest() {}

func (p *agentProgram) close() {}

// childArgs are the arguments of a call that starts a run.
type childArgs struct {
	ID     core.ID `json:"workflow_id"`
	Intent string  `json:"intent,omitempty"`
	Code   string  `json:"code,omitempty"` // empty: what the intent says
	// Results are the runs whose results the script names, by handle.
	Results map[string]core.ID `json:"results,omitempty"`
	Budget  core.AgentBudget   `json:"budget,omitzero"`
}

// ChildOf returns the run that a journaled call of a run has started, empty for any
// other record.
func ChildOf(run core.ID, r core.Record) core.ID {
	if core.StartsAgent(r.Tool) {
		return core.ChildID(run, r.CallID)
	}
	var args childArgs
	if r.Tool != core.RunTool || json.Unmarshal(r.Args, &args) != nil {
		return ""
	}
	return args.ID
}

// nameOfChild is what people call a run that an agent started.
func nameOfChild(parent core.Run, intent string) string {
	if intent = core.Visible(intent, 80, false); intent == "" {
		intent = "script"
	}
	return fmt.Sprintf("%s › %s", core.Visible(parent.Name, 60, false), intent)
}
