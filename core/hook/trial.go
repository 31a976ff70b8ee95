package hook

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// Trial is a call to try a flow on. It is not made.
type Trial struct {
	Flow    *flow.Flow // without faults; it need not be enabled, nor match
	Request flow.Request
	// Answer is how the call ended; nil: the trial ends before the call.
	Answer *flow.Answer
	// Tools are those that the server lists, for a flow of tools/list: Request.Tool is the
	// server.
	Tools []core.Tool
}

// Tried is what a flow would have made of a call.
type Tried struct {
	// Run is as the record of a real call, with nodes that nobody waits for at their end.
	Run  core.FlowRun
	Args json.RawMessage // those that would be sent
	Asks []core.FlowAsk
	// Answer is what would be left of the answer, or what the flow gives in its place;
	// nil: the call would be made, and the trial has no answer.
	Answer *flow.Answer
	// List is what the server lists, for a flow of tools/list: Answer.Result has what is
	// left of it.
	List json.RawMessage
	// Unknown says why nothing is known of what the tool does; empty where it is known.
	Unknown string
}

// Try runs both halves of a flow on a call that is not made. Nothing is kept: no record,
// no variables and no effects. Programs and URLs that the flow asks are asked.
func (r *Runner) Try(ctx context.Context, t Trial) (Tried, error) {
	if len(t.Flow.Faults) > 0 {
		err := core.Errorf(core.CodeInvalidConfig, "the flow has faults, and cannot be tried before they are corrected")
		err.Faults = t.Flow.Faults
		return Tried{}, err
	}
	if t.Flow.Type == flow.ListTools {
		return r.tryList(ctx, t)
	}
	return r.tryCall(ctx, t)
}

// tryList tries a flow of tools/list: what it makes of the list must be one.
func (r *Runner) tryList(ctx context.Context, t Trial) (Tried, error) {
	list, err := json.Marshal(map[string][]listed{"tools": listedOf(t.Tools)})
	if err != nil {
		return Tried{}, core.Errorf(core.CodeHookFailed, "the tools of %s cannot be given to a flow: %w", core.Visible(t.Request.Tool, 80, false), err)
	}
	t.Answer = &flow.Answer{Result: list}
	out, err := r.tryCall(ctx, t)
	if err != nil {
		return out, err
	}
	out.List = list
	if a := out.Answer; a != nil && a.Err == nil {
		if _, err := relisted(t.Tools, a.Result); err != nil {
			out.Answer = &flow.Answer{Err: core.AsError(err)}
			out.Run.State, out.Run.Reason = core.FlowFailed, core.AsError(err).Message
		}
	}
	return out, nil
}

func (r *Runner) tryCall(ctx context.Context, t Trial) (Tried, error) {
	o := r.o
	o.Store, o.Logger = forgetful{r.o.Store}, nil
	o.Tool = func(context.Context, ToolCall) (core.ID, error) { return "", nil }
	inner := New(o)
	defer func() { _ = inner.Close() }() // it has nothing to write
	in := flow.Input{Flow: t.Flow, Run: r.o.NewID(), Request: t.Request}
	rec := inner.runOf(in)
	out := Tried{Run: rec.run, Args: t.Request.Args}
	if err := inner.load(ctx, &in); err != nil {
		return Tried{}, err
	}
	half := inner.try(ctx, in, rec, &out)
	if len(half.Args) > 0 {
		out.Args = half.Args
	}
	out.Asks = half.Asks
	switch {
	case half.Err != nil:
		out.Answer = &flow.Answer{Err: half.Err}
		return out, nil
	case len(half.Response) > 0:
		out.Answer = &flow.Answer{Result: half.Response}
		return out, nil
	case t.Answer == nil || half.State != core.FlowPending:
		return out, nil
	}
	in.Node, in.Answer, in.Variables, in.Request.Args = t.Flow.Node(half.Node), t.Answer, half.Variables, out.Args
	left := *t.Answer
	switch half = inner.try(ctx, in, rec, &out); {
	case half.Err != nil:
		left = flow.Answer{Err: half.Err}
	case len(half.Response) > 0 || len(half.Agent) > 0:
		left = flow.Answer{Result: half.Response, Agent: half.Agent}
		if len(left.Result) == 0 {
			left.Result = t.Answer.Result
		}
	}
	rec.run = out.Run
	rec.called(answered(*t.Answer), t.Answer.Err)
	out.Run, out.Answer = rec.run, &left
	return out, nil
}

// try walks one half and adds it to the record.
func (r *Runner) try(ctx context.Context, in flow.Input, rec *record, out *Tried) flow.Half {
	began := r.o.Clock.Now()
	x := &trial{execution: execution{r: r, rec: rec, secrets: rec.secrets}}
	half := flow.Walk(ctx, x, r.o.Clock, in)
	for _, n := range half.Nodes {
		if i := slices.IndexFunc(x.beside, func(b core.FlowNodeRun) bool { return b.Node == n.Node && n.State == core.FlowRunning }); i >= 0 {
			n = x.beside[i]
		}
		out.Run.Nodes = append(out.Run.Nodes, n)
	}
	out.Run.State, out.Run.Node, out.Run.Reason = half.State, half.Node, half.Reason
	out.Run.DurationUS += r.o.Clock.Now().Sub(began).Microseconds()
	return half
}

// trial executes nodes that nobody waits for at once, so that it shows what they do.
type trial struct {
	execution
	beside []core.FlowNodeRun
}

// Start implements flow.Executor.
func (t *trial) Start(ctx context.Context, in flow.Input) bool {
	t.beside = append(t.beside, t.alone(ctx, in))
	return true
}

// forgetful is a store that keeps nothing: what is written is as if it had been.
type forgetful struct{ Store }

// SaveFlowRuns keeps nothing.
func (forgetful) SaveFlowRuns(context.Context, ...core.FlowRun) error { return nil }

// Record keeps nothing.
func (forgetful) Record(context.Context, ...core.AuditRow) error { return nil }

// SetFlowVariables keeps nothing.
func (forgetful) SetFlowVariables(context.Context, core.FlowKey, core.FlowVariables) error {
	return nil
}

// FlowVariables are those that are kept, where there is a store.
func (f forgetful) FlowVariables(ctx context.Context, key core.FlowKey) (core.FlowVariables, error) {
	if f.Store == nil {
		return core.FlowVariables{}, nil
	}
	return f.Store.FlowVariables(ctx, key)
}
