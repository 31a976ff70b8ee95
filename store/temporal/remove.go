package temporal

import (
	"context"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

const (
	updateRemove   = "remove"
	activityForget = "pml-forget"
)

// removal asks the workflow of a run to remove it; removed says whether the run had earlier histories.
type (
	removal struct {
		At time.Time `json:"at"`
	}
	removed struct {
		Earlier bool `json:"earlier,omitempty"`
	}
)

// errNotEnded refuses to remove a run.
func errNotEnded(run core.Run) error {
	return core.Errorf(core.CodeNotWaiting, "the run %s has not ended: it is %s; abort it first", run.ID.Short(), run.State).
		WithRun(run.ID).WithNext("pml", "abort", string(run.ID))
}

func (r *runHolder) serveRemove(ctx workflow.Context) error {
	return serveUpdate(ctx, r, updateRemove, func(_ workflow.Context, st *state, in removal) (removed, error) {
		if run := approval.RunAt(st.Run, in.At); !run.State.Final() {
			return removed{}, errNotEnded(run)
		}
		st.Removed = true
		return removed{Earlier: len(st.Sealed) > 0}, nil
	})
}

// end ends the workflow of a run that was removed, when the shared workflow has its rows, and
// its blobs and what flows did for it are gone. A workflow of a run that has ended by itself is one of a run that was removed.
func (r *runHolder) end(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return len(r.Audit) == 0 && workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, activityForget, r.Run.ID).Get(ctx, nil)
}

// forgetRun is the activity that removes what lies outside of a run's workflow: what flows did for
// its calls, and its blobs.
func (s *service) forgetRun(ctx context.Context, run core.ID) error {
	if err := s.forgetFlowRuns(ctx, run); err != nil {
		return err
	}
	return s.opts.Blobs.Remove(string(run))
}

// Remove implements store.Writer. The ids are looked at before: one that has not ended, or that
// nobody knows, is an error, and nothing is removed. A run that somebody takes up again right then
// stays with its error, and others may be removed already.
func (s *Store) Remove(ctx context.Context, ids ...core.ID) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	err := each(len(ids), func(i int) error {
		run, err := s.header(ctx, ids[i])
		if err == nil && !run.State.Final() {
			err = errNotEnded(run)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = each(len(ids), func(i int) error { return s.remove(ctx, ids[i]) })
	s.watchers.tell(false)
	return err
}

// removeLimit is how long the end of a run's workflow is waited for.
const removeLimit = time.Minute

// remove removes one run. It is removed once its workflow has ended; from the update on Temporal
// sees to that, whoever dies.
func (s *Store) remove(ctx context.Context, id core.ID) error {
	var was removed
	err := s.update(ctx, s.workflowOf(id), updateRemove, id, removal{At: s.opts.Clock.Now()}, &was)
	if err != nil && core.CodeOf(err) != core.CodeNotFound { // somebody else removes it, too
		return err
	}
	wait, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	if err := s.client.GetWorkflow(wait, s.workflowOf(id), "").Get(wait, nil); err != nil {
		return core.Errorf(core.CodeStoreBusy, "the run %s is being removed and not gone yet: %w", id.Short(), stopped(ctx, err)).WithRun(id)
	}
	s.recent.forget(id)
	s.deleteHistories(ctx, id, was.Earlier)
	return nil
}

// deleteHistories has Temporal delete the histories of a removed run now, and not only when the
// namespace's retention is over, as it does where this fails.
func (s *Store) deleteHistories(ctx context.Context, id core.ID, earlier bool) {
	histories := []*commonpb.WorkflowExecution{{WorkflowId: s.workflowOf(id)}}
	if earlier {
		found, err := s.list(ctx, "WorkflowId='"+s.workflowOf(id)+"' AND ExecutionStatus='ContinuedAsNew'")
		if err != nil {
			s.opts.Logger.Debug("cannot find the earlier histories of a removed run; retention deletes them", "run", id, "error", err)
		}
		for _, e := range found {
			histories = append(histories, e.GetExecution())
		}
	}
	for _, h := range histories {
		_, err := s.client.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{Namespace: s.opts.Namespace, WorkflowExecution: h})
		if err != nil {
			s.opts.Logger.Debug("cannot delete a history of a removed run; retention deletes it", "run", id, "error", err)
		}
	}
}
