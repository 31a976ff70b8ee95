package screen

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// styling is all that a theme may send to the terminal besides text.
var styling = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// foreign are texts that somebody else chose.
func foreign() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "gh:create_release", "\x1b[2J\x1b]0;title\x07", "a\r\nb\tc", "\u202egnp.exe", "日本語の名前", "e\u0301\u0301\u0301", "👩‍👩‍👧‍👦🏳️‍🌈",
			"\xff\xfe\xc0", "\u200b\u2060\ufeff", strings.Repeat("long ", 200), "\x9b31m", "\U000e0041", "ﷺ", "a\u0300\u0301", "\u1100\u1161\u11a8",
		}),
		rapid.String(),
	)
}

// anyState is a state of random runs, approvals, events and links.
func anyState(t *rapid.T) *state.State {
	st := state.New(50)
	st.Loaded = rapid.Bool().Draw(t, "loaded")
	links := []state.LinkState{state.LinkNone, state.LinkConnecting, state.LinkLive, state.LinkLost, ""}
	for _, l := range []*state.Link{&st.Links.Client, &st.Links.Server} {
		l.State, l.Name, l.Err = rapid.SampledFrom(links).Draw(t, "link"), foreign().Draw(t, "name"), foreign().Draw(t, "err")
		l.Since, l.AsOf = anyTime(t), anyTime(t)
	}
	if rapid.Bool().Draw(t, "warned") {
		st.Warnings = []string{foreign().Draw(t, "warning")}
	}
	ids := make([]core.ID, rapid.IntRange(0, 6).Draw(t, "runs"))
	for i := range ids {
		ids[i] = core.ID(fmt.Sprintf("%08x-0000-4000-8000-%012d", i*7919, i))
		st.PutWorkflow(anyWorkflow(t, ids[i]))
	}
	ids = append(ids, "unknown")
	for i := range rapid.IntRange(0, 6).Draw(t, "approvals") {
		st.PutApprovals(anyApproval(t, i, rapid.SampledFrom(ids).Draw(t, "of")))
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "events") {
		st.AddEvents(core.Event{
			Seq: int64(i + 1), Side: rapid.SampledFrom([]core.Side{core.SideClient, core.SideServer}).Draw(t, "side"),
			Type: rapid.SampledFrom(append([]core.EventType{"new\x1b[m"}, core.EventTypes...)).Draw(t, "type"), At: anyTime(t),
			RunID: rapid.SampledFrom(ids).Draw(t, "run"), TaskID: foreign().Draw(t, "task"), Message: foreign().Draw(t, "message"),
		})
	}
	if rapid.Bool().Draw(t, "gap") {
		st.AddGap(state.Gap{Side: core.SideServer, At: anyTime(t), Away: time.Hour, Seq: 3})
	}
	row := core.AuditRow{Seq: 1, At: anyTime(t), Tool: foreign().Draw(t, "tool"), Reason: foreign().Draw(t, "reason"), Outcome: "odd\x07", By: core.Actor{Who: foreign().Draw(t, "who")}}
	st.SetAudit([]core.AuditRow{row})
	return st
}

func anyTime(t *rapid.T) time.Time {
	return fixtureNow.Add(time.Duration(rapid.IntRange(-100_000, 100_000).Draw(t, "at")) * time.Second)
}

func anyWorkflow(t *rapid.T, id core.ID) core.Workflow {
	r := core.Run{
		ID: id, Side: core.SideClient, Kind: core.KindDAG, State: rapid.SampledFrom(append([]core.RunState{"odd"}, core.RunStates...)).Draw(t, "state"),
		Intent: foreign().Draw(t, "intent"), CreatedAt: anyTime(t), UpdatedAt: anyTime(t), TotalLayers: rapid.IntRange(-1, 9).Draw(t, "layers"),
		CurrentLayer: rapid.IntRange(-1, 9).Draw(t, "layer"),
	}
	if rapid.Bool().Draw(t, "failed") {
		r.Error = &core.Error{Code: core.CodeInternal, Message: foreign().Draw(t, "error")}
	}
	w := core.Workflow{Run: r}
	states := []core.TaskState{core.TaskQueued, core.TaskRunning, core.TaskWaiting, core.TaskSuccess, core.TaskError, core.TaskFailedSafe, core.TaskSkipped, "odd"}
	for i := range rapid.IntRange(0, 3).Draw(t, "depth") {
		l := core.Layer{Index: i}
		for j := range rapid.IntRange(0, 3).Draw(t, "breadth") {
			l.Tasks = append(l.Tasks, core.Task{
				ID: foreign().Draw(t, "id") + itoa(j), Tool: foreign().Draw(t, "tool"), State: rapid.SampledFrom(states).Draw(t, "task"), Layer: i,
				Arguments: raw(map[string]string{"a": foreign().Draw(t, "arg")}), Output: raw(foreign().Draw(t, "output")),
				Predicted: rapid.Bool().Draw(t, "predicted"),
			})
		}
		w.Layers = append(w.Layers, l)
	}
	return w
}

func anyApproval(t *rapid.T, i int, run core.ID) core.Approval {
	types := []core.ApprovalType{
		core.ApproveDependency, core.ApproveKeys, core.ApproveIntegrity, core.ApproveTool, core.ApproveOAuth, core.ApproveLayer, core.ApproveInDoubt, core.ApproveHook, "odd\x1b",
	}
	a := fixtureApprovals()[rapid.IntRange(0, 7).Draw(t, "like")]
	a.ID, a.RunID = core.ID(fmt.Sprintf("b%07x-0000-4000-8000-000000000000", i)), run
	if rapid.Bool().Draw(t, "mixed") { // a context that is of another type
		a.Type = rapid.SampledFrom(types).Draw(t, "type")
	}
	a.Tool, a.Subject, a.Description = foreign().Draw(t, "tool"), foreign().Draw(t, "subject"), foreign().Draw(t, "description")
	if rapid.Bool().Draw(t, "foreign") {
		a.Context = raw(map[string]any{"arguments": map[string]string{foreign().Draw(t, "key"): foreign().Draw(t, "value")}, "changed": []string{foreign().Draw(t, "line")}})
	}
	if rapid.Bool().Draw(t, "expires") {
		at := anyTime(t)
		a.ExpiresAt = &at
	}
	if rapid.Bool().Draw(t, "decided") {
		a.State, a.DecidedBy = core.ApprovalDenied, &core.DecidedBy{Actor: core.Actor{Who: foreign().Draw(t, "who"), Via: core.ViaCLI}, At: anyTime(t), Reason: foreign().Draw(t, "why")}
	}
	return a
}

// anyKey is a key press: one that means something, one that types, or a paste.
func anyKey(m *keys.Map) *rapid.Generator[keys.Key] {
	var bound []keys.Key
	for _, act := range keys.All() {
		for _, name := range m.Keys(act) {
			k := keys.Key{Name: name}
			if len(name) == 1 {
				k.Text = name
			}
			bound = append(bound, k)
		}
	}
	bound = append(bound, keys.Key{Name: "space", Text: " "}, keys.Key{Name: "y", Text: "y"}, keys.Key{Name: "backspace"})
	return rapid.OneOf(
		rapid.SampledFrom(bound),
		rapid.Custom(func(t *rapid.T) keys.Key { return keys.Key{Paste: true, Text: foreign().Draw(t, "paste")} }),
	)
}

// TestProperties_Frame presses random keys in a random state and window: each
// frame has exactly its size and no control byte but styling, and is the same
// when it is drawn again, and when the same is done to another screen.
func TestProperties_Frame(t *testing.T) {
	t.Parallel()
	m := newKeys(t)
	themes := []*paint.Theme{
		paint.NewTheme(paint.Ansi, paint.Dumb, true), paint.NewTheme(paint.Ansi, paint.NoColor, false), paint.NewTheme(paint.Dark, paint.TrueColor, false),
	}
	rapid.Check(t, func(t *rapid.T) {
		st := anyState(t)
		o := Options{State: st, Keys: m, Theme: rapid.SampledFrom(themes).Draw(t, "theme"), Version: foreign().Draw(t, "version"), Workspace: foreign().Draw(t, "workspace"), Confirm: true}
		one, two := New(o), New(o)
		w, h := rapid.IntRange(1, 200).Draw(t, "w"), rapid.IntRange(1, 60).Draw(t, "h")
		one.Resize(w, h)
		two.Resize(w, h)
		now := fixtureNow
		for range rapid.IntRange(0, 12).Draw(t, "presses") {
			k := anyKey(m).Draw(t, "key")
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "ms")) * time.Millisecond)
			one.Key(k, now)
			two.Key(k, now)
			frame := one.View(now)
			checkStyled(t, frame, w, h)
			if again := one.View(now); again != frame {
				t.Fatalf("drawn again it is another frame:\n%s\n%s", frame, again)
			}
			if other := two.View(now); other != frame {
				t.Fatalf("the same keys give another frame:\n%s\n%s", frame, other)
			}
		}
		one.Mouse(rapid.IntRange(-1, 200).Draw(t, "x"), rapid.IntRange(-1, 60).Draw(t, "y"), rapid.SampledFrom([]Button{Click, WheelUp, WheelDown}).Draw(t, "button"), now)
		checkStyled(t, one.View(now), w, h)
	})
}

// checkStyled is checkFrame for a frame with styling.
func checkStyled(t *rapid.T, frame string, w, h int) {
	lines := strings.Split(styling.ReplaceAllString(frame, ""), "\n")
	if len(lines) != h {
		t.Fatalf("%d lines in a window of %dx%d", len(lines), w, h)
	}
	for y, line := range lines {
		if got := paint.Width(line); got != w {
			t.Fatalf("line %d is %d columns wide in a window of %dx%d: %q", y, got, w, h, line)
		}
		for _, r := range line {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e {
				t.Fatalf("control character %q in line %d: %q", r, y, line)
			}
		}
	}
}

// TestProperties_NoDecision presses keys that are pressed without looking, and
// pastes: nothing is ever decided or ended by that.
func TestProperties_NoDecision(t *testing.T) {
	t.Parallel()
	m := newKeys(t)
	blind := []string{"enter", "space", "esc", "tab", "shift+tab", "up", "down", "left", "right", "pgup", "pgdown", "home", "end", "1", "2", "3", "4", "5", "6"}
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{State: fixtureState(), Keys: m, Theme: paint.NewTheme(paint.Ansi, paint.Dumb, false), Confirm: true})
		s.Resize(rapid.SampledFrom([]int{40, 80, 160}).Draw(t, "w"), 45)
		now := fixtureNow
		for range rapid.IntRange(1, 30).Draw(t, "presses") {
			k := keys.Key{Name: rapid.SampledFrom(blind).Draw(t, "key")}
			if rapid.IntRange(0, 4).Draw(t, "paste") == 0 {
				k = keys.Key{Paste: true, Text: rapid.SampledFrom([]string{"a", "y", "d", "x\n", "9f04", "a\ry"}).Draw(t, "text")}
			}
			now = now.Add(time.Second)
			s.View(now)
			for _, i := range s.Key(k, now) {
				switch i.(type) {
				case Decide, Remember, Abort, Extend, Renew, Retry, Continue, Command:
					t.Fatalf("%v came of %+v", i, k)
				}
			}
		}
	})
}

// TestSecret_NotShown types a PIN: no frame has it.
func TestSecret_NotShown(t *testing.T) {
	t.Parallel()
	for _, size := range goldenSizes {
		s := newScreen(t, fixtureState(), size[0], size[1])
		s.NeedPin(true)
		press(s, "2", "j", "a")
		now := fixtureNow
		key := func(k keys.Key) {
			now = now.Add(time.Second) // a card that just opened decides nothing
			s.Plain(now)
			s.Key(k, now)
		}
		for range 40 { // to the end of what has to be read
			key(keys.Key{Name: "pgdown"})
		}
		key(keys.Key{Name: "a"})
		key(keys.Key{Name: "enter"})
		for _, r := range fixtureSecret {
			key(keys.Key{Name: string(r), Text: string(r)})
		}
		frame := s.Plain(now)
		if strings.Contains(frame, fixtureSecret) || strings.Contains(frame, "hunter2") {
			t.Errorf("the PIN is on the screen:\n%s", frame)
		}
		if !strings.Contains(frame, "****") {
			t.Errorf("no PIN was asked for at %v:\n%s", size, frame)
		}
	}
}
