package temporal_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// copied is the copy of a failed run with more than Temporal takes at once: each of its records fits into a
// history, and all together are 6 MB.
func copied() store.Step {
	now := time.Now().UTC()
	step := begun(newRun(now, func(r *core.Run) {
		r.State, r.EndedAt, r.Runner, r.Epoch, r.Owner = core.RunFailed, &now, "", 0, "ann"
		r.Imported = &core.Imported{At: now, By: core.Actor{Who: "ann", Via: core.ViaCLI}, State: core.RunFailed, Workspace: "/elsewhere", Digest: "sha256:aa"}
	}))
	for i := range 100 {
		step.Records = append(step.Records, core.Record{
			Seq: int64(i + 1), Kind: core.RecordSettled, CallID: "c" + strconv.Itoa(i), Tool: "fs:read", At: now, Result: json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`),
		})
		step.Events = append(step.Events, core.Event{Type: core.EventTaskLog, At: now, Message: strconv.Itoa(i)})
	}
	step.Past = &store.Past{}
	for i := range 40 {
		step.Past.Approvals = append(step.Past.Approvals, core.Approval{
			ID: enginetest.NewID(), RunID: step.Run.ID, Type: core.ApproveTool, State: core.ApprovalSuperseded, CreatedAt: now,
			Digest: "d", Context: json.RawMessage(`"` + strings.Repeat("c", 60<<10) + strconv.Itoa(i) + `"`),
		})
		step.Past.Checkpoints = append(step.Past.Checkpoints, core.Checkpoint{ID: enginetest.NewID(), RunID: step.Run.ID, Layer: i, JournalSeq: int64(i), DAGVersion: 1, CreatedAt: now})
	}
	return step
}

// A copy that a process was killed over before it began is nowhere, can be made again, and then another process
// reads all of it.
func TestPast_Killed(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	step := copied()
	id := step.Run.ID
	if err := temporal.PutPast(t.Context(), s, step); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Run(t.Context(), id); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("before it began: %v", err)
	}
	if err := other.Commit(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), step); core.CodeOf(err) != core.CodeDuplicate {
		t.Errorf("once more: %v", err)
	}
	run, err := s.Run(t.Context(), id)
	if err != nil || run.State != core.RunFailed || run.Imported == nil || run.JournalSeq != 100 {
		t.Errorf("%+v %v", run, err)
	}
	records, err := s.Journal(t.Context(), id, 90)
	if err != nil || len(records) != 10 || records[9].Seq != 100 || len(records[9].Result) != 60<<10+2 {
		t.Errorf("%d records, %v", len(records), err)
	}
	events, err := s.Events(t.Context(), store.EventFilter{RunID: id})
	if err != nil || len(events) != 100 || events[99].Message != "99" || events[99].Seq != events[0].Seq+99 || events[99].Owner != "ann" {
		t.Errorf("%d events, %v", len(events), err)
	}
	approvals, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: id, Owner: "ann"})
	if err != nil || len(approvals) != 40 || len(approvals[0].Context) < 60<<10 {
		t.Errorf("%d approvals, %v", len(approvals), err)
	}
	marks, err := s.Checkpoints(t.Context(), id)
	if err != nil || len(marks) != 5 || marks[4].Layer != 39 {
		t.Errorf("%v %v", marks, err)
	}
	if list := awaitRuns(t, s, store.RunFilter{Owner: "ann", States: []core.RunState{core.RunFailed}}, 1); list[0].ID != id {
		t.Errorf("%v", list)
	}
}
