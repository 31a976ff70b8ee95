package local

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

// maxThrough is how often a call goes back to its gates because something has
// come up before it was made.
const maxThrough = 3

// errClosing is the cause with which calls end that are under way when pml ends.
var errClosing = errors.New("pml stops")

// CallExposed makes a call of a tool that is offered through. It passes the
// gates. One that only reads is made at once and kept soon after; any other is a
// run of one call, journaled before it is made and again before its result is
// given. One that needs a decision is a run that waits.
func (c *Client) CallExposed(ctx context.Context, tool string, oc api.OfferedCall) (api.OfferedResult, error) {
	if c.life.Err() != nil {
		return api.OfferedResult{}, core.Errorf(core.CodeCancelled, "pml is stopping; nothing was called")
	}
	c.through.calls.Add(1)
	defer c.through.calls.Done()
	h, err := c.own()
	if err != nil {
		return api.OfferedResult{}, err
	}
	t, err := c.throughCall(h, tool, oc)
	if err != nil {
		return api.OfferedResult{}, err
	}
	h.Attend(t.call.RunID, t.guest)
	paused := false
	defer func() {
		if paused {
			t.stays(context.WithoutCancel(ctx))
		} else {
			h.Leave(t.call.RunID)
		}
	}()
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	for try := 1; ; try++ {
		v := t.checked(ctx)
		if ctx.Err() != nil {
			return api.OfferedResult{}, core.Errorf(core.CodeCancelled, "the call of %s was cancelled before it was made: %w", t.call.Tool, context.Cause(ctx))
		}
		var out api.OfferedResult
		switch {
		case v.Deny != nil:
			return out, t.refused(ctx, v.Deny)
		case len(v.Ask) > 0:
			out, paused, err = t.ask(ctx)
		case v.Known && v.ReadOnly:
			out, err = t.read(ctx)
		default:
			out, err = t.journaled(ctx, v.Repeatable)
		}
		var back *engine.NotMadeError
		if !errors.As(err, &back) {
			return out, saidError(t.server, err)
		}
		if try == maxThrough {
			return out, back.Reason
		}
		t.anew()
	}
}

// throughCall is one call on its way.
type throughCall struct {
	c     *Client
	h     *gate.Host
	by    core.Actor
	call  engine.Call
	guest *gate.Guest
	oc    api.OfferedCall

	server string
}

func (c *Client) throughCall(h *gate.Host, tool string, oc api.OfferedCall) (*throughCall, error) {
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
	digest, err := core.Digest(args)
	if err != nil {
		return nil, err
	}
	by := oc.By
	if by == (core.Actor{}) {
		by = c.scope.By
	}
	id := api.OfferedTask // no text of the arguments may look like a reference to it
	for bytes.Contains(args, []byte(id)) {
		id += "_"
	}
	server, _, _ := core.SplitTool(tool)
	t := &throughCall{c: c, h: h, by: by, oc: oc, server: server, guest: &gate.Guest{Peer: c.guest(oc.Peer, server), Meta: oc.Meta}}
	if oc.Progress != nil {
		t.guest.Progress = func(message string, done, total float64) { oc.Progress(core.Visible(message, 0, true), done, total) }
	}
	t.call = engine.Call{
		RunID: c.o.NewID(), Requester: by, Owner: c.scope.Owner, ID: id, Tool: tool, Args: args, Digest: digest, Attempt: 1, ArgsKnown: true,
	}
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

// anew makes the call one of another run: the one that was begun for it has ended
// without it.
func (t *throughCall) anew() {
	t.h.Leave(t.call.RunID)
	t.call.RunID = t.c.o.NewID()
	t.h.Attend(t.call.RunID, t.guest)
}

// checked passes the call through the gates.
func (t *throughCall) checked(ctx context.Context) engine.Verdict {
	if v, ok := t.h.Try(t.call); ok {
		return v
	}
	return t.h.Check(ctx, t.call)
}

// refused puts a refusal by a rule into the audit log and returns it.
func (t *throughCall) refused(ctx context.Context, deny *core.Error) error {
	if deny.Code != core.CodePermissionDenied && deny.Code != core.CodeDenied {
		return deny
	}
	err := t.c.record(context.WithoutCancel(ctx), core.AuditRow{
		Tool: t.call.Tool, Digest: t.call.Digest, Outcome: core.ApprovalDenied, By: core.Actor{Who: "policy", Via: core.ViaRule}, Reason: deny.Message,
	})
	if err != nil {
		t.c.o.Logger.Warn("cannot put a refusal into the audit log", "error", core.AsError(err))
	}
	return deny
}

// untilClosed is a context that ends some time after pml begins to stop, so that
// a call that is under way has time to end.
func (c *Client) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
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
func (t *throughCall) read(ctx context.Context) (api.OfferedResult, error) {
	began := t.c.now()
	raw, err := t.h.Through(ctx, t.call)
	if isNotMade(err) {
		return api.OfferedResult{}, err
	}
	t.c.keepRead(t, t.settled(began, raw, err))
	return api.OfferedResult{Raw: raw.Result}, err
}

func isNotMade(err error) bool {
	var back *engine.NotMadeError
	return errors.As(err, &back)
}

// settled is the record of the call's outcome.
func (t *throughCall) settled(began time.Time, raw gate.Raw, err error) core.Record {
	r := t.recordOf(core.RecordSettled)
	r.StartedAt, r.At = began, t.c.now()
	switch {
	case err != nil:
		r.Outcome, r.Error = core.OutcomeError, core.AsError(err)
		if r.Error.Code == core.CodeInternal && asPeer(err) != nil {
			r.Error = core.Errorf(core.CodeToolFailed, "%s: %w", t.call.Tool, err)
		}
		if r.Error.Code == core.CodeCancelled {
			r.Outcome = core.OutcomeCancelled
		}
	case raw.Failed != nil:
		r.Outcome, r.Error, r.Result = core.OutcomeError, raw.Failed, raw.Result
	default:
		r.Outcome, r.Result = core.OutcomeSuccess, raw.Result
	}
	return r
}

func asPeer(err error) *api.PeerError {
	var e *api.PeerError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

func (t *throughCall) recordOf(kind core.RecordKind) core.Record {
	return core.Record{Kind: kind, CallID: t.call.ID, Tool: t.call.Tool, Attempt: 1, ArgsDigest: t.call.Digest, Args: t.call.Args}
}

// tasks are the program of a run of this call.
func (t *throughCall) tasks() []core.TaskSpec {
	return []core.TaskSpec{{ID: t.call.ID, Tool: t.call.Tool, Arguments: t.call.Args}}
}

// ask makes a run of the call that waits for what must be decided. paused is
// whether it waits.
func (t *throughCall) ask(ctx context.Context) (out api.OfferedResult, paused bool, err error) {
	r, err := t.c.Execute(ctx, api.ExecuteRequest{
		ID: t.call.RunID, Intent: intentOf(t.call.Tool), By: t.by, Wait: -1, Tasks: t.tasks(),
	})
	if err != nil {
		return out, false, notDAG(err)
	}
	if r.Status == api.StatusError || r.Status == api.StatusAborted {
		return out, false, failureOf(r)
	}
	if r.Status == api.StatusSuccess || r.Status == api.StatusComplete {
		raw, ok := api.OfferedRaw(r.Result)
		if !ok {
			return out, false, core.Errorf(core.CodeInternal, "cannot read the result of the call of %s", t.call.Tool).WithRun(r.WorkflowID)
		}
		return api.OfferedResult{Raw: raw}, false, nil
	}
	return api.OfferedResult{Paused: &r}, true, nil
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
	e.Next, e.Faults, e.Decided = r.Next, r.Faults, r.Decided
	return e
}

func intentOf(tool string) string { return "call " + core.Visible(tool, 120, false) }
