package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Execute starts a run on the server and waits for it as the request says. It
// is sent under an idempotency key, the caller's or one of its own: a request
// whose answer got lost is sent again and starts nothing twice.
func (c *Client) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	return c.execute(ctx, req, c.waiting(req.Wait, req.HoldApprovals), false)
}

func (c *Client) execute(ctx context.Context, req api.ExecuteRequest, w waiting, patient bool) (api.Result, error) {
	body := executeBody(req)
	if body.Options.IdempotencyKey == "" && runs(req) {
		body.Options.IdempotencyKey = c.o.NewKey()
	}
	var r api.Result
	err := c.persist(ctx, w.away, patient, func() error {
		chunk := w.chunk()
		if req.Started != nil {
			chunk = min(chunk, firstLook)
		}
		body.Options.Wait = millis(chunk)
		return c.ask(ctx, request{method: http.MethodPost, path: "/workflows", body: body, key: body.Options.IdempotencyKey, wait: chunk}, &r)
	})
	if err != nil {
		return api.Result{}, err
	}
	if req.Started != nil && r.WorkflowID != "" {
		req.Started(r.WorkflowID)
	}
	r, err = w.follow(ctx, r.WorkflowID, r)
	if r.Status == api.StatusComplete {
		r.Status = api.StatusSuccess // the run began with this call, in however many pieces it was waited for
	}
	return r, err
}

// firstLook is how long the first answer may take where the caller wants to
// know the run's id before it has ended.
const firstLook = time.Second

// runs reports whether a request may start a run; an intent alone asks what
// could be run, and with layers validated it may start paused.
func runs(req api.ExecuteRequest) bool {
	return req.Agent != nil || req.Code != "" || len(req.Tasks) > 0 || req.Accept != nil || req.PerLayer
}

func executeBody(req api.ExecuteRequest) api.ExecuteBody {
	b := api.ExecuteBody{
		Intent: req.Intent, Name: req.Name, Code: req.Code, File: req.File, Input: req.Input, AcceptSuggestion: req.Accept,
		Options: &api.ExecuteOptions{
			Timeout: req.TimeoutMS, PerLayer: req.PerLayer, HIL: req.HIL, IdempotencyKey: req.IdempotencyKey, HoldApprovals: req.HoldApprovals, Detach: req.Detach,
		},
	}
	b.Agent = api.AgentBodyOf(req.Agent)
	if len(req.Tasks) > 0 {
		b.Workflow = &api.WorkflowBody{Tasks: req.Tasks}
	}
	return b
}

// Continue decides, if a decision is given, and waits for the run. A decision
// that names its approval is sent again when the answer got lost. One that
// means whatever waits is not, as it could meet another question: then the
// result tells what waits now.
func (c *Client) Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
	w := c.waiting(req.Wait, req.HoldApprovals)
	body := api.ContinueBody{Decision: decisionBody(req.Decision), Reason: req.Reason, HoldApprovals: req.HoldApprovals}
	var first api.Result
	follow := req.Follow
	send := func() error {
		chunk, query := w.chunk(), url.Values{}
		if body.Wait = millis(chunk); follow {
			query = followOnly
		}
		err := c.ask(ctx, request{method: http.MethodPost, path: runPath(req.ID, "continue"), query: query, body: body, wait: chunk, by: req.By}, &first)
		if _, sent := away(err); sent {
			follow = true // it may have passed a pause: whoever asked has not seen the next one
		}
		return err
	}
	var err error
	if req.Decision == nil || req.Decision.Checkpoint != "" {
		err = c.persist(ctx, w.away, false, send)
	} else if err = send(); err != nil {
		if _, sent := away(err); sent {
			first, err = api.Result{Status: api.StatusRunning, WorkflowID: req.ID}, nil
			w.until = later(w.until, c.o.Clock.Now().Add(time.Second))
		}
	}
	if err != nil {
		return api.Result{}, err
	}
	r, err := w.follow(ctx, req.ID, first)
	if r.Decided == nil {
		r.Decided = first.Decided
	}
	return r, err
}

// followOnly is the query of a request that only waits (api.ContinueRequest.Follow). An
// older server does not know it, and goes on as it always has.
var followOnly = url.Values{"follow": {"true"}}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// AdoptPin makes the server's store want the PIN of its configuration; old is the
// one that it wants so far.
func (c *Client) AdoptPin(ctx context.Context, old string) error {
	body := struct {
		Old string `json:"old,omitempty"`
	}{old}
	return c.ask(ctx, request{method: http.MethodPost, path: "/pin", body: body}, &struct{}{})
}

func decisionBody(d *api.Decision) *api.DecisionBody {
	if d == nil {
		return nil
	}
	return &api.DecisionBody{
		Approved: &d.Approve, Checkpoint: d.Checkpoint, AllOfType: d.AllOfType, ExpectDigest: d.ExpectDigest,
		Abort: d.Abort, Feedback: d.Reason, Answer: d.Answer, More: d.More, Pin: d.Pin, Presence: d.Presence,
	}
}

// Retry runs the failed calls of a failed run again. It is not sent twice: when
// the answer got lost the run is looked at instead.
func (c *Client) Retry(ctx context.Context, id core.ID, _ core.Actor, wait time.Duration) (api.Result, error) {
	w := c.waiting(wait, false)
	var r api.Result
	chunk := w.chunk()
	err := c.ask(ctx, request{method: http.MethodPost, path: runPath(id, "retry"), body: api.RetryBody{Wait: millis(chunk)}, wait: chunk}, &r)
	if err != nil {
		return api.Result{}, c.unknown(err, id, "retried")
	}
	return w.follow(ctx, id, r)
}

// abortWait is how long a server may take to carry an abort out.
const abortWait = 10 * time.Second

// Abort ends a run. A run is aborted once, however often it is asked for.
func (c *Client) Abort(ctx context.Context, id core.ID, _ core.Actor, reason string) (r api.Result, err error) {
	err = c.persist(ctx, c.o.Limits.Away, false, func() error {
		return c.ask(ctx, request{method: http.MethodPost, path: runPath(id, "abort"), body: api.AbortBody{Reason: reason}, wait: abortWait}, &r)
	})
	return r, err
}

// Replan adds tasks to a DAG.
func (c *Client) Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, _ core.Actor, reason string) (api.Result, error) {
	return c.replan(ctx, id, api.ReplanBody{NewTasks: tasks, Reason: reason})
}

// ReplanFor adds tasks that the server suggests for a requirement.
func (c *Client) ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, _ core.Actor, reason string) (api.Result, error) {
	return c.replan(ctx, id, api.ReplanBody{NewRequirement: requirement, AvailableContext: available, Reason: reason})
}

func (c *Client) replan(ctx context.Context, id core.ID, body api.ReplanBody) (r api.Result, err error) {
	err = c.ask(ctx, request{method: http.MethodPost, path: runPath(id, "replan"), body: body}, &r)
	return r, c.unknown(err, id, "replanned")
}

// unknown is the error of a request that may have been carried out and cannot
// be sent again.
func (c *Client) unknown(err error, id core.ID, done string) error {
	if _, sent := away(err); !sent {
		return err
	}
	return core.Errorf(core.CodeServerUnreachable, "the connection to %s was lost, and it is not known whether the run %s was %s; look at it first (%w)", c.name, id.Short(), done, err).
		WithRun(id).WithNext("pml", "workflows", "show", id.Short())
}

// Trace reports a run that the server gave to this machine. The same report
// again is no error, so it is sent again when its answer got lost.
func (c *Client) Trace(ctx context.Context, id core.ID, t api.Trace) error {
	return c.persist(ctx, c.o.Limits.Away, false, func() error {
		return c.ask(ctx, request{method: http.MethodPost, path: runPath(id, "trace"), body: t}, nil)
	})
}

// Plan says what a program would do on the server.
func (c *Client) Plan(ctx context.Context, req api.ExecuteRequest) (p core.Plan, err error) {
	err = c.ask(ctx, request{method: http.MethodPost, path: "/plan", body: executeBody(req)}, &p)
	return p, err
}
