package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// An event whose workspace cannot be looked up now is not shown with the keys of
// another one, then or later.
func TestEvents_KeysOfTheirWorkspace(t *testing.T) {
	t.Parallel()
	const key = "k3y-0f-th3-0th3r"
	m := newMachine(t)
	other := filepath.Join(filepath.Dir(m.ws), "other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{".env": "KEY=" + key + "\n", ".pml.json": `{"mcpServers":{"x":{"command":"x","env":{"KEY":"${KEY}"}}}}`} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := m.server()
	p.in(api.Scope{Workspace: other}).execute(`console.log("first"); console.log("it is `+key+`"); return 1`, api.StatusSuccess)
	read := func() (n int, err error) {
		err = p.Events(p.ctx(), "", api.Since{}, false, func(e core.Event) error {
			n++
			if raw, err := json.Marshal(e); err != nil || strings.Contains(string(raw), key) {
				t.Errorf("%s %v", raw, err)
			}
			return nil
		})
		return n, err
	}
	p.m.noRun.Store(1)
	n, err := read()
	if code(t, err, core.CodeStoreBusy); n != 0 {
		t.Errorf("%d events of a workspace that is not known", n)
	}
	if n, err := read(); err != nil || n < 4 {
		t.Errorf("%d events, %v", n, err)
	}
}

// The value of a declared key is shown nowhere, wherever it was put; what stays
// for good, the audit log, does not even hold it.
func TestKeys_ShownNowhere(t *testing.T) {
	t.Parallel()
	const key = "k3y-0f-th3-m1rr0r"
	m := newMachine(t)
	m.write(".env", "KEY="+key+"\n")
	c := m.client()
	keyed := mirror()
	keyed["env"] = map[string]any{"KEY": "${KEY}"}
	m.configure(c, nil, map[string]any{"keyed": keyed})
	start := func() api.Result {
		t.Helper()
		input, err := json.Marshal(map[string]string{"k": key})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Execute(c.ctx(), api.ExecuteRequest{
			Code: `await mcp.workspace.write_file({path: "b", content: input.k}); throw new Error(input.k)`, Intent: "with " + key,
			RunOptions: core.RunOptions{Input: input}, By: me, Wait: -1,
		})
		if err != nil || r.Status != api.StatusApprovalRequired {
			t.Fatalf("%v %+v", err, r)
		}
		return r
	}
	denied, aborted := start(), start()
	results := []any{denied, aborted}
	r, err := c.decide(denied.WorkflowID, api.Decision{Reason: "not with " + key})
	results = append(results, r)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = c.Abort(c.ctx(), aborted.WorkflowID, me, "no, "+key); err != nil || r.Status != api.StatusAborted {
		t.Fatalf("%v %+v", err, r)
	}
	results = append(results, r)
	clean := func(what string, values ...any) {
		t.Helper()
		raw, err := json.Marshal(values)
		if err != nil || strings.Contains(string(raw), key) || len(raw) < 20 {
			t.Errorf("%s: %v %s", what, err, raw)
		}
	}
	rows, err := c.store.Audit(c.ctx(), store.AuditFilter{})
	if err != nil || len(rows) == 0 {
		t.Fatalf("%v %+v", err, rows)
	}
	clean("the audit log itself", rows)
	look := func(c *client) {
		t.Helper()
		for _, id := range []core.ID{denied.WorkflowID, aborted.WorkflowID} {
			w, err := c.Workflow(c.ctx(), id)
			clean("workflow", w, err)
			if err := c.Events(c.ctx(), id, api.Since{}, false, func(e core.Event) error { clean("event", e); return nil }); err != nil {
				t.Error(err)
			}
		}
		page, err := c.Workflows(c.ctx(), nil, 0, "")
		clean("workflows", page, err)
		list, err := c.Approvals(c.ctx(), true)
		clean("approvals", list, err)
		ap, err := c.Approval(c.ctx(), denied.CheckpointID)
		clean("approval", ap, err)
		log, err := c.Audit(c.ctx(), api.AuditQuery{})
		clean("audit", log, err)
	}
	clean("results", results...)
	look(c)
	c.close()
	m.write(".pml.json", "{ broken")
	look(m.client())
}

// A reason that was written before its key was declared is not shown either.
func TestKeys_DeclaredLater(t *testing.T) {
	t.Parallel()
	const key = "k3y-0f-th3-m1rr0r"
	m := newMachine(t)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	if _, err := c.decide(r.WorkflowID, api.Decision{Reason: "not with " + key}); err != nil {
		t.Fatal(err)
	}
	c.close()
	m.write(".env", "KEY="+key+"\n")
	c = m.client()
	keyed := mirror()
	keyed["env"] = map[string]any{"KEY": "${KEY}"}
	m.configure(c, nil, map[string]any{"keyed": keyed})
	w, err := c.Workflow(c.ctx(), r.WorkflowID)
	rows, aerr := c.Audit(c.ctx(), api.AuditQuery{})
	raw, _ := json.Marshal([]any{w, rows})
	if err != nil || aerr != nil || strings.Contains(string(raw), key) || !strings.Contains(string(raw), "not with ") {
		t.Errorf("%v %v %s", err, aerr, raw)
	}
	_, err = c.decide(r.WorkflowID, api.Decision{Approve: true})
	if e := code(t, err, core.CodeAlreadyDecided); e.Decided == nil || strings.Contains(e.Decided.Reason, key) || !strings.Contains(e.Decided.Reason, "not with") {
		t.Errorf("%+v", e.Decided)
	}
	if report, err := c.VerifyAudit(c.ctx()); err != nil || !report.OK {
		t.Errorf("%v %+v", err, report)
	}
}
