package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// shapes decides the oldest open question of a run with bounds.
func (b *bench) shapes(p *process, h *engine.Handle, change func(*core.Shape)) core.Approval {
	b.T.Helper()
	open := b.openOf(p, h, core.ApprovalOpen, core.ApprovalExpired)
	if len(open) == 0 {
		b.T.Fatal("nothing is asked")
	}
	s, ok := approval.Propose(approval.OfLoop(open))
	if !ok {
		b.T.Fatalf("no shape is proposed for %+v", open)
	}
	change(&s)
	got, err := p.st.Decide(b.T.Context(), core.Decision{
		ApprovalID: open[0].ID, Approved: true, By: enginetest.ByMe.By, At: b.Now(), Answer: &core.Answer{Shape: &s},
	}, store.Renewal{Fresh: newID()})
	if err != nil {
		b.T.Fatal(err)
	}
	p.Wake(h.ID)
	return got
}

// openOf are the questions of a run in some states, open ones without, the oldest first.
func (b *bench) openOf(p *process, h *engine.Handle, states ...core.ApprovalState) []core.Approval {
	b.T.Helper()
	if len(states) == 0 {
		states = []core.ApprovalState{core.ApprovalOpen}
	}
	list, err := p.st.Approvals(b.T.Context(), store.ApprovalFilter{RunID: h.ID, States: states, Now: b.Now()})
	if err != nil {
		b.T.Fatal(err)
	}
	slices.SortFunc(list, func(x, y core.Approval) int { return strings.Compare(x.CallIDs[0], y.CallIDs[0]) })
	return list
}

const atOnce = `return (await Promise.allSettled([1, 2, 3, 4, 5, 6].map((n) =>
  mcp.a.ask({n, team: n === 4 ? "OPS" : "ENG"})))).map((r) => r.status)`

// One yes lets the calls of a loop on that are within it, at once and in order; the one that
// differs, and those past its count, stay asked.
func TestShape_AtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, atOnce, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 6 })
	open := b.openOf(p, h)
	if at := open[0].Place; at.Line != 2 || at.Column < 3 {
		t.Errorf("asked about line %d, column %d", at.Line, at.Column)
	}
	s, _ := approval.Propose(approval.OfLoop(open))
	if s.Max != 6 || len(s.Fields) != 2 || s.Fields[1].Is != nil {
		t.Errorf("proposed %+v", s)
	}
	b.shapes(p, h, func(s *core.Shape) {
		s.Max, s.Fields[1] = 4, core.Bound{Name: "team", Is: json.RawMessage(`"ENG"`)}
	})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 2 })
	var left []string
	for _, ap := range b.openOf(p, h) {
		left = append(left, ap.CallIDs[0])
	}
	if diff := cmp.Diff([]string{"c4", "c6"}, left); diff != "" {
		t.Error(diff)
	}
	b.decide(p, h, core.ApproveTool, false, nil)
	b.decide(p, h, core.ApproveTool, false, nil)
	p.Wake(h.ID)
	end := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() })
	if by := allowedBy(t, p, h)[`{"n":2,"team":"ENG"}`]; by != "approval "+open[0].ID.Short()+", within its bounds" {
		t.Errorf("allowed by %q", by)
	}
	if want := `["fulfilled","fulfilled","fulfilled","rejected","fulfilled","rejected"]`; string(end.Run.Result) != want {
		t.Errorf("%s, want %s", end.Run.Result, want)
	}
	got := b.Host.Called()
	slices.Sort(got)
	if diff := cmp.Diff([]string{`a:ask{"n":1,"team":"ENG"}`, `a:ask{"n":2,"team":"ENG"}`, `a:ask{"n":3,"team":"ENG"}`, `a:ask{"n":5,"team":"ENG"}`}, got); diff != "" {
		t.Error(diff)
	}
}

// A loop that makes one call after the other: what analysis knows to be computed may differ,
// and the process that takes the run up goes on counting. A call that somebody has refused
// alone stays refused.
func TestShape_OneByOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `let n = 0; for (const team of ["ENG", "ENG", "ENG", "ENG", "ENG"]) { n++; await mcp.a.ask({n, team: "ENG"}); } return n`, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 })
	open := b.openOf(p, h)
	if diff := cmp.Diff([]string{"n"}, open[0].Computed); diff != "" {
		t.Errorf("what is computed: %s", diff)
	}
	p.close()
	p = b.process()
	b.shapes(p, h, func(s *core.Shape) {
		if s.Max != 2 || s.Fields[0].Is != nil || s.Fields[1].Is == nil {
			t.Errorf("proposed %+v", s)
		}
		s.Max = 4
	})
	h, err := p.Resume(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 && len(b.Host.Called()) == 4 })
	rows, err := p.st.Audit(t.Context(), store.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, r := range rows {
		if r.Shape != "" {
			calls = append(calls, fmt.Sprint(r.CallID, " ", r.By.Who, " ", r.Shape == rows[0].Shape))
		}
	}
	if diff := cmp.Diff([]string{"c1 me true", "c2 me true", "c3 me true", "c4 me true"}, calls); diff != "" {
		t.Error(diff)
	}
}

// Calls that are permitted and wait for their turn are asked about again once the time of the
// bounds is over.
func TestShape_Until(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.Concurrency, b.Limits.Timeout = 1, 24*time.Hour
	reached, hold := make(chan struct{}, 9), make(chan struct{})
	b.Host.Tools["a:ask"] = tool{Ask: true, Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		reached <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return args, nil
	}}
	b.As = gated{b.Host}
	p := b.process()
	h := b.code(p, `return await Promise.all([1, 2, 3].map((n) => mcp.a.ask({n})))`, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 3 })
	b.shapes(p, h, func(s *core.Shape) { until := b.Now().Add(time.Hour / 2); s.Until = &until })
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 0 })
	<-reached
	b.Ahead.Store(int64(50 * time.Minute))
	close(hold)
	if s := b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 2 }); len(s.Pending) != 2 {
		t.Errorf("%s, %v", s.Run.State, s.Run.Error)
	}
	if got := b.Host.Called(); len(got) != 1 {
		t.Errorf("called %v", got)
	}
}

// gated asks right before each call, as a host does, whether it may be sent.
type gated struct{ *host }

func (g gated) Call(ctx context.Context, call engine.Call, progress func(string)) (json.RawMessage, error) {
	if call.Before != nil {
		if err := call.Before(ctx); err != nil {
			return nil, err
		}
	}
	return g.host.Call(ctx, call, progress)
}

// Whoever retries is asked again about what was refused, whatever bounds there are.
func TestShape_RefusedBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `const r = await Promise.allSettled([1, 2, 3].map((n) => mcp.a.ask({n}))); if (r[1].reason) throw r[1].reason; return 1`, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 3 })
	open := b.openOf(p, h)
	if _, err := p.st.Decide(t.Context(), core.Decision{ApprovalID: open[1].ID, By: enginetest.ByMe.By, At: b.Now()}, store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	p.Wake(h.ID)
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 2 })
	b.shapes(p, h, func(s *core.Shape) { s.Max = 10 })
	b.Wait(h, func(s engine.Status) bool { return s.Run.State == core.RunFailed })
	h, _, err := p.Retry(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 })
	if got := s.Pending[0].CallIDs; !slices.Equal(got, []string{"c2"}) {
		t.Errorf("asked about %v", got)
	}
}

// Should the store refuse again and again what this process takes to be within the bounds, a
// person is asked about each call but the one that the yes was given for.
func TestShape_StoreRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var refused atomic.Int64
	b.wrap = func(s store.Store) store.Store { return refusesBounds{s, &refused} }
	p := b.process()
	h := b.code(p, `return await Promise.all([1, 2, 3].map((n) => mcp.a.ask({n})))`, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 3 })
	b.shapes(p, h, func(*core.Shape) {})
	b.Wait(h, func(s engine.Status) bool {
		return refused.Load() == 3 && len(s.Pending) == 2 && s.Run.State == core.RunWaiting
	})
	if got := b.Host.Called(); !slices.Equal(got, []string{`a:ask{"n":1}`}) {
		t.Errorf("called %v", got)
	}
}

// refusesBounds is a store in which bounds permit nothing, which counts how often it says so.
type refusesBounds struct {
	store.Store
	refused *atomic.Int64
}

func (s refusesBounds) Commit(ctx context.Context, step store.Step) error {
	if slices.ContainsFunc(step.Used, func(u store.Use) bool { return u.Shape != "" }) {
		s.refused.Add(1)
		return core.Errorf(core.CodeAlreadyDecided, "the bounds permit nothing")
	}
	return s.Store.Commit(ctx, step)
}

// Where bounds are for fewer calls than wait, those go first that were asked about first, in
// whichever order the process that takes the run up checks them.
func TestShape_OldestFirst(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"Open": 0, "Expired": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.ResumeTTL, b.Limits.Timeout = 24*time.Hour, 24*time.Hour
			p := b.process()
			h := b.code(p, `return await Promise.all([1, 2, 3, 4, 5, 6].map((n) => mcp.a.ask({n})))`, core.RunOptions{})
			b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 6 })
			p.close()
			last := &backwards{host: b.Host}
			for n := range last.checked {
				last.checked[n] = make(chan struct{})
			}
			close(last.checked[6])
			b.As = last
			b.Ahead.Store(int64(later))
			p = b.process()
			b.shapes(p, h, func(s *core.Shape) { s.Max = 3 })
			h, err := p.Resume(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			b.Wait(h, func(s engine.Status) bool { return s.Run.State == core.RunWaiting && len(b.Host.Called()) == 3 })
			got := b.Host.Called()
			slices.Sort(got)
			if diff := cmp.Diff([]string{`a:ask{"n":1}`, `a:ask{"n":2}`, `a:ask{"n":3}`}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// backwards is a host that checks a call after the one behind it.
type backwards struct {
	*host
	checked [7]chan struct{} // closed once the call of that number has been
	once    [7]sync.Once
}

func (*backwards) Try(engine.Call) (engine.Verdict, bool) { return engine.Verdict{}, false }

func (h *backwards) Check(ctx context.Context, call engine.Call) engine.Verdict {
	var args struct{ N int }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		panic(err)
	}
	select {
	case <-h.checked[args.N]:
	case <-ctx.Done():
	}
	defer h.once[args.N-1].Do(func() { close(h.checked[args.N-1]) })
	return h.host.Check(ctx, call)
}
