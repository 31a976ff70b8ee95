package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
)

// One flow run is one record: both halves, what changed, console lines and what failed,
// without the values of keys.
func TestRunner_Records(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := setOf(t, line("f", "",
		script("pre", `console.log("a", "`+secret+`"); console.warn("b"); return {params: {arguments: {key: "`+secret+`"}}}`, false),
		script("post", `throw new Error("failed with `+secret+`")`, true)))
	_, back, err := r.call(set, `{"a":1}`, ok)
	if err != nil || strings.Contains(back.Err.Error(), secret) {
		t.Fatalf("%v %v", back.Err, err)
	}
	runs := r.runs()
	if len(runs) != 1 || strings.Contains(text(runs), secret) {
		t.Fatalf("the records are %s", text(runs))
	}
	run := runs[0]
	if run.Flow != "f" || run.Workspace != "/work" || run.Tool != "files:write" || run.CallID != "c1" || run.State != core.FlowFailed || run.Node != "post" || !strings.Contains(run.Reason, "«KEY»") {
		t.Errorf("%s", text(run))
	}
	if len(run.Nodes) != 3 {
		t.Fatalf("%s", text(run.Nodes))
	}
	pre := run.Nodes[0]
	if pre.Change == nil || !strings.Contains(pre.Change.Diff, "«KEY»") || pre.Change.Before == pre.Change.After || strings.Join(pre.Console, "|") != "a «KEY»|warn: b" {
		t.Errorf("%s", text(pre))
	}
	if run.Nodes[1].Type != flow.TypeCall || run.Nodes[1].State != core.FlowOK || run.Nodes[2].State != core.FlowFailed || !run.Nodes[2].Response {
		t.Errorf("%s", text(run.Nodes))
	}
}

// The second half in another process goes on with the record of the first, and one
// that is run again replaces the one before.
func TestRunner_RecordsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	first := newRig(t)
	set := setOf(t, line("f", "", script("pre", `return`, false), script("post", `return`, true)))
	req := request(`{}`)
	p, err := first.Before(context.Background(), set, req)
	if err != nil {
		t.Fatal(err)
	}
	if runs := first.runs(); len(runs) != 1 || runs[0].State != core.FlowPending || runs[0].Nodes[1].State != core.FlowPending {
		t.Fatalf("%+v", runs)
	}
	second := newRig(t, func(o *hook.Options) { o.Store = first.store })
	for range 2 {
		second.After(context.Background(), set, req, p, flow.Answer{Result: json.RawMessage(ok)})
	}
	_ = second.Close()
	runs := first.runs()
	if len(runs) != 1 || runs[0].State != core.FlowOK {
		t.Fatalf("%+v", runs)
	}
	var nodes []string
	for _, n := range runs[0].Nodes {
		nodes = append(nodes, n.Node)
	}
	if got := strings.Join(nodes, " "); got != "pre mcp post end" {
		t.Error(got)
	}
}

// besideOf is a hook that nobody waits for.
func besideOf(id, code string, behind bool) node {
	return node{id: id, kind: "hook", data: `"hook":{"id":"h","blocking":false,"script":` + text(code) + `}`, behind: behind, beside: true}
}

// Nodes that nobody waits for end in the record too, and decide nothing.
func TestRunner_Beside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := setOf(t, line("f", "", besideOf("note", `return {effects: [{tool: "audit", arguments: {message: "seen " + context.request.params.name}}]}`, false),
		besideOf("block", `return {block: {message: "no"}}`, false), besideOf("late", `throw new Error("too late")`, true)))
	if _, back, err := r.call(set, `{}`, ok); err != nil || back.Err != nil {
		t.Fatal(back.Err, err)
	}
	states := map[string]string{}
	for _, n := range r.runs()[0].Nodes {
		states[n.Node] = string(n.State) + " " + n.Reason
	}
	if states["note"] != "ok " || !strings.Contains(states["block"], "failed") || !strings.Contains(states["block"], "nobody waits") || !strings.Contains(states["late"], "too late") {
		t.Error(states)
	}
	if len(r.store.audit) != 1 || r.store.audit[0].Reason != "seen write" || r.store.audit[0].By.Who != "flow:f" {
		t.Errorf("%+v", r.store.audit)
	}
}

// More than the queue holds is dropped, and the record says so.
func TestRunner_BesideFlood(t *testing.T) {
	t.Parallel()
	box := &blocking{Sandbox: pool, hold: make(chan struct{})}
	r := newRig(t, func(o *hook.Options) { o.Sandbox = box })
	set := setOf(t, line("f", "", besideOf("note", `return 1`, false)))
	for range 300 {
		if _, err := r.Before(context.Background(), set, request(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	close(box.hold)
	skipped := 0
	for _, run := range r.runs() {
		if run.Nodes[0].State == core.FlowSkipped && strings.Contains(run.Nodes[0].Reason, "dropped") {
			skipped++
		}
	}
	if skipped != 300-4-256 {
		t.Errorf("%d were dropped", skipped)
	}
}

// A flow run whose call gets no answer ends with why, also where another process began
// it; one that has seen an answer stays as it is.
func TestRunner_Unanswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      *core.Error
		answered bool
		want     core.FlowState
	}{
		"Denied":    {core.Errorf(core.CodeDenied, "ada said no to "+secret), false, core.FlowDenied},
		"Rule":      {core.Errorf(core.CodePermissionDenied, "a rule denies "+secret), false, core.FlowDenied},
		"Cancelled": {core.Errorf(core.CodeCancelled, "the run ended, "+secret), false, core.FlowCancelled},
		"NotMade":   {core.Errorf(core.CodeServerUnreachable, "no server, "+secret), false, core.FlowCancelled},
		"Answered":  {core.Errorf(core.CodeCancelled, "too late"), true, core.FlowOK},
	} {
		for where, other := range map[string]bool{"Here": false, "Elsewhere": true} {
			t.Run(name+where, func(t *testing.T) {
				t.Parallel()
				first := newRig(t)
				set, req := setOf(t, line("f", "", script("pre", `return`, false))), request(`{}`)
				p, err := first.Before(context.Background(), set, req)
				if err != nil {
					t.Fatal(err)
				}
				if c.answered {
					first.After(context.Background(), set, req, p, flow.Answer{Result: json.RawMessage(ok)})
				}
				last := first
				if other {
					_ = first.Close()
					last = newRig(t, func(o *hook.Options) { o.Store = first.store })
				}
				last.Unanswered(req, p, c.err)
				_ = last.Close()
				runs := first.runs()
				if len(runs) != 1 || runs[0].State != c.want || !c.answered && !strings.Contains(runs[0].Reason, "«KEY»") || len(runs[0].Nodes) < 2 || runs[0].Nodes[1].State != c.want {
					t.Errorf("%s", text(runs))
				}
			})
		}
	}
}
