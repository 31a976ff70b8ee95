package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// layerOf is "2/5": the layer that a run is in, of how many.
func layerOf(r core.Run) string {
	if r.TotalLayers == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", min(r.CurrentLayer+1, r.TotalLayers), r.TotalLayers)
}

func (a *app) writeWorkflow(w *strings.Builder, wf core.Workflow) {
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-10s %s\n", k, core.Visible(v, 0, false))
		}
	}
	line("workflow", string(wf.ID))
	line("state", string(wf.State))
	if wf.Side == core.SideServer {
		line("side", string(wf.Side))
	}
	line("kind", string(wf.Kind))
	line("intent", wf.Intent)
	line("workspace", wf.Workspace)
	line("created", stamp(wf.CreatedAt)+" ("+a.ago(wf.CreatedAt)+" ago)")
	if wf.EndedAt != nil {
		line("ended", stamp(*wf.EndedAt))
	}
	if wf.ExpiresAt != nil && !wf.State.Final() {
		line("expires", a.left(wf.ExpiresAt))
	}
	line("layer", layerOf(wf.Run))
	if wf.Error != nil {
		line("error", string(wf.Error.Code)+": "+wf.Error.Message)
	}
	for _, l := range wf.Layers {
		fmt.Fprintf(w, "\nlayer %d\n", l.Index+1)
		rows := make([][]string, 0, len(l.Tasks))
		for _, t := range l.Tasks {
			rows = append(rows, taskRow(t))
		}
		w.WriteString(alignRows(rows, a.lineLimit()))
	}
	for _, p := range wf.Approvals {
		if p.StateAt(a.now()) == core.ApprovalOpen {
			w.WriteString("\n" + a.approvalBlock(p, 1, 1))
		}
	}
	if expired := a.unanswered(wf.Approvals); len(expired) > 0 && wf.State == core.RunWaiting {
		w.WriteByte('\n')
		for _, p := range expired {
			fmt.Fprintf(w, "expired without a decision: %s\n", core.Visible(p.ID.Short()+" "+string(p.Type)+" "+p.Tool, 0, false))
		}
		fmt.Fprintf(w, "next: pml continue %s (asks again)\n", wf.ID.Short())
	}
}

// unanswered are the approvals that expired and were not asked again.
func (a *app) unanswered(list []core.Approval) []core.Approval {
	var out []core.Approval
	for _, p := range list {
		if p.StateAt(a.now()) == core.ApprovalExpired && p.RenewedBy == "" {
			out = append(out, p)
		}
	}
	return out
}

// lineLimit is where lines of tables are cut: on a terminal only.
func (a *app) lineLimit() int {
	if a.StdoutTTY && a.format() != formatWide {
		return a.Width()
	}
	return 0
}

// glyphs go before the word of a state and never replace it.
var glyphs = map[core.TaskState]string{
	core.TaskQueued: ".", core.TaskRunning: "*", core.TaskWaiting: "!", core.TaskSuccess: "+",
	core.TaskError: "x", core.TaskFailedSafe: "~", core.TaskSkipped: "-",
}

func taskRow(t core.Task) []string {
	about := ""
	if t.Error != nil {
		about = t.Error.Message
	} else if t.Predicted {
		about = "expected"
	}
	row := []string{"  " + glyphs[t.State] + " " + string(t.State), t.ID, t.Tool, millis(t.DurationMS), about}
	for i := range row {
		row[i] = core.Visible(row[i], 0, false)
	}
	return row
}

func (a *app) workflowsWatchCmd() *cobra.Command {
	return a.runCmd(&cobra.Command{
		Use:     "watch ID",
		Short:   "Follow a run until it ends or pauses",
		Long:    "Prints the events of a run from its beginning, live, until it ends, waits for a decision, or its process is gone. The exit code is that of the run.",
		Example: "  pml workflows watch 7f3a91c2\n  pml wf watch @latest -o jsonl",
	}, a.watch)
}

// errWatched ends the stream of events of a run that needs no more watching.
var errWatched = errors.New("watched to the end")

// watch prints what there is, and follows only a run that still moves.
func (a *app) watch(ctx context.Context, b Backend, id core.ID) error {
	a.warnAtOnce()
	last := int64(0)
	seen := func(e core.Event) error {
		last = max(last, e.Seq)
		return a.printEvent(e)
	}
	if err := b.Events(ctx, id, api.Since{}, false, seen); err != nil {
		return err
	}
	w, err := b.Workflow(ctx, id)
	for err == nil && moves(w) {
		err = a.followRunning(ctx, b, id, last, func(e core.Event) error {
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
	if err != nil {
		return err
	}
	// What came between the last event and the look at the run.
	if err := b.Events(ctx, id, api.Since{Any: last}, false, seen); err != nil {
		return err
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
// does not run any more: then it fails with errWatched.
func (a *app) followRunning(ctx context.Context, b Journal, id core.ID, since int64, f func(core.Event) error) error {
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
			return failedRun{w.Error.WithRun(w.ID)}
		}
		return exitStatus(exitFailed)
	case core.RunAborted:
		return exitStatus(exitAborted)
	case core.RunExpired:
		return exitStatus(exitExpired)
	case core.RunWaiting:
		return exitStatus(exitPending)
	case core.RunInterrupted:
		return core.Errorf(core.CodeCancelled, "the workflow %s was interrupted; nothing is lost", w.ID.Short()).
			WithRun(w.ID).WithNext("pml", "continue", w.ID.Short())
	case core.RunRunning:
		return exitStatus(exitFailed)
	}
	return nil
}
