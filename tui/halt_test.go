package tui

import (
	"testing"
	"time"
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
