package service_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// TestAgent_BelowScript: what a script of an agent asks that a script has started is asked of
// that script, and decided there; its end is the end of all of them.
func TestAgent_BelowScript(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	model := &scripted{scripts: []string{writes}}
	m.models = model
	c := m.client()
	req := api.ExecuteRequest{Code: `const r = await mcp.agent.delegate({goal: "copy a to b", allowed_tools: ["workspace:*"]}); return r.stop_reason;`, By: me, Wait: -1}
	r, err := c.Execute(c.ctx(), req)
	if err != nil || r.Status != api.StatusApprovalRequired || len(r.Pending) != 1 || r.Pending[0].Tool != "workspace:write_file" {
		t.Fatalf("%v %+v", err, r)
	}
	if path := strings.Join(r.Pending[0].Path, " > "); !strings.Contains(path, "iteration 1 > step 1") {
		t.Errorf("the way to the question is %s", path)
	}
	if sys := model.asked[0].System; !strings.Contains(sys, "read_file") || strings.Contains(sys, "delegate") {
		t.Errorf("the model is shown other tools than it may use: %s", sys)
	}
	if page, err := c.Workflows(c.ctx(), nil, 0, ""); err != nil || len(page.Items) != 1 || page.Items[0].State != core.RunWaiting {
		t.Errorf("%v %+v", err, page.Items)
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true, ExpectDigest: r.Digest})
	if err != nil || got.Status != api.StatusComplete || string(got.Result) != `"end_turn"` {
		t.Fatalf("%v %+v", err, got)
	}
	again, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "x", OutputSchema: json.RawMessage(`{"type": 5}`)}, By: me, Wait: -1})
	if e := code(t, err, core.CodeInvalidArguments); len(e.Faults) != 1 || e.Faults[0].Path != "/output_schema" {
		t.Errorf("%+v %+v", again, e.Faults)
	}
	r, err = c.Execute(c.ctx(), req)
	if err != nil || r.Status != api.StatusApprovalRequired {
		t.Fatalf("%v %+v", err, r)
	}
	if got, err := c.Abort(c.ctx(), r.WorkflowID, me, "enough"); err != nil || got.Status != api.StatusAborted {
		t.Fatalf("%v %+v", err, got)
	}
	if open, err := c.Approvals(c.ctx(), false); err != nil || len(open) != 0 {
		t.Errorf("%v: still asked: %+v", err, open)
	}
}

// slowAborts is a store that is slow: once the end of a run below has been asked for, nothing
// more is asked until the run above has ended.
type slowAborts struct {
	store.Store
}

func (s slowAborts) RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error) {
	run, err := s.Store.RequestAbort(ctx, id, req)
	if err != nil || req.Reason != "enough" || run.ParentID == "" {
		return run, err
	}
	for {
		above, err := s.Run(ctx, run.ParentID)
		if err != nil || above.State.Final() {
			return run, err
		}
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		default:
			runtime.Gosched()
		}
	}
}

// A script that is aborted while an agent works for it is aborted, and has not failed of the
// agent's end.
func TestAgent_AbortedAbove(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{scripts: []string{writes}}
	c := m.clientOn(func(s store.Store) store.Store { return slowAborts{s} })
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: `return await mcp.agent.delegate({goal: "copy a to b", allowed_tools: ["workspace:*"]});`, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusApprovalRequired {
		t.Fatalf("%v %+v", err, r)
	}
	got, err := c.Abort(c.ctx(), r.WorkflowID, me, "enough")
	if err != nil || got.Status != api.StatusAborted {
		t.Fatalf("%v %+v", err, got)
	}
	if open, err := c.Approvals(c.ctx(), false); err != nil || len(open) != 0 {
		t.Errorf("%v: still asked: %+v", err, open)
	}
}
