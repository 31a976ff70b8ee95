package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type continueOptions struct {
	id                   string
	approve, deny, abort bool
	checkpoint           string
	digest               string
	allOfType            string
	reason               string
	answer, result       string
	resultSet            bool
	extras               extras
	wait                 waitFlags
}

// decides reports whether the command line holds a decision.
func (o continueOptions) decides() bool { return o.approve || o.deny || o.answer != "" }

func (a *app) continueCmd() *cobra.Command {
	var o continueOptions
	cmd := &cobra.Command{
		Use:   "continue ID",
		Short: "Go on with a run that waits or was interrupted, with or without a decision",
		Long: `Goes on with a run. With --approve or --deny it decides an approval: the one
of --checkpoint, else the first that waits. --deny rejects the call and the run
goes on; --deny --abort also aborts it. Where a run is expected, the id of an
approval names both. While other approvals wait the exit code is 8.

--remember run allows a tool for the rest of the run, session until the process
that runs it ends, and rule for good: it writes a rule into .pml.json, which is
shown first. Where a PIN is set, an approval asks for it at the terminal.`,
		Example: `  pml continue 7f3a91c2
  pml continue 7f3a91c2 --approve
  pml continue @latest --deny --reason "wrong folder"
  pml continue 7f3a91c2 --approve --all-of-type tool_permission
  pml continue 7f3a91c2 --approve --remember rule
  pml continue 7f3a91c2 --approve --checkpoint 41d2e07b --allow-scripts
  pml continue 7f3a91c2 --answer skip --result '{"sent":true}'`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			o.resultSet = cmd.Flags().Changed("result")
			o.extras.rememberSeen = cmd.Flags().Changed("remember")
			if err := notEmpty(cmd, "checkpoint", "expect-digest", "all-of-type", "answer", "remember"); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			if err := o.extras.check(a, o); err != nil {
				return err
			}
			if err := o.wait.check(a, cmd, o.decides()); err != nil {
				return err
			}
			return a.continueRun(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.approve, "approve", false, "approve what waits")
	f.BoolVar(&o.deny, "deny", false, "deny it: the call is rejected, the run goes on")
	f.BoolVar(&o.abort, "abort", false, "with --deny: abort the run as well")
	f.StringVar(&o.checkpoint, "checkpoint", "", "the approval that is meant")
	f.StringVar(&o.digest, "expect-digest", "", "decide only if the approval still has this digest")
	f.StringVar(&o.allOfType, "all-of-type", "", "decide all that wait of a type (not integrity)")
	f.StringVar(&o.reason, "reason", "", "why; kept in the audit log")
	f.StringVar(&o.answer, "answer", "", "for a call in doubt: run-again or skip")
	f.StringVar(&o.result, "result", "", "with --answer skip: the result to assume, JSON or @FILE")
	f.StringVar(&o.extras.remember, "remember", rememberOnce, "with --approve, for a tool: once, run, session or rule")
	f.BoolVar(&o.extras.scripts, "allow-scripts", false, "with --approve, for an installation: its install scripts may run")
	f.BoolVar(&o.extras.pin, "pin", false, "with --approve: ask for the PIN at the terminal")
	f.BoolVar(&o.extras.yes, "yes", false, "with --remember rule: write the rule without asking")
	a.addWaitFlags(cmd, &o.wait, true)
	_ = cmd.RegisterFlagCompletionFunc("remember", fixed(remembering...))
	_ = cmd.RegisterFlagCompletionFunc("all-of-type", fixed(bulkTypes...))
	_ = cmd.RegisterFlagCompletionFunc("answer", fixed(inDoubtAnswers...))
	return cmd
}

// bulkTypes are the types that may be decided all at once.
var bulkTypes = []string{
	string(core.ApproveDependency), string(core.ApproveKeys), string(core.ApproveTool), string(core.ApproveOAuth),
	string(core.ApproveLayer), string(core.ApproveInDoubt), string(core.ApproveHook),
}

const (
	answerRunAgain = "run-again"
	answerSkip     = "skip"
)

var inDoubtAnswers = []string{answerRunAgain, answerSkip}

// check finds flags that contradict each other.
func (o continueOptions) check() error {
	switch {
	case o.approve && o.deny:
		return usagef("--approve and --deny contradict each other")
	case o.answer != "" && o.deny:
		return usagef("--answer and --deny contradict each other")
	case o.abort && !o.deny:
		return usagef("--abort goes with --deny; to abort without a decision: pml abort %s", o.id)
	case o.checkpoint != "" && o.allOfType != "":
		return usagef("--checkpoint names one approval, --all-of-type several: give one of them")
	case o.digest != "" && o.allOfType != "":
		return usagef("--expect-digest speaks of one approval: it does not go with --all-of-type")
	case o.allOfType == string(core.ApproveIntegrity):
		return usagef("integrity approvals are decided one by one, never with --all-of-type")
	case o.resultSet && o.answer != answerSkip:
		return usagef("--result goes with --answer skip")
	case !o.decides() && (o.checkpoint != "" || o.digest != "" || o.allOfType != ""):
		return usagef("say what to decide: --approve, --deny or --answer")
	}
	if o.answer != "" {
		if err := oneOf("answer", o.answer, inDoubtAnswers...); err != nil {
			return err
		}
	}
	if o.allOfType != "" {
		return oneOf("all-of-type", o.allOfType, bulkTypes...)
	}
	return nil
}

// decision makes the decision of the flags, nil when they hold none.
func (a *app) decision(o continueOptions) (*api.Decision, error) {
	if !o.decides() {
		return nil, nil
	}
	d := &api.Decision{
		Approve: !o.deny, AllOfType: core.ApprovalType(o.allOfType), ExpectDigest: o.digest,
		Abort: o.abort, Reason: o.reason, Answer: o.extras.answer(),
	}
	switch o.answer {
	case answerRunAgain:
		d.Answer = &core.Answer{InDoubt: core.RunAgain}
	case answerSkip:
		d.Answer = &core.Answer{InDoubt: core.SkipResult, Result: core.Null}
		if o.resultSet {
			raw, err := a.readJSON("result", o.result)
			if err != nil {
				return nil, err
			}
			d.Answer.Result = raw
		}
	}
	return d, nil
}

func (a *app) continueRun(ctx context.Context, o continueOptions) error {
	d, err := a.decision(o)
	if err != nil {
		return err
	}
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	id, approval, err := a.resolve(ctx, b, o.id)
	if err != nil {
		return err
	}
	if d != nil && d.AllOfType == "" {
		d.Checkpoint = approval
		if o.checkpoint != "" {
			if d.Checkpoint, err = a.checkpoint(ctx, b, id, o.checkpoint); err != nil {
				return err
			}
		}
	}
	if d != nil {
		if err := a.complete(ctx, b, id, d, o.extras); err != nil {
			return err
		}
	}
	a.progress.start()
	if o.wait.hold() {
		a.progress.wait()
	}
	r, err := b.Continue(ctx, api.ContinueRequest{
		ID: id, Decision: d, Reason: o.reason, By: a.actor(), Wait: o.wait.limit(a), HoldApprovals: o.wait.hold(),
	})
	return a.settle(ctx, b, r, err, o.wait)
}

// resolve turns what a person typed into the id of a run and, when it named an
// approval, into that too.
func (a *app) resolve(ctx context.Context, b Backend, text string) (id, approval core.ID, err error) {
	id, approval, err = b.Resolve(ctx, text)
	if core.CodeOf(err) != core.CodeNotFound {
		return id, approval, err
	}
	e := *core.AsError(err)
	if page, lerr := b.Workflows(ctx, nil, 200, ""); lerr == nil {
		var ids []string
		for _, r := range page.Items {
			ids = append(ids, r.ID.Short())
		}
		e.Message += core.Suggest(text[:min(8, len(text))], ids)
	}
	return "", "", &e
}

// resolveRun is resolve for commands that speak of runs only.
func (a *app) resolveRun(ctx context.Context, b Backend, text string) (core.ID, error) {
	id, _, err := a.resolve(ctx, b, text)
	return id, err
}

// checkpoint finds the approval of a run by its id or a prefix of it.
func (a *app) checkpoint(ctx context.Context, b Backend, run core.ID, text string) (core.ID, error) {
	w, err := b.Workflow(ctx, run)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, p := range w.Approvals {
		ids = append(ids, string(p.ID))
	}
	return pick(text, ids, "approval of workflow "+run.Short())
}

// pick finds the one id that begins with a text of 4 or more.
func pick(text string, ids []string, what string) (core.ID, error) {
	var found, short []string
	for _, id := range ids {
		if id == text {
			return core.ID(id), nil
		}
		if len(text) >= 4 && strings.HasPrefix(id, strings.ToLower(text)) {
			found = append(found, id)
		}
		short = append(short, core.ID(id).Short())
	}
	shown := core.Visible(text, 60, false)
	switch {
	case len(found) == 1:
		return core.ID(found[0]), nil
	case len(found) > 1:
		return "", core.Errorf(core.CodeNotFound, "%s is the beginning of %d ids: %s", shown, len(found), strings.Join(found, ", ")).
			WithNext("pml", "approvals", "ls")
	}
	return "", core.Errorf(core.CodeNotFound, "no %s has the id %s%s", what, shown, core.Suggest(text[:min(8, len(text))], short)).
		WithNext("pml", "approvals", "ls")
}
