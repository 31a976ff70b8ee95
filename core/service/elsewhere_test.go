package service_test

import (
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// A run that could only fail on this machine is left to one where it can go on:
// its folder is not here, or what it calls is not trusted here.
func TestSupervise_LeavesWhatBelongsElsewhere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"mcpServers": {"tracker": {"command": "/bin/tracker"}}}`)
	p := m.server()
	now := m.clock.Now()
	keep := func(dir, tool string) core.ID {
		run := core.Run{ID: newID(), Kind: core.KindDAG, Workspace: dir, Side: core.SideServer, State: core.RunRunning, CreatedAt: now, UpdatedAt: now}
		task := core.TaskSpec{ID: "t1", Tool: tool, Arguments: []byte(`{"path":"a.txt"}`)}
		program := &core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task}, Plan: &core.Plan{Calls: []core.PlanCall{{Tool: tool}}}}
		if err := p.store.Commit(p.ctx(), store.Step{Run: run, Create: true, Program: program}); err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	left := map[string]core.ID{
		"no folder":   keep(filepath.Join(m.ws, "gone"), "workspace:read_file"),
		"not trusted": keep(m.ws, "tracker:list"),
	}
	good := keep(m.ws, "workspace:read_file")
	p.supervise()
	p.until(good, is(core.RunComplete))
	for why, id := range left {
		if run, err := p.store.Run(p.ctx(), id); err != nil || run.State != core.RunRunning || run.Epoch != 0 {
			t.Errorf("%s: %v, %s in epoch %d; it was taken up", why, err, run.State, run.Epoch)
		}
	}
}
