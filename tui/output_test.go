package tui

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/casys-ai/pml/tui/state"
)

// sheet is a file in the place of a terminal.
func sheet(t *testing.T) (o *output, written func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	seen := 0
	return &output{file: f, fd: f.Fd()}, func() string {
		t.Helper()
		all, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := string(all[seen:])
		seen = len(all)
		return text
	}
}

func sequences(t *testing.T, o *output, all ...string) {
	t.Helper()
	for _, s := range all {
		if n, err := o.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("%q: %d, %v", s, n, err)
		}
	}
}

const enter, leave = ansi.SetAltScreenSaveCursorMode, ansi.ResetAltScreenSaveCursorMode

// TestOutput_Draw: what is written of a frame is what is not on the screen, and
// nothing where there is no screen.
func TestOutput_Draw(t *testing.T) {
	t.Parallel()
	o, written := sheet(t)
	wants := func(what, want string) {
		t.Helper()
		if got := written(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	o.draw("a\nb")
	wants("before the screen is there", "")
	sequences(t, o, enter, ansi.EraseEntireScreen, ansi.CursorHomePosition)
	wants("sequences", enter+ansi.EraseEntireScreen+ansi.CursorHomePosition)
	o.draw("a\nb\nc")
	wants("all of it", "\x1b[1;1Ha\x1b[2;1Hb\x1b[3;1Hc")
	sequences(t, o, ansi.CursorHomePosition+"\r-"+ansi.EraseLineRight)
	wants("a frame of the library", "")
	o.draw("a\nB\nc")
	wants("a line", "\x1b[2;1HB")
	o.draw("a\nB\nc")
	wants("nothing new", "")
	o.draw("a")
	wants("fewer lines", "\x1b[2;1H"+ansi.EraseScreenBelow)
	o.draw("a\nx")
	wants("more lines", "\x1b[2;1Hx")
	sequences(t, o, ansi.EraseEntireScreen)
	written()
	o.draw("a\nx")
	wants("after the screen was erased", "\x1b[1;1Ha\x1b[2;1Hx")
	o.forget()
	o.draw("a\nx")
	wants("what is not known", "\x1b[1;1Ha\x1b[2;1Hx")
	o.synchronized = true
	o.draw("a\ny")
	wants("synchronized", ansi.SetSynchronizedOutputMode+"\x1b[2;1Hy"+ansi.ResetSynchronizedOutputMode)
	sequences(t, o, leave)
	written()
	o.draw("z\nz")
	wants("while another program has the terminal", "")
	sequences(t, o, enter)
	written()
	o.synchronized = false
	o.draw("a\ny")
	wants("when it is back", "\x1b[1;1Ha\x1b[2;1Hy")
}

// TestPainter: a frame is written at once for a key, and put off while keys or
// news come in floods.
func TestPainter(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	o, written := sheet(t)
	sequences(t, o, enter)
	p := newPainter(h.m, o)
	var put []time.Duration
	p.put = func(d time.Duration, msg tea.Msg) tea.Cmd {
		if _, ok := msg.(drawMsg); !ok {
			t.Errorf("%T", msg)
		}
		put = append(put, d)
		return nil
	}
	draws := func(msg tea.Msg) bool {
		written()
		p.Update(msg)
		p.View()
		return written() != ""
	}
	help, esc := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("?")}, tea.KeyMsg{Type: tea.KeyEscape}
	news := changeMsg{func(*state.State) {}}
	if p.View(); written() != enter {
		t.Error("a frame of a size that is not known")
	}
	if !draws(tea.WindowSizeMsg{Width: 80, Height: 24}) {
		t.Error("no first frame")
	}
	h.clock.move(keyGap)
	if !draws(help) || len(put) != 0 {
		t.Error("a key has to wait")
	}
	if draws(esc) || len(put) != 1 || put[0] != keyGap {
		t.Errorf("keys in a flood: put off %v", put)
	}
	if draws(help) || draws(esc) || len(put) != 1 {
		t.Errorf("more of them: put off %v", put)
	}
	if !draws(drawMsg{}) {
		t.Error("what was put off does not come")
	}
	put = nil
	h.clock.move(newsGap / 2)
	p.touched++
	if draws(news) || len(put) != 1 || put[0] != newsGap/2 {
		t.Errorf("news: put off %v", put)
	}
	if !draws(help) {
		t.Error("a key waits for the news")
	}
}
