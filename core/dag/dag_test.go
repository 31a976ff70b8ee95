package dag_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/dag"
)

// Arguments that are nested too deeply are a fault of their task.
func TestBuild_Depth(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]core.Code{core.MaxDepth - 1: "", core.MaxDepth: core.CodeDAGInvalid, 9990: core.CodeDAGInvalid} {
		args := json.RawMessage(`{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
		_, err := dag.Build([]core.TaskSpec{{ID: "a", Tool: "s:t", Arguments: args}}, nil)
		if core.CodeOf(err) != want || want != "" && core.AsError(err).Faults[0].Path != "/tasks/0/arguments" {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func mustParse(t *testing.T, text string) []core.TaskSpec {
	t.Helper()
	doc, err := dag.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return doc.Tasks
}

func mustBuild(t *testing.T, text string) *dag.Graph {
	t.Helper()
	g, err := dag.Build(mustParse(t, text), nil)
	if err != nil {
		t.Fatalf("Build: %v", err)
	}
	return g
}

// faults gives the faults of an error one per line, as messages show them.
func faults(t *testing.T, err error) []string {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeDAGInvalid {
		t.Fatalf("want a dag_invalid error, got %v", err)
	}
	var out []string
	for _, f := range e.Faults {
		out = append(out, f.String())
	}
	return out
}

func TestParse_Shapes(t *testing.T) {
	t.Parallel()
	doc, err := dag.Parse([]byte("\ufeff" + `{"intent":"x","input":{"n":1.0},"tasks":[
		{"id":"a","tool":"s:t","arguments":{"n":12345678901234567890,"f":1.50}},
		{"id":"b","tool":"s:t","dependsOn":["a"],"type":"mcp_tool","timeout_ms":5,"retry":{"max_attempts":3,"backoff_ms":10},"safe_to_fail":true,"side_effects":false,"when":"input.ok"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := dag.Document{Intent: "x", Input: json.RawMessage(`{"n":1.0}`), Tasks: []core.TaskSpec{
		{ID: "a", Tool: "s:t", Arguments: json.RawMessage(`{"n":12345678901234567890,"f":1.50}`)},
		{ID: "b", Tool: "s:t", DependsOn: []string{"a"}, Type: core.TypeTool, TimeoutMS: 5, Retry: &core.Retry{MaxAttempts: 3, BackoffMS: 10}, SafeToFail: true, SideEffects: &no, When: "input.ok"},
	}}
	if d := cmp.Diff(want, doc); d != "" {
		t.Error(d)
	}
	if doc, err := dag.Parse([]byte(` [ {"id":"a","tool":"s:t"} ] `)); err != nil || len(doc.Tasks) != 1 {
		t.Errorf("bare array: %v, %v", doc, err)
	}
}

func TestParse_Faults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"Empty":         {"  ", []string{"1:1: it is empty"}},
		"TrailingComma": {"[{\"id\":\"a\"},\n  {\"id\":\"é\",} ]", []string{`2:12: a comma before the closing bracket is not allowed`}},
		"Syntax":        {"{\n \"tasks\": [,]}", []string{"2:12: invalid character ',' looking for beginning of value"}},
		"NoTasks":       {`{"intent":"x"}`, []string{`1:1: there is no "tasks" array`}},
		"Scalar":        {`7`, []string{"1:1: a DAG is an object with tasks, or an array of tasks; this is a number"}},
		"All": {"{\"tasks\":[\n {\"id\":7,\"tol\":\"s:t\"},\n {\"id\":\"b\",\"depends_on\":\"a\",\"timeout_ms\":\"5\",\"timeout_ms\":1.5},\n 3]}", []string{
			"2:8:/tasks/0/id: expected a string, got 7",
			`2:10:/tasks/0/tol: unknown key "tol" (did you mean tool?)`,
			"3:25:/tasks/1/depends_on: expected an array, got a string",
			"3:42:/tasks/1/timeout_ms: expected a whole number, got a string",
			`3:46:/tasks/1/timeout_ms: the key "timeout_ms" is there twice`,
			"4:2:/tasks/2: expected an object, got a number",
		}},
		"BothSpellings": {`[{"id":"a","depends_on":[],"dependsOn":[]}]`, []string{"1:40:/0/dependsOn: the task has both depends_on and dependsOn; keep one"}},
		"Element": {`[{"id":"a","depends_on":["x",null]}]`, []string{
			"1:30:/0/depends_on/1: expected a string, got null",
			`/0/depends_on/0: task a depends on "x", which does not exist (did you mean a?)`,
		}},
		"OtherWords": {`[{"id":"a","args":{},"needs":[]}]`, []string{
			`1:12:/0/args: unknown key "args" (did you mean arguments?)`,
			`1:22:/0/needs: unknown key "needs" (did you mean depends_on?)`,
		}},
		"Pointer": {`[{"a/b~c":1}]`, []string{`1:3:/0/a~1b~0c: unknown key "a/b~c"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dag.Parse([]byte(c.text))
			if d := cmp.Diff(c.want, faults(t, err)); d != "" {
				t.Error(d)
			}
		})
	}
}

// An unknown key hides nothing else that is wrong with its task, and warnings come with the faults.
func TestParse_FaultsAndWarnings(t *testing.T) {
	t.Parallel()
	_, err := dag.Parse([]byte(`[{"id":"a","tool":"s:t","depend_on":[],"timeout_ms":-1,"arguments":{"x":"$OUTPUT[zz]","y":"${lst}"}}]`))
	if d := cmp.Diff([]string{
		`1:25:/0/depend_on: unknown key "depend_on" (did you mean depends_on?)`,
		"/0/timeout_ms: task a: a time-out of -1 ms is not possible",
		`/0/arguments: task a refers to "$OUTPUT[zz]", but there is no task "zz" (did you mean a?)`,
	}, faults(t, err)); d != "" {
		t.Error(d)
	}
	warned := func(err error) {
		t.Helper()
		if list := core.AsError(err).Warnings; len(list) != 1 || list[0].Message != `task a: "${lst}" names no task and is passed as it is` {
			t.Errorf("%+v", list)
		}
	}
	warned(err)
	_, err = dag.Build(mustParse(t, `[{"id":"a","tool":"s:t","depends_on":["b"],"arguments":{"y":"${lst}"}}]`), nil)
	warned(err)
	_, err = dag.Parse([]byte(`[{"id":"a","tool":"s:t","depend_on":[],"arguments":{"y":"${lst}"}}]`)) // of shape alone
	warned(err)
}

func TestBuild_Faults(t *testing.T) {
	t.Parallel()
	known := func(tool string) (bool, []string) { return tool == "s:t", []string{"s:t"} }
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"None":      {`[]`, []string{"/tasks: there are no tasks"}},
		"Unknown":   {`[{"id":"fetch","tool":"s:t"},{"id":"b","tool":"s:t","depends_on":["fetsh"]}]`, []string{`/tasks/1/depends_on/0: task b depends on "fetsh", which does not exist (did you mean fetch?)`}},
		"Duplicate": {`[{"id":"a","tool":"s:t"},{"id":"a","tool":"s:t"}]`, []string{`/tasks/1/id: the id "a" is used twice; first by task 1`}},
		"Self":      {`[{"id":"a","tool":"s:t","depends_on":["a"],"arguments":{"x":"$a.b"}}]`, []string{"/tasks/0/depends_on/0: task a depends on itself", "/tasks/0/arguments: task a refers to its own output: $a.b"}},
		"Cycle": {`[{"id":"a","tool":"s:t","depends_on":["c"]},{"id":"b","tool":"s:t","arguments":{"x":"$a"}},{"id":"c","tool":"s:t","depends_on":["b"]},{"id":"d","tool":"s:t","depends_on":["a"]},
			{"id":"x","tool":"s:t","depends_on":["y"]},{"id":"y","tool":"s:t","depends_on":["x"]}]`,
			[]string{"/tasks/0/depends_on: these tasks wait for each other: a → c → b → a", "/tasks/4/depends_on: these tasks wait for each other: x → y → x"}},
		"Nothing":  {`[{"id":"t1","tool":"s:t"},{"id":"b","tool":"s:t","arguments":{"x":"$OUTPUT[t2].a"}}]`, []string{`/tasks/1/arguments: task b refers to "$OUTPUT[t2].a", but there is no task "t2" (did you mean t1, b?)`}},
		"BadIDs":   {`[{"id":"a b","tool":"s:t"},{"tool":"s:t"},{"id":"\u001b[2J","tool":"s:t"}]`, []string{`/tasks/0/id: the id "a b" is not valid: use at most 128 letters, digits and _ . : -`, "/tasks/1/id: the task has no id", `/tasks/2/id: the id "\x1b[2J" is not valid: use at most 128 letters, digits and _ . : -`}},
		"NoTool":   {`[{"id":"a"},{"id":"b","code":"return 1"},{"id":"c","tool":"x"},{"id":"d","tool":"pml:sleep"},{"id":"e","tool":"s:u"}]`, []string{"/tasks/0/tool: task a names no tool", `/tasks/1/type: task b has code; set "type": "code"`, `/tasks/2/tool: task c: "x" is no tool; write it as server:tool`, `/tasks/3/tool: task d: "pml:sleep" is no tool; write it as server:tool`, `/tasks/4/tool: task e: there is no tool "s:u" (did you mean s:t?)`}},
		"Types":    {`[{"id":"a","type":"agnt"},{"id":"b","type":"cod"},{"id":"c","type":"code"}]`, []string{"/tasks/0/type: task a: the type \"agnt\" is unknown (did you mean agent?); use mcp_tool, code or agent", `/tasks/1/type: task b: the type "cod" is unknown (did you mean code?); use mcp_tool, code or agent`, "/tasks/2/code: task c is a code task without code"}},
		"Retry":    {`[{"id":"a","tool":"s:t","timeout_ms":-1,"retry":{"backoff_ms":-2}}]`, []string{"/tasks/0/timeout_ms: task a: a time-out of -1 ms is not possible", "/tasks/0/retry/max_attempts: task a: max_attempts is 0; it must be 1 to 100", "/tasks/0/retry/backoff_ms: task a: a back-off of -2 ms is not possible"}},
		"NoObject": {`[{"id":"a","tool":"s:t","arguments":[1]},{"id":"b","tool":"s:t","arguments":"$q"}]`, []string{"/tasks/0/arguments: the arguments of task a are an array; they must be an object", "/tasks/1/arguments: the arguments of task b are a string; they must be an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dag.Build(mustParse(t, c.text), known)
			if d := cmp.Diff(c.want, faults(t, err)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestBuild_LayersAndPlan(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, `[{"id":"c","tool":"s:z","depends_on":["a","a"],"arguments":{"x":"$b.v"}},{"id":"a","tool":"s:t","arguments":{"k":[1,2.0]}},{"id":"b","type":"code","code":"return 1","depends_on":["a"],"when":"input"},{"id":"d","tool":"s:t"}]`)
	if d := cmp.Diff([][]string{{"a", "d"}, {"b"}, {"c"}}, g.Layers()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "b"}, g.DependsOn("c")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"c", "b"}, g.Dependants("a")); d != "" {
		t.Error(d)
	}
	want := &core.Plan{Kind: core.KindDAG,
		Calls: []core.PlanCall{
			{ID: "c", Tool: "s:z", Layer: 2, Conditional: true},
			{ID: "a", Tool: "s:t", Arguments: json.RawMessage(`{"k":[1,2.0]}`)},
			{ID: "b", Tool: core.CodeTool, Layer: 1, Conditional: true},
			{ID: "d", Tool: "s:t", Arguments: json.RawMessage(`{}`)}},
		Edges:  []core.PlanEdge{{From: "a", To: "c", Kind: core.EdgeOrder}, {From: "b", To: "c", Kind: core.EdgeData}, {From: "a", To: "b", Kind: core.EdgeOrder}},
		Layers: [][]string{{"a", "d"}, {"b"}, {"c"}}, Tools: []string{"s:t", "s:z"}}
	if d := cmp.Diff(want, g.Plan()); d != "" {
		t.Error(d)
	}
	if _, ok := g.Task("zz"); ok || g.Layer("zz") != -1 || g.DependsOn("zz") != nil {
		t.Error("an unknown id has a task, layer or dependencies")
	}
}

const outputs = `{"t1":{"a":{"b":[{"c":7.10},"é\"x"],"n":null,"odd key":1,"a.b":2},"s":"text","big":12345678901234567890},
	"t-1":"dash","t1.a":{"z":true},"n":{"0":"zero"}}`

func TestResolve_Values(t *testing.T) {
	t.Parallel()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(outputs), &all); err != nil {
		t.Fatal(err)
	}
	output := func(id string) (json.RawMessage, bool) { v, ok := all[id]; return v, ok }
	for _, c := range []struct{ args, want string }{
		{`{"x":"$t1.s"}`, `{"x":"text"}`},
		{`{"x":"$OUTPUT[t1].s"}`, `{"x":"text"}`},
		{`{ "x" : "$t1.big" , "n":1.50}`, `{ "x" : 12345678901234567890 , "n":1.50}`},
		{`{"x":"$OUTPUT[t1].a.b[0].c"}`, `{"x":7.10}`},
		{`{"x":["$OUTPUT[t1].a.b.1"]}`, `{"x":["é\"x"]}`},
		{`{"x":"${t1.s}"}`, `{"x":"text"}`},
		{`{"x":"${t-1}"}`, `{"x":"dash"}`},
		{`{"x":"$t-1"}`, `{"x":"dash"}`},
		{`{"x":"$t1.a.z"}`, `{"x":true}`}, // t1.a is the longer id
		{`{"x":"\u0024t1.s"}`, `{"x":"text"}`},
		{`{"x":"a ${t1.s}, ${OUTPUT[t1].a.b[0]} <${OUTPUT[t1].a.n}>"}`, `{"x":"a text, {\"c\":7.10} <null>"}`},
		{`{"x":"${OUTPUT[t1].a.b[1]}!"}`, `{"x":"é\"x!"}`},
		{`{"x":"$OUTPUT[t1].a[\"odd key\"]"}`, `{"x":1}`},
		{`{"x":"$OUTPUT[t1].a['a.b']"}`, `{"x":2}`},
		{`{"x":"$n[0]"}`, `{"x":"zero"}`},
		{`{"$t1.s":"$t1.s","${t1.s}":1}`, `{"$t1.s":"text","${t1.s}":1}`},
		{`{"x":"$HOME ${HOME} $5 $t1x $ ${ $t1. ${t1"}`, `{"x":"$HOME ${HOME} $5 $t1x $ ${ $t1. ${t1"}`},
		{`{"x":"$t1.s and more"}`, `{"x":"$t1.s and more"}`},
		{`"$t1.a"`, `{"z":true}`},
		{`null`, `{}`},
		{`{"x":"${${t1.s}}"}`, `{"x":"${text}"}`},
	} {
		g := mustBuild(t, `[{"id":"t1","tool":"s:t"},{"id":"t-1","tool":"s:t"},{"id":"t1.a","tool":"s:t"},{"id":"n","tool":"s:t"},{"id":"q","tool":"s:t","arguments":`+c.args+`}]`)
		got, err := g.Resolve("q", output)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
		} else if d := cmp.Diff(c.want, string(got)); d != "" {
			t.Errorf("%s: %s", c.args, d)
		}
	}
}

func TestResolve_Errors(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"x":"$t1.items[2].a"}`: `the arguments of task q: $t1.items[2].a: there is no index 2 in t1.items, which is an array of length 2`,
		`{"x":"$t1.itms"}`:       `the arguments of task q: $t1.itms: there is no key "itms" in t1, which is an object with "items" (did you mean items?)`,
		`{"x":"-${t1.items.x}"}`: `the arguments of task q: ${t1.items.x}: there is no key "x" in t1.items, which is an array of length 2`,
		`{"x":"$t1.items[0].b"}`: `the arguments of task q: $t1.items[0].b: there is no key "b" in t1.items[0], which is a number`,
		`{"x":"$u.b"}`:           `the arguments of task q: $u.b: task u has no output: it failed, was skipped or has not finished`,
		`"$t1.items"`:            `the arguments of task q resolve to an array, not to an object`,
	} {
		g := mustBuild(t, `[{"id":"t1","tool":"s:t"},{"id":"u","tool":"s:t"},{"id":"q","tool":"s:t","arguments":`+args+`}]`)
		_, err := g.Resolve("q", func(id string) (json.RawMessage, bool) {
			return json.RawMessage(`{"items":[1,2]}`), id == "t1"
		})
		if core.CodeOf(err) != core.CodeInvalidArguments || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", args, err, want)
		}
	}
}

func TestBuild_Warnings(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, `[{"id":"t1","tool":"s:t"},{"id":"q","tool":"s:t","arguments":{"a":"$nope.x","b":"see $t1.name now","c":"$5.00","d":"${HOME}/x","e":"$t1","f":"us$"}}]`)
	var got []string
	for _, w := range g.Warnings() {
		got = append(got, w.Message)
	}
	want := []string{
		`task q: "$nope.x" names no task and is passed as it is`,
		`task q: "$t1" inside a longer string is passed as it is; write ${t1} to put the value there`,
		`task q: "${HOME}" names no task and is passed as it is`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestExtend_Places(t *testing.T) {
	t.Parallel()
	g := mustBuild(t, `[{"id":"a","tool":"s:t"},{"id":"b","tool":"s:t","depends_on":["a"]},{"id":"c","tool":"s:t","depends_on":["b"]}]`)
	add := mustParse(t, `[{"id":"n","tool":"s:t"},{"id":"m","tool":"s:t","depends_on":["a","n"]},{"id":"o","tool":"s:t","arguments":{"x":"$c"}}]`)
	h, err := g.Extend(add, func(id string) bool { return id == "a" }, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]string{{"a"}, {"b", "n"}, {"c", "m"}, {"o"}}, h.Layers()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([][]string{{"a"}, {"b"}, {"c"}}, g.Layers()); d != "" {
		t.Errorf("the old graph changed: %s", d)
	}
	if d := cmp.Diff([]string{"b", "m"}, h.Dependants("a")); d != "" {
		t.Error(d)
	}
	all := func(string) bool { return true }
	if h, err = g.Extend(mustParse(t, `[{"id":"n","tool":"s:t"}]`), all, 0, nil); err != nil || h.Layer("n") != 3 {
		t.Errorf("after everything: layer %d, %v", h.Layer("n"), err)
	}
	_, err = g.Extend(mustParse(t, `[{"id":"a","tool":"s:t"},{"id":"x","tool":"s:t","depends_on":["y"]},{"id":"y","tool":"s:t","depends_on":["x"]}]`), nil, 1, nil)
	want := []string{`/tasks/0/id: the id "a" is taken by a task that is already there`, "/tasks/1/depends_on: these tasks wait for each other: x → y → x"}
	if d := cmp.Diff(want, faults(t, err)); d != "" {
		t.Error(d)
	}
}

// drawTasks draws tasks whose dependencies may go anywhere (cycles) or only
// back.
func drawTasks(rt *rapid.T, prefix string, cyclic bool) []core.TaskSpec {
	n := rapid.IntRange(1, 30).Draw(rt, "n")
	tasks := make([]core.TaskSpec, n)
	for i := range tasks {
		tasks[i] = core.TaskSpec{ID: fmt.Sprintf("%s%d", prefix, i), Tool: "s:t"}
		for k := rapid.IntRange(0, 2).Draw(rt, "deps"); k > 0; k-- {
			to := rapid.IntRange(0, n-1).Draw(rt, "to")
			if to == i || !cyclic && to > i {
				continue
			}
			if id := fmt.Sprintf("%s%d", prefix, to); k == 1 {
				tasks[i].DependsOn = append(tasks[i].DependsOn, id)
			} else {
				tasks[i].Arguments = json.RawMessage(`{"x":"$` + id + `"}`)
			}
		}
	}
	return tasks
}

func TestBuild_Properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tasks := drawTasks(rt, "t", true)
		g, err := dag.Build(tasks, nil)
		if want := hasCycle(tasks); want != (err != nil) {
			rt.Fatalf("cycle: %v, error: %v", want, err)
		}
		if err != nil {
			return
		}
		checkLayers(rt, g, 0)
	})
}

func TestExtend_Properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g, err := dag.Build(drawTasks(rt, "t", false), nil)
		if err != nil {
			rt.Fatal(err)
		}
		add := drawTasks(rt, "n", false)
		add[0].DependsOn = []string{"t0"}
		floor := rapid.IntRange(0, 5).Draw(rt, "floor")
		h, err := g.Extend(add, nil, floor, nil)
		if err != nil {
			rt.Fatal(err)
		}
		for _, old := range g.Tasks() {
			if g.Layer(old.ID) != h.Layer(old.ID) || cmp.Diff(g.DependsOn(old.ID), h.DependsOn(old.ID)) != "" {
				rt.Fatalf("%s changed", old.ID)
			}
		}
		for _, n := range add {
			if h.Layer(n.ID) < floor {
				rt.Fatalf("%s is in layer %d, before %d", n.ID, h.Layer(n.ID), floor)
			}
		}
		checkLayers(rt, h, floor)
	})
}

// checkLayers wants each layer to be exactly one more than the largest of the
// dependencies, or the floor.
func checkLayers(rt *rapid.T, g *dag.Graph, floor int) {
	for _, task := range g.Tasks() {
		want := 0
		if strings.HasPrefix(task.ID, "n") {
			want = floor
		}
		for _, d := range g.DependsOn(task.ID) {
			want = max(want, g.Layer(d)+1)
		}
		if g.Layer(task.ID) != want {
			rt.Fatalf("layer of %s is %d, want %d", task.ID, g.Layer(task.ID), want)
		}
	}
}

// hasCycle removes tasks without dependencies until none is left.
func hasCycle(tasks []core.TaskSpec) bool {
	deps := map[string]map[string]bool{}
	for _, t := range tasks {
		deps[t.ID] = map[string]bool{}
		for _, d := range t.DependsOn {
			deps[t.ID][d] = true
		}
		var a struct{ X string }
		if json.Unmarshal(t.Arguments, &a) == nil {
			deps[t.ID][a.X[1:]] = true
		}
	}
	for again := true; again; {
		again = false
		for id, ds := range deps {
			for d := range ds {
				if _, left := deps[d]; !left {
					delete(ds, d)
				}
			}
			if len(ds) == 0 {
				delete(deps, id)
				again = true
			}
		}
	}
	return len(deps) > 0
}

func grid(n int, deps func(i int) []string) []core.TaskSpec {
	tasks := make([]core.TaskSpec, n)
	for i := range tasks {
		tasks[i] = core.TaskSpec{ID: fmt.Sprintf("t%d", i), Tool: "s:t", Arguments: json.RawMessage(`{"x":"plain"}`), DependsOn: deps(i)}
		if len(tasks[i].DependsOn) > 0 {
			tasks[i].Arguments = json.RawMessage(`{"x":"$` + tasks[i].DependsOn[0] + `.out[0]"}`)
		}
	}
	return tasks
}

func chain(i int) []string {
	if i == 0 {
		return nil
	}
	return []string{fmt.Sprintf("t%d", i-1)}
}

func TestBuild_Large(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ n, layers int }{"Wide": {10000, 2}, "Deep": {10000, 10000}} {
		deps := chain
		if name == "Wide" {
			deps = func(i int) []string {
				if i == 0 {
					return nil
				}
				return []string{"t0"}
			}
		}
		g, err := dag.Build(grid(c.n, deps), nil)
		if err != nil || len(g.Layers()) != c.layers {
			t.Errorf("%s: %v, %d layers", name, err, len(g.Layers()))
		}
	}
	ring := grid(10000, chain)
	ring[0].DependsOn = []string{"t9999"}
	_, err := dag.Build(ring, nil)
	if got := faults(t, err); len(got) != 1 || strings.Count(got[0], "→") != 10000 {
		t.Errorf("a ring of 10000: %d faults", len(got))
	}
}

func TestResolve_LargeResult(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"items":[`)
	const n = 50000
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"text":"%s"}`, i, strings.Repeat("x", 40))
	}
	b.WriteString(`]}`)
	big := json.RawMessage(b.String())
	tasks := []core.TaskSpec{{ID: "src", Tool: "s:t"}}
	for i := range 2000 {
		tasks = append(tasks, core.TaskSpec{ID: fmt.Sprintf("u%d", i), Tool: "s:t", Arguments: json.RawMessage(fmt.Sprintf(`{"x":"$src.items[%d].id"}`, n-1-i))})
	}
	g, err := dag.Build(tasks, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for i := range 2000 {
		got, err := g.Resolve(fmt.Sprintf("u%d", i), func(string) (json.RawMessage, bool) { return big, true })
		if want := fmt.Sprintf(`{"x":%d}`, n-1-i); err != nil || string(got) != want {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	}
	// Reading 3 MB for each of them would take far longer than this.
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("2000 references took %v", d)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`[{"id":"a","tool":"s:t"}]`, `{"tasks":[{"id":"a","dependsOn":["b"]}],"input":1}`, `[{"id":"a",}]`, `{"tasks":{}}`, "\ufeff[", `[{"id":"a","tool":"s:t","arguments":{"x":"${a.b[0]} $OUTPUT[q]"}}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := dag.Parse(data)
		if err != nil {
			if core.CodeOf(err) != core.CodeDAGInvalid {
				t.Fatalf("code %s", core.CodeOf(err))
			}
			return
		}
		if g, err := dag.Build(doc.Tasks, nil); err == nil {
			g.Plan()
		}
	})
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{`$a`, `$a.b[0]`, `x ${a["b c"]} y`, `$OUTPUT[a].b`, `${${a}}`, `$a.b.0.c`, `$a[`, `$a['']`} {
		f.Add(s, `{"b":[{"c":1}],"":2}`)
	}
	f.Fuzz(func(t *testing.T, text, out string) {
		arg, err := json.Marshal(map[string]string{"x": text})
		if err != nil || !json.Valid([]byte(out)) {
			return
		}
		g, err := dag.Build([]core.TaskSpec{{ID: "a", Tool: "s:t"}, {ID: "b", Tool: "s:t", Arguments: arg}}, nil)
		if err != nil {
			return
		}
		got, err := g.Resolve("b", func(string) (json.RawMessage, bool) { return json.RawMessage(out), true })
		if err == nil && !json.Valid(got) {
			t.Fatalf("not JSON: %q", got)
		}
	})
}

func BenchmarkBuild10000(b *testing.B) {
	tasks := grid(10000, func(i int) []string {
		if i < 100 {
			return nil
		}
		return []string{fmt.Sprintf("t%d", i-100), fmt.Sprintf("t%d", i-37)}
	})
	for b.Loop() {
		if _, err := dag.Build(tasks, nil); err != nil {
			b.Fatal(err)
		}
	}
}
