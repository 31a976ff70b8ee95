package temporal_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/storetest"
	"github.com/casys-ai/pml/store/temporal"
)

// TestStore runs what the suite of all stores has for the parts that are there.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Helper()
		opts := options(t)
		clock := storetest.NewClock()
		opts.Clock = clock
		again := func(t *testing.T) store.Store {
			t.Helper()
			s := open(t, opts)
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		return storetest.Harness{Store: again(t), Clock: clock, Reopen: again, EventsByRun: true}
	},
		"Commit_Checkpoints", "Commit_Used", "Commit_Undecided", "Commit_Relies", "Commit_ReliesTogether",
		"Commit_KeepsWhatOthersWrite", "Commit_BeginsNothingAborted", "Commit_IdempotencyKey", "Commit_LargeValues",
		"Commit_EndSupersedes", "Commit_Refused", "Commit_FailsAlone", "Owner", "Commit_Past", "Commit_PastRefused", "Remove", "Remove_RefusesAll", "FlowRuns", "FlowRuns_Kept", "FlowVariables",
		"Decide_Interrupted", "Renew_Run", "Watch",
		"Runs_Pages", "Runs_Filter", "Runs_ByState", "Origin", "Find", "Approvals_Order", "Approvals_Decidable",
		"Approvals_Into", "Approvals_Agent", "Decide", "DecideEdited", "Decide_Shape", "Used_Within", "Decide_Errors", "Decide_Again", "Decide_OneOfMany",
		"Decide_Abort", "Guard", "Guard_Human", "Guard_Pause", "Guard_OneOfMany", "Halt", "Halt_Person", "Extend", "Extend_Run", "Extend_ExpiredRun",
		"Renew", "Renew_Decide", "Renew_DecideOneOfMany", "RequestAbort", "Replan", "Replan_Layers", "Replan_BeforeEnd",
		"Claim", "Claim_Fences", "Runners", "Audit_Chain", "Audit_Filter", "Record", "Notices", "Owner_Renewed", "Unknown", "Close")
}

// TestAudit_Pages: rows that were taken out of the history of the shared workflow are read with the others, in
// one chain.
func TestAudit_Pages(t *testing.T) {
	t.Parallel()
	s := open(t, options(t))
	t.Cleanup(func() { _ = s.Close() })
	const rows = 450
	for i := 0; i < rows; i += 50 {
		batch := make([]core.AuditRow, 50)
		for j := range batch {
			batch[j] = core.AuditRow{Outcome: core.ApprovalApproved, By: core.Actor{Who: "ann", Via: core.ViaCLI}, Reason: strconv.Itoa(i + j)}
		}
		if err := s.Record(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Audit(t.Context(), store.AuditFilter{})
	if err != nil || len(all) != rows {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	for i, row := range all {
		if row.Seq != int64(i+1) || row.Reason != strconv.Itoa(i) {
			t.Fatalf("row %d: %+v", i, row)
		}
	}
	if bad, why := approval.Verify(all); bad != 0 {
		t.Errorf("row %d: %s", bad, why)
	}
	few, err := s.Audit(t.Context(), store.AuditFilter{After: 195, Limit: 10})
	if err != nil || len(few) != 10 || few[0].Seq != 196 || few[9].Seq != 205 {
		t.Errorf("over the end of a page: %v %+v", err, few)
	}
	few, err = s.Audit(t.Context(), store.AuditFilter{Before: 210, Newest: true, Limit: 20})
	if err != nil || len(few) != 20 || few[0].Seq != 209 || few[19].Seq != 190 {
		t.Errorf("newest first: %v %+v", err, few)
	}
}

// TestShared_Ended: where somebody has ended the shared workflow nobody begins an empty one in its place, and
// the PIN is needed all the same.
func TestShared_Ended(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	if err := s.ChangeGuard(t.Context(), func(g *core.Guard) error { g.Pin = "hash"; return nil }); err != nil {
		t.Fatal(err)
	}
	c, err := client.DialContext(t.Context(), client.Options{HostPort: opts.Address, Namespace: opts.Namespace, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TerminateWorkflow(t.Context(), opts.Name+"/pml-shared", "", "a test"); err != nil {
		t.Fatal(err)
	}
	if again, err := temporal.Open(t.Context(), opts); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("opened: %v %v", again, err)
	}
	if g, err := s.Guard(t.Context()); err != nil || g.Pin != "hash" {
		t.Errorf("%v %+v", err, g)
	}
	if err := s.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved}); err == nil {
		t.Error("a row was kept by nobody")
	}
}

// TestExpire_ByItself: what expires is recorded without anybody asking: first an approval, then
// the run that waits for it.
func TestExpire_ByItself(t *testing.T) {
	t.Parallel()
	s := open(t, options(t))
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now().UTC()
	first, second := now.Add(time.Second), now.Add(2*time.Second)
	run := core.Run{
		ID: enginetest.NewID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindCode, State: core.RunWaiting, CreatedAt: now,
		UpdatedAt: now, Runner: "r1", Epoch: 1, DAGVersion: 1, ExpiresAt: &second, RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}
	asked := core.Approval{ID: enginetest.NewID(), RunID: run.ID, Type: core.ApproveTool, State: core.ApprovalOpen, CreatedAt: now, ExpiresAt: &first, Digest: "sha256:aa"}
	err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1, Source: "return 1"}, Open: []core.Approval{asked}})
	if err != nil {
		t.Fatal(err)
	}
	want := []core.EventType{core.EventApprovalResolved, core.EventWorkflowExpired}
	var got []core.EventType
	for ctx := t.Context(); len(got) < len(want); {
		if time.Since(now) > 30*time.Second {
			t.Fatalf("after 30 s there is %v", got)
		}
		events, err := s.Events(ctx, store.EventFilter{RunID: run.ID})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, e := range events {
			got = append(got, e.Type)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events: %v", got)
	}
	if rows, err := s.Audit(t.Context(), store.AuditFilter{}); err != nil || len(rows) != 1 || rows[0].Outcome != core.ApprovalExpired {
		t.Errorf("audit: %v %+v", err, rows)
	}
}

// TestCommit_NoJSON: what is no JSON is refused as that, and not for an outage of the service.
func TestCommit_NoJSON(t *testing.T) {
	t.Parallel()
	s := open(t, options(t))
	t.Cleanup(func() { _ = s.Close() })
	run := newRun(time.Now())
	if err := s.Commit(t.Context(), begun(run)); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskLog, Data: []byte("{")}}})
	if core.CodeOf(err) != core.CodeInvalidArguments {
		t.Errorf("%v", err)
	}
}
