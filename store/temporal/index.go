package temporal

import (
	"context"
	"slices"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
)

// What the index of the service knows of a run, in search attributes (Prepare). It learns of a
// change a moment after it is kept.
const (
	// todoName says whose the run is while it has something to do. Of all others it is not set.
	todoName = "PmlTodo"
	// askedName are the approvals of the run, as many as fit.
	askedName = "PmlAsked"
)

var (
	todoKey  = temporal.NewSearchAttributeKeyKeyword(todoName)
	askedKey = temporal.NewSearchAttributeKeyKeywordList(askedName)
)

// nobody stands for the runner of a run that has none.
const nobody = "-"

// askedLimit is how many approvals of a run the index knows: Temporal takes 2 KB a value.
const askedLimit = 32

// asked are the approvals of the run that the index is to know: the open ones, and the newest
// of those that were decided, which may be decided once more.
func (st *state) asked() []string {
	var open, settled []string
	for _, q := range slices.Backward(st.Approvals) {
		if q.State == core.ApprovalOpen {
			open = append(open, string(q.ID))
		} else {
			settled = append(settled, string(q.ID))
		}
	}
	all := slices.Concat(open, settled)
	all = all[:min(askedLimit, len(all))]
	slices.Sort(all)
	return all
}

// show tells the index what has changed of what it knows.
func (r *runHolder) show(ctx workflow.Context) error {
	known := workflow.GetTypedSearchAttributes(ctx)
	var changes []temporal.SearchAttributeUpdate
	was, _ := known.GetKeyword(todoKey)
	if todo := r.doer(); todo == "" && was != "" {
		changes = append(changes, todoKey.ValueUnset())
	} else if todo != was {
		changes = append(changes, todoKey.ValueSet(todo))
	}
	had, _ := known.GetKeywordList(askedKey)
	if asked := r.asked(); !slices.Equal(asked, had) {
		changes = append(changes, askedKey.ValueSet(asked))
	}
	if len(changes) == 0 {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(ctx, changes...)
}

// asking are the runs that have an approval, as far as the index knows.
func (s *Store) asking(ctx context.Context, id core.ID) ([]core.ID, error) {
	if strings.ContainsAny(string(id), `'"\`) { // it is none, and no text for a query
		return nil, nil
	}
	found, err := s.list(ctx, "WorkflowType='"+runType+"' AND TaskQueue='"+s.opts.Name+"' AND ExecutionStatus='Running' AND "+askedName+"='"+string(id)+"'")
	return s.runIDs(found), err
}

// list are the workflows that the index has for a query.
func (s *Store) list(ctx context.Context, query string) (all []*workflowpb.WorkflowExecutionInfo, err error) {
	var token []byte
	for {
		page, err := s.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: s.opts.Namespace, NextPageToken: token, Query: query})
		if err != nil {
			return nil, failure(err, "")
		}
		all = append(all, page.GetExecutions()...)
		if token = page.GetNextPageToken(); len(token) == 0 {
			return all, nil
		}
	}
}

func (s *Store) runIDs(found []*workflowpb.WorkflowExecutionInfo) (ids []core.ID) {
	for _, e := range found {
		if id, ok := s.runOf(e); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// runOf is the run that a workflow holds.
func (s *Store) runOf(e *workflowpb.WorkflowExecutionInfo) (core.ID, bool) {
	id, ok := strings.CutPrefix(e.GetExecution().GetWorkflowId(), s.name("run/"))
	return core.ID(id), ok
}
