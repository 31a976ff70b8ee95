package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	pages "github.com/casys-ai/pml/core/page"
)

// listed is how many runs a page lists.
const listed = 50

func (b *web) inbox(w http.ResponseWriter, r *http.Request, v visitor) {
	var list []core.Approval
	var halts []core.Halt
	for _, half := range v.halves {
		some, err := half.Approvals(r.Context(), false)
		var held []core.Halt
		if err == nil {
			held, err = half.Halts(r.Context())
		}
		if err != nil {
			b.failed(w, r, err)
			return
		}
		list, halts = append(list, some...), append(halts, held...)
	}
	slices.SortStableFunc(list, core.BySoonest)
	b.show(w, http.StatusOK, pages.Inbox(v.who(), list, halts, b.s.o.Clock.Now()))
}

// halt halts all calls of what the visitor sees. Whoever sees something go wrong may;
// only a person at a terminal, or with the PIN, lets them go on, and not here.
func (b *web) halt(w http.ResponseWriter, r *http.Request, v visitor) {
	var errs []error
	for _, half := range v.halves { // each, whatever becomes of the other
		_, err := half.HaltCalls(r.Context(), half.scope.By, core.OneLine(r.PostForm.Get("reason"), 500))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		b.s.log.WarnContext(r.Context(), "calls could not all be halted from a page", "error", core.AsError(err))
		b.message(w, r, http.StatusServiceUnavailable, "Not all calls are halted", core.AsError(err).Message)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (b *web) runs(w http.ResponseWriter, r *http.Request, v visitor) {
	var list []core.Run
	for _, half := range v.halves {
		some, err := half.Workflows(r.Context(), nil, listed, "")
		if err != nil {
			b.failed(w, r, err)
			return
		}
		list = append(list, some.Items...)
	}
	slices.SortStableFunc(list, func(a, b core.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	b.show(w, http.StatusOK, pages.Runs(v.who(), list[:min(listed, len(list))]))
}

func (b *web) run(w http.ResponseWriter, r *http.Request, v visitor) {
	half, id, _, err := v.find(r.Context(), r.PathValue("id"))
	var wf core.Workflow
	if err == nil {
		wf, err = half.Workflow(r.Context(), id)
	}
	if err != nil {
		b.failed(w, r, err)
		return
	}
	b.show(w, http.StatusOK, pages.Run(v.who(), wf, b.s.o.Clock.Now()))
}

// approval shows all that a decision is bound to, and a form for it while it is open. To
// look at it decides nothing.
func (b *web) approval(w http.ResponseWriter, r *http.Request, v visitor) {
	b.card(w, r, v, shownAgain{status: http.StatusOK})
}

// shownAgain is what a card has besides its question, after a form that decided nothing:
// what was wrong, and the bounds that the form was about.
type shownAgain struct {
	status int
	wrong  string
	shape  *core.Shape      // that were shown
	typed  *pages.LoopTyped // that were typed
}

// card shows an approval.
func (b *web) card(w http.ResponseWriter, r *http.Request, v visitor, as shownAgain) {
	half, ap, err := v.asked(r.Context(), r.PathValue("id"))
	if err != nil {
		b.failed(w, r, err)
		return
	}
	card := pages.Card{Approval: ap, Who: v.who(), Now: b.s.o.Clock.Now(), Wrong: as.wrong}
	if ap.StateAt(card.Now) == core.ApprovalOpen && r.Header.Get("Pml-Live") == "" { // the script of the page has a form already
		if card.Form, err = b.form(r, v, half, ap); err == nil {
			card.Loop, err = b.loop(r, v, half, ap, as)
		}
		if err != nil {
			b.failed(w, r, err)
			return
		}
	}
	b.show(w, as.status, card.Page())
}

// asked is the approval of an id, and the half that has it.
func (v visitor) asked(ctx context.Context, text string) (call, core.Approval, error) {
	half, _, id, err := v.find(ctx, text)
	if err != nil {
		return half, core.Approval{}, err
	}
	if id == "" {
		return half, core.Approval{}, core.Errorf(core.CodeNotFound, "there is no approval %q", core.Visible(text, 64, false))
	}
	ap, err := half.Approval(ctx, id)
	return half, ap, err
}

// form is what decides an approval: with the four characters where it is of high risk,
// with the PIN where one is set.
func (b *web) form(r *http.Request, v visitor, half call, ap core.Approval) (*pages.Form, error) {
	f := &pages.Form{Confirm: approval.Confirmation(ap, false), Elsewhere: elsewhere(ap)}
	if p, ok := half.Backend.(api.Pin); ok {
		var err error
		if f.Pin, err = p.NeedsPin(r.Context()); err != nil {
			return nil, err
		}
	}
	var err error
	f.Token, err = b.tokens.give(v.session, ap, nil)
	return f, err
}

// elsewhere says why an approval is not approved on a page; empty where it is. What
// machines run and are trusted with is looked at where it runs, and a call in doubt has
// more answers than yes.
func elsewhere(ap core.Approval) string {
	switch {
	case ap.Type == core.ApproveInDoubt:
		return "what became of the call is said in a terminal: pml continue " + ap.RunID.Short()
	case approval.TypeOf(ap.Type).Machine:
		return "it is about what the machine runs, and is approved there: pml continue " + ap.RunID.Short()
	}
	return ""
}
