package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// constants returns the values of the string constants of a type in a file.
func constants(t *testing.T, file, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == typ {
			s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return true
	})
	if len(out) < 5 {
		t.Fatalf("%s has only %d constants of type %s", file, len(out), typ)
	}
	return out
}

func TestExit_TablesAreComplete(t *testing.T) {
	t.Parallel()
	for _, c := range constants(t, "../core/errors.go", "Code") {
		if _, ok := app.ExitCodes[core.Code(c)]; !ok {
			t.Errorf("error code %s has no exit code", c)
		}
	}
	for _, s := range constants(t, "../core/api/api.go", "Status") {
		if _, ok := app.StatusCodes[api.Status(s)]; !ok {
			t.Errorf("status %s has no exit code", s)
		}
	}
}

func TestExit_EveryErrorCode(t *testing.T) {
	t.Parallel()
	for code, exit := range app.ExitCodes {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			e := core.Errorf(code, "it is \x1b[31mred").WithRun(runA)
			(&shell{fake: &fake{errs: []error{e}}}).run("execute", "--code", "x").want(t, exit).has(t, "err", `error: it is \x1b[31mred`)
			r := api.Result{Status: api.StatusError, WorkflowID: runA, Error: "it broke", ErrorCode: code, Location: &core.Position{Line: 3, Column: 7}}
			ran := exit
			if exit == 2 || exit == 3 || exit == 13 { // these say that nothing was run
				ran = 1
			}
			s := (&shell{fake: &fake{results: []api.Result{r}}}).run("execute", "--code", "x", "--json").want(t, ran).has(t, "out", `"status": "error"`)
			var body struct {
				Error struct {
					Code       core.Code      `json:"code"`
					Exit       int            `json:"exit"`
					Location   *core.Position `json:"location"`
					WorkflowID core.ID        `json:"workflow_id"`
				} `json:"error"`
			}
			if err := json.Unmarshal([]byte(s.err), &body); err != nil {
				t.Fatalf("%v: %s", err, s.err)
			}
			if body.Error.Code != code || body.Error.Exit != ran || body.Error.Location == nil || body.Error.WorkflowID != runA {
				t.Errorf("%+v", body)
			}
		})
	}
}

func TestError_AllThatIsWrong(t *testing.T) {
	t.Parallel()
	r := api.Result{
		Status: api.StatusError, WorkflowID: runA, Error: "2 tasks failed", ErrorCode: core.CodeToolFailed,
		Failures: []core.Failure{{TaskID: "a", Tool: "x:y", Error: "no"}, {TaskID: "b", Tool: "x:z", Error: "nor this"}},
		Location: &core.Position{Line: 3, Column: 7}, Stack: "at f (3:7)\nat main (9:1)",
	}
	file := write(t, "s.ts", "x")
	s := (&shell{fake: &fake{results: []api.Result{r}}}).run("execute", file).want(t, 1)
	want := "error: 2 tasks failed\n  at " + file + ":3:7\n  a (x:y): no\n  b (x:z): nor this\n  at f (3:7)\n  at main (9:1)\nnext: pml retry 7f3a91c2\n"
	if diff := cmp.Diff(want, s.err); diff != "" {
		t.Error(diff)
	}
}

func manyRuns() *fake {
	f := &fake{pending: []core.Approval{dependency(), permission(core.RiskHigh)}}
	for i, intent := range []string{"日本語のテスト", "e\u0301clair \x1b]0;x\x07", "a long label that does not fit into a narrow window at all"} {
		f.runs = append(f.runs, core.Run{
			ID: []core.ID{runA, runB, runA}[i], State: []core.RunState{core.RunWaiting, core.RunComplete, core.RunInterrupted}[i],
			Kind: core.KindCode, Intent: intent, CreatedAt: at.Add(-time.Duration(i) * time.Hour), TotalLayers: 3, CurrentLayer: i,
		})
	}
	return f
}

func TestTable_Golden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		tty   bool
		width int
		args  []string
		want  string
	}{
		{"Pipe", false, 40, []string{"wf", "ls"}, `NAME                                                        RUN       STATE        LAYER    AGE    BY  WORKSPACE
日本語のテスト                                              7f3a91c2  waiting      step 1   0s
éclair \x1b]0;x\x07                                         7f3a80aa  complete     3 steps  1h00m
a long label that does not fit into a narrow window at all  7f3a91c2  interrupted  step 3   2h00m
`},
		{"Narrow", true, 52, []string{"wf", "ls"}, `NAME                    RUN       STATE        AGE
日本語のテスト          7f3a91c2  waiting      0s
éclair \x1b]0;x\x07     7f3a80aa  complete     1h00m
a long label that doe…  7f3a91c2  interrupted  2h00m
`},
		{"Approvals", false, 0, []string{"approvals", "ls"}, `APPROVAL  RISK    EXPIRES  NAME        WHAT                             RUN       TYPE             STATE  TOOL
52e3f18c  high    59s      nightly.ts  write a\x1b[31m\u{202e}txt       7f3a91c2  tool_permission  open   fs:write
41d2e07b  medium  5m00s                dependency filesystem:read_file  7f3a91c2  dependency       open   filesystem:read_file
`},
		{"YAML", false, 0, []string{"config", "show", "-o", "yaml"}, `version: 1
permissions:
  allow:
    - "a:b"
"n": 12345678901234567890
`},
		{"Plan", false, 0, []string{"plan", "--code", "x"}, `layer 1
  c1  fs:read  2:7
layer 2
  c2  fs:write    after c1 (data); perhaps; gate tool_permission: not in permissions.allow
tools: fs:read, fs:write
not known 4:1: how often the loop runs
`},
		{"Version", false, 0, []string{"version"}, "pml 1.2.3 (abc, go1.26)\n"},
		{"VersionFlag", false, 0, []string{"--version"}, "pml 1.2.3 (abc, go1.26)\n"},
		{"VersionJSON", false, 0, []string{"version", "--json"}, "{\n  \"version\": \"1.2.3\",\n  \"commit\": \"abc\",\n  \"go\": \"go1.26\"\n}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{fake: manyRuns(), tty: tt.tty, width: tt.width}).run(tt.args...).want(t, 0)
			if diff := cmp.Diff(strings.ReplaceAll(tt.want, "\u00e9", "e\u0301"), s.out); diff != "" {
				t.Error(diff)
			}
			if strings.HasPrefix(tt.name, "Version") && s.opened > 0 {
				t.Error("version opened the backend")
			}
		})
	}
}

func TestList_JSON(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: manyRuns()}).run("wf", "ls", "--state", "waiting", "--json").want(t, 0)
	var page api.Page[core.Run]
	if err := json.Unmarshal([]byte(s.out), &page); err != nil || len(page.Items) != 1 || page.Items[0].ID != runA {
		t.Errorf("%v: %s", err, s.out)
	}
	s = (&shell{}).run("wf", "ls", "-o", "json").want(t, 0)
	if diff := cmp.Diff("{\n  \"items\": []\n}\n", s.out); diff != "" {
		t.Error(diff)
	}
	s = (&shell{fake: manyRuns()}).run("wf", "ls", "-o", "jsonl").want(t, 0)
	if n := strings.Count(s.out, "\n"); n != 3 {
		t.Errorf("%d lines", n)
	}
	s = (&shell{}).run("wf", "ls").want(t, 0).has(t, "err", "no runs")
	if s.out != "" {
		t.Errorf("stdout %q", s.out)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	at, layer := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 0
	task := func(typ core.EventType, id string, after time.Duration, msg string) core.Event {
		return core.Event{Type: typ, RunID: runA, TaskID: id, Tool: "a:b", Layer: &layer, At: at.Add(after), Message: msg}
	}
	failed := task(core.EventTaskError, "c2", 9*time.Millisecond, "")
	failed.Error = core.Errorf(core.CodeToolFailed, "no\x1b[2J")
	events := []core.Event{
		{Type: core.EventWorkflowStart, RunID: runA},
		task(core.EventTaskStart, "c1", 0, ""),
		task(core.EventTaskStart, "c2", time.Millisecond, ""),
		{Type: core.EventTaskLog, RunID: runA, Message: "hi\x1b[2J"},
		failed,
		task(core.EventTaskComplete, "c1", 12*time.Millisecond, ""),
		task(core.EventTaskComplete, "c3", 12*time.Millisecond, "skipped"),
		{Type: core.EventCheckpoint, RunID: runA, Layer: &layer},
		{Type: core.EventWorkflowComplete, RunID: runA},
	}
	run := func(tty bool, env map[string]string, args ...string) string {
		s := &shell{tty: tty, env: env, fake: &fake{events: events}}
		return s.run(append([]string{"execute", "--code", "x"}, args...)...).want(t, 0).err
	}
	want := "0s  run 7f3a91c2 started\ntasks 0/2  0s  log: hi\\x1b[2J\n" +
		"tasks 1/2  0s  c2 a:b failed: no\\x1b[2J\ntasks 3/3  0s  layer 1: 2 calls done in 12ms, 1 failed, 1 skipped\n"
	if diff := cmp.Diff(want, run(false, nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, run(true, map[string]string{"TERM": "dumb"})); diff != "" {
		t.Error(diff)
	}
	tty := run(true, nil)
	if strings.Contains(tty, "0/0") || !strings.Contains(tty, "\rlayer 1  tasks 3/3  0s") || !strings.HasSuffix(tty, "\r") || strings.Count(tty, "\n") != 1 {
		t.Errorf("on a terminal: %q", tty)
	}
	for _, args := range [][]string{{"--quiet"}, {"--json"}} {
		if got := run(false, nil, args...); got != "" {
			t.Errorf("%v: %q", args, got)
		}
	}
}

// TestProgress_GoesOn: what a run has done before it was interrupted, or failed, counts.
func TestProgress_GoesOn(t *testing.T) {
	t.Parallel()
	next := 1
	task := func(typ core.EventType, id string) core.Event {
		return core.Event{Type: typ, RunID: runA, TaskID: id, Tool: "a:b", Layer: &next}
	}
	w := core.Workflow{
		Run:    core.Run{ID: runA, Kind: core.KindCode, State: core.RunInterrupted},
		Layers: []core.Layer{{Tasks: []core.Task{{ID: "c1", State: core.TaskSuccess}}}, {Index: 1, Tasks: []core.Task{{ID: "c2", State: core.TaskError}, {ID: "c3"}}}},
	}
	for _, command := range []string{"continue", "retry"} {
		f := &fake{workflow: w, wentOn: []core.Event{
			task(core.EventTaskStart, "c2"), task(core.EventTaskStart, "c3"), task(core.EventTaskLog, ""), task(core.EventTaskComplete, "c2"), task(core.EventTaskComplete, "c3"),
			{Type: core.EventWorkflowComplete, RunID: runA},
		}}
		(&shell{fake: f}).run(command, "7f3a91").want(t, 0).has(t, "err", "tasks 1/3  0s  log", "tasks 3/3  0s  layer 2")
	}
}

// TestProgress_ManyLayers: a run of a thousand layers does not write a thousand
// lines where nothing is redrawn.
func TestProgress_ManyLayers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var events []core.Event
	for i := range 1000 {
		for _, typ := range []core.EventType{core.EventTaskStart, core.EventTaskError, core.EventCheckpoint} {
			e := core.Event{Type: typ, RunID: runA, Layer: &i, At: at.Add(time.Duration(i) * time.Millisecond)}
			if typ != core.EventCheckpoint {
				e.TaskID, e.Tool = fmt.Sprintf("c%d", i), "a:b"
			}
			events = append(events, e)
		}
	}
	events = append(events, core.Event{Type: core.EventWorkflowComplete, RunID: runA})
	s := (&shell{fake: &fake{events: events}}).run("execute", "--code", "x").want(t, 0)
	if n := strings.Count(s.err, "\n"); n > 45 {
		t.Errorf("%d lines", n)
	}
	s.has(t, "err", "tasks 1000/1000  0s  layers 21-1000: 980 calls done in 979ms, 980 failed", "further failures are counted only")
}

func TestHelp_EveryCommand(t *testing.T) {
	t.Parallel()
	var walk func(c *cobra.Command)
	n := 0
	walk = func(c *cobra.Command) {
		n++
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s lacks Short, Long or Example", c.CommandPath())
		}
		s := (&shell{}).run(append(strings.Fields(c.CommandPath())[1:], "--help")...)
		s.want(t, 0)
		if c.Runnable() || c.HasSubCommands() { // others are pages of help
			s.has(t, "out", "Usage:", "Examples:")
		}
		if s.opened > 0 {
			t.Errorf("help of %s opened the backend", c.CommandPath())
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(cli.Root(app.Deps{Version: app.Version{Version: "1"}}))
	if n < 35 {
		t.Errorf("only %d commands", n)
	}
}

func TestMan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	(&shell{}).run("man", dir).want(t, 0)
	raw, err := os.ReadFile(dir + "/pml-execute.1")
	if err != nil || !bytes.Contains(raw, []byte(`.TH "PML" "1" "Mar 2026" "pml 1.2.3"`)) {
		t.Errorf("%v: %.200s", err, raw)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, sh := range []string{"bash", "zsh", "fish", "powershell"} {
		if s := (&shell{}).run("completion", sh).want(t, 0); len(s.out) < 500 || s.opened > 0 {
			t.Errorf("%s: %d bytes", sh, len(s.out))
		}
	}
	(&shell{}).run("completion", "fsh").want(t, 2).has(t, "err", "did you mean fish")
	(&shell{fake: manyRuns()}).run("__complete", "continue", "").want(t, 0).has(t, "out", "7f3a91c2\twaiting", "@latest")
	(&shell{}).run("__complete", "wf", "ls", "--state", "").want(t, 0).has(t, "out", "interrupted")
}
