package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// A call that somebody was asked about, and that nobody would be asked about any more
// when its run goes on in another process: a decision counts whenever it came, also
// between the run's look at the store and its beginning the call.
func TestAllowedMeanwhile(t *testing.T) {
	t.Parallel()
	changed := json.RawMessage(`{"n":7}`)
	digest, err := core.Digest(changed)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		decision *core.Decision // nil: nobody decides
		result   string
		called   []string
		state    core.ApprovalState
	}{
		"Nobody":   {nil, `1`, []string{`a:ask{"n":1}`}, core.ApprovalSuperseded},
		"Approved": {&core.Decision{Approved: true}, `1`, []string{`a:ask{"n":1}`}, core.ApprovalApproved},
		"Edited":   {&core.Decision{Approved: true, Answer: &core.Answer{Arguments: changed, Digest: digest}}, `7`, []string{`a:ask{"n":7}`}, core.ApprovalApproved},
		"Denied":   {&core.Decision{}, `"no"`, nil, core.ApprovalDenied},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%v", name, late), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				p := b.process()
				h := b.code(p, `const n = [1].length; try { return (await mcp.a.ask({n})).n } catch (e) { return "no" }`, core.RunOptions{})
				asked := b.Wait(h, enginetest.Pending(1)).Pending[0]
				p.close()
				st := b.store()
				defer st.Close()
				decide := func() error {
					if tt.decision == nil {
						return nil
					}
					d := *tt.decision
					d.ApprovalID, d.By, d.At = asked.ID, core.Actor{Who: "me"}, time.Now()
					_, err := st.Decide(t.Context(), d, store.Renewal{})
					return err
				}
				if !late {
					if err := decide(); err != nil {
						t.Fatal(err)
					}
				}
				b.Host.Allows("a:ask")
				var once atomic.Bool
				b.wrap = func(inner store.Store) store.Store {
					return &stepper{Store: inner, refuse: func(step store.Step) error {
						if late && len(step.Undecided) > 0 && !once.Swap(true) {
							return decide()
						}
						return nil
					}}
				}
				p = b.process()
				s := b.Wait(b.Resume(p.Process, h.ID), engine.Ended)
				if got := b.Host.Called(); string(s.Run.Result) != tt.result || !slices.Equal(got, tt.called) {
					t.Errorf("%s %s, called %v", s.Run.State, s.Run.Result, got)
				}
				if late != once.Load() {
					t.Errorf("the question was taken back: %v", once.Load())
				}
				list, err := st.Approvals(t.Context(), store.ApprovalFilter{ID: asked.ID, Now: time.Now()})
				if err != nil || len(list) != 1 || list[0].State != tt.state {
					t.Errorf("%v %+v", err, list)
				}
			})
		}
	}
}
