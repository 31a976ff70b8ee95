package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// TestBarrier_Pauses counts the pauses of each mode, for code and for a DAG,
// with the process that waits and with a new one after each pause.
//
// Scenario 11: one pause before each layer, across restarts.
func TestBarrier_Pauses(t *testing.T) {
	t.Parallel()
	code := `await mcp.a.read({n: 0}); await Promise.all([mcp.a.write({n: 1}), mcp.a.read({n: 1})]); await mcp.a.read({n: 2}); await mcp.a.write({n: 3}); return 1`
	tasks := []core.TaskSpec{task("t0", "a:read"), task("t1", "a:write", "t0"), task("u1", "a:read", "t0"), task("t2", "a:read", "t1", "u1"), task("t3", "a:write", "t2")}
	modes := map[string]struct {
		opts core.RunOptions
		want []int // Done of each pause
	}{
		"PerLayer":    {core.RunOptions{PerLayer: true}, []int{0, 1, 2}},
		"Always":      {core.RunOptions{HIL: core.HILAlways}, []int{-1, 0, 1, 2}},
		"SideEffects": {core.RunOptions{HIL: core.HILSideEffects}, []int{0, 2}},
		"Never":       {core.RunOptions{HIL: core.HILNever}, nil},
	}
	for name, mode := range modes {
		for _, kind := range []core.Kind{core.KindCode, core.KindDAG} {
			for _, life := range []string{"Warm", "Cold"} {
				t.Run(name+"/"+string(kind)+"/"+life, func(t *testing.T) {
					t.Parallel()
					b := newBench(t)
					b.Host.Slow = life == "Warm"
					p := b.process()
					program := core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks}
					if kind == core.KindCode {
						program = b.Compile(code)
					}
					h := b.start(p, program, mode.opts)
					var got []int
					seen := map[core.ID]bool{}
					for {
						s := b.Wait(h, func(s engine.Status) bool {
							return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 1 && !seen[s.Pending[0].ID]
						})
						if s.Run.State.Final() {
							break
						}
						seen[s.Pending[0].ID] = true
						if s.Layer == nil || s.Pending[0].Type != core.ApproveLayer {
							t.Fatalf("%+v", s)
						}
						got = append(got, s.Layer.Done)
						if life == "Cold" {
							p.close()
							p = b.process()
						}
						b.decide(p, h, core.ApproveLayer, true, nil)
						if life == "Cold" {
							h = b.Resume(p.Process, h.ID)
						}
					}
					if s, _ := h.Status(); s.Run.State != core.RunComplete {
						t.Fatalf("%s %v", s.Run.State, s.Run.Error)
					}
					if diff := cmp.Diff(mode.want, got); diff != "" {
						t.Error(diff)
					}
					if n := len(b.Host.Called()); n != 5 {
						t.Errorf("%d calls: %v", n, b.Host.Called())
					}
				})
			}
		}
	}
}

// A layer that is denied ends the run: aborted, with what was done.
func TestBarrier_DeniedLayer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("t0", "a:write"), task("t1", "a:write", "t0")}, core.RunOptions{PerLayer: true})
	b.Wait(h, enginetest.Pending(1))
	b.decide(p, h, core.ApproveLayer, false, nil)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunAborted || s.Summary.OK != 1 {
		t.Errorf("%s %v %+v", s.Run.State, s.Run.Error, s.Summary)
	}
}

// TestBarrier_BackoffIsKept: a layer that is open does not cut the wait
// between two attempts short.
func TestBarrier_BackoffIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	var at []time.Time
	b.Host.Tools["a:flaky"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		if at = append(at, time.Now()); len(at) < 2 {
			return nil, core.Errorf(core.CodeToolFailed, "not yet")
		}
		return core.Null, nil
	}}
	flaky := task("t", "a:flaky")
	flaky.Retry = &core.Retry{MaxAttempts: 2, BackoffMS: 150}
	h := b.dag(p, []core.TaskSpec{flaky, task("u", "a:read")}, core.RunOptions{PerLayer: true})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
	if d := at[1].Sub(at[0]); d < 150*time.Millisecond {
		t.Errorf("tried again after %s", d)
	}
}

// Scenario 14: tasks that are added while the run is paused run with the next
// decision, none in a layer that is over, nothing that is done again; over
// restarts too.
func TestReplan_FloorsAreKept(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"Warm": false, "Cold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			tasks := []core.TaskSpec{task("t0", "a:write"), task("t1", "a:write", "t0"), task("t2", "a:write", "t1")}
			h := b.dag(p, tasks, core.RunOptions{PerLayer: true})
			seen := map[core.ID]bool{}
			pauses := 0
			for {
				s := b.Wait(h, func(s engine.Status) bool {
					return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 1 && !seen[s.Pending[0].ID]
				})
				if s.Run.State.Final() {
					break
				}
				seen[s.Pending[0].ID] = true
				pauses++
				if cold {
					p.close()
					p = b.process()
				}
				if pauses <= 2 {
					add := task([]string{"x", "y"}[pauses-1], "a:write")
					added := core.Addition{From: 2 + pauses, Floor: s.Run.CurrentLayer}
					program, err := p.st.Program(t.Context(), h.ID)
					if err != nil {
						t.Fatal(err)
					}
					program.Version++
					program.Tasks = append(program.Tasks, add)
					program.Added = append(program.Added, added)
					if _, err := p.st.Replan(t.Context(), h.ID, program, core.Actor{Who: "me"}, core.Event{Type: core.EventReplanned}); err != nil {
						t.Fatal(err)
					}
					if cold {
						h = b.Resume(p.Process, h.ID)
					}
					again := b.Wait(h, func(s engine.Status) bool {
						return engine.Paused(s) && len(s.Pending) == 1 && !seen[s.Pending[0].ID]
					})
					seen[again.Pending[0].ID] = true
					if cold {
						p.close()
						p = b.process()
					}
				}
				b.decide(p, h, core.ApproveLayer, true, nil)
				if cold {
					h = b.Resume(p.Process, h.ID)
				}
			}
			s, _ := h.Status()
			if s.Run.State != core.RunComplete || s.Summary.OK != 5 || len(b.Host.Called()) != 5 {
				t.Errorf("%s %v: %+v, %v", s.Run.State, s.Run.Error, s.Summary, b.Host.Called())
			}
		})
	}
}

// A layer that was foreseen and does not come is nothing to pause after: not
// before the first call, and not between a call and the next after it twice.
func TestBarrier_Foreseen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `if (input) await mcp.a.read({n: 0}); await mcp.a.read({n: 1}); if (input) await mcp.a.read({n: 2}); return await mcp.a.write({n: 3})`,
		core.RunOptions{PerLayer: true, Input: json.RawMessage("0")})
	s := b.Wait(h, engine.Paused)
	if s.Layer == nil || s.Layer.Done != 1 || len(s.Layer.Next) != 1 || s.Layer.Next[0].Layer != 3 {
		t.Fatalf("%+v %+v", s.Run.State, s.Layer)
	}
	if diff := cmp.Diff([]string{`a:read{"n":1}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
	b.decide(p, h, core.ApproveLayer, true, nil)
	b.Complete(h, `{"n":3}`)
}
