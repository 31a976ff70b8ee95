package server

import (
	"context"
	"net/http"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/danielgtaylor/huma/v2"
)

type approvalsInput struct {
	All       bool `query:"all" doc:"Also those that were decided or have expired"`
	Decidable bool `query:"decidable" doc:"Also those that have expired and can still be decided, which asks again"`
}

// ApprovalPath is the part of a path that names an approval.
type ApprovalPath struct {
	Checkpoint string `path:"cid" doc:"The id of an approval, or the first 4 or more characters of it"`
}

type decideInput struct {
	RunPath
	ApprovalPath
	Body api.DecisionBody
}

type extendInput struct {
	RunPath
	ApprovalPath
	Body api.ExtendBody
}

// Resolve reports what the schema would say of so large a number unreadably.
func (in *extendInput) Resolve(huma.Context) []error {
	if in.Body.By > maxMS {
		return []error{fault("/by_ms", "it must be at most %d, a year", maxMS)}
	}
	return nil
}

type editedInput struct {
	RunPath
	ApprovalPath
	Body api.EditedBody
}

type renewInput struct {
	RunPath
	ApprovalPath
}

type approvalOutput struct{ Body core.Approval }

func (s *Server) addApprovals() {
	const one = prefix + "/workflows/{id}/approvals/{cid}"
	add(s, op("approvals", http.MethodGet, prefix+"/approvals", "What waits for a person, soonest expiry first"), approvals)
	add(s, op("approval", http.MethodGet, prefix+"/approvals/{cid}", "One approval"), oneApproval)
	add(s, accepted(op("decide", http.MethodPost, one, "Approve or deny, and go on")), decide)
	add(s, op("extend", http.MethodPost, one+"/extend", "Give an approval more time"), extend)
	add(s, op("edited", http.MethodPost, one+"/edited", "What it would ask with other arguments; nothing is kept"), edited)
	add(s, op("renew", http.MethodPost, one+"/renew", "Ask again for an approval that expired"), renew)
}

func approvals(ctx context.Context, c call, in *approvalsInput) (*page[core.Approval], error) {
	if in.Decidable && !in.All {
		list, err := c.Decidable(ctx)
		return pageOf(list, ""), err
	}
	list, err := c.Approvals(ctx, in.All)
	return pageOf(list, ""), err
}

func oneApproval(ctx context.Context, c call, in *ApprovalPath) (*approvalOutput, error) {
	id, err := c.approvalOf(ctx, "", in.Checkpoint)
	if err != nil {
		return nil, err
	}
	ap, err := c.Approval(ctx, id)
	return &approvalOutput{ap}, err
}

func decide(ctx context.Context, c call, in *decideInput) (*outcome, error) {
	run, id, err := c.both(ctx, in.RunPath, in.ApprovalPath)
	if err != nil {
		text := in.ID
		if run != "" {
			text = in.Checkpoint
		}
		return nil, c.unknownTo(ctx, run, text, err)
	}
	d, err := c.decides(ctx, run, id, in.Body)
	if err != nil {
		return nil, err
	}
	req := api.ContinueRequest{ID: run, Decision: d, By: c.scope.By, Wait: waitOf(in.Body.Wait)}
	return c.waits(req.Wait, func() (api.Result, error) { return c.carryOn(ctx, req, in.Body.Presence) })
}

// carryOn goes on with a run. Who says that a person has answered at a terminal and is not
// believed, because the program is another one, gets to know that: it can be mended.
func (c call) carryOn(ctx context.Context, req api.ContinueRequest, said core.Presence) (api.Result, error) {
	r, err := c.Continue(ctx, req)
	if said == core.PresenceTerminal && core.CodeOf(err) == core.CodeAwaitingHuman && otherProgram(ctx) {
		err = core.Errorf(core.CodeAwaitingHuman, "an answer at this terminal does not count for the run %s: the pml that asked is not the one that serves, which was started before an update, perhaps, or is a pml-temporal that does not lie beside it. Nothing was decided; stop the server, and decide again: the next one takes the run up",
			req.ID.Short()).WithRun(req.ID).WithNext("pml", "server", "stop")
	}
	return r, err
}

// both resolves a run and one of its approvals.
func (c call) both(ctx context.Context, r RunPath, a ApprovalPath) (run, id core.ID, err error) {
	if run, _, err = c.run(ctx, r.ID); err != nil {
		return "", "", err
	}
	id, err = c.approvalOf(ctx, run, a.Checkpoint)
	return run, id, err
}

func extend(ctx context.Context, c call, in *extendInput) (*approvalOutput, error) {
	_, id, err := c.both(ctx, in.RunPath, in.ApprovalPath)
	if err != nil {
		return nil, err
	}
	ap, err := c.Extend(ctx, id, time.Duration(in.Body.By)*time.Millisecond)
	return &approvalOutput{ap}, err
}

func edited(ctx context.Context, c call, in *editedInput) (*approvalOutput, error) {
	_, id, err := c.both(ctx, in.RunPath, in.ApprovalPath)
	if err != nil {
		return nil, err
	}
	ap, err := c.Edited(ctx, id, in.Body.Arguments)
	return &approvalOutput{ap}, err
}

func renew(ctx context.Context, c call, in *renewInput) (*approvalOutput, error) {
	_, id, err := c.both(ctx, in.RunPath, in.ApprovalPath)
	if err != nil {
		return nil, err
	}
	ap, err := c.Renew(ctx, id, c.scope.By)
	return &approvalOutput{ap}, err
}
