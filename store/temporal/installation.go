package temporal

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
)

// markMemo is the memo of the shared workflow in which the first process of an installation has left its mark.
const markMemo = "mark"

// mark is a blob that the first process of an installation has put: who finds it has the same blobs, and who reads where
// it is has the same keys.
type mark struct {
	Blob string `json:"blob"`
}

// openShared makes sure that the workflows are there which belong to no run and no flow, and that this process has
// the keys and the blobs of the one that began them.
func (s *service) openShared(ctx context.Context) error {
	const keeps = "what belongs to no run (audit log, PIN, halt)"
	m, err := s.marked(ctx)
	if err == nil && m == nil {
		m = &mark{}
		m.Blob, err = s.opts.Blobs.Put(sharedID, []byte(s.opts.NewID()))
	}
	if err == nil {
		err = s.standing(ctx, sharedID, sharedType, (*sharedState)(nil), keeps, map[string]any{markMemo: m})
	}
	if err == nil {
		err = s.mustBelong(ctx) // another process may have been the first
	}
	if err != nil {
		return err
	}
	return s.standing(ctx, haltID, haltType, (*haltState)(nil), keeps, nil)
}

// mustBelong refuses a process that has other keys or other blobs than the installation.
func (s *service) mustBelong(ctx context.Context) error {
	m, err := s.marked(ctx)
	if err == nil && m == nil {
		err = core.Errorf(core.CodeStoreFailed, "the workflow %s does not say where the blobs are", s.name(sharedID))
	}
	if err == nil {
		_, err = s.opts.Blobs.Get(sharedID, m.Blob)
	}
	return err
}

// marked is the mark of the installation, nil where there is none yet.
func (s *service) marked(ctx context.Context) (*mark, error) {
	p, err := s.memo(ctx)
	if p == nil || err != nil {
		return nil, err
	}
	id := s.name(sharedID)
	if err := s.ring.reads(p, id); err != nil {
		return nil, err
	}
	var m mark
	if err := s.conv.of(s.opts.Namespace, id).FromPayload(p, &m); err != nil {
		return nil, unread(err, id, "where the blobs are")
	}
	return &m, nil
}

// unread is the error of a memo of a workflow that does not say something.
func unread(err error, workflow, what string) error {
	if _, told := errors.AsType[*core.Error](err); told {
		return err
	}
	return core.Errorf(core.CodeStoreFailed, "the workflow %s does not say %s: %w", workflow, what, err)
}

// memo is what the shared workflow says of the mark, nil where there is no such workflow. Temporal says it without any process that
// serves the workflow.
func (s *service) memo(ctx context.Context) (*commonpb.Payload, error) {
	d, err := s.client.DescribeWorkflowExecution(ctx, s.name(sharedID), "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, failure(stopped(ctx, err), "")
	}
	p := d.GetWorkflowExecutionInfo().GetMemo().GetFields()[markMemo]
	if p == nil {
		return nil, core.Errorf(core.CodeStoreFailed, "the workflow %s was begun by something else than pml; choose another name for this installation", s.name(sharedID))
	}
	return p, nil
}

// standing begins a workflow that stays for good, unless it is there. One that somebody has ended is
// not begun anew: without a word the audit log would be empty, no PIN be needed, a halt be over, and
// what a flow has counted be 0.
func (s *service) standing(ctx context.Context, id, kind string, first any, keeps string, memo map[string]any) error {
	_, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: s.name(id), TaskQueue: s.opts.Name, WorkflowTaskTimeout: taskLimit, Memo: memo,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, kind, first)
	if _, ended := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ended {
		return core.Errorf(core.CodeStoreFailed, "somebody has ended the workflow %s, which keeps %s; nothing was begun in its place, reset it: temporal workflow reset --workflow-id %s --type LastWorkflowTask", s.name(id), keeps, s.name(id))
	}
	return failure(stopped(ctx, err), "")
}
