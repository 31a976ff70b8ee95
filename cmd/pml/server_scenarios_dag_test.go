//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// chainOfPairs is a DAG of layers of two counted tasks; the names of the keys
// begin with a prefix.
func chainOfPairs(prefix string, layers int) []map[string]any {
	var tasks []map[string]any
	for l := range layers {
		var deps map[string]any
		if l > 0 {
			deps = after(fmt.Sprintf("a%d", l-1), fmt.Sprintf("b%d", l-1))
		}
		for _, side := range []string{"a", "b"} {
			id := fmt.Sprintf("%s%d", side, l)
			tasks = append(tasks, task(id, "rec:inc", fmt.Sprintf(`{"key":%q}`, prefix+"-"+id), deps))
		}
	}
	return tasks
}

// TestServerScenario11_AnyMix: workflows of five layers, validated layer by
// layer, pause four times and are continued each time by another of MCP,
// command line, HTTP and terminal, with a restart of the server between any
// two, by SIGTERM and by kill -9. Each task runs once.
//
// Scenario 11.
func TestServerScenario11_AnyMix(t *testing.T) {
	t.Parallel()
	const layers = 5
	onStores(t, allowRec(), func(t *testing.T, m *machine) {
		server := m.serving()
		web, tui := m.caller(""), m.caller("tui")
		means := []struct {
			name    string
			start   func(dag []map[string]any) api.Result
			proceed func(r api.Result, last bool) api.Result
		}{
			{
				"mcp", func(dag []map[string]any) api.Result {
					return web.agent("execute", map[string]any{"workflow": map[string]any{"tasks": dag}, "options": map[string]any{"per_layer_validation": true}})
				},
				func(r api.Result, _ bool) api.Result {
					if *r.LayerIndex%2 == 0 {
						return web.agent("execute", continues(r.WorkflowID))
					}
					return web.agent("approval_response", map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true})
				},
			},
			{
				"cli", func(dag []map[string]any) api.Result {
					return m.json(8, "execute", "--per-layer", "--detach", "--wait", "150s", m.dag("cli.json", dag...))
				},
				func(r api.Result, last bool) api.Result {
					if last {
						return m.json(0, "continue", string(r.WorkflowID), "--approve")
					}
					return m.json(8, "continue", string(r.WorkflowID), "--approve")
				},
			},
			{
				"http", func(dag []map[string]any) api.Result {
					return web.execute(api.ExecuteBody{Workflow: specs(t, dag), Options: &api.ExecuteOptions{PerLayer: true}})
				},
				func(r api.Result, _ bool) api.Result {
					return web.post("/workflows/"+string(r.WorkflowID)+"/continue", yes()).want(200).result()
				},
			},
			{
				"tui", func(dag []map[string]any) api.Result {
					return tui.execute(api.ExecuteBody{Workflow: specs(t, dag), Options: &api.ExecuteOptions{PerLayer: true}})
				},
				func(r api.Result, _ bool) api.Result {
					return tui.post("/workflows/"+string(r.WorkflowID)+"/approvals/"+string(r.CheckpointID),
						map[string]any{"approved": true, "wait": patience.Milliseconds()}).want(200).result()
				},
			},
		}
		runs := make([]api.Result, len(means))
		check := func(w, layer int, by string) {
			t.Helper()
			r := runs[w]
			if r.Status != api.StatusLayerComplete || r.LayerIndex == nil || *r.LayerIndex != layer || r.TotalLayers != layers || len(r.LayerResults) != 2 || r.CheckpointID == "" {
				t.Fatalf("workflow %d, layer %d by %s: %+v", w, layer, by, r)
			}
		}
		for w, by := range means {
			runs[w] = by.start(chainOfPairs(by.name, layers))
			check(w, 0, by.name)
		}
		for pause, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL} {
			server = m.restart(server, sig)
			for w := range runs {
				by := means[(w+pause)%len(means)]
				last := pause == layers-2
				runs[w] = by.proceed(runs[w], last)
				if !last {
					check(w, pause+1, by.name)
				} else if runs[w].Status != api.StatusComplete || runs[w].Totals == nil || runs[w].SuccessfulTasks != 2*layers {
					t.Errorf("the end of workflow %d by %s: %+v", w, by.name, runs[w])
				}
			}
			// No layer runs before it was let through.
			if got, want := m.count("inc"), 2*(pause+2)*len(runs); got != want {
				t.Errorf("%d calls after %d decisions each, want %d", got, pause+1, want)
			}
		}
		keys := map[string]int{}
		for _, key := range strings.Fields(m.keys()) {
			keys[key]++
		}
		for _, by := range means {
			for _, task := range chainOfPairs(by.name, layers) {
				if key := by.name + "-" + task["id"].(string); keys[key] != 1 {
					t.Errorf("%s ran %d times", key, keys[key])
				}
			}
		}
		for w, r := range runs {
			var via []string
			run := web.workflow(r.WorkflowID)
			for _, ap := range run.Approvals {
				if ap.DecidedBy != nil {
					via = append(via, string(ap.DecidedBy.Via))
				}
			}
			slices.Sort(via)
			if diff := cmp.Diff([]string{"cli", "http", "mcp", "tui"}, via); diff != "" {
				t.Errorf("workflow %d was decided by (-want +got):\n%s", w, diff)
			}
			if n := len(run.Layers); n != layers {
				t.Errorf("workflow %d has %d layers", w, n)
			}
		}
	})
}

// TestServerScenario14_Replan: tasks that are added to a paused workflow, over
// HTTP, at /mcp and by the command line, run with the next continue; one whose
// layer has passed gets a later one; nothing done is done again.
//
// Scenario 14.
func TestServerScenario14_Replan(t *testing.T) {
	t.Parallel()
	onStores(t, allowRec(), func(t *testing.T, m *machine) {
		m.serving()
		web := m.caller("")
		for how, replan := range map[string]func(id core.ID, tasks []map[string]any) api.Result{
			"http": func(id core.ID, tasks []map[string]any) api.Result {
				return web.post("/workflows/"+string(id)+"/replan", api.ReplanBody{NewTasks: specs(t, tasks).Tasks}).want(200).result()
			},
			"mcp": func(id core.ID, tasks []map[string]any) api.Result {
				return web.agent("replan", map[string]any{"workflow_id": id, "new_tasks": tasks})
			},
			"cli": func(id core.ID, tasks []map[string]any) api.Result {
				return m.json(0, "replan", string(id), "--tasks", m.dag("add.json", tasks...))
			},
		} {
			key := func(id string) string { return fmt.Sprintf(`{"key":%q}`, how+"-"+id) }
			r := web.execute(api.ExecuteBody{Options: &api.ExecuteOptions{PerLayer: true}, Workflow: specs(t, []map[string]any{
				task("a", "rec:inc", key("a"), nil), task("b", "rec:inc", key("b"), after("a")), task("c", "rec:inc", key("c"), after("b")),
			})})
			id := r.WorkflowID
			proceed := func() api.Result { return web.post("/workflows/"+string(id)+"/continue", yes()).want(200).result() }
			ran := func() string {
				var out []string
				for _, k := range strings.Fields(m.keys()) {
					if name, ok := strings.CutPrefix(k, how+"-"); ok {
						out = append(out, name)
					}
				}
				slices.Sort(out)
				return strings.Join(out, " ")
			}
			asked := proceed()
			add := []map[string]any{task("n1", "rec:inc", key("n1"), nil), task("n2", "rec:inc", `{"key":"${n1.key}+"}`, nil)}
			if r = replan(id, add); r.Status != api.StatusReplanned || r.NewTasksCount != 2 || r.TotalTasks != 5 || !slices.Equal(r.NewTaskIDs, []string{"n1", "n2"}) {
				t.Errorf("%s: %+v", how, r)
			}
			web.post("/workflows/"+string(id)+"/replan", api.ReplanBody{NewTasks: specs(t, add).Tasks}).problem(http.StatusUnprocessableEntity, core.CodeDAGInvalid)
			if got := ran(); got != "a b" {
				t.Errorf("%s: a replan ran something: %s", how, got)
			}
			// What was asked before is not asked any more.
			old := "/workflows/" + string(id) + "/approvals/" + string(asked.CheckpointID)
			web.post(old, map[string]any{"approved": true}).problem(http.StatusConflict, core.CodeNotWaiting)
			r = web.post("/workflows/"+string(id)+"/continue", map[string]any{"wait": patience.Milliseconds()}).want(200).result()
			if r.NextLayer == nil || len(r.NextLayer.Tasks) != 2 {
				t.Errorf("%s: asked anew: %+v", how, r.NextLayer)
			}
			proceed()
			if got := ran(); got != "a b c n1" {
				t.Errorf("%s: calls after the first continue: %s", how, got)
			}
			if r = proceed(); r.Status != api.StatusComplete {
				t.Errorf("%s: the end: %+v", how, r)
			}
			if got := ran(); got != "a b c n1 n1+" {
				t.Errorf("%s: all calls: %s", how, got)
			}
			layers := map[string]int{}
			for id, task := range tasksOf(web.workflow(id)) {
				layers[id] = task.Layer
			}
			if diff := cmp.Diff(map[string]int{"a": 0, "b": 1, "c": 2, "n1": 2, "n2": 3}, layers); diff != "" {
				t.Errorf("%s: layers (-want +got):\n%s", how, diff)
			}
		}
	})
}

// TestServerScenario15_Failures: dependants of a failed task do not run,
// independent ones do; every failure is listed over HTTP, at /mcp and on the
// command line, which ends with exit 1; safe_to_fail goes on.
//
// Scenario 15.
func TestServerScenario15_Failures(t *testing.T) {
	t.Parallel()
	onStores(t, allowRec(), func(t *testing.T, m *machine) {
		m.serving()
		web := m.caller("")
		dag := []map[string]any{
			task("bad", "rec:fail", `{"message":"first"}`, nil), task("worse", "rec:fail", `{"message":"second"}`, nil),
			task("never", "rec:inc", `{"key":"never"}`, after("bad")), task("nor", "rec:inc", `{"key":"nor"}`, after("never")),
			task("free", "rec:inc", `{"key":"free"}`, nil),
			task("safe", "rec:fail", `{"message":"third"}`, map[string]any{"safe_to_fail": true}),
			task("on", "rec:inc", `{"key":"on"}`, after("safe", "free")),
		}
		file := m.dag("dag.json", dag...)
		want := map[string]string{
			"bad": "error", "worse": "error", "never": "skipped", "nor": "skipped", "free": "success", "safe": "failed_safe", "on": "success",
		}
		for how, run := range map[string]func() api.Result{
			"http": func() api.Result { return web.execute(api.ExecuteBody{Workflow: specs(t, dag)}) },
			"mcp": func() api.Result {
				return web.agent("execute", map[string]any{"workflow": map[string]any{"tasks": dag}})
			},
			"cli": func() api.Result { return m.json(1, "execute", file, "--detach", "--wait", "150s") },
		} {
			r := run()
			var failed []string
			for _, f := range r.Failures {
				failed = append(failed, f.TaskID+": "+f.Error)
			}
			slices.Sort(failed)
			if diff := cmp.Diff([]string{"bad: first", "worse: second"}, failed); diff != "" || r.Status != api.StatusError || r.ErrorCode != core.CodeToolFailed {
				t.Errorf("%s: %s %s, failures (-want +got):\n%s", how, r.Status, r.ErrorCode, diff)
			}
			w := web.workflow(r.WorkflowID)
			if diff := cmp.Diff(want, states(w)); diff != "" || w.State != core.RunFailed {
				t.Errorf("%s: %s, states (-want +got):\n%s", how, w.State, diff)
			}
		}
		keys := strings.Fields(m.keys())
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != "free free free on on on" {
			t.Errorf("calls %s", got)
		}
		wants(t, m.exit(1, "execute", file, "--detach", "--wait", "150s").Stderr, "first", "second", "2 of 7 tasks failed")
	})
}

// TestServerScenario17_Large: a wide layer, a deep chain, a DAG of 10,000 tasks
// and a reference into an array of a large result, over HTTP; a request beyond
// the limit is refused whole. PML_TEST_TASKS makes the largest DAG larger; with
// the race detector it is smaller.
//
// Scenario 17.
func TestServerScenario17_Large(t *testing.T) {
	t.Parallel()
	width := 1000
	if n, err := strconv.Atoi(os.Getenv("PML_TEST_TASKS")); err == nil {
		width = n / 10
	} else if testing.Short() || raceEnabled {
		width = 200
	}
	onStores(t, allowRec(), func(t *testing.T, m *machine) {
		m.serving()
		web := m.caller("")
		for _, c := range []struct {
			name          string
			layers, width int
		}{{"wide", 1, 1000}, {"deep", 1000, 1}, {"many", 10, width}} {
			begin, tasks := time.Now(), c.layers*c.width
			r := web.execute(api.ExecuteBody{Workflow: specs(t, large(c.layers, c.width))})
			t.Logf("%d × %d tasks: %s", c.layers, c.width, time.Since(begin).Round(time.Millisecond))
			if r.DAG == nil || r.DAG.Tasks != tasks || r.DAG.Layers != c.layers || r.Totals == nil || r.SuccessfulTasks != tasks {
				t.Fatalf("%s: %s, %+v, %+v", c.name, r.Status, r.DAG, r.Totals)
			}
		}
		dag := []map[string]any{task("l", "rec:list", `{"n":100000}`, nil)}
		for i := range 200 {
			dag = append(dag, task(fmt.Sprintf("t%d", i), "rec:echo", fmt.Sprintf(`{"value":"$l[%d]"}`, 99_999-i), nil))
		}
		r := web.execute(api.ExecuteBody{Workflow: specs(t, dag)})
		var out map[string]struct {
			Value int `json:"value"`
		}
		if err := json.Unmarshal(r.Result, &out); err != nil || len(out) != 200 || out["t7"].Value != 99_992 {
			t.Errorf("%v: %d results, t7 = %d", err, len(out), out["t7"].Value)
		}

		before := len(m.calls())
		const limit = 10 << 20
		// The length that is said is enough to be refused.
		rec, _ := daemon.ReadRecord(m.Home)
		conn, err := net.Dial("unix", rec.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /api/v1/workflows HTTP/1.1\r\nHost: pml\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", limit+1)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d for a length over the limit", resp.StatusCode)
		}
		// Where none is said the bytes are counted.
		raw, err := json.Marshal(api.ExecuteBody{Workflow: specs(t, []map[string]any{task("t", "rec:echo", `{"value":"`+strings.Repeat("x", limit)+`"}`, nil)})})
		if err != nil {
			t.Fatal(err)
		}
		p := web.post("/workflows", struct{ io.Reader }{bytes.NewReader(raw)}).problem(http.StatusRequestEntityTooLarge, core.CodeInvalidArguments)
		wants(t, p.Detail, "larger than")
		if n := len(m.calls()); n != before {
			t.Errorf("%d calls of a request that was refused", n-before)
		}
	})
}

// TestServerScenario18_Abort: a workflow that is aborted over HTTP, at /mcp and
// by the command line while a task runs has the task cancelled upstream, is
// aborted, and keeps what was done.
//
// Scenario 18.
func TestServerScenario18_Abort(t *testing.T) {
	t.Parallel()
	onStores(t, allowRec(), func(t *testing.T, m *machine) {
		m.serving()
		web := m.caller("")
		n := 0
		for how, abort := range map[string]func(id core.ID) api.Result{
			"http": func(id core.ID) api.Result {
				return web.post("/workflows/"+string(id)+"/abort", api.AbortBody{Reason: "enough"}).want(200).result()
			},
			"mcp": func(id core.ID) api.Result {
				return web.agent("abort", map[string]any{"workflow_id": id, "reason": "enough"})
			},
			"cli": func(id core.ID) api.Result { return m.json(0, "abort", string(id), "--reason", "enough") },
		} {
			id := web.post("/workflows", api.ExecuteBody{Workflow: specs(t, []map[string]any{
				task("done", "rec:inc", fmt.Sprintf(`{"key":%q}`, how), nil),
				task("slow", "rec:slow", `{"ms":600000}`, after("done")), task("later", "rec:inc", `{"key":"later"}`, after("slow")),
			})}).want(http.StatusAccepted).result().WorkflowID
			open := make(chan answer, 1) // whoever waits for it is told
			go func() {
				open <- web.post("/workflows/"+string(id)+"/continue", map[string]any{"wait": patience.Milliseconds()})
			}()
			n++
			waitFor(t, "the slow task runs", func() bool { return m.count("slow") == n })
			if r := abort(id); r.Status != api.StatusAborted || r.Reason != "enough" {
				t.Errorf("%s: %+v", how, r)
			}
			waitFor(t, "the call was cancelled upstream", func() bool { return m.events("slow", "cancelled") == n })
			if r := (<-open).want(200).result(); r.Status != api.StatusAborted || r.Reason != "enough" {
				t.Errorf("%s: who waited was told %+v", how, r)
			}
			w := web.workflow(id)
			tasks := tasksOf(w)
			if w.State != core.RunAborted || tasks["done"].State != core.TaskSuccess || len(tasks["done"].Output) == 0 || tasks["later"].State != core.TaskSkipped {
				t.Errorf("%s: %s %+v", how, w.State, tasks)
			}
			if o := m.exit(10, "workflows", "result", string(id)); o.Stdout != "" {
				t.Errorf("%s: result %q", how, o.Stdout)
			}
			web.post("/workflows/"+string(id)+"/continue", yes()).problem(http.StatusConflict, core.CodeNotWaiting)
		}
		if got := len(strings.Fields(m.keys())); got != n {
			t.Errorf("%d tasks ran, want %d", got, n)
		}
	})
}
