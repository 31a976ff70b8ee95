package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
)

// keysEvery is how often keys are looked for that an approval on the screen asks
// for. An approval that waits has ticks anyway: there are none for this.
const keysEvery = 2 * time.Second

// watched is what was looked for last.
type watched struct {
	id     core.ID
	at     time.Time
	asking bool
}

// lookForKeys looks for the keys of the approval on the screen, at once when it
// is another one. What cannot be found out is not told: deciding will say why.
func (m *model) lookForKeys(now time.Time) tea.Cmd {
	id := m.screen.WatchedKeys(now)
	w := &m.watched
	if id == "" {
		w.id = ""
		return nil
	}
	if w.asking || id == w.id && now.Sub(w.at) < keysEvery {
		return nil
	}
	*w = watched{id: id, at: now, asking: true}
	return m.effect(func(ctx context.Context) then {
		names, err := m.o.Backend.KeysFound(ctx, id)
		return func(m *model, _ time.Time) tea.Cmd {
			m.watched.asking = false
			if err == nil {
				m.screen.KeysFound(id, names)
			}
			return nil
		}
	})
}
