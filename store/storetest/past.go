package storetest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// copied is a step that adds the copy of a failed run with all that a run can have.
func (k *kit) copied() store.Step {
	run := k.run()
	run.State, run.EndedAt, run.Runner, run.Epoch = core.RunFailed, k.in(0), "", 0
	run.Result, run.Options.Input = json.RawMessage(`{"r":1}`), json.RawMessage(`"`+strings.Repeat("i", 9<<10)+`"`)
	run.Imported = &core.Imported{At: k.now(), By: human, State: core.RunWaiting, Workspace: "/elsewhere", Digest: "sha256:aa"}
	approved, superseded := k.approval(run.ID), k.approval(run.ID)
	approved.State, approved.DecidedBy = core.ApprovalApproved, &core.DecidedBy{Actor: other, At: k.now().UTC()}
	approved.Context = json.RawMessage(`"` + strings.Repeat("c", 70<<10) + `"`)
	superseded.State = core.ApprovalSuperseded
	past := &store.Past{Approvals: []core.Approval{approved, superseded}}
	for i := range 3 {
		past.Checkpoints = append(past.Checkpoints, core.Checkpoint{ID: k.id(), RunID: run.ID, Layer: i, JournalSeq: int64(i), DAGVersion: 1, CreatedAt: k.now()})
	}
	big := record(2, "c2")
	big.Result = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	return store.Step{
		Run: run, Create: true, Past: past, Program: &core.Program{Kind: core.KindDAG, Version: 3},
		Records: []core.Record{record(1, "c1"), big},
		Events:  []core.Event{{Type: core.EventWorkflowStart, At: k.now()}, {Type: core.EventWorkflowFailed, At: k.now()}},
		Audit:   []core.AuditRow{{At: k.now(), Outcome: core.ApprovalApproved, By: human, Reason: "imported"}},
	}
}

// testPast: the copy of a run comes with all its parts in one commit, and is nothing
// that anybody could take up, decide about or renew.
func testPast(k *kit) {
	step := k.copied()
	k.commit(step)
	s := k.fresh()
	run, err := s.Run(k.ctx(), step.Run.ID)
	step.Run.JournalSeq = 2
	if diff := cmp.Diff(step.Run, run, sameText); err != nil || diff != "" {
		k.t.Errorf("run: %v\n%s", err, diff)
	}
	records, err := s.Journal(k.ctx(), run.ID, 0)
	if diff := cmp.Diff(step.Records, records, sameText); err != nil || diff != "" {
		k.t.Errorf("journal: %v, differs in %d bytes", err, len(diff))
	}
	checkpoints, err := s.Checkpoints(k.ctx(), run.ID)
	if diff := cmp.Diff(step.Past.Checkpoints, checkpoints); err != nil || diff != "" {
		k.t.Errorf("checkpoints: %v\n%s", err, diff)
	}
	approvals, err := s.Approvals(k.ctx(), store.ApprovalFilter{RunID: run.ID})
	if diff := cmp.Diff(step.Past.Approvals, approvals, sameText); err != nil || diff != "" {
		k.t.Errorf("approvals: %v, differ in %d bytes", err, len(diff))
	}
	if es, err := s.Events(k.ctx(), store.EventFilter{RunID: run.ID}); err != nil || len(es) != 2 || es[1].Type != core.EventWorkflowFailed {
		k.t.Errorf("events: %v, %v", es, err)
	}
	k.copyEnded(s, step)
}

// copyEnded fails unless a copy is left alone.
func (k *kit) copyEnded(s store.Store, step store.Step) {
	k.t.Helper()
	r, err := s.Register(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	id := step.Run.ID
	if list, err := s.Orphans(k.ctx(), r.ID(), 0); err != nil || len(list) > 0 {
		k.t.Errorf("orphans: %v, %v", list, err)
	}
	_, err = s.Claim(k.ctx(), id, r.ID())
	k.wantCode(err, core.CodeNotWaiting)
	if err == nil || !strings.Contains(err.Error(), "is a copy") {
		k.t.Errorf("claim: %v", err)
	}
	_, err = s.RequestAbort(k.ctx(), id, core.AbortRequest{By: human, At: k.now()})
	k.wantCode(err, core.CodeNotWaiting)
	_, err = s.Decide(k.ctx(), core.Decision{ApprovalID: step.Past.Approvals[1].ID, Approved: true, By: human, At: k.now()}, store.Renewal{})
	k.wantCode(err, core.CodeNotWaiting)
	k.Clock.Advance(time.Hour)
	_, err = s.Renew(k.ctx(), step.Past.Approvals[1].ID, k.id(), k.now(), nil, human)
	k.wantCode(err, core.CodeNotWaiting)
	if err := s.Remove(k.ctx(), id); err != nil {
		k.t.Error(err)
	}
}

// testPastRefused: what is no copy of an ended run, or has what is another's, is refused
// as a whole.
func testPastRefused(k *kit) {
	_, taken := k.waiting()
	before := k.dump()
	for name, c := range map[string]struct {
		change func(*store.Step)
		want   core.Code
	}{
		"Open":          {func(s *store.Step) { s.Past.Approvals[0].State = core.ApprovalOpen }, core.CodeInternal},
		"Running":       {func(s *store.Step) { s.Run.State = core.RunRunning }, core.CodeInternal},
		"NotImported":   {func(s *store.Step) { s.Run.Imported = nil }, core.CodeInternal},
		"NotNew":        {func(s *store.Step) { s.Create = false }, core.CodeInternal},
		"ApprovalTaken": {func(s *store.Step) { s.Past.Approvals[1].ID = taken.ID }, core.CodeInternal},
		"RunTaken":      {func(s *store.Step) { s.Run.ID = taken.RunID }, core.CodeDuplicate},
		"BadID":         {func(s *store.Step) { s.Past.Approvals[1].ID = "../x" }, core.CodeInvalidArguments},
	} {
		step := k.copied()
		c.change(&step)
		k.wantCode(k.Store.Commit(k.ctx(), step), c.want)
		if k.t.Failed() {
			k.t.Fatalf("in %s", name)
		}
	}
	k.same(before, "after refused copies")
}
