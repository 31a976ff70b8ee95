package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// addTask plans a run anew with one more task.
func addTask(ctx context.Context, st store.Store, id core.ID, t core.TaskSpec) error {
	run, err := st.Run(ctx, id)
	if err != nil {
		return err
	}
	program, err := st.Program(ctx, id)
	if err != nil {
		return err
	}
	program.Version++
	program.Added = append(program.Added, core.Addition{From: len(program.Tasks), Floor: run.CurrentLayer})
	program.Tasks = append(slices.Clone(program.Tasks), t)
	_, err = st.Replan(ctx, id, program, core.Actor{Who: "me"}, core.Event{Type: core.EventReplanned})
	return err
}

// layerContext is what is shown of a layer.
type layerContext struct {
	Next []struct {
		ID string `json:"id"`
	} `json:"next"`
}

func shownNext(t *testing.T, ap core.Approval) []string {
	t.Helper()
	var c layerContext
	if err := json.Unmarshal(ap.Context, &c); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, n := range c.Next {
		ids = append(ids, n.ID)
	}
	slices.Sort(ids)
	return ids
}

// TestReplan_LayerIsAskedAnew: a yes to a layer counts for the calls that were
// shown; one that a replan has put in is asked about, whether the question was
// still open or answered and not yet acted upon.
func TestReplan_LayerIsAskedAnew(t *testing.T) {
	t.Parallel()
	for _, life := range []string{"Warm", "Cold"} {
		for _, when := range []string{"Open", "Approved"} {
			if life == "Warm" && when == "Approved" {
				continue // a runner that lives acts at once
			}
			t.Run(life+"/"+when, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				p := b.process()
				h := b.dag(p, []core.TaskSpec{task("a", "a:read"), task("b", "a:read", "a")}, core.RunOptions{PerLayer: true})
				old := b.Wait(h, enginetest.Pending(1)).Pending[0]
				if life == "Cold" {
					p.close()
					p = b.process()
				}
				if when == "Approved" {
					b.decide(p, h, core.ApproveLayer, true, nil)
				}
				if err := addTask(t.Context(), p.st, h.ID, task("evil", "a:write")); err != nil {
					t.Fatal(err)
				}
				if when == "Open" {
					d := core.Decision{ApprovalID: old.ID, Approved: true, By: core.Actor{Who: "me"}, At: time.Now(), ExpectDigest: old.Digest}
					if _, err := p.st.Decide(t.Context(), d, store.Renewal{}); core.CodeOf(err) != core.CodeNotWaiting {
						t.Errorf("a decision about the old list: %v", err)
					}
				}
				if life == "Cold" {
					h = b.Resume(p.Process, h.ID)
				}
				s := b.Wait(h, func(s engine.Status) bool {
					return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 1 && s.Pending[0].ID != old.ID
				})
				if s.Run.State.Final() {
					t.Fatalf("it ran on: %s, %v", s.Run.State, b.Host.Called())
				}
				ask := s.Pending[0]
				if ask.Type != core.ApproveLayer || ask.Digest == old.Digest || ask.Risk != core.RiskMedium {
					t.Errorf("asked %s, digest %s (before %s), risk %s", ask.Type, ask.Digest, old.Digest, ask.Risk)
				}
				if diff := cmp.Diff([]string{"b", "evil"}, shownNext(t, ask)); diff != "" {
					t.Errorf("shown (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{`a:read{"id":"a"}`}, b.Host.Called()); diff != "" {
					t.Errorf("calls before the answer (-want +got):\n%s", diff)
				}
				b.decide(p, h, core.ApproveLayer, true, nil)
				if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || s.Summary.OK != 3 {
					t.Errorf("%s %v: %+v", s.Run.State, s.Run.Error, s.Summary)
				}
			})
		}
	}
}

// TestReplan_LayerUnderWay: a layer that was approved and is half done goes on
// without another question about it, unless a replan has put a task in.
func TestReplan_LayerUnderWay(t *testing.T) {
	t.Parallel()
	for name, added := range map[string]bool{"Same": false, "Added": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.StopGrace = 1
			started := make(chan struct{}, 2)
			var hang sync.Once
			b.Host.Tools["a:slow"] = tool{ReadOnly: true, Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				var err error
				hang.Do(func() {
					close(started)
					<-ctx.Done()
					err = ctx.Err()
				})
				return args, err
			}}
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("a", "a:read"), task("b", "a:write", "a"), task("c", "a:slow", "a")}, core.RunOptions{PerLayer: true})
			b.Wait(h, enginetest.Pending(1))
			b.decide(p, h, core.ApproveLayer, true, nil)
			<-started
			waitSettled(t, p.st, h.ID, "b")
			p.close()
			p = b.process()
			want := []string{`a:read{"id":"a"}`, `a:write{"id":"b"}`, `a:slow{"id":"c"}`, `a:slow{"id":"c"}`}
			if added {
				if err := addTask(t.Context(), p.st, h.ID, task("evil", "a:write")); err != nil {
					t.Fatal(err)
				}
				want = want[:3]
			}
			h = b.Resume(p.Process, h.ID)
			s := b.Wait(h, engine.Paused)
			if added != (s.Run.State == core.RunWaiting) {
				t.Errorf("%s, pending %+v", s.Run.State, s.Pending)
			}
			got := b.Host.Called()
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// waitSettled waits until the outcome of a call is journaled.
func waitSettled(t *testing.T, st store.Store, run core.ID, call string) {
	t.Helper()
	waitRecord(t, st, run, func(r core.Record) bool { return r.Kind == core.RecordSettled && r.CallID == call })
}

// waitRecord waits until a record is in the journal.
func waitRecord(t *testing.T, st store.Store, run core.ID, is func(core.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	changes, err := st.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for {
		records, err := st.Journal(ctx, run, 0)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(records, is) {
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			t.Fatalf("never journaled: %+v", records)
		}
	}
}

// replanAtEnd plans a run anew at the last moment: when its runner is about to
// commit its end.
type replanAtEnd struct {
	store.Store
	once sync.Once
	err  error
}

func (r *replanAtEnd) Commit(ctx context.Context, step store.Step) error {
	if step.Run.State.Final() {
		r.once.Do(func() { r.err = addTask(ctx, r.Store, step.Run.ID, task("late", "a:write")) })
	}
	return r.Store.Commit(ctx, step)
}

// TestReplan_AtTheEnd: tasks that are added in the moment in which the run ends
// are run.
func TestReplan_AtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var at *replanAtEnd
	b.wrap = func(s store.Store) store.Store {
		at = &replanAtEnd{Store: s}
		return at
	}
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("t", "a:ask")}, core.RunOptions{})
	b.Wait(h, enginetest.Pending(1))
	b.decide(p, h, core.ApproveTool, false, nil) // it fails at once, and with it the run
	s := b.Wait(h, engine.Ended)
	if at.err != nil {
		t.Fatal(at.err)
	}
	if diff := cmp.Diff([]string{`a:write{"id":"late"}`}, b.Host.Called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if s.Run.State != core.RunFailed || s.Run.DAGVersion != 2 || s.Summary.OK != 1 || s.Summary.Failed != 1 {
		t.Errorf("%s at version %d: %+v, %v", s.Run.State, s.Run.DAGVersion, s.Summary, s.Run.Error)
	}
	events, err := p.st.Events(t.Context(), store.EventFilter{RunID: h.ID, Types: []core.EventType{core.EventWorkflowFailed}})
	if err != nil || len(events) != 1 {
		t.Errorf("%d ends told, %v", len(events), err)
	}
}
