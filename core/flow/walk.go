package flow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
)

// Executor executes single nodes. Package hook has the real one.
type Executor interface {
	// Execute executes a node that the call waits for: a hook, command, http or template
	// node, a condition or set with an expression in JavaScript, or a set of a variable
	// that is kept. An error is a broken node: it ends the walk.
	Execute(ctx context.Context, in Input) (Output, error)
	// Start begins a node that nobody waits for and returns at once; false: it was
	// dropped.
	Start(ctx context.Context, in Input) bool
}

// Input is what a node gets. The bytes in it are shared: nobody may write to them.
type Input struct {
	Flow *Flow
	Node *Node
	// Run names the flow run.
	Run core.ID
	// Request has the arguments as the nodes before have changed them.
	Request Request
	// Answer is nil before the call.
	Answer *Answer
	// Variables are those of the flow and of the flow run.
	Variables map[string]json.RawMessage
}

// Output is what a node made of its input; zero: go on.
type Output struct {
	// Args are other arguments: an object, before the call only.
	Args json.RawMessage
	// Response is another result; before the call it is given in place of the call,
	// which is then not made.
	Response json.RawMessage
	Block    *Block
	// Ask asks a person before the call is made.
	Ask *Question
	// Variables are those that changed.
	Variables map[string]json.RawMessage
	// Branch is where a condition leads.
	Branch bool
	// Console are the lines that a script wrote; Change what is kept of a change.
	Console []string
	Change  *core.FlowChange
}

// Block is a refusal by a node.
type Block struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Half is what one flow did before a call, or with its answer. In audit mode only the
// record is left of it: State, Node, Reason and Nodes.
type Half struct {
	// State is core.FlowPending when the call is next.
	State core.FlowState
	// Node is the mcp-call node at which the first half ended, or the node that
	// blocked or failed with Reason.
	Node, Reason string
	Nodes        []core.FlowNodeRun
	// Args are the arguments after the first half; empty: unchanged.
	Args json.RawMessage
	// Response is the result after the second half, or what the first half gives in
	// place of the call; empty: unchanged.
	Response json.RawMessage
	// Agent is set when a node of ScopeAgent changed the response: it is for the agent
	// alone, and Response is what the program gets.
	Agent     json.RawMessage
	Asks      []core.FlowAsk
	Variables map[string]json.RawMessage
	// Err refuses the call: core.CodeDenied for a block, core.CodeHookFailed for a
	// broken node.
	Err *core.Error
}

// Walk runs one half of a valid flow. Without an Answer that is the way from start to
// an mcp-call node; with one it is the way from in.Node, that mcp-call node, to end.
func Walk(ctx context.Context, ex Executor, clock core.Clock, in Input) Half {
	w := walk{ex: ex, clock: clock, in: in, half: Half{State: core.FlowPending}, seen: map[string]bool{}}
	w.in.Variables = maps.Clone(in.Variables)
	if w.in.Variables == nil {
		w.in.Variables = map[string]json.RawMessage{}
	}
	at := in.Node
	if in.Answer == nil {
		at = in.Flow.graph.start
	} else {
		answer := *in.Answer
		w.in.Answer = &answer
		w.half.State = core.FlowOK
	}
	branch := ""
	for at != nil && w.half.Err == nil {
		w.startBeside(ctx, at, branch)
		if at = in.Flow.graph.next(at, branch); at == nil {
			break
		}
		if w.seen[at.ID] = true; at.Type == TypeCall || at.Type == TypeEnd {
			w.half.Node = at.ID
			w.visited(at)
			break
		}
		var done bool
		if branch, done = w.step(ctx, at); done {
			break
		}
	}
	return w.result()
}

type walk struct {
	ex    Executor
	clock core.Clock
	in    Input
	half  Half
	seen  map[string]bool
	args  bool // they were changed
}

// result leaves only the record of a flow that does not enforce.
func (w *walk) result() Half {
	w.skipped()
	h := w.half
	if w.in.Flow.Mode == Audit {
		return Half{State: h.State, Node: h.Node, Reason: h.Reason, Nodes: h.Nodes, Variables: w.in.Variables}
	}
	if h.Variables = w.in.Variables; w.args {
		h.Args = w.in.Request.Args
	}
	return h
}

// startBeside begins what hangs off a node that is done.
func (w *walk) startBeside(ctx context.Context, n *Node, branch string) {
	for _, side := range w.in.Flow.graph.beside(n, branch) {
		run := w.begin(side)
		w.seen[side.ID] = true
		in := w.in
		in.Node, in.Variables = side, maps.Clone(w.in.Variables)
		if run.State = core.FlowRunning; !w.ex.Start(ctx, in) {
			run.State, run.Reason = core.FlowSkipped, "dropped: too many nodes that nobody waits for are queued"
		}
		w.half.Nodes = append(w.half.Nodes, run)
	}
}

func (w *walk) begin(n *Node) core.FlowNodeRun {
	return core.FlowNodeRun{Node: n.ID, Type: n.Type, Response: w.in.Answer != nil, StartedAt: w.clock.Now(), State: core.FlowOK}
}

// visited records a node that does nothing. How the call ends is not known yet.
func (w *walk) visited(n *Node) {
	run := w.begin(n)
	if n.Type == TypeCall {
		run.State = core.FlowPending
	}
	w.half.Nodes = append(w.half.Nodes, run)
}

// step executes a node; done ends the half. branch is where a condition leads.
func (w *walk) step(ctx context.Context, n *Node) (branch string, done bool) {
	run := w.begin(n)
	in := w.in
	in.Node, in.Variables = n, maps.Clone(w.in.Variables)
	if w.in.Answer != nil {
		answer := *w.in.Answer
		in.Answer = &answer
	}
	out, err := w.execute(ctx, in)
	if err == nil {
		err = w.apply(n, out)
	}
	run.DurationUS = w.clock.Now().Sub(run.StartedAt).Microseconds()
	run.Console, run.Change = out.Console, out.Change
	switch {
	case err != nil:
		run.State, run.Reason = stateOf(err), core.AsError(err).Message
		w.stop(run, core.Errorf(core.CodeHookFailed, "the node %s of the flow %s failed: %w", quoted(n.ID), quoted(w.in.Flow.name()), err))
	case out.Block != nil:
		run.State, run.Reason = core.FlowBlocked, out.Block.reason()
		w.stop(run, core.Errorf(core.CodeDenied, "the flow %s blocks this at its node %s: %s", quoted(w.in.Flow.name()), quoted(n.ID), run.Reason))
	}
	w.half.Nodes = append(w.half.Nodes, run)
	if n.Type == TypeCondition {
		branch = labelOf(out.Branch)
	}
	return branch, w.half.Err != nil || w.in.Answer == nil && len(w.half.Response) > 0
}

func (w *walk) stop(run core.FlowNodeRun, err *core.Error) {
	w.half.State, w.half.Node, w.half.Reason, w.half.Err = run.State, run.Node, run.Reason, err
}

func stateOf(err error) core.FlowState {
	if slices.Contains([]core.Code{core.CodeSandboxTimeout, core.CodeTimeout, core.CodeToolTimeout}, core.CodeOf(err)) {
		return core.FlowTimeout
	}
	return core.FlowFailed
}

// execute does what is pure itself.
func (w *walk) execute(ctx context.Context, in Input) (Output, error) {
	n := in.Node
	switch {
	case n.Type == TypeApproval:
		return Output{Ask: n.Data.Approval}, nil
	case n.Type == TypeCondition && n.condition != nil:
		branch, err := n.condition.holds(in)
		return Output{Branch: branch}, err
	case n.Type == TypeSet && n.Data.Set.Scope != "flow" && n.Data.Set.Expression == "":
		return n.Data.Set.Assign(in.Variables, n.Data.Set.Value)
	}
	return w.ex.Execute(ctx, in)
}

// apply takes over what a node gave, if it may give it.
func (w *walk) apply(n *Node, out Output) error {
	if out.Block != nil {
		return nil
	}
	if len(out.Args) > 0 {
		switch {
		case w.in.Answer != nil:
			return core.Errorf(core.CodeHookFailed, "it gave other parameters after the call was made")
		case len(w.half.Asks) > 0:
			return core.Errorf(core.CodeHookFailed, "it gave other parameters after a person was to be asked about them")
		case !isObject(out.Args):
			return core.Errorf(core.CodeHookFailed, "the arguments that it gave are no JSON object, or have a member twice")
		}
		if !bytes.Equal(out.Args, w.in.Request.Args) {
			w.in.Request.Args, w.args = out.Args, true
		}
	}
	if len(out.Response) > 0 {
		if !isObject(out.Response) {
			return core.Errorf(core.CodeHookFailed, "the response that it gave is no JSON object, or has a member twice")
		}
		w.respond(n, out.Response)
	}
	if out.Ask != nil && w.in.Answer == nil {
		w.half.Asks = append(w.half.Asks, core.FlowAsk{Flow: w.in.Flow.ID, Node: n.ID, Message: out.Ask.Message})
	}
	maps.Copy(w.in.Variables, out.Variables)
	return nil
}

// respond takes over another response. What is for the agent alone the nodes behind
// see, and the program does not.
func (w *walk) respond(n *Node, response json.RawMessage) {
	if w.in.Answer == nil {
		w.half.Response = response
		return
	}
	w.in.Answer.Result, w.in.Answer.Err = response, nil
	if n.Data.Scope == ScopeAgent || len(w.half.Agent) > 0 {
		w.half.Agent = response
		return
	}
	w.half.Response = response
}

// skipped records the nodes that this half, or the flow that it ended, did not get to.
func (w *walk) skipped() {
	g := &w.in.Flow.graph
	over := w.half.Err != nil || w.in.Answer == nil && len(w.half.Response) > 0
	for _, n := range w.in.Flow.Nodes {
		response := g.behind[n.ID]
		if w.seen[n.ID] || n.Type == TypeStart || n.Type == TypeEnd || response && w.in.Answer == nil && !over || !response && w.in.Answer != nil {
			continue
		}
		run := core.FlowNodeRun{Node: n.ID, Type: n.Type, Response: response, State: core.FlowSkipped, StartedAt: w.clock.Now()}
		w.half.Nodes = append(w.half.Nodes, run)
	}
}

// Assign gives the variable of a set node its value, which is the node's own or that of
// its expression; vars has what it was.
func (a *Assignment) Assign(vars map[string]json.RawMessage, value json.RawMessage) (Output, error) {
	was := vars[a.Name]
	var err error
	switch a.Op {
	case "add":
		value, err = added(was, value)
	case "append":
		value, err = appended(was, value)
	}
	if err != nil {
		return Output{}, core.Errorf(core.CodeHookFailed, "the variable %s cannot be set: %w", quoted(a.Name), err)
	}
	return Output{Variables: map[string]json.RawMessage{a.Name: value}}, nil
}

func added(was, value json.RawMessage) (json.RawMessage, error) {
	var sum, n float64
	if len(was) > 0 {
		if err := json.Unmarshal(was, &sum); err != nil {
			return nil, errors.New("it is no number")
		}
	}
	if err := json.Unmarshal(value, &n); err != nil {
		return nil, errors.New("what is to be added is no number")
	}
	return json.Marshal(sum + n)
}

func appended(was, value json.RawMessage) (json.RawMessage, error) {
	var list []json.RawMessage
	if len(was) > 0 {
		if err := json.Unmarshal(was, &list); err != nil {
			return nil, errors.New("it is no list")
		}
	}
	return json.Marshal(append(list, value))
}

func isObject(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) && core.CheckKeys("it", trimmed) == nil
}

func (b *Block) reason() string {
	return core.Visible(cmp.Or(b.Message, b.Code, "it gives no reason"), 1000, false)
}

func (f *Flow) name() string { return cmp.Or(f.Name, f.ID, f.File, "without a name") }

func quoted(s string) string { return core.Visible(s, 80, false) }

func labelOf(branch bool) string {
	if branch {
		return "true"
	}
	return "false"
}
