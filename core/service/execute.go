package service

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/dag"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/sandbox"
)

// Execute checks a program, makes a run of it and runs it. Nothing is started
// when the program or the configuration is wrong. A server gives a program back
// that its configuration lets the caller's machine run.
func (c *execution) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	r, err := c.execute(ctx, req)
	return c.noticed(ctx, c.o.Workspace.Dir, r, err)
}

func (c *execution) execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	cfg, err := c.config()
	if err != nil {
		return api.Result{}, err
	}
	if cfg.Approvals.Pin != "" { // the store wants it before anything is asked
		if _, err := c.Setup.Pin.Guard(ctx); err != nil {
			return api.Result{}, err
		}
	}
	if !req.HIL.Valid() {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "hil must be always, side_effects or never, not %q", req.HIL)
	}
	if len(req.Input) > 0 && !json.Valid(req.Input) {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "the input is not valid JSON")
	}
	if err := core.CheckDepth("the input", req.Input); err != nil {
		return api.Result{}, err
	}
	if err := core.CheckKeys("the input", req.Input); err != nil {
		return api.Result{}, err
	}
	for _, t := range req.Tasks {
		if err := core.CheckKeys("the arguments of "+core.Visible(t.ID, 100, false), t.Arguments); err != nil {
			return api.Result{}, err
		}
	}
	if req.Agent == nil && req.Code == "" && len(req.Tasks) == 0 && (req.Accept != nil || req.Intent != "") {
		return c.intend(ctx, req)
	}
	if req.ID != "" {
		if known, err := c.known(ctx, req); err != nil {
			return api.Result{}, err
		} else if known {
			return c.Continue(ctx, api.ContinueRequest{ID: req.ID, By: req.By, Wait: req.Wait, HoldApprovals: req.HoldApprovals, Follow: true})
		}
	}
	// One deadline for all that the caller waits for.
	called := c.o.Clock.Now()
	bounded, cancel := c.within(ctx, req.Wait)
	defer cancel()
	program, err := c.programs.program(ctx, req)
	if err != nil {
		return api.Result{}, c.programs.allFaults(bounded, req.Tasks, req.By, err)
	}
	run, err := c.newRun(req, program)
	if err != nil {
		return api.Result{}, err
	}
	left := func() time.Duration {
		if req.Wait < 0 {
			return req.Wait
		}
		return max(0, req.Wait-c.o.Clock.Now().Sub(called))
	}
	if tools, err := c.handover.clientTools(program.Plan); err != nil {
		return api.Result{}, err
	} else if len(tools) > 0 && !req.Detach {
		return c.handover.giveAway(ctx, run, program, tools)
	}
	h, err := c.begin(ctx, bounded, cfg, run, program)
	if err == nil {
		tellBegun(req, run.ID, program)
	}
	if dup := duplicate(err); dup != "" {
		return c.handover.again(ctx, dup, left(), req.HoldApprovals)
	}
	if err != nil {
		return api.Result{}, c.ownKey(err, run)
	}
	r, err := c.waiting.wait(ctx, h, nil, 0, left(), req.HoldApprovals, api.StatusSuccess)
	r.Warnings = warningsOf(program)
	return *r, err
}

// tellBegun tells a caller of a run that there is now, and what its plan warns of.
func tellBegun(req api.ExecuteRequest, id core.ID, program core.Program) {
	if req.Started != nil {
		req.Started(id)
	}
	if list := warningsOf(program); req.Warned != nil && len(list) > 0 {
		req.Warned(list)
	}
}

// warningsOf is what the plan of a program warns of.
func warningsOf(program core.Program) []core.PlanNote {
	if program.Plan == nil {
		return nil
	}
	return program.Plan.Warnings
}

// known reports whether a server has given this run to this machine before. An id
// of another run, or one that is none, is refused: it is the server's choice.
func (c *execution) known(ctx context.Context, req api.ExecuteRequest) (bool, error) {
	if !fullID.MatchString(string(req.ID)) {
		return false, core.Errorf(core.CodeInvalidArguments, "the server gives the run an id that is none: %q", core.Visible(string(req.ID), 60, false))
	}
	run, err := c.o.Store.Run(ctx, req.ID)
	if core.CodeOf(err) == core.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	program, err := c.o.Store.Program(ctx, req.ID)
	if err != nil {
		return false, err
	}
	if run.Origin == "" || run.Origin != req.Origin || !runs(program, req) {
		return false, core.Errorf(core.CodeDigestMismatch, "the server gives the run the id %s, which is that of another run on this machine; nothing was run", req.ID.Short()).
			WithRun(req.ID)
	}
	return true, nil
}

var fullID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// runs reports whether a program is the one of a request, replans left out.
func runs(p core.Program, req api.ExecuteRequest) bool {
	first := p.Tasks
	if len(p.Added) > 0 {
		first = first[:min(len(first), p.Added[0].From)]
	}
	kept, err := core.DigestOf(slices.Concat([]core.TaskSpec{}, first))
	asked, err2 := core.DigestOf(slices.Concat([]core.TaskSpec{}, req.Tasks))
	return err == nil && err2 == nil && kept == asked && p.Source == req.Code
}

// newRun is the header of a run that is asked for.
func (c *execution) newRun(req api.ExecuteRequest, program core.Program) (core.Run, error) {
	now := c.now()
	run := core.Run{
		ID: req.ID, Side: c.o.Side, Workspace: c.o.Workspace.Dir, Owner: c.scope.Owner, Origin: req.Origin, Kind: program.Kind,
		Intent: req.Intent, Name: nameOf(req, program, c.shownOf(c.o.Workspace.Dir).Text), CreatedAt: now, UpdatedAt: now, Options: req.RunOptions,
		RequestedBy: req.By, IdempotencyKey: keyFor(c.scope.Owner, req.IdempotencyKey),
	}
	if run.ID == "" {
		run.ID = c.o.NewID()
	}
	if program.Agent != nil {
		run.Options.Allowed, run.Options.Agents = program.Agent.Allowed, 1
	}
	if run.RequestedBy == (core.Actor{}) {
		run.RequestedBy = c.scope.By
	}
	var err error
	run.IdempotencyDigest, err = keyDigest(req)
	return run, err
}

// keyDigest is of what an idempotency key stands for: the same program with the
// same input and options is the same run, another one is not.
func keyDigest(req api.ExecuteRequest) (string, error) {
	if req.IdempotencyKey == "" {
		return "", nil
	}
	return core.DigestOf(struct {
		Code    string          `json:"code"`
		Tasks   []core.TaskSpec `json:"tasks"`
		Agent   *core.AgentSpec `json:"agent,omitempty"`
		Options core.RunOptions `json:"options"`
	}{req.Code, req.Tasks, req.Agent, req.RunOptions})
}

// foresee finds out what a program cannot do before a run is made of it, within
// the time that the caller waits; after that the run finds out by itself.
func foresee(ctx, bounded context.Context, eng *engine.Engine, run core.Run, p core.Program) (*engine.Foresight, error) {
	f, err := eng.Foresee(bounded, run, p)
	if err == nil && ctx.Err() != nil {
		err = core.Errorf(core.CodeCancelled, "stopped before anything was started: %w", context.Cause(ctx))
	}
	return f, err
}

// duplicate returns the run that an idempotency key already stands for.
func duplicate(err error) core.ID {
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.CodeDuplicate {
		return e.RunID
	}
	return ""
}

// program compiles code or checks a DAG.
func (c *programs) program(ctx context.Context, req api.ExecuteRequest) (core.Program, error) {
	switch {
	case req.Agent != nil && (req.Code != "" || len(req.Tasks) > 0):
		return core.Program{}, core.Errorf(core.CodeInvalidArguments, "give an agent a goal, or a program, not both")
	case req.Agent != nil:
		return c.agent(ctx, req)
	case req.Code != "" && len(req.Tasks) > 0:
		return core.Program{}, core.Errorf(core.CodeInvalidArguments, "give code or a DAG, not both")
	case len(req.Tasks) > 0:
		g, err := dag.Build(req.Tasks, nil)
		if err != nil {
			return core.Program{}, err
		}
		return core.Program{Kind: core.KindDAG, Version: 1, Tasks: req.Tasks, Plan: g.Plan(), File: req.File}, nil
	}
	compiled, err := c.o.Sandbox.Compile(ctx, req.Code, req.File)
	if err != nil {
		return core.Program{}, err
	}
	return core.Program{
		Kind: core.KindCode, Version: 1, Source: req.Code, Script: compiled.Script, Sandbox: sandbox.Version,
		File: req.File, Plan: compiled.Plan,
	}, nil
}

// noticed adds to a result what a caller has to know of the workspace: which
// restrictions were taken out of its files and hold all the same. That goes to
// the audit log as well, as attempts that were refused do.
func (c *view) noticed(ctx context.Context, workspace string, r api.Result, err error) (api.Result, error) {
	list, taken := c.Setup.Workspace.Notices(workspace)
	if taken != "" {
		c.trail.NoteRefused(ctx, "taken_out", core.AuditRow{Workspace: workspace, Reason: taken})
	}
	r.Notices = append(r.Notices, list...)
	return r, err
}

// notices are those of this client's workspace, for lists: not for a caller with a
// key, whose workspace it is not.
func (c *view) notices() []string {
	if c.scope.Owner != "" {
		return nil
	}
	list, _ := c.Setup.Workspace.Notices(c.o.Workspace.Dir)
	if len(list) == 0 { // else trusting is asked for already
		if text := c.Setup.Workspace.NotTrusted(c.o.Workspace.Dir); text != "" {
			list = append(list, text)
		}
	}
	return list
}
