package gate

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/upstream"
)

// ended is how a call has ended, before values of keys are taken out of it.
type ended struct {
	upstream.Response
	err error
	// plain is set when Raw is a value and no MCP result: that of pml's own server, or
	// of another pml.
	plain bool
	// given is set when a flow gave the result, and nothing was called.
	given bool
	// fault is in what the server's own result does not match the tool's output schema.
	fault string
}

// unfit is the error of a result of flows.
func unfit(tool core.Tool, fault string) *core.Error {
	return core.Errorf(core.CodeHookFailed, "what flows made of the result of %s %s", tool.ID(), fault)
}

// given is the result that a flow gives in place of a call; ok is false where the call
// is to be made.
func (g *flowGate) given(call engine.Call, tool core.Tool) (e ended, ok bool) {
	if call.Passage == nil || len(call.Passage.Response) == 0 {
		return e, false
	}
	e.given, e.Raw = true, call.Passage.Response
	if fault := g.results.ResultFault(tool, e.Raw, true); fault != "" {
		return e.refused(unfit(tool, fault)), true
	}
	if e.Value, e.err = upstream.NormalizeResult(e.Raw); e.err != nil {
		e.err = core.AsError(e.err).WithNotMade()
	}
	return e, true
}

// after lets the flows that a call has passed look at how it ended, and returns what
// they left of that. What they make of a result must fit the tool's output schema. A
// call that goes back to its gates, or that its run has stopped, has no end to look at.
func (g *flowGate) after(ctx context.Context, s *settings, call engine.Call, tool core.Tool, e ended) ended {
	if call.Passage == nil || len(call.Passage.Flows) == 0 || isAgain(e.err) || e.err != nil && ctx.Err() != nil {
		return e
	}
	if g.runner == nil {
		return e.refused(noFlows(call.Tool))
	}
	was := flow.Answer{Result: e.Raw}
	switch {
	case len(e.Raw) == 0:
		was.Err = core.AsError(e.err)
	case e.plain:
		was.Result = resultOf(e.Raw)
	}
	now := g.runner.After(ctx, s.flows, g.request(call, believed(tool)), call.Passage, was)
	switch {
	case now.Err != nil && now.Err == was.Err:
		return e
	case now.Err != nil:
		return e.refused(s.clean(now.Err))
	case len(now.Agent) > 0 && (offeredCall(call) || calledAlone(call)): // an agent is all who gets it
		now.Result = now.Agent
	}
	if bytes.Equal(now.Result, was.Result) {
		return e
	}
	fault := g.results.ResultFault(tool, now.Result, e.given || upstream.HasStructured(was.Result))
	if fault != "" && fault != e.fault { // which the server's own result has
		return e.refused(s.clean(unfit(tool, fault)))
	}
	e.Raw, e.plain = now.Result, false
	e.Value, e.err = upstream.NormalizeResult(now.Result)
	return e
}

// refused is the end of a call whose result flows do not let through. The error says
// whether the call was made, where that is certain.
func (e ended) refused(err *core.Error) ended {
	out := *err
	out.Made = !e.given && len(e.Raw) > 0
	out.NotMade = e.given || len(e.Raw) == 0 && e.err != nil && core.AsError(e.err).NotMade
	return ended{err: &out, given: e.given}
}

// resultOf is a value as the MCP result of a tool that gives it.
func resultOf(value json.RawMessage) json.RawMessage {
	text := string(value)
	_ = json.Unmarshal(value, &text) // a text stands for itself
	result := map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}}
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		result["structuredContent"] = value
	}
	out, err := json.Marshal(result)
	if err != nil {
		return value
	}
	return out
}
