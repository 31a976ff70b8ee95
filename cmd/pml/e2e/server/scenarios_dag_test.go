//go:build unix

package server_test

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

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/skiptest"
)

// chainOfPairs is a DAG of layers of two counted tasks; the names of the keys
// begin with a prefix.
func chainOfPairs(prefix string, layers int) []map[string]any {
	var tasks []map[string]any
	for l := range layers {
		var deps map[string]any
		if l > 0 {
			deps = pmltest.After(fmt.Sprintf("a%d", l-1), fmt.Sprintf("b%d", l-1))
		}
		for _, side := range []string{"a", "b"} {
			id := fmt.Sprintf("%s%d", side, l)
			tasks = append(tasks, pmltest.Task(id, "rec:inc", fmt.Sprintf(`{"key":%q}`, prefix+"-"+id), deps))
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
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		server := m.Serving()
		web, tui := m.Caller(""), m.Caller("tui")
		means := []struct {
			name    string
			start   func(dag []map[string]any) api.Result
			proceed func(r api.Result, last bool) api.Result
		}{
			{
				"mcp", func(dag []map[string]any) api.Result {
					return web.Agent("execute", map[string]any{"workflow": map[string]any{"tasks": dag}, "options": map[string]any{"per_layer_validation": true}})
				},
				func(r api.Result, _ bool) api.Result {
					if *r.LayerIndex%2 == 0 {
						return web.Agent("execute", continues(r.WorkflowID))
					}
					return web.Agent("approval_response", map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true})
				},
			},
			{
				"cli", func(dag []map[string]any) api.Result {
					return m.JSON(8, "execute", "--per-layer", "--detach", "--wait", "150s", m.DAG("cli.json", dag...))
				},
				func(r api.Result, last bool) api.Result {
					if last {
						return m.JSON(0, "continue", string(r.WorkflowID), "--approve")
					}
					return m.JSON(8, "continue", string(r.WorkflowID), "--approve")
				},
			},
			{
				"http", func(dag []map[string]any) api.Result {
					return web.Execute(api.ExecuteBody{Workflow: specs(t, dag), Options: &api.ExecuteOptions{PerLayer: true}})
				},
				func(r api.Result, _ bool) api.Result {
					return web.Post("/workflows/"+string(r.WorkflowID)+"/continue", yes()).Want(200).Result()
				},
			},
			{
				"tui", func(dag []map[string]any) api.Result {
					return tui.Execute(api.ExecuteBody{Workflow: specs(t, dag), Options: &api.ExecuteOptions{PerLayer: true}})
				},
				func(r api.Result, _ bool) api.Result {
					return tui.Post("/workflows/"+string(r.WorkflowID)+"/approvals/"+string(r.CheckpointID),
						map[string]any{"approved": true, "wait": pmltest.Patience.Milliseconds()}).Want(200).Result()
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
			server = restartServer(m, server, sig)
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
			if got, want := m.Count("inc"), 2*(pause+2)*len(runs); got != want {
				t.Errorf("%d calls after %d decisions each, want %d", got, pause+1, want)
			}
		}
		keys := map[string]int{}
		for key := range strings.FieldsSeq(m.IncKeys()) {
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
			run := web.Workflow(r.WorkflowID)
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
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		web := m.Caller("")
		for how, replan := range map[string]func(id core.ID, tasks []map[string]any) api.Result{
			"http": func(id core.ID, tasks []map[string]any) api.Result {
				return web.Post("/workflows/"+string(id)+"/replan", api.ReplanBody{NewTasks: specs(t, tasks).Tasks}).Want(200).Result()
			},
			"mcp": func(id core.ID, tasks []map[string]any) api.Result {
				return web.Agent("replan", map[string]any{"workflow_id": id, "new_tasks": tasks})
			},
			"cli": func(id core.ID, tasks []map[string]any) api.Result {
				return m.JSON(0, "replan", string(id), "--tasks", m.DAG("add.json", tasks...))
			},
		} {
			key := func(id string) string { return fmt.Sprintf(`{"key":%q}`, how+"-"+id) }
			r := web.Execute(api.ExecuteBody{Options: &api.ExecuteOptions{PerLayer: true}, Workflow: specs(t, []map[string]any{
				pmltest.Task("a", "rec:inc", key("a"), nil), pmltest.Task("b", "rec:inc", key("b"), pmltest.After("a")), pmltest.Task("c", "rec:inc", key("c"), pmltest.After("b")),
			})})
			id := r.WorkflowID
			proceed := func() api.Result { return web.Post("/workflows/"+string(id)+"/continue", yes()).Want(200).Result() }
			ran := func() string {
				var out []string
				for k := range strings.FieldsSeq(m.IncKeys()) {
					if name, ok := strings.CutPrefix(k, how+"-"); ok {
						out = append(out, name)
					}
				}
				slices.Sort(out)
				return strings.Join(out, " ")
			}
			asked := proceed()
			add := []map[string]any{pmltest.Task("n1", "rec:inc", key("n1"), nil), pmltest.Task("n2", "rec:inc", `{"key":"${n1.key}+"}`, nil)}
			if r = replan(id, add); r.Status != api.StatusReplanned || r.NewTasksCount != 2 || r.TotalTasks != 5 || !slices.Equal(r.NewTaskIDs, []string{"n1", "n2"}) {
				t.Errorf("%s: %+v", how, r)
			}
			web.Post("/workflows/"+string(id)+"/replan", api.ReplanBody{NewTasks: specs(t, add).Tasks}).Problem(http.StatusUnprocessableEntity, core.CodeDAGInvalid)
			if got := ran(); got != "a b" {
				t.Errorf("%s: a replan ran something: %s", how, got)
			}
			// What was asked before is not asked any more.
			old := "/workflows/" + string(id) + "/approvals/" + string(asked.CheckpointID)
			web.Post(old, map[string]any{"approved": true}).Problem(http.StatusConflict, core.CodeNotWaiting)
			pmltest.WaitFor(t, "it pauses anew, before the layer with the new task", func() bool {
				return slices.ContainsFunc(web.Approvals(""), func(a core.Approval) bool {
					return a.RunID == id && a.State == core.ApprovalOpen && strings.Contains(string(a.Context), `"n1"`)
				})
			})
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
			for id, task := range pmltest.TasksOf(web.Workflow(id)) {
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
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		web := m.Caller("")
		dag := []map[string]any{
			pmltest.Task("bad", "rec:fail", `{"message":"first"}`, nil), pmltest.Task("worse", "rec:fail", `{"message":"second"}`, nil),
			pmltest.Task("never", "rec:inc", `{"key":"never"}`, pmltest.After("bad")), pmltest.Task("nor", "rec:inc", `{"key":"nor"}`, pmltest.After("never")),
			pmltest.Task("free", "rec:inc", `{"key":"free"}`, nil),
			pmltest.Task("safe", "rec:fail", `{"message":"third"}`, map[string]any{"safe_to_fail": true}),
			pmltest.Task("on", "rec:inc", `{"key":"on"}`, pmltest.After("safe", "free")),
		}
		file := m.DAG("dag.json", dag...)
		want := map[string]string{
			"bad": "error", "worse": "error", "never": "skipped", "nor": "skipped", "free": "success", "safe": "failed_safe", "on": "success",
		}
		for how, run := range map[string]func() api.Result{
			"http": func() api.Result { return web.Execute(api.ExecuteBody{Workflow: specs(t, dag)}) },
			"mcp": func() api.Result {
				return web.Agent("execute", map[string]any{"workflow": map[string]any{"tasks": dag}})
			},
			"cli": func() api.Result { return m.JSON(1, "execute", file, "--detach", "--wait", "150s") },
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
			w := web.Workflow(r.WorkflowID)
			if diff := cmp.Diff(want, pmltest.States(w)); diff != "" || w.State != core.RunFailed {
				t.Errorf("%s: %s, states (-want +got):\n%s", how, w.State, diff)
			}
		}
		keys := strings.Fields(m.IncKeys())
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != "free free free on on on" {
			t.Errorf("calls %s", got)
		}
		pmltest.Wants(t, m.Exit(1, "execute", file, "--detach", "--wait", "150s").Stderr, "first", "second", "2 of 7 tasks failed")
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
	skiptest.Long(t, "runs a graph of 1,000 tasks on a server")
	width := 1000
	if n, err := strconv.Atoi(os.Getenv("PML_TEST_TASKS")); err == nil {
		width = n / 10
	} else if skiptest.Race {
		width = 200
	}
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		web := m.Caller("")
		for _, c := range []struct {
			name          string
			layers, width int
		}{{"wide", 1, 1000}, {"deep", 1000, 1}, {"many", 10, width}} {
			begin, tasks := time.Now(), c.layers*c.width
			r := web.Execute(api.ExecuteBody{Workflow: specs(t, pmltest.LargeDAG(c.layers, c.width))})
			t.Logf("%d × %d tasks: %s", c.layers, c.width, time.Since(begin).Round(time.Millisecond))
			if r.DAG == nil || r.DAG.Tasks != tasks || r.DAG.Layers != c.layers || r.Totals == nil || r.SuccessfulTasks != tasks {
				t.Fatalf("%s: %s, %+v, %+v", c.name, r.Status, r.DAG, r.Totals)
			}
		}
		dag := []map[string]any{pmltest.Task("l", "rec:list", `{"n":100000}`, nil)}
		for i := range 200 {
			dag = append(dag, pmltest.Task(fmt.Sprintf("t%d", i), "rec:echo", fmt.Sprintf(`{"value":"$l[%d]"}`, 99_999-i), nil))
		}
		r := web.Execute(api.ExecuteBody{Workflow: specs(t, dag)})
		var out map[string]struct {
			Value int `json:"value"`
		}
		if err := json.Unmarshal(r.Result, &out); err != nil || len(out) != 200 || out["t7"].Value != 99_992 {
			t.Errorf("%v: %d results, t7 = %d", err, len(out), out["t7"].Value)
		}

		before := len(m.Calls())
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
		raw, err := json.Marshal(api.ExecuteBody{Workflow: specs(t, []map[string]any{pmltest.Task("t", "rec:echo", `{"value":"`+strings.Repeat("x", limit)+`"}`, nil)})})
		if err != nil {
			t.Fatal(err)
		}
		p := web.Post("/workflows", struct{ io.Reader }{bytes.NewReader(raw)}).Problem(http.StatusRequestEntityTooLarge, core.CodeInvalidArguments)
		pmltest.Wants(t, p.Detail, "larger than")
		if n := len(m.Calls()); n != before {
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
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		web := m.Caller("")
		n := 0
		for how, abort := range map[string]func(id core.ID) api.Result{
			"http": func(id core.ID) api.Result {
				return web.Post("/workflows/"+string(id)+"/abort", api.AbortBody{Reason: "enough"}).Want(200).Result()
			},
			"mcp": func(id core.ID) api.Result {
				return web.Agent("abort", map[string]any{"workflow_id": id, "reason": "enough"})
			},
			"cli": func(id core.ID) api.Result { return m.JSON(0, "abort", string(id), "--reason", "enough") },
		} {
			id := web.Post("/workflows", api.ExecuteBody{Workflow: specs(t, []map[string]any{
				pmltest.Task("done", "rec:inc", fmt.Sprintf(`{"key":%q}`, how), nil),
				pmltest.Task("slow", "rec:slow", `{"ms":600000}`, pmltest.After("done")), pmltest.Task("later", "rec:inc", `{"key":"later"}`, pmltest.After("slow")),
			})}).Want(http.StatusAccepted).Result().WorkflowID
			open := make(chan pmltest.Answer, 1) // whoever waits for it is told
			go func() {
				open <- web.Post("/workflows/"+string(id)+"/continue", map[string]any{"wait": pmltest.Patience.Milliseconds()})
			}()
			n++
			pmltest.WaitFor(t, "the slow task runs", func() bool { return m.Count("slow") == n })
			if r := abort(id); r.Status != api.StatusAborted || r.Reason != "enough" {
				t.Errorf("%s: %+v", how, r)
			}
			pmltest.WaitFor(t, "the call was cancelled upstream", func() bool { return m.Events("slow", "cancelled") == n })
			if r := (<-open).Want(200).Result(); r.Status != api.StatusAborted || r.Reason != "enough" {
				t.Errorf("%s: who waited was told %+v", how, r)
			}
			w := web.Workflow(id)
			tasks := pmltest.TasksOf(w)
			if w.State != core.RunAborted || tasks["done"].State != core.TaskSuccess || len(tasks["done"].Output) == 0 || tasks["later"].State != core.TaskSkipped {
				t.Errorf("%s: %s %+v", how, w.State, tasks)
			}
			if o := m.Exit(10, "workflows", "result", string(id)); o.Stdout != "" {
				t.Errorf("%s: result %q", how, o.Stdout)
			}
			web.Post("/workflows/"+string(id)+"/continue", yes()).Problem(http.StatusConflict, core.CodeNotWaiting)
		}
		if got := len(strings.Fields(m.IncKeys())); got != n {
			t.Errorf("%d tasks ran, want %d", got, n)
		}
	})
}
