package temporal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// TestEncrypted_Forged: who may write in the namespace and has no key changes no run and adds nothing to the audit log, with what is
// in clear and with what pml has encrypted for another workflow; whoever asked gets an error, and the run goes on.
func TestEncrypted_Forged(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Keys = keys("1")
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	run, other := newRun(time.Now()), newRun(time.Now())
	for _, r := range []core.Run{run, other} {
		if err := s.Commit(t.Context(), begun(r)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.RequestAbort(t.Context(), other.ID, core.AbortRequest{By: core.Actor{Who: "ann", Via: core.ViaCLI}, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	c := raw(t, opts)
	workflow := func(r core.Run) string { return opts.Name + "/run/" + string(r.ID) }
	captured := capture(t, c, workflow(other), "abort")
	plain := &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"request":{"reason":"x"},"at":"2026-11-29T12:00:00Z"}`)}}}
	cut := proto.Clone(captured).(*commonpb.Payloads)
	short := cut.GetPayloads()[0]
	short.Data = short.GetData()[:len(short.GetData())-1]
	for name, args := range map[string]*commonpb.Payloads{"in clear": plain, "of another run": captured, "damaged": cut} {
		if refused := forge(t, c, opts.Namespace, workflow(run), "abort", args); !refused {
			t.Errorf("%s: it was taken", name)
		}
	}
	if refused := forge(t, c, opts.Namespace, workflow(other), "abort", captured); refused { // in its own run it is what it was
		t.Error("what was encrypted for a run is refused there")
	}
	if err := c.SignalWorkflow(t.Context(), opts.Name+"/pml-shared", "", "audit", []core.AuditRow{{Reason: "forged"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved, Reason: "true"}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Audit(t.Context(), store.AuditFilter{})
	says := func(reason string) bool {
		return slices.ContainsFunc(rows, func(r core.AuditRow) bool { return r.Reason == reason })
	}
	if err != nil || says("forged") || !says("true") {
		t.Errorf("%+v %v", rows, err)
	}
	forged := newRun(time.Now())
	begin := map[string]any{"step": map[string]any{"run": forged, "at": time.Now()}}
	h, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflow(forged), TaskQueue: opts.Name}, "pml-run-1", begin)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Get(t.Context(), nil); err == nil {
		t.Error("a run was begun")
	}
	if _, err := s.Run(t.Context(), forged.ID); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("a run that was begun: %v", err)
	}
	got, err := s.Run(t.Context(), run.ID)
	if err != nil || got.Abort != nil {
		t.Errorf("%+v %v", got.Abort, err)
	}
	if err := s.Commit(t.Context(), large(run, 1)); err != nil {
		t.Error(err)
	}
}

// TestEncrypted_LetGoAgain: what let go of a halt does not let go of the next one, sent by somebody who has copied it.
func TestEncrypted_LetGoAgain(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Keys = keys("1")
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	by := core.Actor{Who: "ann", Via: core.ViaCLI}
	halt := func() {
		t.Helper()
		if _, err := s.Halt(t.Context(), core.Halt{By: by, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	halt()
	if was, err := s.LetGo(t.Context(), core.Resumption{By: by, At: time.Now(), Presence: core.PresenceTerminal}); err != nil || was == nil {
		t.Fatalf("%v %v", was, err)
	}
	halt()
	c, id := raw(t, opts), opts.Name+"/pml-halt"
	forge(t, c, opts.Namespace, id, "let-go", capture(t, c, id, "let-go"))
	if h, err := s.Halted(t.Context()); err != nil || h == nil {
		t.Errorf("calls are let go: %v", err)
	}
	if was, err := s.LetGo(t.Context(), core.Resumption{By: by, At: time.Now(), Presence: core.PresenceTerminal}); err != nil || was == nil {
		t.Errorf("%v %v", was, err)
	}
}

// capture is what an update of a workflow was sent with, as its history has it.
func capture(t *testing.T, c client.Client, workflow, update string) *commonpb.Payloads {
	t.Helper()
	for _, e := range historyOf(t, c, workflow) {
		if in := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput(); in.GetName() == update {
			return in.GetArgs()
		}
	}
	t.Fatalf("no update %s in the history", update)
	return nil
}

// forge sends an update with some payloads, and reports whether that was refused.
func forge(t *testing.T, c client.Client, namespace, workflow, update string, args *commonpb.Payloads) (refused bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Hung)
	defer cancel()
	answer, err := c.WorkflowService().UpdateWorkflowExecution(ctx, &workflowservice.UpdateWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflow},
		WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
		Request:    &updatepb.Request{Meta: &updatepb.Meta{UpdateId: string(enginetest.NewID())}, Input: &updatepb.Input{Name: update, Args: args}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOutcome().GetFailure() != nil
}
