package screen

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// update rewrites the golden files with what is drawn now.
var update = flag.Bool("update", false, "rewrite the golden files")

// goldenSizes are the windows that every screen is looked at in.
var goldenSizes = [][2]int{{40, 10}, {60, 15}, {80, 24}, {100, 30}, {160, 45}}

// goldenStates are what every panel is looked at with. Keys are pressed after
// the panel has the focus.
var goldenStates = []struct {
	name  string
	state func() *state.State
	keys  []string
}{
	{"normal", fixtureState, nil},
	{"empty", emptyState, nil},
	{"loading", loadingState, nil},
	{"stale", staleState, nil},
	{"error", errorState, nil},
	{"nohits", fixtureState, []string{"/", `"nosuchthing"`, "enter"}},
	{"overflow", func() *state.State { return overflowState("a-name-that-is-much-too-long-for-any-column-of-any-table") }, nil},
	{"wide", func() *state.State { return overflowState("日本語の名前 café naïve") }, nil},
}

var panelNames = [panels]string{"workflows", "approvals", "dag", "task", "events", "audit"}

// loadingState has not read anything yet.
func loadingState() *state.State {
	st := state.New(100)
	st.Links.Client.State, st.Links.Server.State = state.LinkConnecting, state.LinkConnecting
	st.Links.Client.Since, st.Links.Server.Since = ago(0), ago(0)
	return st
}

// errorState could never read anything.
func errorState() *state.State {
	st := state.New(100)
	st.Links.Client.State, st.Links.Client.Since, st.Links.Client.Err = state.LinkLost, ago(0), "pending.db is of a newer pml"
	st.Links.Server.State = state.LinkNone
	st.Warnings = []string{"workflows of this machine cannot be read: pending.db is of a newer pml"}
	return st
}

// fixtureTask is the second task in the second layer of release-notes: the one
// that waits.
func fixtureTask(st *state.State) string {
	w, _ := st.Workflow(runNotes)
	return w.Layers[1].Tasks[1].ID
}

// checkGolden compares a text with a golden file.
func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	path = filepath.Join("testdata", path)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./tui/screen -run %s -update makes it)", err, t.Name())
	}
	if string(want) != got {
		t.Errorf("%s is not what is drawn (look at both, then run with -update):\n%s", path, got)
	}
}

// checkFrame fails unless a frame has exactly the lines and columns of its
// window and no control character.
func checkFrame(t testing.TB, frame string, w, h int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) != h {
		t.Fatalf("%d lines in a window of %dx%d", len(lines), w, h)
	}
	for y, line := range lines {
		if got := paint.Width(line); got != w {
			t.Fatalf("line %d is %d columns wide in a window of %dx%d: %q", y, got, w, h, line)
		}
		for _, r := range line {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Fatalf("control character %q in line %d: %q", r, y, line)
			}
		}
	}
}

// TestView looks at every panel in every state and size.
func TestView(t *testing.T) {
	t.Parallel()
	for id, panel := range panelNames {
		for _, st := range goldenStates {
			for _, size := range goldenSizes {
				name := fmt.Sprintf("%s/%s_%dx%d", panel, st.name, size[0], size[1])
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := newScreen(t, st.state(), size[0], size[1])
					press(s, strconv.Itoa(id+1))
					if _, known := s.o.State.Run(runNotes); known && (PanelID(id) == PanelDAG || PanelID(id) == PanelTask) {
						s.sel.Run, s.sel.Task = runNotes, fixtureTask(s.o.State)
					}
					s.Plain(fixtureNow)
					press(s, st.keys...)
					frame := s.Plain(fixtureNow)
					checkFrame(t, frame, size[0], size[1])
					checkGolden(t, name+".txt", frame)
				})
			}
		}
	}
}

// overlays are what can lie over the panels, by the keys that open it.
var goldenOverlays = []struct {
	name string
	keys []string
}{
	{"help", []string{"?"}},
	{"help_search", []string{"?", `"copy"`}},
	{"palette", []string{":", `"approvals "`, "down"}},
	{"filter", []string{"/", `"status:nope"`}},
	{"quit", []string{"q"}},
	{"abort", []string{"x", `"too slow"`, "enter"}},
	{"zoom", []string{"z"}},
	{"marks", []string{"space", "j", "j", "v"}},
	{"json", []string{"5", "k", "enter"}},
}

// TestView_Overlays looks at what lies over the panels.
func TestView_Overlays(t *testing.T) {
	t.Parallel()
	for _, o := range goldenOverlays {
		for _, size := range goldenSizes {
			name := fmt.Sprintf("overlay/%s_%dx%d", o.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newScreen(t, fixtureState(), size[0], size[1])
				s.Plain(fixtureNow)
				press(s, o.keys...)
				frame := s.Plain(fixtureNow)
				checkFrame(t, frame, size[0], size[1])
				checkGolden(t, name+".txt", frame)
			})
		}
	}
}

// TestView_Tiny says what waits where there is no room for more.
func TestView_Tiny(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 70, 3)
	want := "pml: 8 waiting, next 0:48 (terminal 70x3, need 40x10)"
	if got := strings.TrimRight(strings.Split(s.Plain(fixtureNow), "\n")[0], " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestView_Profiles looks at the same screens in colours; escapes are quoted.
func TestView_Profiles(t *testing.T) {
	t.Parallel()
	themes := map[string]*paint.Theme{
		"dumb":            paint.NewTheme(paint.Ansi, paint.Dumb, false),
		"ascii":           paint.NewTheme(paint.Ansi, paint.NoColor, true),
		"nocolor":         paint.NewTheme(paint.Ansi, paint.NoColor, false),
		"ansi16":          paint.NewTheme(paint.Ansi, paint.Ansi16, false),
		"ansi16-light":    paint.NewTheme(paint.Light, paint.Ansi16, false),
		"truecolor-dark":  paint.NewTheme(paint.Dark, paint.TrueColor, false),
		"truecolor-light": paint.NewTheme(paint.Light, paint.TrueColor, false),
		"modus":           paint.NewTheme(paint.Modus, paint.TrueColor, false),
	}
	looks := map[string][]string{
		"workflows": {"1"}, "approvals": {"2"}, "card": {"2", "a"}, "dag": {"3"}, "task": {"4"}, "events": {"5"}, "audit": {"6"}, "help": {"?"},
	}
	for profile, theme := range themes {
		for look, names := range looks {
			t.Run(look+"/"+profile, func(t *testing.T) {
				t.Parallel()
				s := New(Options{State: fixtureState(), Keys: newKeys(t), Theme: theme, Version: "1.4.0", Workspace: "~/src/shop", Confirm: true})
				s.Resize(100, 30)
				s.Changed(ago(60e9))
				s.sel.Run, s.sel.Task = runNotes, fixtureTask(s.o.State)
				press(s, names...)
				s.View(fixtureNow)
				var b strings.Builder
				for line := range strings.SplitSeq(s.View(fixtureNow), "\n") {
					b.WriteString(strings.ReplaceAll(line, "\x1b", `\e`) + "\n")
				}
				checkGolden(t, "profile/"+look+"_"+profile+".txt", b.String())
			})
		}
	}
}
