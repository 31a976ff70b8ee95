package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

type continueOptions struct {
	id                   string
	approve, deny, abort bool
	checkpoint           string
	digest               string
	allOfType            string
	all                  bool
	reason               string
	answer, result       string
	resultSet            bool
	edit                 bool
	arguments            string
	shape                shapeFlags
	more                 core.AgentMore
	extras               extras
	wait                 WaitFlags
}

// decides reports whether the command line holds a decision.
func (o continueOptions) decides() bool { return o.approve || o.deny || o.answer != "" }

// ContinueCmd is pml continue.
func ContinueCmd(a *app.App) *cobra.Command {
	var o continueOptions
	cmd := &cobra.Command{
		Use:   "continue ID",
		Short: "Go on with a run that waits or was interrupted",
		Long: `Takes up a run that stopped, also one that paused after a layer
(--per-layer): that is no approval, and needs no person. --approve or --deny decides an approval first, the one that --approval names.
Where several wait and none is named, pml shows them one after another at a
terminal and asks about each; without a terminal it decides the first that is
open. --all decides all of them, every one shown first, except those that are
decided one by one (integrity, calls in doubt). --deny rejects the call and lets the run go
on; with --abort it also ends the run. You can give the ID of an approval
instead of the ID of a run, but no name, which a newer run may have by now. If other approvals are still open the exit code
is 8. "pml approve ID" and "pml deny ID" are the same in fewer words.

` + seenHelp + `

--remember run allows a tool for the rest of this run, --remember session until
the process that runs it ends, and --remember rule for good: pml shows the rule
and then writes it into .pml.json.

An agent (pml agent) that has used up its iterations or its budget goes on with
more of them: --more, --budget-tokens, --budget-usd, --budget-calls. Only a
person gives an agent more. Nothing that was answered is asked or paid again.

If a PIN is set, pml asks for it at the terminal or reads it from --pin-fd. If
only people may decide (approvals.decider is human), you answer on a terminal,
or you give the PIN.`,
		Example: `  pml continue 7f3a91c2
  pml continue 7f3a91c2 --approve
  pml continue @latest --deny --reason "wrong folder"
  pml continue 7f3a91c2 --approve --all
  pml continue 7f3a91c2 --approve --all-of-type tool_permission
  pml continue 7f3a91c2 --approve --remember rule
  pml continue 7f3a91c2 --approve --approval 41d2e07b --allow-scripts
  pml continue 7f3a91c2 --approve --approval 41d2e07b --arguments args.json
  pml continue 7f3a91c2 --approve --pin-fd 3 3<pin.txt
  pml continue 7f3a91c2 --answer skip --result '{"sent":true}'
  pml continue 7f3a91c2 --more 5 --budget-usd 0.50`,
		Args:              app.ExactArgs("ID"),
		ValidArgsFunction: completeRuns(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd, a)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.approve, "approve", false, "approve what waits")
	f.BoolVar(&o.deny, "deny", false, "deny it: the call is rejected, the run goes on")
	f.StringVar(&o.answer, "answer", "", "for a call in doubt: run-again or skip")
	f.StringVar(&o.result, "result", "", "with --answer skip: the result to assume, JSON or @FILE")
	o.addMore(cmd)
	o.addWhich(a, cmd)
	o.addYes(cmd)
	o.addNo(cmd)
	_ = cmd.RegisterFlagCompletionFunc("answer", app.CompleteFixed(inDoubtAnswers...))
	return cmd
}

// seenHelp says in the help of every command that decides what is shown and asked.
const seenHelp = `Nothing is decided unseen. At a terminal pml shows what the approval is about
and asks: enter or y approves what is of low or medium risk, four characters
that you type what is of high risk. --yes leaves the question out, not the card.
Without a terminal the ID is the consent: the card goes to stderr first,
--expect-digest binds the decision to what you have seen, and the audit log
says that nobody was asked. @latest, the newest run of this workspace, decides
only at a terminal, and only where one approval waits. With --json pml shows and
asks on stderr, and only the result goes to stdout.`

// addWhich adds the flags of every command that decides.
func (o *continueOptions) addWhich(a *app.App, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SetNormalizeFunc(approvalFlag)
	f.StringVar(&o.checkpoint, "approval", "", "the approval that is meant (--checkpoint is the same)")
	f.StringVar(&o.digest, "expect-digest", "", "decide only if the approval still has this digest")
	f.StringVar(&o.allOfType, "all-of-type", "", "decide all of a type that wait in the run (not integrity)")
	f.BoolVar(&o.all, "all", false, "decide all that wait in the run, every one shown (not what is decided one by one)")
	f.StringVar(&o.reason, "reason", "", "why; kept in the audit log")
	a.AddPinFD(cmd)
	AddWaitFlags(cmd, &o.wait, true)
	_ = cmd.RegisterFlagCompletionFunc("all-of-type", app.CompleteFixed(bulkTypes...))
}

// addYes adds the flags of a yes.
func (o *continueOptions) addYes(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.extras.remember, "remember", rememberOnce, "for a tool that is approved: once, run, session or rule")
	f.BoolVar(&o.extras.scripts, "allow-scripts", false, "for an installation that is approved: its install scripts may run")
	f.BoolVar(&o.extras.pin, "pin", false, "ask for the PIN at the terminal")
	f.BoolVar(&o.edit, "edit", false, "change the arguments in $EDITOR first; they are shown again, and asked about")
	f.StringVar(&o.arguments, "arguments", "", "send the arguments in this JSON FILE instead (- for stdin)")
	o.shape.add(f)
	f.BoolVar(&o.extras.yes, "yes", false, "show what is approved, and do not ask (not where only people decide)")
	_ = cmd.RegisterFlagCompletionFunc("remember", app.CompleteFixed(remembering...))
}

// addNo adds the flag of a no.
func (o *continueOptions) addNo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.abort, "abort", false, "with a denial: abort the run as well")
}

// run checks the flags and decides.
func (o *continueOptions) run(cmd *cobra.Command, a *app.App) error {
	a.Decides = o.decides()
	o.resultSet = changed(cmd, "result")
	o.extras.rememberSeen = changed(cmd, "remember")
	o.shape.maxSet = changed(cmd, "max")
	if err := app.NotEmpty(cmd, "approval", "expect-digest", "all-of-type", "answer", "remember", "arguments", "until", "fix", "free", "match"); err != nil {
		return err
	}
	if err := o.shape.check(*o); err != nil { // first: it names all that does not go with bounds
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := o.checkMore(); err != nil {
		return err
	}
	if err := o.extras.check(a, *o); err != nil {
		return err
	}
	if err := o.checkEdit(a); err != nil {
		return err
	}
	if err := o.wait.Check(a, cmd, o.decides() || o.gives()); err != nil {
		return err
	}
	return continueRun(cmd.Context(), a, *o)
}

// changed reports whether a command has a flag and was given it.
func changed(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed
}

// bulkTypes are the types that may be decided all at once.
var bulkTypes = func() (out []string) {
	for _, d := range approval.Types {
		if !d.Single {
			out = append(out, string(d.Type))
		}
	}
	return out
}()

const (
	answerRunAgain = "run-again"
	answerSkip     = "skip"
)

var inDoubtAnswers = []string{answerRunAgain, answerSkip}

// check finds flags that contradict each other.
func (o continueOptions) check() error {
	switch {
	case o.approve && o.deny:
		return app.Usagef("--approve and --deny contradict each other")
	case o.answer != "" && o.deny:
		return app.Usagef("--answer and --deny contradict each other")
	case o.abort && !o.deny:
		return app.Usagef("--abort goes with --deny; to abort without a decision: pml abort %s", o.id)
	case o.checkpoint != "" && o.allOfType != "":
		return app.Usagef("--approval names one approval, --all-of-type several: give one of them")
	case o.digest != "" && o.allOfType != "":
		return app.Usagef("--expect-digest speaks of one approval: it does not go with --all-of-type")
	case slices.ContainsFunc(approval.Types, func(d approval.Type) bool { return d.Single && string(d.Type) == o.allOfType }):
		return app.Usagef("%s approvals are decided one by one, never with --all-of-type", o.allOfType)
	case o.resultSet && o.answer != answerSkip:
		return app.Usagef("--result goes with --answer skip")
	case o.all && (o.checkpoint != "" || o.allOfType != "" || o.digest != "" || o.answer != "" || o.edits() || o.extras.wants() != ""):
		return app.Usagef("--all decides all that wait in a run, as they are: it goes with --approve or --deny alone")
	case !o.decides() && (o.all || o.checkpoint != "" || o.digest != "" || o.allOfType != ""):
		return app.Usagef("say what to decide: --approve, --deny or --answer")
	}
	if o.answer != "" {
		if err := app.OneOf("answer", o.answer, inDoubtAnswers...); err != nil {
			return err
		}
	}
	if o.allOfType != "" {
		return app.OneOf("all-of-type", o.allOfType, bulkTypes...)
	}
	return nil
}

// decision makes the decision of the flags, nil when they hold none.
func decision(ctx context.Context, a *app.App, o continueOptions) (*api.Decision, error) {
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
			raw, err := program.ReadJSON(ctx, a, "result", o.result)
			if err != nil {
				return nil, err
			}
			d.Answer.Result = raw
		}
	}
	return d, nil
}

func continueRun(ctx context.Context, a *app.App, o continueOptions) error {
	d, err := decision(ctx, a, o)
	if err != nil {
		return err
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	id, approval, err := resolve(ctx, a, b, o.id)
	if err != nil {
		return err
	}
	if o.all && approval != "" {
		return app.Usagef("--all decides all that wait in a run, and %s is one approval; name the run: %s", approval.Short(), id.Short())
	}
	if d != nil && d.AllOfType == "" {
		d.Checkpoint = approval
		if o.checkpoint != "" {
			if d.Checkpoint, err = checkpoint(ctx, b, id, o.checkpoint); err != nil {
				return err
			}
		}
	}
	decisions := []*api.Decision{nil}
	if o.gives() {
		if decisions[0], err = o.decideMore(ctx, a, b, id); err != nil {
			return err
		}
	}
	if d != nil {
		given := *d
		if decisions, err = see(ctx, a, b, id, &given, o); err != nil {
			return err
		}
	}
	startCounting(ctx, a, b, id)
	defer holding(ctx, a, b, o.wait)()
	if len(decisions) > 1 {
		return carryAll(ctx, a, b, id, decisions, o)
	}
	err = continueOne(ctx, a, b, id, decisions[0], o)
	if changedSince(err) && a.CanAsk() && o.digest == "" && d != nil {
		overtaken(a, err)
		if decisions, err = see(ctx, a, b, id, d, o); err == nil {
			err = continueOne(ctx, a, b, id, decisions[0], o)
		}
	}
	return err
}

// startCounting shows the progress of a run that goes on: what it has done before counts.
func startCounting(ctx context.Context, a *app.App, b app.Backend, id core.ID) {
	if w, err := b.Workflow(ctx, id); err == nil && w.Kind != core.KindAgent {
		a.Progress.Went(w)
	}
	a.StartProgress()
}

// continueOne goes on with a run after one decision, or none, and says how it stands then.
func continueOne(ctx context.Context, a *app.App, b app.Backend, id core.ID, d *api.Decision, o continueOptions) error {
	reason := o.reason
	if d != nil {
		reason = d.Reason
	}
	seen, done := context.WithCancel(ctx)
	defer done()
	watchAgent(seen, a, b, id)
	r, err := b.Continue(ctx, o.request(a, id, d, reason))
	if err == nil {
		sayTaken(ctx, a, b, id, d)
	}
	return Settle(ctx, a, b, r, err, o.wait)
}

// request goes on with a run, after a decision if there is one, and waits as the flags
// say.
func (o continueOptions) request(a *app.App, id core.ID, d *api.Decision, reason string) api.ContinueRequest {
	return api.ContinueRequest{ID: id, Decision: d, Reason: reason, By: a.Actor(), Wait: o.wait.Limit(a), HoldApprovals: o.wait.hold()}
}

// resolve turns what a person typed into the id of a run and, when it named an
// approval, into that too. The error about a name says whose it is.
func resolve(ctx context.Context, a *app.App, b app.Backend, text string) (id, approval core.ID, err error) {
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
	if found, nerr := runsNamed(ctx, b, text); nerr == nil && len(found) > 0 && len(e.Ambiguous) == 0 {
		e.Message = fmt.Sprintf("%q is a name, and this takes the ID of a run: %s", core.Visible(text, 60, false), listedRuns(found))
		e.Next = []string{"pml", "workflows", "ls", text}
		if again := app.WithArg(a, text, found[0].ID.Short()); len(found) == 1 && again != nil {
			e.Next = again
		}
	}
	return "", "", &e
}

// resolveRun is resolve for commands that speak of runs only.
func resolveRun(ctx context.Context, a *app.App, b app.Backend, text string) (core.ID, error) {
	id, _, err := resolve(ctx, a, b, text)
	return id, err
}

// checkpoint finds the approval of a run by its id or a prefix of it.
func checkpoint(ctx context.Context, b app.Backend, run core.ID, text string) (core.ID, error) {
	w, err := b.Workflow(ctx, run)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, p := range w.Approvals {
		ids = append(ids, string(p.ID))
	}
	return pick(text, ids, "approval of run "+run.Short())
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
