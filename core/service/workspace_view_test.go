package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// each is everything that can be asked about a run or an approval.
func (c *client) each(run, approval core.ID) map[string]func() error {
	ctx := c.ctx()
	task := []core.TaskSpec{{ID: "x", Tool: "workspace:list_directory"}}
	return map[string]func() error{
		"Workflow":    func() error { _, err := c.Workflow(ctx, run); return err },
		"Program":     func() error { _, err := c.Program(ctx, run); return err },
		"Checkpoints": func() error { _, err := c.Checkpoints(ctx, run); return err },
		"Checkpoint":  func() error { _, err := c.Checkpoint(ctx, run, string(approval)); return err },
		"Records":     func() error { _, err := c.Records(ctx, run, 0); return err },
		"Events":      func() error { return c.Events(ctx, run, api.Since{}, false, func(core.Event) error { return nil }) },
		"Continue":    func() error { _, err := c.Continue(ctx, api.ContinueRequest{ID: run, By: me}); return err },
		"Decide":      func() error { _, err := c.decide(run, api.Decision{Approve: true}); return err },
		"Abort":       func() error { _, err := c.Abort(ctx, run, me, ""); return err },
		"Retry":       func() error { _, err := c.Retry(ctx, run, me, 0); return err },
		"Replan":      func() error { _, err := c.Replan(ctx, run, task, me, ""); return err },
		"Remove":      func() error { return c.RemoveWorkflows(ctx, run) },
		"Trace":       func() error { return c.Trace(ctx, run, api.Trace{State: core.RunComplete}) },
		"TraceOf":     func() error { _, err := c.TraceOf(ctx, run); return err },
		"Resolve":     func() error { _, _, err := c.Resolve(ctx, string(run)); return err },
		"Page":        func() error { _, err := c.Workflows(ctx, nil, 1, string(run)); return err },
		"Approval":    func() error { _, err := c.Approval(ctx, approval); return err },
		"Extend":      func() error { _, err := c.Extend(ctx, approval, time.Minute); return err },
		"Renew":       func() error { _, err := c.Renew(ctx, approval, me); return err },
		"ResolveAsk":  func() error { _, _, err := c.Resolve(ctx, string(approval)); return err },
	}
}

// Scenarios 1 and 25: what belongs to another owner, or is of another workspace
// than the caller is confined to, is as if it did not exist.
func TestIn_SeesNothingOfOthers(t *testing.T) {
	t.Parallel()
	for name, scopes := range map[string][2]api.Scope{
		"Owner":    {{Owner: "alice"}, {Owner: "bob"}},
		"Confined": {{Confined: true}, {Confined: true, Workspace: "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			other := filepath.Join(filepath.Dir(m.ws), "other")
			if err := os.MkdirAll(other, 0o700); err != nil {
				t.Fatal(err)
			}
			if scopes[1].Workspace != "" {
				scopes[1].Workspace = other
			}
			p := m.server()
			mine, theirs := p.in(scopes[0]), p.in(scopes[1])
			r := mine.execute(writes, api.StatusApprovalRequired)
			unknown := map[string]string{}
			const noID = core.ID("00000000-0000-4000-8000-000000000000")
			for what, f := range theirs.each(noID, noID) {
				if what != "Page" {
					unknown[what] = strings.NewReplacer(string(noID), "ID", noID.Short(), "ID").Replace(code(t, f(), core.CodeNotFound).Message)
				}
			}
			for what, f := range theirs.each(r.WorkflowID, r.CheckpointID) {
				e := code(t, f(), core.CodeNotFound)
				got := strings.NewReplacer(string(r.WorkflowID), "ID", string(r.CheckpointID), "ID", r.WorkflowID.Short(), "ID", r.CheckpointID.Short(), "ID").Replace(e.Message)
				if what != "Page" && got != unknown[what] {
					t.Errorf("%s: %q, of an unknown one %q", what, got, unknown[what])
				}
			}
			for i, in := range []string{m.ws, ""} { // a flow of the workspace, and one of the home
				err := p.store.SaveFlowRuns(p.ctx(), core.FlowRun{ID: core.ID("flow" + in), Flow: "f", Workspace: in, Owner: scopes[0].Owner, RunID: r.WorkflowID, StartedAt: time.Unix(int64(i), 0)})
				if err != nil {
					t.Fatal(err)
				}
			}
			theirs.seesAll(t, 0)
			mine.seesAll(t, 1)
			p.seesAll(t, 1)
			if got, err := mine.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil || got.Status != api.StatusComplete {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
}

// seesAll checks how many runs are in all lists.
func (c *client) seesAll(t *testing.T, want int) {
	t.Helper()
	runs, err := c.Workflows(c.ctx(), nil, 10, "")
	if err != nil || len(runs.Items) != want {
		t.Errorf("%v, %d runs, want %d", err, len(runs.Items), want)
	}
	open, err := c.Approvals(c.ctx(), true)
	if err != nil || len(open) != want {
		t.Errorf("%v, %d approvals, want %d", err, len(open), want)
	}
	flows, err := c.FlowRuns(c.ctx(), store.FlowRunFilter{Limit: 2})
	if err != nil || len(flows) != 2*want {
		t.Errorf("%v, %d flow runs, want %d", err, len(flows), 2*want)
	}
	snap, err := c.Snapshot(c.ctx())
	if err != nil || len(snap.Workflows) != want || len(snap.Approvals) != want || snap.Seq == 0 {
		t.Errorf("%v, snapshot %+v, want %d", err, snap, want)
	}
	seen, last := map[core.ID]bool{}, int64(0)
	err = c.Events(c.ctx(), "", api.Since{}, false, func(e core.Event) error { seen[e.RunID], last = true, e.Seq; return nil })
	if err != nil || len(seen) != want {
		t.Errorf("%v, events of %d runs, want %d", err, len(seen), want)
	}
	if want > 0 && snap.Seq < last {
		t.Errorf("the snapshot is of %d, before %d", snap.Seq, last)
	}
}

func TestIn_IdempotencyKeys(t *testing.T) {
	t.Parallel()
	p := newMachine(t).server()
	run := func(owner, source string) (core.ID, error) {
		c := p.in(api.Scope{Owner: owner})
		r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: source, IdempotencyKey: "k", By: me, Wait: -1})
		return r.WorkflowID, err
	}
	first, err := run("alice", "return 1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := run("alice", "return 1"); err != nil || again != first {
		t.Errorf("%v %s, want %s", err, again, first)
	}
	if other, err := run("bob", "return 2"); err != nil || other == first {
		t.Errorf("%v %s", err, other)
	}
	_, err = run("alice", "return 3")
	if e := code(t, err, core.CodeDigestMismatch); strings.Contains(e.Message, "alice") {
		t.Error(e.Message)
	}
	w, err := p.in(api.Scope{Owner: "alice"}).Workflow(p.ctx(), first)
	if err != nil || w.IdempotencyKey != "k" || w.Owner != "alice" {
		t.Errorf("%v %q %q", err, w.IdempotencyKey, w.Owner)
	}
}

func TestIn_Workspace(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := m.server()
	for _, path := range []string{"relative", m.ws + "/missing", m.ws + "/a.txt", m.ws + "\x00", "./"} {
		_, err := p.In(api.Scope{Workspace: path})
		code(t, err, core.CodeInvalidArguments)
	}
	root := filepath.Join(filepath.Dir(m.ws), "second")
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".pml.json"), []byte(`{"limits":{"calls":1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(m.ws), "link")
	if err := os.Symlink(deep, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	v := p.in(api.Scope{Workspace: link, By: core.Actor{Who: "ann", Via: core.ViaTUI}})
	v.trust()
	// The limits are those of the run's workspace.
	const twice = `await mcp.workspace.list_directory({path: "."}); await mcp.workspace.list_directory({path: "."}); return 2`
	r, err := v.Execute(v.ctx(), api.ExecuteRequest{Code: twice, Wait: -1})
	if err != nil || r.ErrorCode != core.CodeCallLimit {
		t.Errorf("%v %+v", err, r)
	}
	w, err := p.Workflow(p.ctx(), r.WorkflowID)
	if err != nil || w.Workspace != root || w.RequestedBy.Who != "ann" || w.Side != core.SideServer {
		t.Errorf("%v %+v", err, w.Run)
	}
	p.execute(twice, api.StatusSuccess)
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	p.execute(`return 1`, api.StatusSuccess)
}
