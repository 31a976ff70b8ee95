package service

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/store"
)

// Edited is what an approval would ask with other arguments: checked against the tool,
// with its own risk and digest. Nothing is kept of it; a decision names the digest and
// brings the same arguments.
func (c *decisions) Edited(ctx context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	ap, err := c.stored(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	if ap, err = c.edited(ctx, ap, args); err != nil {
		return core.Approval{}, c.shownOf(ap.Workspace).Error(core.AsError(err).WithRun(ap.RunID))
	}
	return c.shownOf(ap.Workspace).Approval(ap), nil
}

// stored is an approval as the store has it.
func (c *decisions) stored(ctx context.Context, id core.ID) (core.Approval, error) {
	if _, err := c.Approval(ctx, id); err != nil {
		return core.Approval{}, err
	}
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{ID: id, Now: c.now()})
	if err != nil || len(list) == 0 {
		return core.Approval{}, core.Errorf(core.CodeNotFound, "there is no approval %s", id.Short())
	}
	return list[0], nil
}

// edited asks the gates of the approval's workspace about other arguments.
func (c *decisions) edited(ctx context.Context, ap core.Approval, args json.RawMessage) (core.Approval, error) {
	if ap.Type != core.ApproveTool {
		return ap, core.Errorf(core.CodeInvalidArguments, "%s asks for %s: only the arguments of a tool's call can be changed", ap.ID.Short(), ap.Type)
	}
	args = bytes.TrimSpace(args)
	if err := core.CheckDepth("the arguments", args); err != nil {
		return ap, err
	}
	if err := core.CheckKeys("the arguments", args); err != nil {
		return ap, err
	}
	digest, err := core.Digest(args)
	if err != nil || !bytes.HasPrefix(args, []byte("{")) {
		return ap, core.Errorf(core.CodeInvalidArguments, "the changed arguments of %s are no JSON object: %s", core.Visible(ap.Tool, 120, false), core.Visible(string(args), 200, false))
	}
	h, err := c.host(ap.Workspace)
	if err != nil {
		return ap, err
	}
	run, err := c.o.Store.Run(ctx, ap.RunID)
	if err != nil {
		return ap, err
	}
	call := engine.Call{Tool: ap.Tool, Args: args, Digest: digest, ArgsKnown: true}.Of(&run)
	if len(ap.CallIDs) > 0 {
		call.ID = ap.CallIDs[0]
	}
	ask, err := h.Edited(ctx, call, ap.Context)
	if err != nil {
		return ap, err
	}
	out := ap
	out.Subject, out.Risk, out.Description, out.Digest, out.Once = ask.Subject, ask.Risk, ask.Description, ask.Digest, ask.Once
	if out.Context, err = json.Marshal(ask.Context); err != nil {
		return ap, core.Errorf(core.CodeInternal, "what is asked cannot be written: %w", err)
	}
	return out, nil
}

// asOfNow is an open question as it would be asked by now: about a file that has changed since,
// with what the call would do to it now ([gate.AskedNow]). Everybody is shown questions so. One that
// expired and was asked again stays as it was asked: what is decided is the newer question.
func (c *view) asOfNow(ap core.Approval) (_ core.Approval, changed bool) {
	if ap.RenewedBy != "" {
		return ap, false
	}
	if state := ap.StateAt(c.now()); state != core.ApprovalOpen && state != core.ApprovalExpired || ap.Type != core.ApproveTool && ap.Type != core.ApproveHost {
		return ap, false
	}
	h, err := c.host(ap.Workspace)
	if err != nil { // the workspace is not on this machine
		return ap, false
	}
	return gate.AskedNow(h, ap)
}

// takeAsOfNow checks a decision about a question whose file has changed since it was asked: a yes
// that names a digest names that of what the call would do now, and whoever may not approve that
// does not. It returns the digest that the approval itself must have.
func (c *decisions) takeAsOfNow(run core.Run, ap core.Approval, req api.ContinueRequest) (expect string, err error) {
	d := req.Decision
	now, changed := c.asOfNow(ap)
	switch {
	case !changed:
		return d.ExpectDigest, nil
	case d.ExpectDigest == now.Digest, !d.Approve && d.ExpectDigest == ap.Digest:
		expect = ap.Digest
	case d.ExpectDigest != "":
		return "", core.Errorf(core.CodeDigestMismatch, "the file that %s would write has changed since it was shown: look at what it would do now; nothing was decided", core.Visible(ap.Tool, 120, false)).
			WithRun(run.ID).WithNext("pml", "approve", ap.ID.Short())
	}
	return expect, c.mayApprove(run, now, req.By, d)
}

// takeEdit checks a decision that changes arguments. It must name the digest of what
// was shown, and whoever may not approve what the arguments were, or what they are now,
// may not approve them so. It returns the decision's answer and the digest that the
// approval itself must have.
func (c *decisions) takeEdit(ctx context.Context, run core.Run, ap core.Approval, req api.ContinueRequest) (*core.Answer, string, error) {
	d := req.Decision
	if d.Answer == nil || len(d.Answer.Arguments) == 0 {
		expect, err := c.takeAsOfNow(run, ap, req)
		return d.Answer, expect, err
	}
	if !d.Approve || d.Checkpoint == "" {
		return nil, "", core.Errorf(core.CodeInvalidArguments, "arguments are changed with the approval of one call: approve it by its id").WithRun(run.ID)
	}
	now, err := c.edited(ctx, ap, d.Answer.Arguments)
	if err != nil {
		return nil, "", core.AsError(err).WithRun(run.ID)
	}
	if d.ExpectDigest != now.Digest {
		return nil, "", core.Errorf(core.CodeDigestMismatch, "the changed arguments of %s were not shown before, or are judged otherwise by now: the decision must name the digest %s; nothing was decided", ap.ID.Short(), now.Digest).
			WithRun(run.ID).WithNext("pml", "approvals", "show", ap.ID.Short())
	}
	if err := c.mayApprove(run, now, req.By, d); err != nil {
		return nil, "", err
	}
	answer := *d.Answer
	answer.Arguments, answer.Digest = bytes.TrimSpace(answer.Arguments), now.Digest
	if now.Digest == ap.Digest { // nothing is changed after all
		answer.Arguments, answer.Digest = nil, ""
	}
	return &answer, ap.Digest, nil
}
