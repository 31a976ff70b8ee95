package temporal

import (
	"context"
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/casys-ai/pml/core"
)

// queryPatience is how long a query is waited for at first, and queryTries how often it is made;
// each try waits twice as long as the one before, because the process that takes a workflow up
// may have to read a long history.
const (
	queryPatience = time.Second
	queryTries    = 5
)

// query reads a workflow, as of all updates that were kept before.
//
// Temporal gives a query to one process, and waits for it: if that has just ended, or ends
// before it answers, nobody else gets the query. That happens where the workflow is in the
// memory of a process that has ended, and also where one that ends has asked for work before
// and is given this. So who asks does not wait long, and asks anew.
func (s *Store) query(ctx context.Context, id, name string, run core.ID, result any, args ...any) error {
	var v converter.EncodedValue
	var err error
	patience := queryPatience
	for try := range queryTries {
		if try > 0 {
			if err = s.forgetPlace(ctx, id); err != nil {
				break
			}
		}
		next, cancel := context.WithTimeout(ctx, patience)
		v, err = s.client.QueryWorkflow(next, id, "", name, args...)
		over := next.Err() != nil || unanswered(err)
		cancel()
		if err == nil || !over || ctx.Err() != nil {
			break
		}
		patience *= 2
	}
	if err == nil {
		err = v.Get(result)
	}
	return failure(stopped(ctx, err), run)
}

// unanswered reports whether Temporal itself has waited for as long as it does, which may be
// less than what it was given.
func unanswered(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var cut *serviceerror.Canceled
	return errors.As(err, &late) || errors.As(err, &cut)
}

// forgetPlace has Temporal forget which process has a workflow in memory.
func (s *Store) forgetPlace(ctx context.Context, id string) error {
	_, err := s.client.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: s.opts.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	return err
}
