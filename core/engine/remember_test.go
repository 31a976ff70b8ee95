package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// Two calls of which analysis knows everything, two that the script makes at the
// same time, two of which the second is not made yet.
const (
	asksTwice    = `await mcp.a.ask({n: 1}); await mcp.a.ask({n: 2}); return "done"`
	asksAtOnce   = `const n = [1].length; await Promise.all([mcp.a.ask({n}), mcp.a.ask({n: n + 1})]); return "done"`
	asksOneByOne = `const n = [1].length; await mcp.a.ask({n}); await mcp.a.ask({n: n + 1}); return "done"`
)

// A permission that is remembered for longer than the run is told to the host
// once, before the call goes on, and counts for the rest of the run: also when
// the host fails, and when another process takes the run up.
func TestRemember_BeyondTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how    core.Remember
		fail   bool
		cold   bool
		source string
		asked  int
	}{
		"Session":       {how: core.RememberSession, source: asksTwice, asked: 2},
		"Rule":          {how: core.RememberRule, source: asksTwice, asked: 2},
		"RuleFails":     {how: core.RememberRule, source: asksTwice, asked: 2, fail: true},
		"SessionCold":   {how: core.RememberSession, source: asksTwice, asked: 2, cold: true},
		"RuleCold":      {how: core.RememberRule, source: asksTwice, asked: 2, cold: true},
		"AtOnce":        {how: core.RememberRule, source: asksAtOnce, asked: 2},
		"AtOnceCold":    {how: core.RememberRule, source: asksAtOnce, asked: 2, cold: true},
		"OneByOne":      {how: core.RememberSession, source: asksOneByOne, asked: 1},
		"OneByOneFails": {how: core.RememberSession, source: asksOneByOne, asked: 1, fail: true, cold: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if c.fail {
				b.Host.ApplyErr = core.Errorf(core.CodeStoreFailed, "the rule was not written")
			}
			b.Host.OnCall = func(engine.Call) {
				b.Host.Mu.Lock()
				defer b.Host.Mu.Unlock()
				if len(b.Host.Applied) != 1 {
					t.Errorf("called before the host was told: %v", b.Host.Applied)
				}
			}
			p := b.process()
			h := b.code(p, c.source, core.RunOptions{})
			b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == c.asked })
			decided := b.open(p, h.ID)[0].ID
			if c.cold {
				p.close()
				p = b.process()
				b.decide(p, h, core.ApproveTool, true, &core.Answer{Remember: c.how})
				var err error
				if h, err = p.Resume(t.Context(), h.ID); err != nil {
					t.Fatal(err)
				}
			} else {
				b.decide(p, h, core.ApproveTool, true, &core.Answer{Remember: c.how})
			}
			s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() })
			if s.Run.State != core.RunComplete {
				t.Fatalf("%s: %v", s.Run.State, s.Run.Error)
			}
			got := b.Host.Called()
			slices.Sort(got)
			if !slices.Equal(got, []string{`a:ask{"n":1}`, `a:ask{"n":2}`}) {
				t.Errorf("called %v", got)
			}
			later := "approval " + decided.Short() + ", for all calls of the tool"
			if by := allowedBy(t, p, h); by[`{"n":1}`]+by[`{"n":2}`] != later {
				t.Errorf("of one call it is said that somebody was asked, of the other %q: %q", later, by)
			}
			if got := b.Host.Applied; !slices.Equal(got, []string{"a:ask " + string(c.how)}) {
				t.Errorf("told the host %v", got)
			}
			warned := slices.ContainsFunc(events(t, p, h), func(e core.Event) bool {
				return e.Type == core.EventTaskWarning && strings.Contains(e.Message, "not written")
			})
			if warned != c.fail {
				t.Errorf("a warning: %v", warned)
			}
		})
	}
}

// What was remembered counts in a process that takes the run up between the two
// calls.
func TestRemember_TakenUpLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reached, hold := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	b.Host.Tools["a:ask"] = tool{Ask: true, ReadOnly: true, Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		if calls.Add(1) == 1 {
			close(reached)
			select {
			case <-hold:
			case <-ctx.Done():
				return nil, core.Errorf(core.CodeCancelled, "stopped")
			}
		}
		return args, nil
	}}
	b.Limits.StopGrace = 1
	p := b.process()
	h := b.code(p, asksTwice, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 2 })
	b.decide(p, h, core.ApproveTool, true, &core.Answer{Remember: core.RememberRule})
	<-reached
	p.close()
	close(hold)
	p = b.process()
	h, err := p.Resume(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() || len(s.Pending) > 0 })
	if s.Run.State != core.RunComplete || len(b.Host.Applied) != 1 {
		t.Errorf("%s with %d pending, told the host %v", s.Run.State, len(s.Pending), b.Host.Applied)
	}
}

// A call that the host did not make goes back to its gates: it is asked about,
// not failed, and made once.
func TestNotMade_AsksAgain(t *testing.T) {
	t.Parallel()
	for name, readOnly := range map[string]bool{"ReadOnly": true, "WithEffect": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var made atomic.Int32
			b.Host.Tools["a:x"] = tool{ReadOnly: readOnly, Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
				b.Host.Mu.Lock()
				defer b.Host.Mu.Unlock()
				if made.Add(1) == 1 {
					b.Host.Needs["a"] = true // what it is started from has changed
					return nil, &engine.NotMadeError{Reason: core.Errorf(core.CodeIntegrityFailed, "it has changed")}
				}
				return core.Null, nil
			}}
			p := b.process()
			h := b.code(p, `await mcp.a.x({}); return "done"`, core.RunOptions{})
			s := b.Wait(h, func(s engine.Status) bool { return len(s.Pending) > 0 || s.Run.State.Final() })
			if len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveDependency {
				t.Fatalf("%s: %+v", s.Run.State, s.Pending)
			}
			// Another process does not take it for a call that may have run.
			p.close()
			p = b.process()
			b.decide(p, h, core.ApproveDependency, true, nil)
			h, err := p.Resume(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			s = b.Wait(h, func(s engine.Status) bool { return len(s.Pending) > 0 || s.Run.State.Final() })
			if s.Run.State != core.RunComplete || made.Load() != 2 {
				t.Errorf("%s after %d attempts, pending %+v", s.Run.State, made.Load(), s.Pending)
			}
		})
	}
}

// A host that never makes a call does not keep the run busy for ever.
func TestNotMade_Bounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Tools["a:x"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, &engine.NotMadeError{Reason: core.Errorf(core.CodeIntegrityFailed, "it has changed")}
	}}
	p := b.process()
	h := b.code(p, `await mcp.a.x({})`, core.RunOptions{})
	s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() })
	if n := len(b.Host.Called()); s.Run.State != core.RunFailed || n != 4 {
		t.Errorf("%s after %d attempts", s.Run.State, n)
	}
	if s.Run.Error == nil || !strings.Contains(s.Run.Error.Message, "it has changed") {
		t.Errorf("%v", s.Run.Error)
	}
}

// allowedBy are what the journal says because of what nobody was asked, by the arguments of the calls.
func allowedBy(t *testing.T, p *process, h *engine.Handle) map[string]string {
	t.Helper()
	records, err := p.st.Journal(t.Context(), h.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	for _, r := range records {
		if r.Kind == core.RecordSettled {
			by[string(r.Args)] = r.AllowedBy
		}
	}
	return by
}

func events(t *testing.T, p *process, h *engine.Handle) []core.Event {
	t.Helper()
	list, err := p.st.Events(t.Context(), store.EventFilter{RunID: h.ID})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A question that is asked each time is answered by no permission that was
// remembered, and what is remembered takes it not back.
func TestRemember_NotOnce(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{"Foreseen": asksTwice, "AtOnce": asksAtOnce, "OneByOne": asksOneByOne} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.Once = func(call engine.Call) bool { return strings.Contains(string(call.Args), "2") }
			p := b.process()
			decide := func(ap core.Approval, answer *core.Answer) error {
				_, err := p.st.Decide(t.Context(), core.Decision{
					ApprovalID: ap.ID, Approved: true, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), Answer: answer,
				}, store.Renewal{})
				return err
			}
			h := b.code(p, source, core.RunOptions{})
			plain := func(ap core.Approval) bool { return !ap.Once }
			once := func(ap core.Approval) bool { return ap.Once }
			s := b.Wait(h, func(s engine.Status) bool { return slices.ContainsFunc(s.Pending, plain) })
			if err := decide(s.Pending[slices.IndexFunc(s.Pending, plain)], &core.Answer{Remember: core.RememberRun}); err != nil {
				t.Fatal(err)
			}
			p.Wake(h.ID)
			s = b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 && once(s.Pending[0]) })
			if got := b.Host.Called(); slices.Contains(got, `a:ask{"n":2}`) {
				t.Fatalf("called %v", got)
			}
			if err := decide(s.Pending[0], &core.Answer{Remember: core.RememberRun}); core.CodeOf(err) != core.CodeInvalidArguments {
				t.Errorf("remembered: %v", err)
			}
			if err := decide(s.Pending[0], nil); err != nil {
				t.Fatal(err)
			}
			p.Wake(h.ID)
			if s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() }); s.Run.State != core.RunComplete {
				t.Fatalf("%s: %v", s.Run.State, s.Run.Error)
			}
		})
	}
}
