package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// latest names the newest run of the workspace. It is a moving target: an agent makes
// another run the newest at any moment.
const latest = "@latest"

// see shows what a decision of the command line is about before anything is decided,
// and asks where there is a terminal. It returns the decisions to take, each bound to the
// digest that was shown. Without a terminal the id that was given is
// the consent, and the audit log says that nobody was asked.
func see(ctx context.Context, a *app.App, b app.Backend, run core.ID, d *api.Decision, o continueOptions) ([]*api.Decision, error) {
	about, open, err := openOf(ctx, a, b, run, d, o)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(strings.TrimSpace(o.id), latest) {
		if err := latestMay(a, run, open, d); err != nil {
			return nil, err
		}
	}
	if o.shape.on {
		return approveLoop(ctx, a, b, about, d, o)
	}
	if o.oneByOne(a, d, open) {
		return askEach(ctx, a, b, open, d, o)
	}
	if o.edits() && len(about) == 0 {
		return nil, core.Errorf(core.CodeNotWaiting, "nothing waits here whose arguments could be changed; nothing was decided").
			WithRun(run).WithNext("pml", "workflows", "show", run.Short())
	}
	unedited := ""
	if o.edits() {
		unedited = about[0].Digest
		if about[0], d, err = edited(ctx, a, b, about[0], d, o); err != nil {
			return nil, err
		}
	}
	if len(about) == 1 && (o.all || d.AllOfType != "" || o.extras.wants() != "") {
		d = bound(*d, about[0])
	} else if len(about) == 1 && d.ExpectDigest == "" {
		// Who names no approval means what waits; if somebody else is faster, the
		// backend says so, and it decides nothing else than what was shown.
		d.ExpectDigest = about[0].Digest
	}
	asks := o.asks(a, about, d)
	if asks && len(about) == 1 && !writesRule(d) {
		return askOne(ctx, a, b, question{about: about[0], n: 1, of: len(open), given: d, verb: verbApprove, pin: o.extras.pin, unedited: unedited})
	}
	if err := showAll(a, about, max(len(open), len(about))); err != nil {
		return nil, err
	}
	if err := consent(ctx, a, b, about, d, o.extras, asks); err != nil {
		return nil, err
	}
	if d.Approve || a.PinFD >= 0 {
		if d.Pin, err = a.PinFor(ctx, b, o.extras.pin); err != nil {
			return nil, core.AsError(err).WithRun(run)
		}
	}
	if len(about) < 2 {
		return []*api.Decision{d}, nil
	}
	all := make([]*api.Decision, len(about))
	for i, p := range about {
		all[i] = bound(*d, p)
		all[i].Abort = d.Abort && i == len(about)-1 // the run has to be there for the others
	}
	return all, nil
}

// asks reports whether a person is asked before a yes: on a terminal, unless the command
// line has said --yes or hands over a PIN. Where people decide, --yes is no person. A
// digest that is not the one that was expected is for the backend to refuse.
func (o continueOptions) asks(a *app.App, about []core.Approval, d *api.Decision) bool {
	if !d.Approve || len(about) == 0 || !a.CanAsk() || a.PinFD >= 0 || len(about) == 1 && d.ExpectDigest != about[0].Digest {
		return false
	}
	return !o.extras.yes || slices.ContainsFunc(about, func(p core.Approval) bool { return p.Human })
}

// consent has what was shown agreed to, where that takes more than the one question: a
// rule, and all of a type. A no that was shown on a terminal needs no second word.
func consent(ctx context.Context, a *app.App, b app.Backend, about []core.Approval, d *api.Decision, x extras, asks bool) error {
	rule := writesRule(d) && len(about) == 1
	if rule {
		if err := ruleShown(ctx, a, b, about[0], x.yes && !asks); err != nil {
			return err
		}
	}
	if asks && !rule {
		if err := confirm(ctx, a, about); err != nil {
			return err
		}
	}
	if asks || !d.Approve && len(about) > 0 && a.CanAsk() && a.PinFD < 0 {
		d.Presence = core.PresenceTerminal
	}
	return nil
}

func writesRule(d *api.Decision) bool {
	return d.Answer != nil && d.Answer.Remember == core.RememberRule
}

// bound is a decision about exactly what was shown.
func bound(d api.Decision, p core.Approval) *api.Decision {
	d.Checkpoint = p.ID
	if d.AllOfType = ""; d.ExpectDigest == "" {
		d.ExpectDigest = p.Digest
	}
	return &d
}

// askOne asks about one approval as every command does.
func askOne(ctx context.Context, a *app.App, b app.Backend, q question) ([]*api.Decision, error) {
	got, err := ask(ctx, a, b, q)
	if core.CodeOf(err) == core.CodeAlreadyDecided && q.given.Approve && got == nil && approvedAlready(ctx, b, q.about.ID) {
		overtaken(a, err)
		return []*api.Decision{nil}, nil
	}
	if err != nil && !errors.Is(err, errInputEnds) {
		return nil, err
	}
	if got == nil {
		return nil, leftOpen(q.about)
	}
	return []*api.Decision{got}, nil
}

// confirm has each approval of high risk confirmed by its four characters, and the rest
// by one question.
func confirm(ctx context.Context, a *app.App, about []core.Approval) error {
	for _, p := range about {
		if err := typed(ctx, a, p); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(about, func(p core.Approval) bool { return !approval.High(p, false) }) {
		return nil
	}
	ok, err := app.YesNo{Question: fmt.Sprintf("approve these %d?", len(about)), Enter: true}.Ask(ctx, a)
	if err == nil && !ok {
		err = leftOpen(about[0])
	}
	return err
}

// typed has the four characters typed that an approval of high risk needs.
func typed(ctx context.Context, a *app.App, p core.Approval) error {
	want := approval.Confirmation(p, false)
	if want == "" {
		return nil
	}
	ok, err := a.TypeDigits(ctx, want)
	if err == nil && !ok {
		err = leftOpen(p)
	}
	return err
}

// leftOpen is the end of a command whose question was not answered.
func leftOpen(p core.Approval) error {
	return core.Errorf(core.CodeAwaitingHuman, "nothing was decided: %s waits on", p.ID.Short()).
		WithRun(p.RunID).WithNext("pml", "approve", p.ID.Short())
}

// showAll puts approvals on stderr in full, for a program alone as an object on a line each.
func showAll(a *app.App, about []core.Approval, of int) error {
	for i, p := range about {
		if !a.AsJSON() || a.CanAsk() {
			a.Progress.Clear()
			io.WriteString(a.Stderr, cardErr(a, view.Approval(p, i+1, of, a.Now())))
			continue
		}
		if err := a.SayJSON(map[string]core.Approval{"deciding": p}); err != nil {
			return err
		}
	}
	return nil
}

// latestMay refuses to decide for the newest run without anybody who sees which one
// that is, and where it is open which approval is meant: then it lists them.
func latestMay(a *app.App, run core.ID, open []core.Approval, d *api.Decision) error {
	several := len(open) > 1 && d.Checkpoint == "" && d.AllOfType == ""
	if a.CanAsk() && !several {
		return nil
	}
	e := app.Usagef("nothing was decided: %s means the run %s just now, and decides only at a terminal, where you see what that is; name the run or the approval", latest, run.Short())
	if several {
		e = app.Usagef("nothing was decided: %s is the run %s, which waits for %d approvals; name one:%s", latest, run.Short(), len(open), listed(open))
	}
	if len(open) == 0 {
		return e.WithNext("pml", "approvals", "ls")
	}
	if several {
		return e.WithNext("pml", "approve", open[0].ID.Short())
	}
	return e.WithNext("pml", "approvals", "show", open[0].ID.Short())
}

// listed names approvals, for a message that leaves the choice to the person.
func listed(list []core.Approval) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString("\n  " + core.Visible(p.ID.Short()+"  "+string(p.Risk)+"  "+whatOf(p)+"  "+runOf(p), 160, false))
	}
	return b.String()
}

// openOf are the approvals that a decision is about, out of those of the run that
// wait: what has expired as well, since a decision asks it again.
func openOf(ctx context.Context, a *app.App, b app.Backend, run core.ID, d *api.Decision, o continueOptions) (about, open []core.Approval, err error) {
	want := o.extras.wants()
	if o.shape.on {
		want = core.ApproveTool
	}
	if d.Checkpoint != "" {
		p, err := b.Approval(ctx, d.Checkpoint)
		if err != nil {
			return nil, nil, err
		}
		if want != "" && p.Type != want {
			return nil, nil, app.Usagef("the approval %s is of the type %s, and this is for %s", p.ID.Short(), p.Type, want).
				WithNext("pml", "approvals", "show", p.ID.Short())
		}
		if s := p.StateAt(a.Now()); s != core.ApprovalOpen && s != core.ApprovalExpired {
			if s == core.ApprovalApproved && d.Approve { // the same again is no error
				a.Note("note: %s", core.Visible(approval.AlreadyDecided(p).Message, 2000, false))
			}
			return nil, nil, nil // it is decided, and the backend says by whom
		}
		return []core.Approval{p}, nil, nil
	}
	w, err := b.Workflow(ctx, run) // of the half that has it: the other one may be away
	if err != nil {
		return nil, nil, err
	}
	list := slices.DeleteFunc(approval.Decidable(w.Approvals, a.Now()), func(p core.Approval) bool {
		return w.State.Final() || d.AllOfType != "" && p.Type != d.AllOfType
	})
	open = slices.Clone(list)
	if want != "" {
		list = slices.DeleteFunc(list, func(p core.Approval) bool { return p.Type != want })
		if len(list) == 0 {
			return nil, nil, core.Errorf(core.CodeNotWaiting, "the run %s waits for no %s", run.Short(), want).
				WithRun(run).WithNext("pml", "workflows", "show", run.Short())
		}
	}
	if d.Answer != nil && d.Answer.InDoubt != "" { // the first that such an answer can be about
		slices.SortStableFunc(list, func(x, y core.Approval) int { return notInDoubt(x) - notInDoubt(y) })
	}
	if o.all {
		list, err = together(run, list)
	} else if d.AllOfType == "" && len(list) > 1 {
		list = list[:1]
	}
	return list, open, err
}

func notInDoubt(p core.Approval) int {
	if p.Type == core.ApproveInDoubt {
		return 0
	}
	return 1
}

// approvalFlag lets --checkpoint, its older name, stand for --approval.
func approvalFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "checkpoint" {
		name = "approval"
	}
	return pflag.NormalizedName(name)
}
