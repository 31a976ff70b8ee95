package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// oneByOne reports whether a person is shown each of several approvals and asked about
// it: where the command line names none of them, says nothing more of the answer, and
// leaves nothing to a program.
func (o continueOptions) oneByOne(a *app.App, d *api.Decision, open []core.Approval) bool {
	named := d.Checkpoint != "" || d.AllOfType != "" || d.ExpectDigest != "" || d.Answer != nil || o.all
	return len(open) > 1 && !named && !o.edits() && !o.extras.yes && a.CanAsk() && a.PinFD < 0
}

// askEach asks about the approvals of a run, one after another, and returns what was
// decided. What is left for later waits on; an abort or the end of the input ends it.
func askEach(ctx context.Context, a *app.App, b app.Backend, open []core.Approval, given *api.Decision, o continueOptions) (all []*api.Decision, err error) {
	verb := verbApprove
	if o.deny {
		verb = verbDeny
	}
	gone := false // somebody else has decided one of them
	var before answersBefore
	for i, p := range open {
		if before.answer(p) {
			a.Say("not asked: %s is permitted by your answer above", core.OneLine(whatOf(p)+" ("+p.ID.Short()+")", 200))
			continue
		}
		if i > 0 {
			a.Say("")
		}
		d, err := ask(ctx, a, b, question{about: p, n: i + 1, of: len(open), given: given, verb: verb, pin: o.extras.pin})
		if errors.Is(err, errInputEnds) {
			break
		}
		if settled(err) {
			overtaken(a, err)
			gone = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		before.add(p, d)
		d.Abort = d.Abort || o.abort && !d.Approve
		if all = append(all, d); d.Abort {
			break
		}
	}
	if len(all) == 0 && gone {
		return []*api.Decision{nil}, nil // the run goes on by what others have decided
	}
	if len(all) == 0 {
		return nil, leftOpen(open[0])
	}
	return all, nil
}

// answersBefore are the yeses that were just given about a run's approvals and that permit more
// than one call. What they permit is called as soon as they are sent: a no to it would come too
// late, so nobody is asked.
type answersBefore []core.Approval

func (b *answersBefore) add(p core.Approval, d *api.Decision) {
	if !d.Approve || d.Answer == nil {
		return
	}
	p.State, p.Answer, p.CallIDs = core.ApprovalApproved, d.Answer, []string{string(p.ID)}
	*b = append(*b, p)
}

// answer reports whether one of them answers a question, too, and counts its call where their
// number is bounded.
func (b answersBefore) answer(p core.Approval) bool {
	for i := range b {
		yes := &b[i]
		if yes.Permits(p) {
			return true
		}
		if s := yes.Shape(); s != nil && len(yes.CallIDs) < s.Max && approval.Outside(*s, p, nil) == "" {
			yes.CallIDs = append(yes.CallIDs, string(p.ID))
			return true
		}
	}
	return false
}

// together are the approvals of a run that --all decides: not those that are decided
// one by one.
func together(run core.ID, list []core.Approval) ([]core.Approval, error) {
	rest := slices.DeleteFunc(slices.Clone(list), func(p core.Approval) bool {
		_, ok := approval.KinOf(p)
		return !ok
	})
	if len(rest) == 0 && len(list) > 0 {
		return nil, core.Errorf(core.CodeNotWaiting, "what waits in the run %s is decided one by one, not with --all; nothing was decided:%s", run.Short(), listed(list)).
			WithRun(run).WithNext("pml", "approve", list[0].ID.Short())
	}
	return rest, nil
}

// askAlike shows approvals that are alike, all of them, and asks about them once. It
// returns the decisions, none for later; apart says that the person wants them one by
// one.
func askAlike(ctx context.Context, a *app.App, b app.Backend, list []core.Approval, verb, reason string) (all []*api.Decision, apart bool, err error) {
	a.Progress.Hold()
	defer a.Progress.Release()
	whats := make([]string, len(list))
	for i, p := range list {
		whats[i] = whatOf(p)
	}
	fmt.Fprintf(a.Stderr, "%d approvals are alike: %s\n\n", len(list), core.Visible(approval.Pattern(whats), 200, false))
	for i, p := range list {
		if i > 0 && core.IsProvider(p.Tool) { // the others ask the very same
			break
		}
		io.WriteString(a.Stderr, cardErr(a, view.Approval(p, i+1, len(list), a.Now()))+"\n")
	}
	question := fmt.Sprintf("%s these %d? [y]es, all%s / [o]ne by one", verb, len(list), thenType(list[0], verb))
	if verb == verbApprove {
		question += " / [n]o (deny all)"
	}
	question += " / [l]ater: "
	for {
		line, err := a.Ask(ctx, question)
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return nil, false, errInputEnds
		}
		if err != nil {
			return nil, false, core.Errorf(core.CodeCancelled, "no decision was taken: %w", err)
		}
		switch word := strings.ToLower(line); {
		case word == "o" || word == "one":
			return nil, true, nil
		case word == "l" || word == "later":
			return nil, false, nil
		case word == "y" || word == "yes" || word == verb:
			all, err = alikeDecided(ctx, a, b, list, verb == verbApprove, reason)
		case verb == verbApprove && (word == "n" || word == "no" || word == verbDeny):
			if reason == "" {
				reason, err = askReason(ctx, a)
			}
			if err == nil {
				all, err = alikeDecided(ctx, a, b, list, false, reason)
			}
		}
		if err != nil || all != nil {
			return all, false, err
		}
	}
}

// alikeDecided is a decision for each of some approvals, bound to what was shown. What
// is of high risk is confirmed by its characters, the same ones once; who stops there
// has decided nothing.
func alikeDecided(ctx context.Context, a *app.App, b app.Backend, list []core.Approval, approve bool, reason string) ([]*api.Decision, error) {
	pin := ""
	if approve {
		typed := ""
		for _, p := range list {
			want := approval.Confirmation(p, false)
			if want == typed {
				continue
			}
			typed = want
			if ok, err := a.TypeDigits(ctx, want); err != nil || !ok {
				return nil, err
			}
		}
		var err error
		if pin, err = a.PinFor(ctx, b, false); err != nil {
			return nil, err
		}
	}
	all := make([]*api.Decision, len(list))
	for i, p := range list {
		all[i] = &api.Decision{Checkpoint: p.ID, ExpectDigest: p.Digest, Approve: approve, Pin: pin, Reason: reason, Presence: core.PresenceTerminal}
	}
	return all, nil
}

// carryAll takes several decisions about a run and waits for it with the last one. What
// cannot be decided, because somebody was faster or it has changed, does not keep the
// others: pml says so at once, and ends with the first such error when the run is well.
func carryAll(ctx context.Context, a *app.App, b app.Backend, id core.ID, all []*api.Decision, o continueOptions) error {
	var first error
	var r api.Result
	done := 0
	for i, d := range all {
		req := api.ContinueRequest{ID: id, Decision: d, Reason: d.Reason, By: a.Actor()}
		if i == len(all)-1 {
			req = o.request(a, id, d, d.Reason)
		}
		var err error
		if r, err = b.Continue(ctx, req); err == nil {
			done++
			sayTaken(ctx, a, b, id, d)
			continue
		}
		if first == nil {
			first = err
		}
		if endsAll(err) {
			return decidedSoFar(err, id, done, len(all))
		}
		a.Say("not decided: %s: %s", d.Checkpoint.Short(), core.Visible(err.Error(), 2000, false))
		if i < len(all)-1 {
			continue
		}
		if r, err = o.goOn(ctx, a, b, id, done); err != nil || r.WorkflowID == "" {
			return decidedSoFar(first, id, done, len(all))
		}
	}
	err := Settle(ctx, a, b, r, nil, o.wait)
	if err == nil && first != nil {
		err = decidedSoFar(first, id, done, len(all))
	}
	return err
}

// goOn waits for a run of which some approvals were decided and the last was not. A run
// that pauses after each layer is not passed on by that: then there is no result.
func (o continueOptions) goOn(ctx context.Context, a *app.App, b app.Backend, id core.ID, done int) (api.Result, error) {
	w, err := b.Workflow(ctx, id)
	if err != nil || done == 0 || w.State.Final() || w.Options.PerLayer {
		return api.Result{}, err
	}
	return b.Continue(ctx, o.request(a, id, nil, o.reason))
}

// endsAll reports whether an error is about more than the one approval that was to be
// decided.
func endsAll(err error) bool {
	return slices.Contains([]core.Code{
		core.CodeCancelled, core.CodeInternal, core.CodeStoreBusy, core.CodeStoreFailed, core.CodeStoreKey, core.CodeServerUnreachable, core.CodeAuth,
	}, core.CodeOf(err))
}

// decidedSoFar is an error that has kept some of several decisions from being taken.
func decidedSoFar(err error, id core.ID, done, of int) error {
	e := *core.AsError(err)
	e.Message = fmt.Sprintf("%d of %d approvals were decided: %s", done, of, e.Message)
	return e.WithRun(id)
}
