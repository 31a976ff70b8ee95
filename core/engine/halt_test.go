package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/store"
)

// sends is a host that asks, as every host does, right before it sends a call.
type sends struct {
	*host
	// before, when set, is called with each call that is about to be asked about.
	before func()
}

func (s *sends) Call(ctx context.Context, call engine.Call, progress func(string)) (json.RawMessage, error) {
	if s.before != nil {
		s.before()
	}
	if err := call.Before(ctx); err != nil {
		return nil, core.AsError(err).WithNotMade()
	}
	return s.host.Call(ctx, call, progress)
}

func halt(t *testing.T, s store.Store) {
	t.Helper()
	if _, err := s.Halt(t.Context(), core.Halt{By: core.Actor{Who: "ann", Via: core.ViaCLI}, At: time.Now(), Reason: "wrong"}); err != nil {
		t.Error(err)
	}
}

func letGo(t *testing.T, s store.Store) {
	t.Helper()
	if was, err := s.LetGo(t.Context(), core.Resumption{By: core.Actor{Who: "ann", Via: core.ViaCLI}, At: time.Now(), Presence: core.PresenceTerminal}); err != nil || was == nil {
		t.Error(was, err)
	}
}

func isHalted(s engine.Status) bool { return s.Run.State == core.RunWaiting && s.Run.Halted != nil }

// TestHalt halts calls while runs make them, by another process: once that is said, none
// begins, whether it is journaled before or not, and afterwards every call is made once.
func TestHalt(t *testing.T) {
	t.Parallel()
	const runs, calls = 8, 60
	b := newBench(t)
	enough, halted := make(chan struct{}, runs*calls+1), make(chan struct{})
	var n atomic.Int64
	b.host.onCall = func(engine.Call) {
		enough <- struct{}{}
		if n.Add(1) > 3*runs { // no run ends before calls are halted
			<-halted
		}
	}
	b.as = &sends{host: b.host}
	p, other := b.process(), b.store()
	defer other.Close()
	var handles []*engine.Handle
	for i := range runs {
		handles = append(handles, b.code(p, fmt.Sprintf(`for (let i = 0; i < %d; i++) await (i %% 3 ? mcp.a.write : mcp.a.read)({ run: %d, i }); return "done"`, calls, i), core.RunOptions{}))
	}
	for range 2 * runs {
		<-enough
	}
	halt(t, other)
	made := len(b.host.called())
	close(halted)
	for _, h := range handles {
		s := b.wait(h, func(s engine.Status) bool { return engine.Ended(s) || isHalted(s) })
		if engine.Ended(s) {
			t.Fatalf("the run %s ended: %s", h.ID, s.Run.Result)
		}
		if h := s.Run.Halted; h.By.Who != "ann" || h.Reason != "wrong" {
			t.Errorf("halted: %+v", h)
		}
	}
	if now := len(b.host.called()); now > made+runs { // a call of each run had been let on
		t.Errorf("%d calls were made after %d", now-made, made)
	}
	stopped := len(b.host.called())
	late := b.code(p, `return await mcp.a.write({ late: true })`, core.RunOptions{})
	b.wait(late, isHalted)
	if now := b.host.called(); len(now) != stopped {
		t.Errorf("calls while halted: %v", now[stopped:])
	}
	letGo(t, other)
	for _, h := range append(handles, late) {
		if s := b.wait(h, engine.Ended); s.Run.State != core.RunComplete || s.Run.Halted != nil {
			t.Errorf("%s ended %s: %v", h.ID, s.Run.State, s.Run.Error)
		}
	}
	made1 := b.host.called()
	slices.Sort(made1)
	if len(made1) != runs*calls+1 || len(slices.Compact(made1)) != runs*calls+1 {
		t.Errorf("%d calls were made, want %d different ones", len(made1), runs*calls+1)
	}
}

// TestHalt_BeforeSend: a call that is let on, and not sent yet, is not sent once calls are
// halted. It has begun without harm: nobody is asked what became of it.
func TestHalt_BeforeSend(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"read", "write"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			other := b.store()
			defer other.Close()
			as := &sends{host: b.host}
			first := true
			as.before = func() {
				if first {
					first = false
					halt(t, other)
				}
			}
			b.as = as
			p := b.process()
			h := b.code(p, fmt.Sprintf(`return await mcp.a.%s({ n: 1 })`, tool), core.RunOptions{})
			b.wait(h, isHalted)
			if got := b.host.called(); len(got) != 0 {
				t.Fatalf("called %v", got)
			}
			p.close() // and it survives the process
			letGo(t, other)
			p = b.process()
			s := b.wait(b.resume(p, h.ID), engine.Ended)
			if got := b.host.called(); s.Run.State != core.RunComplete || len(got) != 1 {
				t.Errorf("%s %v, called %v", s.Run.State, s.Run.Error, got)
			}
		})
	}
}

// TestHalt_StartsAgent: a call that starts an agent, and that a halt meets before the agent is
// there, makes none; it goes on afterwards.
func TestHalt_StartsAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{scripts: map[string][]string{"inner": {}}}
	b.ask = m.answer
	other := b.store()
	defer other.Close()
	first := true
	b.host.onCall = func(engine.Call) {
		if first {
			first = false
			halt(t, other)
		}
	}
	p := b.process()
	h := b.code(p, `return (await mcp.agent.delegate({goal: "inner"})).success`, core.RunOptions{})
	b.wait(h, isHalted)
	if _, err := other.Run(t.Context(), core.ChildID(h.ID, "c1")); core.CodeOf(err) != core.CodeNotFound || len(m.asked) != 0 {
		t.Errorf("%v, asked %v", err, m.asked)
	}
	letGo(t, other)
	p.Wake(h.ID)
	if s := b.wait(h, engine.Ended); string(s.Run.Result) != "true" || len(m.asked) != 1 {
		t.Errorf("%s %v %s, asked %v", s.Run.State, s.Run.Error, s.Run.Result, m.asked)
	}
}

// TestHalt_Restart: a run that is taken up while calls are halted waits on.
func TestHalt_Restart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.as = &sends{host: b.host}
	other := b.store()
	defer other.Close()
	halt(t, other)
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("x", "a:write"), task("y", "a:read"), task("z", "a:ask")}, core.RunOptions{})
	b.wait(h, isHalted)
	p.close()
	p = b.process()
	h = b.resume(p, h.ID)
	b.wait(h, func(s engine.Status) bool { return isHalted(s) && len(s.Pending) == 1 })
	b.decide(p, h, core.ApproveTool, true, nil)
	p.Wake(h.ID)
	if got := b.host.called(); len(got) != 0 {
		t.Fatalf("called %v", got)
	}
	letGo(t, other)
	if s := b.wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.host.called()) != 3 {
		t.Errorf("%s %v, called %v", s.Run.State, s.Run.Error, b.host.called())
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
	b.as = &sends{host: b.host}
	b.wrap = func(s store.Store) store.Store { return noSay{s} }
	p := b.process()
	for _, tool := range []string{"read", "write"} {
		s := b.wait(b.code(p, `return await mcp.a.`+tool+`({})`, core.RunOptions{}), engine.Ended)
		if s.Run.State != core.RunFailed || s.Run.Error == nil || !strings.Contains(s.Run.Error.Message, "halted") {
			t.Errorf("%s: %s %v", tool, s.Run.State, s.Run.Error)
		}
	}
	if got := b.host.called(); len(got) != 0 {
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
			b.limits.StoreRetry = hung
			b.as = &sends{host: b.host}
			b.wrap = func(s store.Store) store.Store { return &saysLate{Store: s} }
			p := b.process()
			s := b.wait(b.code(p, `return await mcp.a.`+tool+`({})`, core.RunOptions{}), engine.Ended)
			if s.Run.State != core.RunComplete || len(b.host.called()) != 1 {
				t.Errorf("%s %v, called %v", s.Run.State, s.Run.Error, b.host.called())
			}
		})
	}
}

// TestHalt_Agent: no model is asked while calls are halted.
func TestHalt_Agent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.as = &sends{host: b.host}
	asked := make(chan struct{}, 10)
	b.ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		asked <- struct{}{}
		return model.Answer{Text: "done"}, nil
	}
	other := b.store()
	defer other.Close()
	halt(t, other)
	p := b.process()
	h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{})
	b.wait(h, isHalted)
	if len(asked) > 0 {
		t.Fatal("the model was asked")
	}
	letGo(t, other)
	if s := b.wait(h, engine.Ended); len(asked) == 0 {
		t.Errorf("%s %v: the model was not asked afterwards", s.Run.State, s.Run.Error)
	}
}
