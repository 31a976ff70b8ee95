package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestHalt_Resume: what is said of a resume holds for a run whose process has ended, too.
func TestHalt_Resume(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	halt := core.Halt{Side: core.SideClient, By: core.Actor{Who: "ada"}, At: fixtureNow}
	st.SetHalts([]core.Halt{halt})
	stopped := core.Run{
		ID: "7f3a9fff-0000-4000-8000-000000000001", Side: core.SideClient, Kind: core.KindCode, Name: "book.ts", State: core.RunWaiting,
		CreatedAt: fixtureNow, UpdatedAt: fixtureNow, Halted: &halt,
	}
	st.PutRuns(stopped)
	s := newScreen(t, st, 80, 24)
	wantShown(t, s, "halted, ! resumes")
	press(s, "!")
	wantShown(t, s, "Let calls go on?", "A run whose process still runs", "has ended is interrupted", "R in the list of runs")
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "make them at once") {
		t.Errorf("it promises too much:\n%s", frame)
	}
}

// TestHalt_Palette: the palette asks what the key asks.
func TestHalt_Palette(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, ":", `"hal"`)
	wantShown(t, s, "no run begins another call")
	press(s, "tab")
	wantIntents(t, press(s, "enter"))
	wantShown(t, s, "HALT ALL CALLS?")
	wantIntents(t, press(s, "y"), Halt{})
	s.o.State.SetHalts([]core.Halt{{Side: core.SideClient, At: fixtureNow}})
	press(s, ":", `"resume"`, "enter")
	wantShown(t, s, "Let calls go on?")
}
