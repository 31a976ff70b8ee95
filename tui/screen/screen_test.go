package screen

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/state"
)

// wantIntents fails unless exactly these intents came.
func wantIntents(t *testing.T, got []Intent, want ...Intent) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("intents (-want +got):\n%s", diff)
	}
}

// wantShown fails unless a frame has all texts.
func wantShown(t *testing.T, s *Screen, texts ...string) {
	t.Helper()
	frame := s.Plain(fixtureNow)
	for _, text := range texts {
		if !strings.Contains(frame, text) {
			t.Errorf("%q is not shown:\n%s", text, frame)
		}
	}
}

func TestScreen_Globals(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	wantIntents(t, press(s, "ctrl+l"), Redraw{})
	wantIntents(t, press(s, "ctrl+z"), Suspend{})
	wantIntents(t, press(s, "ctrl+r"), Refresh{})
	wantIntents(t, press(s, "6"), LoadAudit{})
	wantIntents(t, press(s, "1", "6"), LoadAudit{}) // other processes add to it
	wantIntents(t, press(s, "ctrl+r"), Refresh{}, LoadAudit{})
	wantIntents(t, press(s, "ctrl+c"), Quit{})
	wantIntents(t, press(s, "7"), LoadServers{})
	press(s, "1", "tab", "tab", "shift+tab")
	if s.panes.focus != PanelApprovals {
		t.Errorf("focus is on %d", s.panes.focus)
	}
	press(s, "shift+tab", "shift+tab")
	if s.panes.focus != PanelFlows {
		t.Errorf("focus is on %d", s.panes.focus)
	}
}

func TestScreen_Quit(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	wantIntents(t, press(s, "q"))
	wantShown(t, s, "Leave?", "8 approvals waiting", "0:48")
	if frame := s.Plain(fixtureNow.Add(10 * time.Second)); !strings.Contains(frame, "0:38") {
		t.Errorf("its time stands still:\n%s", frame)
	}
	wantIntents(t, press(s, "enter", "space", "esc"))
	wantIntents(t, press(s, "q", "y"), Quit{})

	s = newScreen(t, emptyState(), 80, 24)
	wantIntents(t, press(s, "q"), Quit{})

	st := emptyState()
	st.PutRuns(fixtureRuns()[5])
	s = newScreen(t, st, 80, 24)
	s.SetRunning([]core.ID{runETL})
	wantIntents(t, press(s, "q"))
	wantShown(t, s, "nightly-etl runs in this terminal", "pml continue 7f39c0d4")
}

// TestScreen_Suspend: a run that this terminal makes stands still while it is suspended.
func TestScreen_Suspend(t *testing.T) {
	t.Parallel()
	st := emptyState()
	st.PutRuns(fixtureRuns()[5])
	s := newScreen(t, st, 80, 24)
	wantIntents(t, press(s, "ctrl+z"), Suspend{})
	s.SetRunning([]core.ID{runETL})
	wantIntents(t, press(s, "ctrl+z"))
	wantShown(t, s, "Suspend?", "nightly-etl runs in this terminal and stands still")
	wantIntents(t, press(s, "esc", "ctrl+z", "y"), Suspend{})
	wantIntents(t, press(s, "ctrl+z", "ctrl+z"), Suspend{})
}

func TestScreen_TextInputGetsKeysFirst(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	wantIntents(t, press(s, "/", `"q1x?:"`))
	wantShown(t, s, "/ filter: q1x?:")
	wantIntents(t, press(s, "ctrl+l"), Redraw{})
	wantIntents(t, press(s, "ctrl+c"), Quit{})
}

func TestScreen_PasteIsNoKey(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	wantIntents(t, s.Key(keys.Key{Name: "q", Text: "q", Paste: true}, fixtureNow))
	if len(s.overlay) > 0 {
		t.Error("a paste opened something")
	}
	press(s, "/")
	s.Key(keys.Key{Name: "enter", Text: "status:\nfailed\x1b", Paste: true}, fixtureNow)
	wantShown(t, s, `/ filter: status:\nfailed\x1b`)
}

func TestScreen_QuietAfterFocus(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	s.Focused(true, fixtureNow)
	press(s, "x")
	wantShown(t, s, "too early")
	if len(s.overlay) > 0 {
		t.Fatal("a decision key did something as the focus came")
	}
	s.Key(keys.Key{Name: "x"}, fixtureNow.Add(decide.Quiet))
	if len(s.overlay) == 0 {
		t.Error("the key does nothing after the quiet time")
	}
}

func TestScreen_Zoom(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 160, 45)
	wantShown(t, s, "1 Runs", "2 Approvals", "5 Events")
	press(s, "5", "z")
	frame := s.Plain(fixtureNow)
	if strings.Contains(frame, "1 Runs") || !strings.Contains(frame, "5 Events") {
		t.Errorf("not zoomed:\n%s", frame)
	}
	press(s, "esc")
	wantShown(t, s, "1 Runs")
}

func TestScreen_Mouse(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 160, 45)
	s.Plain(fixtureNow)
	s.Mouse(10, 6, Click, fixtureNow) // the third run
	if s.sel.Run != runWaiting {
		t.Errorf("selected is %s", s.sel.Run)
	}
	s.Mouse(10, 6, WheelDown, fixtureNow)
	if want := s.o.State.Runs()[5]; s.sel.Run != want {
		t.Errorf("the wheel went to %s, want %s", s.sel.Run, want)
	}
	wantIntents(t, s.Mouse(80, 40, Click, fixtureNow))
	if s.panes.focus != PanelEvents {
		t.Errorf("focus is on %d", s.panes.focus)
	}

	s = newScreen(t, fixtureState(), 80, 24)
	line, _, _ := strings.Cut(s.Plain(fixtureNow), "\n")
	wantIntents(t, s.Mouse(len([]rune(line[:strings.Index(line, " 6 ")+1])), 0, Click, fixtureNow), LoadAudit{})

	s.Focused(true, fixtureNow)
	s.Mouse(10, 0, Click, fixtureNow)
	if s.panes.focus != PanelAudit {
		t.Error("the click that gave the focus did something")
	}
}

func TestScreen_SelectionSurvivesNewRows(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	s := newScreen(t, st, 80, 24)
	press(s, "j", "j")
	if s.sel.Run != runWaiting {
		t.Fatalf("selected is %s", s.sel.Run)
	}
	r := fixtureRuns()[0]
	r.ID, r.CreatedAt = "00000000-0000-4000-8000-000000000000", fixtureNow
	st.PutRuns(r)
	s.Changed(fixtureNow)
	if s.sel.Run != runWaiting {
		t.Errorf("the selection went to %s", s.sel.Run)
	}
	press(s, "j")
	if s.sel.Run != runNotes {
		t.Errorf("down went to %s", s.sel.Run)
	}
	st.DropRun(runNotes)
	s.Changed(fixtureNow)
	if _, known := st.Run(s.sel.Run); !known {
		t.Error("what is selected is gone")
	}
}

func TestScreen_Wants(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	manyRuns(st, 1000)
	s := newScreen(t, st, 80, 24)
	press(s, "j")
	s.Plain(fixtureNow)
	got := s.Wants()
	if got[0] != s.sel.Run || len(got) > 24 || len(got) < 10 {
		t.Errorf("wants %d runs, first %s", len(got), got[0])
	}
}

func TestScreen_Flash(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	s.Say(Bad, "ada was first", fixtureNow)
	wantShown(t, s, "✗ 14:02:31 ada was first")
	for name, c := range map[string]struct {
		level Level
		after time.Duration
		key   string
		stays bool
	}{
		"Note/5s":          {Note, flashFor, "", true},
		"Note/over":        {Note, flashFor + time.Second, "", false},
		"Bad/over":         {Bad, flashFor + time.Second, "", true},
		"Bad/key":          {Bad, time.Second, "j", false},
		"Good/key":         {Good, time.Second, "j", false},
		"Good/under a key": {Good, 100 * time.Millisecond, "j", true},
	} {
		s := newScreen(t, fixtureState(), 80, 24)
		s.Say(c.level, "ada was first", fixtureNow)
		now := fixtureNow.Add(c.after)
		if c.key != "" {
			s.Key(keys.Key{Name: c.key, Text: c.key}, now)
		}
		if stays := strings.Contains(s.Plain(now), "ada was first"); stays != c.stays {
			t.Errorf("%s: it stays: %v", name, stays)
		}
	}
}

func TestScreen_Links(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	s := newScreen(t, st, 160, 45)
	wantShown(t, s, "● local", "● server https://pml.acme.example")
	st.Links.Server.State, st.Links.Server.Since, st.Links.Server.AsOf = state.LinkLost, ago(12*time.Second), ago(14*time.Second)
	wantShown(t, s, "○ server lost 12s", "looking again", "stale, as of 14:02:17")
	st.Links.Server.State, st.Links.Server.Since, st.Links.Server.Resumed = state.LinkLive, ago(3*time.Second), 18371
	wantShown(t, s, "resumed from 18 371")
	st.Links.Server.Since = ago(6 * time.Second)
	if strings.Contains(s.Plain(fixtureNow), "resumed") {
		t.Error("it is resumed for ever")
	}
	st.Links.Server = state.Link{State: state.LinkNone}
	if strings.Contains(strings.Split(s.Plain(fixtureNow), "\n")[0], "server") {
		t.Error("a server is shown where there is none")
	}
}

// TestScreen_TinyDecidesNothing presses keys where nothing is on screen that
// they could be meant for.
func TestScreen_TinyDecidesNothing(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 38, 8)
	wantIntents(t, press(s, "j", "a", "d", "x", "y", "R", "2", ":", "?"))
	if len(s.overlay) > 0 || s.panes.focus != PanelWorkflows {
		t.Error("a key did something")
	}
	wantIntents(t, press(s, "ctrl+c"), Quit{})
}

// TestScreen_QuietWhenTheApprovalChanges takes the selected approval away: the
// next key was meant for it, not for what is under the cursor now.
func TestScreen_QuietWhenTheApprovalChanges(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	s := newScreen(t, st, 80, 24)
	press(s, "2")
	gone := fixtureApprovals()[0]
	gone.State, gone.DecidedBy = core.ApprovalDenied, &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaCLI}, At: fixtureNow}
	before := s.sel.Approval
	st.PutApprovals(gone)
	s.Changed(fixtureNow)
	if before != apIntegrity || s.sel.Approval == before {
		t.Fatalf("selected was %s, is %s", before, s.sel.Approval)
	}
	press(s, "a")
	if len(s.overlay) > 0 {
		t.Error("the key was carried out on another approval")
	}
}

// TestHeader_Counts: each word counts the runs of the state that it says.
func TestHeader_Counts(t *testing.T) {
	t.Parallel()
	want := map[core.RunState]string{
		core.RunRunning: "run 1  wait 0  fail 0  done 0  ", core.RunWaiting: "run 0  wait 1  fail 0  done 0  ",
		core.RunFailed: "run 0  wait 0  fail 1  done 0  ", core.RunComplete: "run 0  wait 0  fail 0  done 1  ",
		core.RunInterrupted: "run 0  wait 0  fail 0  done 0  interrupted 1  ",
		core.RunAborted:     "run 0  wait 0  fail 0  done 0  ", core.RunExpired: "run 0  wait 0  fail 0  done 0  ",
	}
	for _, st := range core.RunStates {
		known := emptyState()
		known.PutRuns(core.Run{ID: runETL, State: st, CreatedAt: fixtureNow})
		var b strings.Builder
		for _, s := range countSpans(countRuns(&Env{State: known})) {
			b.WriteString(s.text)
		}
		if b.String() != want[st] {
			t.Errorf("%s: %q, want %q", st, b.String(), want[st])
		}
	}
}

// TestScreen_Notices: what a person has to know of the workspace stands below the
// panels, with what the lists lack before it.
func TestScreen_Notices(t *testing.T) {
	t.Parallel()
	st := emptyState()
	st.Notices = []string{"restrictions\x1b[2J were taken out"}
	wantShown(t, newScreen(t, st, 100, 30), `restrictions\x1b[2J were taken out`)
	st.Warnings = []string{"the server does not answer"}
	wantShown(t, newScreen(t, st, 100, 30), "the server does not answer (and 1 more)")
}
