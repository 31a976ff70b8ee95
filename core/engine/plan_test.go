package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// twoLayers is a DAG whose second layer needs an installation, with its plan.
func twoLayers(t *testing.T) core.Program {
	t.Helper()
	p := core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{
		task("first", "a:ask"), {ID: "then", Tool: "b:read", DependsOn: []string{"first"}},
	}}
	g, err := engine.Graph(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Plan = g.Plan()
	return p
}

// What a DAG plans is not kept: its tasks say it.
func TestPlanned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	program := twoLayers(t)
	h := b.start(p, program, core.RunOptions{})
	stored, err := p.st.Program(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Plan != nil {
		t.Error("the plan of a DAG is kept a second time")
	}
	got, err := engine.Planned(stored)
	if diff := cmp.Diff(program, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	code := core.Program{Kind: core.KindCode}
	if got, err := engine.Planned(code); err != nil || got.Plan != nil {
		t.Errorf("code got the plan %v, %v", got.Plan, err)
	}
	broken := core.Program{Kind: core.KindDAG, Tasks: []core.TaskSpec{{ID: "x", Tool: "a:read", DependsOn: []string{"x"}}}}
	if _, err := engine.Planned(broken); core.CodeOf(err) != core.CodeDAGInvalid {
		t.Errorf("a DAG that cannot be built: %v", err)
	}
}

// A process that takes up a DAG of which nothing has run asks everything ahead,
// as the one would have that was killed.
func TestPlanned_Resume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Needs["b"] = true
	program := twoLayers(t)
	program.Plan = nil
	dead := b.process()
	now := time.Now().UTC()
	run := core.Run{
		ID: newID(), Workspace: "/w", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: now, UpdatedAt: now,
		Runner: dead.Runner.ID(), Epoch: 1, DAGVersion: 1,
	}
	if err := dead.st.Commit(t.Context(), store.Step{Run: run, Create: true, Program: &program}); err != nil {
		t.Fatal(err)
	}
	dead.close()
	h, err := b.process().Resume(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var asked []core.ApprovalType
	for _, ap := range b.Wait(h, engine.Paused).Pending {
		asked = append(asked, ap.Type)
	}
	slices.Sort(asked)
	if want := []core.ApprovalType{core.ApproveDependency, core.ApproveTool}; !slices.Equal(asked, want) {
		t.Errorf("it asks %v before it starts, want %v", asked, want)
	}
}
