package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

const (
	keyType  = "pml-key-1"
	voidType = "pml-void-1"
	// holderMemo is the memo in which the workflow of a key says whose it is.
	holderMemo = "holder"
)

// keyWorkflow holds an idempotency key: to start it is to take the key, which Temporal lets one
// do. It does nothing, and Temporal lets it begin only when the key's life is over, so that a key
// costs one start.
func keyWorkflow(workflow.Context) error { return nil }

// voidWorkflow stands in the place of a run that was never begun, so that nobody can begin it any more.
func voidWorkflow(workflow.Context) error { return nil }

// holder is the run that has a key.
type holder struct {
	Run     core.ID   `json:"run"`
	Digest  string    `json:"digest,omitempty"`
	Created time.Time `json:"created"`

	execution string // of the key's workflow
}

// used is the error of a run whose key another one has.
func (h holder) used(run core.Run) error {
	return store.KeyUsed(run, core.Run{ID: h.Run, IdempotencyDigest: h.Digest, CreatedAt: h.Created})
}

// keyWorkflowOf is the id of the workflow of a key, which is the workspace's.
func (s *service) keyWorkflowOf(workspace, key string) string {
	sum := sha256.Sum256([]byte(workspace + "\x00" + key))
	return s.name("key/" + hex.EncodeToString(sum[:]))
}

// takeKey takes a run's idempotency key, before the run is begun. A key whose life is over, or
// whose run is not there, is taken from it.
func (s *service) takeKey(ctx context.Context, run core.Run) error {
	id := s.keyWorkflowOf(run.Workspace, run.IdempotencyKey)
	for {
		_, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: id, TaskQueue: s.opts.Name, StartDelay: store.KeyLife,
			Memo:                                     map[string]any{holderMemo: holder{Run: run.ID, Digest: run.IdempotencyDigest, Created: run.CreatedAt}},
			WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
		}, keyType)
		if _, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); !taken {
			return failure(stopped(ctx, err), run.ID)
		}
		h, err := s.holderOf(ctx, run.Workspace, run.IdempotencyKey)
		if err != nil || h.Run == run.ID { // of an earlier try to begin this run
			return err
		}
		if h.Run == "" { // the key's life has just ended
			continue
		}
		if s.opts.Clock.Now().Sub(h.Created) < store.KeyLife {
			there, err := s.thereOrNever(ctx, h.Run)
			if err != nil {
				return err
			}
			if there {
				return h.used(run)
			}
		}
		err = s.client.TerminateWorkflow(ctx, id, h.execution, "its run is not there, or it is old")
		if _, gone := errors.AsType[*serviceerror.NotFound](err); err != nil && !gone {
			return failure(stopped(ctx, err), run.ID)
		}
	}
}

// holderOf is who has a key: the zero value for nobody. It is as of all that was kept before.
func (s *service) holderOf(ctx context.Context, workspace, key string) (h holder, err error) {
	d, err := s.client.DescribeWorkflowExecution(ctx, s.keyWorkflowOf(workspace, key), "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return h, nil
	}
	if err != nil {
		return h, failure(stopped(ctx, err), "")
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return h, nil
	}
	h.execution = info.GetExecution().GetRunId()
	id := info.GetExecution().GetWorkflowId()
	if err := s.conv.of(s.opts.Namespace, id).FromPayload(info.GetMemo().GetFields()[holderMemo], &h); err != nil {
		return h, unread(err, id, "which run has the idempotency key")
	}
	return h, nil
}

// thereOrNever reports whether a run is there. If it is not, it never will be: whoever has taken
// its key and then died, or only lags, finds its place taken.
func (s *service) thereOrNever(ctx context.Context, run core.ID) (bool, error) {
	d, err := s.client.DescribeWorkflowExecution(ctx, s.workflowOf(run), "")
	if err == nil { // one that has ended by itself was removed, or never begun
		return d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); !missing {
		return false, failure(stopped(ctx, err), run)
	}
	_, err = s.serving.ExecuteWorkflow(ctx, s.once(run), voidType)
	if _, begun := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); begun {
		return s.thereOrNever(ctx, run)
	}
	return false, failure(stopped(ctx, err), run)
}

// once is how the workflow of a run is begun: never twice.
func (s *service) once(run core.ID) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: s.workflowOf(run), TaskQueue: s.opts.Name, WorkflowTaskTimeout: taskLimit, EnableEagerStart: true,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
}

// lostKey is the error of a run that could not be begun although it had its key: somebody has
// found the key without a run meanwhile.
func (s *service) lostKey(ctx context.Context, run core.Run) error {
	h, err := s.holderOf(ctx, run.Workspace, run.IdempotencyKey)
	switch {
	case err != nil:
		return err
	case h.Run != "" && h.Run != run.ID:
		return h.used(run)
	}
	there, err := s.thereOrNever(ctx, run.ID)
	if err == nil && !there {
		err = core.Errorf(core.CodeStoreBusy, "another process took the run %s for one that never began; start it again", run.ID.Short()).WithRun(run.ID)
	}
	if err == nil {
		err = store.Duplicate(run.ID, "there is a run %s already", run.ID)
	}
	return err
}

// meetHolder meets the run that has the key that a filter asks for, which the index may not know yet.
func (s *Store) meetHolder(ctx context.Context, f store.RunFilter) error {
	if f.IdempotencyKey == "" || f.Workspace == "" {
		return nil
	}
	h, err := s.holderOf(ctx, f.Workspace, f.IdempotencyKey)
	if err == nil && h.Run != "" {
		if _, err = s.Run(ctx, h.Run); core.CodeOf(err) == core.CodeNotFound {
			err = nil
		}
	}
	return err
}
