//go:build unix

package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// newProgram is the nth program: mostly a DAG of 10 layers of 10 tasks, at
// times a script that does the same. Both call tools of all kinds, and what
// they call next depends on how often the calls before have run.
func newProgram(n int) *program {
	name := fmt.Sprintf("p%d", n)
	req := api.ExecuteRequest{IdempotencyKey: name, Detach: true}
	if n%4 == 2 {
		req.Code = killedCode(name)
	} else {
		req.Tasks = killedDAG(name)
	}
	return &program{name: name, req: req}
}

func killedDAG(name string) []core.TaskSpec {
	var tasks []map[string]any
	for l := range 10 {
		for i := range 10 {
			at := fmt.Sprintf("%s.%d.%d", name, l, i)
			nth := "1"
			t := map[string]any{"id": fmt.Sprintf("l%dt%d", l, i)}
			if l > 0 {
				t["depends_on"] = []string{fmt.Sprintf("l%dt%d", l-1, i), fmt.Sprintf("l%dt%d", l-1, (i+3)%10)}
				nth = fmt.Sprintf("${l%dt0.count}", l-1)
			}
			switch tool := killedTool(l, i); tool {
			case "inc":
				t["arguments"] = map[string]any{"key": at + "." + nth}
			case "put":
				t["arguments"] = map[string]any{"key": at, "value": "n" + nth}
			case "write":
				t["arguments"] = map[string]any{"path": at, "content": "n" + nth}
			case "read":
				t["arguments"] = map[string]any{"path": at}
			case "slow":
				t["arguments"] = map[string]any{"ms": 5, "value": at}
			case "danger":
				t["arguments"] = map[string]any{"x": at}
			}
			t["tool"] = "rec:" + killedTool(l, i)
			tasks = append(tasks, t)
		}
	}
	var specs []core.TaskSpec
	if err := json.Unmarshal(mustJSON(tasks), &specs); err != nil {
		panic(err) // of what is written above
	}
	return specs
}

// killedTool is the tool of a call in a row of ten.
func killedTool(row, i int) string {
	if i == 9 && row%4 == 3 {
		return "danger"
	}
	return []string{"inc", "inc", "inc", "inc", "write", "put", "read", "slow", "slow", "inc"}[i]
}

func killedCode(name string) string {
	return strings.ReplaceAll(`
		const out = [];
		let nth = 1;
		for (let l = 0; l < 10; l++) {
			const at = (i: number) => "NAME." + l + "." + i;
			const row = await Promise.all([
				mcp.rec.inc({ key: at(0) + "." + nth }), mcp.rec.inc({ key: at(1) + "." + nth }),
				mcp.rec.inc({ key: at(2) + "." + nth }), mcp.rec.inc({ key: at(3) + "." + nth }),
				mcp.rec.write({ path: at(4), content: "n" + nth }), mcp.rec.put({ key: at(5), value: "n" + nth }),
				mcp.rec.read({ path: at(6) }), mcp.rec.slow({ ms: 5, value: at(7) }), mcp.rec.slow({ ms: 5, value: at(8) }),
				l % 4 === 3 ? mcp.rec.danger({ x: at(9) }) : mcp.rec.inc({ key: at(9) + "." + nth }),
			]);
			nth = row[0].count;
			out.push(row);
		}
		return out;`, "NAME", name)
}

// killedCalls are the arguments of all calls of a program, by tool.
func killedCalls(name string) map[string]int {
	calls := map[string]int{}
	for l := range 10 {
		for i := range 10 {
			at := fmt.Sprintf("%s.%d.%d", name, l, i)
			tool := killedTool(l, i)
			args := map[string]map[string]any{
				"inc": {"key": at + ".1"}, "put": {"key": at, "value": "n1"}, "write": {"path": at, "content": "n1"},
				"read": {"path": at}, "slow": {"ms": 5, "value": at}, "danger": {"x": at},
			}[tool]
			calls[tool+" "+string(mustJSON(args))]++
		}
	}
	return calls
}

// check compares what was done, what was kept and what was told.
func (k *killing) check() {
	k.T.Helper()
	p := k.Start(k.serve...)
	k.Listening(p)
	k.checkCalls()
	for _, prog := range k.programs {
		if prog.workflow.State != core.RunComplete {
			k.T.Errorf("%s is %s: %v", prog.name, prog.workflow.State, prog.workflow.Error)
			continue
		}
		k.checkResult(prog)
		k.checkJournal(prog)
		k.checkApprovals(prog)
	}
	k.checkEvents()
	k.stop(p)
}

// checkCalls looks at what has reached the tools: all calls and no others, and
// once where twice would hurt.
func (k *killing) checkCalls() {
	k.T.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, prog := range k.programs {
		maps.Copy(want, killedCalls(prog.name))
	}
	for _, call := range k.Calls() {
		got[call]++
		if tool, _, _ := strings.Cut(call, " "); !hurts(tool) {
			got[call] = 1
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.T.Errorf("calls that reached the tools (-want +got):\n%s", diff)
	}
}

// checkResult compares a result with that of the same program that nobody
// killed, in another half of pml.
func (k *killing) checkResult(prog *program) {
	k.T.Helper()
	m := pmltest.NewMachine(k.T, pmltest.Config{Permissions: map[string]any{"allow": []string{"rec:*"}}})
	file := "program.ts"
	text := prog.req.Code
	if text == "" {
		file, text = "program.json", string(mustJSON(map[string]any{"tasks": prog.req.Tasks}))
	}
	want := m.JSON(0, "execute", m.Write(file, text))
	var a, b any
	if err := json.Unmarshal(want.Result, &a); err != nil {
		k.T.Fatal(err)
	}
	if err := json.Unmarshal(prog.workflow.Result, &b); err != nil {
		k.T.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		k.T.Errorf("%s: result (-want +got):\n%s", prog.name, diff)
	}
}

// checkJournal looks for holes, for outcomes that there are twice, and for
// calls that ran again after their outcome was kept.
func (k *killing) checkJournal(prog *program) {
	k.T.Helper()
	settled := map[string]core.Record{}
	for i, r := range prog.journal {
		if r.Seq != int64(i+1) {
			k.T.Fatalf("%s: the record %d has the number %d", prog.name, i+1, r.Seq)
		}
		if r.Kind != core.RecordSettled {
			continue
		}
		if _, twice := settled[r.CallID]; twice || r.Outcome != core.OutcomeSuccess {
			k.T.Errorf("%s: the outcome of %s is %s, and there was one before: %v", prog.name, r.CallID, r.Outcome, twice)
		}
		settled[r.CallID] = r
	}
	if len(settled) != 100 {
		k.T.Errorf("%s: %d calls have an outcome", prog.name, len(settled))
	}
	at := map[string]core.Record{}
	for _, r := range settled {
		var args any
		if err := json.Unmarshal(r.Args, &args); err != nil {
			k.T.Fatalf("%s: the arguments %s: %v", prog.name, r.Args, err)
		}
		at[strings.TrimPrefix(r.Tool, "rec:")+" "+string(mustJSON(args))] = r
	}
	for _, e := range k.Entries() {
		if r, ok := at[e.Tool+" "+string(e.Args)]; ok && e.Event == "start" && e.At.After(r.At) {
			k.T.Errorf("%s: %s %s ran at %s, and had an outcome since %s", prog.name, e.Tool, e.Args, e.At, r.At)
		}
	}
}

// checkApprovals: each permission was asked for once.
func (k *killing) checkApprovals(prog *program) {
	k.T.Helper()
	asked := map[string]int{}
	for _, ap := range prog.workflow.Approvals {
		if ap.State != core.ApprovalApproved {
			k.T.Errorf("%s: the approval %s of %s is %s", prog.name, ap.Type, ap.Tool, ap.State)
		}
		if ap.Type == core.ApproveTool {
			asked[ap.Digest]++
		}
	}
	for digest, n := range asked {
		if n > 1 {
			k.T.Errorf("%s: %s was asked for %d times", prog.name, digest, n)
		}
	}
	if len(asked) != 2 {
		k.T.Errorf("%s: %d permissions were asked for", prog.name, len(asked))
	}
}

// checkEvents compares what the reader saw with what is kept.
func (k *killing) checkEvents() {
	k.T.Helper()
	var kept []core.Event
	if err := k.client.Events(k.T.(*testing.T).Context(), "", api.Since{}, false, func(e core.Event) error {
		kept = append(kept, e)
		return nil
	}); err != nil {
		k.T.Fatal(err)
	}
	pmltest.WaitFor(k.T, "the reader has all events", func() bool { return len(k.reader.all()) >= len(kept) })
	if diff := cmp.Diff(lines(kept), lines(k.reader.all())); diff != "" {
		k.T.Errorf("events (-kept +read):\n%s", diff)
	}
	for _, prog := range k.programs {
		var of []core.Event
		for _, e := range kept {
			if e.RunID == prog.id {
				of = append(of, e)
			}
		}
		k.checkStory(prog, of)
	}
}

// lines are events as text.
func lines(events []core.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = string(mustJSON(e))
	}
	return out
}

// checkStory looks at the events of one run.
func (k *killing) checkStory(prog *program, events []core.Event) {
	k.T.Helper()
	if len(events) == 0 || events[0].Type != core.EventWorkflowStart || events[len(events)-1].Type != core.EventWorkflowComplete {
		k.T.Errorf("%s: %d events, which do not begin with its start or do not end with its end", prog.name, len(events))
		return
	}
	count := map[core.EventType]int{}
	ended := map[string]bool{}
	for _, e := range events {
		count[e.Type]++
		if e.TaskID == "" || e.Type != core.EventTaskStart && e.Type != core.EventTaskComplete {
			continue
		}
		if ended[e.TaskID] {
			k.T.Errorf("%s: %s of %s, which had ended", prog.name, e.Type, e.TaskID)
		}
		ended[e.TaskID] = e.Type == core.EventTaskComplete
	}
	for _, t := range []struct {
		typ  core.EventType
		want int
	}{
		{core.EventWorkflowStart, 1},
		{core.EventWorkflowComplete, 1},
		{core.EventTaskComplete, 100},
		{core.EventApprovalRequested, len(prog.workflow.Approvals)},
		{core.EventApprovalResolved, len(prog.workflow.Approvals)},
	} {
		if count[t.typ] != t.want {
			k.T.Errorf("%s: %d × %s, want %d", prog.name, count[t.typ], t.typ, t.want)
		}
	}
}
