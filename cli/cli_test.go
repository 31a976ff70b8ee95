package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestExecute_ResultOnStdout(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, result, want string }{
		{"String", `"héllo\nworld"`, "héllo\nworld\n"},
		{"Object", `{"b":1,"a":12345678901234567890}`, "{\n  \"b\": 1,\n  \"a\": 12345678901234567890\n}\n"},
		{"Null", `null`, "null\n"},
		{"None", ``, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &shell{fake: &fake{results: []api.Result{{Status: api.StatusSuccess, WorkflowID: runA, Result: json.RawMessage(tt.result)}}}}
			s.run("execute", "--code", "return 1").want(t, 0)
			if diff := cmp.Diff(tt.want, s.out); diff != "" {
				t.Error(diff)
			}
			if s.err != "" || s.fake.closed != 1 {
				t.Errorf("stderr %q, closed %d times", s.err, s.fake.closed)
			}
		})
	}
}

func TestExecute_Request(t *testing.T) {
	t.Parallel()
	s := &shell{}
	file := write(t, "in.json", ` {"a": 1.10} `)
	s.run("execute", "--code", "x", "--input", "@"+file, "--per-layer", "--hil", "always", "--idempotency-key", "k",
		"--intent", "label", "--wait", "30s", "--timeout", "5s", "--on-approval", "wait", "--home", "/h", "--server", "http://s").want(t, 0)
	want := []api.ExecuteRequest{{
		Intent: "label", Code: "x", IdempotencyKey: "k", By: core.Actor{Who: "ann", Via: core.ViaCLI},
		RunOptions: core.RunOptions{PerLayer: true, HIL: core.HILAlways, Input: json.RawMessage(`{"a": 1.10}`)},
		Wait:       5 * time.Second, HoldApprovals: true,
	}}
	if diff := cmp.Diff(want, s.fake.executed, cmpopts.IgnoreFields(api.ExecuteRequest{}, "Started", "Warned")); diff != "" {
		t.Error(diff)
	}
	if s.seenOpenFlags.Home != "/h" || s.seenOpenFlags.Server != "http://s" {
		t.Errorf("open options: %+v", s.seenOpenFlags)
	}
	s = &shell{}
	s.run("execute", "--code", "x").want(t, 0)
	if s.fake.executed[0].Wait >= 0 {
		t.Error("without --wait the command must wait until the run ends or pauses")
	}
}

func TestExecute_KindOfProgram(t *testing.T) {
	t.Parallel()
	yaml := "tasks:\n  - id: a\n    tool: x:y\n    arguments: {n: 12345678901234567890, h: 0x1f, s: '1'}\ninput: 3\n"
	tests := []struct {
		name, file, text string
		dag              bool
	}{
		{"TS", "a.ts", "return 1", false},
		{"JSON", "a.json", `{"tasks":[{"id":"a","tool":"x:y"}]}`, true},
		{"YAML", "a.yaml", yaml, true},
		{"StdinJSON", "-", `{"tasks":[{"id":"a","tool":"x:y"}]}`, true},
		{"StdinYAML", "-", yaml, true},
		{"StdinCode", "-", "const tasks = 1; return {tasks}", false},
		{"StdinBlock", "-", "{ tasks: for (;;) break tasks }", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &shell{stdin: tt.text}
			file := tt.file
			if file != "-" {
				file = write(t, file, tt.text)
			}
			s.run("execute", file).want(t, 0)
			req := s.fake.executed[0]
			if got := len(req.Tasks) > 0; got != tt.dag || (req.Code == "") != tt.dag {
				t.Errorf("dag %v, want %v: %+v", got, tt.dag, req)
			}
			if strings.HasSuffix(tt.name, "YAML") {
				if diff := cmp.Diff(`{"n":12345678901234567890,"h":31,"s":"1"}`, string(req.Tasks[0].Arguments)); diff != "" {
					t.Error(diff)
				}
				if string(req.Input) != "3" {
					t.Errorf("input %s", req.Input)
				}
			}
		})
	}
}

func TestBadInput_NothingOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"UnknownCommand", []string{"exectue"}, 2, []string{`unknown command "exectue"`, "did you mean execute"}},
		{"UnknownSub", []string{"wf", "lst"}, 2, []string{"did you mean list, ls"}},
		{"NoSub", []string{"config"}, 2, []string{"path, pin, schema, show"}},
		{"FlagOfCommand", []string{"audit", "--until", "1d"}, 2, []string{"did you mean pml audit export --until or pml audit ls --until?", "next: pml audit --help"}},
		{"UnknownFlag", []string{"execute", "--inptu", "1"}, 2, []string{"unknown flag --inptu", "did you mean --input"}},
		{"BadFlagValue", []string{"execute", "--wait", "soon"}, 2, []string{"soon"}},
		{"BadFormat", []string{"version", "-o", "jsn"}, 2, []string{"unknown output format", "did you mean json"}},
		{"Nothing", []string{"execute"}, 2, []string{"nothing to run"}},
		{"Both", []string{"execute", "a.ts", "--code", "x"}, 2, []string{"not both"}},
		{"Extra", []string{"execute", "a.ts", "b.ts"}, 2, []string{"unexpected argument"}},
		{"Missing", []string{"execute", filepath.Join(dir, "scirpt.ts")}, 2, []string{"no such file", "did you mean script.ts"}},
		{"Folder", []string{"execute", dir}, 2, []string{"is a folder"}},
		{"Binary", []string{"execute", file("b.ts", "return 1\x00")}, 2, []string{"binary file"}},
		{"Latin1", []string{"execute", file("l.ts", "// ok\nconst \xe9 = 1")}, 2, []string{"2:7", "not UTF-8"}},
		{"Empty", []string{"execute", file("e.ts", " \n")}, 2, []string{"is empty"}},
		{"TooLarge", []string{"execute", file("big.ts", strings.Repeat("x", 200<<10))}, 2, []string{"204800 bytes", "100 KiB"}},
		{"BadInput", []string{"execute", file("script.ts", "1"), "--input", "{\n  bad}"}, 2, []string{"--input is not JSON at 2:3"}},
		{"BadHIL", []string{"execute", "--code", "1", "--hil", "allways"}, 2, []string{"did you mean always"}},
		{"BadOnApproval", []string{"execute", "--code", "1", "--on-approval", "ask"}, 2, []string{"prompt, wait, exit, deny"}},
		{"PromptJSON", []string{"execute", "--code", "1", "--on-approval", "prompt", "-o", "yaml"}, 2, []string{"asks at a terminal, on stderr"}},
		{"AcceptProgram", []string{"execute", "--code", "1", "--intent", "x", "--accept=a:b"}, 2, []string{"does not go with a program"}},
		{"AcceptNothing", []string{"execute", "--accept"}, 2, []string{"--accept runs what was suggested"}},
		{"ArgsAlone", []string{"execute", "--intent", "x", "--accept", "--args", "{}"}, 2, []string{"--accept TOOL"}},
		{"ArgsNoJSON", []string{"execute", "--intent", "x", "--accept", "a:b", "--args", "{"}, 2, []string{"--args is not JSON"}},
		{"ReplanBoth", []string{"replan", "7f3a", "--requirement", "x", "--tasks", "-"}, 2, []string{"not both"}},
		{"ReplanNothing", []string{"replan", "7f3a"}, 2, []string{"--requirement TEXT"}},
		{"ServeListen", []string{"serve", "--listen", "here"}, 2, []string{"neither HOST:PORT"}},
		{"ServeTwice", []string{"serve", "--listen", "a:1,b:2"}, 2, []string{"one address"}},
		{"ServeFormat", []string{"serve", "--log-format", "jsn"}, 2, []string{"did you mean json"}},
		{"ServeIdle", []string{"serve", "--idle", "-1s"}, 2, []string{"negative"}},
		{"ServerNoCommand", []string{"server"}, 2, []string{"key, status, stop"}},
		{"ServerKeyName", []string{"server", "key", "add"}, 2, []string{"needs NAME"}},
		{"ApproveDeny", []string{"continue", "7f3a", "--approve", "--deny"}, 2, []string{"contradict"}},
		{"AbortAlone", []string{"continue", "7f3a", "--abort"}, 2, []string{"--abort goes with --deny"}},
		{"BulkIntegrity", []string{"continue", "7f3a", "--approve", "--all-of-type", "integrity"}, 2, []string{"one by one"}},
		{"ResultAlone", []string{"continue", "7f3a", "--approve", "--result", "1"}, 2, []string{"--answer skip"}},
		{"CheckpointAlone", []string{"continue", "7f3a", "--checkpoint", "41d2"}, 2, []string{"--approve, --deny"}},
		{"NoID", []string{"continue"}, 2, []string{"needs ID"}},
		{"BadState", []string{"wf", "ls", "--state", "runing"}, 2, []string{"did you mean running"}},
		{"BadType", []string{"events", "--type", "task_strat"}, 2, []string{"did you mean task_start"}},
		{"BadTool", []string{"tools", "call", "read_file"}, 2, []string{"server:tool"}},
		{"BadArgs", []string{"tools", "call", "a:b", "--args", "[1]"}, 2, []string{"not a JSON object"}},
		{"YAMLDuplicate", []string{"execute", file("d.yaml", "tasks:\n  - id: a\n    id: b\n")}, 13, []string{"d.yaml:3:5:/tasks/0/id", "twice"}},
		{"YAMLSyntax", []string{"execute", file("s.yaml", "tasks:\n  - id: [a\n")}, 13, []string{"s.yaml"}},
		{"YAMLDocuments", []string{"execute", file("m.yaml", "tasks: []\n---\ntasks: []\n")}, 13, []string{"more than one document"}},
		{"YAMLAliasLoop", []string{"execute", file("r.yaml", "tasks: &a\n  - *a\n")}, 13, []string{"contains itself"}},
		{"YAMLMerge", []string{"execute", file("g.yaml", "a: &a {x: 1}\nb:\n  <<: *a\n")}, 13, []string{"merge keys"}},
		{"YAMLNaN", []string{"execute", file("n.yaml", "input: .nan\n")}, 13, []string{"no such number", "1:8"}},
	}
	file("script.ts", "1")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &shell{}
			s.run(tt.args...).want(t, tt.code).has(t, "err", append(tt.says, "error: ")...)
			if s.opened != 0 || s.out != "" {
				t.Errorf("opened %d times, stdout %q", s.opened, s.out)
			}
		})
	}
}

func TestExecute_FaultsHaveLines(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"f.yaml": "# a DAG\ntasks:\n  - id: a\n    tool: x:y\n    depends_on:\n      - nope\n  - id: b\n",
		"f.json": "{\n \"tasks\":\n  [{\"id\": \"a\",\n    \"tool\": \"x:y\", \"depends_on\": [\n\n      \"nope\"]},\n  {\"id\": \"b\"}]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, name, text)
			s := (&shell{}).run("execute", file).want(t, 13)
			s.has(t, "err", file+":6:", "no task has the id nope", file+":7:", "a tool is missing")
			s = (&shell{}).run("execute", file, "--json").want(t, 13)
			var body struct {
				Error struct {
					Code   core.Code
					Exit   int
					Faults []core.Fault
				}
			}
			if err := json.Unmarshal([]byte(s.err), &body); err != nil {
				t.Fatalf("%v: %s", err, s.err)
			}
			if body.Error.Code != core.CodeDAGInvalid || body.Error.Exit != 13 || len(body.Error.Faults) != 2 || body.Error.Faults[0].At.Line != 6 {
				t.Errorf("%+v", body)
			}
		})
	}
}

func TestExecute_ApprovalExits8(t *testing.T) {
	t.Parallel()
	s := &shell{fake: &fake{results: []api.Result{waiting(dependency(), permission(core.RiskLow))}}}
	s.run("execute", "--code", "x").want(t, 8)
	if s.out != "" {
		t.Errorf("stdout: %q", s.out)
	}
	s.has(t, "err", "approval required: dependency (1 of 2)", "@scope/server", "2026.8.31", hashA, "2097152 (2.0 MiB)", "postinstall: node x.js",
		"in 5m00s", "in 59s", `path  a\x1b[31m\u{202e}txt`,
		"next: pml continue 7f3a91c2 --approve --approval 41d2e07b", "next: pml continue 7f3a91c2 --deny --approval 52e3f18c")

	s = &shell{tty: true, fake: &fake{results: []api.Result{waiting(dependency())}}}
	s.run("execute", "--code", "x", "--json").want(t, 8)
	var r api.Result
	if err := json.Unmarshal([]byte(s.out), &r); err != nil || r.Status != api.StatusApprovalRequired {
		t.Errorf("%v: %s", err, s.out)
	}
	if s.err != "" {
		t.Errorf("stderr: %q", s.err)
	}
	// Who sends it elsewhere sees that the run waits.
	s = &shell{tty: true, toFile: true, fake: &fake{results: []api.Result{waiting(dependency())}}}
	s.run("execute", "--code", "x", "--json").want(t, 8).has(t, "err", "waits for a decision: pml approve "+appA.Short())
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, typed string
		ask         core.Approval
		code        int
		want        []api.Decision
		says        string
	}{
		{"Yes", "y\n", dependency(), 0, []api.Decision{{Approve: true, Checkpoint: appA, ExpectDigest: hashA}}, "approve?"},
		{"No", "no\n", dependency(), 0, []api.Decision{{Checkpoint: appA, ExpectDigest: hashA}}, ""},
		{"Abort", "a\n", dependency(), 0, []api.Decision{{Checkpoint: appA, ExpectDigest: hashA, Abort: true}}, ""},
		{"Later", "l\n", dependency(), 8, nil, "next: pml continue"},
		{"EOF", "", dependency(), 8, nil, "next: pml continue"},
		{"EmptyIsNoYes", "\n\n \nl\n", dependency(), 8, nil, ""},
		{"HighNeedsDigits", "y\nyes\nl\n", permission(core.RiskHigh), 8, nil, "type 7f3a to approve"},
		{"High", "y\n7F3A\n", permission(core.RiskHigh), 0, []api.Decision{{Approve: true, Checkpoint: appB, ExpectDigest: hashA}}, ""},
		{"HighEOF", "y\n", permission(core.RiskHigh), 8, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &shell{tty: true, stdin: tt.typed, fake: &fake{results: []api.Result{waiting(tt.ask)}}}
			s.run("execute", "--code", "x").want(t, tt.code).has(t, "err", tt.says)
			var got []api.Decision
			for _, c := range s.fake.went {
				c.Decision.Presence = ""
				got = append(got, *c.Decision)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPrompt_InDoubt(t *testing.T) {
	t.Parallel()
	ask := permission(core.RiskLow)
	ask.Type = core.ApproveInDoubt
	s := &shell{tty: true, stdin: "y\nr\n", fake: &fake{results: []api.Result{waiting(ask)}}}
	s.run("execute", "--code", "x").want(t, 0)
	if len(s.fake.went) != 1 || s.fake.went[0].Decision.Answer == nil || s.fake.went[0].Decision.Answer.InDoubt != core.RunAgain {
		t.Errorf("%+v", s.fake.went)
	}
}

func TestPrompt_SomeoneWasFaster(t *testing.T) {
	t.Parallel()
	decided := core.Errorf(core.CodeAlreadyDecided, "bob denied it via tui at 12:00")
	s := &shell{tty: true, stdin: "y\n", fake: &fake{results: []api.Result{waiting(dependency())}, errs: []error{nil, decided}}}
	s.run("execute", "--code", "x").want(t, 0).has(t, "err", "note: bob denied it").has(t, "out", "done")
	if len(s.fake.went) != 2 || s.fake.went[1].Decision != nil {
		t.Errorf("%+v", s.fake.went)
	}
}

func TestOnApproval_Deny(t *testing.T) {
	t.Parallel()
	s := &shell{fake: &fake{results: []api.Result{waiting(dependency(), permission(core.RiskLow)), waiting(permission(core.RiskLow))}}}
	s.run("execute", "--code", "x", "--on-approval", "deny").want(t, 0)
	var got []core.ID
	for _, c := range s.fake.went {
		if c.Decision.Approve || c.Decision.Abort {
			t.Errorf("%+v", c.Decision)
		}
		got = append(got, c.Decision.Checkpoint)
	}
	if diff := cmp.Diff([]core.ID{appA, appB}, got); diff != "" {
		t.Error(diff)
	}
}

func TestContinue_Decisions(t *testing.T) {
	t.Parallel()
	both := core.Workflow{Run: core.Run{ID: runA}, Approvals: []core.Approval{dependency(), permission(core.RiskLow)}}
	tests := []struct {
		name string
		args []string
		want *api.Decision
	}{
		{"None", []string{"7f3a91"}, nil},
		{"Approve", []string{"7f3a91", "--approve"}, &api.Decision{Approve: true, ExpectDigest: hashA}},
		{"ByApproval", []string{"52e3", "--approve", "--expect-digest", "d"}, &api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: "d"}},
		{"Checkpoint", []string{"7f3a91", "--deny", "--checkpoint", "52e3", "--reason", "no"}, &api.Decision{Checkpoint: appB, ExpectDigest: hashA, Reason: "no"}},
		{"DenyAbort", []string{"7f3a91", "--deny", "--abort"}, &api.Decision{ExpectDigest: hashA, Abort: true}},
		{"AllOfType", []string{"7f3a91", "--approve", "--all-of-type", "dependency"}, &api.Decision{Approve: true, Checkpoint: appA, ExpectDigest: hashA}},
		{"NoneOfType", []string{"7f3a91", "--approve", "--all-of-type", "layer"}, &api.Decision{Approve: true, AllOfType: core.ApproveLayer}},
		{"RunAgain", []string{"7f3a91", "--answer", "run-again"}, &api.Decision{Approve: true, ExpectDigest: hashA, Answer: &core.Answer{InDoubt: core.RunAgain}}},
		{"Skip", []string{"7f3a91", "--answer", "skip", "--result", `{"a":1}`},
			&api.Decision{Approve: true, ExpectDigest: hashA, Answer: &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"a":1}`)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &shell{fake: &fake{workflow: both, pending: both.Approvals}}
			s.run(append([]string{"continue"}, tt.args...)...).want(t, 0)
			if diff := cmp.Diff(tt.want, s.fake.went[0].Decision); diff != "" {
				t.Error(diff)
			}
			if s.fake.went[0].ID != runA {
				t.Errorf("id %s", s.fake.went[0].ID)
			}
		})
	}
}

func TestContinue_OthersWait(t *testing.T) {
	t.Parallel()
	// On a terminal, too: a decision on the command line is the only one taken.
	s := &shell{tty: true, stdin: "y\ny\n", fake: &fake{results: []api.Result{waiting(permission(core.RiskLow))}}}
	s.run("continue", "7f3a91", "--approve").want(t, 8)
	if len(s.fake.went) != 1 {
		t.Errorf("%d decisions", len(s.fake.went))
	}
}

func TestContinue_UnknownIDs(t *testing.T) {
	t.Parallel()
	f := &fake{runs: []core.Run{{ID: runA}}}
	(&shell{fake: f}).run("continue", "7f3a91c3").want(t, 3).has(t, "err", "did you mean 7f3a91c2", "next: pml workflows ls")
	(&shell{}).run("continue", "7f3a").want(t, 3).has(t, "err", "beginning of 2 ids")
	(&shell{fake: &fake{workflow: core.Workflow{Run: core.Run{ID: runA}}}}).run("continue", "@latest", "--approve", "--checkpoint", "beef").want(t, 3)
}

func TestExit_ResultStatuses(t *testing.T) {
	t.Parallel()
	tests := map[api.Status]int{
		api.StatusSuccess: 0, api.StatusComplete: 0, api.StatusLayerComplete: 8, api.StatusApprovalRequired: 8,
		api.StatusAwaitingHuman: 8, api.StatusAborted: 10, api.StatusRunning: 124,
	}
	for st, code := range tests {
		t.Run(string(st), func(t *testing.T) {
			t.Parallel()
			s := &shell{fake: &fake{results: []api.Result{{Status: st, WorkflowID: runA}}}}
			s.run("execute", "--code", "x").want(t, code)
		})
	}
}

func TestReport_Dropped(t *testing.T) {
	t.Parallel()
	r := api.Result{Status: api.StatusAborted, WorkflowID: runA, Dropped: []core.Dropped{{TaskID: "c2", Tool: "a:ask"}, {TaskID: "c3", Tool: "a:write", MayHaveRun: true}}}
	for _, flags := range [][]string{nil, {"--json"}} {
		s := &shell{fake: &fake{results: []api.Result{r}}}
		s.run(append([]string{"execute", "--code", "x"}, flags...)...).want(t, 10).
			has(t, "err", "dropped: c2 a:ask was not called", "dropped: c3 a:write may have run")
	}
}

// What the plan of a DAG warns of is said when it runs: on stderr, in the result for
// programs, and once, also after a decision.
func TestExecute_Warnings(t *testing.T) {
	t.Parallel()
	warned := waiting(permission(core.RiskMedium))
	warned.Warnings = []core.PlanNote{{Message: "task b: \"$a.x\" is passed as it is", CallID: "b"}}
	f := func() *fake {
		return &fake{results: []api.Result{warned, {Status: api.StatusComplete, WorkflowID: runA, Result: json.RawMessage(`"done"`)}}}
	}
	s := (&shell{tty: true, stdin: "y\n", fake: f()}).run("execute", "--code", "x").want(t, 0)
	if n := strings.Count(s.err, "warning: task b: \"$a.x\" is passed as it is\n"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.err)
	}
	(&shell{fake: f()}).run("execute", "--code", "x", "--json").want(t, 8).
		has(t, "out", `"warnings": [`, `"call_id": "b"`)
}

func TestExit_Signal(t *testing.T) {
	t.Parallel()
	for _, code := range []int{130, 143} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(app.Signal{Code: code})
		f := &fake{block: true, events: []core.Event{{Seq: 1, Type: core.EventWorkflowStart, RunID: runA}}}
		s := &shell{ctx: ctx, fake: f}
		s.run("execute", "--code", "x").want(t, code).has(t, "err", "next: pml continue 7f3a91c2", "not aborted")
		if f.closed != 1 {
			t.Error("not closed")
		}
		// Who only watches interrupts nothing.
		f = manyRuns()
		f.workflow = core.Workflow{Run: core.Run{ID: runA, State: core.RunRunning}}
		(&shell{ctx: ctx, fake: f}).run("wf", "watch", "7f3a91").want(t, code).
			has(t, "err", "stopped watching; the run 7f3a91c2 goes on", "next: pml workflows watch 7f3a91c2\n")
	}
}

// A run of the server goes on without the command that was interrupted, and is said to.
func TestExit_SignalAtServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(app.Signal{Code: 130})
	for state, says := range map[core.RunState][2]string{
		core.RunRunning:  {"the run 7f3a91c2 is the server's and goes on there", "next: pml workflows watch 7f3a91c2\n"},
		core.RunWaiting:  {"where it waits for a decision and goes on by itself after it", "next: pml approve 7f3a91c2\n"},
		core.RunComplete: {"the run 7f3a91c2 of the server is complete already", "next: pml workflows show 7f3a91c2\n"},
	} {
		f := &fake{block: true, events: []core.Event{{Seq: 1, Type: core.EventWorkflowStart, RunID: runA}}}
		f.workflow = core.Workflow{Run: core.Run{ID: runA, Side: core.SideServer, State: state}}
		s := (&shell{ctx: ctx, fake: f}).run("execute", "--code", "x").want(t, 130).has(t, "err", says[0], says[1])
		if strings.Contains(s.err, "kept") {
			t.Errorf("kept is no news of a run of the server:\n%s", s.err)
		}
	}
}

func TestExit_Timeout(t *testing.T) {
	t.Parallel()
	s := &shell{}
	s.run("events", "--follow", "--timeout", "1ms", "--json").want(t, 124).has(t, "err", `"exit":124`)
	// Who only watched has ended nothing.
	f := manyRuns()
	f.workflow = core.Workflow{Run: core.Run{ID: runA, State: core.RunRunning}}
	(&shell{fake: f}).run("wf", "watch", "7f3a91", "--timeout", "1ms").want(t, 124).
		has(t, "err", "--timeout 1ms ran out; the run 7f3a91c2 was only watched, and goes on", "next: pml workflows watch 7f3a91c2\n")
}

func TestExit_OpenFails(t *testing.T) {
	t.Parallel()
	s := &shell{openErr: core.Errorf(core.CodeInvalidConfig, "bad .pml.json")}
	s.run("wf", "ls").want(t, 13)
	s = &shell{openErr: errors.New("boom")}
	s.run("wf", "ls").want(t, 1).has(t, "err", "next: pml doctor")
}
