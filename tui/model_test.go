package tui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/osc"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

func loaded(s *state.State) { s.SetLoaded() }

// stringer is a message of the library that only has a text.
type stringer string

func (s stringer) String() string { return string(s) }

func TestKeysOf(t *testing.T) {
	t.Parallel()
	runes := func(s string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(s)} }
	tests := []struct {
		name string
		msg  tea.KeyMsg
		want []keys.Key
	}{
		{"Letter", runes("a"), []keys.Key{{Name: "a", Text: "a"}}},
		{"Wide", runes("世"), []keys.Key{{Name: "世", Text: "世"}}},
		{"Alt", tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("x"), Alt: true}, []keys.Key{{Name: "alt+x"}}},
		{"Space", tea.KeyMsg{Type: tea.KeySpace, Runes: []rune(" ")}, []keys.Key{{Name: "space", Text: " "}}},
		{"AltSpace", tea.KeyMsg{Type: tea.KeySpace, Runes: []rune(" "), Alt: true}, []keys.Key{{Name: "alt+space"}}},
		{"Held", runes("jjjj"), []keys.Key{{Name: "j", Text: "j"}, {Name: "j", Text: "j"}, {Name: "j", Text: "j"}, {Name: "j", Text: "j"}}},
		{"Together", runes("2e"), []keys.Key{{Name: "2", Text: "2"}, {Name: "e", Text: "e"}}},
		{"Burst", runes("abort"), []keys.Key{{Text: "abort", Paste: true, Burst: true}}},
		{"PasteOfFour", tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("dbd3"), Paste: true}, []keys.Key{{Text: "dbd3", Paste: true}}},
		{"Paste", tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("a"), Paste: true}, []keys.Key{{Text: "a", Paste: true}}},
		{"PasteLines", tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("a\r\nb\tc\x1b[2J"), Paste: true}, []keys.Key{{Text: "a b c[2J", Paste: true}}},
		{"Enter", tea.KeyMsg{Type: tea.KeyEnter}, []keys.Key{{Name: "enter"}}},
		{"Escape", tea.KeyMsg{Type: tea.KeyEscape}, []keys.Key{{Name: "esc"}}},
		{"Ctrl", tea.KeyMsg{Type: tea.KeyCtrlD}, []keys.Key{{Name: "ctrl+d"}}},
		{"ShiftTab", tea.KeyMsg{Type: tea.KeyShiftTab}, []keys.Key{{Name: "shift+tab"}}},
		{"PageDown", tea.KeyMsg{Type: tea.KeyPgDown}, []keys.Key{{Name: "pgdown"}}},
		{"Backspace", tea.KeyMsg{Type: tea.KeyBackspace}, []keys.Key{{Name: "backspace"}}},
		{"F1", tea.KeyMsg{Type: tea.KeyF1}, []keys.Key{{Name: "f1"}}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, keysOf(tt.msg)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestKeysOf_Bindings finds a default binding that no key press could ever be.
func TestKeysOf_Bindings(t *testing.T) {
	t.Parallel()
	typed := map[string]bool{"space": true}
	for i := -200; i < 200; i++ {
		typed[tea.KeyMsg{Type: tea.KeyType(i)}.String()] = true
	}
	m, err := keys.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range keys.All() {
		for _, k := range m.Keys(a) {
			if len([]rune(k)) > 1 && !typed[k] {
				t.Errorf("%s: the library has no key %q", a, k)
			}
		}
	}
}

func TestButtonOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		msg  tea.MouseMsg
		want screen.Button
		ok   bool
	}{
		{tea.MouseMsg{Button: tea.MouseButtonLeft, Action: tea.MouseActionPress}, screen.Click, true},
		{tea.MouseMsg{Button: tea.MouseButtonLeft, Action: tea.MouseActionRelease}, 0, false},
		{tea.MouseMsg{Button: tea.MouseButtonLeft, Action: tea.MouseActionMotion}, 0, false},
		{tea.MouseMsg{Button: tea.MouseButtonRight, Action: tea.MouseActionPress}, 0, false},
		{tea.MouseMsg{Button: tea.MouseButtonWheelUp, Action: tea.MouseActionPress}, screen.WheelUp, true},
		{tea.MouseMsg{Button: tea.MouseButtonWheelDown, Action: tea.MouseActionPress}, screen.WheelDown, true},
	}
	for _, tt := range tests {
		if b, ok := buttonOf(tt.msg); b != tt.want || ok != tt.ok {
			t.Errorf("%v: %v, %v", tt.msg, b, ok)
		}
	}
}

func TestModel_Focus(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, tt := range []struct {
		msg  tea.Msg
		want bool
	}{
		{tea.FocusMsg{}, true}, {tea.BlurMsg{}, false}, {stringer("?CSI[73]?"), true}, {stringer("?CSI[79]?"), false},
		{tea.FocusMsg{}, true}, {tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("?CSI[79]?")}, true},
	} {
		if h.send(tt.msg); h.m.focused != tt.want {
			t.Errorf("after %#v: focused %v", tt.msg, h.m.focused)
		}
	}
}

func TestModel_Quit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.send(tea.KeyMsg{Type: tea.KeyCtrlC})
	if !h.quit {
		t.Error("ctrl+c does not quit")
	}
}

func TestModel_Library(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.want(screen.Suspend{})
	h.want(screen.Redraw{})
	h.want(screen.Refresh{})
	want := []string{"tea.SuspendMsg", "tea.clearScreenMsg"}
	if diff := cmp.Diff(want, types(h.other)); diff != "" {
		t.Error(diff)
	}
	if h.feed.refreshed != 1 {
		t.Errorf("refreshed %d times", h.feed.refreshed)
	}
	// The library does not bring the mouse back.
	h.other, h.sent = nil, nil
	h.send(tea.ResumeMsg{})
	if diff := cmp.Diff([]string{"tea.enableMouseCellMotionMsg"}, types(h.other)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"\x1b]2;pml\x1b\\"}, h.sent); diff != "" {
		t.Errorf("the title after a stop: %s", diff)
	}
}

func types(msgs []tea.Msg) []string {
	var out []string
	for _, m := range msgs {
		out = append(out, fmt.Sprintf("%T", m))
	}
	return out
}

func TestModel_Notifies(t *testing.T) {
	t.Parallel()
	note := func(text string) string { return osc.Bell + "\x1b]9;pml: " + text + "\x1b\\" }
	onlyNotes := func(h *harness) (out []string) {
		for _, s := range h.sent {
			if strings.Contains(s, osc.Bell) {
				out = append(out, s)
			}
		}
		h.sent = nil
		return out
	}
	t.Run("Schedule", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.learn(loaded)
		h.learn(func(s *state.State) { s.PutApprovals(h.approval(90 * time.Second)) })
		var got []string
		for range 91 {
			h.tick(time.Second)
			got = append(got, onlyNotes(h)...)
		}
		want := []string{
			note("tool perm: std:fetch, expires in 1:30"), note("tool perm: std:fetch, expires in 1:00"), note("tool perm: std:fetch, expires in 0:20"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("WhatWaitsAtTheStart", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.learn(func(s *state.State) { s.PutApprovals(h.approval(70 * time.Second)); s.SetLoaded() })
		if got := onlyNotes(h); len(got) != 0 {
			t.Errorf("at the start: %q", got)
		}
		h.tick(10 * time.Second)
		if diff := cmp.Diff([]string{note("tool perm: std:fetch, expires in 1:00")}, onlyNotes(h)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("Several", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, nil)
		h.learn(loaded)
		b := h.approval(0)
		b.ID = askB
		h.learn(func(s *state.State) { s.PutApprovals(h.approval(300*time.Second), b) })
		if diff := cmp.Diff([]string{note("2 approvals, first tool perm: std:fetch, expires in 5:00")}, onlyNotes(h)); diff != "" {
			t.Error(diff)
		}
	})
	for _, tt := range []struct {
		name    string
		how     Notify
		focused bool
		want    string
	}{
		{"OSC", NotifyOSC, false, note("tool perm: std:fetch")},
		{"OSCFocused", NotifyOSC, true, ""},
		{"Bell", NotifyBell, false, osc.Bell},
		{"BellFocused", NotifyBell, true, osc.Bell},
		{"Off", NotifyOff, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(o *Options) { o.Notify = tt.how })
			h.learn(loaded)
			if tt.focused {
				h.send(tea.FocusMsg{})
			}
			h.learn(func(s *state.State) { s.PutApprovals(h.approval(0)) })
			if got := strings.Join(onlyNotes(h), ""); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestModel_TitleAndProgress(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *Options) { o.Notify = NotifyOff })
	h.learn(func(s *state.State) { s.PutApprovals(h.approval(49 * time.Second)); s.SetLoaded() })
	h.tick(time.Second)
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunRunning)) })
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunComplete)) })
	h.tick(time.Minute)
	want := []string{
		"\x1b]2;pml\x1b\\", "\x1b]2;pml 1! 0:49\x1b\\", "\x1b]2;pml 1! 0:48\x1b\\", "\x1b]9;4;3;\x1b\\", "\x1b]9;4;0;\x1b\\", "\x1b]2;pml\x1b\\",
	}
	if diff := cmp.Diff(want, h.sent); diff != "" {
		t.Error(diff)
	}
}

// TestTitle_Names: title and notification say which run waits, and no more of its name
// than there is room for.
func TestTitle_Names(t *testing.T) {
	t.Parallel()
	at := began.Add(time.Minute)
	a := core.Approval{Type: core.ApproveTool, Tool: "std:fetch", RunName: "tidy\x1b]0;" + strings.Repeat("x", 100), ExpiresAt: &at}
	name := `tidy\x1b]0;` + strings.Repeat("x", 28) + "…"
	if got := titleOf([]core.Approval{a}, began); got != "pml 1! 1:00 "+name {
		t.Error(got)
	}
	if got := messageOf([]core.Approval{a}, began); got != "tool perm: std:fetch ("+name+"), expires in 1:00" {
		t.Error(got)
	}
}

func TestActivity_Every(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) *time.Time { at := began.Add(d); return &at }
	tests := []struct {
		name string
		a    activity
		said time.Time
		want time.Duration
	}{
		{"Nothing", activity{}, time.Time{}, 0},
		{"Said", activity{}, began.Add(-time.Second), time.Second},
		{"SaidLongAgo", activity{}, began.Add(-time.Minute), 0},
		{"Waits", activity{waiting: true}, time.Time{}, time.Second},
		{"Expires", activity{waiting: true, soonest: in(21 * time.Second)}, time.Time{}, time.Second},
		{"LastSeconds", activity{waiting: true, soonest: in(20 * time.Second)}, time.Time{}, 250 * time.Millisecond},
		{"Runs", activity{moving: 1}, time.Time{}, time.Second},
		{"Lost", activity{stale: true}, time.Time{}, time.Second},
	}
	for _, tt := range tests {
		if got := tt.a.every(began, tt.said); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestModel_Ticks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	live := func(s *state.State) {
		s.SetLink(core.SideClient, state.Link{State: state.LinkLive})
		s.SetLink(core.SideServer, state.Link{State: state.LinkNone})
	}
	h.learn(live)
	h.tick(time.Hour)
	if h.ticks = nil; h.m.ticking {
		t.Fatal("ticks although nothing moves")
	}
	h.send(tea.KeyMsg{Type: tea.KeyDown})
	if len(h.ticks) != 0 {
		t.Error("a key makes ticks")
	}
	h.learn(func(s *state.State) { s.PutApprovals(h.approval(22 * time.Second)) })
	h.learn(func(*state.State) {})
	if diff := cmp.Diff([]time.Duration{time.Second}, h.ticks); diff != "" {
		t.Errorf("one tick at a time: %s", diff)
	}
	h.tick(time.Second)
	h.tick(time.Second)
	if got := h.ticks[len(h.ticks)-1]; got != 250*time.Millisecond {
		t.Errorf("in the last seconds: %v", got)
	}
	h.tick(20 * time.Second) // expired
	if h.m.ticking {
		t.Errorf("ticks after the expiry: %v", h.ticks)
	}
}

func TestModel_DrawsWhatChanged(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.learn(loaded)
	same := func(name string, want bool, do func()) {
		h.m.frame.text = "the frame before"
		do()
		if got := h.m.View() == "the frame before"; got != want {
			t.Errorf("%s: the frame is the one before: %v, want %v", name, got, want)
		}
	}
	same("nothing", true, func() { h.send(nil) })
	same("a part of a second", true, func() { h.tick(200 * time.Millisecond) })
	same("a second", false, func() { h.tick(time.Second) })
	same("a key", false, func() { h.send(tea.KeyMsg{Type: tea.KeyDown}) })
	same("a click", false, func() { h.send(tea.MouseMsg{Button: tea.MouseButtonLeft, Action: tea.MouseActionPress}) })
	same("a motion", true, func() { h.send(tea.MouseMsg{Action: tea.MouseActionMotion}) })
	same("news", false, func() { h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunRunning)) }) })
	same("a size", false, func() { h.send(tea.WindowSizeMsg{Width: 80, Height: 24}) })
	same("a message", false, func() { h.m.say(screen.Note, "x", h.clock.Now()) })
	if n := strings.Count(h.m.View(), "\n"); n != 23 {
		t.Errorf("%d lines at 80x24", n+1)
	}
}

func TestModel_Panics(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.learn(func(*state.State) { panic(errors.New("boom\x1b[2J")) })
	h.want(screen.AskRule{Approval: core.Approval{}})
	h.m.o.Backend = nil // whoever uses it panics
	h.want(screen.AskRule{})
	if len(h.crashes) != 2 || !h.quit {
		t.Fatalf("%d crashes, quit %v", len(h.crashes), h.quit)
	}
	if c := h.crashes[0]; c.value != `boom\x1b[2J` || !strings.Contains(c.stack, "TestModel_Panics") {
		t.Errorf("%q\n%s", c.value, c.stack)
	}
	h.crashes = nil
	h.m.screen = nil
	h.m.touched++
	if h.m.View(); len(h.crashes) != 1 {
		t.Error("a panic in View is not caught")
	}
}

func TestModel_Init(t *testing.T) {
	t.Parallel()
	warnings := make(chan string, 2)
	h := newHarness(t, func(o *Options) { o.Warnings = warnings })
	warnings <- "the disk is full\x1b[2J"
	close(warnings)
	h.backend.needPin = true
	for _, msg := range h.run(h.m.Init()) {
		h.send(msg)
	}
	h.shows(`the disk is full\x1b[2J`)
}

func TestModel_Wants(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.learn(func(s *state.State) { s.PutRuns(h.run1(core.RunRunning)); s.SetLoaded() })
	h.learn(func(*state.State) {})
	if len(h.feed.wanted) != 1 || len(h.feed.wanted[0]) == 0 || h.feed.wanted[0][0] != runA {
		t.Errorf("wanted %v, want the run in view, once", h.feed.wanted)
	}
}
