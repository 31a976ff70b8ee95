package cli_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// A run that was made and failed ends with 1, whatever its error says; 2, 3 and
// 13 are for errors before which nothing was run.
func TestFailedRun_IsOne(t *testing.T) {
	t.Parallel()
	for _, code := range []core.Code{core.CodeInvalidArguments, core.CodeNoSuchTool, core.CodeDAGInvalid} {
		failed := core.Workflow{Run: core.Run{ID: runA, State: core.RunFailed, Error: core.Errorf(code, "it broke")}}
		file := write(t, "s.ts", "x")
		for _, args := range [][]string{{"execute", file}, {"continue", "7f3a91"}, {"tools", "call", "a:b"}, {"wf", "watch", "7f3a91"}, {"wf", "result", "7f3a91"}} {
			r := api.Result{Status: api.StatusError, WorkflowID: runA, Error: "it broke", ErrorCode: code}
			(&shell{fake: &fake{results: []api.Result{r}, workflow: failed}}).run(args...).want(t, 1).has(t, "err", "it broke")
		}
		none := core.Errorf(code, "nothing was run")
		if s := (&shell{fake: &fake{errs: []error{none}}}).run("execute", file); s.code < 2 {
			t.Errorf("%s before a run: exit %d", code, s.code)
		}
	}
	(&shell{fake: &fake{errs: []error{core.Errorf(core.CodeNotFound, "no such approval").WithRun(runA)}}}).run("continue", "7f3a91", "--approve").want(t, 3)
}

func TestWatch_LastEvent(t *testing.T) {
	t.Parallel()
	asked := core.Event{Seq: 2, At: at, Type: core.EventApprovalRequested, RunID: runA}
	ended := []core.Event{{Seq: 3, At: at, Type: core.EventTaskComplete, RunID: runA}, {Seq: 4, At: at, Type: core.EventWorkflowComplete, RunID: runA}}
	for name, looks := range map[string][]look{
		"Paused":  {{state: core.RunRunning, then: []core.Event{asked}}, {state: core.RunComplete, then: ended}},
		"AtOnce":  {{state: core.RunComplete, then: ended}},
		"NoEvent": {{state: core.RunRunning}, {state: core.RunComplete, then: ended}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{events: []core.Event{{Seq: 1, At: at, Type: core.EventWorkflowStart, RunID: runA}}, look: looks}
			s := (&shell{fake: f}).run("wf", "watch", "7f3a91", "--json").want(t, 0)
			lines := strings.Split(strings.TrimSpace(s.out), "\n")
			var e core.Event
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil || e.Type != core.EventWorkflowComplete {
				t.Errorf("%v: the last line is %s", err, lines[len(lines)-1])
			}
			if n := strings.Count(s.out, `"workflow_start"`); n != 1 {
				t.Errorf("%d times the first event", n)
			}
		})
	}
}

func TestWatch_Interrupted(t *testing.T) {
	t.Parallel()
	for name, looks := range map[string][]look{
		"Before":    {{state: core.RunInterrupted}},
		"Meanwhile": {{state: core.RunRunning}, {state: core.RunInterrupted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{look: looks, workflow: core.Workflow{Run: core.Run{ID: runA}}}
			(&shell{fake: f}).run("wf", "watch", "7f3a91").want(t, 1).has(t, "err", "interrupted", "next: pml continue 7f3a91c2\n")
		})
	}
}

// An empty value is an unset variable of a shell, not the flag left out.
func TestFlags_EmptyValue(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"continue", "7f3a91", "--approve", "--expect-digest", ""},
		{"continue", "7f3a91", "--approve", "--checkpoint="},
		{"continue", "7f3a91", "--approve", "--all-of-type="},
		{"continue", "7f3a91", "--answer", ""},
		{"execute", "--code", "x", "--idempotency-key", ""},
		{"servers", "update", "files", "--yes", "--expect-digest", ""},
		{"events", "--workflow", ""},
	} {
		s := (&shell{}).run(args...).want(t, 2).has(t, "err", "is empty")
		if s.opened != 0 {
			t.Errorf("%q opened the backend", args)
		}
	}
}

func TestReplan_AsksAgain(t *testing.T) {
	t.Parallel()
	s := (&shell{stdin: `{"tasks":[{"id":"n","tool":"a:b"}]}`}).run("replan", "@latest", "--tasks", "-").want(t, 0).has(t, "err", "next: pml continue 7f3a91c2\n")
	if strings.Contains(s.err, "--approve") {
		t.Errorf("approves what nobody was asked yet: %s", s.err)
	}
}

func TestHelp_Command(t *testing.T) {
	t.Parallel()
	(&shell{}).run("help").want(t, 0).has(t, "out", "Run and decide:")
	(&shell{}).run("help", "servers", "add").want(t, 0).has(t, "out", "pml servers add")
	(&shell{}).run("help", "exectue").want(t, 2).has(t, "err", `unknown command "exectue"`, "did you mean execute")
	(&shell{}).run("help", "wf", "lst").want(t, 2).has(t, "err", "did you mean list, ls", "next: pml workflows --help")
}

// A run whose only question has expired must be asked again, and says so.
func TestExpired_Question(t *testing.T) {
	t.Parallel()
	before := at.Add(-time.Minute)
	p := permission(core.RiskLow)
	p.ExpiresAt = &before
	f := &fake{pending: []core.Approval{p}, workflow: core.Workflow{
		Run: core.Run{ID: runA, State: core.RunWaiting, CreatedAt: at}, Approvals: []core.Approval{p},
	}}
	(&shell{fake: f}).run("wf", "show", "7f3a91").want(t, 0).has(t, "out", "expired without a decision: 52e3f18c tool_permission fs:write", "next: pml continue 7f3a91c2")
	(&shell{fake: f}).run("approvals", "show", "7f3a91").want(t, 0).has(t, "out", string(appB), "expired")
	(&shell{fake: f}).run("approvals", "renew", "7f3a91").want(t, 0)
	other := p
	other.ID = appA
	f.pending = append(f.pending, other)
	(&shell{fake: f}).run("approvals", "renew", "7f3a91").want(t, 2).has(t, "err", "has let expire 2 approvals", "52e3f18c, 41d2e07b")
	f.pending[1].RenewedBy = appB
	(&shell{fake: f}).run("approvals", "renew", "41d2").want(t, 0).has(t, "err", "41d2e07b was asked again already, as 52e3f18c; nothing")
	(&shell{fake: f}).run("approvals", "renew", "7f3a91").want(t, 0)
	f.pending[0].RenewedBy = "x"
	(&shell{fake: f}).run("approvals", "renew", "7f3a91").want(t, 12).has(t, "err", "waits for no approval")
}

// Zeros of a run that has ended are part of its result.
func TestResult_Zeros(t *testing.T) {
	t.Parallel()
	done := api.Result{Status: api.StatusSuccess, WorkflowID: runA, Totals: &api.Totals{}, DAG: &api.DAGSummary{Tools: []string{}}}
	(&shell{fake: &fake{results: []api.Result{done}}}).run("execute", "--code", "x", "--json").want(t, 0).
		has(t, "out", `"replayed_calls": 0`, `"successful_tasks": 0`, `"failed_tasks": 0`, `"tools": []`)
	s := (&shell{fake: &fake{results: []api.Result{waiting(dependency())}}}).run("execute", "--code", "x", "--json").want(t, 8)
	if strings.Contains(s.out, "successful_tasks") {
		t.Errorf("totals of a run that has not ended: %s", s.out)
	}
}

// What purging a server does to pml.lock can end the workspace's trust.
func TestServersRm_PurgeAsksForTrust(t *testing.T) {
	t.Parallel()
	gone := func(t api.TrustState) *fake { return &fake{world: world{gone: true}, trust: t} }
	(&shell{fake: gone(api.TrustState{})}).run("servers", "rm", "files", "--purge", "--yes").want(t, 0).has(t, "err", "next: pml trust\n")
	for _, state := range []api.TrustState{{Trusted: true}, {Empty: true}} {
		if s := (&shell{fake: gone(state)}).run("servers", "rm", "files", "--purge", "--yes").want(t, 0); strings.Contains(s.err, "pml trust") {
			t.Errorf("%+v: %s", state, s.err)
		}
	}
}

func TestInit_OffersImport(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: changing()}).run("init").want(t, 0).has(t, "out", "wrote /w/.pml.json").has(t, "err", "next: pml servers import\n")
	if s.fake.world.written != nil {
		t.Error("written without being asked")
	}
	s = (&shell{fake: changing()}).run("init", "--json").want(t, 0)
	if !json.Valid([]byte(s.out)) || s.err != "" || s.fake.world.written != nil {
		t.Errorf("%s %s %+v", s.out, s.err, s.fake.world.written)
	}
	s = (&shell{tty: true, stdin: "\ny\n", fake: changing()}).run("init").want(t, 0).has(t, "err", "from /u/.cursor/mcp.json", "take these servers over? ", "next: pml servers install --all")
	if diff := cmp.Diff([]writing{{Digest: hashA, Keep: true}}, s.fake.world.written); diff != "" {
		t.Error(diff)
	}
	for _, typed := range []string{"n\n", ""} {
		s = (&shell{tty: true, stdin: "\n" + typed, fake: changing()}).run("init").want(t, 0).has(t, "err", "no server was taken over", "next: pml servers import")
		if s.fake.world.written != nil {
			t.Errorf("%q: written", typed)
		}
	}
	nothing := &fake{}
	(&shell{fake: nothing}).run("init").want(t, 0).has(t, "err", "next: pml trust --show")
	s = (&shell{fake: &fake{failWith: errors.New("it exists")}}).run("init").want(t, 1)
	if s.fake.world.imported != nil {
		t.Error("looked at hosts although nothing was written")
	}
}

// A value or an argument that is wrong leads to the help of the command that it was given to.
func TestUsage_OwnHelp(t *testing.T) {
	t.Parallel()
	for args, help := range map[string]string{
		"audit ls --since notsince": "pml audit ls", "audit ls --outcome rejected": "pml audit ls", "events --type approval": "pml events",
		"run nonexist.ts": "pml execute", "wf ls --limit 0": "pml workflows ls", "status -o what": "pml status",
	} {
		(&shell{}).run(strings.Fields(args)...).want(t, 2).has(t, "err", "next: "+help+" --help\n")
	}
}

// A program reads the commands that a person reads: the first of them, and all.
func TestResult_Next(t *testing.T) {
	t.Parallel()
	waiting := api.Result{Status: api.StatusApprovalRequired, WorkflowID: runA, Pending: []core.Approval{permission(core.RiskLow)}}
	looped := permission(core.RiskLow)
	looped.Place = core.Position{Line: 12, Column: 3}
	loop := waiting
	loop.Pending = []core.Approval{looped}
	for _, r := range []api.Result{waiting, loop, {Status: api.StatusHalted, WorkflowID: runA}, {Status: api.StatusComplete, WorkflowID: runA}} {
		run := func(more ...string) *shell {
			return (&shell{fake: &fake{results: []api.Result{r}}}).run(append([]string{"run", "--code", "x"}, more...)...)
		}
		var got struct {
			Next     []string   `json:"next"`
			Commands [][]string `json:"commands"`
		}
		if err := json.Unmarshal([]byte(run("--json").out), &got); err != nil {
			t.Fatal(err)
		}
		var said []string
		for line := range strings.Lines(run().err) {
			if argv, ok := strings.CutPrefix(line, "next: "); ok {
				said = append(said, strings.TrimSpace(argv))
			}
		}
		if len(got.Commands) != len(said) || (len(said) == 0) != (r.Status == api.StatusComplete) {
			t.Fatalf("%s: commands %v, the text names %v", r.Status, got.Commands, said)
		}
		if of := strings.Contains(strings.Join(said, "\n"), "--shape"); of != (len(r.Pending) == 1 && r.Pending[0].Place.Line > 0) {
			t.Errorf("bounds for the calls of a line: %v", said)
		}
		for i, argv := range got.Commands {
			if strings.Join(argv, " ") != said[i] || strings.Join(got.Next, " ") != said[0] {
				t.Errorf("%s: next %v, commands %v, the text names %v", r.Status, got.Next, got.Commands, said)
			}
		}
	}
}

// A run that has failed on a fault of its program is not retried, which would fail as well: its
// file is run anew. What a tool has refused is.
func TestNext_FaultOfProgram(t *testing.T) {
	t.Parallel()
	file := write(t, "fault.ts", "throw 1")
	const anew, again = "next: pml run ", "next: pml retry 7f3a91c2"
	own := core.Errorf(core.CodeScript, "Error: no title")
	task := core.Errorf(core.CodeInvalidArguments, "1 of 2 tasks failed")
	task.Failures = []core.Failure{{TaskID: "b", Code: core.CodeInvalidArguments}}
	tool := core.Errorf(core.CodeScript, "Error: no such file")
	tool.Failures = []core.Failure{{TaskID: "c1", Code: core.CodeToolFailed}}
	for _, tt := range []struct {
		err        *core.Error
		file       string
		run, shown string
	}{
		{own, file, anew + file, anew + file},
		{task, file, anew + file, anew + file},
		{own, "", "next: pml workflows show 7f3a91c2", "the fault is in the program: run it anew"},
		{tool, file, "next: pml workflows show 7f3a91c2", again},
		{core.Errorf(core.CodeToolFailed, "no"), file, again, again},
	} {
		f := &fake{workflow: core.Workflow{Run: core.Run{ID: runA, Workspace: filepath.Dir(file), State: core.RunFailed, Error: tt.err}}, program: core.Program{File: tt.file}}
		f.world.paths = &api.Paths{Workspace: filepath.Dir(file)}
		failed := api.Result{Status: api.StatusError, WorkflowID: runA, ErrorCode: tt.err.Code, Error: tt.err.Message, Failures: tt.err.Failures}
		f.results = []api.Result{failed, failed}
		(&shell{fake: f}).run("run", "--code", "throw 1").want(t, 1).has(t, "err", tt.run)
		s := (&shell{fake: f}).run("workflows", "show", "7f3a91c2").want(t, 0).has(t, "out", tt.shown)
		if tt.shown != again && strings.Contains(s.out, again) {
			t.Error(s.out)
		}
		s = (&shell{fake: f}).run("run", "--code", "throw 1", "--json").want(t, 1)
		if strings.Contains(s.out, `"run",`) {
			t.Error(s.out) // who follows next would make the calls again
		}
	}
}

// Who has corrected the file of a run is told that a retry runs the program as it was.
func TestRetry_FileChanged(t *testing.T) {
	t.Parallel()
	const code, dag = "return 1\n", `{"tasks":[{"id":"a","tool":"fs:read","arguments":{"path":"x"}}]}`
	task := core.TaskSpec{ID: "a", Tool: "fs:read", Arguments: json.RawMessage(`{"path":"x"}`)}
	for _, tt := range []struct {
		file, text string
		kept       core.Program
		told       bool
	}{
		{"s.ts", code, core.Program{Source: code}, false},
		{"s.ts", "return 2\n", core.Program{Source: code}, true},
		{"s.ts", "return 2\n", core.Program{Source: "return '«KEY»'"}, false}, // a value was left out
		{"d.json", dag, core.Program{Tasks: []core.TaskSpec{task}}, false},
		{"d.json", strings.ReplaceAll(dag, "x", "y"), core.Program{Tasks: []core.TaskSpec{task}}, true},
		{"d.json", dag, core.Program{Tasks: []core.TaskSpec{task, {ID: "b", Tool: "fs:read"}}, Added: []core.Addition{{From: 1}}}, false},
		{"gone.ts", code, core.Program{Source: "return 2"}, false},
	} {
		file := write(t, "new-"+tt.file, tt.text)
		if tt.kept.File = file; tt.file == "gone.ts" {
			tt.kept.File = file + ".gone"
		}
		f := &fake{workflow: core.Workflow{Run: core.Run{ID: runA, Workspace: filepath.Dir(file)}}, program: tt.kept}
		f.world.paths = &api.Paths{Workspace: filepath.Dir(file)}
		s := (&shell{fake: f}).run("retry", "7f3a91").want(t, 0)
		if strings.Contains(s.err, "pml run "+file+" runs the file as it is now") != tt.told {
			t.Errorf("%s %q: %s", tt.file, tt.text, s.err)
		}
		if tt.told { // at a terminal nothing is made again before a person says so
			(&shell{fake: f, tty: true, stdin: "n\n"}).run("retry", "7f3a91").want(t, 1).has(t, "err", "retry the program as it was?", "nothing was run again; next: pml run "+file)
			(&shell{fake: f, tty: true, stdin: "y\n"}).run("retry", "7f3a91").want(t, 0)
		}
		// Where it fails as before, the corrected file is what helps.
		f.results = []api.Result{{Status: api.StatusError, WorkflowID: runA, ErrorCode: core.CodeToolFailed, Error: "as before"}}
		failed := f.results[0]
		(&shell{fake: &fake{results: []api.Result{failed}}}).run("run", "--code", "x", "--json").want(t, 1).has(t, "out", `"commands"`, `"retry"`)
		next := map[bool]string{true: "next: pml run " + file, false: "next: pml retry 7f3a91c2"}[tt.told]
		(&shell{fake: f}).run("retry", "7f3a91").want(t, 1).has(t, "err", next)
	}
}

// A command that an error names has the short ids that are shown everywhere else; a program gets
// whole ones, and what stands behind -- is not pml's.
func TestError_ShortIDs(t *testing.T) {
	t.Parallel()
	f := func(next ...string) *fake {
		return &fake{errs: []error{core.Errorf(core.CodeAlreadyDecided, "bob was faster").WithRun(runA).WithNext(next...)}}
	}
	(&shell{fake: f("pml", "workflows", "show", string(runA), "--", string(runB))}).run("run", "--code", "x").
		want(t, 12).has(t, "err", "next: pml workflows show 7f3a91c2 -- "+string(runB)+"\n")
	(&shell{fake: f("pml", "workflows", "show", string(runA))}).run("run", "--code", "x", "--json").want(t, 12).has(t, "err", `"`+string(runA)+`"]`)
}

// A call that was under way when its run was aborted was cancelled; what failed before has failed.
func TestWorkflowsShow_CancelledByAbort(t *testing.T) {
	t.Parallel()
	tasks := []core.Task{
		{ID: "c1", Tool: "fs:write", State: core.TaskError, Error: core.Errorf(core.CodeCancelled, "fs:write was cancelled")},
		{ID: "c2", Tool: "fs:read", State: core.TaskError, Error: core.Errorf(core.CodeToolFailed, "no such file")},
	}
	for state, want := range map[core.RunState]string{core.RunAborted: "x cancelled  c1", core.RunFailed: "x error  c1"} {
		f := &fake{workflow: core.Workflow{Run: core.Run{ID: runA, State: state}, Layers: []core.Layer{{Tasks: tasks}}}}
		s := (&shell{fake: f}).run("workflows", "show", "7f3a91c2").want(t, 0).has(t, "out", want, "x error")
		if strings.Count(s.out, "x error") != map[core.RunState]int{core.RunAborted: 1, core.RunFailed: 2}[state] {
			t.Error(s.out)
		}
	}
}
