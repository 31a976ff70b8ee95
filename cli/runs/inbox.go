package runs

import (
	"context"
	"errors"
	"slices"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// inbox asks about all that waits, one after another, and then waits for the runs that
// go on: what they ask next comes up as well. What is left for later still waits, and
// the exit code says so.
func inbox(ctx context.Context, a *app.App, verb, reason string) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	if !a.CanAsk() {
		return inboxUnasked(ctx, a, b, verb)
	}
	in := inboxOf{a: a, b: b, verb: verb, reason: reason, later: map[core.ID]bool{}}
	a.StartProgress()
	for {
		open, err := in.open(ctx)
		if err != nil {
			return err
		}
		switch {
		case len(open) > 0 && !in.over:
			err = in.decide(ctx, open)
		case len(in.going) > 0:
			err = in.await(ctx)
		default:
			return in.end(ctx)
		}
		if in.over = in.over || errors.Is(err, errInputEnds); err != nil && !errors.Is(err, errInputEnds) {
			return err
		}
	}
}

// inboxUnasked says what to do where there is nobody to ask.
func inboxUnasked(ctx context.Context, a *app.App, b app.Backend, verb string) error {
	list, err := openNow(ctx, a, b)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return app.Usagef("pml %s needs an ID where there is no terminal to ask on; nothing waits for a decision", verb).WithNext("pml", "approvals", "ls")
	}
	return app.Usagef("nothing was decided: without an ID pml %s asks on a terminal, and there is none here, or the output is for a program; name what you mean:%s", verb, listed(list)).
		WithNext("pml", verb, list[0].ID.Short())
}

// openNow is all that waits for a decision, soonest expiry first, and after it what
// has expired and a run still waits for.
func openNow(ctx context.Context, a *app.App, b app.Backend) ([]core.Approval, error) {
	all, err := b.Approvals(ctx, true)
	if err != nil {
		return nil, err
	}
	list := approval.Decidable(all, a.Now())
	lapsed := func(p core.Approval) bool { return p.StateAt(a.Now()) == core.ApprovalExpired }
	if !slices.ContainsFunc(list, lapsed) {
		return list, nil
	}
	page, err := b.Workflows(ctx, []core.RunState{core.RunWaiting, core.RunRunning, core.RunInterrupted}, 500, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(p core.Approval) bool {
		return lapsed(p) && !slices.ContainsFunc(page.Items, func(r core.Run) bool { return r.ID == p.RunID })
	}), nil
}

// inboxOf is one walk through what waits.
type inboxOf struct {
	a            *app.App
	b            app.Backend
	verb, reason string
	later        map[core.ID]bool
	going        []core.ID // runs that go on since a decision
	asked        bool      // anything was
	over         bool      // nobody answers any more; what goes on is waited for
}

// open is what waits and was not left for later.
func (in *inboxOf) open(ctx context.Context) ([]core.Approval, error) {
	list, err := openNow(ctx, in.a, in.b)
	return slices.DeleteFunc(list, func(p core.Approval) bool { return in.later[p.ID] }), err
}

// decide asks about the first that is open, and carries the answer to it.
func (in *inboxOf) decide(ctx context.Context, open []core.Approval) error {
	p := open[0]
	if in.asked {
		in.a.Say("")
	}
	in.asked = true
	d, err := ask(ctx, in.a, in.b, question{about: p, n: 1, of: len(open), verb: in.verb})
	if err != nil {
		return err
	}
	if d == nil {
		in.later[p.ID] = true
		return nil
	}
	w, err := in.b.Workflow(ctx, p.RunID)
	if err != nil {
		return err
	}
	d.Reason = in.reason
	req := api.ContinueRequest{ID: p.RunID, Decision: d, Reason: d.Reason, By: in.a.Actor()}
	if w.Options.PerLayer {
		req.Wait = -1 // nothing may continue it later, which would pass its pause
	}
	_, err = in.b.Continue(ctx, req)
	switch core.CodeOf(err) {
	case "":
		word := "denied"
		if d.Approve {
			word = "approved"
		}
		in.a.Say("%s: %s", word, core.OneLine(whatOf(p)+" ("+p.ID.Short()+")", 200))
		if !slices.Contains(in.going, p.RunID) {
			in.going = append(in.going, p.RunID)
		}
		return nil
	case core.CodeCancelled, core.CodeInternal, core.CodeStoreBusy, core.CodeStoreFailed, core.CodeServerUnreachable:
		return err
	case core.CodeAuth: // a PIN with a slip of the finger: it is asked about again
	default: // who was faster has decided, or it is not for this person to decide
		in.later[p.ID] = true
	}
	in.a.Say("%s", core.Visible(err.Error(), 2000, false))
	return nil
}

// await waits for the next of the runs that go on, and says how it stands.
func (in *inboxOf) await(ctx context.Context) error {
	id := in.going[0]
	in.going = in.going[1:]
	w, err := in.b.Workflow(ctx, id)
	if err != nil {
		return err
	}
	// A run that pauses after each layer goes on when somebody continues it: that is
	// not for this command to say.
	if !w.State.Final() && !w.Options.PerLayer {
		if _, err := in.b.Continue(ctx, api.ContinueRequest{ID: id, By: in.a.Actor(), Wait: -1}); err != nil {
			return err
		}
		if w, err = in.b.Workflow(ctx, id); err != nil {
			return err
		}
	}
	if w.State == core.RunWaiting {
		return nil // what it asks comes up
	}
	in.a.Say("%s (%s) is %s", w.Title(), id.Short(), w.State)
	next := []string{"pml", "workflows", "show", id.Short()}
	if w.State == core.RunComplete {
		next[2] = "result"
	}
	in.a.SayNext(next...)
	return nil
}

// end says what is left.
func (in *inboxOf) end(ctx context.Context) error {
	in.a.Progress.Stop()
	in.later = nil
	left, err := in.open(ctx)
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		in.a.Note("%s left", layout.Plural(len(left), "approval"))
		return app.ExitStatus(app.ExitPending)
	case !in.asked:
		in.a.Note("nothing waits for a decision")
	}
	return nil
}
