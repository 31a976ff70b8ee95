package mcp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Causes of the end of a question.
var errDecided = errors.New("it was decided elsewhere")

// paused is a run that waits for a person, and the call that waits for the run.
type paused struct {
	e    *Edge
	c    *call
	p    patience
	done api.Status // the word for success
}

// asks reports whether the client of a call can be asked at all.
func (c *call) asks() bool { return (c.can.form || c.can.url) && !c.session.unheard.Load() }

// put asks the person at the client about what the run waits for, one approval
// after the other, until it goes on without, or something stays open. What it
// returns is a result, or what the client is asked instead of one.
func (w paused) put(ctx context.Context, r api.Result) (any, error) {
	for r.Status == api.StatusApprovalRequired && w.c.asks() {
		a, ok := asked(r)
		if !ok {
			return w.held(ctx, r, "")
		}
		q, ok := questionOf(a, w.c.can)
		if hearer, knows := w.c.backend.(Hearer); knows && ok {
			ok = hearer.HostMayDecide(ctx, a)
		}
		if !ok {
			return w.held(ctx, r, "")
		}
		if w.c.modern {
			return w.e.inputFor(w.c, q, w.done)
		}
		next, why, err := w.ask(ctx, r, q)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return w.held(ctx, r, why)
		}
		r = next
	}
	return r, nil
}

// ask puts one question to an older client and carries the answer out. why is
// set when nothing came of it.
func (w paused) ask(ctx context.Context, r api.Result, q question) (next api.Result, why string, err error) {
	bounded, cancel := w.patient(ctx, q.approval)
	defer cancel()
	open, decided := context.WithCancelCause(bounded)
	defer decided(nil)
	watched := make(chan struct{})
	w.e.beside("a question was watched", func() {
		defer close(watched)
		if w.e.decidedElsewhere(open, w.c.backend, q.approval) {
			decided(errDecided)
		}
	})
	defer func() {
		decided(nil)
		<-watched
	}()
	at := w.e.o.Clock.Now()
	raw, err := w.c.session.ask(open, w.c.out, "elicitation/create", q.params)
	took := w.e.o.Clock.Now().Sub(at)
	var refusal *api.PeerError
	switch {
	case ctx.Err() != nil:
		return r, "", ctx.Err()
	case errors.Is(err, errDecided):
		next, err = w.look(ctx, r)
		return next, "", err
	case errors.As(err, &refusal):
		return r, "the host refused to ask (" + core.Visible(refusal.Message, 200, false) + "), so nothing was decided", nil
	case err != nil:
		return r, err.Error() + ", so nothing was decided", nil
	}
	v := q.heard(raw, took)
	if v.opened {
		<-open.Done() // until it was decided, or for as long as a question lasts
		if ctx.Err() != nil {
			return r, "", ctx.Err()
		}
		if errors.Is(context.Cause(open), errNoAnswer) {
			return r, "the page was opened, and the sign-in was not complete in time", nil
		}
		next, err = w.look(ctx, r)
		if err == nil && next.CheckpointID == q.approval.ID {
			return next, "the page was opened; it goes on once the sign-in is complete", nil
		}
		return next, "", err
	}
	return w.take(ctx, r, v)
}

// patient bounds a question. It stays open as long as its approval does and the
// host lets the call wait, which progress keeps alive; shorter only where the call
// itself says how long it waits.
func (w paused) patient(ctx context.Context, a core.Approval) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithCancel(ctx)
	if a.ExpiresAt != nil {
		bounded, cancel = context.WithTimeoutCause(ctx, a.ExpiresAt.Sub(w.e.o.Clock.Now()), errNoAnswer)
	}
	if !w.p.hold {
		return bounded, cancel
	}
	shorter, done := context.WithTimeoutCause(bounded, max(w.p.limit, w.e.o.Asking), errNoAnswer)
	return shorter, func() { done(); cancel() }
}

// take carries out the host's answer. why is set when nothing came of it.
func (w paused) take(ctx context.Context, r api.Result, v verdict) (next api.Result, why string, err error) {
	if v.decision == nil {
		w.e.o.Log.Info("a host's answer decided nothing", "run", r.WorkflowID, "why", v.why)
		return r, v.why, nil
	}
	next, err = w.c.backend.Continue(ctx, api.ContinueRequest{
		ID: r.WorkflowID, Decision: v.decision, By: core.Actor{Who: w.c.by.Who, Via: core.ViaElicitation, Client: w.c.agent}, Wait: w.p.limit,
	})
	switch code := core.CodeOf(err); {
	case err == nil:
		return w.worded(next), "", nil
	case slices.Contains(overtaken, code):
		next, err = w.look(ctx, r)
		return next, "", err
	case slices.Contains(notForHosts, code):
		// No answer of this host counts, so it is not asked again.
		w.c.session.unheard.Store(true)
		return r, core.AsError(err).Message, nil
	}
	return r, "", err
}

var (
	// overtaken are the errors of a decision when somebody else was faster, or
	// it is another question by now.
	overtaken = []core.Code{core.CodeAlreadyDecided, core.CodeDigestMismatch, core.CodeApprovalExpired, core.CodeNotWaiting}
	// notForHosts are those of one that is not a host's to take: a person
	// decides at a terminal, or types the PIN there.
	notForHosts = []core.Code{core.CodeAwaitingHuman, core.CodePermissionDenied, core.CodeAuth}
)

// look is how the run stands now.
func (w paused) look(ctx context.Context, r api.Result) (api.Result, error) {
	next, err := w.c.backend.Continue(ctx, api.ContinueRequest{ID: r.WorkflowID, By: w.c.by, Wait: w.p.limit, Follow: true})
	return w.worded(next), err
}

func (w paused) worded(r api.Result) api.Result {
	if r.Status == api.StatusComplete {
		r.Status = w.done
	}
	return r
}

// held is the result while something stays open: it says why, and how it is
// decided. A caller that wants to wait for people does that now.
func (w paused) held(ctx context.Context, r api.Result, why string) (any, error) {
	if w.p.hold {
		next, err := w.c.backend.Continue(ctx, api.ContinueRequest{ID: r.WorkflowID, By: w.c.by, Wait: w.p.limit, HoldApprovals: true, Follow: true})
		if err != nil {
			return nil, err
		}
		if next = w.e.lookAgain(ctx, w.c, next, w.done); next.Status != api.StatusApprovalRequired {
			return w.worded(next), nil
		}
		r = next
	}
	if why != "" {
		r.Reason = why + "; a person decides it in pml tui"
	}
	return r, nil
}

// decidedElsewhere waits until somebody has closed an approval; false when the
// context ends first.
func (e *Edge) decidedElsewhere(ctx context.Context, b Backend, a core.Approval) bool {
	over := false
	_ = b.Events(ctx, a.RunID, api.Since{}, true, closes(a, &over))
	return over
}

// errOver ends the reading of events.
var errOver = errors.New("no more events are wanted")

// closes looks among the events of a run for the end of a question.
func closes(a core.Approval, over *bool) func(core.Event) error {
	return func(ev core.Event) error {
		switch ev.Type {
		case core.EventApprovalResolved:
			*over = *over || ev.ApprovalID == a.ID
		case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired, core.EventReplanned:
			// A run that is asked about a call has not ended; a new plan takes
			// questions back.
			*over = *over || ev.At.After(a.CreatedAt)
		default:
		}
		if *over {
			return errOver
		}
		return nil
	}
}

// inputFor asks a client of a revision without requests from the server: the
// call is answered with what is to be asked, and comes again with the answer.
func (e *Edge) inputFor(c *call, q question, done api.Status) (any, error) {
	now := e.o.Clock.Now()
	expires := now.Add(stateLife)
	if q.approval.ExpiresAt != nil && q.approval.ExpiresAt.Before(expires) {
		expires = *q.approval.ExpiresAt
	}
	q.params.ID = "" // not in this revision
	text, err := e.states.sealed(state{
		Run: q.approval.RunID, Approval: q.approval.ID, Digest: q.approval.Digest,
		Owner: c.session.holder.owner, Workspace: c.session.holder.workspace, Call: c.digest(),
		Issued: now.UnixMilli(), Expires: expires.UnixMilli(), Done: done,
	})
	if err != nil {
		return nil, err
	}
	return inputRequired{Method: "elicitation/create", Params: q.params, state: text}, nil
}

// resume takes up a call that was answered with input_required. It never starts
// a run: what it moves is named by the state.
func (e *Edge) resume(ctx context.Context, c *call) (any, error) {
	st, err := e.states.admitted(text(c.state), c.digest(), c.session.holder)
	if err != nil {
		return nil, e.unadmitted(ctx, c, err)
	}
	w, err := c.backend.Workflow(ctx, st.Run)
	if err != nil {
		return nil, err
	}
	started := make(chan core.ID, 1)
	started <- st.Run
	defer e.accompany(ctx, c, started)()
	pause := paused{e: e, c: c, p: patienceIn(c.args), done: st.Done}
	r := api.Result{Status: api.StatusApprovalRequired, WorkflowID: st.Run}
	now := e.o.Clock.Now()
	for _, a := range w.Approvals {
		if a.ID != st.Approval || a.Digest != st.Digest || a.StateAt(now) != core.ApprovalOpen {
			continue
		}
		a.RunID = st.Run // as it was asked: of an agent, whichever of its runs waits
		q, ok := questionOf(a, c.can)
		if !ok {
			break
		}
		return pause.resumed(ctx, r, q.heard(c.responses[inputKey], now.Sub(time.UnixMilli(st.Issued))))
	}
	// It was decided meanwhile, or is asked in another way: nothing is taken
	// from the answer.
	if r, err = pause.look(ctx, r); err != nil {
		return nil, err
	}
	return pause.put(ctx, r)
}

// resumed goes on with a run after the host's answer to one question.
func (w paused) resumed(ctx context.Context, r api.Result, v verdict) (any, error) {
	var why string
	var err error
	switch {
	case v.opened:
		why = "the page was opened; it goes on once the sign-in is complete"
	default:
		if r, why, err = w.take(ctx, r, v); err != nil {
			return nil, err
		}
	}
	if why == "" {
		return w.put(ctx, r)
	}
	// What is asked stays as it was: it is read without waiting.
	if r, err = (paused{e: w.e, c: w.c, p: patience{limit: lookWait}, done: w.done}).look(ctx, r); err != nil {
		return nil, err
	}
	if r.Status != api.StatusApprovalRequired {
		return r, nil
	}
	return w.held(ctx, r, why)
}
