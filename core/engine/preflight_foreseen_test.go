package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// meeting is a host whose servers are known only once all of them were asked.
type meeting struct {
	*host
	all sync.WaitGroup
}

func (m *meeting) Try(engine.Call) (engine.Verdict, bool) { return engine.Verdict{}, false }

func (m *meeting) Check(ctx context.Context, call engine.Call) engine.Verdict {
	m.all.Done()
	met := make(chan struct{})
	go func() { m.all.Wait(); close(met) }()
	select {
	case <-met:
	case <-ctx.Done():
	}
	return engine.Verdict{Deny: core.Errorf(core.CodeNoSuchTool, "there is no tool %s", call.Tool)}
}

// TestForesee_ServersAtOnce: one server that takes its time holds no other
// back, and what is refused is told in the order of the plan.
func TestForesee_ServersAtOnce(t *testing.T) {
	t.Parallel()
	m := &meeting{host: &host{}}
	m.all.Add(3)
	e := engine.New(engine.Options{Hosts: func(string) (engine.Host, error) { return m, nil }})
	plan := &core.Plan{}
	for _, tool := range []string{"a:x", "b:x", "c:x"} {
		plan.Calls = append(plan.Calls, core.PlanCall{ID: tool, Tool: tool})
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	_, err := e.Foresee(ctx, core.Run{Kind: core.KindDAG}, core.Program{Kind: core.KindDAG, Plan: plan})
	got := core.AsError(err)
	if core.CodeOf(err) != core.CodeDAGInvalid || len(got.Faults) != 3 || got.Faults[0].Path != "/tasks/0/tool" || got.Faults[2].Path != "/tasks/2/tool" {
		t.Errorf("%+v", got)
	}
}
