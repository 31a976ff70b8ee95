package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// TestAgent_RememberedForTheTree: a permission that a person remembers for the run counts for
// all scripts of the agent, those that wait for it as well, and for no other agent; the audit
// log says so of each.
func TestAgent_RememberedForTheTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	scripts := [][]string{
		{`const n = [1].length; return await mcp.a.ask({n});`, `const n = [1, 2].length; return await mcp.a.ask({n});`, `return await mcp.a.ask({n: 3});`},
		{`return await mcp.a.ask({n: 4});`, `const n = [1].length; await mcp.a.ask({n: n + 4}); return await mcp.a.ask({n: n + 5});`},
	}
	b.Ask = new(fakeModel).Answer(scripts)
	p := b.process()
	open := func(want int) []core.Approval {
		t.Helper()
		changes, err := p.st.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for {
			list, err := p.st.Approvals(t.Context(), store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == want {
				return list
			}
			select {
			case <-changes:
			case <-time.After(hung):
				t.Fatalf("%d questions, want %d", len(list), want)
			}
		}
	}
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	first := open(3)[0]
	_, err := p.st.Decide(t.Context(), core.Decision{
		ApprovalID: first.ID, Approved: true, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), Answer: &core.Answer{Remember: core.RememberRun},
	}, store.Renewal{})
	if err != nil {
		t.Fatal(err)
	}
	if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); !r.Success || r.Calls != 6 {
		t.Errorf("%+v", r)
	}
	all, err := p.st.Approvals(t.Context(), store.ApprovalFilter{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	approved := slices.DeleteFunc(all, func(a core.Approval) bool { return a.State != core.ApprovalApproved })
	if len(approved) != 1 {
		t.Errorf("asked about %d calls", len(approved))
	}
	rows, err := p.st.Audit(t.Context(), store.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var relied []core.ID
	for _, r := range rows {
		if r.ApprovalID == first.ID && strings.Contains(r.Reason, "for the run of the agent "+h.ID.Short()) && r.By.Who == "me" && r.Tool == "a:ask" && r.Remember == core.RememberRun {
			relied = append(relied, r.RunID)
		}
	}
	if slices.Sort(relied); len(slices.Compact(relied)) != 4 {
		t.Errorf("%d runs in the audit log have used the permission, want 4: %+v", len(relied), rows)
	}
	b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	open(3) // another agent: asked anew
}

// forging is a store that once tells of a permission that nobody has given.
type forging struct {
	store.Store
	told atomic.Bool
}

func (f *forging) Approvals(ctx context.Context, filter store.ApprovalFilter) ([]core.Approval, error) {
	list, err := f.Store.Approvals(ctx, filter)
	if filter.Workspace == "" || f.told.Swap(true) {
		return list, err
	}
	runs, err := f.Store.Runs(ctx, store.RunFilter{})
	for _, r := range runs {
		if r.Kind == core.KindAgent {
			by := &core.DecidedBy{Actor: core.Actor{Who: "me", Via: core.ViaCLI}}
			list = append(list, core.Approval{
				ID: newID(), RunID: r.ID, Agent: r.ID, Workspace: filter.Workspace, Type: core.ApproveTool, Tool: "a:ask",
				State: core.ApprovalApproved, DecidedBy: by, Answer: &core.Answer{Remember: core.RememberRun},
			})
		}
	}
	return list, err
}

// TestAgent_PermissionGone: a permission that the store does not know in the transaction that
// begins the call lets nothing on: a person is asked, and the audit log says nothing of it.
func TestAgent_PermissionGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Ask = new(fakeModel).Answer([][]string{{`const n = [1].length; return await mcp.a.ask({n});`}})
	b.wrap = func(s store.Store) store.Store { return &forging{Store: s} }
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return s.Idle })
	if got := b.Host.Called(); len(got) != 0 {
		t.Errorf("called %v", got)
	}
	rows, err := p.st.Audit(t.Context(), store.AuditFilter{})
	if err != nil || len(rows) != 0 {
		t.Errorf("%v %+v", err, rows)
	}
	list, err := p.st.Approvals(t.Context(), store.ApprovalFilter{Now: time.Now()})
	if err != nil || len(list) != 1 || list[0].State != core.ApprovalOpen {
		t.Errorf("%v %+v", err, list)
	}
}

// overtaken is a store in which something happens right after what has been permitted in a
// tree was read, once that is armed.
type overtaken struct {
	store.Store
	armed atomic.Bool
	after func()
}

func (o *overtaken) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	list, err := o.Store.Approvals(ctx, f)
	if f.Agent != "" && o.armed.Swap(false) {
		o.after()
	}
	return list, err
}

// TestAgent_RememberedMeanwhile: a permission for the tree that a person gives after a script
// has looked for one, and before the script's own question can be seen, answers that as well.
func TestAgent_RememberedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gate := make(chan struct{})
	b.Host.Tools["a:gate"] = tool{ReadOnly: true, Run: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-gate:
			return json.RawMessage(`2`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	b.Ask = new(fakeModel).Answer([][]string{{`const n = [1].length; return await mcp.a.ask({n});`, `return await mcp.a.ask({n: await mcp.a.gate({})});`}})
	var st *overtaken
	b.wrap = func(s store.Store) store.Store {
		st = &overtaken{Store: s}
		return st
	}
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	first, second := b.handleOf(p, core.ChildID(h.ID, "m1.t1")), b.handleOf(p, core.ChildID(h.ID, "m1.t2"))
	b.Wait(first, engine.Paused)
	st.after = func() {
		before, _ := second.Status()
		b.decide(p, first, core.ApproveTool, true, &core.Answer{Remember: core.RememberRun})
		b.Wait(second, func(s engine.Status) bool { return s.Seen > before.Seen })
	}
	st.armed.Store(true)
	close(gate)
	if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); !r.Success || r.Calls != 3 {
		t.Errorf("%+v", r)
	}
}
