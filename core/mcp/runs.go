package mcp

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// task is a task of a DAG with both spellings of its dependencies.
type task struct {
	core.TaskSpec
	Alias []string `json:"dependsOn"`
}

func specs(tasks []task) []core.TaskSpec {
	out := make([]core.TaskSpec, len(tasks))
	for i, t := range tasks {
		out[i] = t.TaskSpec
		out[i].DependsOn = append(out[i].DependsOn, t.Alias...)
	}
	return out
}

// executeArgs are the arguments of execute. What tells absent from empty is a
// pointer.
type executeArgs struct {
	Intent   string  `json:"intent"`
	Name     string  `json:"name"`
	Code     *string `json:"code"`
	Workflow *struct {
		Tasks []task `json:"tasks"`
	} `json:"workflow"`
	Input   json.RawMessage `json:"input"`
	Options struct {
		api.ExecuteOptions
		Wait *int64 `json:"wait"`
	} `json:"options"`
	Accept   *api.Acceptance       `json:"accept_suggestion"`
	Continue *api.ContinueWorkflow `json:"continue_workflow"`
}

// decode reads arguments that the schema has let through.
func decode(c *call, into any) error {
	if err := json.Unmarshal(c.args, into); err != nil {
		return core.Errorf(core.CodeInvalidArguments, "the arguments cannot be read: %w", err)
	}
	return nil
}

// patience is how long a call waits. Without a wish of the caller it waits
// for computing, never for a person; with one it waits for whatever takes time,
// no longer than that.
type patience struct {
	limit time.Duration
	hold  bool
}

// patienceIn is what the arguments of a call say of its patience.
func patienceIn(args json.RawMessage) patience {
	var in struct {
		Options struct {
			Wait *int64 `json:"wait"`
		} `json:"options"`
	}
	_ = json.Unmarshal(args, &in) // they were checked when they could be
	return patienceOf(in.Options.Wait)
}

// maxMS is the longest time that arguments may ask for, a year in ms. Anything
// much longer would not fit into a time.Duration.
const maxMS = 365 * 24 * 60 * 60 * 1000

func patienceOf(ms *int64) patience {
	if ms == nil {
		return patience{limit: -1}
	}
	return patience{limit: time.Duration(*ms) * time.Millisecond, hold: *ms > 0}
}

// execute runs code or a DAG, or asks for suggestions. What decides comes
// first: continue_workflow, accept_suggestion, workflow, code, intent. A thousand
// calls may wait in it for people, so it has no request and no result on its
// stack.
func execute(ctx context.Context, e *Edge, c *call) (any, error) {
	in, err := readExecute(c)
	if err != nil {
		return nil, err
	}
	p := patienceOf(in.Options.Wait)
	if in.Continue != nil {
		return e.decideFirst(ctx, c, *in.Continue, p)
	}
	req, err := in.request(c, p)
	if err != nil {
		return nil, err
	}
	return e.runHeld(ctx, c, req, p)
}

// runHeld starts a run and answers how it stands once the caller's patience is over.
func (e *Edge) runHeld(ctx context.Context, c *call, req *api.ExecuteRequest, p patience) (any, error) {
	holder := c.holder(req)
	started := make(chan core.ID, 1)
	defer e.accompany(ctx, c, started)()
	called := e.o.Clock.Now()
	r, err := e.start(ctx, c, req, started)
	if err == nil && holder != nil && len(r.Pending) > 0 {
		r, err = holder.Hold(ctx, r.WorkflowID, max(0, p.limit-e.o.Clock.Now().Sub(called)))
	}
	if err != nil {
		return nil, err
	}
	return e.settle(ctx, c, r, p, api.StatusSuccess)
}

// holder is what waits for people instead of Execute, nil if nothing does. A run
// that was there before, by its key, is described in other words.
func (c *call) holder(req *api.ExecuteRequest) Holder {
	h, ok := c.backend.(Holder)
	if !ok || !req.HoldApprovals || req.IdempotencyKey != "" {
		return nil
	}
	req.HoldApprovals = false
	return h
}

// readExecute reads the arguments of execute.
func readExecute(c *call) (*executeArgs, error) {
	in := &executeArgs{}
	if err := decode(c, in); err != nil {
		return nil, err
	}
	if in.Options.Timeout > maxMS {
		return nil, refuse("execute", "/options/timeout", "it must be at most "+strconv.Itoa(maxMS)+", a year")
	}
	return in, nil
}

// request is what the arguments ask of a backend.
func (in *executeArgs) request(c *call, p patience) (*api.ExecuteRequest, error) {
	req := &api.ExecuteRequest{
		Intent: in.Intent, Name: in.Name, By: c.by, Wait: p.limit, HoldApprovals: p.hold && !c.asks(), IdempotencyKey: in.Options.IdempotencyKey,
		RunOptions: core.RunOptions{
			TimeoutMS: in.Options.Timeout, PerLayer: in.Options.PerLayer, HIL: in.Options.HIL, Input: in.Input,
		},
	}
	switch {
	case in.Accept != nil:
		req.Accept = in.Accept
	case in.Workflow != nil && in.Code != nil:
		return nil, refuse("execute", "/workflow", "give workflow or code, not both")
	case in.Workflow != nil:
		req.Tasks = specs(in.Workflow.Tasks)
	case in.Code != nil:
		if strings.TrimSpace(*in.Code) == "" {
			return nil, core.Errorf(core.CodeEmptyCode, "the code is empty; give code that calls tools and returns a value")
		}
		req.Code = *in.Code
	case strings.TrimSpace(in.Intent) == "":
		return nil, refuse("execute", "", "give one of intent, code, workflow, accept_suggestion, continue_workflow")
	}
	return req, nil
}

// start makes a run when it is its turn, and tells started of it.
func (e *Edge) start(ctx context.Context, c *call, req *api.ExecuteRequest, started chan<- core.ID) (*api.Result, error) {
	begun, ended, err := e.turns.take(ctx, c.backend, e.o.Log)
	if err != nil {
		return nil, err
	}
	req.Started = func(id core.ID) {
		begun(id)
		select {
		case started <- id:
		default:
		}
	}
	r := &api.Result{}
	defer func() { ended(r, err) }()
	*r, err = c.backend.Execute(ctx, *req)
	return r, err
}

// decideFirst is execute's older spelling of a decision: a no aborts the run.
func (e *Edge) decideFirst(ctx context.Context, c *call, in api.ContinueWorkflow, p patience) (any, error) {
	approved := in.Approved != nil && *in.Approved
	d := &api.Decision{Approve: approved, Abort: !approved, Reason: in.Reason}
	if !approved && d.Reason == "" {
		d.Reason = core.RejectedApproval
	}
	return e.move(ctx, c, string(in.WorkflowID), string(in.CheckpointID), d, "", p)
}

// goOn is the tool continue.
func goOn(ctx context.Context, e *Edge, c *call) (any, error) {
	var in struct {
		ID     string `json:"workflow_id"`
		Reason string `json:"reason"`
	}
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	return e.move(ctx, c, in.ID, "", nil, in.Reason, patienceOf(nil))
}

// answer is the tool approval_response: it decides one approval, and a no
// leaves the run alive. What an approval may remember is not for an agent.
func answer(ctx context.Context, e *Edge, c *call) (any, error) {
	var in struct {
		ID         string `json:"workflow_id"`
		Checkpoint string `json:"checkpoint_id"`
		Approved   bool   `json:"approved"`
		Feedback   string `json:"feedback"`
		InDoubt    *struct {
			Way    core.InDoubtAnswer `json:"way"`
			Result json.RawMessage    `json:"result"`
		} `json:"in_doubt"`
	}
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	d := &api.Decision{Approve: in.Approved, Reason: in.Feedback}
	if doubt := in.InDoubt; doubt != nil {
		switch {
		case !in.Approved:
			return nil, refuse("approval_response", "/in_doubt", "it goes with approved: true; a no needs none")
		case doubt.Way == core.RunAgain && len(doubt.Result) > 0:
			return nil, refuse("approval_response", "/in_doubt/result", "it goes with way: skip")
		}
		d.Answer = &core.Answer{InDoubt: doubt.Way, Result: doubt.Result}
	}
	value, err := e.move(ctx, c, in.ID, in.Checkpoint, d, "", patienceOf(nil))
	if ce := core.AsError(err); err != nil && ce.Code == core.CodeInvalidArguments && d.Approve && d.Answer == nil {
		named := *ce
		named.Message += ` (approval_response has in_doubt for it: {"way":"run_again"}, or {"way":"skip","result":…})`
		return nil, &named
	}
	return value, err
}

// move continues a run, deciding first when there is a decision.
func (e *Edge) move(ctx context.Context, c *call, text, checkpoint string, d *api.Decision, reason string, p patience) (any, error) {
	id, named, err := c.backend.Resolve(ctx, text)
	if err != nil {
		return nil, err
	}
	if d != nil {
		d.Checkpoint = named
	}
	if d != nil && checkpoint != "" {
		of, approval, err := c.backend.Resolve(ctx, checkpoint)
		if err != nil {
			return nil, err
		}
		if approval == "" || !api.Below(ctx, c.backend, of, id) {
			return nil, core.Errorf(core.CodeNotFound, "the run %s has no approval %s", id.Short(), core.Visible(checkpoint, 64, false)).WithRun(id)
		}
		d.Checkpoint = approval
	}
	started := make(chan core.ID, 1)
	started <- id
	defer e.accompany(ctx, c, started)()
	r, err := c.backend.Continue(ctx, api.ContinueRequest{
		ID: id, Decision: d, Reason: reason, By: c.by, Wait: p.limit, HoldApprovals: p.hold && !c.asks(),
	})
	if err != nil {
		return nil, err
	}
	return e.settle(ctx, c, &r, p, api.StatusComplete)
}

// lookWait bounds the second look at a run that was waited for in vain.
const lookWait = time.Second

// settle is the result as the caller gets it: who can be asked about what waits
// is asked. done is the word for success.
func (e *Edge) settle(ctx context.Context, c *call, r *api.Result, p patience, done api.Status) (any, error) {
	if p.hold && !c.asks() {
		r = new(e.lookAgain(ctx, c, *r, done))
	}
	return paused{e: e, c: c, p: p, done: done}.put(ctx, *r)
}

// lookAgain is the result for a caller whose time is over while people have not
// decided: the answer says what waits rather than that the run runs.
func (e *Edge) lookAgain(ctx context.Context, c *call, r api.Result, done api.Status) api.Result {
	if r.Status != api.StatusRunning || r.WorkflowID == "" {
		return r
	}
	w, err := c.backend.Workflow(ctx, r.WorkflowID)
	if err != nil || w.State != core.RunWaiting {
		return r // the first answer is still true
	}
	again, err := c.backend.Continue(ctx, api.ContinueRequest{ID: r.WorkflowID, By: c.by, Wait: lookWait, Follow: true})
	if err != nil {
		return r // the first answer is still true
	}
	if again.Status == api.StatusComplete {
		again.Status = done
	}
	return again
}

func abort(ctx context.Context, _ *Edge, c *call) (any, error) {
	var in struct {
		ID     string `json:"workflow_id"`
		Reason string `json:"reason"`
	}
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	id, _, err := c.backend.Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return c.backend.Abort(ctx, id, c.by, in.Reason)
}

func replan(ctx context.Context, _ *Edge, c *call) (any, error) {
	var in struct {
		ID          string          `json:"workflow_id"`
		Tasks       []task          `json:"new_tasks"`
		Requirement string          `json:"new_requirement"`
		Available   json.RawMessage `json:"available_context"`
		Reason      string          `json:"reason"`
	}
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	if (len(in.Tasks) > 0) == (in.Requirement != "") {
		return nil, refuse("replan", "", "give new_tasks or new_requirement, one of the two")
	}
	id, _, err := c.backend.Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Requirement != "" {
		return c.backend.ReplanFor(ctx, id, in.Requirement, in.Available, c.by, in.Reason)
	}
	return c.backend.Replan(ctx, id, specs(in.Tasks), c.by, in.Reason)
}

// listed is how many runs a list has unless more are wanted.
const listed = 20

func status(ctx context.Context, _ *Edge, c *call) (any, error) {
	var in struct {
		ID     string          `json:"workflow_id"`
		Status []core.RunState `json:"status"`
		Limit  int             `json:"limit"`
		Cursor string          `json:"cursor"`
	}
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		page, err := c.backend.Workflows(ctx, in.Status, or(in.Limit, listed), in.Cursor)
		if err == nil && page.Items == nil {
			page.Items = []core.Run{}
		}
		return page, err
	}
	id, _, err := c.backend.Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return c.backend.Workflow(ctx, id)
}
