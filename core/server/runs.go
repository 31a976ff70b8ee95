package server

import (
	"context"
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/danielgtaylor/huma/v2"
)

// outcome answers with a result: 202 while the run goes on.
type outcome struct {
	Status int
	Body   api.Result
}

func outcomeOf(r api.Result, err error) (*outcome, error) {
	if err != nil {
		return nil, err
	}
	if r.Status == api.StatusRunning {
		return &outcome{Status: http.StatusAccepted, Body: r}, nil
	}
	return &outcome{Status: http.StatusOK, Body: r}, nil
}

type nothing struct{}

// RunPath is the part of a path that names a run.
type RunPath struct {
	ID string `path:"id" doc:"The id of a run, the first 4 or more characters of it, or @latest: the newest of the workspace"`
}

type executeInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"The same request with the same key runs once in 24 hours"`
	Body api.ExecuteBody
}

// Resolve reports what the schema cannot.
func (in *executeInput) Resolve(huma.Context) []error { return executeFaults(in.Body, in.Key) }

type continueInput struct {
	RunPath
	Follow bool `query:"follow" doc:"only wait for the run: a pause after a layer is not passed"`
	Body   *api.ContinueBody
}

type abortInput struct {
	RunPath
	Body *api.AbortBody
}

type retryInput struct {
	RunPath
	Body *api.RetryBody
}

type replanInput struct {
	RunPath
	Body api.ReplanBody
}

type traceInput struct {
	RunPath
	Body api.Trace
}

func (s *Server) addRuns() {
	add(s, accepted(op("execute", http.MethodPost, prefix+"/workflows", "Run code, a DAG, or what an intent suggests")), execute)
	add(s, op("plan", http.MethodPost, prefix+"/plan", "What would run; runs nothing"), plan)
	add(s, accepted(op("continue", http.MethodPost, prefix+"/workflows/{id}/continue", "Go on, after a decision if one is given")), goOn)
	add(s, accepted(op("retry", http.MethodPost, prefix+"/workflows/{id}/retry", "Run failed tasks again, and what depends on them")), retry)
	add(s, op("abort", http.MethodPost, prefix+"/workflows/{id}/abort", "Stop a run for good"), abort)
	add(s, op("replan", http.MethodPost, prefix+"/workflows/{id}/replan", "Add tasks to a DAG that waits"), replan)
	add(s, op("trace", http.MethodPost, prefix+"/workflows/{id}/trace", "Report what a client did with a run that it was given"), trace)
}

// accepted adds the answer of a request that stops waiting.
func accepted(o huma.Operation) huma.Operation {
	o.Responses = map[string]*huma.Response{
		"202": {Description: "It goes on; its status is running", Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Result"}},
		}},
		"default": errorAnswer(),
	}
	return o
}

func execute(ctx context.Context, c call, in *executeInput) (*outcome, error) {
	if d := in.Body.ContinueWorkflow; d != nil {
		return continueWorkflow(ctx, c, in.Body)
	}
	req, err := executeRequest(in.Body, in.Key, c.scope.By)
	if err != nil {
		return nil, err
	}
	return c.waits(req.Wait, func() (api.Result, error) { return c.Execute(ctx, req) })
}

// continueWorkflow is the older spelling of a decision: a denial aborts.
func continueWorkflow(ctx context.Context, c call, b api.ExecuteBody) (*outcome, error) {
	d := b.ContinueWorkflow
	id, approval, err := c.run(ctx, string(d.WorkflowID))
	if err != nil {
		return nil, c.unknownTo(ctx, "", string(d.WorkflowID), err)
	}
	if d.CheckpointID != "" {
		if approval, err = c.approvalOf(ctx, id, string(d.CheckpointID)); err != nil {
			return nil, c.unknownTo(ctx, id, string(d.CheckpointID), err)
		}
	}
	req := api.ContinueRequest{ID: id, By: c.scope.By, Reason: d.Reason, Decision: &api.Decision{
		Approve: *d.Approved, Checkpoint: approval, Abort: !*d.Approved, Reason: d.Reason,
	}}
	if b.Options != nil {
		req.Wait, req.HoldApprovals = waitOf(b.Options.Wait), b.Options.HoldApprovals
	}
	return c.waits(req.Wait, func() (api.Result, error) { return c.Continue(ctx, req) })
}

type planOutput struct{ Body core.Plan }

func plan(ctx context.Context, c call, in *executeInput) (*planOutput, error) {
	req, err := executeRequest(in.Body, in.Key, c.scope.By)
	if err != nil {
		return nil, err
	}
	p, err := c.Plan(ctx, req)
	if err != nil {
		return nil, err
	}
	return &planOutput{p}, nil
}

func goOn(ctx context.Context, c call, in *continueInput) (*outcome, error) {
	id, approval, err := c.run(ctx, in.ID)
	if err != nil {
		if in.Body != nil && in.Body.Decision != nil {
			err = c.unknownTo(ctx, "", in.ID, err)
		}
		return nil, err
	}
	req, said := api.ContinueRequest{ID: id, By: c.scope.By, Follow: in.Follow}, core.Presence("")
	if b := in.Body; b != nil {
		req.Reason, req.Wait, req.HoldApprovals = b.Reason, waitOf(b.Wait), b.HoldApprovals
		if d := b.Decision; d != nil {
			if req.Decision, err = c.decides(ctx, id, approval, *d); err != nil {
				return nil, err
			}
			if said = d.Presence; b.Wait == 0 {
				req.Wait = waitOf(d.Wait)
			}
		}
	}
	return c.waits(req.Wait, func() (api.Result, error) { return c.carryOn(ctx, req, said) })
}

// decides is the decision of a body about an approval of a run: the one that
// the body names, otherwise that of the path, if any.
func (c call) decides(ctx context.Context, run, approval core.ID, d api.DecisionBody) (*api.Decision, error) {
	if d.Checkpoint != "" {
		named, err := c.approvalOf(ctx, run, string(d.Checkpoint))
		if err != nil {
			return nil, c.unknownTo(ctx, run, string(d.Checkpoint), err)
		}
		if approval != "" && named != approval {
			return nil, invalid([]core.Fault{{Path: "/checkpoint_id", Message: "the path names another approval"}})
		}
		approval = named
	}
	if approval != "" && d.AllOfType != "" {
		return nil, invalid([]core.Fault{{Path: "/all_of_type", Message: "one approval is named; give one of the two"}})
	}
	return decision(ctx, d, approval), nil
}

func retry(ctx context.Context, c call, in *retryInput) (*outcome, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var b api.RetryBody
	if in.Body != nil {
		b = *in.Body
	}
	wait := waitOf(b.Wait)
	return c.waits(wait, func() (api.Result, error) { return c.Retry(ctx, id, c.scope.By, wait) })
}

func abort(ctx context.Context, c call, in *abortInput) (*outcome, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var b api.AbortBody
	if in.Body != nil {
		b = *in.Body
	}
	return outcomeOf(c.Abort(ctx, id, c.scope.By, b.Reason))
}

func replan(ctx context.Context, c call, in *replanInput) (*outcome, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	b := in.Body
	if (len(b.NewTasks) == 0) == (b.NewRequirement == "") {
		return nil, invalid([]core.Fault{{Message: "give either new_tasks or new_requirement"}})
	}
	if b.NewRequirement != "" {
		return outcomeOf(c.ReplanFor(ctx, id, b.NewRequirement, b.AvailableContext, c.scope.By, b.Reason))
	}
	return outcomeOf(c.Replan(ctx, id, b.NewTasks, c.scope.By, b.Reason))
}

func trace(ctx context.Context, c call, in *traceInput) (*nothing, error) {
	id, _, err := c.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &nothing{}, c.Trace(ctx, id, in.Body)
}
