package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/store"
)

// TestHalt_StartsAgent: a call that starts an agent, and that a halt meets before the agent is
// there, makes none; it goes on afterwards.
func TestHalt_StartsAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{Scripts: map[string][]string{"inner": {}}}
	b.Ask = m.Answer
	other := b.store()
	defer other.Close()
	first := true
	b.Host.OnCall = func(engine.Call) {
		if first {
			first = false
			enginetest.HaltCalls(t, other)
		}
	}
	p := b.process()
	h := b.code(p, `return (await mcp.agent.delegate({goal: "inner"})).success`, core.RunOptions{})
	b.Wait(h, enginetest.IsHalted)
	if _, err := other.Run(t.Context(), core.ChildID(h.ID, "c1")); core.CodeOf(err) != core.CodeNotFound || len(m.Asked()) != 0 {
		t.Errorf("%v, asked %v", err, m.Asked())
	}
	enginetest.LetCallsGo(t, other)
	p.Wake(h.ID)
	if s := b.Wait(h, engine.Ended); string(s.Run.Result) != "true" || len(m.Asked()) != 1 {
		t.Errorf("%s %v %s, asked %v", s.Run.State, s.Run.Error, s.Run.Result, m.Asked())
	}
}

// TestHalt_Restart: a run that is taken up while calls are halted waits on.
func TestHalt_Restart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.As = &enginetest.Sends{Host: b.Host}
	other := b.store()
	defer other.Close()
	enginetest.HaltCalls(t, other)
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("x", "a:write"), task("y", "a:read"), task("z", "a:ask")}, core.RunOptions{})
	b.Wait(h, enginetest.IsHalted)
	p.close()
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	b.Wait(h, func(s engine.Status) bool { return enginetest.IsHalted(s) && len(s.Pending) == 1 })
	b.decide(p, h, core.ApproveTool, true, nil)
	p.Wake(h.ID)
	if got := b.Host.Called(); len(got) != 0 {
		t.Fatalf("called %v", got)
	}
	enginetest.LetCallsGo(t, other)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 3 {
		t.Errorf("%s %v, called %v", s.Run.State, s.Run.Error, b.Host.Called())
	}
}

// noSay is a store that does not say whether calls are halted.
type noSay struct{ store.Store }

func (noSay) Halted(context.Context) (*core.Halt, error) {
	return nil, core.Errorf(core.CodeStoreFailed, "the test lets it fail")
}

// TestHalt_Unreadable: where it cannot be known whether calls are halted, none is made.
func TestHalt_Unreadable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.As = &enginetest.Sends{Host: b.Host}
	b.wrap = func(s store.Store) store.Store { return noSay{s} }
	p := b.process()
	for _, tool := range []string{"read", "write"} {
		s := b.Wait(b.code(p, `return await mcp.a.`+tool+`({})`, core.RunOptions{}), engine.Ended)
		if s.Run.State != core.RunFailed || s.Run.Error == nil || !strings.Contains(s.Run.Error.Message, "halted") {
			t.Errorf("%s: %s %v", tool, s.Run.State, s.Run.Error)
		}
	}
	if got := b.Host.Called(); len(got) != 0 {
		t.Errorf("called %v", got)
	}
}

// saysLate is a store that says whether calls are halted only when it is asked again.
type saysLate struct {
	store.Store
	asked atomic.Int32
}

func (s *saysLate) Halted(ctx context.Context) (*core.Halt, error) {
	if s.asked.Add(1) < 3 {
		return nil, core.Errorf(core.CodeStoreFailed, "the test lets it fail")
	}
	return s.Store.Halted(ctx)
}

// TestHalt_StoreComesBack: a call waits for a store that is away for a moment, as its run
// does, and is made once.
func TestHalt_StoreComesBack(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"read", "write"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.StoreRetry = hung
			b.As = &enginetest.Sends{Host: b.Host}
			b.wrap = func(s store.Store) store.Store { return &saysLate{Store: s} }
			p := b.process()
			s := b.Wait(b.code(p, `return await mcp.a.`+tool+`({})`, core.RunOptions{}), engine.Ended)
			if s.Run.State != core.RunComplete || len(b.Host.Called()) != 1 {
				t.Errorf("%s %v, called %v", s.Run.State, s.Run.Error, b.Host.Called())
			}
		})
	}
}

// TestHalt_Agent: no model is asked while calls are halted.
func TestHalt_Agent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.As = &enginetest.Sends{Host: b.Host}
	asked := make(chan struct{}, 10)
	b.Ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		asked <- struct{}{}
		return model.Answer{Text: "done"}, nil
	}
	other := b.store()
	defer other.Close()
	enginetest.HaltCalls(t, other)
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	b.Wait(h, enginetest.IsHalted)
	if len(asked) > 0 {
		t.Fatal("the model was asked")
	}
	enginetest.LetCallsGo(t, other)
	if s := b.Wait(h, engine.Ended); len(asked) == 0 {
		t.Errorf("%s %v: the model was not asked afterwards", s.Run.State, s.Run.Error)
	}
}
