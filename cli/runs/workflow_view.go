package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// layerOf is "2/5": the layer that a run is in, or the one in which it failed where that is
// known (0: it is not), of how many. Of a script, which nobody knows the end of, it is the step that
// it is at, and at the end how many it took.
func layerOf(r core.Run, failed int) string {
	if r.Agent != nil {
		return fmt.Sprintf("iteration %d", r.Agent.Iterations)
	}
	if r.TotalLayers == 0 {
		return "-"
	}
	switch at := min(r.CurrentLayer+1, r.TotalLayers); {
	case r.Kind == core.KindCode && r.State == core.RunComplete:
		return layout.Plural(r.TotalLayers, "step")
	case r.Kind == core.KindCode:
		return fmt.Sprintf("step %d", at)
	}
	return fmt.Sprintf("%d/%d", cmp.Or(failed, min(r.CurrentLayer+1, r.TotalLayers)), r.TotalLayers)
}

// failedLayers are the layers in which DAGs have failed, for those of a list: only their
// tasks tell it, as the layers behind count as done. One that cannot be read is left out.
func failedLayers(ctx context.Context, b app.Backend, list []core.Run) map[core.ID]int {
	out := map[core.ID]int{}
	for _, r := range list {
		if r.State != core.RunFailed || r.Kind != core.KindDAG || r.TotalLayers < 2 {
			continue
		}
		if w, err := b.Workflow(ctx, r.ID); err == nil {
			out[r.ID] = w.FailedLayer()
		}
	}
	return out
}

// shownRun is what pml workflows show shows of a run.
type shownRun struct {
	core.Workflow
	below map[core.ID]core.Workflow // the runs that an agent has started
	args  bool                      // the arguments of each call, whole
	file  string                    // of the program, where the fault of the run is in it
	past  past
}

func (wf shownRun) write(a *app.App, w *strings.Builder) {
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-10s %s\n", k, core.Visible(v, 0, false))
		}
	}
	line("name", wf.Title())
	line("run", string(wf.ID))
	fmt.Fprintf(w, "%-10s %s\n", "state", a.Paint(layout.StyleOf(string(wf.State)), core.Visible(stateOf(wf.Run), 0, false)))
	if stateOf(wf.Run) == halted {
		line("halted", wf.Halted.Text())
	}
	if wf.Side == core.SideServer {
		line("side", string(wf.Side))
	}
	line("kind", string(wf.Kind))
	if wf.Intent != wf.Title() {
		line("intent", wf.Intent)
	}
	line("by", origin(wf.RequestedBy))
	line("workspace", wf.Workspace)
	line("created", layout.Stamp(wf.CreatedAt)+" ("+layout.Ago(a.Now(), wf.CreatedAt)+" ago)")
	line("retried", wf.past.retriedText(a.Now()))
	if wf.EndedAt != nil {
		line("ended", layout.Stamp(*wf.EndedAt))
	}
	if wf.ExpiresAt != nil && !wf.State.Final() {
		line("expires", layout.In(a.Now(), wf.ExpiresAt))
	}
	if wf.ParentID != "" {
		line("started by", "run "+wf.ParentID.Short())
	}
	if wf.Agent != nil {
		line("model", wf.Agent.Model)
		line("used", wf.Agent.Text())
	} else {
		line("layer", layerOf(wf.Run, wf.FailedLayer()))
	}
	if wf.Error != nil {
		writeError(a, w, core.Visible(string(wf.Error.Code)+": "+core.ShownAbort(wf.Error.Message, wf.Approvals...), 0, false))
	}
	wf.writeTasks(a, w)
	for _, p := range wf.Approvals {
		if p.StateAt(a.Now()) == core.ApprovalOpen {
			w.WriteString("\n" + card(a, view.Approval(p, 1, 1, a.Now())))
		}
	}
	if expired := unanswered(wf.Approvals, a.Now()); len(expired) > 0 && wf.State == core.RunWaiting {
		w.WriteByte('\n')
		for _, p := range expired {
			fmt.Fprintf(w, "expired without a decision: %s\n", core.Visible(p.ID.Short()+" "+string(p.Type)+" "+p.Tool, 0, false))
		}
		fmt.Fprintf(w, "next: %s (asks again)\n", a.Paint(layout.Ident, "pml continue "+wf.ID.Short()))
	}
	switch next := nextOf(wf.Run); {
	case next != "":
		fmt.Fprintf(w, "\nnext: %s\n", a.Paint(layout.Ident, next))
	case wf.file != "":
		fmt.Fprintf(w, "\nnext: %s (once its fault is mended)\n", a.Paint(layout.Ident, layout.ShellJoin([]string{"pml", "run", wf.file})))
	case wf.FaultOfProgram():
		w.WriteString("\nthe fault is in the program: run it anew once it is mended; pml retry runs it as it was\n")
	}
}

// nextOf is the command that goes on with a run that has stopped and waits for no decision.
func nextOf(r core.Run) string {
	switch {
	case stateOf(r) == halted:
		return "pml resume"
	case r.State == core.RunInterrupted:
		return "pml continue " + r.ID.Short()
	case r.State == core.RunFailed && r.Kind != core.KindAgent && !r.FaultOfProgram():
		return layout.ShellJoin(app.AfterFailure(r.ID, r.Error))
	}
	return ""
}

// writeError writes the error of a run, folded at the width of the terminal.
func writeError(a *app.App, w *strings.Builder, text string) {
	const key = 11
	rows := []string{text}
	if limit := a.LineLimit(); limit > 2*key {
		rows = layout.Wrap(text, limit-key)
	}
	for i, row := range rows {
		head := ""
		if i == 0 {
			head = "error"
		}
		fmt.Fprintf(w, "%-10s %s\n", head, a.Paint(layout.Bad, row))
	}
}

// writeTasks writes what the run has done: an agent step by step, any other by layer.
func (wf shownRun) writeTasks(a *app.App, w *strings.Builder) {
	if wf.Kind == core.KindAgent {
		w.WriteByte('\n')
		for _, l := range agentLines(wf.Workflow, wf.below) {
			text := l.Text
			if limit := a.LineLimit(); limit > 1 {
				text = layout.Cut(text, limit-1)
			}
			w.WriteString(a.Paint(l.Style, text) + "\n")
		}
		return
	}
	for layers := wf.Layers; len(layers) > 0; {
		n := onePerLayer(layers)
		head, rows := fmt.Sprintf("layer %d", layers[0].Index+1), make([][]layout.Cell, 0, n)
		if n > 1 {
			head = fmt.Sprintf("layers %d to %d, one call each", layers[0].Index+1, layers[n-1].Index+1)
		}
		var tasks []core.Task
		for _, l := range layers[:n] {
			tasks = append(tasks, l.Tasks...)
		}
		for _, t := range tasks {
			rows = append(rows, taskRow(t, wf.State, a.LineLimit(), wf.past.attemptText(t)))
		}
		fmt.Fprintf(w, "\n%s\n", a.Paint(layout.Bold, head))
		for i, line := range strings.SplitAfter(layout.AlignCells(rows, a.LineLimit(), a.Colour()), "\n") {
			w.WriteString(line)
			if wf.args && i < len(tasks) {
				if by := tasks[i].AllowedBy; by != "" {
					w.WriteString("      " + core.Visible(core.ShownAllowedBy(by), 300, false) + "\n")
				}
				w.WriteString(argumentsOf(tasks[i]))
				if len(tasks[i].Sent) > 0 {
					w.WriteString("      changed before it was sent, from\n" + view.CallArguments(tasks[i].Arguments))
				}
			}
		}
		layers = layers[n:]
	}
}

// argumentsOf are the arguments of a call. One that only reads is in no journal before it
// has answered, and they are not known before.
func argumentsOf(t core.Task) string {
	if !unknownArguments(t) {
		return view.CallArguments(t.Made())
	}
	return "      its arguments are kept once it has answered, as it only reads\n"
}

// onePerLayer is how many layers at the beginning of a list have one call each, as those of
// a script that waits for each call; at least 1.
func onePerLayer(layers []core.Layer) int {
	n := 0
	for n < len(layers) && len(layers[n].Tasks) == 1 {
		n++
	}
	return max(n, 1)
}

// origin says who asked for a run, and through what.
func origin(by core.Actor) string {
	if by == (core.Actor{}) {
		return ""
	}
	text := by.Origin()
	if c := by.Client; c.Title != "" || c.Version != "" {
		text += ", " + strings.TrimSpace(cmp.Or(c.Title, c.Name)+" "+c.Version)
	}
	return text
}

// unanswered are the approvals that expired and were not asked again.
func unanswered(list []core.Approval, now time.Time) []core.Approval {
	var out []core.Approval
	for _, p := range list {
		if p.StateAt(now) == core.ApprovalExpired && p.RenewedBy == "" {
			out = append(out, p)
		}
	}
	return out
}

// glyphs go before the word of a state and never replace it.
var glyphs = map[core.TaskState]string{
	core.TaskQueued: ".", core.TaskRunning: "*", core.TaskWaiting: "!", core.TaskSuccess: "+",
	core.TaskError: "x", core.TaskFailedSafe: "~", core.TaskSkipped: "-",
}

// taskWord is the state of a call for people: one that was under way when its run was aborted was
// cancelled, and has not failed by itself.
func taskWord(t core.Task, run core.RunState) string {
	if run == core.RunAborted && t.State == core.TaskError && t.Error != nil && t.Error.Code == core.CodeCancelled {
		return "cancelled"
	}
	return string(t.State)
}

// besideCall is how many columns of a line a call leaves to its state, id and time.
const besideCall = 40

// taskRow is a call in words as in pml workflows watch: the tool with the argument that
// tells most. A limit above 0 is how wide the line is.
func taskRow(t core.Task, run core.RunState, limit int, attempt string) []layout.Cell {
	call := core.CallName(t.Tool, t.Made())
	if limit > 0 {
		call = layout.Cut(call, max(limit-besideCall, besideCall/2))
	}
	about := attempt
	if t.Error != nil {
		about = strings.TrimPrefix(about+"; "+layout.Joined(t.Error.Message), "; ")
	} else if t.Predicted {
		about = "expected"
	}
	row := []layout.Cell{
		{Text: "  " + glyphs[t.State] + " " + taskWord(t, run), Style: layout.StyleOf(taskWord(t, run))},
		{Text: t.ID}, {Text: call}, {Text: layout.Millis(t.DurationMS)}, {Text: about},
	}
	for i := range row {
		row[i].Text = core.Visible(row[i].Text, 0, false)
	}
	return row
}

func workflowsWatchCmd(a *app.App) *cobra.Command {
	return lookCmd(a, &cobra.Command{
		Use:   "watch ID|NAME",
		Short: "Follow a run until it ends or pauses",
		Long: `On a terminal draws the run with its calls, live, and its result at the end;
elsewhere, and as JSON, prints its events from the beginning. It ends when the run
does, waits for a decision, or its process is gone. The exit code is that of the run.`,
		Example: "  pml workflows watch 7f3a91c2\n  pml wf watch @latest -o jsonl",
	}, func(ctx context.Context, b app.Backend, id core.ID) error { return watch(ctx, a, b, id) })
}

// errWatched ends the stream of events of a run that needs no more watching.
var errWatched = errors.New("watched to the end")

// watch prints what there is, and follows only a run that still moves.
func watch(ctx context.Context, a *app.App, b app.Backend, id core.ID) error {
	a.WarnAtOnce()
	last, drawn := int64(0), watchesTree(a)
	t := &tree{a: a, begun: core.Begun{}}
	look := func(core.Workflow) {}
	if drawn {
		look = t.show
	}
	seen := func(e core.Event) error {
		if last = max(last, e.Seq); drawn {
			t.note(&e)
			return nil
		}
		return printEvent(a, e)
	}
	if err := b.Events(ctx, id, api.Since{}, false, seen); err != nil {
		return err
	}
	w, err := b.Workflow(ctx, id)
	for err == nil && moves(w) {
		look(w)
		err = followRunning(ctx, b, id, last, look, func(e core.Event) error {
			if err := seen(e); err != nil {
				return err
			}
			if pauses(e.Type) {
				return errWatched
			}
			return nil
		})
		if errors.Is(err, errWatched) {
			if w, err = b.Workflow(ctx, id); err == nil && w.State == core.RunInterrupted {
				break // and nobody has taken it up
			}
		}
	}
	if err != nil && errors.Is(context.Cause(ctx), app.ErrTimeout) {
		return app.TimedOut{Err: core.Errorf(core.CodeTimeout, "--timeout %s ran out; the run %s was only watched, and goes on as before", a.Flags.Timeout, id.Short()).
			WithRun(id).WithNext("pml", "workflows", "watch", id.Short())}
	}
	if err != nil && ctx.Err() != nil {
		return core.Errorf(core.CodeCancelled, "stopped watching; the run %s goes on as before", id.Short()).WithRun(id).WithNext("pml", "workflows", "watch", id.Short())
	}
	if err != nil {
		return err
	}
	// What came between the last event and the look at the run.
	if err := b.Events(ctx, id, api.Since{Any: last}, false, seen); err != nil {
		return err
	}
	if drawn {
		if err := t.end(w); err != nil {
			return err
		}
	}
	return watchExit(w)
}

// moves reports whether a run runs or is about to: a server takes up what the one
// before it has left behind.
func moves(w core.Workflow) bool {
	return w.State == core.RunRunning || w.State == core.RunInterrupted && w.Side == core.SideServer
}

// lookAtRunner is how often a follower looks whether a run still runs: one
// whose process is killed sends no event. A server is given so many looks to take
// it up.
const (
	lookAtRunner = 500 * time.Millisecond
	takeUpLooks  = 10
)

// followRunning calls f for the events of a run until f fails, or until the run
// does not run any more: then it fails with errWatched. look sees the run each time that
// it was looked at.
func followRunning(ctx context.Context, b api.Workflows, id core.ID, since int64, look func(core.Workflow), f func(core.Event) error) error {
	follow, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		tick := time.NewTicker(lookAtRunner)
		defer tick.Stop()
		for left := 0; ; {
			select {
			case <-follow.Done():
				return
			case <-tick.C:
			}
			w, err := b.Workflow(follow, id)
			if err == nil {
				look(w)
			}
			switch {
			case err != nil:
			case w.State == core.RunRunning:
				left = 0
			case moves(w) && left < takeUpLooks:
				left++
			default:
				stop(errWatched)
				return
			}
		}
	}()
	err := b.Events(follow, id, api.Since{Any: since}, true, f)
	if ctx.Err() == nil && errors.Is(context.Cause(follow), errWatched) {
		err = errWatched
	}
	stop(nil)
	<-looked
	return err
}

// pauses reports whether a run may have paused or ended with an event.
func pauses(t core.EventType) bool {
	switch t {
	case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired,
		core.EventApprovalRequested, core.EventCheckpoint, core.EventDecisionRequired:
		return true
	default:
		return false
	}
}

// watchExit is what a run's state makes of a command that followed it.
func watchExit(w core.Workflow) error {
	switch w.State {
	case core.RunComplete:
		return nil
	case core.RunFailed:
		if w.Error != nil {
			return app.FailedRun{Err: w.Error.WithRun(w.ID)}
		}
		return app.ExitStatus(app.ExitFailed)
	case core.RunAborted:
		return app.ExitStatus(app.ExitAborted)
	case core.RunExpired:
		return app.ExitStatus(app.ExitExpired)
	case core.RunWaiting:
		return app.ExitStatus(app.ExitPending)
	case core.RunInterrupted:
		return core.Errorf(core.CodeCancelled, "the run %s was interrupted; nothing is lost", w.ID.Short()).
			WithRun(w.ID).WithNext("pml", "continue", w.ID.Short())
	case core.RunRunning:
		return app.ExitStatus(app.ExitFailed)
	}
	return nil
}
