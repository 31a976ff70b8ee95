package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// A decision about what has expired counts, and the gates are asked again before
// anything acts on it: a yes counts for what was shown, and for nothing else.
func TestApproval_ExpiredIsDecided(t *testing.T) {
	t.Parallel()
	refuse := tool{Ask: true, Deny: core.Errorf(core.CodePermissionDenied, "forbidden by now")}
	for name, tt := range map[string]struct {
		meanwhile func(*host)
		yes       bool
		calls     int // of the tool that is asked about
		asksAnew  bool
	}{
		"Same":      {func(*host) {}, true, 1, false},
		"Slow":      {func(h *host) { h.Slow = true }, true, 1, false},
		"Changed":   {func(h *host) { h.Asks = "-changed" }, true, 0, true},
		"Riskier":   {func(h *host) { h.Risk = core.RiskHigh }, true, 0, true},
		"LessRisky": {func(h *host) { h.Risk = core.RiskLow }, true, 1, false},
		"Forbidden": {func(h *host) { h.Tools["a:ask"] = refuse }, true, 0, false},
		"Denied":    {func(*host) {}, false, 0, false},
	} {
		for _, cold := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cold=%v", name, cold), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.Limits.ApprovalTTL = time.Minute
				b.Host.Risk = core.RiskMedium
				p := b.process()
				h := b.code(p, `const v = await mcp.a.read({n: 1}); try { return await mcp.a.ask(v) } catch (e) { return "no" }`, core.RunOptions{})
				asked := b.Wait(h, enginetest.Pending(1)).Pending[0]
				if cold {
					p.close()
				}
				b.Host.Mu.Lock()
				tt.meanwhile(b.Host)
				b.Host.Mu.Unlock()
				st := b.store()
				if _, err := st.Extend(t.Context(), asked.ID, time.Now().Add(-time.Second)); err != nil {
					t.Fatal(err)
				}
				got, err := st.Decide(t.Context(), core.Decision{ApprovalID: asked.ID, Approved: tt.yes, By: core.Actor{Who: "me"}, At: time.Now(), ExpectDigest: asked.Digest},
					store.Renewal{Fresh: newID()})
				if err != nil || got.Renews != asked.ID {
					t.Fatalf("%+v %v", got, err)
				}
				if cold {
					h = b.Resume(b.process().Process, h.ID)
				} else {
					p.Wake(h.ID)
				}
				s := b.Wait(h, func(s engine.Status) bool {
					return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 1 && s.Pending[0].ID != asked.ID
				})
				if anew := !engine.Ended(s); anew != tt.asksAnew || anew && (s.Pending[0].Digest == asked.Digest && s.Pending[0].Risk == asked.Risk || s.Pending[0].Renews != "") {
					t.Errorf("%s with %+v", s.Run.State, s.Pending)
				}
				if n := len(b.Host.Called()) - 1; n != tt.calls {
					t.Errorf("%d calls: %v", n, b.Host.Called())
				}
			})
		}
	}
}
