package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	in := inboxOf{a: a, b: b, verb: verb, reason: reason, later: map[core.ID]bool{}, shown: map[core.ID]bool{}, apart: map[approval.Kin]bool{}}
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
	list, err := b.Decidable(ctx)
	return approval.Decidable(list, a.Now()), err
}

// inboxOf is one walk through what waits.
type inboxOf struct {
	a            *app.App
	b            app.Backend
	verb, reason string
	later        map[core.ID]bool
	shown        map[core.ID]bool      // asked about, once or more
	apart        map[approval.Kin]bool // asked about one by one, though they are alike
	going        []core.ID             // runs that go on since a decision
	over         bool                  // nobody answers any more; what goes on is waited for
	late         error                 // somebody was faster than an answer: it does not count
}

// open is what waits and was not left for later.
func (in *inboxOf) open(ctx context.Context) ([]core.Approval, error) {
	list, err := openNow(ctx, in.a, in.b)
	return slices.DeleteFunc(list, func(p core.Approval) bool { return in.later[p.ID] }), err
}

// decide asks about the first that is open, and those like it with it, and carries the
// answer to them.
func (in *inboxOf) decide(ctx context.Context, open []core.Approval) error {
	p := open[0]
	if len(in.shown) > 0 {
		in.a.Say("")
	}
	kin, _ := approval.KinOf(p)
	if alike := approval.Alike(open); len(alike) > 1 && !in.apart[kin] {
		return in.decideAlike(ctx, kin, alike)
	}
	over := in.answered(open)
	in.shown[p.ID] = true
	d, err := ask(ctx, in.a, in.b, question{about: p, n: over + 1, of: over + len(open), verb: in.verb, given: &api.Decision{Reason: in.reason}})
	if settled(err) {
		overtaken(in.a, err)
		in.later[p.ID] = true
		if d != nil {
			in.late = err
		}
		return nil
	}
	if err != nil {
		return err
	}
	if d == nil {
		in.later[p.ID] = true
		return nil
	}
	_, err = in.carry(ctx, p, d)
	return err
}

// answered is how many of what was asked about are not open any more.
func (in *inboxOf) answered(open []core.Approval) int {
	n := len(in.shown)
	for _, p := range open {
		if in.shown[p.ID] {
			n--
		}
	}
	return n
}

// decideAlike asks about approvals that are alike at once.
func (in *inboxOf) decideAlike(ctx context.Context, kin approval.Kin, alike []core.Approval) error {
	for _, p := range alike {
		in.shown[p.ID] = true
	}
	all, apart, err := askAlike(ctx, in.a, in.b, alike, in.verb, in.reason)
	if err != nil {
		return err
	}
	in.apart[kin] = apart
	if len(all) == 0 && !apart {
		for _, p := range alike {
			in.later[p.ID] = true
		}
	}
	for i, d := range all {
		if again, err := in.carry(ctx, alike[i], d); err != nil || again {
			return err
		}
	}
	return nil
}

// carry takes a decision about an approval; again says that it is to be asked about
// again.
func (in *inboxOf) carry(ctx context.Context, p core.Approval, d *api.Decision) (again bool, err error) {
	w, err := in.b.Workflow(ctx, p.RunID)
	if err != nil {
		return false, err
	}
	d.Reason = cmp.Or(d.Reason, in.reason)
	req := api.ContinueRequest{ID: p.RunID, Decision: d, Reason: d.Reason, By: in.a.Actor()}
	if w.Options.PerLayer {
		req.Wait = -1 // nothing may continue it later, which would pass its pause
	}
	_, err = in.b.Continue(ctx, req)
	switch {
	case err == nil:
		sayDecided(ctx, in.a, in.b, p, d.Approve)
		if !slices.Contains(in.going, p.RunID) {
			in.going = append(in.going, p.RunID)
		}
		return false, nil
	case changedSince(err), core.CodeOf(err) == core.CodeAuth: // a PIN with a slip of the finger
		again = true
	case endsAll(err):
		return false, err
	default: // who was faster has decided, or it is not for this person to decide
		in.later[p.ID] = true
		if settled(err) {
			in.late = err
		}
	}
	in.a.Say("%s", core.Visible(err.Error(), 2000, false))
	return again, nil
}

// sayDecided says what was decided, and how. What had expired was asked again for it, under another id,
// which is that of the audit log.
func sayDecided(ctx context.Context, a *app.App, b app.Backend, p core.Approval, approve bool) {
	word := "denied"
	if approve {
		word = "approved"
	}
	which := p.ID.Short()
	if now, err := asItIs(ctx, b, p.ID); err == nil && now.ID != p.ID {
		which = now.ID.Short() + ", as which " + which + " was asked again: it had expired"
	}
	a.Say("%s: %s", word, core.OneLine(whatOf(p)+" ("+which+")", 200))
}

// sayAskedAgain says of a decision about what had expired under which id it counts.
func sayAskedAgain(ctx context.Context, a *app.App, b app.Backend, d *api.Decision) {
	if d == nil || d.Checkpoint == "" {
		return
	}
	if now, err := asItIs(ctx, b, d.Checkpoint); err == nil && now.ID != d.Checkpoint {
		a.Say("note: %s had expired; it was asked again as %s, which is decided", d.Checkpoint.Short(), now.ID.Short())
	}
}

// sayTaken says at a terminal what was decided by a decision about a run, if it was one. A
// decision without a digest is about nothing that was shown: it was decided before, which
// was said.
func sayTaken(ctx context.Context, a *app.App, b app.Backend, id core.ID, d *api.Decision) {
	if d == nil || d.ExpectDigest == "" || !a.CanAsk() {
		return
	}
	w, err := b.Workflow(ctx, id)
	if err != nil {
		return // it is taken all the same
	}
	about := func(p core.Approval) bool {
		return p.ID == d.Checkpoint || d.Checkpoint == "" && p.Digest == d.ExpectDigest
	}
	if i := slices.IndexFunc(w.Approvals, about); i >= 0 {
		sayDecided(ctx, a, b, w.Approvals[i], d.Approve)
	}
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
	text := fmt.Sprintf("%s (%s) is %s", w.Title(), id.Short(), w.State)
	if w.Error != nil {
		text += ": " + core.OneLine(core.ShownAbort(w.Error.Message), 300)
	}
	in.a.Say("%s", text)
	next := []string{"pml", "workflows", "show", id.Short()}
	switch w.State {
	case core.RunComplete:
		next[2] = "result"
	case core.RunFailed:
		if w.FaultOfProgram() {
			if file := fileOf(ctx, in.b, id); file != "" {
				in.a.SayNext(next...)
				next = []string{"pml", "run", file}
			}
			break
		}
		in.a.SayNext(next...)
		next = app.AfterFailure(id, w.Error)
	default:
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
	case len(in.shown) == 0:
		in.a.Note("nothing waits for a decision")
	case in.late != nil: // it was said when it happened
		return app.ExitStatus(app.ExitCodes[core.CodeOf(in.late)])
	}
	return nil
}
