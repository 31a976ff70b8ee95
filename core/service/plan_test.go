package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestExecute_Depth(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	deep := json.RawMessage(strings.Repeat("[", 9990) + strings.Repeat("]", 9990))
	for _, req := range []api.ExecuteRequest{{Code: `return 1`}, {Intent: "read a file"}} {
		req.By, req.Wait, req.Input = me, -1, deep
		_, err := c.Execute(c.ctx(), req)
		code(t, err, core.CodeInvalidArguments)
	}
	_, err := c.CallTool(c.ctx(), "workspace:read_file", json.RawMessage(`{"path":`+string(deep)+`}`), me, -1)
	code(t, err, core.CodeInvalidArguments)
}

// Calls that are not seen before they are made may meet any flow, and the plan says so.
func TestPlan_UnseenMeetFlows(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.MkdirAll(filepath.Join(m.ws, ".pml", "flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := m.client()
	for _, met := range []bool{false, true} {
		if met {
			m.write(".pml/flows/f.json", strings.Replace(addsN, `"enabled":true`, `"enabled":true,"match":{"tool":"other"}`, 1))
			c = m.client().trusting()
		}
		for source, unseen := range map[string]bool{
			`const m = mcp; const go = (x) => x.workspace.stat({path: "."}); return go(m);`: true,
			`return new Function("return 1")()`:                                             true,
			`return await mcp.workspace.stat({path: "."})`:                                  false,
		} {
			plan, err := c.Plan(c.ctx(), api.ExecuteRequest{By: me, Code: source})
			if err != nil || (len(plan.Unknown) > 0) != unseen || (len(plan.Gates) > 0) != (met && unseen) {
				t.Errorf("%s: %v %+v", source, err, plan)
			}
		}
	}
}

// A DAG that a run would refuse is refused by the plan of it, with the place of each fault.
func TestPlan_RefusesWhatARunDoes(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	_, err := c.Plan(c.ctx(), api.ExecuteRequest{By: me, Tasks: []core.TaskSpec{
		{ID: "a", Tool: "workspace:read_file", Arguments: json.RawMessage(`{"path":"${lst}"}`)},
		{ID: "b", Tool: "workspace:read_file"},
		{ID: "c", Tool: "workspace:read_fiel"},
	}})
	e := code(t, err, core.CodeDAGInvalid)
	if len(e.Faults) != 2 || e.Faults[0].Path != "/tasks/1/arguments" || e.Faults[1].Path != "/tasks/2/tool" || len(e.Warnings) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestPlan_SaysGatesAndRunsNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"permissions":{"deny":["workspace:delete_file"]}}`)
	c := m.client()
	plan, err := c.Plan(c.ctx(), api.ExecuteRequest{By: me, Code: `await mcp.workspace.read_file({path: "a.txt"}); await mcp.workspace.write_file({path: "b", content: "c"}); await mcp.workspace.delete_file({path: "a.txt"});`})
	if err != nil || len(plan.Calls) != 3 || len(plan.Layers) != 3 {
		t.Fatalf("%v %+v", err, plan)
	}
	if len(plan.Calls[0].Gates) != 0 || len(plan.Calls[1].Gates) != 1 || plan.Calls[1].Gates[0].Type != core.ApproveTool ||
		len(plan.Calls[2].Gates) != 1 || !strings.Contains(plan.Calls[2].Gates[0].Message, "permission_denied") {
		t.Errorf("%+v", plan.Calls)
	}
	page, err := c.Workflows(c.ctx(), nil, 0, "")
	if err != nil || len(page.Items) != 0 {
		t.Errorf("%v: %d runs", err, len(page.Items))
	}
	if _, err := os.Stat(filepath.Join(m.ws, "a.txt")); err != nil {
		t.Error(err)
	}
}

// The plan of a script that is sure to call a tool that does not exist is the error that a
// run of it is; where it may not get to the call, the plan says so at it.
func TestPlan_ScriptWithoutItsTool(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	req := api.ExecuteRequest{By: me, Wait: -1, Code: `return await mcp.workspace.read_fiel({path: "a.txt"})`}
	_, planned := c.Plan(c.ctx(), req)
	_, run := c.Execute(c.ctx(), req)
	p, r := code(t, planned, core.CodeNoSuchTool), code(t, run, core.CodeNoSuchTool)
	if p.Error() != r.Error() || p.Location == nil || *p.Location != *r.Location {
		t.Errorf("planned: %+v\nrun: %+v", p, r)
	}
	req.Code = `if (input) await mcp.workspace.read_fiel({path: "a.txt"})`
	plan, err := c.Plan(c.ctx(), req)
	if err != nil || len(plan.Calls) != 1 || len(plan.Calls[0].Gates) != 1 || !strings.Contains(plan.Calls[0].Gates[0].Message, "no_such_tool") {
		t.Errorf("%v %+v", err, plan)
	}
}
