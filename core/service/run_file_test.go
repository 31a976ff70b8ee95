package service_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// export is a run as the bytes of a file.
func (c *client) export(id core.ID) ([]byte, api.ExportedRun) {
	c.t.Helper()
	f, err := c.ExportRun(c.ctx(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	raw, err := json.Marshal(f)
	if err != nil {
		c.t.Fatal(err)
	}
	_, r, err := api.ParseRunFile(raw)
	if err != nil {
		c.t.Fatal(err)
	}
	return raw, r
}

func (c *client) imports(raw []byte) api.ImportedRun {
	c.t.Helper()
	r, err := c.ImportRun(c.ctx(), raw)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// A run that ended is the same on another machine, but for where it lies; again it is
// there already.
func TestImportRun(t *testing.T) {
	t.Parallel()
	from, m := newMachine(t).client(), newMachine(t)
	id := from.execute(`console.log("hi"); const s = await mcp.workspace.stat({path: "a.txt"}); return ["x".repeat(100000), s.size]`, api.StatusSuccess).WorkflowID
	raw, was := from.export(id)
	if got := from.imports(raw); !got.Already || got.State != core.RunComplete {
		t.Errorf("where it was exported: %+v", got)
	}
	to := m.client()
	if got := to.imports(raw); got.Already || got.State != core.RunComplete || got.WorkflowID != id {
		t.Fatalf("%+v", got)
	}
	if got := to.imports(raw); !got.Already {
		t.Errorf("again: %+v", got)
	}
	_, now := to.export(id)
	if now.Run.Imported == nil || now.Run.Imported.State != core.RunComplete || now.Run.Workspace != m.ws || now.Run.Imported.Workspace != was.Run.Workspace {
		t.Errorf("%+v", now.Run)
	}
	if diff := cmp.Diff(was, now, cmpopts.IgnoreFields(core.Run{}, "Imported", "Workspace", "UpdatedAt"), cmpopts.IgnoreFields(core.Event{}, "Seq"), cmpopts.EquateErrors()); diff != "" {
		t.Error(diff)
	}
	rows, err := to.store.Audit(to.ctx(), store.AuditFilter{})
	if err != nil || len(rows) != 1 || rows[0].RunID != id || !strings.Contains(rows[0].Reason, "imported a copy") {
		t.Errorf("%v, %+v", err, rows)
	}
	w, err := to.Workflow(to.ctx(), id)
	if err != nil || len(w.Layers) == 0 || len(w.Result) < 100000 {
		t.Errorf("%v, %d layers, %d bytes", err, len(w.Layers), len(w.Result))
	}
}

// A run that waits for a person is over where it is imported: nothing takes it up, no
// decision of there counts, and it goes on where it was.
func TestImportRun_NotEnded(t *testing.T) {
	t.Parallel()
	from, m := newMachine(t).client(), newMachine(t)
	r := from.execute(`await mcp.workspace.write_file({path: "b.txt", content: "1"}); await mcp.workspace.write_file({path: "c.txt", content: "2"}); return "done"`, api.StatusApprovalRequired)
	if _, err := from.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil { // the first of two
		t.Fatal(err)
	}
	raw, _ := from.export(r.WorkflowID)
	to := m.client()
	got := to.imports(raw)
	if got.Was != core.RunWaiting || got.State != core.RunAborted {
		t.Fatalf("%+v", got)
	}
	list, err := to.store.Approvals(to.ctx(), store.ApprovalFilter{RunID: r.WorkflowID})
	states := map[core.ApprovalState]int{}
	for _, a := range list {
		states[a.State]++
		if !a.Used {
			t.Errorf("%s could be acted upon", a.ID)
		}
	}
	if diff := cmp.Diff(map[core.ApprovalState]int{core.ApprovalApproved: 1, core.ApprovalSuperseded: 1}, states); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	_, err = to.Retry(to.ctx(), r.WorkflowID, me, -1)
	if e := code(t, err, core.CodeNotWaiting); !strings.Contains(e.Message, "is a copy") {
		t.Error(e)
	}
	if _, err = to.decide(r.WorkflowID, api.Decision{Approve: true}); err == nil {
		t.Error("decided about a copy")
	}
	if res, err := to.Continue(to.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1}); err != nil || res.Status != api.StatusAborted {
		t.Errorf("%v, %+v", err, res)
	}
	if list, err := to.store.Orphans(to.ctx(), "x", 0); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", err, list)
	}
	if open, err := to.Approvals(to.ctx(), false); err != nil || len(open) > 0 {
		t.Errorf("%v, %v", err, open)
	}
	if res, err := from.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil || res.Status != api.StatusComplete {
		t.Errorf("where it was: %v, %+v", err, res)
	}
	// There it has another end now, here it is the copy still.
	_, err = from.ImportRun(from.ctx(), raw)
	if e := code(t, err, core.CodeDuplicate); e.RunID != r.WorkflowID {
		t.Error(e)
	}
	later, _ := from.export(r.WorkflowID)
	_, err = to.ImportRun(to.ctx(), later)
	code(t, err, core.CodeDuplicate)
}

// A failed run can be retried where it failed, and nowhere else; a copy of a run that
// ended long ago is not removed with the old ones at once.
func TestImportRun_Failed(t *testing.T) {
	t.Parallel()
	from, m := newMachine(t).client(), newMachine(t)
	r := from.execute(`await mcp.workspace.read_file({path: "gone.txt"})`, api.StatusError)
	raw, _ := from.export(r.WorkflowID)
	m.clock.forward(100 * 24 * time.Hour)
	to := m.client()
	if got := to.imports(raw); got.State != core.RunFailed {
		t.Fatalf("%+v", got)
	}
	_, err := to.Retry(to.ctx(), r.WorkflowID, me, -1)
	code(t, err, core.CodeNotWaiting)
	if n, err := to.Prune(to.ctx(), m.clock.Now().Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("%d removed, %v", n, err)
	}
}

// Neither values of the workspace's .env nor what only this store needs are in a file.
func TestExportRun_Secrets(t *testing.T) {
	t.Parallel()
	const key = "hunter2-hunter2"
	m := newMachine(t)
	m.write(".env", "MY_TOKEN="+key+"\n")
	m.write("a.txt", "the key is "+key)
	c := m.client()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{
		Code: `console.log("` + key + `"); const f = await mcp.workspace.read_file({path: "a.txt"}); await mcp.workspace.write_file({path: "` + key + `", content: "x"})`,
		By:   me, Wait: -1, Intent: "with " + key, IdempotencyKey: "once", RunOptions: core.RunOptions{Input: json.RawMessage(`{"k":"` + key + `"}`)},
	})
	if err != nil || r.Status != api.StatusApprovalRequired {
		t.Fatalf("%v, %+v", err, r)
	}
	raw, run := c.export(r.WorkflowID)
	if strings.Contains(string(raw), key) || !strings.Contains(string(raw), "«MY_TOKEN»") {
		t.Errorf("%s", raw)
	}
	if run.Run.Runner != "" || run.Run.IdempotencyKey != "" || len(run.Approvals) != 1 {
		t.Errorf("%+v", run.Run)
	}
}
