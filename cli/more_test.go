package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

func TestTrust(t *testing.T) {
	t.Parallel()
	state := api.TrustState{Workspace: "/w", Digest: hashA, Content: "servers:\n  x: npx \x1b[8mevil", Diff: "+ x: npx", Warnings: []string{"box: the image b has no digest"}}
	s := (&shell{fake: &fake{trust: state}}).run("trust").want(t, 8).has(t, "err", "--yes", "next: pml trust --show")
	if s.fake.trusted != "" {
		t.Error("trusted without being asked")
	}
	s = (&shell{fake: &fake{trust: state}}).run("trust", "--show").want(t, 0).has(t, "out", hashA, "+ x: npx", "it changed", "warning: box: the image b has no digest")
	if s.fake.trusted != "" {
		t.Error("--show trusted")
	}
	s = (&shell{fake: &fake{trust: state}}).run("trust", "--yes").want(t, 0)
	if s.fake.trusted != hashA {
		t.Errorf("trusted %q", s.fake.trusted)
	}
	state.Diff = ""
	for typed, want := range map[string]string{"yes\n": hashA, "y\n": hashA, "n\n": "", "\n": "", "": ""} {
		s = (&shell{tty: true, stdin: typed, fake: &fake{trust: state}}).run("trust").has(t, "err", `npx \x1b[8mevil`)
		if s.fake.trusted != want || (want == "") != (s.code == 8) {
			t.Errorf("%q: trusted %q, exit %d", typed, s.fake.trusted, s.code)
		}
	}
	state.Trusted = true
	(&shell{fake: &fake{trust: state}}).run("trust").want(t, 0).has(t, "out", "trusted\n")
}

func TestWorkflows_Result(t *testing.T) {
	t.Parallel()
	tests := []struct {
		run  core.Run
		code int
		out  string
	}{
		{core.Run{State: core.RunComplete, Result: json.RawMessage(`"x"`)}, 0, "x\n"},
		{core.Run{State: core.RunFailed, Error: core.Errorf(core.CodeDenied, "no")}, 9, ""},
		{core.Run{State: core.RunAborted}, 10, ""},
		{core.Run{State: core.RunExpired}, 11, ""},
		{core.Run{State: core.RunWaiting}, 8, ""},
		{core.Run{State: core.RunRunning}, 12, ""},
		{core.Run{State: core.RunInterrupted}, 12, ""},
	}
	for _, tt := range tests {
		tt.run.ID = runA
		s := (&shell{fake: &fake{workflow: core.Workflow{Run: tt.run}}}).run("wf", "result", "@latest").want(t, tt.code)
		if s.out != tt.out {
			t.Errorf("%s: %q", tt.run.State, s.out)
		}
	}
	// The command is found by its plural, too, and of an aborted run the error names the
	// command that shows what was returned.
	aborted := core.Workflow{Run: core.Run{ID: runA, State: core.RunAborted}, Layers: []core.Layer{{Tasks: []core.Task{{ID: "c1", Output: json.RawMessage(`"kept"`)}}}}}
	s := (&shell{fake: &fake{workflow: aborted}}).run("wf", "results", "@latest").want(t, 10)
	s.has(t, "err", "has what its calls returned", "next: pml workflows show 7f3a91c2 --json\n")
	(&shell{fake: s.fake}).run("workflows", "show", "7f3a91c2", "--json").want(t, 0).has(t, "out", `"output": "kept"`)
}

// TestWorkflows_ShowBegun: a call that only reads is in no journal before it has answered;
// that it is under way in another process is shown all the same.
func TestWorkflows_ShowBegun(t *testing.T) {
	t.Parallel()
	layer := 0
	f := &fake{
		workflow: core.Workflow{Run: core.Run{ID: runA, State: core.RunRunning, CreatedAt: at}},
		events:   []core.Event{{Seq: 1, At: at, Type: core.EventTaskStart, RunID: runA, TaskID: "c1", Tool: "a:b", Layer: &layer}},
	}
	(&shell{fake: f}).run("wf", "show", "@latest").want(t, 0).has(t, "out", "layer 1\n  * running  c1  b")
	(&shell{fake: f}).run("wf", "show", "@latest", "--json").want(t, 0).has(t, "out", `"state": "running",`, `"id": "c1"`)
}

// TestWorkflows_ShowArguments: fifty calls of one tool are told apart by what they are
// called with, in the words of watch, and at a terminal each fits in its line.
func TestWorkflows_ShowArguments(t *testing.T) {
	t.Parallel()
	long := core.Task{ID: "c2", Tool: "fs:stat", State: core.TaskError, Arguments: json.RawMessage(`{"path":"` + strings.Repeat("deep/", 20) + `f42"}`)}
	long.Error = core.Errorf(core.CodeToolFailed, "it is not\nthere")
	f := &fake{workflow: core.Workflow{Run: core.Run{ID: runA, State: core.RunFailed, CreatedAt: at}, Layers: []core.Layer{{Tasks: []core.Task{
		{ID: "c1", Tool: "fs:stat", State: core.TaskSuccess, Arguments: json.RawMessage(`{"path":"f41"}`)}, long,
	}}}}}
	(&shell{fake: f}).run("wf", "show", "@latest").want(t, 0).has(t, "out", "+ success  c1  stat f41 ", "f42 ", "it is not / there")
	s := (&shell{fake: f, tty: true, width: 80}).run("wf", "show", "@latest").want(t, 0).has(t, "out", "c1  stat f41 ", "it is not")
	for line := range strings.Lines(s.out) {
		if n := layout.Width(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestWorkflows_ShowLayers: layers of one call each, as those of a script that waits for
// each call, stand together below one heading.
func TestWorkflows_ShowLayers(t *testing.T) {
	t.Parallel()
	calls := func(index int, ids ...string) (l core.Layer) {
		l.Index = index
		for _, id := range ids {
			l.Tasks = append(l.Tasks, core.Task{ID: id, Tool: "a:b", State: core.TaskSuccess, Layer: index})
		}
		return l
	}
	w := core.Workflow{Run: core.Run{ID: runA, State: core.RunComplete, CreatedAt: at}, Layers: []core.Layer{
		calls(0, "c1"), calls(1, "c2", "c3"), calls(2, "c4"), calls(3, "c5"), calls(4, "c6"),
	}}
	(&shell{fake: &fake{workflow: w}}).run("wf", "show", "@latest").want(t, 0).
		has(t, "out", `
layer 1
  + success  c1  b  -
`, `
layer 2
  + success  c2  b  -
  + success  c3  b  -

layers 3 to 5, one call each
  + success  c4  b  -
  + success  c5  b  -
  + success  c6  b  -
`)
}

func TestWorkflows_ShowWatchLogs(t *testing.T) {
	t.Parallel()
	events := []core.Event{
		{Seq: 1, At: at, Type: core.EventWorkflowStart, RunID: runA},
		{Seq: 2, At: at, Type: core.EventTaskLog, RunID: runA, Message: "hello\x1b[2J"},
		{Seq: 3, At: at, Type: core.EventApprovalRequested, RunID: runA, Tool: "a:b"},
	}
	w := core.Workflow{
		Run:       core.Run{ID: runA, State: core.RunWaiting, CreatedAt: at},
		Layers:    []core.Layer{{Tasks: []core.Task{{ID: "c1", Tool: "a:b", State: core.TaskWaiting}}}},
		Approvals: []core.Approval{dependency()},
	}
	f := &fake{events: events, workflow: w}
	(&shell{fake: f}).run("wf", "show", "@latest").want(t, 0).has(t, "out", "! waiting", "layer 1", "approval required: dependency", hashA)
	(&shell{fake: f}).run("wf", "watch", "@latest").want(t, 8).has(t, "out", "workflow_start", "approval_requested")
	tree := (&shell{fake: f, tty: true, width: 80, env: map[string]string{"TERM": "xterm", "NO_COLOR": "1"}}).run("wf", "watch", "@latest").want(t, 8).
		has(t, "out", "waiting", "  ! b  waiting", "waits for a person")
	if strings.Contains(tree.out, "workflow_start") {
		t.Errorf("events beside the tree: %s", tree.out)
	}
	aborted := f.workflow
	aborted.State, aborted.Approvals = core.RunAborted, nil
	aborted.Abort = &core.AbortRequest{By: core.Actor{Who: "bob", Via: core.ViaCLI}, Reason: "wrong input"}
	(&shell{fake: &fake{workflow: aborted}, tty: true, width: 80, env: map[string]string{"TERM": "xterm", "NO_COLOR": "1"}}).run("wf", "watch", "@latest").want(t, 10).
		has(t, "err", "aborted by bob via cli: wrong input\n")
	(&shell{fake: f, tty: true, width: 80, env: map[string]string{"TERM": "dumb"}}).run("wf", "watch", "@latest").want(t, 8).has(t, "out", "workflow_start")
	s := (&shell{fake: f}).run("wf", "logs", "@latest").want(t, 0)
	if diff := cmp.Diff("hello\\x1b[2J\n", s.out); diff != "" {
		t.Error(diff)
	}
	s = (&shell{fake: f}).run("events", "--since", "1", "--type", "task_log", "--json").want(t, 0)
	var e core.Event
	if err := json.Unmarshal([]byte(s.out), &e); err != nil || e.Seq != 2 {
		t.Errorf("%v: %s", err, s.out)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(app.Signal{Code: 130})
	(&shell{fake: f, ctx: ctx}).run("events", "--follow").want(t, 130)
	// That there are none is said beside the output, which a program reads.
	for _, tty := range []bool{true, false} {
		if s := (&shell{tty: tty}).run("wf", "logs", "@latest").want(t, 0).has(t, "err", "the run 7f3a91c2 has logged nothing\n"); s.out != "" {
			t.Error(s.out)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := &fake{audit: []core.AuditRow{{Seq: 1, At: at, Outcome: core.ApprovalApproved, By: core.Actor{Who: "ann", Via: core.ViaCLI}, Hash: "h1"}, {Seq: 2, At: at, Hash: "h2"}}}
	(&shell{fake: f}).run("audit", "ls", "--limit", "1", "--oldest").want(t, 0).has(t, "out", "ann/cli", "2026-03-01T12:00:00Z").has(t, "err", "--since client:1")
	s := (&shell{fake: f}).run("audit", "export").want(t, 0)
	if strings.Count(s.out, "\n") != 2 || !strings.Contains(s.out, `"hash":"h2"`) {
		t.Errorf("%s", s.out)
	}
	(&shell{fake: f}).run("audit", "verify").want(t, 0).has(t, "out", "ok: 2 lines")
	f.failWith = errors.New("x")
	(&shell{fake: f}).run("audit", "verify").want(t, 1).has(t, "out", "broken at line 2")
}

// TestAudit_BothHalves: rows say whose they are, pages go on after both, and the
// whole log is exported once.
func TestAudit_BothHalves(t *testing.T) {
	t.Parallel()
	row := func(side core.Side, seq int64) core.AuditRow {
		return core.AuditRow{Side: side, Seq: seq, At: at, Outcome: core.OutcomeRefused, Count: 12, By: core.Actor{Who: "agent", Via: core.ViaMCP}, Hash: fmt.Sprint(side, seq)}
	}
	f := &fake{audit: []core.AuditRow{row(core.SideClient, 1), row(core.SideServer, 1), row(core.SideClient, 2)}}
	(&shell{fake: f}).run("audit", "ls", "--limit", "2").want(t, 0).has(t, "out", "client", "server", "refused ×12").has(t, "err", "more: add --before client:2,server:1")
	(&shell{fake: f}).run("audit", "ls", "--limit", "2", "--oldest", "--json").want(t, 0).has(t, "out", `"next": "client:1,server:1"`, `"side": "server"`, `"count": 12`)
	s := (&shell{fake: f}).run("audit", "ls", "--since", "client:1,server:1").want(t, 0)
	if f.since != (api.Since{Client: 1, Server: 1}) || strings.Contains(s.out, "server") {
		t.Errorf("%+v %s", f.since, s.out)
	}
	(&shell{fake: f}).run("audit", "ls", "--after", "1").want(t, 0)
	if f.since != (api.Since{Any: 1}) {
		t.Errorf("%+v", f.since)
	}
	s = (&shell{fake: f}).run("audit", "export").want(t, 0)
	for _, r := range f.audit {
		if strings.Count(s.out, `"hash":"`+r.Hash+`"`) != 1 {
			t.Errorf("%s", s.out)
		}
	}
	for _, flags := range [][]string{{"--since", "x"}, {"--since", "host:1"}, {"--since", "1", "--after", "1"}, {"--limit", "0"}} {
		(&shell{fake: f}).run(append([]string{"audit", "ls"}, flags...)...).want(t, 2)
	}
	ours, theirs := api.AuditReport{Side: core.SideClient, Rows: 2, OK: true}, api.AuditReport{Side: core.SideServer, Rows: 1, OK: true}
	f.report = &api.AuditReport{OK: true, Rows: 3, Logs: []api.AuditReport{ours, theirs}}
	(&shell{fake: f}).run("audit", "verify").want(t, 0).has(t, "out", "client: ok: 2 lines", "server: ok: 1 lines")
	theirs = api.AuditReport{Side: core.SideServer, Reason: "it could not be checked: nobody answers"}
	f.report = &api.AuditReport{Rows: 2, Side: core.SideServer, Logs: []api.AuditReport{ours, theirs}}
	(&shell{fake: f}).run("audit", "verify").want(t, 1).has(t, "out", "client: ok: 2 lines", "server: it could not be checked: nobody answers")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	f := &fake{checks: []api.Check{{Name: "home", Status: "ok", Detail: "/h"}, {Name: "node", Status: "fail", Detail: "not found", Next: []string{"apt", "install", "nodejs"}}}}
	(&shell{fake: f}).run("doctor").want(t, 1).has(t, "out", "fail  node  not found", "next: apt install nodejs")
	f.checks = append(f.checks, f.checks[len(f.checks)-1])
	if out := (&shell{fake: f}).run("doctor").want(t, 1).out; strings.Count(out, "next: apt install nodejs") != 1 {
		t.Errorf("one command is said twice:\n%s", out)
	}
	(&shell{fake: f}).run("doctor", "--json").want(t, 1).has(t, "out", `"items"`)
}

func TestTools(t *testing.T) {
	t.Parallel()
	yes := true
	f := &fake{tools: []core.Tool{
		{Server: "fs", Name: "read_file", Description: "Reads a file.\nMore.", Annotations: core.Annotations{ReadOnly: &yes}, InputSchema: json.RawMessage(`{"type":"object"}`)},
		{Server: "fs", Name: "write_file", Description: "Writes \x1b[1m"},
	}}
	s := (&shell{fake: f}).run("tools", "ls").want(t, 0).has(t, "err", "note: web: not trusted; it last said: FATAL\n")
	if diff := cmp.Diff("TOOL           EFFECT   DESCRIPTION\nfs:read_file   reads    Reads a file.\nfs:write_file  unknown  Writes \\x1b[1m\n", s.out); diff != "" {
		t.Error(diff)
	}
	s = (&shell{fake: f}).run("tools", "search", "WRITE", "file").want(t, 0)
	if strings.Count(s.out, "\n") != 2 {
		t.Errorf("%s", s.out)
	}
	(&shell{fake: f}).run("tools", "show", "fs:read_file").want(t, 0).has(t, "out", "effect: reads", `"type": "object"`, "in a script: await mcp.fs.read_file({})\n")
	f.tools = append(f.tools, core.Tool{Server: "my-every", Name: "get-sum", InputSchema: json.RawMessage(`{"type":"object","required":["a","the-b"]}`)})
	(&shell{fake: f}).run("tools", "show", "my-every:get-sum").want(t, 0).has(t, "out", `in a script: await mcp["my-every"]["get-sum"]({ a: …, "the-b": … })`)
	(&shell{fake: f}).run("tools", "show", "fs:raed_file").want(t, 3).has(t, "err", "did you mean fs:read_file")
	(&shell{fake: f}).run("tools", "show", "web:search").want(t, 5).has(t, "err", "it is not known whether there is a tool web:search: not trusted", "next: pml trust")
	f.trust.Trusted = true
	(&shell{fake: f}).run("tools", "show", "web:search").want(t, 5).has(t, "err", "next: pml servers check web")
	(&shell{fake: &fake{results: []api.Result{waiting(permission(core.RiskLow))}}}).run("tools", "call", "fs:write", "--args", "{}").want(t, 8)
}

func TestRest(t *testing.T) {
	t.Parallel()
	(&shell{}).run("init").want(t, 0).has(t, "out", "wrote /w/.pml.json")
	over := api.Result{Status: api.StatusAborted, WorkflowID: runA, Reason: "x", Error: "aborted by bob via cli: x", ErrorCode: core.CodeAborted}
	(&shell{fake: &fake{results: []api.Result{over}}}).run("execute", "--code", "x").want(t, 10).has(t, "err", "aborted by bob via cli: x\n")
	(&shell{}).run("abort", "@latest", "--reason", "x").want(t, 0).has(t, "out", "aborted 7f3a91c2")
	(&shell{}).run("retry", "@latest").want(t, 0).has(t, "out", "done")
	(&shell{stdin: `{"tasks":[{"id":"n","tool":"a:b"}]}`}).run("replan", "@latest", "--tasks", "-").want(t, 0).has(t, "err", "1 new task, 3 in all", "pml continue")
	(&shell{stdin: "return 1"}).run("replan", "@latest", "--tasks", "-").want(t, 2).has(t, "err", "is code")
	(&shell{}).run("wf", "prune", "--older-than", "2d").want(t, 0).has(t, "out", "removed 48")
	(&shell{}).run("wf", "prune", "--older-than", "soon").want(t, 2)
	(&shell{}).run("wf", "rm", "@latest", "7f3a91").want(t, 0).has(t, "out", "removed 7f3a91c2")
	(&shell{fake: manyRuns()}).run("approvals", "show", "41d2").want(t, 0).has(t, "out", "postinstall", hashA)
	(&shell{fake: manyRuns()}).run("approvals", "show", "7f3a91").want(t, 2).has(t, "err", "waits for 2 approvals")
	(&shell{fake: manyRuns()}).run("approvals", "extend", "41d2", "--by", "30m").want(t, 0).has(t, "out", "expires in 30m00s")
	(&shell{fake: manyRuns()}).run("approvals", "renew", "41d2").want(t, 0).has(t, "out", "41d2").has(t, "err", "note: 41d2e07b is open already; nothing was asked again")
	(&shell{}).run("config", "path").want(t, 0).has(t, "out", "/w/pml.lock")
	s := (&shell{}).run("config", "schema").want(t, 0)
	if !json.Valid([]byte(s.out)) || s.opened > 0 {
		t.Errorf("schema: opened %d", s.opened)
	}
	(&shell{}).run("--help").want(t, 0).has(t, "out", "Run and decide:", "Look:", "Set up:")
}

// Who tells a command with output for a program to prompt is asked on stderr, at a terminal; stdout
// has the result alone.
func TestOnApproval_PromptJSON(t *testing.T) {
	t.Parallel()
	f := &fake{results: []api.Result{waiting(dependency()), {Status: api.StatusComplete, WorkflowID: runA, Result: json.RawMessage(`"done"`)}}}
	s := (&shell{tty: true, stdin: "y\n", fake: f}).run("run", "--code", "x", "--json", "--on-approval", "prompt").want(t, 0).has(t, "err", "approve? [y]es")
	var r api.Result
	if err := json.Unmarshal([]byte(s.out), &r); err != nil || r.Status != api.StatusComplete || len(f.went) != 1 || !f.went[0].Decision.Approve {
		t.Errorf("%v: %s %+v", err, s.out, f.went)
	}
	f = &fake{results: []api.Result{waiting(dependency())}}
	(&shell{tty: true, stdin: "l\n", fake: f}).run("run", "--code", "x", "--json", "--on-approval", "prompt").want(t, 8).has(t, "out", `"approval_required"`)
	unasked := &fake{results: []api.Result{waiting(dependency())}}
	if (&shell{tty: true, stdin: "y\n", fake: unasked}).run("run", "--code", "x", "--json").want(t, 8); len(unasked.went) > 0 {
		t.Error("asked, and nobody has said so")
	}
}

func TestOnApproval_WaitAfterRetry(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: &fake{results: []api.Result{waiting(dependency())}}}).run("retry", "@latest", "--on-approval", "wait").want(t, 0)
	if len(s.fake.went) != 1 || !s.fake.went[0].HoldApprovals || s.fake.went[0].Decision != nil {
		t.Errorf("%+v", s.fake.went)
	}
}

func TestLayerComplete(t *testing.T) {
	t.Parallel()
	i := 0
	r := api.Result{
		Status: api.StatusLayerComplete, WorkflowID: runA, CheckpointID: appA, LayerIndex: &i, TotalLayers: 3,
		LayerResults: []api.LayerResult{{TaskID: "a", Tool: "x:y", Status: core.TaskSuccess, Output: json.RawMessage(`{"n":1}`)}},
		NextLayer:    &api.LayerPreview{Index: 1, Tasks: []api.PreviewTask{{ID: "b", Tool: "x:z"}}},
	}
	(&shell{fake: &fake{results: []api.Result{r}}}).run("execute", "--code", "x", "--per-layer").want(t, 8).
		has(t, "err", "layer 1 of 3 is complete", `{"n":1}`, "then b (x:z)", "next: pml continue 7f3a91c2")
	s := (&shell{tty: true, stdin: "y\n", fake: &fake{results: []api.Result{r}}}).run("execute", "--code", "x", "--per-layer").want(t, 0)
	if len(s.fake.went) != 1 || !s.fake.went[0].Decision.Approve {
		t.Errorf("%+v", s.fake.went)
	}
}

// In a terminal that never answers no command writes an escape byte: whatever
// it is, the terminal would have to understand it.
func TestTerminal_Silent(t *testing.T) {
	t.Parallel()
	master, slave, err := pty.Open()
	if err != nil {
		skiptest.Missing(t, "no pty: "+err.Error())
	}
	defer master.Close()
	got := make(chan string)
	go func() {
		raw, _ := io.ReadAll(master) // ends with an error once the other side is closed
		got <- string(raw)
	}()
	f := manyRuns()
	f.events = []core.Event{{Seq: 1, Type: core.EventTaskStart, RunID: runA, TaskID: "c1", Tool: "a:b"}}
	for _, args := range [][]string{{"--version"}, {"--help"}, {"wf", "ls"}, {"wf", "ls", "--json"}, {"approvals", "ls"}, {"execute", "--code", "1"}, {"nope"}} {
		cli.Main(context.Background(), args, app.Deps{
			Stdin: slave, Stdout: slave, Stderr: slave, StdinTTY: true, StdoutTTY: true, StderrTTY: true,
			Width: func() int { return 40 }, Clock: clock{},
			Open: func(_ context.Context, o app.OpenOptions) (app.Backend, error) {
				f.progress = o.Progress
				return f, nil
			},
		})
	}
	slave.Close()
	if text := <-got; strings.ContainsRune(text, 0x1b) || !strings.Contains(text, "RUN") {
		t.Errorf("%q", text)
	}
}
