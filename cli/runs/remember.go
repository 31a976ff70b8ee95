package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

const rememberOnce = "once"

var remembering = []string{rememberOnce, string(core.RememberRun), string(core.RememberSession), string(core.RememberRule)}

// showRule shows the rule that would remember an approval, and what it changes
// in which file.
func showRule(ctx context.Context, a *app.App, b api.Answers, id core.ID) error {
	r, err := b.RuleFor(ctx, id)
	if err != nil {
		return err
	}
	var w strings.Builder
	fmt.Fprintf(&w, "the rule: permissions.%s gets %q\n", core.Visible(r.List, 0, false), core.Visible(r.Pattern, 0, false))
	changes.WriteChange(&w, r.Change)
	changes.Show(a, w.String())
	return nil
}

// agreeToRule shows the rule and asks whether it may be written; a yes to what is of high
// risk is confirmed by its characters.
func agreeToRule(ctx context.Context, a *app.App, b api.Answers, p core.Approval) (bool, error) {
	if err := showRule(ctx, a, b, p.ID); err != nil {
		return false, err
	}
	return app.YesNo{Question: "approve, and write this rule?", Typed: approval.Confirmation(p, false)}.Ask(ctx, a)
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
func (x extras) check(a *app.App, o continueOptions) error {
	switch {
	case x.rememberSeen && !o.approve:
		return app.Usagef("--remember goes with --approve")
	case x.scripts && !o.approve:
		return app.Usagef("--allow-scripts goes with --approve")
	case x.rememberSeen && x.scripts:
		return app.Usagef("--remember is about a tool, --allow-scripts about an installation: decide them one by one")
	case o.answer != "" && x.wants() != "":
		return app.Usagef("--answer is for a call in doubt; it does not go with --remember and --allow-scripts")
	case x.scripts && o.allOfType != "":
		return app.Usagef("--allow-scripts is decided package by package: name one with --approval")
	case x.remember == string(core.RememberRule) && o.allOfType != "":
		return app.Usagef("a rule is shown before it is written: name one approval with --approval")
	case x.rememberSeen && o.allOfType != "" && o.allOfType != string(core.ApproveTool):
		return app.Usagef("--remember goes with --all-of-type tool_permission only")
	case x.yes && !o.decides():
		return app.Usagef("--yes goes with a decision: --approve, --deny or --answer")
	case x.pin && !o.approve && o.answer == "":
		return app.Usagef("--pin goes with --approve: denying needs none")
	case x.pin && a.PinFD >= 0:
		return app.Usagef("--pin asks at the terminal, --pin-fd reads a file descriptor: give one of them")
	case x.pin && !a.Human() && !a.CanAsk():
		return app.Usagef("--pin asks at a terminal, and there is none here; --pin-fd reads the PIN from a file descriptor")
	}
	if x.rememberSeen {
		return app.OneOf("remember", x.remember, remembering...)
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

// ruleShown shows the rule and has a person agree to it, unless the command
// line did with --yes.
func ruleShown(ctx context.Context, a *app.App, b api.Answers, p core.Approval, yes bool) error {
	again := []string{"pml", "continue", p.RunID.Short(), "--approve", "--approval", p.ID.Short(), "--remember", "rule", "--yes"}
	switch {
	case yes && !a.Human() && !a.CanAsk():
		_, err := b.RuleFor(ctx, p.ID) // it can be written; showing it is not for a program
		return err
	case yes:
		return showRule(ctx, a, b, p.ID)
	case !a.CanAsk():
		if a.Human() {
			if err := showRule(ctx, a, b, p.ID); err != nil {
				return err
			}
		}
		return core.Errorf(core.CodeAwaitingHuman, "nothing was decided: a rule is written only when somebody agrees to it, and there is no terminal to ask on; --yes agrees").
			WithRun(p.RunID).WithNext(again...)
	}
	ok, err := agreeToRule(ctx, a, b, p)
	if err == nil && !ok {
		err = core.Errorf(core.CodeAwaitingHuman, "nothing was decided, and the rule was not written")
	}
	if err != nil {
		return core.AsError(err).WithRun(p.RunID).WithNext("pml", "approvals", "show", p.ID.Short())
	}
	return nil
}
