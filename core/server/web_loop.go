package server

import (
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	pages "github.com/casys-ai/pml/core/page"
)

// bounds shows an approval with the bounds that a form has for the calls of its loop. It
// decides nothing: what is shown has a form of its own that does.
func (b *web) bounds(w http.ResponseWriter, r *http.Request, v visitor) {
	typed := pages.LoopTyped{Max: r.PostForm.Get("max"), Until: r.PostForm.Get("until"), Lines: r.PostForm.Get("lines")}
	b.card(w, r, v, shownAgain{status: http.StatusOK, typed: &typed})
}

// loop is the part of a card that approves the calls of a loop; nil where no bounds can be
// about them. They are those that somebody has typed or was shown, else those that are
// proposed.
func (b *web) loop(r *http.Request, v visitor, half call, ap core.Approval, as shownAgain) (*pages.Loop, error) {
	if !approval.InLoop(ap) {
		return nil, nil
	}
	among, err := half.Approvals(r.Context(), false)
	if err != nil {
		return nil, err
	}
	now := b.s.o.Clock.Now()
	known := approval.Loop(ap, among, now)
	s, ok := approval.Propose(known)
	if !ok {
		return nil, nil
	}
	l := &pages.Loop{Known: known, Open: len(known) > 1}
	switch {
	case as.typed != nil:
		l.Open, l.Typed = true, *as.typed
		if s, l.Wrong = approval.EditShape(s, known, as.typed.Edit(), now); len(l.Wrong) > 0 {
			return l, nil
		}
	case as.shape != nil:
		l.Open, s = true, *as.shape
		l.Typed = pages.TypedOf(s)
	default:
		l.Typed = pages.TypedOf(s)
	}
	l.Shape = s
	l.Token, err = b.tokens.give(v.session, ap, &s)
	return l, err
}

// otherBounds says why a form does not give the bounds that were shown with it; empty where
// it does, and where it gives none and none were shown.
func otherBounds(r *http.Request, form shownForm) string {
	loop := r.PostForm.Get("decision") == decideLoop
	switch {
	case loop != (form.shape != nil):
		return "the form was made for another decision"
	case !loop:
		return ""
	}
	if digest, err := form.shape.Digest(); err != nil || r.PostForm.Get("bounds") != digest {
		return "the bounds are not those that were shown"
	}
	return ""
}
