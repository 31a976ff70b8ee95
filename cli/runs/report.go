package runs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What to do when a run stops for an approval.
const (
	onPrompt = "prompt"
	onWait   = "wait"
	onExit   = "exit"
	onDeny   = "deny"
)

var onApprovals = []string{onPrompt, onWait, onExit, onDeny}

// WaitFlags are the flags of commands that wait for a run.
type WaitFlags struct {
	onApproval string
	wait       time.Duration
	waitSet    bool
	detached   bool            // the run goes on without this command, which says so and is done
	warnings   []core.PlanNote // of the plan, of a run that this command has begun
}

// AddWaitFlags adds --wait and, where the run may ask for approvals, --on-approval.
func AddWaitFlags(cmd *cobra.Command, f *WaitFlags, approvals bool) {
	cmd.Annotations = map[string]string{app.WaitsForRun: "yes"}
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "wait at most this long (default: until it is done or pauses)")
	if approvals {
		cmd.Flags().StringVar(&f.onApproval, "on-approval", "", "when a decision is needed: prompt, wait, exit or deny (deny: not where only people decide; default: prompt on a terminal where the command names no decision itself and the output is text, else exit; with --json prompt asks on stderr)")
		_ = cmd.RegisterFlagCompletionFunc("on-approval", app.CompleteFixed(onApprovals...))
	}
}

// Check settles what the flags left open. decided says that the command line
// itself held a decision: then nothing more is asked unless asked for.
func (f *WaitFlags) Check(a *app.App, cmd *cobra.Command, decided bool) error {
	f.waitSet = cmd.Flags().Changed("wait")
	if f.wait < 0 {
		return app.Usagef("--wait %s is negative", f.wait)
	}
	switch f.onApproval {
	case "":
		f.onApproval = onExit
		if a.CanAsk() && !decided && cmd.Flags().Lookup("on-approval") != nil {
			f.onApproval = onPrompt
		}
	case onPrompt:
		a.Decides = true // on stderr, also where the result is for a program
		if !a.Human() && !a.CanAsk() {
			return app.Usagef("--on-approval prompt with -o %s asks at a terminal, on stderr, and there is none here", a.Format())
		}
	default:
		return app.OneOf("on-approval", f.onApproval, onApprovals...)
	}
	return nil
}

// Limit is how long the backend may take: negative for as long as it needs.
func (f *WaitFlags) Limit(a *app.App) time.Duration {
	d := time.Duration(-1)
	if f.waitSet {
		d = f.wait
	}
	if t := a.Flags.Timeout; t > 0 && (d < 0 || t < d) {
		d = t
	}
	return d
}

// detach leaves the run to a server: unless told to, the command waits for
// nothing and asks nothing.
func (f *WaitFlags) detach(cmd *cobra.Command) {
	if f.waitSet && f.wait > 0 {
		return
	}
	f.detached, f.waitSet, f.wait = true, true, 0
	if !cmd.Flags().Changed("on-approval") {
		f.onApproval = onExit
	}
}

func (f *WaitFlags) hold() bool { return f.onApproval == onWait }

// Settle follows a run from its first answer to the end of the command: it
// asks or denies as the flags say, prints the result and picks the exit code.
func Settle(ctx context.Context, a *app.App, b app.Backend, r api.Result, err error, f WaitFlags) error {
	for err == nil && ctx.Err() == nil {
		d, derr := decide(ctx, a, b, r, f.onApproval)
		if settled(derr) {
			r, err = goOnBy(ctx, a, b, f.request(a, r.WorkflowID, nil), derr)
			continue
		}
		if derr != nil {
			return derr
		}
		r.Warnings = f.warnings
		if d == nil && f.detached && r.WorkflowID != "" {
			return reportDetached(a, r)
		}
		if d == nil {
			r.Next = anew(ctx, a, b, r)
			return report(a, bare(ctx, b, r), prompted(r, f))
		}
		req := f.request(a, r.WorkflowID, d)
		asked := r
		r, err = b.Continue(ctx, req)
		if err = f.refused(err, d); err == nil && f.onApproval == onPrompt {
			sayAskedAgain(ctx, a, b, d)
		}
		if core.CodeOf(err) == core.CodeAuth && f.onApproval == onPrompt {
			// A PIN with a slip of the finger: nothing was decided, so ask again.
			a.Say("%s", core.Visible(err.Error(), 2000, false))
			r, err = asked, nil
			continue
		}
		if settled(err) && d != nil || f.onApproval == onPrompt && changedSince(err) {
			r, err = goOnBy(ctx, a, b, f.request(a, asked.WorkflowID, nil), err)
		}
	}
	if err == nil {
		if r.Warnings = f.warnings; r.Status != api.StatusRunning {
			r.Next = anew(ctx, a, b, r)
			return report(a, bare(ctx, b, r), "")
		}
		err = core.Errorf(core.CodeCancelled, "stopped waiting: %w", context.Cause(ctx)).WithRun(r.WorkflowID)
	}
	return err
}

// request goes on with a run, after a decision if there is one.
func (f *WaitFlags) request(a *app.App, id core.ID, d *api.Decision) api.ContinueRequest {
	return api.ContinueRequest{ID: id, Decision: d, By: a.Actor(), Wait: f.Limit(a), HoldApprovals: f.hold()}
}

// refused is the error of a decision. Where only people decide --on-approval deny is none, and
// what it left open a person denies.
func (f *WaitFlags) refused(err error, d *api.Decision) error {
	if f.onApproval != onDeny || core.CodeOf(err) != core.CodeAwaitingHuman {
		return err
	}
	return core.AsError(err).WithNext("pml", "deny", d.Checkpoint.Short())
}

// goOnBy says that somebody was faster, and goes on with the run: their decision stands.
func goOnBy(ctx context.Context, a *app.App, b app.Backend, req api.ContinueRequest, was error) (api.Result, error) {
	overtaken(a, was)
	req.Follow = true
	return b.Continue(ctx, req)
}

// Held waits on for a run that stopped for an approval, where the flags say so
// and the call that started it could not.
func Held(ctx context.Context, a *app.App, b app.Backend, r api.Result, err error, f WaitFlags) (api.Result, error) {
	if err != nil || !f.hold() || r.Status != api.StatusApprovalRequired {
		return r, err
	}
	defer holding(ctx, a, b, f)()
	return b.Continue(ctx, api.ContinueRequest{ID: r.WorkflowID, By: a.Actor(), Wait: f.Limit(a), HoldApprovals: true, Follow: true})
}

// decide returns the decision to take about a result, nil to leave it as it is.
func decide(ctx context.Context, a *app.App, b app.Backend, r api.Result, mode string) (*api.Decision, error) {
	if !asks(r) {
		return nil, nil
	}
	pending := view.PendingOf(r)
	if len(pending) == 0 {
		return nil, nil
	}
	switch mode {
	case onDeny:
		p := pending[0]
		return &api.Decision{Checkpoint: p.ID, ExpectDigest: p.Digest, Reason: "denied by --on-approval deny"}, nil
	case onPrompt:
		return prompt(ctx, a, b, pending)
	}
	return nil, nil
}

// asks reports whether a result is a question that this command may ask.
func asks(r api.Result) bool {
	return r.Status == api.StatusApprovalRequired || r.Status == api.StatusLayerComplete
}

// prompted is the approval that was shown and left open at the prompt.
func prompted(r api.Result, f WaitFlags) core.ID {
	if pending := view.PendingOf(r); f.onApproval == onPrompt && asks(r) && len(pending) > 0 {
		return pending[0].ID
	}
	return ""
}

// sayWaits tells a person whose output goes to a file or a program that the run waits for
// one: nothing else is on the screen.
func sayWaits(a *app.App, r api.Result) {
	if pending := view.PendingOf(r); asks(r) && len(pending) > 0 && a.StderrTTY && !a.StdoutTTY && !a.Flags.Quiet {
		a.Say("the run %s waits for a decision: pml approve %s", r.WorkflowID.Short(), pending[0].ID.Short())
	}
}

// report prints the result of a run and returns what the command ends with. The
// approval that was on the screen just now is not shown again.
func report(a *app.App, r api.Result, seen core.ID) error {
	a.Progress.Stop()
	reportNotices(a, r)
	code := app.StatusExit(r.Status)
	if !a.Human() {
		if err := encodeResult(a, r); err != nil {
			return err
		}
		sayWaits(a, r)
		if code == app.ExitOK && stoppedEarly(r) {
			return app.ExitStatus(app.ExitFailed)
		}
		return reportError(r, code)
	}
	switch r.Status {
	case api.StatusSuccess, api.StatusComplete:
		if r.Kind == core.KindAgent {
			return agentReport(a, r.WorkflowID, r.Result)
		}
		return a.PrintResult(r.Result)
	case api.StatusApprovalRequired, api.StatusAwaitingHuman, api.StatusLayerComplete:
		reportPending(a, r, seen)
	case api.StatusHalted:
		a.Say("%s", core.Visible(r.Reason, 1000, false))
		a.Say("the run %s waits, and nothing of it is lost", r.WorkflowID.Short())
		sayCommands(a, r)
		return app.ExitStatus(code)
	case api.StatusRunning:
		// In this process it stops with it; in another one it goes on.
		a.Say("the wait is over; the run %s has not ended", r.WorkflowID.Short())
		sayCommands(a, r)
	case api.StatusReplanned:
		a.Note("replanned: %s, %d in all", layout.Plural(r.NewTasksCount, "new task"), r.TotalTasks)
		sayCommands(a, r)
	case api.StatusAborted:
		text := string(r.Status)
		switch {
		case r.ErrorCode == core.CodeAborted: // it names who, by what means, and why
			text = r.Error
		case r.Reason != "":
			text += ": " + r.Reason
		}
		a.Say("%s", core.Visible(text, 2000, false))
		sayCommands(a, r)
	case api.StatusSuggestions:
		return reportSuggestions(a, r)
	case api.StatusError, api.StatusExecuteLocally:
	}
	return reportError(r, code)
}

// maxDropped is how many dropped calls are named; JSON output has them all.
const maxDropped = 20

// reportNotices says on stderr what a person has to know beside the outcome,
// whatever the output is for.
func reportNotices(a *app.App, r api.Result) {
	for _, n := range r.Notices {
		a.Say("warning: %s", core.Visible(n, 3000, false))
	}
	for i, d := range r.Dropped {
		if i == maxDropped {
			a.Say("dropped: %s more", layout.Plural(len(r.Dropped)-i, "call"))
			return
		}
		what := "was not called"
		if d.MayHaveRun {
			what = "may have run; nobody has said what became of it"
		}
		a.Say("dropped: %s %s %s", core.Visible(d.TaskID, 80, false), core.Visible(d.Tool, 200, false), what)
	}
}

// reportDetached prints the id of a run that is the server's: for a script it is
// the result of the command, also of one that was there already and has ended.
func reportDetached(a *app.App, r api.Result) error {
	a.Progress.Stop()
	reportNotices(a, r)
	code := app.StatusExit(r.Status)
	if code != app.ExitPending {
		code = app.ExitOK // how it ended is for whoever asks for its result
	}
	if !a.Human() {
		if err := encodeResult(a, r); err != nil {
			return err
		}
		return reportError(api.Result{}, code)
	}
	if err := a.Write(string(r.WorkflowID) + "\n"); err != nil {
		return err
	}
	switch id := r.WorkflowID.Short(); {
	case code == app.ExitPending:
		reportPending(a, r, "")
	case r.Status == api.StatusRunning:
		a.Note("it goes on in the server; follow it with: pml workflows watch %s", id)
	default:
		a.Note("it has ended; see it with: pml workflows show %s", id)
	}
	return reportError(api.Result{}, code)
}

func reportError(r api.Result, code int) error {
	if e := app.ResultError(r); e != nil {
		return e
	}
	if code == app.ExitOK {
		return nil
	}
	return app.ExitStatus(code)
}

// reportPending shows what waits but for one that was seen, and how to decide it.
func reportPending(a *app.App, r api.Result, seen core.ID) {
	if r.Status == api.StatusLayerComplete {
		reportLayer(a, r)
	}
	pending := view.PendingOf(r)
	for i, p := range pending {
		if p.Type == core.ApproveLayer && r.Status == api.StatusLayerComplete && len(pending) == 1 {
			break
		}
		if p.ID != seen {
			io.WriteString(a.Stderr, cardErr(a, view.Approval(p, i+1, len(pending), a.Now())))
		}
	}
	sayCommands(a, r)
}

// reportLayer shows the results of the layer that is complete.
func reportLayer(a *app.App, r api.Result) {
	n := 0
	if r.LayerIndex != nil {
		n = *r.LayerIndex + 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "layer %d of %d is complete", n, max(r.TotalLayers, n))
	if r.ExpiresAt != nil {
		fmt.Fprintf(&b, " (expires %s)", layout.In(a.Now(), r.ExpiresAt))
	}
	b.WriteByte('\n')
	rows := make([][]string, 0, len(r.LayerResults))
	for _, t := range r.LayerResults {
		text := layout.Compact(t.Output)
		if t.Error != "" {
			text = core.Visible(t.Error, 0, false)
		}
		rows = append(rows, []string{"  " + core.Visible(t.TaskID, 0, false), core.Visible(t.Tool, 0, false), string(t.Status), layout.Cut(text, 200)})
	}
	b.WriteString(layout.Align(rows, 0))
	if r.NextLayer != nil {
		for _, t := range r.NextLayer.Tasks {
			fmt.Fprintf(&b, "  then %s (%s)\n", core.Visible(t.ID, 0, false), core.Visible(t.Tool, 0, false))
		}
	}
	io.WriteString(a.Stderr, b.String())
}
