package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/store"
)

// writing are n scripts, each of which makes one call.
func writing(n int) (scripts [][]string) {
	for i := range n {
		scripts = append(scripts, []string{fmt.Sprintf(`return await mcp.a.write({n: %d});`, i+1)})
	}
	return scripts
}

// TestAgent_AsksForMore: a person is asked once whether an agent that has used most of its
// budget may use as much again: a yes lets it, a no ends it with what it has. An agent that
// is not to ask goes on to the end of its budget.
func TestAgent_AsksForMore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ask, yes bool
		calls    int
		stop     core.AgentStop
	}{"Yes": {true, true, 8, core.AgentEndTurn}, "No": {true, false, 4, core.AgentBudgetSpent}, "NotAsked": {false, false, 5, core.AgentEndTurn}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var m fakeModel
			b.Ask = m.Answer(writing(8))
			p := b.process()
			h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Budget: core.AgentBudget{Calls: 5, Ask: tt.ask}}), core.RunOptions{})
			if tt.ask {
				s := b.Wait(h, enginetest.Pending(1))
				if ap := s.Pending[0]; ap.Type != core.ApproveBudget || !strings.Contains(ap.Description, "4 of 5 calls") || ap.NotForAgents() == "" || s.Run.State != core.RunWaiting {
					t.Errorf("%s %+v", s.Run.State, ap)
				}
				b.decide(p, h, core.ApproveBudget, tt.yes, nil)
			}
			if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); r.Stop != tt.stop || len(b.Host.Called()) != tt.calls || r.Calls != tt.calls {
				t.Errorf("%+v, called %v", r, b.Host.Called())
			}
		})
	}
}

// TestAgent_Extended: a person lets an agent go on that had used up what it was given, in
// this process or in another one; nothing that was answered is asked again, and the audit
// log says who it was.
func TestAgent_Extended(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"Here": false, "AfterRestart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var m fakeModel
			b.Ask = m.Answer(writing(3))
			p := b.process()
			h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Iterations: 2}), core.RunOptions{})
			if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); r.Stop != core.AgentMaxIterations || r.Iterations != 2 {
				t.Fatalf("%+v", r)
			}
			for _, no := range []core.AgentMore{{}, {Tokens: 5}, {Iterations: -1}, {Iterations: 1, USD: 1}} {
				if _, err := p.Extend(t.Context(), h.ID, no, enginetest.ByMe); core.CodeOf(err) != core.CodeInvalidArguments {
					t.Errorf("%+v: %v", no, err)
				}
			}
			if cold {
				p.close()
				p = b.process()
			}
			m.Keep(t, p.Process, h.ID)
			h, err := p.Extend(t.Context(), h.ID, core.AgentMore{Iterations: 4}, enginetest.ByMe)
			if err != nil {
				t.Fatal(err)
			}
			r := enginetest.AgentResult(t, b.Wait(h, engine.Ended))
			m.Keep(t, p.Process, h.ID)
			if !r.Success || r.Iterations != 4 || len(r.Runs) != 3 || len(b.Host.Called()) != 3 {
				t.Errorf("%+v, called %v", r, b.Host.Called())
			}
			rows, err := p.st.Audit(t.Context(), store.AuditFilter{})
			if err != nil || len(rows) != 1 || rows[0].Type != core.ApproveBudget || rows[0].By.Who != "me" || rows[0].Reason != "4 more iterations" {
				t.Errorf("%v %+v", err, rows)
			}
			if _, err := p.Extend(t.Context(), h.ID, core.AgentMore{Iterations: 1}, enginetest.ByMe); core.CodeOf(err) != core.CodeNotWaiting {
				t.Errorf("one that has reached its goal: %v", err)
			}
			if _, err := p.Resume(t.Context(), h.ID); core.CodeOf(err) != core.CodeNotWaiting {
				t.Errorf("an agent that has ended is taken up: %v", err)
			}
		})
	}
}

// TestAgent_ExtendedGuarded: what the store wants of a decision it wants of one that gives an
// agent more, in the moment when that is kept, whatever was read before.
func TestAgent_ExtendedGuarded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.Ask = m.Answer(writing(3))
	b.Limits.Human = true
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{Iterations: 2}), core.RunOptions{})
	b.Wait(h, engine.Ended)
	guard := func(g core.Guard) {
		if err := p.st.ChangeGuard(t.Context(), func(was *core.Guard) error { *was = g; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	person := enginetest.ByMe
	person.Presence = core.PresencePin
	guard(core.Guard{Pin: "hash"})
	for _, d := range []core.Decision{enginetest.ByMe, person} {
		if _, err := p.Extend(t.Context(), h.ID, core.AgentMore{Iterations: 4}, d); core.CodeOf(err) != core.CodeAuth {
			t.Errorf("without the PIN: %v", err)
		}
	}
	nobody := enginetest.ByMe
	nobody.Proved, person.Proved = "hash", "hash"
	for _, d := range []core.Decision{nobody, person} {
		guard(core.Guard{Pin: "hash", Unproved: true})
		if _, err := p.Extend(t.Context(), h.ID, core.AgentMore{Iterations: 4}, d); core.CodeOf(err) != core.CodeAwaitingHuman {
			t.Errorf("nobody has shown to be a person: %v", err)
		}
	}
	if run, err := p.st.Run(t.Context(), h.ID); err != nil || run.State != core.RunComplete || len(b.Host.Called()) != 2 {
		t.Errorf("%v %s, called %v", err, run.State, b.Host.Called())
	}
	guard(core.Guard{Pin: "hash"})
	h, err := p.Extend(t.Context(), h.ID, core.AgentMore{Iterations: 4}, person)
	if err != nil {
		t.Fatal(err)
	}
	if r := enginetest.AgentResult(t, b.Wait(h, engine.Ended)); !r.Success || r.Iterations != 4 {
		t.Errorf("%+v", r)
	}
}

// TestAgent_RefusedByPolicy: a refusal by a policy of the provider's ends an agent as
// refused, with what it had come to.
func TestAgent_RefusedByPolicy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	first := m.Answer(writing(1))
	b.Ask = func(ctx context.Context, run core.Run, call string, req model.Request) (model.Answer, error) {
		if len(req.Messages) == 1 {
			return first(ctx, run, call, req)
		}
		return model.Answer{}, core.Errorf(core.CodeModelRefused, "not this")
	}
	h := b.start(b.process(), enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	s := b.Wait(h, engine.Ended)
	if r := enginetest.AgentResult(t, s); s.Run.State != core.RunComplete || r.Stop != core.AgentRefused || r.Success || len(r.Runs) != 1 {
		t.Errorf("%s %+v", s.Run.State, r)
	}
}

// TestAgent_LastText: what the model said last is kept when its provider fails, and when
// somebody ends the agent.
func TestAgent_LastText(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]core.AgentStop{"Failed": core.AgentFailed, "Aborted": core.AgentAborted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			held := make(chan struct{})
			b.Ask = func(ctx context.Context, _ core.Run, _ string, req model.Request) (model.Answer, error) {
				if len(req.Messages) == 1 {
					a := model.Answer{Stop: model.StopTools, Text: "I begin.", Blocks: json.RawMessage(blocks), Usage: &model.Usage{Input: 10, Output: 5}}
					a.Calls = append(a.Calls, enginetest.ScriptCall("t", `return 1`))
					return a, nil
				}
				if want == core.AgentFailed {
					return model.Answer{}, core.Errorf(core.CodeModelKeyRefused, "no")
				}
				close(held)
				<-ctx.Done()
				return model.Answer{}, errors.New("cancelled")
			}
			p := b.process()
			h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
			if want == core.AgentAborted {
				<-held
				if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: enginetest.ByMe.By, At: b.Now()}); err != nil {
					t.Fatal(err)
				}
				p.Wake(h.ID)
			}
			s := b.Wait(h, engine.Ended)
			if r := enginetest.AgentResult(t, s); s.Run.State == core.RunComplete || r.Stop != want || r.Result != "I begin." || r.Success || r.Iterations != 1 {
				t.Errorf("%s %+v", s.Run.State, r)
			}
		})
	}
}
