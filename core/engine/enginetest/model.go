package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
)

// AgentProgram completes a goal.
func AgentProgram(spec core.AgentSpec) core.Program {
	spec.Goal, spec.System = "reach it", "You are an agent."
	if spec.Iterations == 0 {
		spec.Iterations = 10
	}
	spec.MaxTokens = 1000
	return core.Program{Kind: core.KindAgent, Version: 1, Agent: &spec}
}

// Model is a model that asks for scripts, and counts what it is asked.
type Model struct {
	mu    sync.Mutex
	asked map[string]int // requests by the number of their messages
	kept  map[string]bool
}

// Answer is a model whose n-th answer asks for the n-th list of scripts; after the last
// it says what all of them came to.
func (m *Model) Answer(scripts [][]string) func(context.Context, core.Run, string, model.Request) (model.Answer, error) {
	return func(_ context.Context, _ core.Run, _ string, req model.Request) (model.Answer, error) {
		m.note(len(req.Messages))
		for _, msg := range req.Messages {
			if len(msg.Answer) > 0 && string(msg.Answer) != Blocks {
				return Said("it gets back other bytes: " + string(msg.Answer)), nil
			}
		}
		n := len(req.Messages) / 2
		if n >= len(scripts) {
			return Said(SeenBy(req)), nil
		}
		a := model.Answer{Stop: model.StopTools, Usage: &model.Usage{Input: 10, Output: 5}}
		for i, code := range scripts[n] {
			a.Calls = append(a.Calls, ScriptCall(fmt.Sprintf("toolu_%d_%d", n, i), code))
		}
		a.Blocks = json.RawMessage(Blocks)
		return a, nil
	}
}

// Blocks are what a model answers, in bytes that no encoder of JSON would write.
const Blocks = `[ {"type": "thinking", "text": "a<b && c>d \u003c é", "signature":"x/y=="} ]`

// ScriptCall asks for a script, or for what is intended where the text begins with that.
func ScriptCall(id, code string) model.Call {
	in := map[string]string{"intent": "do " + id, "code": code}
	if intent, ok := strings.CutPrefix(code, "intent: "); ok {
		in = map[string]string{"intent": intent}
	}
	input, _ := json.Marshal(in)
	return model.Call{ID: id, Name: agent.Execute.Name, Input: input}
}

// Said is a model's last answer.
func Said(text string) model.Answer {
	return model.Answer{Stop: model.StopEnd, Text: text, Blocks: json.RawMessage(`[]`), Usage: &model.Usage{Input: 10, Output: 5}}
}

// SeenBy is what a model has seen of the results so far.
func SeenBy(req model.Request) string {
	var all []string
	for _, t := range req.Messages {
		for _, r := range t.Results {
			all = append(all, fmt.Sprintf("%s failed=%v %s", r.ID, r.Failed, r.Text))
		}
	}
	return strings.Join(all, "\n")
}

func (m *Model) note(messages int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked == nil {
		m.asked = map[string]int{}
	}
	m.asked[strconv.Itoa(messages)]++
}

// Keep looks at what the last process has journaled: none of it is asked again.
func (m *Model) Keep(t testing.TB, p *Process, id core.ID) {
	t.Helper()
	records, err := p.Store.Journal(t.Context(), id, 0)
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

// ByMe is a decision that answers no approval.
var ByMe = core.Decision{Approved: true, By: core.Actor{Who: "me", Via: core.ViaCLI}}

// AgentResult is what an agent came to.
func AgentResult(t testing.TB, s engine.Status) core.AgentResult {
	t.Helper()
	var r core.AgentResult
	if err := json.Unmarshal(s.Run.Result, &r); err != nil {
		t.Fatalf("the run is %s, %v: %s", s.Run.State, s.Run.Error, s.Run.Result)
	}
	return r
}

// ByGoal is a model that answers each conversation by its goal: with its scripts one after the
// other, then with a text. Of a goal that it does not know it says true.
type ByGoal struct {
	Scripts map[string][]string

	mu    sync.Mutex
	asked []string
}

// Answer is the model of a World.
func (m *ByGoal) Answer(_ context.Context, run core.Run, _ string, req model.Request) (model.Answer, error) {
	goal, _, _ := strings.Cut(strings.TrimPrefix(req.Messages[0].Text, "Goal:\n"), "\n")
	m.mu.Lock()
	m.asked = append(m.asked, fmt.Sprintf("%s %d", goal, len(req.Messages)))
	m.mu.Unlock()
	scripts, known := m.Scripts[goal]
	if !known {
		return Said(`{"decision": true}`), nil
	}
	n := len(req.Messages) / 2
	if n >= len(scripts) {
		return Said(goal + " is done:\n" + SeenBy(req)), nil
	}
	a := model.Answer{Stop: model.StopTools, Usage: &model.Usage{Input: 10, Output: 5}, Blocks: json.RawMessage(Blocks)}
	a.Calls = append(a.Calls, ScriptCall(fmt.Sprintf("%s_%d", goal, n), scripts[n]))
	return a, nil
}

// Asked are the goals of the requests so far, each with the number of its messages.
func (m *ByGoal) Asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// ToInner is a script that has another agent reach a goal.
const ToInner = `return (await mcp.agent.delegate({goal: "inner"})).result;`

// forgetful is a model that takes five messages at most. Once its conversation was
// summarised it makes one call more, and ends.
func forgetful(_ context.Context, _ core.Run, _ string, req model.Request) (model.Answer, error) {
	first := req.Messages[0].Text
	script := func(n int) (model.Answer, error) {
		a := model.Answer{Stop: model.StopTools, Usage: &model.Usage{Input: 10, Output: 5}, Blocks: json.RawMessage(Blocks)}
		a.Calls = append(a.Calls, ScriptCall(fmt.Sprint("toolu_", n), fmt.Sprintf(`await mcp.a.write({n: %d}); return "x".repeat(2000);`, n)))
		return a, nil
	}
	switch {
	case len(req.Tools) == 0:
		return Said("SHORT"), nil
	case strings.Contains(first, "SHORT") && len(req.Messages) > 3:
		return Said("done"), nil
	case strings.Contains(first, "SHORT"):
		return script(100)
	case len(req.Messages) > 5:
		return model.Answer{}, core.Errorf(core.CodeModelContext, "too long")
	}
	return script(len(req.Messages))
}
