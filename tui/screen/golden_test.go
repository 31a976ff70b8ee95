package screen

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// update rewrites the golden files with what is drawn now.
var update = flag.Bool("update", false, "rewrite the golden files")

// windowSizes are one of each mode but the tiny one; goldenSizes are those in which
// every screen is kept as a file: one panel, and the dashboard.
var (
	windowSizes = [][2]int{{40, 10}, {60, 15}, {80, 24}, {100, 30}, {160, 45}}
	goldenSizes = [][2]int{{80, 24}, {160, 45}}
)

// viewState is what every panel is looked at with. Keys are pressed after the panel
// has the focus.
type viewState struct {
	name  string
	state func() *state.State
	keys  []string
}

// goldenStates differ in how they are laid out: each is a file.
var goldenStates = []viewState{
	{"normal", fixtureState, nil},
	{"overflow", func() *state.State { return overflowState("a-name-that-is-much-too-long-for-any-column-of-any-table") }, nil},
	{"wide", func() *state.State { return overflowState("日本語の名前 café naïve") }, nil},
}

// wordStates differ in what they say: TestView_Words looks for that. header is what
// stands above every panel, small what a window too small for panels says.
var wordStates = []struct {
	viewState
	header, small []string
}{
	{viewState{"empty", emptyState, nil}, []string{"nothing is waiting for you", "● local  ● server https://pml.acme.example"}, []string{"Nothing is waiting.", "needs"}},
	{viewState{"loading", loadingState, nil}, []string{"reading what there is", "○ local connecting  ○ server connecting"}, []string{"Reading what there is.", "○ local connecting"}},
	{viewState{"stale", staleState, nil}, []string{"! 8 waiting, 1 expired, next 0:48", "● local  ○ server lost 12s, looking again"}, []string{"8 waiting", "○ server lost 12s, looking again"}},
	{viewState{"error", errorState, nil}, []string{"reading what there is", "○ local lost 0s, looking again", "! workflows of this machine cannot be read: pending.db is of a newer pml"}, []string{"Reading what there is.", "○ local lost 0s, looking again"}},
	{viewState{"nohits", fixtureState, []string{"/", `"nosuchthing"`, "enter"}}, []string{"! 8 waiting, 1 expired, next 0:48"}, []string{"8 waiting"}},
}

// panelWords are what the panels say in these states, in their order.
var panelWords = [panels][][]string{
	PanelWorkflows: {
		{"Nothing has run yet.", "pml init"}, {"Reading the runs.", "not read yet  0"}, {"server stale, as of 14:02:17  13"},
		{"✗ cannot read the runs: pending.db is of a newer pml. It is tried again", "itself; pml doctor says more.", "not read yet  0"},
		{"0 of 13 match nosuchthing. esc clears the filter.", "0 of 13  sort age"},
	},
	PanelApprovals: {
		{"Nothing is waiting. You will get a bell and a banner.", "0 waiting"}, {"Reading the approvals.", "not read yet  0 waiting"}, {"server stale, as of 14:02:17  8 waiting"},
		{"✗ cannot read the approvals: pending.db is of a newer pml. It is tried again", "not read yet  0 waiting"}, {"0 of 8 match nosuchthing. esc clears the filter."},
	},
	PanelDAG: {
		{"No run is selected. 1 goes to the list."}, {"reading the layers…"}, {"release-notes"}, {"reading the layers…"}, {"no task has nosuchthing"},
	},
	PanelTask: {
		{"No task is selected. 3 goes to the DAG, enter opens a task."}, {"No task is selected."}, {"gh:create_release"}, {"No task is selected."}, {"/ nosuchthing   no match"},
	},
	PanelEvents: {
		{"No events yet. They show up here as runs go on.", "following  0 seen"}, {"Reading the events.", "not read yet  following  0 seen"}, {"server stale, as of 14:02:17  following  10 seen"},
		{"Reading the events.", "not read yet  following  0 seen"}, {"0 of 10 match nosuchthing. esc clears the filter."},
	},
	PanelServers: {{"Reading the servers."}, {"Reading the servers."}, {"Reading the servers."}, {"Reading the servers."}, {"Reading the servers."}},
	PanelFlows:   {{"Reading the flows."}, {"Reading the flows."}, {"Reading the flows."}, {"Reading the flows."}, {"Reading the flows."}},
	PanelHosts: {
		{"None is connected, and", "enter runs pml init"}, {"None is connected, and"}, {"claude-code (ada)", "WAITS FOR"}, {"None is connected, and"}, {"claude-code (ada)"},
	},
	PanelAudit: {
		{"No decisions yet: who approved and denied what is kept here.", "0 rows"}, {"Reading the audit log.", "not read yet  0 rows"}, {"server stale, as of 14:02:17  4 rows"},
		{"Reading the audit log.", "not read yet  0 rows"}, {"0 of 4 match nosuchthing. esc clears the filter.", "0 of 4 rows  / nosuchthing"},
	},
}

var panelNames = [panels]string{"workflows", "approvals", "dag", "task", "events", "audit", "servers", "hosts", "flows"}

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

// frameOf is what a panel with the focus looks like.
func frameOf(t *testing.T, id int, look viewState, size [2]int) string {
	t.Helper()
	s := newScreen(t, look.state(), size[0], size[1])
	press(s, strconv.Itoa(id+1))
	if _, known := s.o.State.Run(runNotes); known && (PanelID(id) == PanelDAG || PanelID(id) == PanelTask) {
		s.sel.Run, s.sel.Task = runNotes, fixtureTask(s.o.State)
	}
	s.Plain(fixtureNow)
	press(s, look.keys...)
	frame := s.Plain(fixtureNow)
	checkFrame(t, frame, size[0], size[1])
	return frame
}

// TestView looks at every panel, in every size; in two of them, and the first panel in
// all, at each cell.
func TestView(t *testing.T) {
	t.Parallel()
	for id, panel := range panelNames {
		for _, look := range goldenStates {
			for _, size := range windowSizes {
				name := fmt.Sprintf("%s/%s_%dx%d", panel, look.name, size[0], size[1])
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					frame := frameOf(t, id, look, size)
					if slices.Contains(goldenSizes, size) || id == 0 && look.name == "normal" {
						checkGolden(t, name+".txt", frame)
					}
				})
			}
		}
	}
}

// TestView_Words looks for what every panel says when there is nothing to show, or
// what it shows is old, in every size; how that is laid out TestView looks at.
func TestView_Words(t *testing.T) {
	t.Parallel()
	for id, panel := range panelNames {
		for i, look := range wordStates {
			for _, size := range windowSizes {
				t.Run(fmt.Sprintf("%s/%s_%dx%d", panel, look.name, size[0], size[1]), func(t *testing.T) {
					t.Parallel()
					frame := frameOf(t, id, look.viewState, size)
					switch size {
					case [2]int{40, 10}:
						wantWords(t, frame, look.small...)
					case [2]int{80, 24}: // no sentence is broken or cut
						wantWords(t, frame, look.header...)
						wantWords(t, frame, panelWords[id][i]...)
					}
				})
			}
		}
	}
}

func wantWords(t *testing.T, frame string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(frame, w) {
			t.Errorf("%q is not in\n%s", w, frame)
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

// overlaySizes are a window that an overlay takes all of, and one with room beside it.
var overlaySizes = [][2]int{{60, 15}, {160, 45}}

// TestView_Overlays looks at what lies over the panels.
func TestView_Overlays(t *testing.T) {
	t.Parallel()
	for _, o := range goldenOverlays {
		for _, size := range windowSizes {
			name := fmt.Sprintf("overlay/%s_%dx%d", o.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newScreen(t, fixtureState(), size[0], size[1])
				s.Plain(fixtureNow)
				press(s, o.keys...)
				frame := s.Plain(fixtureNow)
				checkFrame(t, frame, size[0], size[1])
				if slices.Contains(overlaySizes, size) {
					checkGolden(t, name+".txt", frame)
				}
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

// TestView_Profiles looks at the same screens in colours; escapes are quoted. Every
// screen is a file in one profile, and one screen in every profile: elsewhere the
// escapes are those of the theme, and without them the cells are the same.
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
				if look == "approvals" || profile == "ansi16" {
					checkGolden(t, "profile/"+look+"_"+profile+".txt", b.String())
				}
				if got := styling.ReplaceAllString(s.View(fixtureNow), ""); got != s.Plain(fixtureNow) {
					t.Errorf("without escapes it is another text:\n%s", got)
				}
				for _, code := range styling.FindAllString(s.View(fixtureNow), -1) {
					switch {
					case profile == "dumb", (profile == "ascii" || profile == "nocolor") && !attributes.MatchString(code):
						t.Errorf("%q is not for this terminal", code)
					}
				}
			})
		}
	}
}

// attributes are escapes without a colour.
var attributes = regexp.MustCompile(`^\x1b\[(0|[147](;[147])*)m$`)
