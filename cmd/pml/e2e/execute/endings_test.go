//go:build unix

package execute_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestExit_AfterCalls: 2, 3 and 13 say that nothing was run; a run that got
// somewhere and failed ends with 1, whatever its error says.
func TestExit_AfterCalls(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
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
		"Reference": {core.CodeInvalidArguments, []string{"execute", m.DAG("ref.json", pmltest.Task("a", "rec:inc", `{"key":"a"}`, nil), pmltest.Task("b", "rec:inc", `{"key":"$a.nothing"}`, nil))}},
	} {
		before := m.Count("inc")
		o := m.Exit(1, append(tt.args, "--json")...)
		if f := o.Fault(); f.Code != tt.code || f.Exit != 1 || m.Count("inc") != before+1 {
			t.Errorf("%s: %+v after %d calls", name, f, m.Count("inc")-before)
		}
		id := string(m.Latest().ID)
		m.Exit(1, "workflows", "watch", id)
		m.Exit(1, "workflows", "result", id)
	}
}

// TestWatch_Killed: watch shows the last event, and does not wait for a run
// whose process is gone.
func TestWatch_Killed(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	p := m.Start(m.Halfway("dag", "wait", filepath.Join(m.Dir, "never"))...)
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
	w := m.Start("workflows", "watch", "@latest")
	pmltest.WaitFor(t, "watch shows what was before", func() bool { return strings.Contains(w.Out.String()+w.Err.String(), "rec:wait") })
	p.Kill()
	next := "next: pml continue " + m.Latest().ID.Short()
	pmltest.Wants(t, w.Wait().Want(1).Stderr, "interrupted", next)
	pmltest.Wants(t, m.Exit(1, "workflows", "watch", "@latest").Stderr, next)

	r := m.Execute(0, `return (await mcp.rec.inc({key: "b"})).count`)
	lines := strings.Split(strings.TrimSpace(m.OK("workflows", "watch", string(r.WorkflowID), "--json").Stdout), "\n")
	pmltest.Wants(t, lines[len(lines)-1], `"workflow_complete"`)
}

// TestTimeout_OfCommands: a command that --timeout stops ends with 124, and
// makes no findings of what it did not wait for.
func TestTimeout_OfCommands(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.Config{
		Permissions: map[string]any{"allow": []string{"silent", "rec"}},
		Servers:     map[string]map[string]any{"silent": {"command": skiptest.Tool(t, "sleep"), "args": []string{"600"}}},
	})
	dag := m.DAG("dag.json", pmltest.Task("a", "silent:x", `{}`, nil))
	for _, args := range [][]string{
		{"tools", "ls"}, {"plan", dag}, {"doctor"}, {"servers", "check"}, {"execute", dag}, {"tools", "call", "silent:x"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			o := m.Exit(124, append(args, "--timeout", "10s")...)
			if took := time.Since(start); took > pmltest.Patience {
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
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	pmltest.Wants(t, m.OK("execute", "--code", "return 1", "--json").Stdout, `"tools": []`, `"replayed_calls": 0`, `"successful_tasks": 0`, `"failed_tasks": 0`)
	o := m.Exit(8, "execute", "--hil", "always", "--json", m.DAG("dag.json", pmltest.Task("a", "rec:inc", `{"key":"a"}`, nil)))
	pmltest.Wants(t, o.Stdout, `"results": []`)
	if strings.Contains(o.Stdout, "null") {
		t.Errorf("null in %s", o.Stdout)
	}
}

// TestRetry_OfADenial: who retries what was denied is asked again.
func TestRetry_OfADenial(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, `return await mcp.rec.danger({x: "1"})`)
	id := string(r.WorkflowID)
	m.Exit(9, "continue", id, "--deny")
	again := m.JSON(8, "retry", id)
	if again.Status != api.StatusApprovalRequired || again.CheckpointID == r.CheckpointID || m.Count("danger") != 0 {
		t.Errorf("%+v after %d calls", again, m.Count("danger"))
	}
	if r = m.JSON(0, "continue", id, "--approve"); r.Status != api.StatusComplete || m.Count("danger") != 1 {
		t.Errorf("%+v after %d calls", r, m.Count("danger"))
	}
}
