package temporal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// files counts the files below a folder whose path has a text.
func files(t *testing.T, dir, with string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, with) {
			n++
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return n
}

// A run that was removed is gone with its workflow, its approvals and its blobs, for all processes;
// another one with the same large value keeps it, and the rows of the audit log stay.
func TestRemove(t *testing.T) {
	t.Parallel()
	opts := options(t)
	dir := t.TempDir()
	opts.Blobs = temporal.Folder(dir)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	big := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	var runs []core.Run
	var asks []core.Approval
	for range 2 {
		step := begun(newRun(time.Now(), func(r *core.Run) { r.State = core.RunWaiting }))
		ask := core.Approval{ID: enginetest.NewID(), RunID: step.Run.ID, Type: core.ApproveTool, State: core.ApprovalOpen, Workspace: "/w", CreatedAt: time.Now().UTC(), Digest: "d"}
		step.Open = []core.Approval{ask}
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		step.Run.State, step.Run.Result = core.RunFailed, big
		if err := s.Commit(t.Context(), store.Step{Run: step.Run}); err != nil {
			t.Fatal(err)
		}
		runs, asks = append(runs, step.Run), append(asks, ask)
	}
	gone, kept := runs[0], runs[1]
	again := gone
	again.Result = nil
	awaitRuns(t, other, store.RunFilter{}, 2)
	if n := files(t, dir, string(gone.ID)); n != 1 {
		t.Fatalf("%d blobs", n)
	}
	rows, err := s.Audit(t.Context(), store.AuditFilter{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if err := s.Remove(t.Context(), gone.ID, gone.ID); err != nil {
		t.Fatal(err)
	}
	for _, st := range []*temporal.Store{s, other} {
		if _, err := st.Run(t.Context(), gone.ID); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("the run: %v", err)
		}
		if _, err := st.Claim(t.Context(), gone.ID, "r2"); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("a claim: %v", err)
		}
		if err := st.Commit(t.Context(), store.Step{Run: again}); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("a commit: %v", err)
		}
		if as, err := st.Approvals(t.Context(), store.ApprovalFilter{ID: asks[0].ID}); err != nil || len(as) != 0 {
			t.Errorf("its approval: %v %v", as, err)
		}
		if list, err := st.Runs(t.Context(), store.RunFilter{}); err != nil || len(list) != 1 || list[0].ID != kept.ID {
			t.Errorf("listed: %v %v", list, err)
		}
		if run, err := st.Run(t.Context(), kept.ID); err != nil || string(run.Result) != string(big) {
			t.Errorf("the other one: %v, %d bytes", err, len(run.Result))
		}
	}
	if n := files(t, dir, string(gone.ID)); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if after, err := s.Audit(t.Context(), store.AuditFilter{}); err != nil || len(after) != len(rows) {
		t.Errorf("%d rows, %v", len(after), err)
	}
	if err := s.Remove(t.Context(), gone.ID); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("once more: %v", err)
	}
}

// Nobody can take a run up again once it is being removed, and one whose process dies right after
// it has asked for the removal is removed all the same.
func TestRemove_ByItself(t *testing.T) {
	t.Parallel()
	opts := options(t)
	dir := t.TempDir()
	opts.Blobs = temporal.Folder(dir)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	step := begun(newRun(time.Now(), func(r *core.Run) {
		r.State, r.Result = core.RunFailed, []byte(`"`+strings.Repeat("x", 100<<10)+`"`)
	}))
	if err := s.Commit(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveFlowRuns(t.Context(), flowRun(core.FlowKey{Flow: "ask"}, step.Run.ID, 1)); err != nil {
		t.Fatal(err)
	}
	c := temporal.Client(t, opts)
	h, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: opts.Name + "/run/" + string(step.Run.ID), UpdateName: "remove", WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{map[string]any{"at": time.Now()}},
	})
	if err == nil {
		err = h.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), step.Run.ID, "r2"); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("a claim: %v", err)
	}
	if err := c.GetWorkflow(t.Context(), opts.Name+"/run/"+string(step.Run.ID), "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir, "") - files(t, dir, "pml-shared"); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	wantFlowRuns(t, s, store.FlowRunFilter{})
	if _, err := s.Run(t.Context(), step.Run.ID); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("%v", err)
	}
}

// A run whose workflow somebody has ended by hand is not there, and lists go on without it.
func TestRun_Terminated(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	gone, kept := newRun(time.Now()), newRun(time.Now())
	for _, run := range []core.Run{gone, kept} {
		if err := s.Commit(t.Context(), begun(run)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.Dial(client.Options{HostPort: opts.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TerminateWorkflow(t.Context(), opts.Name+"/run/"+string(gone.ID), "", "by hand"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), gone.ID); core.CodeOf(err) != core.CodeNotFound || !strings.Contains(err.Error(), "ended its workflow") {
		t.Errorf("%v", err)
	}
	if list, err := s.Runs(t.Context(), store.RunFilter{}); err != nil || len(list) != 1 || list[0].ID != kept.ID {
		t.Errorf("%v %v", list, err)
	}
	if err := s.Commit(t.Context(), store.Step{Run: gone}); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("a commit: %v", err)
	}
}
