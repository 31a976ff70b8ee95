package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
)

// maxNotMade is how often a call that only reads goes back to its gates because
// something has come up before it was made.
const maxNotMade = 3

// errClosing is the cause with which calls end that are under way when pml ends.
var errClosing = errors.New("pml stops")

// CallExposed makes a call of a tool that is offered through. It passes the
// gates. One that only reads is made at once and kept soon after; any other is a
// run of one call, journaled before it is made and again before its result is
// given. One that needs a decision is a run that waits.
func (c *Service) CallExposed(ctx context.Context, tool string, oc api.OfferedCall) (api.OfferedResult, error) {
	if c.life.Err() != nil {
		return api.OfferedResult{}, core.Errorf(core.CodeCancelled, "pml is stopping; nothing was called")
	}
	c.through.calls.Add(1)
	defer c.through.calls.Done()
	h, err := c.own()
	if err != nil {
		return api.OfferedResult{}, err
	}
	t, err := c.proxyCall(h, tool, oc)
	if err != nil {
		return api.OfferedResult{}, err
	}
	h.Attend(t.call.RunID, t.guest)
	var out api.OfferedResult
	defer func() { // in a panic, too
		if out.Paused != nil {
			t.stays(context.WithoutCancel(ctx))
		} else {
			h.Leave(t.call.RunID)
		}
	}()
	if out, err = t.made(ctx); err != nil {
		t.unanswered(err)
	}
	return out, saidError(t.server, err)
}

// made passes the call through the gates and makes it.
func (t *proxyCall) made(ctx context.Context) (api.OfferedResult, error) {
	bounded, cancel := t.c.untilClosed(ctx)
	defer cancel()
	for try := 1; ; try++ {
		v := t.checked(bounded)
		if v.Passage != nil {
			t.passage = v.Passage
		}
		if bounded.Err() != nil {
			return api.OfferedResult{}, core.Errorf(core.CodeCancelled, "the call of %s was cancelled before it was made: %w", t.call.Tool, context.Cause(bounded))
		}
		switch {
		case v.Deny != nil:
			return api.OfferedResult{}, t.refused(ctx, v.Deny)
		case len(v.Ask) > 0 && t.passage == nil:
			return t.ask(bounded)
		case !v.Known || !v.ReadOnly || len(v.Ask) > 0:
			v.Passage = t.passage // the run's call has met its flows, too
			return t.journaled(ctx, v)
		}
		out, err := t.read(bounded)
		if core.CodeOf(err) == core.CodeHalted { // it becomes a run, which waits
			v.Passage = t.passage
			return t.journaled(ctx, v)
		}
		var back *engine.NotMadeError
		if !errors.As(err, &back) {
			return out, err
		}
		if try == maxNotMade {
			return out, back.Reason
		}
	}
}

// proxyCall is one call on its way.
type proxyCall struct {
	c     *Service
	h     *gate.Host
	by    core.Actor
	call  engine.Call
	guest *gate.Guest
	oc    api.OfferedCall
	// passage is what flows made of the call; nil: it has met none.
	passage *core.Passage

	server string
}

func (c *Service) proxyCall(h *gate.Host, tool string, oc api.OfferedCall) (*proxyCall, error) {
	e, err := h.Exposure()
	if err != nil {
		return nil, err
	}
	args := json.RawMessage(bytes.TrimSpace(oc.Args))
	if len(args) == 0 || bytes.Equal(args, core.Null) {
		args = json.RawMessage("{}")
	}
	if args[0] != '{' || !json.Valid(args) {
		return nil, core.Errorf(core.CodeInvalidArguments, "the arguments of %s must be one JSON object", core.Visible(tool, 120, false))
	}
	if err := core.CheckDepth("the argument of "+tool, args); err != nil {
		return nil, err
	}
	if err := core.CheckKeys("the argument of "+tool, args); err != nil {
		return nil, err
	}
	digest, err := core.Digest(args)
	if err != nil {
		return nil, err
	}
	by := oc.By
	if by == (core.Actor{}) {
		by = c.scope.By
	}
	server, _, _ := core.SplitTool(tool)
	t := &proxyCall{c: c, h: h, by: by, oc: oc, server: server, guest: &gate.Guest{Peer: c.guest(oc.Peer, server), Meta: oc.Meta}}
	if oc.Progress != nil {
		t.guest.Progress = func(message string, done, total float64) { oc.Progress(core.Visible(message, 0, true), done, total) }
	}
	t.call = engine.Call{
		ID: taskID(core.OfferedTask, args), Tool: tool, Args: args, Digest: digest, Attempt: 1, ArgsKnown: true,
	}.Of(&core.Run{ID: c.o.NewID(), RequestedBy: by, Owner: c.scope.Owner})
	if !e.Offers(tool) {
		if v, ok := h.Try(t.call); ok && v.Deny != nil { // a rule denies it: that is said, and kept
			return nil, t.refused(context.Background(), v.Deny)
		}
		return nil, core.Errorf(core.CodeNoSuchTool, "%s is not offered", core.Visible(tool, 120, false))
	}
	if tools, err := c.clientTools(&core.Plan{Tools: []string{tool}}); err != nil || len(tools) > 0 {
		if err == nil {
			err = core.Errorf(core.CodePermissionDenied, "%s runs on the caller's machine (routing), not on this server", core.Visible(tool, 120, false))
		}
		return nil, err
	}
	return t, nil
}

// checked passes the call through the gates.
func (t *proxyCall) checked(ctx context.Context) engine.Verdict {
	call, err := t.passed()
	if err != nil {
		return engine.Verdict{Deny: core.AsError(err)}
	}
	if v, ok := t.h.Try(call); ok {
		return v
	}
	return t.h.Check(ctx, call)
}

// passed is the call as flows have left it.
func (t *proxyCall) passed() (engine.Call, error) {
	if t.passage == nil {
		return t.call, nil
	}
	return gate.Passed(t.call, *t.passage)
}

// unanswered tells the flows that have let the call pass why it has no answer.
func (t *proxyCall) unanswered(err error) {
	if call, passed := t.passed(); passed == nil {
		t.h.Unanswered(call, core.AsError(err))
	}
}

// refused puts a refusal by a rule into the audit log and returns it.
func (t *proxyCall) refused(ctx context.Context, deny *core.Error) error {
	if deny.Code != core.CodePermissionDenied && deny.Code != core.CodeDenied && deny.Code != core.CodeHookFailed {
		return deny
	}
	err := t.c.trail.Record(context.WithoutCancel(ctx), core.AuditRow{
		Tool: t.call.Tool, Digest: t.call.Digest, Outcome: core.ApprovalDenied, By: deny.DeniedBy(), Reason: deny.Message,
	})
	if err != nil {
		t.c.o.Logger.Warn("cannot put a refusal into the audit log", "error", core.AsError(err))
	}
	return deny
}

// untilClosed is a context that ends some time after pml begins to stop, so that
// a call that is under way has time to end.
func (c *Service) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	grace := clientGrace
	if c.o.Side == core.SideServer {
		grace = serverGrace
	}
	stop := context.AfterFunc(c.life, func() {
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-late.C:
			cancel(errClosing)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// read makes a call that only reads.
func (t *proxyCall) read(ctx context.Context) (api.OfferedResult, error) {
	began := t.c.now()
	call, err := t.passed()
	if err != nil {
		return api.OfferedResult{}, err
	}
	call.Before = t.c.brake.maySend
	raw, err := t.h.Through(ctx, call, func(string) {})
	if isNotMade(err) || core.CodeOf(err) == core.CodeHalted {
		return api.OfferedResult{}, err
	}
	r := core.Record{
		Kind: core.RecordSettled, CallID: t.call.ID, Tool: t.call.Tool, Attempt: 1, ArgsDigest: t.call.Digest, Args: t.call.Args,
		StartedAt: began, At: t.c.now(), Outcome: core.OutcomeSuccess, Result: raw.Result,
	}
	if t.passage != nil {
		kept := *t.passage
		r.Sent, kept.Args, r.Passage = kept.Args, nil, &kept
	}
	if failed := t.failure(raw, err); failed != nil {
		r.Outcome, r.Error = core.OutcomeError, core.AsError(failed)
		if r.Error.Code == core.CodeCancelled {
			r.Outcome = core.OutcomeCancelled
		}
	}
	t.c.keepRead(t, r)
	return api.OfferedResult{Raw: raw.Result}, err
}

func isNotMade(err error) bool {
	var back *engine.NotMadeError
	return errors.As(err, &back)
}

// failure is why a call has failed, as it is kept.
func (t *proxyCall) failure(raw gate.Raw, err error) error {
	if err == nil && raw.Failed != nil {
		return raw.Failed
	}
	if asPeer(err) != nil {
		return core.Errorf(core.CodeToolFailed, "%s: %w", t.call.Tool, err)
	}
	return err
}

func asPeer(err error) *api.PeerError {
	if e, ok := errors.AsType[*api.PeerError](err); ok {
		return e
	}
	return nil
}

// tasks are the program of a run of this call.
func (t *proxyCall) tasks() []core.TaskSpec {
	return []core.TaskSpec{{ID: t.call.ID, Tool: t.call.Tool, Arguments: t.call.Args}}
}

// ask makes a run of the call that waits for what must be decided.
func (t *proxyCall) ask(ctx context.Context) (api.OfferedResult, error) {
	r, err := t.c.Execute(ctx, api.ExecuteRequest{
		ID: t.call.RunID, By: t.by, Wait: -1, Tasks: t.tasks(),
	})
	if err != nil {
		return api.OfferedResult{}, notDAG(err)
	}
	return t.offered(r)
}

// offered is how the run of the call stands, as its client gets it.
func (t *proxyCall) offered(r api.Result) (api.OfferedResult, error) {
	switch r.Status { //nolint:exhaustive // it waits in the others
	case api.StatusError, api.StatusAborted:
		return api.OfferedResult{}, failureOf(r)
	case api.StatusSuccess, api.StatusComplete:
		raw, ok := api.OfferedRaw(r.Result)
		if !ok {
			return api.OfferedResult{}, core.Errorf(core.CodeInternal, "cannot read the result of the call of %s", t.call.Tool).WithRun(r.WorkflowID)
		}
		return api.OfferedResult{Raw: raw}, nil
	}
	return api.OfferedResult{Paused: &r}, nil
}

// failureOf is the error of a result that is one.
func failureOf(r api.Result) error {
	code, message := r.ErrorCode, r.Error
	if code == "" {
		code = core.CodeAborted
	}
	if message == "" {
		message = strings.TrimSpace("the call was not made " + r.Reason)
	}
	e := core.Errorf(code, "%s", message).WithRun(r.WorkflowID)
	e.Next, e.Faults, e.Decided, e.Retryable = r.Next, r.Faults, r.Decided, r.Retryable
	return e
}
