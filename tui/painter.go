package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// How long after a frame the next one may be written: at once, for all that a
// person did, unless keys come faster than anybody looks; later for news, which
// come in floods.
const (
	keyGap  = 4 * time.Millisecond
	newsGap = 40 * time.Millisecond
)

// libraryFPS is how often the library looks for a frame of its own to write. It
// has none.
const libraryFPS = 1

// drawMsg says that a frame that was put off may be written.
type drawMsg struct{}

// painter is the model as the library drives it. The library writes the newest
// frame some times a second, and what follows a key would wait for that; so it
// is given nothing to write, and frames are written here.
type painter struct {
	*model
	out *output
	// put has a message come after a time.
	put func(d time.Duration, msg tea.Msg) tea.Cmd

	sized bool      // the size of the window is known
	due   bool      // the next frame may be written
	drawn time.Time // when the last one was
	next  time.Time // when a drawMsg comes; zero: none is on its way
}

func newPainter(m *model, out *output) *painter {
	return &painter{model: m, out: out, put: func(d time.Duration, msg tea.Msg) tea.Cmd { return after(m.reading, d, msg) }}
}

// Update implements tea.Model.
func (p *painter) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	gap := keyGap
	switch msg.(type) {
	case drawMsg:
		p.due, p.next = true, time.Time{}
		return p, nil
	case tea.WindowSizeMsg:
		p.sized = true
		p.out.forget()
	case changeMsg, warningMsg:
		gap = newsGap
	}
	_, cmd := p.model.Update(msg)
	return p, tea.Batch(cmd, p.plan(gap))
}

// plan says when the next frame may be written: now, or with a message.
func (p *painter) plan(gap time.Duration) tea.Cmd {
	now := p.o.Clock.Now()
	wait := gap - now.Sub(p.drawn)
	switch at := now.Add(wait); {
	case wait <= 0 || p.drawn.IsZero():
		p.due = true
	case p.next.IsZero() || at.Before(p.next):
		p.next = at
		return p.put(wait, drawMsg{})
	}
	return nil
}

// View implements tea.Model: it writes the frame itself. The library gets a text
// that never changes.
func (p *painter) View() string {
	if p.due && p.sized {
		p.due, p.drawn = false, p.o.Clock.Now()
		if text := p.model.View(); text != "" {
			p.out.draw(text)
		}
	}
	return "-"
}
