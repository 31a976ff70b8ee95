package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	agents "github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/core/service"
)

// scripted is a model that asks for one script after the other, and then says what it
// has seen. It counts what it is asked.
type scripted struct {
	scripts []string
	price   *core.AgentPrice

	base  string // where it is; empty: nowhere, so that nobody is asked
	mu    sync.Mutex
	asked []model.Request
}

func (m *scripted) Describe(_, name string) (service.ModelInfo, error) {
	return service.ModelInfo{Name: "scripted", MaxTokens: 1000, Price: m.price, Base: m.base}, nil
}

func (m *scripted) Ask(_ context.Context, _, _ string, req model.Request) (model.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, req)
	a := model.Answer{Blocks: json.RawMessage(`[]`), Usage: &model.Usage{Input: 100, Output: 50}, Stop: model.StopEnd}
	n := len(req.Messages) / 2
	if n >= len(m.scripts) {
		last := req.Messages[len(req.Messages)-1]
		for _, r := range last.Results {
			a.Text += r.Text
		}
		return a, nil
	}
	in := map[string]string{"intent": fmt.Sprintf("step %d", n+1), "code": m.scripts[n]}
	if intent, ok := strings.CutPrefix(m.scripts[n], "intent: "); ok {
		in = map[string]string{"intent": intent}
	}
	input, err := json.Marshal(in)
	a.Stop, a.Calls = model.StopTools, []model.Call{{ID: fmt.Sprint("t", n), Name: agents.Execute.Name, Input: input}}
	return a, err
}

// requests counts what the model was asked.
func (m *scripted) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

func agentIn(t *testing.T, r api.Result) core.AgentResult {
	t.Helper()
	var out core.AgentResult
	if err := json.Unmarshal(r.Result, &out); err != nil {
		t.Fatalf("%s %s: %v", r.Status, r.Result, err)
	}
	return out
}

// TestAgent_Decided: what a run of an agent asks is asked of the agent: it is shown with
// the agent, decided by its id or by that of the run, here, in another process, and after
// the one that asked has gone; nothing that was answered is asked of the model again.
func TestAgent_Decided(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(m *machine, first *client) *client{
		"Here": func(_ *machine, first *client) *client { return first },
		"InAnotherProcess": func(m *machine, _ *client) *client {
			return m.client()
		},
		"AfterItsEnd": func(m *machine, first *client) *client {
			first.close()
			return m.client()
		},
	} {
		for _, byChild := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ByRun=%v", name, byChild), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				model := &scripted{scripts: []string{writes}}
				m.models = model
				first := m.client()
				r, err := first.Execute(first.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "copy a to b"}, By: me, Wait: -1})
				if err != nil || r.Status != api.StatusApprovalRequired || len(r.Pending) != 1 {
					t.Fatalf("%v %+v", err, r)
				}
				if ap := r.Pending[0]; ap.RunName != "copy a to b › step 1" || ap.RunID == r.WorkflowID {
					t.Errorf("it is asked by %q", ap.RunName)
				}
				c := where(m, first)
				w, err := c.Workflow(c.ctx(), r.WorkflowID)
				if err != nil || len(w.Approvals) != 1 || w.State != core.RunWaiting {
					t.Fatalf("%v %s %+v", err, w.State, w.Approvals)
				}
				id := r.WorkflowID
				if byChild {
					id = r.Pending[0].RunID
				}
				got, err := c.decide(id, api.Decision{Approve: true, ExpectDigest: r.Digest})
				if err != nil || got.Status != api.StatusComplete || got.WorkflowID != r.WorkflowID {
					t.Fatalf("%v %+v", err, got)
				}
				if out := agentIn(t, got); !out.Success || !strings.Contains(out.Result, `"done"`) || out.Calls != 2 {
					t.Errorf("%+v", out)
				}
				if n := model.requests(); n != 2 {
					t.Errorf("the model was asked %d times, want 2", n)
				}
			})
		}
	}
}

// TestAgent_Rules: what a rule of the workspace denies is denied inside an agent, whatever its
// allowed tools say, and the model is not shown it.
func TestAgent_Rules(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"permissions": {"deny": ["workspace:write_*"]}}`)
	model := &scripted{scripts: []string{writes}}
	m.models = model
	c := m.client()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "copy", Allowed: &[]string{"*"}}, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusSuccess {
		t.Fatalf("%v %+v", err, r)
	}
	if out := agentIn(t, r); !strings.Contains(out.Result, "permission_denied") || strings.Contains(model.asked[0].System, "write_file") {
		t.Errorf("%+v", out)
	}
}

// TestAgent_Denied: a refusal reaches the model as an error with its reason.
func TestAgent_Denied(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{scripts: []string{writes}}
	c := m.client()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "copy"}, By: me, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Reason: "not that file"})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	if out := agentIn(t, got); !strings.Contains(out.Result, "failed (denied)") || !strings.Contains(out.Result, "not that file") {
		t.Errorf("%+v", out)
	}
}

// TestAgent_Aborted: the runs of an agent end with it, also when its process has gone.
func TestAgent_Aborted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{scripts: []string{writes}}
	first := m.client()
	r, err := first.Execute(first.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "copy"}, By: me, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	first.close()
	c := m.client()
	if got, err := c.Abort(c.ctx(), r.WorkflowID, me, "enough"); err != nil || got.Status != api.StatusAborted {
		t.Fatalf("%v %+v", err, got)
	}
	child := r.Pending[0].RunID
	if got, err := c.Continue(c.ctx(), api.ContinueRequest{ID: child, By: me, Wait: -1}); err != nil || got.Status != api.StatusAborted {
		t.Errorf("%v %+v", err, got)
	}
}

// TestAgent_Tools: the model is shown the tools that the agent may use, and no others.
func TestAgent_Tools(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	model := &scripted{}
	m.models = model
	c := m.client()
	if _, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "look", Allowed: &[]string{"workspace:read_*"}}, By: me, Wait: -1}); err != nil {
		t.Fatal(err)
	}
	system := model.asked[0].System
	if !strings.Contains(system, `mcp["workspace"]["read_file"]`) || strings.Contains(system, "write_file") {
		t.Error(system)
	}
}

// TestAgent_Refused: all that is wrong with what is asked of an agent is told at once, and
// nothing is run.
func TestAgent_Refused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{}
	c := m.client()
	for name, tt := range map[string]struct {
		spec core.AgentSpec
		want []string
	}{
		"Everything": {core.AgentSpec{Iterations: 51, Context: json.RawMessage(`{`), Allowed: &[]string{"ok:*", ""}, Budget: core.AgentBudget{Tokens: -1}},
			[]string{"/goal", "/context", "/max_iterations", "/budget", "/allowed_tools/1"}},
		"NoPrice": {core.AgentSpec{Goal: "x", Budget: core.AgentBudget{USD: 1}}, nil},
	} {
		_, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &tt.spec, By: me, Wait: -1})
		var paths []string
		for _, f := range code(t, err, core.CodeInvalidArguments).Faults {
			paths = append(paths, f.Path)
		}
		slices.Sort(paths)
		slices.Sort(tt.want)
		if !slices.Equal(paths, tt.want) {
			t.Errorf("%s: %v, want %v", name, paths, tt.want)
		}
	}
}

// writing is a model that writes a text and waits until it was seen.
type writing struct {
	scripted
	seen chan struct{}
}

func (m *writing) Ask(ctx context.Context, _, _ string, req model.Request) (model.Answer, error) {
	for _, piece := range []string{"I know your tok", "en-0123456789 and say so."} {
		req.OnText(piece)
	}
	select {
	case <-m.seen:
		return model.Answer{Blocks: json.RawMessage(`[]`), Text: "done", Usage: &model.Usage{Input: 1}, Stop: model.StopEnd}, nil
	case <-ctx.Done():
		return model.Answer{}, ctx.Err()
	}
}

// TestAgent_Said: what the model writes is seen here and in another process while it
// writes, without what is a key, and is kept nowhere.
func TestAgent_Said(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.shortHome()
	m.environ["TOKEN"] = "token-0123456789"
	m.write(".env", "TOKEN=token-0123456789")
	said := &writing{seen: make(chan struct{})}
	m.models = said
	first, second := m.client(), m.client()
	started := make(chan core.ID, 1)
	end := make(chan error, 1)
	go func() {
		r, err := first.Execute(first.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "say it"}, By: me, Wait: -1, Started: func(id core.ID) { started <- id }})
		if err == nil && r.Status != api.StatusSuccess {
			err = fmt.Errorf("it is %s", r.Status)
		}
		end <- err
	}()
	id := <-started
	enough := errors.New("enough")
	for _, c := range []*client{first, second} {
		text := ""
		for ctx := c.ctx(); !strings.HasSuffix(text, "say so."); {
			if err := c.Said(ctx, id, func(e core.Event) error {
				if text += e.Message; strings.HasSuffix(text, "say so.") {
					return enough
				}
				return nil
			}); err != nil && !errors.Is(err, enough) {
				t.Fatal(err)
			}
		}
		if text != "I know your «TOKEN» and say so." {
			t.Errorf("%q is seen", text)
		}
	}
	close(said.seen)
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if err := first.Events(first.ctx(), id, api.Since{}, false, func(e core.Event) error {
		if e.Type == core.EventAgentText || strings.Contains(e.Message, "say so") {
			t.Errorf("it is kept: %+v", e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
