//go:build unix

package execute_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// Scenario 14: replan adds tasks while paused; the next continue runs them;
// tasks whose layer has passed are placed in a later one; nothing done is done
// again.
func TestReplan_WhilePaused(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.DAG("dag.json", pmltest.Task("a", "rec:inc", `{"key":"a"}`, nil),
		pmltest.Task("b", "rec:inc", `{"key":"b"}`, pmltest.After("a")), pmltest.Task("c", "rec:inc", `{"key":"c"}`, pmltest.After("b")))
	r := m.JSON(8, "execute", "--per-layer", file)
	if r.Status != api.StatusLayerComplete || r.LayerIndex == nil || *r.LayerIndex != 0 {
		t.Fatalf("the first pause: %+v", r)
	}
	id := string(r.WorkflowID)
	m.JSON(8, "continue", id, "--approve")

	// n1 waits for nothing: its own layer, the first, has passed.
	add := m.DAG("add.json", pmltest.Task("n1", "rec:inc", `{"key":"n1"}`, nil), pmltest.Task("n2", "rec:inc", `{"key":"$n1.key"}`, nil))
	if r = m.JSON(0, "replan", id, "--tasks", add); r.Status != api.StatusReplanned || r.NewTasksCount != 2 || r.TotalTasks != 5 {
		t.Errorf("replan: %+v", r)
	}
	m.Exit(13, "replan", id, "--tasks", add)
	if got := m.IncKeys(); got != "a b" {
		t.Errorf("a replan ran something: %q", got)
	}
	if f := m.Exit(12, "continue", id, "--approve", "--json").Fault(); f.Code != core.CodeNotWaiting || len(f.Next) < 2 || f.Next[1] != "continue" {
		t.Errorf("a yes to what was asked before: %+v", f)
	}
	if r = m.JSON(8, "continue", id); r.NextLayer == nil || len(r.NextLayer.Tasks) != 2 {
		t.Errorf("asked anew: %+v", r.NextLayer)
	}
	r = m.JSON(8, "continue", id, "--approve")
	if got := m.IncKeys(); got != "a b c n1" && got != "a b n1 c" {
		t.Errorf("calls after the first continue: %q", got)
	}
	if r = m.JSON(0, "continue", id, "--approve"); r.Status != api.StatusComplete {
		t.Errorf("the end: %+v", r)
	}
	if got := m.IncKeys(); got != "a b c n1 n1" && got != "a b n1 c n1" {
		t.Errorf("all calls: %q", got)
	}
	tasks := pmltest.TasksOf(m.Workflow(r.WorkflowID))
	layers := map[string]int{}
	for id, task := range tasks {
		layers[id] = task.Layer
	}
	if diff := cmp.Diff(map[string]int{"a": 0, "b": 1, "c": 2, "n1": 2, "n2": 3}, layers); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

// Scenario 15: dependants of a failed task do not run, independent tasks do;
// status error, exit 1, every failure listed; safe_to_fail goes on.
func TestDAG_TaskFails(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.DAG("dag.json",
		pmltest.Task("bad", "rec:fail", `{"message":"first"}`, nil), pmltest.Task("worse", "rec:fail", `{"message":"second"}`, nil),
		pmltest.Task("never", "rec:inc", `{"key":"never"}`, pmltest.After("bad")), pmltest.Task("nor", "rec:inc", `{"key":"nor"}`, pmltest.After("never")),
		pmltest.Task("free", "rec:inc", `{"key":"free"}`, nil),
		pmltest.Task("safe", "rec:fail", `{"message":"third"}`, map[string]any{"safe_to_fail": true}),
		pmltest.Task("on", "rec:inc", `{"key":"on"}`, pmltest.After("safe", "free")))
	o := m.Exit(1, "execute", file, "--json")
	r := o.Result()
	var failed []string
	for _, f := range r.Failures {
		failed = append(failed, f.TaskID+": "+f.Error)
	}
	if r.Status != api.StatusError || r.ErrorCode != core.CodeToolFailed {
		t.Errorf("status %s, code %s", r.Status, r.ErrorCode)
	}
	less := strings.Join(failed, ", ")
	if less != "bad: first, worse: second" && less != "worse: second, bad: first" {
		t.Errorf("failures: %s", less)
	}
	if got := m.IncKeys(); got != "free on" {
		t.Errorf("calls: %q", got)
	}
	want := map[string]string{
		"bad": "error", "worse": "error", "never": "skipped", "nor": "skipped", "free": "success", "safe": "failed_safe", "on": "success",
	}
	if diff := cmp.Diff(want, pmltest.States(m.Workflow(r.WorkflowID))); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	// A person sees each failure too.
	o = m.Exit(1, "execute", file)
	for _, text := range []string{"first", "second", "third", "2 of 7 tasks failed"} {
		if !strings.Contains(o.Stderr, text) {
			t.Errorf("no %q in:\n%s", text, o.Stderr)
		}
	}
}

// Scenario 17: a wide layer, a deep chain, a DAG of 10,000 tasks, and a
// reference into an array of a large result. PML_TEST_TASKS makes the largest
// one larger; with the race detector it is smaller.
func TestDAG_Large(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "runs a graph of 1,000 tasks")
	width := 1000
	if n, err := strconv.Atoi(os.Getenv("PML_TEST_TASKS")); err == nil {
		width = n / 10
	} else if skiptest.Race {
		width = 200
	}
	for _, c := range []struct {
		name          string
		layers, width int
	}{{"Wide", 1, 1000}, {"Deep", 1000, 1}, {"Many", 10, width}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := pmltest.BareMachine(t)
			file := m.DAG("dag.json", pmltest.LargeDAG(c.layers, c.width)...)
			begin := time.Now()
			r := m.JSON(0, "execute", file)
			t.Logf("%d × %d tasks: %s", c.layers, c.width, time.Since(begin).Round(time.Millisecond))
			if r.DAG == nil || r.DAG.Tasks != c.layers*c.width || r.DAG.Layers != c.layers || r.SuccessfulTasks != c.layers*c.width {
				t.Errorf("summary: %+v of %d", r.DAG, r.SuccessfulTasks)
			}
		})
	}
	t.Run("ReferenceIntoArray", func(t *testing.T) {
		t.Parallel()
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		tasks := []map[string]any{pmltest.Task("l", "rec:list", `{"n":100000}`, nil)}
		for i := range 200 {
			tasks = append(tasks, pmltest.Task(fmt.Sprintf("t%d", i), "rec:echo", fmt.Sprintf(`{"value":"$l[%d]"}`, 99_999-i), nil))
		}
		begin := time.Now()
		r := m.JSON(0, "execute", m.DAG("dag.json", tasks...))
		t.Logf("200 references into 100,000 elements: %s", time.Since(begin).Round(time.Millisecond))
		var out map[string]struct {
			Value int `json:"value"`
		}
		if err := json.Unmarshal(r.Result, &out); err != nil || len(out) != 200 || out["t7"].Value != 99_992 {
			t.Errorf("%v: %d results, t7 = %d", err, len(out), out["t7"].Value)
		}
	})
}

// Scenario 18: abort during a running task: the task is cancelled upstream,
// the status is aborted, the partial results are there.
func TestAbort_DuringTask(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.DAG("dag.json", pmltest.Task("done", "rec:inc", `{"key":"done"}`, nil),
		pmltest.Task("slow", "rec:slow", `{"ms":600000}`, pmltest.After("done")), pmltest.Task("later", "rec:inc", `{"key":"later"}`, pmltest.After("slow")))
	p := m.Start("execute", file, "--json")
	pmltest.WaitFor(t, "the slow task runs", func() bool { return m.Count("slow") == 1 })
	if r := m.JSON(0, "abort", "@latest", "--reason", "enough"); r.Status != api.StatusAborted || r.Reason != "enough" {
		t.Errorf("abort: %+v", r)
	}
	r := p.Wait().Want(10).Result()
	if r.Status != api.StatusAborted || r.Reason != "enough" {
		t.Errorf("execute: %+v", r)
	}
	pmltest.WaitFor(t, "the call was cancelled upstream", func() bool { return m.Events("slow", "cancelled") == 1 })
	w := m.Workflow(r.WorkflowID)
	tasks := pmltest.TasksOf(w)
	if w.State != core.RunAborted || tasks["done"].State != core.TaskSuccess || string(tasks["done"].Output) == "" || tasks["later"].State != core.TaskSkipped {
		t.Errorf("afterwards: %s %+v", w.State, tasks)
	}
	m.Exit(10, "workflows", "result", string(r.WorkflowID))
	if got := m.IncKeys(); got != "done" {
		t.Errorf("calls: %q", got)
	}
}

// TestDAG_TaskKinds: conditions, retries, code tasks, interpolation and the
// input of a DAG.
func TestDAG_TaskKinds(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.Write("dag.yaml", `
tasks:
  - id: list
    tool: rec:list
    arguments: {n: 5}
  - {id: long, tool: rec:inc, arguments: {key: long}, depends_on: [list], when: "deps.list.output.length > 10"}
  - {id: short, tool: rec:inc, arguments: {key: short}, depends_on: [list], when: "deps.list.output.length < 10"}
  - {id: past, tool: rec:inc, arguments: {key: past}, depends_on: [long]}
  - {id: flaky, tool: rec:fail, retry: {max_attempts: 3, backoff_ms: 1}, safe_to_fail: true}
  - {id: sum, type: code, depends_on: [list, flaky], code: "return {sum: deps.list.output.reduce((a, b) => a + b, input.start), flaky: deps.flaky.status}"}
  - {id: text, tool: rec:echo, arguments: {value: "sum ${sum.sum} of $all", whole: "$sum"}}
`)
	r := m.JSON(0, "execute", file, "--input", `{"start":100}`)
	var out struct {
		Text struct{ Value string }
		Past any
	}
	if err := json.Unmarshal(r.Result, &out); err != nil || out.Text.Value != "sum 110 of $all" {
		t.Errorf("%v: %s", err, r.Result)
	}
	want := map[string]string{
		"list": "success", "long": "skipped", "short": "success", "past": "skipped", "flaky": "failed_safe", "sum": "success", "text": "success",
	}
	if diff := cmp.Diff(want, pmltest.States(m.Workflow(r.WorkflowID))); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if n := m.Count("fail"); n != 3 {
		t.Errorf("%d attempts of the flaky task", n)
	}
	if got := m.IncKeys(); got != "short" {
		t.Errorf("calls: %q", got)
	}
}

// TestHIL: which layers are asked about, of a DAG and of code that does the
// same: echo, then inc, then echo.
func TestHIL(t *testing.T) {
	t.Parallel()
	script := `const a = await mcp.rec.echo({value: 1}); await mcp.rec.inc({key: "k"}); return await mcp.rec.echo({value: a})`
	for i, c := range []struct {
		args []string
		asks []int // the layers asked about
	}{
		{[]string{"--hil", "always"}, []int{0, 1, 2}},
		{[]string{"--hil", "side_effects"}, []int{1}},
		{[]string{"--hil", "never"}, nil},
		{[]string{"--per-layer"}, []int{1, 2}},
	} {
		for j, kind := range []string{"DAG", "Code"} {
			t.Run(strings.TrimLeft(strings.Join(c.args, "_"), "-")+"/"+kind, func(t *testing.T) {
				t.Parallel()
				skiptest.Share(t, i+j, 2)
				m := pmltest.NewMachine(t, pmltest.AllowRec())
				args := append([]string{"execute", "--code", script}, c.args...)
				if kind == "DAG" {
					file := m.DAG("dag.json", pmltest.Task("a", "rec:echo", `{"value":1}`, nil), pmltest.Task("b", "rec:inc", `{"key":"k"}`, pmltest.After("a")),
						pmltest.Task("c", "rec:echo", `{"value":"$a"}`, pmltest.After("b")))
					args = append([]string{"execute", file}, c.args...)
				}
				r := m.PML(append(args, "--json")...).Result()
				var asked []int
				for r.Status == api.StatusLayerComplete || r.Status == api.StatusApprovalRequired {
					var about struct {
						Layer int `json:"layer_index"`
					}
					if err := json.Unmarshal(r.Context, &about); err != nil || r.ApprovalType != core.ApproveLayer {
						t.Fatalf("%v: %s %s", err, r.ApprovalType, r.Context)
					}
					asked = append(asked, about.Layer)
					if n := len(m.Calls()); n > about.Layer {
						t.Fatalf("%d calls before layer %d was approved", n, about.Layer)
					}
					r = m.PML("continue", string(r.WorkflowID), "--approve", "--json").Result()
				}
				if diff := cmp.Diff(c.asks, asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				if r.Status != api.StatusComplete && r.Status != api.StatusSuccess || len(m.Calls()) != 3 {
					t.Errorf("%s after %q", r.Status, m.Calls())
				}
			})
		}
	}
}

// TestHIL_LayerDenied: denying a layer aborts the run.
func TestHIL_LayerDenied(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, `await mcp.rec.inc({key: "k"})`, "--hil", "side_effects")
	if r = m.JSON(10, "continue", string(r.WorkflowID), "--deny"); r.Status != api.StatusAborted {
		t.Errorf("%+v", r)
	}
	if got := m.IncKeys(); got != "" {
		t.Errorf("calls: %q", got)
	}
}

// TestInterrupt_NothingStarted: a signal while a server is still being asked
// for its tools leaves no run behind.
func TestInterrupt_NothingStarted(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Configure(pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Servers: map[string]map[string]any{
		"rec": m.Rec(map[string]any{"args": []string{"--log", m.Log, "--start-delay", "10m"}}),
	}})
	p := m.Start("execute", "--code", `await mcp.rec.inc({key: "k"})`)
	pmltest.WaitFor(t, "the server runs", func() bool {
		return slices.ContainsFunc(pmltest.Descendants(t, p.Cmd.Process.Pid), func(pid int) bool {
			line, _ := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output() // none: it has ended
			return strings.Contains(string(line), "--start-delay")
		})
	})
	p.Signal(syscall.SIGINT)
	p.Wait().Want(130)
	if n := len(m.Runs()); n != 0 {
		t.Errorf("%d runs", n)
	}
}
