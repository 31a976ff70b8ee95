package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/sandbox"
)

// startAsking makes a call that asks the model of an agent. Whoever asks knows how long
// a model may be silent.
func (d *dispatcher) startAsking(c *call) {
	run, id, prompt := *d.run, c.id, *c.prompt
	d.background.run(func(ctx context.Context) func(context.Context) error {
		var halt *core.Halt
		value, err := d.ask(ctx, run, id, prompt, &halt)
		return func(context.Context) error {
			d.halts(halt)
			d.ended(c, value, err, nil)
			return nil
		}
	})
}

func (d *dispatcher) ask(ctx context.Context, run core.Run, call string, p prompt, halt **core.Halt) (json.RawMessage, error) {
	if d.eng.opts.Ask == nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "this pml has no model to ask").WithNotMade()
	}
	if err := d.maySend(ctx, run.Runner, halt); err != nil { // another process may be asking already
		return nil, err
	}
	answer, err := d.eng.opts.Ask(ctx, run, call, p.name, p.Request)
	if e := core.AsError(err); err != nil && e.Code == core.CodeModelNoKey && e.NotMade {
		return nil, &NotMadeError{e} // its key was there a moment ago
	}
	if err != nil {
		return nil, err
	}
	raw, err := agent.Encode(answer)
	if err != nil {
		return nil, core.Errorf(core.CodeToolFailed, "the answer of the model to %s cannot be kept: %w", call, err)
	}
	return d.batch.redact.JSON(raw), nil
}

// startChild makes a call that runs a script as a run of its own, below this one. The
// run has an id that follows from the call, so it is there once however often the call
// is begun. No limit of time holds for the call: the run has its own.
func (d *dispatcher) startChild(c *call) {
	var args childArgs
	if err := json.Unmarshal(c.args, &args); err != nil {
		d.ended(c, nil, core.Errorf(core.CodeReplay, "the call that starts a run cannot be read: %w", err), nil)
		return
	}
	k := d.children(c)
	k.id, k.create = args.ID, func(ctx context.Context) (core.Run, core.Program, error) { return k.script(ctx, args) }
	d.startRun(c, k, func(ctx context.Context) (json.RawMessage, error) {
		value, err := k.run(ctx, k.outcomeOf)
		if err != nil && k.tools != "" {
			return json.Marshal(agent.Outcome{Tools: k.tools})
		}
		return value, err
	})
}

// children are those of the run of a call.
func (d *dispatcher) children(c *call) *children {
	call := c.id
	k := &children{eng: d.eng, parent: *d.run, id: core.ChildID(d.run.ID, call)}
	k.begins = func(ctx context.Context) error { return d.maySend(ctx, k.parent.Runner, &k.halt) }
	k.waits = func(ctx context.Context, w bool) {
		select {
		case d.background.children <- childState{call, w}:
		case <-ctx.Done():
		}
	}
	return k
}

// startRun makes a call that starts a run, and takes what that came to.
func (d *dispatcher) startRun(c *call, k *children, run func(context.Context) (json.RawMessage, error)) {
	d.background.run(func(ctx context.Context) func(context.Context) error {
		value, err := run(ctx)
		if k.failed != nil {
			return func(context.Context) error { return k.failed } // the child stays, and so does its parent
		}
		return func(context.Context) error {
			d.halts(k.halt)
			if k.used != nil && c.share != nil {
				c.share = &core.AgentShare{Granted: c.share.Granted, Usage: k.used.Usage, Calls: k.used.Calls}
			}
			d.ended(c, value, err, nil)
			return nil
		}
	})
}

// children runs what a call of a run starts below it.
type children struct {
	eng    *Engine
	parent core.Run
	id     core.ID // of the child
	// create makes the child, where it is not there yet.
	create func(ctx context.Context) (core.Run, core.Program, error)
	waits  func(ctx context.Context, w bool) // takes whether the child waits for people
	begins func(ctx context.Context) error   // says whether a child may be made: no call is halted
	halt   *core.Halt                        // who has halted calls, where it may not
	used   *core.AgentShare                  // by an agent that has ended
	tools  string                            // that fit an intent, where no child was made of it
	failed error                             // of pml itself, which is no outcome of the child
}

// run runs the child and returns its outcome once it has ended. A run that is there is
// gone on with. When the parent ends first, the child is aborted; when the process does,
// the child stays for whoever takes the parent up.
func (c *children) run(ctx context.Context, outcome func(context.Context, core.Run) (json.RawMessage, error)) (json.RawMessage, error) {
	run, err := c.ended(ctx)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errStopped) {
			c.abort(c.id)
		}
		return nil, c.own(ctx, err)
	}
	value, err := outcome(ctx, run)
	if value == nil {
		err = c.own(ctx, err)
	}
	if err != nil || run.State == core.RunComplete {
		return value, err
	}
	if run.Error == nil {
		return value, core.Errorf(core.CodeWorkflowExpired, "the run %s is %s: nobody has decided what it asked in time", run.ID.Short(), run.State)
	}
	return value, run.Error
}

// own keeps an error that is a failure of pml itself.
func (c *children) own(ctx context.Context, err error) error {
	if ctx.Err() == nil && ownFailure(err) {
		c.failed = err
	}
	return err
}

// outcomeOf is what a script of an agent has come to.
func (c *children) outcomeOf(ctx context.Context, run core.Run) (json.RawMessage, error) {
	out, err := c.calls(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	out.ID, out.Result = run.ID, run.Result
	value, err := json.Marshal(out)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode the outcome of the run %s: %w", run.ID.Short(), err)
	}
	return value, nil
}

// ended returns the header of the child once it has ended.
func (c *children) ended(ctx context.Context) (core.Run, error) {
	for {
		run, err := c.here(ctx)
		if err != nil || run.State.Final() {
			return run, err
		}
		run, err = c.watch(ctx, c.id)
		for err == nil && run.State == core.RunWaiting { // whoever decides goes on with it
			run, err = c.watch(ctx, c.id)
		}
		if err != nil || run.State.Final() {
			return run, err
		}
	}
}

// here runs the child in this process as far as it gets. Another process may have it, or
// it may have ended: then it returns no run.
func (c *children) here(ctx context.Context) (core.Run, error) {
	h, err := c.begun(ctx)
	switch core.CodeOf(err) {
	case "":
		return c.follow(ctx, h)
	case core.CodeFenced, core.CodeNotWaiting:
		return core.Run{}, nil
	default:
		return core.Run{}, err
	}
}

// begun takes the child up, or starts it.
func (c *children) begun(ctx context.Context) (*Handle, error) {
	h, err := c.eng.Resume(ctx, c.id)
	if core.CodeOf(err) != core.CodeNotFound {
		return h, err
	}
	if err := c.begins(ctx); err != nil {
		return nil, err
	}
	run, program, err := c.create(ctx)
	if err != nil {
		return nil, err
	}
	foresight, err := c.eng.Foresee(ctx, run, program)
	if err != nil {
		return nil, err
	}
	return c.eng.StartForeseen(ctx, run, program, foresight)
}

// header is that of a child, with what bounds its parent.
func (c *children) header(kind core.Kind, intent string) (core.Run, error) {
	p := c.parent
	host, err := c.eng.hostOf(p)
	if err != nil {
		return core.Run{}, err
	}
	intent = viewOf(host).Text(intent) // it is the model's, and shown in lists and events
	now := c.eng.opts.Clock.Now().UTC()
	return core.Run{
		ID: c.id, ParentID: p.ID, UnderAgent: p.AgentOfChildren(), Side: p.Side, Workspace: p.Workspace, Owner: p.Owner, Kind: kind, Intent: intent,
		Name: nameOfChild(p, intent), CreatedAt: now, UpdatedAt: now, RequestedBy: p.RequestedBy,
	}, nil
}

// intended makes the run of what an agent has asked for in words: a DAG, where they say all
// that it needs.
func (c *children) intended(ctx context.Context, args childArgs) (run core.Run, p core.Program, err error) {
	if c.eng.opts.Suggest == nil {
		return run, p, core.Errorf(core.CodeEmptyCode, "the code is empty: give code that calls tools and returns a value").WithNotMade()
	}
	if run, err = c.header(core.KindDAG, args.Intent); err != nil {
		return run, p, err
	}
	run.Options = c.options(args)
	s, err := c.eng.opts.Suggest(ctx, run, run.Intent)
	if err != nil {
		return run, p, err
	}
	if len(s.Tasks) == 0 {
		c.tools = s.Tools
		return run, p, core.Errorf(core.CodeInvalidArguments, "no tool fits %q; give code", core.Visible(run.Intent, 80, false)).WithNotMade()
	}
	p = core.Program{Kind: core.KindDAG, Version: 1, Tasks: s.Tasks}
	g, err := Graph(p)
	if err != nil {
		return run, p, err
	}
	p.Plan = g.Plan()
	return run, p, nil
}

// options are those of a run that an agent has asked for.
func (c *children) options(args childArgs) core.RunOptions {
	o := c.parent.Options
	return core.RunOptions{Allowed: o.Allowed, Bounds: o.Bounds, MaxCalls: args.Budget.Calls, Budget: args.Budget, Agents: o.Agents, HIL: o.HIL}
}

// script makes the run of a script that an agent has asked for.
func (c *children) script(ctx context.Context, args childArgs) (core.Run, core.Program, error) {
	if args.Code == "" {
		return c.intended(ctx, args)
	}
	compiled, err := c.eng.opts.Sandbox.Compile(ctx, args.Code, "")
	if err != nil {
		return core.Run{}, core.Program{}, err
	}
	run, err := c.header(core.KindCode, args.Intent)
	if err != nil {
		return run, core.Program{}, err
	}
	run.Options = c.options(args)
	return run, core.Program{Kind: core.KindCode, Version: 1, Source: args.Code, Script: compiled.Script, Sandbox: sandbox.Version, Plan: compiled.Plan, Results: args.Results}, nil
}

// follow waits for a child of this process. It returns a run that has not ended when
// the child has gone elsewhere.
func (c *children) follow(ctx context.Context, h *Handle) (core.Run, error) {
	for {
		s, changed := h.Status()
		switch {
		case s.Run.State.Final():
			return s.Run, nil
		case s.Stopped && core.CodeOf(s.Err) == core.CodeSandboxCrashed:
			// The model goes on without it: whoever takes it up must not call anything.
			c.abort(h.ID)
			return core.Run{}, s.Err
		case s.Stopped && s.Err != nil && core.CodeOf(s.Err) != core.CodeFenced:
			return core.Run{}, s.Err
		case s.Stopped:
			return core.Run{}, nil
		}
		c.waits(ctx, Paused(s) || s.Idle)
		select {
		case <-changed:
		case <-ctx.Done():
			return core.Run{}, c.cut(ctx)
		}
	}
}

// watchChild is how often the engine reads a run of another process of which no notification comes.
const watchChild = 500 * time.Millisecond

// watch waits for a change of a child that this process does not run.
func (c *children) watch(ctx context.Context, id core.ID) (core.Run, error) {
	run, err := c.eng.opts.Store.Run(ctx, id)
	if err != nil || run.State.Final() {
		return run, err
	}
	c.waits(ctx, run.State == core.RunWaiting)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := c.eng.opts.Store.WatchOthers(ctx)
	if err != nil {
		return core.Run{}, err
	}
	tick := time.NewTimer(watchChild)
	defer tick.Stop()
	select {
	case <-changes:
	case <-tick.C:
	case <-ctx.Done():
		return core.Run{}, c.cut(ctx)
	}
	return run, nil
}

func (c *children) cut(ctx context.Context) error {
	return core.Errorf(core.CodeCancelled, "stopped waiting for a run of the agent: %w", context.Cause(ctx))
}

// abort asks for the end of a child whose parent is about to end.
func (c *children) abort(id core.ID) {
	if err := c.eng.abortChild(c.eng.last, id, c.parent.RequestedBy); err != nil {
		c.eng.opts.Logger.Warn("cannot abort a run whose parent has ended", "workflow_id", id, "error", err)
	}
}

// calls counts the tool calls of a run, with those of agents that it has started and
// what these have used, and names the calls that somebody was asked about and has
// refused.
func (c *children) calls(ctx context.Context, id core.ID) (out agent.Outcome, err error) {
	records, err := c.eng.opts.Store.Journal(ctx, id, 0)
	if err != nil {
		return out, err
	}
	out.Usage.USD = new(float64)
	for _, r := range records {
		if r.Kind != core.RecordSettled || r.Tool == core.SleepTool || refusedByBudget(r.Error) {
			continue
		}
		out.Calls++
		if r.Agent != nil {
			out.Calls += r.Agent.Calls
			out.Usage.Add(r.Agent.Usage)
		}
		if r.Outcome == core.OutcomeDenied && r.Error != nil && r.Error.Code == core.CodeDenied && r.Error.Decided != nil {
			out.Denied = append(out.Denied, r.Tool+" "+r.ArgsDigest)
		}
	}
	if out.Usage == (core.AgentUsage{USD: out.Usage.USD}) {
		out.Usage = core.AgentUsage{} // nothing was spent
	}
	return out, nil
}

// passes reports whether a provider of models refuses a request for now only, or has
// lost it on the way.
func passes(err *core.Error) bool {
	return slices.Contains([]core.Code{
		core.CodeRateLimited, core.CodeModelUnavailable, core.CodeModelStream, core.CodeModelTimeout, core.CodeServerUnreachable,
	}, err.Code)
}

// longestRetryAfter bounds how long a call waits because its provider wants to be left
// alone.
const longestRetryAfter = 5 * time.Minute

// startAgent makes a call of the built-in server of agents: the agent is a run of its own
// below this one, as a script of an agent is. The host makes the call all the same: its
// rules and hook flows are those of any call.
func (d *dispatcher) startAgent(c *call) {
	tool, args, share := c.tool, c.sent.raw, c.share
	k, gc := d.children(c), d.gates.call(c)
	gc.Attempt = c.attempt
	k.create = func(ctx context.Context) (core.Run, core.Program, error) {
		return k.agent(ctx, tool, args, share.Granted)
	}
	gc.Make = func(ctx context.Context) (json.RawMessage, error) {
		value, err := k.run(ctx, func(_ context.Context, run core.Run) (json.RawMessage, error) { return k.answerOf(run, tool, args) })
		if k.failed != nil {
			err = &NotMadeError{core.AsError(err)} // there is no end that flows could look at
		}
		return value, err
	}
	d.startRun(c, k, func(ctx context.Context) (json.RawMessage, error) { return d.make(ctx, gc, func(string) {}) })
}

// agent makes the run of an agent that a call has asked for, within what bounds its
// caller.
func (c *children) agent(ctx context.Context, tool string, args json.RawMessage, granted core.AgentBudget) (run core.Run, p core.Program, err error) {
	if c.eng.opts.Agent == nil {
		return run, p, core.Errorf(core.CodeInvalidConfig, "this pml has no model to ask").WithNotMade()
	}
	o := c.parent.Options
	if tool == core.DelegateTool && o.Agents >= core.MaxAgents {
		return run, p, core.Errorf(core.CodeDepthLimit, "%s is refused: agents are inside one another %d deep, and that is the limit", tool, core.MaxAgents).WithNotMade()
	}
	wanted, err := agent.Wanted(tool, args)
	if err != nil {
		return run, p, core.AsError(err).WithNotMade()
	}
	if run, err = c.header(core.KindAgent, wanted.Goal); err != nil {
		return run, p, err
	}
	bounds := o.AllowedLists()
	run.Options = core.RunOptions{Allowed: wanted.Allowed, Bounds: bounds, Agents: o.Agents + 1, HIL: o.HIL}
	spec, err := c.eng.opts.Agent(ctx, run, tool, args)
	if err != nil {
		return run, p, core.AsError(err).WithNotMade()
	}
	spec.Budget = spec.Budget.Within(granted)
	spec.Budget.Ask = false // whoever is above is asked
	if spec.Budget.USD > 0 && spec.Price == nil {
		return run, p, core.Errorf(core.CodeInvalidArguments, "nobody knows the price of the model %s, so the budget in dollars that holds for %s cannot be kept", spec.Model, tool).WithNotMade()
	}
	return run, core.Program{Kind: core.KindAgent, Version: 1, Agent: &spec}, nil
}

// answerOf is what a call returns by what its agent came to.
func (c *children) answerOf(run core.Run, tool string, args json.RawMessage) (json.RawMessage, error) {
	var r core.AgentResult
	if len(run.Result) > 0 {
		if err := json.Unmarshal(run.Result, &r); err != nil {
			return nil, core.Errorf(core.CodeReplay, "the result of the agent %s cannot be read: %w", run.ID.Short(), err)
		}
	}
	c.used = &core.AgentShare{Usage: r.Usage, Calls: r.Calls}
	if run.State != core.RunComplete {
		return nil, nil
	}
	return agent.Value(tool, args, r)
}
