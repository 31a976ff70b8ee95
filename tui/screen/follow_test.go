package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/state"
)

// TestFollow: the detail shows the run and the task of the approval that the cursor is
// on, and what a person then selects in the detail stays.
func TestFollow(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 160, 45)
	p.s.sel.Run = runFailed
	p.press("2")
	p.wait(decide.Quiet)
	p.press("g")
	if p.s.sel.Run != runWaiting {
		t.Errorf("the run is %s", p.s.sel.Run)
	}
	p.press("j")
	if p.selected() != apTool || p.s.sel.Run != runNotes || p.s.sel.Task != "create_release" {
		t.Errorf("%s shows %s %s", p.selected(), p.s.sel.Run, p.s.sel.Task)
	}
	p.press("3", "h")
	task := p.s.sel.Task
	if task == "create_release" {
		t.Fatal("the cursor did not move")
	}
	p.wait(decide.Quiet)
	if p.s.sel.Task != task {
		t.Errorf("the detail went back to %s", p.s.sel.Task)
	}
	p.press("5", "k")
	if ev := p.s.sel.Run; ev == runNotes {
		t.Errorf("the detail does not follow the events")
	}
}

// TestPreview: beside the inbox stands what the selected approval asks for, and seeing
// it there unlocks nothing.
func TestPreview(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{100, 30}, {160, 45}, {160, 35}} {
		p := atInbox(t, size[0], size[1])
		p.press("g", "j")
		p.sees("create_release shop (gh)") // what, whole
		p.sees("body      3 lines")        // what it is called with
	}
}

// TestRows_Wide: what a window of 80 columns shows of what waits, larger ones show, too.
func TestRows_Wide(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {100, 30}, {120, 50}, {160, 35}, {160, 45}} {
		s := newScreen(t, fixtureState(), size[0], size[1])
		for _, key := range []string{"1", "2"} {
			press(s, key)
			frame := s.Plain(fixtureNow)
			for _, word := range map[string][]string{
				"1": {"NEXT", "integrity 0:48", "in doubt 1:01:40", "crawl-competitor", "db-migrate-prod"},
				"2": {"serena@0.5.0 (42 packages)", "linear at https://linear.app", "layer 2: 1 task, db:migrate", "no limit"},
			}[key] {
				if !strings.Contains(frame, word) {
					t.Errorf("%q is not shown at %dx%d in panel %s:\n%s", word, size[0], size[1], key, frame)
				}
			}
		}
	}
}

// TestWorkflows_PlainWords: a filter of plain words looks at all that a row shows.
func TestWorkflows_PlainWords(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	for text, n := range map[string]int{"wait": 4, "failed": 1, "shop": 13, "claude": 13, "notes": 1, "!wait": 9, "exit 1": 1} {
		f, err := state.ParseFilter(text, state.RunKeys...)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, r := range fixtureRuns() {
			if st.Match(f, r.ID) {
				got++
			}
		}
		if got != n {
			t.Errorf("%s matches %d runs, not %d", text, got, n)
		}
	}
}

// TestFollow_TaskStays: what somebody reads in the panel of a task does not go on under them.
func TestFollow_TaskStays(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.PutWorkflow(scriptOf(14))
	p := newPersonOf(t, st, 100, 40)
	selectRun(t, p.s, runScript)
	p.press("3")
	p.frame()
	p.press("4")
	st.PutWorkflow(scriptOf(20))
	p.s.Changed(p.now)
	if p.s.sel.Task != "c14" {
		t.Errorf("it shows %s", p.s.sel.Task)
	}
}
