package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

// waitFlags are the flags of commands that wait for a run.
type waitFlags struct {
	onApproval string
	wait       time.Duration
	waitSet    bool
	detached   bool // the run goes on without this command, which says so and is done
}

func (a *app) addWaitFlags(cmd *cobra.Command, f *waitFlags, approvals bool) {
	cmd.Annotations = map[string]string{waitsForRun: "yes"}
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "wait at most this long (default: until it is done or pauses)")
	if approvals {
		cmd.Flags().StringVar(&f.onApproval, "on-approval", "", "when a decision is needed: prompt, wait, exit or deny (default: prompt on a terminal, else exit)")
		_ = cmd.RegisterFlagCompletionFunc("on-approval", fixed(onApprovals...))
	}
}

// check settles what the flags left open. decided says that the command line
// itself held a decision: then nothing more is asked unless asked for.
func (f *waitFlags) check(a *app, cmd *cobra.Command, decided bool) error {
	f.waitSet = cmd.Flags().Changed("wait")
	if f.wait < 0 {
		return usagef("--wait %s is negative", f.wait)
	}
	switch f.onApproval {
	case "":
		f.onApproval = onExit
		if a.asks() && !decided && cmd.Flags().Lookup("on-approval") != nil {
			f.onApproval = onPrompt
		}
	case onPrompt:
		if !a.human() {
			return usagef("--on-approval prompt does not go with -o %s: output for programs never asks", a.format())
		}
	default:
		return oneOf("on-approval", f.onApproval, onApprovals...)
	}
	return nil
}

// limit is how long the backend may take: negative for as long as it needs.
func (f *waitFlags) limit(a *app) time.Duration {
	d := time.Duration(-1)
	if f.waitSet {
		d = f.wait
	}
	if t := a.flags.timeout; t > 0 && (d < 0 || t < d) {
		d = t
	}
	return d
}

// detach leaves the run to a server: unless told to, the command waits for
// nothing and asks nothing.
func (f *waitFlags) detach(cmd *cobra.Command) {
	if f.waitSet && f.wait > 0 {
		return
	}
	f.detached, f.waitSet, f.wait = true, true, 0
	if !cmd.Flags().Changed("on-approval") {
		f.onApproval = onExit
	}
}

func (f *waitFlags) hold() bool { return f.onApproval == onWait }

// settle follows a run from its first answer to the end of the command: it
// asks or denies as the flags say, prints the result and picks the exit code.
func (a *app) settle(ctx context.Context, b Backend, r api.Result, err error, f waitFlags) error {
	for err == nil && ctx.Err() == nil {
		d, derr := a.decide(ctx, b, r, f.onApproval)
		if derr != nil {
			return derr
		}
		if d == nil && f.detached && r.WorkflowID != "" {
			return a.reportDetached(r)
		}
		if d == nil {
			return a.report(r)
		}
		req := api.ContinueRequest{ID: r.WorkflowID, Decision: d, By: a.actor(), Wait: f.limit(a), HoldApprovals: f.hold()}
		asked := r
		r, err = b.Continue(ctx, req)
		if core.CodeOf(err) == core.CodeAuth && f.onApproval == onPrompt {
			// A PIN with a slip of the finger: nothing was decided, so ask again.
			a.say("%s", core.Visible(err.Error(), 2000, false))
			r, err = asked, nil
			continue
		}
		if errors.Is(err, &core.Error{Code: core.CodeAlreadyDecided}) {
			// Someone was faster. What they decided counts; the run goes on by it.
			a.progress.clear()
			fmt.Fprintf(a.Stderr, "note: %s\n", core.Visible(err.Error(), 2000, false))
			req.Decision = nil
			r, err = b.Continue(ctx, req)
		}
	}
	if err == nil {
		if r.Status != api.StatusRunning {
			return a.report(r)
		}
		err = core.Errorf(core.CodeCancelled, "stopped waiting: %w", context.Cause(ctx)).WithRun(r.WorkflowID)
	}
	return err
}

// held waits on for a run that stopped for an approval, where the flags say so
// and the call that started it could not.
func (a *app) held(ctx context.Context, b Runs, r api.Result, err error, f waitFlags) (api.Result, error) {
	if err != nil || !f.hold() || r.Status != api.StatusApprovalRequired {
		return r, err
	}
	return b.Continue(ctx, api.ContinueRequest{ID: r.WorkflowID, By: a.actor(), Wait: f.limit(a), HoldApprovals: true})
}

// decide returns the decision to take about a result, nil to leave it as it is.
func (a *app) decide(ctx context.Context, b Changes, r api.Result, mode string) (*api.Decision, error) {
	if r.Status != api.StatusApprovalRequired && r.Status != api.StatusLayerComplete {
		return nil, nil
	}
	pending := pendingOf(r)
	if len(pending) == 0 {
		return nil, nil
	}
	switch mode {
	case onDeny:
		p := pending[0]
		return &api.Decision{Checkpoint: p.ID, ExpectDigest: p.Digest, Reason: "denied by --on-approval deny"}, nil
	case onPrompt:
		return a.prompt(ctx, b, pending)
	}
	return nil, nil
}

// report prints the result of a run and returns what the command ends with.
func (a *app) report(r api.Result) error {
	a.progress.stop()
	code := resultExit(r)
	if !a.human() {
		if err := a.encode(r, a.format()); err != nil {
			return err
		}
		return a.reportError(r, code)
	}
	switch r.Status {
	case api.StatusSuccess, api.StatusComplete:
		return a.printResult(r.Result)
	case api.StatusApprovalRequired, api.StatusAwaitingHuman, api.StatusLayerComplete:
		a.reportPending(r)
	case api.StatusRunning:
		// In this process it stops with it; in another one it goes on.
		a.say("the wait is over; the workflow %s has not ended", r.WorkflowID.Short())
		a.sayNext("pml", "continue", r.WorkflowID.Short())
	case api.StatusReplanned:
		a.note("replanned: %s, %d in all", plural(r.NewTasksCount, "new task"), r.TotalTasks)
		// Not to approve yet: what waited was asked about the plan as it was.
		a.sayNext("pml", "continue", r.WorkflowID.Short())
	case api.StatusAborted, api.StatusRejected:
		text := string(r.Status)
		if r.Reason != "" {
			text += ": " + core.Visible(r.Reason, 2000, false)
		}
		a.say("%s", text)
		a.sayNext("pml", "workflows", "show", r.WorkflowID.Short())
	case api.StatusSuggestions:
		return a.reportSuggestions(r)
	case api.StatusError, api.StatusExecuteLocally:
	}
	return a.reportError(r, code)
}

// reportDetached prints the id of a run that is the server's: for a script it is
// the result of the command, also of one that was there already and has ended.
func (a *app) reportDetached(r api.Result) error {
	a.progress.stop()
	code := resultExit(r)
	if code != exitPending {
		code = exitOK // how it ended is for whoever asks for its result
	}
	if !a.human() {
		if err := a.encode(r, a.format()); err != nil {
			return err
		}
		return a.reportError(api.Result{}, code)
	}
	if err := a.write(string(r.WorkflowID) + "\n"); err != nil {
		return err
	}
	switch id := r.WorkflowID.Short(); {
	case code == exitPending:
		a.reportPending(r)
	case r.Status == api.StatusRunning:
		a.note("it goes on in the server; follow it with: pml workflows watch %s", id)
	default:
		a.note("it has ended; see it with: pml workflows show %s", id)
	}
	return a.reportError(api.Result{}, code)
}

func (a *app) reportError(r api.Result, code int) error {
	if e := resultError(r); e != nil {
		return e
	}
	if code == exitOK {
		return nil
	}
	return exitStatus(code)
}

// reportPending shows what waits, and how to decide it.
func (a *app) reportPending(r api.Result) {
	if r.Status == api.StatusLayerComplete {
		a.reportLayer(r)
	}
	pending := pendingOf(r)
	for i, p := range pending {
		if p.Type == core.ApproveLayer && r.Status == api.StatusLayerComplete && len(pending) == 1 {
			break
		}
		io.WriteString(a.Stderr, a.approvalBlock(p, i+1, len(pending)))
	}
	id := r.WorkflowID.Short()
	switch {
	case len(pending) == 0:
		a.sayNext("pml", "continue", id)
	case r.Status == api.StatusLayerComplete:
		a.sayNext("pml", "continue", id, "--approve")
		a.sayNext("pml", "abort", id)
	case len(pending) == 1:
		a.decisionNext(pending[0], id)
	default:
		for _, p := range pending {
			a.decisionNext(p, id, "--checkpoint", p.ID.Short())
		}
	}
}

func (a *app) decisionNext(p core.Approval, id string, more ...string) {
	if p.Type == core.ApproveInDoubt {
		a.sayNext(append([]string{"pml", "continue", id, "--answer", "run-again"}, more...)...)
		a.sayNext(append([]string{"pml", "continue", id, "--answer", "skip", "--result", "null"}, more...)...)
		return
	}
	if server, _, _ := strings.Cut(p.Tool, ":"); p.Type == core.ApproveOAuth && server != "" {
		a.sayNext("pml", "servers", "connect", server)
	}
	a.sayNext(append([]string{"pml", "continue", id, "--approve"}, more...)...)
	if p.Type == core.ApproveDependency && len(scriptsOf(p)) > 0 {
		a.sayNext(append([]string{"pml", "continue", id, "--approve", "--allow-scripts"}, more...)...)
	}
	a.sayNext(append([]string{"pml", "continue", id, "--deny"}, more...)...)
}

// reportLayer shows the results of the layer that is complete.
func (a *app) reportLayer(r api.Result) {
	n := 0
	if r.LayerIndex != nil {
		n = *r.LayerIndex + 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "layer %d of %d is complete", n, max(r.TotalLayers, n))
	if r.ExpiresAt != nil {
		fmt.Fprintf(&b, " (waits %s)", a.left(r.ExpiresAt))
	}
	b.WriteByte('\n')
	rows := make([][]string, 0, len(r.LayerResults))
	for _, t := range r.LayerResults {
		text := compact(t.Output)
		if t.Error != "" {
			text = core.Visible(t.Error, 0, false)
		}
		rows = append(rows, []string{"  " + core.Visible(t.TaskID, 0, false), core.Visible(t.Tool, 0, false), string(t.Status), cut(text, 200)})
	}
	b.WriteString(alignRows(rows, 0))
	if r.NextLayer != nil {
		for _, t := range r.NextLayer.Tasks {
			fmt.Fprintf(&b, "  then %s (%s)\n", core.Visible(t.ID, 0, false), core.Visible(t.Tool, 0, false))
		}
	}
	io.WriteString(a.Stderr, b.String())
}

// say tells something on stderr that belongs to the outcome, quiet or not.
func (a *app) say(format string, args ...any) {
	a.progress.clear()
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

func (a *app) sayNext(argv ...string) { a.say("next: %s", shellJoin(argv)) }
