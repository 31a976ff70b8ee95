package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// What a form decides.
const (
	decideApprove = "approve"
	decideDeny    = "deny"
	decideLoop    = "loop" // approves the calls of a loop, within the bounds that were shown
)

// decide carries out what a form says. The form is used up, whatever comes of it; what
// it was made for has to be what is asked now.
func (b *web) decide(w http.ResponseWriter, r *http.Request, v visitor) {
	ctx := r.Context()
	half, ap, err := v.asked(ctx, r.PathValue("id"))
	if err != nil {
		b.failed(w, r, half.unknownTo(ctx, "", r.PathValue("id"), err))
		return
	}
	form, good := b.tokens.take(v.session, r.PostForm.Get("token"))
	decision := r.PostForm.Get("decision")
	wrong := badForm(r, form, good, ap)
	if wrong == "" {
		wrong = b.unsaid(r, ap)
	}
	var answer *core.Answer
	again := shownAgain{status: http.StatusConflict, wrong: wrong + "; nothing was decided"}
	if form.shape != nil && form.approval == ap.ID && form.digest == ap.Digest {
		answer, again.shape = &core.Answer{Shape: form.shape}, form.shape
	}
	if wrong != "" {
		half.refusedForm(ctx, ap, wrong)
		b.card(w, r, v, again)
		return
	}
	_, err = half.Continue(ctx, api.ContinueRequest{ID: ap.RunID, By: half.scope.By, Decision: &api.Decision{
		Approve: decision == decideApprove || decision == decideLoop, Answer: answer, Checkpoint: ap.ID, ExpectDigest: form.digest,
		Reason: core.OneLine(r.PostForm.Get("reason"), 500), Pin: r.PostForm.Get("pin"),
	}})
	if err != nil {
		p := b.s.failure(ctx, err)
		again.status, again.wrong = p.Status, p.Detail
		b.card(w, r, v, again)
		return
	}
	http.Redirect(w, r, "/approvals/"+string(ap.ID), http.StatusSeeOther)
}

// badForm says why a form decides nothing about an approval, whatever it says; empty where it
// may.
func badForm(r *http.Request, form shownForm, good bool, ap core.Approval) string {
	switch {
	case !good:
		return "the form was used before, is too old, or was never made for you"
	case form.approval != ap.ID:
		return "the form was made for another approval"
	case form.digest != ap.Digest:
		return "what is asked is not what was shown"
	}
	return otherBounds(r, form)
}

// unsaid says what a form lacks; empty for nothing.
func (b *web) unsaid(r *http.Request, ap core.Approval) string {
	switch decision := r.PostForm.Get("decision"); {
	case ap.StateAt(b.s.o.Clock.Now()) != core.ApprovalOpen:
		return "it does not wait any more"
	case decision == decideDeny:
		return ""
	case decision != decideApprove && decision != decideLoop:
		return "the form says neither yes nor no"
	}
	if why := elsewhere(ap); why != "" {
		return why
	}
	if want := approval.Confirmation(ap, false); want != "" && !strings.EqualFold(strings.TrimSpace(r.PostForm.Get("typed")), want) {
		return "the characters that confirm high risk were not those that were shown"
	}
	return ""
}

// refusedForm puts an attempt to decide by a form that is not good into the audit log.
func (c call) refusedForm(ctx context.Context, ap core.Approval, why string) {
	a, ok := c.Backend.(api.Refusals)
	if !ok {
		return
	}
	if err := a.Refused(ctx, ap.RunID, c.scope.By, "a decision about "+ap.ID.Short()+" on a page: "+why); err != nil {
		c.s.log.WarnContext(ctx, "a refusal is not in the audit log yet", "error", core.AsError(err))
	}
}
