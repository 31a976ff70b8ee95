package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// asksKeys is a harness with an approval for a key, and how often it was looked
// for by now.
func asksKeys(t *testing.T) (h *harness, asked func() int) {
	t.Helper()
	h = newHarness(t, nil)
	a := h.approval(time.Hour)
	h.send(tea.WindowSizeMsg{Width: 80, Height: 24}) // one panel at a time
	a.Type, a.Workspace, a.Context = core.ApproveKeys, "/src/shop", []byte(`{"missing_keys":["TAVILY_API_KEY"]}`)
	h.backend.keys = []string{}
	h.learn(func(s *state.State) {
		s.PutRuns(h.run1(core.RunWaiting))
		s.PutApprovals(a)
		loaded(s)
	})
	return h, func() (n int) {
		for _, call := range h.backend.calls {
			if call == "keys "+askA.Short() {
				n++
			}
		}
		return n
	}
}

// letter is the press of a key with a letter.
func letter(s string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(s)} }

// TestModel_KeysFound: while the approval is on the screen keys are looked for
// at once and every 2 s, and the card says so.
func TestModel_KeysFound(t *testing.T) {
	t.Parallel()
	h, asked := asksKeys(t)
	h.send(letter("2"))
	h.send(tea.KeyMsg{Type: tea.KeyEnter})
	h.shows("found  TAVILY_API_KEY: no, watching .env of /src/shop")
	if asked() != 1 {
		t.Errorf("looked %d times at once", asked())
	}
	h.backend.keys = []string{"TAVILY_API_KEY"}
	h.tick(time.Second)
	if asked() != 1 {
		t.Errorf("looked %d times within a second", asked())
	}
	h.tick(time.Second)
	h.shows("found  TAVILY_API_KEY: yes")
	h.backend.err = errors.New("cannot read it")
	h.tick(2 * time.Second)
	h.shows("found  TAVILY_API_KEY: yes")
	if asked() != 3 {
		t.Errorf("looked %d times in 4 s", asked())
	}
	h.send(tea.KeyMsg{Type: tea.KeyEscape})
	h.send(letter("3"))
	h.send(letter("z"))
	h.tick(10 * time.Second)
	if asked() != 3 {
		t.Errorf("looked for keys that are not on the screen, %d times", asked()-3)
	}
}

// TestModel_KeysFound_Slow: nothing is looked for twice at a time.
func TestModel_KeysFound_Slow(t *testing.T) {
	t.Parallel()
	h, asked := asksKeys(t)
	h.hold = true
	h.send(letter("2"))
	h.send(tea.KeyMsg{Type: tea.KeyEnter})
	h.tick(10 * time.Second)
	h.tick(10 * time.Second)
	h.release()
	if asked() != 2 { // the first one, and the next as soon as that was told
		t.Errorf("looked %d times", asked())
	}
	h.shows("found  TAVILY_API_KEY: no")
}

// TestModel_KeysFound_Nobody: where this machine cannot tell, nothing is said.
func TestModel_KeysFound_Nobody(t *testing.T) {
	t.Parallel()
	h, asked := asksKeys(t)
	h.backend.keys = nil
	h.send(letter("2"))
	h.send(tea.KeyMsg{Type: tea.KeyEnter})
	if asked() == 0 {
		t.Error("nothing was looked for")
	}
	if got := h.m.screen.Plain(h.clock.Now()); strings.Contains(got, "found  ") {
		t.Errorf("something is said:\n%s", got)
	}
}
