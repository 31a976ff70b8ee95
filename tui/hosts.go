package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/tui/screen"
)

// hostsEvery is how often the hosts that are connected are read while their panel is
// on the screen: there are no events for them.
const hostsEvery = 2 * time.Second

// lookout is when something was looked for last.
type lookout struct {
	at     time.Time
	asking bool
}

// due reports whether it is time to look again: at once when it is shown, and never
// while it is not.
func (l *lookout) due(shown bool, every time.Duration, now time.Time) bool {
	if !shown {
		l.at = time.Time{}
	}
	return shown && !l.asking && now.Sub(l.at) >= every
}

// lookForHosts reads which hosts are connected, at once when their panel is shown.
func (m *model) lookForHosts(now time.Time) tea.Cmd {
	if m.o.Machine == nil || !m.hosts.due(m.screen.Shows(screen.PanelHosts), hostsEvery, now) {
		return nil
	}
	m.hosts = lookout{at: now, asking: true}
	return m.effect(func(ctx context.Context) then {
		list, err := m.o.Machine.ConnectedHosts(ctx)
		return func(m *model, _ time.Time) tea.Cmd {
			m.hosts.asking = false
			m.screen.ShowHosts(list, err)
			return nil
		}
	})
}
