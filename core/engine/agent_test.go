package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/store"
)

// agentProgramOf completes a goal.
func agentProgramOf(spec core.AgentSpec) core.Program {
	spec.Goal, spec.System = "reach it", "You are an agent."
	if spec.Iterations == 0 {
		spec.Iterations = 10
	}
	spec.MaxTokens = 1000
	return core.Program{Kind: core.KindAgent, Version: 1, Agent: &spec}
}

// fakeModel is a model that asks for scripts, and counts what it is asked.
type fakeModel struct {
	mu    sync.Mutex
	asked map[string]int // requests by the number of their messages
	kept  map[string]bool
}

// answer is a model whose n-th answer asks for the n-th list of scripts; after the last
// it says what all of them came to.
func (m *fakeModel) answer(scripts [][]string) func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
	return func(_ context.Context, _ core.Run, _ string, req model.Request) (model.Answer, error) {
		m.note(len(req.Messages))
		for _, msg := range req.Messages {
			if len(msg.Answer) > 0 && string(msg.Answer) != blocks {
				return said("it gets back other bytes: " + string(msg.Answer)), nil
			}
		}
		n := len(req.Messages) / 2
		if n >= len(scripts) {
			return said(seenBy(req)), nil
		}
		a := model.Answer{Stop: model.StopTools, Usage: &model.Usage{Input: 10, Output: 5}}
		for i, code := range scripts[n] {
			a.Calls = append(a.Calls, scriptCall(fmt.Sprintf("toolu_%d_%d", n, i), code))
		}
		a.Blocks = json.RawMessage(blocks)
		return a, nil
	}
}

// blocks are what a model answers, in bytes that no encoder of JSON would write.
const blocks = `[ {"type": "thinking", "text": "a<b && c>d \u003c é", "signature":"x/y=="} ]`

// scriptCall asks for a script, or for what is intended where the text begins with that.
func scriptCall(id, code string) model.Call {
	in := map[string]string{"intent": "do " + id, "code": code}
	if intent, ok := strings.CutPrefix(code, "intent: "); ok {
		in = map[string]string{"intent": intent}
	}
	input, _ := json.Marshal(in)
	return model.Call{ID: id, Name: agent.Execute.Name, Input: input}
}

func said(text string) model.Answer {
	return model.Answer{Stop: model.StopEnd, Text: text, Blocks: json.RawMessage(`[]`), Usage: &model.Usage{Input: 10, Output: 5}}
}

// seenBy is what a model has seen of the results so far.
func seenBy(req model.Request) string {
	var all []string
	for _, t := range req.Messages {
		for _, r := range t.Results {
			all = append(all, fmt.Sprintf("%s failed=%v %s", r.ID, r.Failed, r.Text))
		}
	}
	return strings.Join(all, "\n")
}

func (m *fakeModel) note(messages int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked == nil {
		m.asked = map[string]int{}
	}
	m.asked[strconv.Itoa(messages)]++
}

// keep looks at what the last process has journaled: none of it is asked again.
func (m *fakeModel) keep(t *testing.T, p *process, id core.ID) {
	t.Helper()
	records, err := p.st.Journal(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for messages := range m.kept {
		if m.asked[messages] > 0 {
			t.Errorf("the request with %s messages was answered, and is made again", messages)
		}
	}
	m.kept, m.asked = map[string]bool{}, map[string]int{}
	for _, r := range records {
		var args struct {
			Messages int `json:"messages"`
		}
		if r.Kind == core.RecordSettled && r.Tool == core.ModelTool && json.Unmarshal(r.Args, &args) == nil {
			m.kept[strconv.Itoa(args.Messages)] = true
		}
	}
}

// resultOf is what an agent came to.
func resultOf(t *testing.T, s engine.Status) core.AgentResult {
	t.Helper()
	var r core.AgentResult
	if err := json.Unmarshal(s.Run.Result, &r); err != nil {
		t.Fatalf("the run is %s, %v: %s", s.Run.State, s.Run.Error, s.Run.Result)
	}
	return r
}

// TestAgent_Runs: the scripts that a model asks for are runs below the agent's, and
// their results reach the model.
func TestAgent_Runs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.ask = m.answer([][]string{{`return await mcp.a.write({n: 1});`, `return await mcp.a.fail({});`}, {`return (await mcp.a.read({n: 2})).n;`}})
	p := b.process()
	now := time.Now().UTC()
	h, err := p.Start(t.Context(), core.Run{
		ID: newID(), Side: core.SideServer, Workspace: "/w", Owner: "ann", Kind: core.KindAgent, CreatedAt: now, UpdatedAt: now,
		RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}, agentProgramOf(core.AgentSpec{}))
	if err != nil {
		t.Fatal(err)
	}
	s := b.wait(h, engine.Ended)
	r := resultOf(t, s)
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
		b.ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
			a := said("there")
			a.Usage = usage
			return a, nil
		}
		p := b.process()
		h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{})
		b.wait(h, engine.Ended)
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
	first := m.answer([][]string{{`return await mcp.a.write({n: 1});`}})
	held := make(chan struct{})
	b.ask = func(ctx context.Context, run core.Run, call string, req model.Request) (model.Answer, error) {
		if len(req.Messages) == 1 {
			return first(ctx, run, call, req)
		}
		close(held)
		<-ctx.Done()
		return model.Answer{}, ctx.Err()
	}
	p := b.process()
	h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{TimeoutMS: 10 * 60 * 1000})
	<-held
	b.ahead.Store(int64(30 * time.Minute))
	p.Wake(h.ID)
	s := b.wait(h, engine.Ended)
	if r := resultOf(t, s); s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeTimeout || r.Stop != core.AgentTimeout || r.Success || len(r.Runs) != 1 {
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
			b.ask = m.answer([][]string{{`return await mcp.a.read({n: 1});`, `return await mcp["a"]["wri" + "te"]({n: 2});`}})
			p := b.process()
			h := b.start(p, agentProgramOf(core.AgentSpec{Allowed: &tt.allowed}), core.RunOptions{Allowed: &tt.allowed})
			b.wait(h, engine.Ended)
			got := b.host.called()
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
	b.ask = m.answer([][]string{{`return await mcp.a.ask({n: 1});`}})
	p := b.process()
	h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{TimeoutMS: 10 * 60 * 1000})
	child := core.ChildID(h.ID, "m1.t1")
	ch := b.handleOf(p, child)
	b.wait(ch, engine.Paused)
	b.wait(h, func(s engine.Status) bool { return s.Idle })
	b.ahead.Store(int64(30 * time.Minute)) // longer than the agent may run
	p.Wake(h.ID)
	b.decide(p, ch, core.ApproveTool, true, nil)
	if r := resultOf(t, b.wait(h, engine.Ended)); !r.Success || len(b.host.called()) != 1 {
		t.Errorf("%+v, called %v", r, b.host.called())
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
			b.ask = m.answer(scripts)
			p := b.process()
			h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{})
			for i := range tt.asked {
				ch := b.handleOf(p, core.ChildID(h.ID, fmt.Sprintf("m%d.t1", i+1)))
				b.wait(ch, engine.Paused)
				b.decide(p, ch, core.ApproveTool, false, nil)
			}
			if r := resultOf(t, b.wait(h, engine.Ended)); r.Stop != tt.stop || len(r.Runs) != tt.asked || len(b.host.called()) > 0 {
				t.Errorf("%+v, called %v", r, b.host.called())
			}
		})
	}
}

// TestAgent_Aborted: the end of an agent is that of its runs.
func TestAgent_Aborted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.ask = m.answer([][]string{{`return await mcp.a.ask({n: 1});`}})
	p := b.process()
	h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{})
	ch := b.handleOf(p, core.ChildID(h.ID, "m1.t1"))
	b.wait(ch, engine.Paused)
	if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me"}, At: b.now()}); err != nil {
		t.Fatal(err)
	}
	p.Wake(h.ID)
	if s := b.wait(h, engine.Ended); s.Run.State != core.RunAborted {
		t.Errorf("the agent is %s", s.Run.State)
	}
	if s := b.wait(ch, engine.Ended); s.Run.State != core.RunAborted {
		t.Errorf("its run is %s", s.Run.State)
	}
	if got := b.host.called(); len(got) > 0 {
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
	b.ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			return model.Answer{}, core.Errorf(core.CodeRateLimited, "too many requests")
		}
		return said("there"), nil
	}
	p := b.process()
	if r := resultOf(t, b.wait(b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{}), engine.Ended)); r.Result != "there" || r.Usage.LostAttempts != 0 {
		t.Errorf("%+v", r)
	}
	b.ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		return model.Answer{}, core.Errorf(core.CodeAuth, "the key is refused")
	}
	p.close()
	p = b.process()
	h := b.start(p, agentProgramOf(core.AgentSpec{}), core.RunOptions{})
	if s := b.wait(h, engine.Ended); s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeAuth {
		t.Errorf("%s %v", s.Run.State, s.Run.Error)
	}
	p.close()
	b.ask = func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
		return said("with a key"), nil
	}
	p = b.process()
	h, _, err := p.Retry(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r := resultOf(t, b.wait(h, engine.Ended)); r.Result != "with a key" {
		t.Errorf("%+v", r)
	}
}
