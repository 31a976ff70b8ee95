//go:build linux

package tui

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// TestRun_Halt: one key and a yes halt all calls, the header says so, and the same lets
// them go on. What is not a yes changes nothing.
func TestRun_Halt(t *testing.T) {
	t.Parallel()
	d := start(t, 80, 24, func(d *driver) { d.asks(5 * time.Minute) })
	d.sees("checkout-sync")
	d.types("!")
	d.sees("HALT ALL CALLS?")
	d.types("n")
	d.types("!")
	d.sees("HALT ALL CALLS?")
	d.types("y")
	d.sees("HALTED ! resumes")
	if halts, _ := d.backend.Halts(t.Context()); len(halts) != 1 || halts[0].By.Who != "ada" {
		t.Errorf("%+v", halts)
	}
	d.types("!")
	d.sees("Let calls go on?")
	d.types("y")
	d.sees("calls go on again")
	if halts, _ := d.backend.Halts(t.Context()); len(halts) != 0 {
		t.Errorf("%+v", halts)
	}
	d.types("\x03")
	d.end()
}

// TestModel_ApprovedWhileHalted: a yes says that nothing starts before the halt ends, and which
// key ends it; a no, and a yes to the half that goes on, do not.
func TestModel_ApprovedWhileHalted(t *testing.T) {
	t.Parallel()
	const waits = "approved; its call starts after the halt (!, and R if its process is gone)"
	h := newHarness(t, nil)
	h.learn(func(s *state.State) { s.SetHalts([]core.Halt{{Side: core.SideClient}}) })
	a := h.approval(0)
	h.backend.onContinue = func(api.ContinueRequest) (api.Result, error) { return api.Result{Status: api.StatusHalted}, nil }
	h.want(screen.Decide{Approvals: []core.Approval{a}, Approve: true})
	h.shows(waits)
	h.want(screen.Decide{Approvals: []core.Approval{a, a}, Approve: true})
	h.shows("2 " + waits)
	h.want(screen.Decide{Approvals: []core.Approval{a}})
	h.hides(waits)
	a.Side = core.SideServer
	h.want(screen.Decide{Approvals: []core.Approval{a}, Approve: true})
	h.hides(waits)
}
