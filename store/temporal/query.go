package temporal

import (
	"context"
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// queryPatience is how long a query is waited for at first, and queryTries how often it is made;
// each try waits twice as long as the one before, because the process that takes a workflow up
// may have to read a long history.
const (
	queryPatience = time.Second
	queryTries    = 5
)

// query reads a workflow, as of all updates that were kept before. The workflow of a run that was
// removed has ended: core.CodeNotFound.
//
// Temporal gives a query to one process, and waits for it: if that has just ended, or ends
// before it answers, nobody else gets the query. That happens where the workflow is in the
// memory of a process that has ended, and also where one that ends has asked for work before
// and is given this. So who asks does not wait long, and asks anew.
func (s *service) query(ctx context.Context, id, name string, run core.ID, result any, args ...any) error {
	var answer *client.QueryWorkflowWithOptionsResponse
	var err error
	ask := &client.QueryWorkflowWithOptionsRequest{WorkflowID: id, QueryType: name, Args: args}
	if run != "" {
		ask.QueryRejectCondition = enumspb.QUERY_REJECT_CONDITION_NOT_OPEN
	}
	patience := queryPatience
	for try := range queryTries {
		if err = s.work.ended(); err == nil && try > 0 {
			err = s.forgetPlace(ctx, id)
		}
		if err != nil {
			break
		}
		next, cancel := context.WithTimeout(ctx, patience)
		answer, err = s.client.QueryWorkflowWithOptions(next, ask)
		if notYet(err) {
			<-next.Done()
		}
		over := next.Err() != nil || unanswered(err) || unable(err)
		cancel()
		if err == nil || !over || ctx.Err() != nil {
			break
		}
		patience *= 2
	}
	switch {
	case err != nil:
		err = s.said(err)
	case answer.QueryRejected != nil:
		err = ended(run, answer.QueryRejected.GetStatus())
	default:
		err = answer.QueryResult.Get(result)
	}
	return failure(stopped(ctx, err), run)
}

// said is the error with which a workflow has refused a query.
func (s *service) said(err error) error {
	if failed, ok := errors.AsType[*serviceerror.QueryFailed](err); ok && failed.Failure != nil {
		return s.conv.failures.FailureToError(failed.Failure)
	}
	return err
}

// unable reports whether the process that was given a query could not answer it, because it lacks a key or is of another
// version: another one may. What a workflow has refused stays so.
func unable(err error) bool {
	failed, ok := errors.AsType[*serviceerror.QueryFailed](err)
	return ok && failed.Failure.GetApplicationFailureInfo().GetType() != refused
}

// ended is the error of a run whose workflow has ended: by itself where the run was removed,
// otherwise by somebody's hand. Neither is in a list.
func ended(run core.ID, status enumspb.WorkflowExecutionStatus) error {
	if status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return store.NoRun(run)
	}
	return core.Errorf(core.CodeNotFound, "the run %s is not there any more: somebody has ended its workflow in Temporal (%s); reset it there to have the run again", run.Short(), status).WithRun(run)
}

// unanswered reports whether Temporal itself has waited for as long as it does, which may be
// less than what it was given.
func unanswered(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var cut *serviceerror.Canceled
	return errors.As(err, &late) || errors.As(err, &cut)
}

// notYet reports whether Temporal has refused a query at once that may be answered soon: it has seen
// no process for a while that could answer, or those that were given the workflow have not.
func notYet(err error) bool {
	var alone *serviceerror.FailedPrecondition
	var unready *serviceerror.WorkflowNotReady
	return errors.As(err, &alone) || errors.As(err, &unready)
}

// forgetPlace has Temporal forget which process has a workflow in memory.
func (s *service) forgetPlace(ctx context.Context, id string) error {
	_, err := s.client.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: s.opts.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	return err
}
