package temporal_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// TestEncrypted_MissingKey: a process that meets a key which it does not have ends its work.
func TestEncrypted_MissingKey(t *testing.T) {
	t.Parallel()
	lacks := options(t)
	lacks.Keys = keys("1")
	has := lacks
	has.Keys = keys("2", "1")
	endsWork(t, lacks, has, core.CodeStoreKey, "the key 2,")
}

// TestFormats_Newer: a process that meets what a newer pml has written ends its work, in clear and with a key, and is told when it opens
// what a newer one has begun. The newer one reads what the older one has written.
func TestFormats_Newer(t *testing.T) {
	t.Parallel()
	for name, ks := range map[string]temporal.Keys{"Clear": nil, "Encrypted": keys("1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := options(t)
			old.Keys = ks
			endsWork(t, old, temporal.WithFormat(old, 2), core.CodeStoreNewer, "format 2, this pml knows formats up to 1")
			begun := options(t)
			begun.Keys = ks
			_ = open(t, temporal.WithFormat(begun, 3)).Close()
			if _, err := temporal.Open(t.Context(), begun); core.CodeOf(err) != core.CodeStoreNewer || !strings.Contains(err.Error(), "update pml") {
				t.Errorf("%v", err)
			}
		})
	}
}

// endsWork wants that a process which meets what it cannot read, and another one can, serves nothing any more, says so whatever it is asked
// and is no runner. It fails no run, and is given no task again and again: the other one goes on.
func endsWork(t *testing.T, cannot, can temporal.Options, code core.Code, says string) {
	t.Helper()
	told := func(err error) {
		t.Helper()
		if core.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s about %s", err, code, says)
		}
	}
	old := open(t, cannot)
	t.Cleanup(func() { _ = old.Close() })
	runner, err := old.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run, before := newRun(time.Now()), newRun(time.Now())
	if err := old.Commit(t.Context(), begun(before)); err != nil {
		t.Fatal(err)
	}
	others := open(t, can)
	for _, step := range []store.Step{begun(run), large(run, 1), large(before, 1)} {
		if err := others.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	_ = others.Close()
	_, err = old.Run(t.Context(), run.ID)
	told(err)
	select {
	case <-runner.Lost():
	case <-time.After(enginetest.Hung):
		t.Fatal("it is a runner still")
	}
	_, err = old.Register(t.Context())
	told(err)
	told(old.Commit(t.Context(), store.Step{Run: run}))

	c, id := raw(t, can), can.Name+"/run/"+string(run.ID)
	d, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil || d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Fatalf("%v %v", d.GetWorkflowExecutionInfo().GetStatus(), err)
	}
	if attempt := d.GetPendingWorkflowTask().GetAttempt(); attempt > 5 {
		t.Errorf("the task was given %d times", attempt)
	}
	others = open(t, can)
	t.Cleanup(func() { _ = others.Close() })
	if err := others.Commit(t.Context(), large(run, 2)); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[core.ID]int{run.ID: 2, before.ID: 1} {
		if records, err := others.Journal(t.Context(), id, 0); err != nil || len(records) != want {
			t.Errorf("%d of %d records, %v", len(records), want, err)
		}
	}
	failed := slices.DeleteFunc(historyOf(t, c, id), func(e *historypb.HistoryEvent) bool {
		return e.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED
	})
	if len(failed) > 3 {
		t.Errorf("%d tasks have failed", len(failed))
	}
}
