package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/store"
)

// TestAgent_Runs: the scripts that a model asks for are runs below the agent's, and
// their results reach the model.
func TestAgent_Runs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.Ask = m.Answer([][]string{{`return await mcp.a.write({n: 1});`, `return await mcp.a.fail({});`}, {`return (await mcp.a.read({n: 2})).n;`}})
	p := b.process()
	now := time.Now().UTC()
	h, err := p.Start(t.Context(), core.Run{
		ID: newID(), Side: core.SideServer, Workspace: "/w", Owner: "ann", Kind: core.KindAgent, CreatedAt: now, UpdatedAt: now,
		RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}, enginetest.AgentProgram(core.AgentSpec{}))
	if err != nil {
		t.Fatal(err)
	}
	s := b.Wait(h, engine.Ended)
	r := enginetest.AgentResult(t, s)
	if !r.Success || r.Stop != core.AgentEndTurn || r.Iterations != 3 || len(r.Runs) != 3 || r.Calls != 3 || r.Usage.Input != 30 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"toolu_0_0 failed=false <data>\n{\"n\":1}", "toolu_0_1 failed=true failed (tool_failed)", "it failed", "toolu_1_0 failed=false <data>\n2\n"} {
		if !strings.Contains(r.Result, want) {
			t.Errorf("the model has not seen %q:\n%s", want, r.Result)
		}
	}
	for i, id := range r.Runs {
		run, err := p.st.Run(t.Context(), id)
		if err != nil || run.ParentID != h.ID || !strings.Contains(run.Name, "do toolu_") {
			t.Errorf("run %d: %+v, %v", i, run, err)
		}
		if run.Workspace != s.Run.Workspace || run.Owner != s.Run.Owner || run.Side != s.Run.Side || run.RequestedBy != s.Run.RequestedBy || run.Owner != "ann" {
			t.Errorf("run %d has another identity than its agent: %+v, %+v", i, run, s.Run)
		}
	}
}

// TestAgent_Unreported: of an answer whose provider does not say what it has used, the event
// says that, and no number.
func TestAgent_Unreported(t *testing.T) {
	t.Parallel()
	for _, usage := range []*model.Usage{nil, {Input: 10, Output: 5}} {
		b := newBench(t)
		b.Ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
			a := enginetest.Said("there")
			a.Usage = usage
			return a, nil
		}
		p := b.process()
		h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
		b.Wait(h, engine.Ended)
		list, err := p.st.Events(t.Context(), store.EventFilter{RunID: h.ID, Types: []core.EventType{core.EventAgentIteration}})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %+v", err, list)
		}
		want := "tokens not reported"
		if usage != nil {
			want = "10 tokens read, 5 written"
		}
		if e := list[0]; !strings.Contains(e.Message, want) || strings.Contains(string(e.Data), `"usage"`) != (usage != nil) {
			t.Errorf("%s %s", e.Message, e.Data)
		}
	}
}

// TestAgent_Timeout: an agent whose model takes longer than the agent may ends with what it
// had come to, and says why.
func TestAgent_Timeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	first := m.Answer([][]string{{`return await mcp.a.write({n: 1});`}})
	held := make(chan struct{})
	b.Ask = func(ctx context.Context, run core.Run, call string, req model.Request) (model.Answer, error) {
		if len(req.Messages) == 1 {
			return first(ctx, run, call, req)
		}
		close(held)
		<-ctx.Done()
		return model.Answer{}, ctx.Err()
	}
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{TimeoutMS: 10 * 60 * 1000})
	<-held
	b.Ahead.Store(int64(30 * time.Minute))
	p.Wake(h.ID)
	s := b.Wait(h, engine.Ended)
	if r := enginetest.AgentResult(t, s); s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeTimeout || r.Stop != core.AgentTimeout || r.Success || len(r.Runs) != 1 {
		t.Errorf("%s %v %+v", s.Run.State, s.Run.Error, r)
	}
}

// TestAgent_Allowed: no run of an agent calls a tool that the agent may not use,
// whatever the rules say of it.
func TestAgent_Allowed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allowed []string
		calls   string
	}{"One": {[]string{"a:read"}, `a:read{"n":1}`}, "None": {[]string{}, ""}, "Server": {[]string{"a:*"}, `a:read{"n":1} a:write{"n":2}`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var m fakeModel
			b.Ask = m.Answer([][]string{{`return await mcp.a.read({n: 1});`, `return await mcp["a"]["wri" + "te"]({n: 2});`}})
			p := b.process()
			h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Allowed: &tt.allowed}), core.RunOptions{Allowed: &tt.allowed})
			b.Wait(h, engine.Ended)
			got := b.Host.Called()
			if slices.Sort(got); strings.Join(got, " ") != tt.calls {
				t.Errorf("called %v, want %s", got, tt.calls)
			}
		})
	}
}

// TestAgent_WaitsForPeople: while a run of an agent waits for a person, no time of the
// agent runs; the agent itself asks nothing.
func TestAgent_WaitsForPeople(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.Ask = m.Answer([][]string{{`return await mcp.a.ask({n: 1});`}})
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{TimeoutMS: 10 * 60 * 1000})
	child := core.ChildID(h.ID, "m1.t1")
	ch := b.handleOf(p, child)
	b.Wait(ch, engine.Paused)
	b.Wait(h, func(s engine.Status) bool { return s.Idle })
	b.Ahead.Store(int64(30 * time.Minute)) // longer than the agent may run
	p.Wake(h.ID)
	b.decide(p, ch, core.ApproveTool, true, nil)
	if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); !r.Success || len(b.Host.Called()) != 1 {
		t.Errorf("%+v, called %v", r, b.Host.Called())
	}
}

// TestAgent_DeniedTwice: a person who has refused the same call in two scripts is not
// asked a third time, even where the scripts hide the refusal. Another call is another
// question.
func TestAgent_DeniedTwice(t *testing.T) {
	t.Parallel()
	ask := func(n int) string {
		return fmt.Sprintf(`try { await mcp.a.ask({n: %d}); } catch { return Math.random(); }`, n)
	}
	for name, tt := range map[string]struct {
		calls []int
		stop  core.AgentStop
		asked int
	}{"Same": {[]int{1, 1, 1}, core.AgentDenied, 2}, "Between": {[]int{1, 2, 1, 3}, core.AgentDenied, 3}, "Others": {[]int{1, 2, 3}, core.AgentEndTurn, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var m fakeModel
			var scripts [][]string
			for _, n := range tt.calls {
				scripts = append(scripts, []string{ask(n)})
			}
			b.Ask = m.Answer(scripts)
			p := b.process()
			h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
			for i := range tt.asked {
				ch := b.handleOf(p, core.ChildID(h.ID, fmt.Sprintf("m%d.t1", i+1)))
				b.Wait(ch, engine.Paused)
				b.decide(p, ch, core.ApproveTool, false, nil)
			}
			if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); r.Stop != tt.stop || len(r.Runs) != tt.asked || len(b.Host.Called()) > 0 {
				t.Errorf("%+v, called %v", r, b.Host.Called())
			}
		})
	}
}

// TestAgent_Aborted: the end of an agent is that of its runs.
func TestAgent_Aborted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.Ask = m.Answer([][]string{{`return await mcp.a.ask({n: 1});`}})
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	ch := b.handleOf(p, core.ChildID(h.ID, "m1.t1"))
	b.Wait(ch, engine.Paused)
	if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me"}, At: b.Now()}); err != nil {
		t.Fatal(err)
	}
	p.Wake(h.ID)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunAborted {
		t.Errorf("the agent is %s", s.Run.State)
	}
	if s := b.Wait(ch, engine.Ended); s.Run.State != core.RunAborted {
		t.Errorf("its run is %s", s.Run.State)
	}
	if got := b.Host.Called(); len(got) > 0 {
		t.Errorf("called %v", got)
	}
}

// TestAgent_TriesAgain: what a model's provider refuses for now is asked again, and what
// it refuses for good ends the agent.
func TestAgent_TriesAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	asked := 0
	b.Ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			return model.Answer{}, core.Errorf(core.CodeRateLimited, "too many requests")
		}
		return enginetest.Said("there"), nil
	}
	p := b.process()
	if r := enginetest.AgentResult(t, b.Wait(b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{}), engine.Ended)); r.Result != "there" || r.Usage.LostAttempts != 0 {
		t.Errorf("%+v", r)
	}
	b.Ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		return model.Answer{}, core.Errorf(core.CodeAuth, "the key is refused")
	}
	p.close()
	p = b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeAuth {
		t.Errorf("%s %v", s.Run.State, s.Run.Error)
	}
	p.close()
	b.Ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		return enginetest.Said("with a key"), nil
	}
	p = b.process()
	h, _, err := p.Retry(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); r.Result != "with a key" {
		t.Errorf("%+v", r)
	}
}
