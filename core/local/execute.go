package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
func (c *Client) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	if _, err := c.config(); err != nil {
		return api.Result{}, err
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
	if req.Code == "" && len(req.Tasks) == 0 && (req.Accept != nil || req.Intent != "") {
		return c.intend(ctx, req)
	}
	if req.ID != "" {
		if known, err := c.known(ctx, req); err != nil {
			return api.Result{}, err
		} else if known {
			return c.Continue(ctx, api.ContinueRequest{ID: req.ID, By: req.By, Wait: req.Wait, HoldApprovals: req.HoldApprovals})
		}
	}
	// One deadline for all that the caller waits for.
	called := c.o.Clock.Now()
	bounded, cancel := c.within(ctx, req.Wait)
	defer cancel()
	program, err := c.program(ctx, req)
	if err != nil {
		return api.Result{}, c.allFaults(bounded, req.Tasks, req.By, err)
	}
	run, err := c.newRun(req, program.Kind)
	if err != nil {
		return api.Result{}, err
	}
	left := func() time.Duration {
		if req.Wait < 0 {
			return req.Wait
		}
		return max(0, req.Wait-c.o.Clock.Now().Sub(called))
	}
	if tools, err := c.clientTools(program.Plan); err != nil {
		return api.Result{}, err
	} else if len(tools) > 0 && !req.Detach {
		return c.giveAway(ctx, run, program, tools)
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return api.Result{}, err
	}
	foresight, err := foresee(ctx, bounded, eng, run, program)
	if err != nil {
		return api.Result{}, err
	}
	h, err := eng.StartForeseen(ctx, run, program, foresight)
	if err == nil && req.Started != nil {
		req.Started(run.ID)
	}
	if dup := duplicate(err); dup != "" {
		return c.again(ctx, dup, left(), req.HoldApprovals)
	}
	if err != nil {
		return api.Result{}, c.ownKey(err, run)
	}
	r, err := c.wait(ctx, h, nil, 0, left(), req.HoldApprovals, api.StatusSuccess)
	return *r, err
}

// known reports whether a server has given this run to this machine before. An id
// of another run, or one that is none, is refused: it is the server's choice.
func (c *Client) known(ctx context.Context, req api.ExecuteRequest) (bool, error) {
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
func (c *Client) newRun(req api.ExecuteRequest, kind core.Kind) (core.Run, error) {
	now := c.now()
	run := core.Run{
		ID: req.ID, Side: c.o.Side, Workspace: c.o.Workspace.Dir, Owner: c.scope.Owner, Origin: req.Origin, Kind: kind,
		Intent: req.Intent, CreatedAt: now, UpdatedAt: now, Options: req.RunOptions, ParentID: req.ParentID,
		RequestedBy: req.By, IdempotencyKey: keyFor(c.scope.Owner, req.IdempotencyKey),
	}
	if run.ID == "" {
		run.ID = c.o.NewID()
	}
	if run.RequestedBy == (core.Actor{}) {
		run.RequestedBy = c.scope.By
	}
	var err error
	run.IdempotencyDigest, err = keyDigest(req)
	return run, err
}

// again answers a request whose idempotency key stands for a run already.
func (c *Client) again(ctx context.Context, id core.ID, limit time.Duration, hold bool) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.Remote && !run.State.Final() {
		return c.givenAway(ctx, run)
	}
	return c.follow(ctx, id, nil, limit, hold)
}

// ownKey takes the owner out of what an error says of an idempotency key.
func (c *Client) ownKey(err error, run core.Run) error {
	if core.CodeOf(err) != core.CodeDigestMismatch || run.Owner == "" {
		return err
	}
	e := *core.AsError(err)
	e.Message = fmt.Sprintf("the idempotency key %q stands for another program, input or options; nothing was run, use another key", core.Visible(givenKey(run), 120, false))
	return &e
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
		Options core.RunOptions `json:"options"`
	}{req.Code, req.Tasks, req.RunOptions})
}

// within is a context that ends with errWaited once a caller has waited long
// enough, or pml stops; a negative limit is none.
func (c *Client) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.life, func() { stop(errWaited) })
	timed, cancel := ctx, context.CancelFunc(func() {})
	if limit >= 0 {
		timed, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
	}
	return timed, func() {
		unhook()
		cancel()
		stop(context.Canceled)
	}
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
func (c *Client) program(ctx context.Context, req api.ExecuteRequest) (core.Program, error) {
	switch {
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

// wait follows a run of this process until it ends or stops at people.
// decided are approvals that the status must have taken in before it counts, and
// woken is the wake-up that it must have come after. The result is never nil; it
// is not on the stack, as the calls that wait for people are many.
func (c *Client) wait(ctx context.Context, h *engine.Handle, decided []core.ID, woken uint64, limit time.Duration, hold bool, ok api.Status) (*api.Result, error) {
	called := c.o.Clock.Now()
	bounded, cancel := c.within(ctx, limit)
	defer cancel()
	s, err := h.Await(bounded, func(s engine.Status) bool {
		if engine.Ended(s) {
			return true
		}
		if !engine.Paused(s) || s.Seen < woken || stillOpen(s.Pending, decided) {
			return false
		}
		return !hold || len(s.Pending) == 0
	})
	if err != nil {
		if errors.Is(context.Cause(bounded), errWaited) {
			err = nil
		}
		return &api.Result{WorkflowID: h.ID, Status: api.StatusRunning}, err
	}
	if limit >= 0 {
		limit = max(0, limit-c.o.Clock.Now().Sub(called))
	}
	return c.standsAt(ctx, s, decided, limit, hold, ok)
}

// standsAt is what wait tells of the status that it has waited for.
func (c *Client) standsAt(ctx context.Context, s *engine.Status, decided []core.ID, limit time.Duration, hold bool, ok api.Status) (*api.Result, error) {
	id := s.Run.ID
	if core.CodeOf(s.Err) == core.CodeFenced { // somebody else runs it now
		r, err := c.follow(ctx, id, decided, limit, hold)
		return &r, err
	}
	if s.Err != nil {
		return &api.Result{}, core.AsError(s.Err).WithRun(id)
	}
	if s.Away {
		if r, went, err := c.whileAway(ctx, *s, decided, limit, hold); went {
			return &r, err
		}
	}
	if s.Stopped && c.o.Side == core.SideServer && !s.Run.State.Final() && s.Run.State != core.RunWaiting {
		return &api.Result{Status: api.StatusRunning, WorkflowID: id}, nil // whoever runs it next goes on
	}
	r, err := c.result(ctx, *s, ok)
	return &r, err
}

// whileAway goes on waiting for a run that has left memory because it waits:
// somebody has decided meanwhile, or the caller stays until somebody does.
func (c *Client) whileAway(ctx context.Context, s engine.Status, decided []core.ID, limit time.Duration, hold bool) (r api.Result, went bool, err error) {
	run, pending, err := c.standing(ctx, s.Run.ID)
	switch {
	case err != nil:
		return api.Result{}, true, err
	case run.State.Final() || run.Abort != nil || len(pending) < len(s.Pending) || stillOpen(s.Pending, decided):
		r, err = c.follow(ctx, run.ID, decided, limit, hold)
		return r, true, err
	case hold && len(pending) > 0:
		r, err = c.watch(ctx, run.ID, decided, limit, hold)
		return r, true, err
	}
	return api.Result{}, false, nil
}

var errWaited = errors.New("the wait is over")

func stillOpen(pending []core.Approval, decided []core.ID) bool {
	return slices.ContainsFunc(pending, func(a core.Approval) bool { return slices.Contains(decided, a.ID) })
}

// result tells what a run came to. ok is the word for success: a first
// execution and a continued one have different ones.
func (c *Client) result(ctx context.Context, s engine.Status, ok api.Status) (api.Result, error) {
	run := s.Run
	r := api.Result{
		WorkflowID: run.ID, ExecutedLocally: c.o.Side == core.SideClient, ExecutionTimeMS: run.ActiveMS,
		TotalLayers: run.TotalLayers,
	}
	if run.State.Final() {
		r.Totals = &api.Totals{ReplayedCalls: s.Replayed, SuccessfulTasks: s.Summary.OK, FailedTasks: s.Summary.Failed}
		r.DAG = &api.DAGSummary{Tasks: s.Summary.Tasks, Layers: run.TotalLayers, Tools: slices.Clone(s.Summary.Tools)}
		if r.DAG.Tools == nil {
			r.DAG.Tools = []string{} // a list for programs, not null
		}
	}
	switch run.State {
	case core.RunComplete:
		r.Status, r.Result = ok, run.Result
		return r, nil
	case core.RunAborted:
		r.Status = api.StatusAborted
		if run.Error != nil {
			r.Error, r.ErrorCode, r.Reason = run.Error.Message, run.Error.Code, run.Error.Message
		}
		if run.Abort != nil && run.Abort.Reason != "" {
			r.Reason = run.Abort.Reason
		}
		return r, nil
	case core.RunFailed, core.RunExpired:
		return failedResult(r, run), nil
	case core.RunWaiting:
		if s.Layer != nil || len(s.Pending) > 0 {
			return c.paused(ctx, r, s)
		}
		return expiredResult(r, run.ID), nil
	case core.RunRunning, core.RunInterrupted:
	}
	r.Status = api.StatusRunning
	if run.State == core.RunInterrupted {
		return api.Result{}, core.Errorf(core.CodeCancelled, "the run %s was interrupted; nothing is lost", run.ID.Short()).
			WithRun(run.ID).WithNext("pml", "continue", run.ID.Short())
	}
	return r, nil
}

func failedResult(r api.Result, run core.Run) api.Result {
	r.Status = api.StatusError
	e := run.Error
	if e == nil {
		e = core.Errorf(core.CodeWorkflowExpired, "the run %s has expired", run.ID.Short())
	}
	r.Error, r.ErrorCode, r.Location, r.Failures = e.Message, e.Code, e.Location, e.Failures
	r.Faults, r.Next, r.Decided, r.Stack = e.Faults, e.Next, e.Decided, e.Stack
	return r
}

func expiredResult(r api.Result, id core.ID) api.Result {
	r.Status, r.ErrorCode = api.StatusError, core.CodeApprovalExpired
	r.Error = "what the run asked for has expired without a decision; continue it to be asked again, do not execute it anew"
	r.Next = []string{"pml", "continue", id.Short()}
	return r
}

// paused is the result of a run that waits for a person: at the end of a
// layer, or at a gate.
func (c *Client) paused(ctx context.Context, r api.Result, s engine.Status) (api.Result, error) {
	r.Pending = slices.Clone(s.Pending)
	r.Options = []string{"continue", "abort", "replan"}
	if s.Run.Kind != core.KindDAG {
		r.Options = []string{"continue", "abort"}
	}
	slices.SortFunc(r.Pending, core.BySoonest)
	var first *core.Approval
	for i := range r.Pending {
		if r.Pending[i].Type != core.ApproveLayer {
			first = &r.Pending[i]
			break
		}
	}
	if first == nil && len(r.Pending) > 0 {
		first = &r.Pending[0]
	}
	if first == nil {
		return expiredResult(r, s.Run.ID), nil
	}
	r.CheckpointID, r.ExpiresAt, r.Digest = first.ID, first.ExpiresAt, first.Digest
	r.ApprovalType, r.Description, r.Context = first.Type, first.Description, first.Context
	r.Status = api.StatusApprovalRequired
	if first.Type != core.ApproveLayer || s.Layer == nil || s.Layer.Done < 0 {
		return r, nil
	}
	r.Status = api.StatusLayerComplete
	r.LayerIndex = &s.Layer.Done
	r.NextLayer = &api.LayerPreview{Index: s.Layer.Done + 1, Tasks: []api.PreviewTask{}}
	for _, t := range s.Layer.Next {
		r.NextLayer.Tasks = append(r.NextLayer.Tasks, api.PreviewTask{ID: t.ID, Tool: t.Tool})
	}
	records, err := c.o.Store.Journal(ctx, s.Run.ID, 0)
	if err != nil {
		return api.Result{}, err
	}
	r.LayerResults = layerResults(records, s.Layer.Done)
	return r, nil
}

func layerResults(records []core.Record, layer int) []api.LayerResult {
	out := []api.LayerResult{}
	for _, rec := range records {
		if rec.Kind != core.RecordSettled || rec.Layer != layer {
			continue
		}
		lr := api.LayerResult{TaskID: rec.CallID, Tool: rec.Tool, Status: rec.Outcome.State(), Output: rec.Result, DurationMS: rec.DurationMS()}
		if rec.Error != nil {
			lr.Error = rec.Error.Message
		}
		out = append(out, lr)
	}
	return out
}
