// Package hook executes hook flows: the scripts, programs and questions that look at
// a tool call before it is made and at its answer. A Runner runs the flows that a call
// meets (package flow says which, and walks them), keeps what they did, and fails
// closed: a node that is broken, late or returns nonsense refuses the call.
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// Sandbox runs scripts; *sandbox.Pool does.
type Sandbox interface {
	Compile(ctx context.Context, source, file string) (sandbox.Compiled, error)
	Eval(ctx context.Context, r sandbox.EvalRequest) (sandbox.Evaluated, error)
	Warm()
}

// Store keeps flow runs, variables and audit rows; both stores do.
type Store interface {
	store.Flows
	Record(ctx context.Context, rows ...core.AuditRow) error
}

// Options are what a Runner is made of.
type Options struct {
	Store Store
	// Sandbox is a pool of its own, with Limits: its children run nothing but hooks.
	Sandbox Sandbox
	Clock   core.Clock
	NewID   func() core.ID
	// Secrets returns what takes the values of a workspace's keys out of a text that is
	// kept or logged; nil where there are none.
	Secrets func(workspace string) func(text string) string
	Logger  *slog.Logger
	// Home is the folder of pml's home, to which relative programs of its flows belong.
	Home string
	// Environ looks variables of the process up, of which programs get a few; nil: none.
	Environ func(name string) (value string, ok bool)
	// Expand fills in the keys that a text in a node of a flow names, as ${NAME}, and says
	// which values it has used; nil: such texts are errors.
	Expand func(f *flow.Flow, workspace, text string) (value string, used map[string]string, err error)
	// MayStart reports whether a command node may start its program: its error refuses.
	// nil: all may.
	MayStart func(f *flow.Flow, n *flow.Node, workspace string) error
	// Tool makes the call of a tool that a hook has among its effects: through the
	// gates, without flows, as a child of the run. nil: such effects fail.
	Tool func(ctx context.Context, c ToolCall) (waits core.ID, err error)
}

// ToolCall is a call that a hook asks for as an effect.
type ToolCall struct {
	Tool    string // server:tool
	Args    json.RawMessage
	Request flow.Request // the call that the flow looks at
	Flow    string       // id of the flow
	FlowRun core.ID
}

// Runner runs flows. It is safe for concurrent use.
type Runner struct {
	o          Options
	scripts    scripts
	cache      cache
	recorder   *recorder
	background *background
	warm       sync.Once
}

// New returns a Runner. It starts nothing before Ready or the first call that meets a flow.
func New(o Options) *Runner {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Secrets == nil {
		o.Secrets = func(string) func(string) string { return func(text string) string { return text } }
	}
	r := &Runner{o: o, recorder: newRecorder(o.Store, o.Logger), background: newBackground()}
	r.cache.clock = o.Clock
	return r
}

// Close waits a short while for the nodes that nobody waits for, ends those that are
// left, and writes the records.
func (r *Runner) Close() error {
	r.background.close()
	return r.recorder.close()
}

// Ready has the sandbox start its children in the background where flows of a set have
// scripts, so that the first call does not wait for all of that.
func (r *Runner) Ready(set *flow.Set) {
	if set.Scripts() {
		r.warm.Do(r.o.Sandbox.Warm)
	}
}

// Before runs the first halves of the flows that a call meets, in their order. It
// returns nil when there are none. An error refuses the call: the flows that had let
// it pass meet that error in their second halves.
func (r *Runner) Before(ctx context.Context, set *flow.Set, req flow.Request) (*core.Passage, error) {
	p, met := &core.Passage{}, false
	for _, f := range set.Flows() {
		// Each sees the call as those before have left it, also to say whether it is meant.
		meets, err := set.Meets(f, req)
		if err == nil && !meets {
			continue
		}
		met = true
		half := flow.Half{}
		if err != nil {
			half.Err = core.AsError(err)
		} else {
			half = r.first(ctx, f, req, p)
		}
		if half.Err != nil {
			err := r.named(half.Err, f)
			r.second(ctx, set, req, p, flow.Answer{Err: err}, false)
			return nil, err
		}
		if len(half.Response) > 0 {
			p.Response = half.Response
			break
		}
		if len(half.Args) > 0 {
			req.Args, p.Args = half.Args, half.Args
		}
		p.Asks = append(p.Asks, half.Asks...)
	}
	if !met {
		return nil, nil
	}
	return p, nil
}

// first runs the first half of one flow and notes in p that it has let the call pass.
func (r *Runner) first(ctx context.Context, f *flow.Flow, req flow.Request, p *core.Passage) flow.Half {
	in := flow.Input{Flow: f, Run: r.o.NewID(), Request: req}
	rec := r.recorder.open(r.runOf(in))
	if err := r.load(ctx, &in); err != nil {
		half := flow.Half{State: core.FlowFailed, Reason: err.Error(), Err: failed(f, err)}
		if f.Mode == flow.Audit {
			half.Err = nil
		}
		r.recorder.first(rec, half, 0)
		return half
	}
	half := r.walk(ctx, in, rec)
	passed := half.State == core.FlowPending && half.Node != ""
	if !passed && half.State == core.FlowPending {
		half.State = core.FlowOK // it has given the response itself
	}
	r.recorder.first(rec, half, r.o.Clock.Now().Sub(rec.run.StartedAt))
	if passed {
		p.Flows = append(p.Flows, core.PassedFlow{
			Flow: f.ID, Digest: f.Digest, Home: f.Home, Audit: f.Mode == flow.Audit, RunID: in.Run, Node: half.Node, Changed: len(half.Args) > 0, Variables: half.Variables,
		})
	}
	return half
}

func (r *Runner) walk(ctx context.Context, in flow.Input, rec *record) flow.Half {
	return flow.Walk(ctx, &execution{r: r, rec: rec, secrets: rec.secrets}, r.o.Clock, in)
}

// runOf begins the record of a flow run.
func (r *Runner) runOf(in flow.Input) *record {
	f, req := in.Flow, in.Request
	run := core.FlowRun{
		ID: in.Run, Flow: f.ID, Name: f.Name, Digest: f.Digest, Audit: f.Mode == flow.Audit, Owner: req.Owner,
		RunID: req.RunID, CallID: req.CallID, Tool: req.Tool, Client: req.Client, State: core.FlowPending, StartedAt: r.o.Clock.Now(),
	}
	if !f.Home {
		run.Workspace = req.Workspace
	}
	return &record{run: run, secrets: r.o.Secrets(req.Workspace)}
}

// After runs the second halves of the flows that a call has passed, in reverse order,
// on its answer, and returns what is left of it. req.Args are those that were sent. An
// error says that the call was made, unless the answer said otherwise or a flow gave
// it.
func (r *Runner) After(ctx context.Context, set *flow.Set, req flow.Request, p *core.Passage, answer flow.Answer) flow.Answer {
	if p == nil {
		return answer
	}
	return r.second(ctx, set, req, p, answer, len(p.Response) == 0)
}

// Unanswered keeps that a call which flows have let pass has no answer, and why. A flow
// run that has ended stays as it is.
func (r *Runner) Unanswered(req flow.Request, p *core.Passage, err *core.Error) {
	clean := core.Errorf(err.Code, "%s", r.o.Secrets(req.Workspace)(err.Message))
	for _, passed := range p.Flows {
		r.recorder.unanswered(ending{passed.RunID, req.RunID, clean})
	}
}

// second runs the second halves; sent says whether the call may have been made.
func (r *Runner) second(ctx context.Context, set *flow.Set, req flow.Request, p *core.Passage, answer flow.Answer, sent bool) flow.Answer {
	failure := func(err *core.Error) flow.Answer {
		switch {
		case answer.Err != nil && answer.Err.NotMade:
			err = err.WithNotMade()
		case sent:
			err = err.WithMade()
		}
		return flow.Answer{Err: err}
	}
	for _, passed := range slices.Backward(p.Flows) {
		f, err := set.Passed(passed)
		if err != nil && passed.Audit {
			continue
		}
		if err != nil {
			answer = failure(core.AsError(err))
			continue
		}
		half := r.behind(ctx, f, req, passed, answer)
		switch {
		case half.Err != nil:
			answer = failure(r.named(half.Err, f))
		case len(half.Response) > 0:
			// What an inner flow made of it for an agent is not what this flow has looked at.
			answer = flow.Answer{Result: half.Response, Agent: half.Agent}
		case len(half.Agent) > 0:
			answer.Agent = half.Agent
		}
	}
	return answer
}

// behind runs the second half of one flow.
func (r *Runner) behind(ctx context.Context, f *flow.Flow, req flow.Request, passed core.PassedFlow, answer flow.Answer) flow.Half {
	in := flow.Input{Flow: f, Node: f.Node(passed.Node), Run: passed.RunID, Request: req, Answer: &answer, Variables: passed.Variables}
	rec := r.recorder.known(ctx, r.runOf(in))
	began := r.o.Clock.Now()
	half := r.walk(ctx, in, rec)
	r.recorder.second(rec, half, r.o.Clock.Now().Sub(began), answer)
	return half
}

// named says of an error which flow decided it.
func (r *Runner) named(err *core.Error, f *flow.Flow) *core.Error {
	out := *err
	out.Decided = &core.DecidedBy{Actor: core.Actor{Who: "flow:" + core.Visible(cmp.Or(f.ID, f.Name), 80, false), Via: core.ViaRule}, At: r.o.Clock.Now().UTC()}
	return &out
}

func failed(f *flow.Flow, err error) *core.Error {
	return core.Errorf(core.CodeHookFailed, "the flow %s failed: %w", core.Visible(cmp.Or(f.Name, f.ID), 80, false), err)
}

// execution executes the nodes of one half of a flow.
type execution struct {
	r       *Runner
	rec     *record
	secrets func(string) string
}

// Execute implements flow.Executor.
func (e *execution) Execute(ctx context.Context, in flow.Input) (flow.Output, error) {
	of := *e // what it learns of keys is its own
	e = &of
	limit := in.Node.Timeout()
	// The sandbox ends a script itself, and can say where it was.
	own, cancel := context.WithTimeout(ctx, limit+late)
	defer cancel()
	out, err := e.execute(own, in)
	if err != nil && ctx.Err() == nil && own.Err() != nil {
		err = core.Errorf(core.CodeTimeout, "it did not end within %v (timeoutMs)", limit)
	}
	out.Console = e.lines(out.Console)
	if out.Block != nil {
		out.Block = &flow.Block{Code: e.secrets(out.Block.Code), Message: e.secrets(out.Block.Message)}
	}
	if out.Ask != nil {
		out.Ask = &flow.Question{Message: e.secrets(out.Ask.Message)}
	}
	if err == nil {
		err = e.note(in, &out)
	}
	if err != nil {
		return out, core.Errorf(core.CodeOf(err), "%s", e.secrets(core.AsError(err).Message))
	}
	return out, nil
}

// late is what a script is given beyond its time to be ended by the sandbox.
const late = 250 * time.Millisecond

func (e *execution) execute(ctx context.Context, in flow.Input) (flow.Output, error) {
	switch n := in.Node; n.Type {
	case flow.TypeCondition:
		return e.condition(ctx, in)
	case flow.TypeSet:
		return e.set(ctx, in)
	case flow.TypeCommand:
		return e.command(ctx, in)
	case flow.TypeHTTP:
		return e.post(ctx, in)
	default:
		return e.hook(ctx, in)
	}
}

// Start implements flow.Executor.
func (e *execution) Start(_ context.Context, in flow.Input) bool {
	in.Variables = maps.Clone(in.Variables)
	return e.r.background.start(func(ctx context.Context) { e.r.recorder.beside(e.rec, e.alone(ctx, in)) })
}

// alone executes a node that nobody waits for.
func (e *execution) alone(ctx context.Context, in flow.Input) core.FlowNodeRun {
	began := e.r.o.Clock.Now()
	out, err := e.Execute(ctx, in)
	if err == nil && (out.Block != nil || len(out.Args) > 0 || len(out.Response) > 0 || out.Ask != nil) {
		err = core.Errorf(core.CodeHookFailed, "nobody waits for this node, so it cannot decide or change anything; set blocking to true")
	}
	run := core.FlowNodeRun{
		Node: in.Node.ID, Type: in.Node.Type, Response: in.Answer != nil, State: core.FlowOK, StartedAt: began,
		DurationUS: e.r.o.Clock.Now().Sub(began).Microseconds(), Console: out.Console,
	}
	if err != nil {
		run.State, run.Reason = core.FlowFailed, core.AsError(err).Message
		if isTimeout(err) {
			run.State = core.FlowTimeout
		}
		e.r.o.Logger.Warn("a hook failed that nobody waits for", "flow", in.Flow.ID, "node", in.Node.ID, "error", run.Reason)
	}
	return run
}

func isTimeout(err error) bool {
	return slices.Contains([]core.Code{core.CodeSandboxTimeout, core.CodeTimeout, core.CodeToolTimeout}, core.CodeOf(err))
}
