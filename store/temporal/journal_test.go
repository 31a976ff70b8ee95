package temporal_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// A run whose history has grown too long goes on in a new one: its journal and its events are
// read as before, and its runner commits on.
func TestJournal_OverHistories(t *testing.T) {
	t.Parallel()
	opts := options(t)
	dir := t.TempDir()
	opts.Blobs = temporal.Folder(dir)
	st := open(t, opts)
	defer st.Close()
	now := time.Now().UTC()
	run := core.Run{
		ID: enginetest.NewID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: now,
		UpdatedAt: now, Runner: "r1", Epoch: 1, DAGVersion: 1, RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}
	const steps, each = 60, 100 // a history is long from 4 MB on
	if err := st.Commit(t.Context(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		step := store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskLog, At: now, Message: strconv.Itoa(i)}}}
		for range each {
			run.JournalSeq++
			step.Records = append(step.Records, core.Record{
				Seq: run.JournalSeq, Kind: core.RecordSettled, CallID: fmt.Sprint("t", run.JournalSeq), Tool: "fs:read",
				Outcome: core.OutcomeSuccess, Result: []byte(`"` + strings.Repeat("x", 1000) + `"`), At: now,
			})
		}
		if err := st.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.Dial(client.Options{HostPort: opts.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Hung)
	defer cancel()
	for first := true; first; { // each answer takes its time
		d, err := c.DescribeWorkflowExecution(ctx, opts.Name+"/run/"+string(run.ID), "")
		if err != nil {
			t.Fatalf("waiting for the second history: %v", err)
		}
		info := d.GetWorkflowExecutionInfo()
		first = info.GetFirstRunId() == info.GetExecution().GetRunId()
	}
	run.JournalSeq++
	last := store.Step{Run: run, Records: []core.Record{{Seq: run.JournalSeq, Kind: core.RecordSettled, CallID: "last", Tool: "fs:read", Outcome: core.OutcomeSuccess, Result: []byte(`"` + strings.Repeat("x", 1000) + `"`), At: now}}}
	if err := st.Commit(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	const all = steps*each + 1
	for _, after := range []int64{0, 150, all - 1} {
		records, err := st.Journal(t.Context(), run.ID, after)
		if err != nil || int64(len(records)) != all-after {
			t.Fatalf("after %d: %d records, %v", after, len(records), err)
		}
		for i, r := range records {
			if r.Seq != after+int64(i)+1 || len(r.Result) != 1002 {
				t.Fatalf("after %d: the record %d has the number %d and %d bytes", after, i, r.Seq, len(r.Result))
			}
		}
	}
	first, err := st.Events(t.Context(), store.EventFilter{RunID: run.ID, Limit: 1})
	if err != nil || len(first) != 1 {
		t.Fatalf("%d events, %v", len(first), err)
	}
	events, err := st.Events(t.Context(), store.EventFilter{RunID: run.ID, After: first[0].Seq})
	if err != nil || len(events) != steps-1 || events[0].Message != "1" {
		t.Errorf("%d events, %v", len(events), err)
	}
	(&orphanage{t, st}).want("in its second history", "me", run) // r1 does not live
	run.State = core.RunComplete
	if err := st.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir, string(run.ID)); n == 0 {
		t.Error("no page is in the blobs")
	}
	if err := st.Remove(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir, string(run.ID)); n != 0 {
		t.Errorf("%d pages are left", n)
	}
	if testing.Short() { // the rest takes Temporal a minute
		return
	}
	awaitDeleted(ctx, t, c, opts.Name+"/run/"+string(run.ID))
}

// awaitDeleted waits until Temporal has none of the histories of a run any more, which takes it
// about half a minute.
func awaitDeleted(ctx context.Context, t *testing.T, c client.Client, id string) {
	t.Helper()
	for ; ; pause(100 * time.Millisecond) {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId='" + id + "'"})
		if err != nil {
			t.Fatalf("waiting for the deletion: %v", err)
		}
		if len(list.GetExecutions()) == 0 {
			return
		}
	}
}
