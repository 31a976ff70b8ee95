package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/model"
)

// TestAgent_Nested: an agent inside a script of another one is a run below it, spends of its
// caller's budget, and is counted there; a fourth inside three others is refused.
func TestAgent_Nested(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{Scripts: map[string][]string{
		"reach it": {enginetest.ToInner}, "inner": {`await mcp.a.write({n: 1}); return (await mcp.agent.delegate({goal: "third"})).result;`},
		"third": {`await mcp.a.write({n: 2}); return (await mcp.agent.delegate({goal: "fourth"})).result;`},
	}}
	b.Ask = m.Answer
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Budget: core.AgentBudget{Tokens: 100000, Calls: 40}}), core.RunOptions{Agents: 1})
	r := enginetest.AgentResult(t, b.Wait(h, engine.Ended))
	if !r.Success || r.Usage.Input != 60 || r.Usage.Output != 30 || r.Calls != 5 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"inner is done", "third is done", "depth_limit"} {
		if !strings.Contains(r.Result, want) {
			t.Errorf("%q is not in %s", want, r.Result)
		}
	}
	script, err := p.st.Run(t.Context(), core.ChildID(h.ID, "m1.t1"))
	if err != nil || !script.Starts || script.Options.Budget.Tokens == 0 || script.Options.Budget.Tokens >= 100000 {
		t.Fatalf("%v %+v", err, script)
	}
	inner, err := p.st.Run(t.Context(), core.ChildID(script.ID, "c1"))
	if err != nil || inner.Kind != core.KindAgent || inner.ParentID != script.ID || inner.Options.Agents != 2 {
		t.Fatalf("%v %+v", err, inner)
	}
	program, err := p.st.Program(t.Context(), inner.ID)
	if err != nil || program.Agent.Budget.Tokens != script.Options.Budget.Tokens || program.Agent.Budget.Calls != 39 {
		t.Errorf("%v: it may spend %+v of %+v", err, program.Agent.Budget, script.Options.Budget)
	}
}

// TestAgent_NestedAllowed: what an agent may not use no agent inside it may use, whatever that
// one is given; what the inner one may not use only the outer one may.
func TestAgent_NestedAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{Scripts: map[string][]string{
		"reach it": {`await mcp.a.read({n: 1}); return (await mcp.agent.delegate({goal: "inner", allowed_tools: ["a:write", "a:fail"]})).result;`},
		"inner":    {`return await mcp.a.write({n: 2});`, `return await mcp.a.read({n: 3});`, `return await mcp.a.fail({n: 4});`},
	}}
	b.Ask = m.Answer
	p := b.process()
	allowed := []string{"a:read", "a:fail", "agent:*"}
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Allowed: &allowed}), core.RunOptions{Allowed: &allowed, Agents: 1})
	b.Wait(h, engine.Ended)
	if diff := cmp.Diff([]string{`a:read{"n":1}`, `a:fail{"n":4}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

// TestAgent_NestedShare: agents that a script starts together share what it may spend, also
// when pml ends in between; what one has left over is there for the next.
func TestAgent_NestedShare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{Scripts: map[string][]string{
		"reach it": {`const two = await Promise.all([mcp.agent.delegate({goal: "inner"}), mcp.agent.delegate({goal: "inner"})]); await mcp.agent.delegate({goal: "inner"}); return two.map((x) => x.stop_reason);`},
		"inner":    {},
	}}
	b.Ask = m.Answer
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Budget: core.AgentBudget{Tokens: 90000}}), core.RunOptions{Agents: 1})
	b.Wait(h, engine.Ended)
	script := core.ChildID(h.ID, "m1.t1")
	records, err := p.st.Journal(t.Context(), script, 0)
	if err != nil {
		t.Fatal(err)
	}
	var granted []int
	for _, r := range records {
		if r.Kind == core.RecordStarted && r.Agent != nil {
			granted = append(granted, r.Agent.Granted.Tokens)
		}
		if r.Kind == core.RecordSettled && (r.Agent == nil || r.Agent.Usage.Tokens() != 15) {
			t.Errorf("%s has used %+v", r.CallID, r.Agent)
		}
	}
	run, err := p.st.Run(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	all := run.Options.Budget.Tokens
	if want := []int{all / 2, all - all/2, all - 30}; !slices.Equal(granted, want) {
		t.Errorf("of %d tokens %v were given, want %v", all, granted, want)
	}
}

// TestAgent_InScript: a script and a DAG ask a model one thing, and let an agent work; what
// a script of that one asks of people the run that began it waits for.
func TestAgent_InScript(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{Scripts: map[string][]string{"inner": {`return await mcp.a.ask({n: 1});`}}}
	b.Ask = m.Answer
	p := b.process()
	b.Complete(b.code(p, `return await mcp.agent.decide({question: "is it?"});`, core.RunOptions{}), `{"decision":true,"question":"is it?"}`)
	h := b.dag(p, []core.TaskSpec{{ID: "one", Type: core.TypeAgent, Arguments: json.RawMessage(`{"goal":"inner"}`)}, enginetest.Ref("two", "a:write", `{"said":"$one.success"}`)}, core.RunOptions{})
	inner := core.ChildID(h.ID, "one")
	b.handleOf(p, inner)
	ch := b.handleOf(p, core.ChildID(inner, "m1.t1"))
	b.Wait(ch, engine.Paused)
	b.Wait(h, func(s engine.Status) bool { return s.Idle })
	b.decide(p, ch, core.ApproveTool, true, nil)
	b.Complete(h, `{"two":{"said":true}}`)
	if diff := cmp.Diff([]string{`a:ask{"n":1}`, `a:write{"said":true}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

// TestAgent_ByItsHost: the host makes a call that starts an agent like any other: what a rule
// or a flow refuses or answers right before it is made starts none, and what it makes of the
// answer is what the caller gets.
func TestAgent_ByItsHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made func(ctx context.Context, call engine.Call) (json.RawMessage, error)
		want string
		asks int
	}{
		"Answered": {want: `"by a flow"`, made: func(context.Context, engine.Call) (json.RawMessage, error) {
			return json.RawMessage(`"by a flow"`), nil
		}},
		"Refused": {want: `"no"`, made: func(context.Context, engine.Call) (json.RawMessage, error) {
			return nil, core.Errorf(core.CodePermissionDenied, "no").WithNotMade()
		}},
		"Changed": {want: `"less"`, asks: 1, made: func(ctx context.Context, call engine.Call) (json.RawMessage, error) {
			_, err := call.Make(ctx)
			return json.RawMessage(`"less"`), err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := &byGoal{}
			b.Ask, b.As = m.Answer, madeBy{b.Host, tt.made}
			b.Complete(b.code(b.process(), `try { return await mcp.agent.decide({question: "is it?"}); } catch (e) { return e.message; }`, core.RunOptions{}), tt.want)
			if len(m.Asked()) != tt.asks {
				t.Errorf("the model was asked %q", m.Asked())
			}
		})
	}
}

// madeBy is a host that makes calls in its own way.
type madeBy struct {
	engine.Host
	made func(ctx context.Context, call engine.Call) (json.RawMessage, error)
}

func (h madeBy) Call(ctx context.Context, call engine.Call, _ func(string)) (json.RawMessage, error) {
	return h.made(ctx, call)
}

// TestAgent_NestedAborted: an agent inside a script that somebody ends is a failed call of the
// script, which goes on.
func TestAgent_NestedAborted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := &byGoal{Scripts: map[string][]string{"inner": {`return await mcp.a.ask({n: 1});`}}}
	b.Ask = m.Answer
	p := b.process()
	h := b.code(p, `try { await mcp.agent.delegate({goal: "inner"}); } catch (e) { return "it goes on"; }`, core.RunOptions{})
	inner := core.ChildID(h.ID, "c1")
	b.Wait(b.handleOf(p, core.ChildID(inner, "m1.t1")), engine.Paused)
	b.abort(p, b.handleOf(p, inner))
	b.Complete(h, `"it goes on"`)
}

// TestAgent_OneCount: what a script calls and what the agents call that it starts is counted
// together, whichever is first, and whichever way the script goes on.
func TestAgent_OneCount(t *testing.T) {
	t.Parallel()
	const most = 10
	write := func(n int) string {
		return fmt.Sprintf(`for (let n = 0; n < %d; n++) { try { await mcp.a.write({n}); } catch (e) { refused = e.code; } }`, n)
	}
	inner := func(n int) string { return "let refused = null; " + write(n) + " return refused;" }
	for name, tt := range map[string]struct{ script, inner string }{
		"AgentFirst":    {`let refused = null; await mcp.agent.delegate({goal: "inner"}); ` + write(9) + ` return refused;`, inner(9)},
		"AgentLast":     {`let refused = null; ` + write(8) + ` await mcp.agent.delegate({goal: "inner"}); ` + write(1) + ` return refused;`, inner(9)},
		"NothingLeft":   {`let refused = null; ` + write(9) + ` try { await mcp.agent.delegate({goal: "inner"}); } catch (e) { refused = e.code; } return refused;`, inner(9)},
		"AtOnce":        {`let refused = null; const all = [1, 2, 3].map(() => mcp.agent.delegate({goal: "inner"})); ` + write(6) + ` await Promise.all(all); return refused;`, inner(9)},
		"MoreThanCalls": {`let refused = null; await Promise.all(Array.from({length: 8}, () => mcp.agent.delegate({goal: "inner"}).catch((e) => { refused = e.code; }))); return refused;`, inner(9)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := &byGoal{Scripts: map[string][]string{"reach it": {tt.script}, "inner": {tt.inner}}}
			b.Ask = m.Answer
			h := b.start(b.process(), enginetest.AgentProgram(core.AgentSpec{Budget: core.AgentBudget{Calls: most}}), core.RunOptions{Agents: 1})
			r := enginetest.AgentResult(t, b.Wait(h, engine.Ended))
			agents := 0
			for _, asked := range m.Asked() {
				if asked == "inner 1" {
					agents++
				}
			}
			if made := len(b.Host.Called()) + agents; made > most || made < most-1 || r.Calls != made {
				t.Errorf("%d calls were made of %d, %d are counted", made, most, r.Calls)
			}
			if !strings.Contains(r.Result, `"call_limit"`) {
				t.Errorf("the script is not told: %s", r.Result)
			}
		})
	}
}

// TestAgent_TreeBudget: agents inside one another, one after the other and at the same time,
// spend no more together than the one that began was given, where each answer is as long as it
// may be; where answers are longer than what was asked for, each agent is over by one at most.
// What the model was paid is what is counted.
func TestAgent_TreeBudget(t *testing.T) {
	t.Parallel()
	const limit, over = 30000, 5000
	delegate := `mcp.agent.delegate({goal: "inner", budget: {tokens: 1000000}}).then(r => r.stop_reason, e => e.code)`
	for name, more := range map[string]int{"Obeys": 0, "Longer": over} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := &byGoal{Scripts: map[string][]string{
				"reach it": {`return await Promise.all([` + delegate + `, ` + delegate + `, ` + delegate + `]);`, `return [await ` + delegate + `, await ` + delegate + `];`, `return 3;`, `return 4;`, `return 5;`},
				"inner":    {`return 1;`, `return 2;`, `return await ` + strings.ReplaceAll(delegate, "inner", "third") + `;`, `return 4;`},
				"third":    {`return 1;`, `return 2;`, `return 3;`},
			}}
			var mu sync.Mutex
			paid, agents := 0, map[core.ID]bool{}
			b.Ask = func(ctx context.Context, run core.Run, call string, req model.Request) (model.Answer, error) {
				a, err := m.Answer(ctx, run, call, req)
				a.Usage = &model.Usage{Input: model.Estimate(req), Output: int64(req.MaxTokens + more)}
				mu.Lock()
				defer mu.Unlock()
				paid += int(a.Usage.Input + a.Usage.Output)
				agents[run.ID] = true
				return a, err
			}
			h := b.start(b.process(), enginetest.AgentProgram(core.AgentSpec{Budget: core.AgentBudget{Tokens: limit}}), core.RunOptions{Agents: 1})
			r := enginetest.AgentResult(t, b.Wait(h, engine.Ended))
			if r.Stop != core.AgentBudgetSpent || r.Usage.Tokens() != paid || len(agents) < 4 {
				t.Errorf("%d agents were paid %d tokens: %+v", len(agents), paid, r)
			}
			if most := limit + more*len(agents); paid > most {
				t.Errorf("%d tokens of %d", paid, most)
			}
		})
	}
}
