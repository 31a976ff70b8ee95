package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// agentRun is an agent with two answers, of which the second waits for one of its runs.
func agentRun() *fake {
	task := func(id, tool string, layer int, state core.TaskState, args, out string) core.Layer {
		return core.Layer{Index: layer, Tasks: []core.Task{{ID: id, Tool: tool, Layer: layer, State: state, Arguments: json.RawMessage(args), Output: json.RawMessage(out), DurationMS: 1200}}}
	}
	w := core.Workflow{Run: core.Run{ID: runA, Kind: core.KindAgent, State: core.RunWaiting, Name: "tidy the notes", CreatedAt: at}, Layers: []core.Layer{
		task("m1", core.ModelTool, 0, core.TaskSuccess, `{}`, `{"text":"I look\u001b[2J first.","model":"m-1","usage":{"input":90,"output":10,"cache_read":10}}`),
		task("m1.t1", core.RunTool, 1, core.TaskSuccess, `{"workflow_id":"c0000001-0000-4000-8000-000000000001","intent":"list them"}`, `{"calls":2}`),
		task("m2", core.ModelTool, 2, core.TaskSuccess, `{}`, `{"model":"m-1"}`),
		task("m2.t1", core.RunTool, 3, core.TaskRunning, `{"workflow_id":"`+string(runB)+`","intent":"write one"}`, ``),
		task("m3", core.ModelTool, 4, core.TaskError, `{}`, ``),
	}}
	price := &core.AgentPrice{Input: 10, Output: 100}
	spent := core.SpentBy(core.AgentSpec{Model: "claude", Iterations: 5, Budget: core.AgentBudget{USD: 1, Calls: 9}, Price: price}, w)
	w.Agent = &spent
	child := core.Workflow{Run: core.Run{ID: runB, ParentID: runA, Kind: core.KindCode, State: core.RunWaiting, Name: "tidy the notes › write one", CreatedAt: at},
		Layers: []core.Layer{task("c1", "fs:write", 0, core.TaskWaiting, `{"path":"n.md"}`, ``)}}
	plain := core.Run{ID: "aaaa0000-0000-4000-8000-000000000001", Kind: core.KindCode, State: core.RunComplete, Name: "other", CreatedAt: at}
	first := core.Workflow{Run: core.Run{ID: "c0000001-0000-4000-8000-000000000001", ParentID: runA, Kind: core.KindCode, State: core.RunComplete, Name: "tidy the notes › list them", CreatedAt: at}}
	return &fake{workflow: w, runs: []core.Run{w.Run, plain}, below: map[core.ID]core.Workflow{runB: child, first.ID: first}}
}

// TestAgent_Tree: an agent is shown step by step: what each answer of its model used and
// led to, the calls of its runs, and what it has used of its bounds.
func TestAgent_Tree(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: agentRun()}).run("wf", "show", "7f3a91").want(t, 0)
	s.has(t, "out",
		"used       2 of 5 iterations, 2 of 9 calls, 110 tokens, $0.0019 of $1.00",
		"  + 1  m-1  100+10 tokens  $0.0019  1.2s  “I look\\x1b[2J first.”\n    + list them  c0000001  2 calls  1.2s\n",
		"  + 2  m-1  tokens not reported  cost unknown  1.2s\n    ! write one  7f3a80aa  waiting\n      ! write n.md",
		"  x 3  error")
	if strings.Contains(s.out, "\x1b[") || strings.Contains(s.out, "layer 1") {
		t.Errorf("the tree has what it should not:\n%q", s.out)
	}
}

// TestAgent_Watch: on a terminal the same is drawn while it goes on, without the calls of its
// runs; one that asks a person waits.
func TestAgent_Watch(t *testing.T) {
	t.Parallel()
	f := agentRun()
	f.workflow.Approvals = []core.Approval{{ID: appA, RunID: runB, Type: core.ApproveTool, State: core.ApprovalOpen, Description: "Allow fs:write?", Risk: core.RiskLow}}
	f.events = []core.Event{{Seq: 1, Type: core.EventApprovalRequested, RunID: runA}}
	s := (&shell{fake: f, tty: true, env: map[string]string{"TERM": "xterm"}}).run("wf", "watch", "7f3a91").want(t, 8)
	s.has(t, "out", "    + list them", "    ! write one", "used 2 of 5 iterations", "! waits for a person: Allow fs:write?")
}

// TestAgent_List: a list shows what agents cost, and their runs below them where that is
// asked for; one without agents has no such column.
func TestAgent_List(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: agentRun()}).run("wf", "ls").want(t, 0)
	s.has(t, "out", "COST", "$0.0019")
	if strings.Contains(s.out, "write one") {
		t.Errorf("a run of an agent is listed by itself:\n%s", s.out)
	}
	s = (&shell{fake: agentRun()}).run("wf", "ls", "--children").want(t, 0)
	s.has(t, "out", "\ntidy the notes ", "\n  list them ", "\n  write one ", "\nother ")
	var page struct {
		Items []core.Run `json:"items"`
	}
	s = (&shell{fake: agentRun()}).run("wf", "ls", "--children", "--json").want(t, 0)
	if err := json.Unmarshal([]byte(s.out), &page); err != nil || len(page.Items) != 4 || page.Items[2].ParentID != runA || page.Items[0].Agent == nil {
		t.Errorf("%v %s", err, s.out)
	}
	f := agentRun()
	f.runs = f.runs[1:]
	if s = (&shell{fake: f}).run("wf", "ls").want(t, 0); strings.Contains(s.out, "COST") {
		t.Errorf("there is no agent:\n%s", s.out)
	}
}

// TestStats: runs, calls, tokens and money are counted by day, model and workspace; what
// nobody knows is said to be unknown, and what began before is left out.
func TestStats(t *testing.T) {
	t.Parallel()
	usd := 0.5
	run := func(n string, days int, dir string, spent *core.AgentSpent) core.Run {
		return core.Run{ID: core.ID(n + "000000-0000-4000-8000-000000000001"), Workspace: dir, Agent: spent, CreatedAt: at.Add(-time.Duration(days) * 24 * time.Hour)}
	}
	script := run("c1", 0, "/a", nil)
	f := &fake{
		runs: []core.Run{
			script,
			run("a1", 0, "/a", &core.AgentSpent{Model: "claude", Iterations: 2, Calls: 3, Usage: core.AgentUsage{Input: 90, CacheRead: 10, Output: 7, USD: &usd}}),
			run("a2", 1, "/b", &core.AgentSpent{Model: "local", Iterations: 1, Calls: 1, Usage: core.AgentUsage{Input: 5, Output: 5}}),
			run("a3", 1, "/b", &core.AgentSpent{Model: "claude", Iterations: 1, Usage: core.AgentUsage{USD: &usd, LostAttempts: 1}}),
			run("a4", 8, "/old", &core.AgentSpent{Model: "old", Iterations: 1}),
		},
		below: map[core.ID]core.Workflow{script.ID: {Run: script, Layers: []core.Layer{{Tasks: []core.Task{
			{Tool: "fs:read", State: core.TaskSuccess}, {Tool: "fs:read", State: core.TaskError}, {Tool: "fs:read", State: core.TaskSkipped}, {Tool: core.SleepTool, State: core.TaskSuccess}, {Tool: "fs:read", State: core.TaskRunning},
		}}}}},
	}
	s := (&shell{fake: f}).run("stats").want(t, 0)
	for _, want := range []string{
		"all 4 3 6 105 12 $1.0000 or more", "2026-03-01 2 1 5 100 7 $0.5000", "2026-02-28 2 2 1 5 5 $0.5000 or more",
		"claude 2 2 3 100 7 $1.0000 or more", "local 1 1 1 5 5 unknown", "/a 2 1 5 100 7 $0.5000", "/b 2 2 1 5 5 $0.5000 or more",
	} {
		if !slices.ContainsFunc(strings.Split(s.out, "\n"), func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("there is no line %q:\n%s", want, s.out)
		}
	}
	if strings.Contains(s.out, "old") {
		t.Errorf("what is older is counted:\n%s", s.out)
	}
	var got struct {
		Total struct {
			USD     float64 `json:"usd"`
			Unknown int     `json:"unknown_cost"`
		} `json:"total"`
	}
	s = (&shell{fake: f}).run("stats", "--since", "30d", "--json").want(t, 0)
	if err := json.Unmarshal([]byte(s.out), &got); err != nil || got.Total.USD != 1 || got.Total.Unknown != 3 {
		t.Errorf("%v %s", err, s.out)
	}
	(&shell{fake: f}).run("stats", "--since", "soon").want(t, 2).has(t, "err", "neither a duration")
}
