package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Continue implements api.Runs: it decides, and what was decided goes on.
func (b *Backend) Continue(_ context.Context, req api.ContinueRequest) (api.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.script.find(req.ID)
	if err != nil {
		return api.Result{}, err
	}
	if d := req.Decision; d != nil {
		if err := b.script.decide(r, d, req.By); err != nil {
			return api.Result{}, err
		}
	} else if r.State == core.RunInterrupted {
		r.State = core.RunRunning
	}
	return api.Result{Status: api.StatusRunning, WorkflowID: r.ID}, nil
}

func (s *script) decide(r *run, d *api.Decision, by core.Actor) error {
	a, err := s.meant(r, d.Checkpoint)
	now := s.now()
	if err == nil && a.StateAt(now) == core.ApprovalExpired && a.RenewedBy == "" && (d.ExpectDigest == "" || d.ExpectDigest == a.Digest) {
		a = s.renew(r, a)
		d.ExpectDigest = ""
	}
	switch {
	case err != nil:
		return err
	case a.DecidedBy != nil:
		e := core.Errorf(core.CodeAlreadyDecided, "%s was %s by %s already", a.ID.Short(), a.State, a.DecidedBy.Who)
		e.Decided = a.DecidedBy
		return e
	case a.StateAt(now) != core.ApprovalOpen:
		return core.Errorf(core.CodeApprovalExpired, "approval %s has expired; ask again", a.ID.Short())
	case d.ExpectDigest != "" && d.ExpectDigest != a.Digest && d.ExpectDigest != editedDigest(a, d.Answer):
		return core.Errorf(core.CodeDigestMismatch, "what waits is not what was shown; look at it again")
	}
	a.State, a.Answer = core.ApprovalDenied, d.Answer
	if d.Approve {
		a.State = core.ApprovalApproved
	}
	a.DecidedBy = &core.DecidedBy{Actor: by, At: now, Reason: d.Reason}
	s.record(a, a.State, by, d.Reason, now)
	s.tell(r, core.Event{Type: core.EventApprovalResolved, Tool: a.Tool, ApprovalID: a.ID, Message: string(a.State) + " by " + by.Who})
	if d.Abort {
		s.abort(r, by, d.Reason)
		return nil
	}
	s.act(r, a, d.Approve)
	return nil
}

// meant is the approval that a decision names, or the first that waits.
func (s *script) meant(r *run, id core.ID) (*core.Approval, error) {
	if id == "" {
		for _, a := range s.sorted() {
			if a.RunID == r.ID && a.StateAt(s.now()) == core.ApprovalOpen {
				id = a.ID
				break
			}
		}
	}
	a := s.approvals[id]
	if a == nil || a.RunID != r.ID {
		return nil, core.Errorf(core.CodeNotWaiting, "run %s waits for nothing", r.ID.Short())
	}
	return a, nil
}

// act does with the run what was decided.
func (s *script) act(r *run, a *core.Approval, approved bool) {
	if a.Type == core.ApproveLayer {
		if !approved {
			s.abort(r, a.DecidedBy.Actor, a.DecidedBy.Reason)
			return
		}
		r.asked, r.State = r.CurrentLayer, core.RunRunning
		return
	}
	for _, t := range slices.Concat(r.layers...) {
		if t.asked != a.ID {
			continue
		}
		t.gate, t.asked = nil, ""
		t.State = core.TaskQueued
		if approved {
			s.heed(r, t, a.Answer)
		} else {
			now := s.now()
			t.State, t.EndedAt = core.TaskError, &now
			t.Error = core.Errorf(core.CodeDenied, "%s was denied by %s", t.Tool, a.DecidedBy.Who)
			s.tell(r, core.Event{Type: core.EventTaskError, TaskID: t.ID, Tool: t.Tool, Layer: new(t.Layer), Error: t.Error})
		}
	}
	r.State = core.RunRunning
}

// heed does with an approved task what the answer says beyond yes: other arguments, a result instead of the call, and
// that the tool is not asked about again.
func (s *script) heed(r *run, t *task, answer *core.Answer) {
	if answer == nil {
		return
	}
	if len(answer.Arguments) > 0 {
		t.Arguments = answer.Arguments
	}
	if answer.InDoubt == core.SkipResult {
		now := s.now()
		t.State, t.EndedAt, t.Output = core.TaskSuccess, &now, answer.Result
		s.tell(r, core.Event{Type: core.EventTaskComplete, TaskID: t.ID, Tool: t.Tool, Layer: new(t.Layer)})
	}
	if answer.Remember == core.RememberSession || answer.Remember == core.RememberRule {
		s.remembered[t.Tool] = true
	}
}

func (s *script) abort(r *run, by core.Actor, reason string) {
	now := s.now()
	r.State, r.EndedAt, r.Error = core.RunAborted, &now, core.Errorf(core.CodeAborted, "aborted by %s: %s", by.Who, reason)
	for _, a := range s.approvals {
		if a.RunID == r.ID && a.State == core.ApprovalOpen {
			a.State = core.ApprovalSuperseded
		}
	}
	s.tell(r, core.Event{Type: core.EventWorkflowAbort, Message: reason})
}

// record adds a row to the audit log. The demo's rows have no hashes.
func (s *script) record(a *core.Approval, outcome core.ApprovalState, by core.Actor, reason string, at time.Time) {
	s.audit = append(s.audit, core.AuditRow{
		Seq: int64(len(s.audit) + 1), At: at, RunID: a.RunID, RunName: a.RunName, ApprovalID: a.ID, Workspace: a.Workspace, Type: a.Type, Tool: a.Tool,
		Digest: a.Digest, Outcome: outcome, By: by, Reason: reason,
	})
}

// Abort implements api.Runs.
func (b *Backend) Abort(_ context.Context, id core.ID, by core.Actor, reason string) (api.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.script.find(id)
	if err != nil {
		return api.Result{}, err
	}
	if r.State.Final() {
		return api.Result{}, core.Errorf(core.CodeNotWaiting, "run %s is %s already", id.Short(), r.State)
	}
	b.script.abort(r, by, reason)
	return api.Result{Status: api.StatusAborted, WorkflowID: id, Reason: reason}, nil
}

// Retry implements api.Runs.
func (b *Backend) Retry(_ context.Context, id core.ID, _ core.Actor, _ time.Duration) (api.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.script.find(id)
	if err != nil {
		return api.Result{}, err
	}
	if r.State != core.RunFailed {
		return api.Result{}, core.Errorf(core.CodeNotWaiting, "run %s has not failed", id.Short())
	}
	for i, layer := range r.layers {
		for _, t := range layer {
			if t.State == core.TaskError {
				t.State, t.Error, t.fails = core.TaskQueued, nil, ""
				r.CurrentLayer = min(r.CurrentLayer, i)
			}
		}
	}
	r.State, r.EndedAt, r.Error = core.RunRunning, nil, nil
	b.script.tell(r, core.Event{Type: core.EventWorkflowStart, Message: "retry"})
	return api.Result{Status: api.StatusRunning, WorkflowID: id}, nil
}

// Extend implements api.Approvals.
func (b *Backend) Extend(_ context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.script.approvals[id]
	if a == nil || a.StateAt(b.script.now()) != core.ApprovalOpen {
		return core.Approval{}, core.Errorf(core.CodeNotWaiting, "approval %s does not wait", id.Short())
	}
	if a.ExpiresAt != nil {
		later := a.ExpiresAt.Add(by)
		a.ExpiresAt = &later
	}
	return *a, nil
}

// Edited implements api.Approvals.
func (b *Backend) Edited(_ context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.script.approvals[id]
	if a == nil || a.Type != core.ApproveTool || !json.Valid(args) {
		return core.Approval{}, core.Errorf(core.CodeInvalidArguments, "approval %s has no such arguments", id.Short())
	}
	out := *a
	out.Digest, out.Context = editedDigest(a, &core.Answer{Arguments: args}), json.RawMessage(`{"arguments":`+string(args)+`}`)
	return out, nil
}

// editedDigest is what a question about the arguments of an answer has; empty: the answer has none.
func editedDigest(a *core.Approval, answer *core.Answer) string {
	if answer == nil || len(answer.Arguments) == 0 {
		return ""
	}
	digest, err := core.DigestOf([]string{a.Tool, string(answer.Arguments)})
	if err != nil {
		return ""
	}
	return digest
}

// Renew implements api.Approvals.
func (b *Backend) Renew(_ context.Context, id core.ID, _ core.Actor) (core.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.script.approvals[id]
	if old == nil || old.StateAt(b.script.now()) != core.ApprovalExpired {
		return core.Approval{}, core.Errorf(core.CodeNotWaiting, "approval %s has not expired", id.Short())
	}
	r, err := b.script.find(old.RunID)
	if err != nil {
		return core.Approval{}, err
	}
	return *b.script.renew(r, old), nil
}

// renew asks again for an approval that has expired.
func (s *script) renew(r *run, old *core.Approval) *core.Approval {
	again := s.open(r, *old, s.now())
	old.State, old.RenewedBy = core.ApprovalExpired, again
	s.approvals[again].Renews = old.ID
	for _, t := range slices.Concat(r.layers...) {
		if t.asked == old.ID {
			t.asked = again
		}
	}
	return s.approvals[again]
}

// ParseDAG implements api.DAGs.
func (b *Backend) ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error) {
	var v struct{ Tasks []core.TaskSpec }
	if err := json.Unmarshal(data, &v); err != nil || len(v.Tasks) == 0 {
		return nil, nil, core.Errorf(core.CodeDAGInvalid, `the tasks are not {"tasks": [{"id": …, "tool": …}]}`)
	}
	return v.Tasks, nil, nil
}

// Replan implements api.Runs: the tasks become a layer at the end.
func (b *Backend) Replan(_ context.Context, id core.ID, tasks []core.TaskSpec, _ core.Actor, _ string) (api.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.script.find(id)
	if err != nil {
		return api.Result{}, err
	}
	var layer []*task
	for _, s := range tasks {
		layer = append(layer, &task{takes: 2 * time.Second, Task: core.Task{ID: s.ID, Tool: s.Tool, State: core.TaskQueued, Layer: len(r.layers), Arguments: s.Arguments}})
	}
	r.layers = append(r.layers, layer)
	r.TotalLayers = len(r.layers)
	r.DAGVersion++
	b.script.tell(r, core.Event{Type: core.EventReplanned, Message: fmt.Sprintf("+%d tasks", len(tasks))})
	return api.Result{Status: api.StatusReplanned, WorkflowID: id, NewTasksCount: len(tasks)}, nil
}

// RuleFor implements api.Answers.
func (b *Backend) RuleFor(_ context.Context, id core.ID) (api.Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.script.approvals[id]
	if a == nil || a.Type != core.ApproveTool {
		return api.Rule{}, core.Errorf(core.CodeInvalidArguments, "only the permission of a tool can be remembered as a rule")
	}
	return api.Rule{Approval: id, List: "allow", Pattern: a.Tool, Change: api.Change{
		File: a.Workspace + "/.pml.json", Digest: hashOf("rule"),
		Diff: "   \"permissions\": {\n-    \"allow\": [\"workspace:read_file\"]\n+    \"allow\": [\"workspace:read_file\", \"" + a.Tool + "\"]\n   }\n",
	}}, nil
}

// Write implements api.Changes: nothing is written.
func (b *Backend) Write(context.Context, api.ChangeSet, bool, string) (bool, error) { return true, nil }

// ShowsPerson implements api.Pin.
func (b *Backend) ShowsPerson(context.Context) (bool, error) { return false, nil }

// NeedsPin implements api.Pin.
func (b *Backend) NeedsPin(context.Context) (bool, error) { return false, nil }

// keysAfter is how long after the beginning the key is there that the script
// asks for.
const keysAfter = 30 * time.Second

// KeysFound implements api.Answers: somebody adds the keys after a while.
func (b *Backend) KeysFound(_ context.Context, id core.ID) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.script.approvals[id]
	if a == nil || a.Type != core.ApproveKeys || a.Side == core.SideServer {
		return nil, nil
	}
	var c struct {
		Keys []string `json:"missing_keys"`
	}
	if b.script.now().Sub(b.script.began) < keysAfter || json.Unmarshal(a.Context, &c) != nil {
		return []string{}, nil
	}
	return c.Keys, nil
}
