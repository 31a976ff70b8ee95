//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestExit_AfterCalls: 2, 3 and 13 say that nothing was run; a run that got
// somewhere and failed ends with 1, whatever its error says.
func TestExit_AfterCalls(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	for name, tt := range map[string]struct {
		code core.Code
		args []string
	}{
		"Tool": {core.CodeNoSuchTool, []string{
			"execute", "--code", `await mcp.rec.inc({key: "a"}); return await mcp.rec[input.t]({})`, "--input", `{"t":"nothing"}`,
		}},
		"Arguments": {core.CodeInvalidArguments, []string{
			"execute", "--code", `await mcp.rec.inc({key: "a"}); return await mcp.rec.write(input)`, "--input", `{"pat":"x"}`,
		}},
		"Reference": {core.CodeInvalidArguments, []string{"execute", m.dag("ref.json", task("a", "rec:inc", `{"key":"a"}`, nil), task("b", "rec:inc", `{"key":"$a.nothing"}`, nil))}},
	} {
		before := m.count("inc")
		o := m.exit(1, append(tt.args, "--json")...)
		if f := o.fault(); f.Code != tt.code || f.Exit != 1 || m.count("inc") != before+1 {
			t.Errorf("%s: %+v after %d calls", name, f, m.count("inc")-before)
		}
		id := string(m.latest().ID)
		m.exit(1, "workflows", "watch", id)
		m.exit(1, "workflows", "result", id)
	}
}

// TestWatch_Killed: watch shows the last event, and does not wait for a run
// whose process is gone.
func TestWatch_Killed(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	p := m.start(m.halfway("dag", "wait", filepath.Join(m.Dir, "never"))...)
	waitFor(t, "the call in the middle runs", func() bool { return m.count("wait") == 1 })
	w := m.start("workflows", "watch", "@latest")
	waitFor(t, "watch shows what was before", func() bool { return strings.Contains(w.out.String()+w.err.String(), "rec:wait") })
	p.kill()
	next := "next: pml continue " + m.latest().ID.Short()
	wants(t, w.wait().want(1).Stderr, "interrupted", next)
	wants(t, m.exit(1, "workflows", "watch", "@latest").Stderr, next)

	r := m.execute(0, `return (await mcp.rec.inc({key: "b"})).count`)
	lines := strings.Split(strings.TrimSpace(m.ok("workflows", "watch", string(r.WorkflowID), "--json").Stdout), "\n")
	wants(t, lines[len(lines)-1], `"workflow_complete"`)
}

// TestTimeout_OfCommands: a command that --timeout stops ends with 124, and
// makes no findings of what it did not wait for.
func TestTimeout_OfCommands(t *testing.T) {
	t.Parallel()
	m := newMachine(t, config{
		Permissions: map[string]any{"allow": []string{"silent", "rec"}},
		Servers:     map[string]map[string]any{"silent": {"command": requireTool(t, "sleep"), "args": []string{"600"}}},
	})
	dag := m.dag("dag.json", task("a", "silent:x", `{}`, nil))
	for _, args := range [][]string{
		{"tools", "ls"}, {"plan", dag}, {"doctor"}, {"servers", "check"}, {"execute", dag}, {"tools", "call", "silent:x"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			o := m.exit(124, append(args, "--timeout", "10s")...)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%q took %s", args, took)
			}
			if strings.Contains(o.Stdout, "cancelled") || strings.Contains(o.Stdout, "fail") {
				t.Errorf("%q: a finding of a server that was not waited for: %s", args, o.Stdout)
			}
		})
	}
}

// TestResult_ListsAndZeros: lists of results are never null, and the counts of
// a run that has ended are there when they are 0.
func TestResult_ListsAndZeros(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	wants(t, m.ok("execute", "--code", "return 1", "--json").Stdout, `"tools": []`, `"replayed_calls": 0`, `"successful_tasks": 0`, `"failed_tasks": 0`)
	o := m.exit(8, "execute", "--hil", "always", "--json", m.dag("dag.json", task("a", "rec:inc", `{"key":"a"}`, nil)))
	wants(t, o.Stdout, `"results": []`)
	if strings.Contains(o.Stdout, "null") {
		t.Errorf("null in %s", o.Stdout)
	}
}

// TestRetry_OfADenial: who retries what was denied is asked again.
func TestRetry_OfADenial(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	r := m.execute(8, `return await mcp.rec.danger({x: "1"})`)
	id := string(r.WorkflowID)
	m.exit(9, "continue", id, "--deny")
	again := m.json(8, "retry", id)
	if again.Status != api.StatusApprovalRequired || again.CheckpointID == r.CheckpointID || m.count("danger") != 0 {
		t.Errorf("%+v after %d calls", again, m.count("danger"))
	}
	if r = m.json(0, "continue", id, "--approve"); r.Status != api.StatusComplete || m.count("danger") != 1 {
		t.Errorf("%+v after %d calls", r, m.count("danger"))
	}
}
