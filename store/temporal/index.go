package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
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
	// What lists of runs are selected by and in whose order they are; texts are labels.
	stateName     = "PmlState"
	workspaceName = "PmlWorkspace"
	ownerName     = "PmlOwner"
	keyName       = "PmlKey"
	createdName   = "PmlCreated" // microseconds: on its way through Temporal a number keeps 53 bits
)

// attributes are all search attributes, in the order in which they are shown.
var attributes = []struct {
	name string
	kind enumspb.IndexedValueType
}{
	{todoName, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{askedName, enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST},
	{stateName, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{workspaceName, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{ownerName, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{keyName, enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{createdName, enumspb.INDEXED_VALUE_TYPE_INT},
}

var (
	todoKey      = temporal.NewSearchAttributeKeyKeyword(todoName)
	askedKey     = temporal.NewSearchAttributeKeyKeywordList(askedName)
	stateKey     = temporal.NewSearchAttributeKeyKeyword(stateName)
	workspaceKey = temporal.NewSearchAttributeKeyKeyword(workspaceName)
	ownerKey     = temporal.NewSearchAttributeKeyKeyword(ownerName)
	keyKey       = temporal.NewSearchAttributeKeyKeyword(keyName)
	createdKey   = temporal.NewSearchAttributeKeyInt64(createdName)
)

// nobody stands for the runner of a run that has none.
const nobody = "-"

// askedLimit is how many approvals of a run the index knows: Temporal takes 2 KB a value.
const askedLimit = 32

// labelLimit is how long a text the index has as it is: databases of Temporal keep 255 characters.
const labelLimit = 200

// label is a text as the index has it: plain ones as they are, for people who look in Temporal,
// others under their digest. So it is also safe within a query.
func label(text string) string {
	plain := len(text) <= labelLimit && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || r == '\'' || r == '"' || r == '\\'
	})
	if plain {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

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

// unseen is what has to be said to an index that knows this much of the run.
func (st *state) unseen(known temporal.SearchAttributes) []temporal.SearchAttributeUpdate {
	var changes []temporal.SearchAttributeUpdate
	for _, a := range []struct {
		key temporal.SearchAttributeKeyKeyword
		now string
	}{
		{todoKey, st.doer()}, {stateKey, string(st.Run.State)}, {workspaceKey, label(st.Run.Workspace)},
		{ownerKey, label(st.Run.Owner)}, {keyKey, label(st.Run.IdempotencyKey)},
	} {
		was, _ := known.GetKeyword(a.key)
		if a.now == "" && was != "" {
			changes = append(changes, a.key.ValueUnset())
		} else if a.now != was {
			changes = append(changes, a.key.ValueSet(a.now))
		}
	}
	if was, _ := known.GetInt64(createdKey); was != st.Run.CreatedAt.UnixMicro() {
		changes = append(changes, createdKey.ValueSet(st.Run.CreatedAt.UnixMicro()))
	}
	had, _ := known.GetKeywordList(askedKey)
	if asked := st.asked(); !slices.Equal(asked, had) {
		changes = append(changes, askedKey.ValueSet(asked))
	}
	return changes
}

// show tells the index what has changed of what it knows.
func (r *runHolder) show(ctx workflow.Context) error {
	changes := r.unseen(workflow.GetTypedSearchAttributes(ctx))
	if len(changes) == 0 {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(ctx, changes...)
}

// indexed is the query for all runs of this installation.
func (s *service) indexed() string {
	return "WorkflowType='" + runType + "' AND TaskQueue='" + s.opts.Name + "' AND ExecutionStatus='Running'"
}

// asking are the runs that have an approval, as far as the index knows.
func (s *service) asking(ctx context.Context, id core.ID) ([]core.ID, error) {
	if strings.ContainsAny(string(id), `'"\`) { // it is none, and no text for a query
		return nil, nil
	}
	found, err := s.list(ctx, s.indexed()+" AND "+askedName+"='"+string(id)+"'")
	return s.runIDs(found), err
}

// list are the workflows that the index has for a query.
func (s *service) list(ctx context.Context, query string) (all []*workflowpb.WorkflowExecutionInfo, err error) {
	for token := []byte(nil); ; {
		page, err := s.listPage(ctx, query, s.page, token)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetExecutions()...)
		if token = page.GetNextPageToken(); len(token) == 0 {
			return all, nil
		}
	}
}

func (s *service) listPage(ctx context.Context, query string, size int32, token []byte) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	page, err := s.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: s.opts.Namespace, PageSize: size, NextPageToken: token, Query: query,
	})
	return page, failure(stopped(ctx, err), "")
}

// indexPage is how many workflows the index says at once: as many as Temporal gives.
const indexPage = 1000

func (s *service) runIDs(found []*workflowpb.WorkflowExecutionInfo) (ids []core.ID) {
	for _, e := range found {
		if id, ok := s.runOf(e); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// runOf is the run that a workflow holds.
func (s *service) runOf(e *workflowpb.WorkflowExecutionInfo) (core.ID, bool) {
	id, ok := strings.CutPrefix(e.GetExecution().GetWorkflowId(), s.name("run/"))
	return core.ID(id), ok
}

// shown is an attribute that the index has of a workflow; the zero value where it has none.
func shown[T any](e *workflowpb.WorkflowExecutionInfo, name string) (v T) {
	if payload, ok := e.GetSearchAttributes().GetIndexedFields()[name]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(payload, &v)
	}
	return v
}
