package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/upstream"
)

// Flows runs the hook flows that a call meets. Package hook has the real one.
type Flows interface {
	// Ready is told that a call of the set's flows may come soon. It returns at once.
	Ready(set *flow.Set)
	// Before runs their first halves, in order; nil where none matches the call. An
	// error refuses it.
	Before(ctx context.Context, set *flow.Set, req flow.Request) (*core.Passage, error)
	// After runs their second halves, in reverse order, on how the call ended, and
	// returns what is left of that. req.Args are those that were sent.
	After(ctx context.Context, set *flow.Set, req flow.Request, p *core.Passage, answer flow.Answer) flow.Answer
	// Unanswered keeps that a call which flows have let pass has no answer, and why; an
	// answer that they have seen stays. It returns at once.
	Unanswered(req flow.Request, p *core.Passage, err *core.Error)
	// List runs those that are about the list of a server's tools (req.Tool is the
	// server), and returns what they leave of it; an error means that there is no list.
	List(ctx context.Context, set *flow.Set, req flow.Request, tools []core.Tool) ([]core.Tool, error)
}

// flowGate lets the hook flows of a workspace look at its calls, at how they end, and
// at the lists of tools.
type flowGate struct {
	runner    Flows // nil: this process runs no flows, and refuses what one would look at
	workspace string
	results   *upstream.Manager // checks the results that flows make against a tool's schema
	listings  listings
}

// flowsOf are the enabled flows of the home and of the workspace, which refuse what they
// may match while it is not trusted.
func flowsOf(c *env.Config, trust env.TrustState) *flow.Set {
	home, workspace := c.HookFlows()
	if len(home.Flows)+len(workspace.Flows) == 0 {
		return nil
	}
	return flow.NewSet(home, workspace, trust.Counts())
}

// forbidden applies what holds whatever else is known of a call: deny rules, and
// flows that would have to look at it and cannot run.
func (s *settings) forbidden(id string) *core.Error {
	if v, denied := s.policy.Denied(policy.Call{Tool: id}); denied {
		return deniedBy(id, v)
	}
	if gone := s.all.FlowGone(id); gone != nil {
		return gone
	}
	if err := s.flows.Refused(id); err != nil {
		return core.AsError(err)
	}
	return nil
}

// EnabledFlow is a flow that looks at calls.
type EnabledFlow struct {
	File string
	// Refuses is why it refuses the calls that it may match; nil: it runs.
	Refuses *core.Error
}

// EnabledFlows are the enabled flows in the order in which they run.
func (h *Host) EnabledFlows() ([]EnabledFlow, error) {
	s, err := h.reader.recent()
	if err != nil {
		return nil, err
	}
	var out []EnabledFlow
	for _, f := range s.flows.Flows() {
		out = append(out, EnabledFlow{f.File, s.flows.Refusal(f)})
	}
	return out, nil
}

// FlowsOf names the enabled flows that may look at calls of a tool; all of them for a
// tool of which a part is not known ("*").
func (h *Host) FlowsOf(tool string) ([]string, error) {
	s, err := h.reader.recent()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range s.flows.Flows() {
		if f.Type != flow.ListTools && (strings.Contains(tool, "*") || f.Reach().Covers(tool)) {
			names = append(names, core.Visible(cmp.Or(f.Name, f.ID, f.File), 80, false))
		}
	}
	return names, nil
}

// before lets flows look at a call that none has looked at. It returns the call as they
// left it, and what they made of it; nil where none matches.
func (g *flowGate) before(ctx context.Context, e entry, call engine.Call, hints core.Annotations) (engine.Call, *core.Passage, error) {
	if !e.meets(call) {
		return call, nil, nil
	}
	if g.runner == nil {
		return call, nil, noFlows(call.Tool)
	}
	p, err := g.runner.Before(ctx, e.set.flows, g.request(call, hints))
	if err != nil || p == nil {
		return call, nil, err
	}
	call, err = Passed(call, *p)
	return call, p, err
}

// ready is told before a server is looked at, which may take a while, that a call which
// flows may meet is to come.
func (g *flowGate) ready(s *settings) {
	if g.runner != nil {
		g.runner.Ready(s.flows)
	}
}

// Unanswered implements engine.Passing.
func (h *Host) Unanswered(call engine.Call, err *core.Error) {
	if g := h.flows; g.runner != nil && call.Passage != nil && len(call.Passage.Flows) > 0 {
		g.runner.Unanswered(g.request(call, core.Annotations{}), call.Passage, err)
	}
}

// unmet takes a call that no flow has looked at back to its gates where one would now:
// it has come, or is enabled, since they judged it.
func (g *flowGate) unmet(s *settings, call engine.Call, hints core.Annotations) error {
	if call.Passage != nil || !s.flows.Matches(call.Tool) {
		return nil
	}
	met, err := s.flows.For(g.request(call, hints))
	switch {
	case err != nil:
		return s.clean(err).WithNotMade()
	case len(met) > 0:
		return again(core.Errorf(core.CodeHookFailed, "%s was not made: a flow is to look at it that was not there before", core.Visible(call.Tool, 120, false)))
	}
	return nil
}

func noFlows(tool string) *core.Error {
	return core.Errorf(core.CodeHookFailed, "%s is refused: an enabled flow is to look at it, and this process runs no flows", core.Visible(tool, 120, false))
}

// Passed is a call with what flows made of it.
func Passed(call engine.Call, p core.Passage) (engine.Call, error) {
	call.Passage = &p
	if len(p.Args) == 0 {
		return call, nil
	}
	digest, err := core.Digest(p.Args)
	if err != nil {
		return call, core.Errorf(core.CodeHookFailed, "what hook flows made of the arguments of %s cannot be read: %w", core.Visible(call.Tool, 120, false), err)
	}
	call.Program, call.Args, call.Digest = call.Args, p.Args, digest
	return call, nil
}

// request is a call in the form in which flows see it.
func (g *flowGate) request(call engine.Call, hints core.Annotations) flow.Request {
	return flow.Request{
		RunID: call.RunID, CallID: call.ID, Tool: call.Tool, Args: call.Args, Annotations: hints,
		Client: ClientOf(call), Owner: call.Owner, Workspace: g.workspace,
		Run: flow.RunInfo{Name: call.RunName, Kind: string(call.Kind), Depth: call.Depth},
	}
}

// ClientOf names who makes a call, for flows that match only some: the host of an agent
// that calls a tool itself, or the command line; otherwise the agent of pml whose scripts
// do, or the run whose program does.
func ClientOf(call engine.Call) string {
	host := cmp.Or(call.Requester.Client.Name, call.Requester.Who)
	switch {
	case offeredCall(call), ofHost(call):
		return cmp.Or(host, string(core.ViaMCP))
	case calledAlone(call) && call.Requester.Via == core.ViaCLI:
		return string(core.ViaCLI)
	case call.Agent != "":
		return "agent:" + string(call.Agent)
	}
	return "run:" + string(call.RunID)
}

// calledAlone reports whether a call is all that its run does (pml tools call): whoever
// made it gets its result, and no program does.
func calledAlone(call engine.Call) bool {
	return call.Kind == core.KindDAG && strings.TrimRight(call.ID, "_") == core.CalledTask
}

func asksByFlow(call engine.Call) bool { return call.Passage != nil && len(call.Passage.Asks) > 0 }

// The members of a question's context that say what flows made of a call.
const (
	flowAsks    = "asked_by_flows"
	flowChanged = "changed_by_flows"
	flowBefore  = "arguments_before_flows"
)

// byFlows adds to the question about a call which flows have changed its arguments, and
// which ask about it: that one is asked whatever rule or memory allows, and its answer
// holds for this call alone.
func (s *settings) byFlows(call engine.Call, ask engine.Ask) engine.Ask {
	context, ok := ask.Context.(map[string]any)
	if call.Passage == nil || !ok {
		return ask
	}
	if len(call.Program) > 0 {
		names := s.changers(call)
		context[flowChanged], context[flowBefore] = names, s.redact.JSON(call.Program)
		ask.Description += fmt.Sprintf(" Its arguments were changed by the flow %s.", strings.Join(names, ", "))
	}
	if !asksByFlow(call) {
		return ask
	}
	asks := slices.Clone(call.Passage.Asks)
	key := []string{"asked by flows", ask.Digest}
	for i, a := range asks {
		key = append(key, a.Flow, a.Node)
		asks[i].Message = core.Visible(s.redact.String(a.Message), 300, false)
		ask.Description += fmt.Sprintf(" The flow %s asks", core.Visible(s.flowName(a.Flow), 80, false))
		if asks[i].Message != "" {
			ask.Description += ": " + asks[i].Message
		} else {
			ask.Description += "."
		}
	}
	context[flowAsks], ask.Once = asks, true
	if digest, err := core.DigestOf(key); err == nil {
		ask.Digest = digest
	}
	return ask
}

// withFlowsOf gives a call what the context of the question about it says of flows.
func withFlowsOf(call engine.Call, context json.RawMessage) engine.Call {
	var c struct {
		Asks    []core.FlowAsk  `json:"asked_by_flows"`
		Changed []string        `json:"changed_by_flows"`
		Before  json.RawMessage `json:"arguments_before_flows"`
	}
	call.Passage = &core.Passage{} // flows have looked at it, or will
	if json.Unmarshal(context, &c) != nil {
		return call
	}
	call.Passage.Asks, call.Program = c.Asks, c.Before
	for _, id := range c.Changed {
		call.Passage.Flows = append(call.Passage.Flows, core.PassedFlow{Flow: id, Changed: true})
	}
	return call
}

// changers names the flows that have changed the arguments of a call.
func (s *settings) changers(call engine.Call) (names []string) {
	for _, f := range call.Passage.Flows {
		if f.Changed {
			names = append(names, core.Visible(s.flowName(f.Flow), 80, false))
		}
	}
	return names
}

// flowName is the name of a flow, its id where it has none.
func (s *settings) flowName(id string) string {
	for _, f := range s.flows.Flows() {
		if f.ID == id {
			return cmp.Or(f.Name, id)
		}
	}
	return id
}

// changedBy says of arguments that do not fit which flows have made them so.
func (s *settings) changedBy(call engine.Call, err error) error {
	if call.Passage == nil || len(call.Program) == 0 {
		return err
	}
	out := *core.AsError(err)
	out.Message += "; the program's own were changed by the flow " + strings.Join(s.changers(call), ", ")
	return &out
}
