package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// counts makes the host's flow one that says in the arguments how often it has run.
func (b *bench) counts(asks ...core.FlowAsk) *atomic.Int64 {
	runs := new(atomic.Int64)
	b.Host.Flow = func(call engine.Call) (core.Passage, *core.Error) {
		return core.Passage{
			Flows: []core.PassedFlow{{Flow: "f", RunID: newID(), Node: "call", Changed: true}}, Asks: asks,
			Args: json.RawMessage(enginetest.Counted(string(call.Args), int(runs.Add(1)))),
		}, nil
	}
	return runs
}

// again goes on with a run, in a new process where cold is set.
func (b *bench) again(p *process, h *engine.Handle, cold bool) (*process, *engine.Handle) {
	b.T.Helper()
	if !cold {
		return p, h
	}
	p.close()
	p = b.process()
	h, err := p.Resume(b.T.Context(), h.ID)
	if err != nil {
		b.T.Fatal(err)
	}
	return p, h
}

var warmCold = map[string]bool{"Warm": false, "Cold": true}

// TestFlows_Once: what flows made of a call is shown, approved, sent and journaled, and
// they run once for it: whatever asks, and in whichever process it goes on.
func TestFlows_Once(t *testing.T) {
	t.Parallel()
	always := core.RunOptions{HIL: core.HILAlways}
	byFlow := core.FlowAsk{Flow: "f", Node: "ask"}
	for name, tt := range map[string]struct {
		tool  string
		opts  core.RunOptions
		asks  []core.FlowAsk
		first core.ApprovalType
	}{
		"Tool":      {tool: "a:ask", first: core.ApproveTool},
		"Layer":     {tool: "a:write", opts: always, first: core.ApproveLayer},
		"Approval":  {tool: "a:write", asks: []core.FlowAsk{byFlow}, first: core.ApproveTool},
		"ReadAsked": {tool: "a:read", asks: []core.FlowAsk{byFlow}, first: core.ApproveTool},
	} {
		for temperature, cold := range warmCold {
			t.Run(name+temperature, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				runs := b.counts(tt.asks...)
				p := b.process()
				h := b.dag(p, []core.TaskSpec{task("one", tt.tool)}, tt.opts)
				s := b.Wait(h, enginetest.Pending(1))
				if tt.first == core.ApproveLayer && !strings.Contains(string(s.Pending[0].Context), `"by":1`) {
					t.Errorf("shown: %s", s.Pending[0].Context)
				}
				p, h = b.again(p, h, cold)
				b.Wait(h, enginetest.Pending(1))
				b.decide(p, h, tt.first, true, nil)
				p.Wake(h.ID)
				b.Complete(h, `{"one":{"id":"one","by":1}}`)
				if got := b.Host.Called(); runs.Load() != 1 || !slices.Equal(got, []string{tt.tool + `{"id":"one","by":1}`}) {
					t.Errorf("%d runs, called %v", runs.Load(), got)
				}
				records, err := p.st.Journal(t.Context(), h.ID, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					if r.CallID == "one" && (string(r.Args) != `{"id":"one"}` || string(r.Sent) != `{"id":"one","by":1}` || r.Passage == nil || len(r.Passage.Args) > 0) {
						t.Errorf("%s: %s, sent %s, %+v", r.Kind, r.Args, r.Sent, r.Passage)
					}
				}
			})
		}
	}
}

// TestFlows_Edited: a person changes what the flow has made of a call, and a crash later
// both are known.
func TestFlows_Edited(t *testing.T) {
	t.Parallel()
	for name, cold := range warmCold {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			runs := b.counts()
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("one", "a:ask"), task("two", "a:ask", "one")}, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			b.edit(p, h, `{"id":"mine"}`, "")
			p.Wake(h.ID)
			b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 && len(b.Host.Called()) == 1 })
			p, h = b.again(p, h, cold)
			b.Wait(h, enginetest.Pending(1))
			b.decide(p, h, core.ApproveTool, true, nil)
			p.Wake(h.ID)
			b.Complete(h, `{"two":{"id":"two","by":2}}`)
			if got := b.Host.Called(); runs.Load() != 2 || !slices.Equal(got, []string{`a:ask{"id":"mine"}`, `a:ask{"id":"two","by":2}`}) {
				t.Errorf("%d runs, called %v", runs.Load(), got)
			}
		})
	}
}

// TestFlows_MeetTheEdit: a flow that matches a call only as a person has edited it looks at
// that. It does not bring the program's arguments back, and changes nothing.
func TestFlows_MeetTheEdit(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{"Looks": "", "Changes": `{"id":"other"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.Flow = func(call engine.Call) (p core.Passage, _ *core.Error) {
				if strings.Contains(string(call.Args), "mine") {
					p.Flows, p.Args = []core.PassedFlow{{Flow: "f", Node: "call"}}, json.RawMessage(args)
				}
				return p, nil
			}
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("one", "a:ask")}, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			b.edit(p, h, `{"id":"mine"}`, "")
			p.Wake(h.ID)
			want := []string{`a:ask{"id":"mine"}`}
			if s := b.Wait(h, engine.Ended); args != "" {
				if want = nil; s.Run.State == core.RunComplete {
					t.Errorf("it is %s", s.Run.State)
				}
			}
			if got := b.Host.Called(); !slices.Equal(got, want) {
				t.Errorf("called %v", got)
			}
		})
	}
}

// TestFlows_Retried: a call that is tried again, by its task or by a person, meets no
// flow again.
func TestFlows_Retried(t *testing.T) {
	t.Parallel()
	for name, cold := range warmCold {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			runs := b.counts()
			p := b.process()
			fails := task("one", "a:fail")
			fails.Retry = &core.Retry{MaxAttempts: 3}
			h := b.dag(p, []core.TaskSpec{fails}, core.RunOptions{})
			b.failed(h, core.CodeToolFailed, "it failed")
			if cold {
				p.close()
				p = b.process()
			}
			h, _, err := p.Retry(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			b.failed(h, core.CodeToolFailed, "it failed")
			if got := b.Host.Called(); runs.Load() != 1 || len(got) < 4 || got[0] != got[len(got)-1] {
				t.Errorf("%d runs, called %v", runs.Load(), got)
			}
		})
	}
}

// TestFlows_Denied: what a flow refuses is not called, is tried again by nobody, and
// the audit log says which flow it was.
func TestFlows_Denied(t *testing.T) {
	t.Parallel()
	for _, code := range []core.Code{core.CodeDenied, core.CodeHookFailed} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			runs := 0
			b.Host.Flow = func(engine.Call) (core.Passage, *core.Error) {
				runs++
				e := core.Errorf(code, "the flow f says no")
				e.Decided = &core.DecidedBy{Actor: core.Actor{Who: "flow f", Via: core.ViaRule}}
				return core.Passage{}, e
			}
			p := b.process()
			one := task("one", "a:write")
			one.Retry = &core.Retry{MaxAttempts: 3}
			h := b.dag(p, []core.TaskSpec{one}, core.RunOptions{})
			b.failed(h, code, "the flow f says no")
			rows, err := p.st.Audit(t.Context(), store.AuditFilter{})
			if err != nil || len(rows) != 1 || rows[0].By.Who != "flow f" || rows[0].Outcome != core.ApprovalDenied {
				t.Errorf("%v %+v", err, rows)
			}
			if runs != 1 || len(b.Host.Called()) > 0 {
				t.Errorf("%d runs, called %v", runs, b.Host.Called())
			}
		})
	}
}

// TestFlows_Made: a call whose answer is not let through is not made again by its task,
// and a person who retries it is asked first, as it has had its effect.
func TestFlows_Made(t *testing.T) {
	t.Parallel()
	for name, readOnly := range map[string]bool{"Write": false, "Read": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.Tools["a:made"] = tool{ReadOnly: readOnly, Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return nil, core.Errorf(core.CodeHookFailed, "the flow f has failed").WithMade()
			}}
			p := b.process()
			one := task("one", "a:made")
			one.Retry = &core.Retry{MaxAttempts: 3}
			h := b.dag(p, []core.TaskSpec{one}, core.RunOptions{})
			failed := b.failed(h, core.CodeHookFailed, "the flow f has failed")
			if got := b.Host.Called(); len(got) != 1 || strings.Contains(fmt.Sprint(failed.Failures), "may have run") {
				t.Errorf("called %v: %v", got, failed)
			}
			h, _, err := p.Retry(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			if readOnly {
				b.failed(h, core.CodeHookFailed, "the flow f has failed")
				return
			}
			s := b.Wait(h, enginetest.Pending(1))
			if ap := s.Pending[0]; ap.Type != core.ApproveInDoubt || !strings.Contains(ap.Description, "it has run") {
				t.Errorf("%s: %s", ap.Type, ap.Description)
			}
			if got := b.Host.Called(); len(got) != 1 {
				t.Errorf("called %v", got)
			}
		})
	}
}

// TestFlows_Unanswered: flows that have let a call pass are told when a person then denies
// it, or ends its run, in whichever process that is; and of no call that was answered.
func TestFlows_Unanswered(t *testing.T) {
	t.Parallel()
	for temperature, cold := range warmCold {
		for name, want := range map[string]core.Code{"Denied": core.CodeDenied, "DeniedBounded": core.CodeDenied, "Aborted": core.CodeCancelled, "Approved": ""} {
			t.Run(name+temperature, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.counts()
				p := b.process()
				opts := core.RunOptions{}
				if name == "DeniedBounded" { // as the runs of an agent with allowed_tools are
					opts.Allowed = &[]string{"a:*"}
				}
				h := b.dag(p, []core.TaskSpec{task("one", "a:ask")}, opts)
				b.Wait(h, enginetest.Pending(1))
				p, h = b.again(p, h, cold)
				b.Wait(h, enginetest.Pending(1))
				if name == "Aborted" {
					if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "ada"}}); err != nil {
						t.Fatal(err)
					}
				} else {
					b.decide(p, h, core.ApproveTool, name == "Approved", nil)
				}
				p.Wake(h.ID)
				b.Wait(h, engine.Ended)
				b.Host.Mu.Lock()
				defer b.Host.Mu.Unlock()
				if want == "" && len(b.Host.NotAnswered) > 0 || want != "" && !slices.Contains(b.Host.NotAnswered, `a:ask{"id":"one","by":1} f `+string(want)) {
					t.Errorf("%q", b.Host.NotAnswered)
				}
			})
		}
	}
}
