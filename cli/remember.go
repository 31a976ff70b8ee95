package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const rememberOnce = "once"

var remembering = []string{rememberOnce, string(core.RememberRun), string(core.RememberSession), string(core.RememberRule)}

// showRule shows the rule that would remember an approval, and what it changes
// in which file.
func (a *app) showRule(ctx context.Context, b Changes, id core.ID) error {
	r, err := b.RuleFor(ctx, id)
	if err != nil {
		return err
	}
	var w strings.Builder
	fmt.Fprintf(&w, "the rule: permissions.%s gets %q\n", core.Visible(r.List, 0, false), core.Visible(r.Pattern, 0, false))
	writeChange(&w, r.Change)
	io.WriteString(a.Stderr, w.String())
	return nil
}

// agreeToRule shows the rule and asks whether it may be written.
func (a *app) agreeToRule(ctx context.Context, b Changes, id core.ID) (bool, error) {
	if err := a.showRule(ctx, b, id); err != nil {
		return false, err
	}
	return a.askYes(ctx, "approve, and write this rule?")
}

// extras are the flags of continue that say more than yes to one approval.
type extras struct {
	remember     string
	scripts      bool
	yes, pin     bool
	rememberSeen bool
}

// wants is the type of approval that the flags speak of, empty for any.
func (x extras) wants() core.ApprovalType {
	switch {
	case x.rememberSeen:
		return core.ApproveTool
	case x.scripts:
		return core.ApproveDependency
	}
	return ""
}

// check finds flags that do not go with the decision or with each other.
func (x extras) check(a *app, o continueOptions) error {
	switch {
	case x.rememberSeen && !o.approve:
		return usagef("--remember goes with --approve")
	case x.scripts && !o.approve:
		return usagef("--allow-scripts goes with --approve")
	case x.rememberSeen && x.scripts:
		return usagef("--remember is about a tool, --allow-scripts about an installation: decide them one by one")
	case o.answer != "" && x.wants() != "":
		return usagef("--answer is for a call in doubt; it does not go with --remember and --allow-scripts")
	case x.scripts && o.allOfType != "":
		return usagef("--allow-scripts is decided package by package: name one with --checkpoint")
	case x.remember == string(core.RememberRule) && o.allOfType != "":
		return usagef("a rule is shown before it is written: name one approval with --checkpoint")
	case x.rememberSeen && o.allOfType != "" && o.allOfType != string(core.ApproveTool):
		return usagef("--remember goes with --all-of-type tool_permission only")
	case x.yes && x.remember != string(core.RememberRule):
		return usagef("--yes goes with --remember rule")
	case x.pin && !o.approve && o.answer == "":
		return usagef("--pin goes with --approve: denying needs none")
	case x.pin && !a.human():
		return usagef("--pin does not go with -o %s: output for programs never asks", a.format())
	}
	if x.rememberSeen {
		return oneOf("remember", x.remember, remembering...)
	}
	return nil
}

// answer is what the flags add to a yes.
func (x extras) answer() *core.Answer {
	switch {
	case x.scripts:
		return &core.Answer{Scripts: true}
	case x.rememberSeen && x.remember != rememberOnce:
		return &core.Answer{Remember: core.Remember(x.remember)}
	}
	return nil
}

// complete binds a decision to the approval that the flags are about, shows
// what has to be shown first and asks for the PIN. No decision is taken yet.
func (a *app) complete(ctx context.Context, b Backend, run core.ID, d *api.Decision, x extras) error {
	if x.wants() != "" && d.AllOfType == "" {
		p, err := a.target(ctx, b, run, d.Checkpoint, x.wants())
		if err != nil {
			return err
		}
		d.Checkpoint = p.ID
		if d.ExpectDigest == "" {
			d.ExpectDigest = p.Digest
		}
		if x.remember == string(core.RememberRule) {
			if err := a.ruleShown(ctx, b, p, x.yes); err != nil {
				return err
			}
		}
	}
	if !d.Approve {
		return nil
	}
	pin, err := a.pinFor(ctx, b, x.pin)
	if err != nil {
		return core.AsError(err).WithRun(run)
	}
	d.Pin = pin
	return nil
}

// target is the approval of a type that a decision is about: the named one,
// else the first of that type that waits.
func (a *app) target(ctx context.Context, b Approvals, run, id core.ID, want core.ApprovalType) (core.Approval, error) {
	if id != "" {
		p, err := b.Approval(ctx, id)
		if err == nil && p.Type != want {
			err = usagef("the approval %s is of the type %s, and this is for %s", p.ID.Short(), p.Type, want).
				WithNext("pml", "approvals", "show", p.ID.Short())
		}
		return p, err
	}
	list, err := b.Approvals(ctx, false)
	if err != nil {
		return core.Approval{}, err
	}
	slices.SortStableFunc(list, soonest)
	for _, p := range list {
		if p.RunID == run && p.Type == want && p.StateAt(a.now()) == core.ApprovalOpen {
			return p, nil
		}
	}
	return core.Approval{}, core.Errorf(core.CodeNotWaiting, "workflow %s waits for no %s", run.Short(), want).
		WithRun(run).WithNext("pml", "workflows", "show", run.Short())
}

// ruleShown shows the rule and has a person agree to it, unless the command
// line did with --yes.
func (a *app) ruleShown(ctx context.Context, b Changes, p core.Approval, yes bool) error {
	again := []string{"pml", "continue", p.RunID.Short(), "--approve", "--checkpoint", p.ID.Short(), "--remember", "rule", "--yes"}
	switch {
	case yes && !a.human():
		_, err := b.RuleFor(ctx, p.ID) // it can be written; showing it is not for a program
		return err
	case yes:
		return a.showRule(ctx, b, p.ID)
	case !a.asks():
		if a.human() {
			if err := a.showRule(ctx, b, p.ID); err != nil {
				return err
			}
		}
		return core.Errorf(core.CodeAwaitingHuman, "nothing was decided: a rule is written only when somebody agrees to it, and there is no terminal to ask on; --yes agrees").
			WithRun(p.RunID).WithNext(again...)
	}
	ok, err := a.agreeToRule(ctx, b, p.ID)
	if err == nil && !ok {
		err = core.Errorf(core.CodeAwaitingHuman, "nothing was decided, and the rule was not written")
	}
	if err != nil {
		return core.AsError(err).WithRun(p.RunID).WithNext("pml", "approvals", "show", p.ID.Short())
	}
	return nil
}
