package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// How often the screen is drawn while nothing but time goes on: each second,
// and a little faster when the last seconds of an approval are counted.
const (
	slowTick = time.Second
	fastTick = 250 * time.Millisecond
	// flashTime is how long a message may be on screen: until then there are ticks,
	// so that it goes away.
	flashTime = 7 * time.Second
)

// tickMsg says that time has gone on.
type tickMsg struct{}

// activity is what of a state changes on the screen as time goes on.
type activity struct {
	soonest *time.Time // the next expiry of an open approval
	waiting bool       // approvals: their age and TTL
	moving  int        // runs that go on: their age
	stale   bool       // a half that is looked for: its age
}

// activityOf looks at a state.
func activityOf(s *state.State, waiting []core.Approval) activity {
	a := activity{waiting: len(waiting) > 0, moving: s.CountRuns(core.RunRunning)}
	if len(waiting) > 0 {
		a.soonest = waiting[0].ExpiresAt
	}
	for _, l := range []state.Link{s.Links.Client, s.Links.Server} {
		if l.State == state.LinkConnecting || l.State == state.LinkLost {
			a.stale = true
		}
	}
	return a
}

// every is how often to draw; 0 means that nothing moves.
func (a activity) every(now, said time.Time) time.Duration {
	switch {
	case a.soonest != nil && a.soonest.Sub(now) <= lastBefore:
		return fastTick
	case a.waiting, a.moving > 0, a.stale, now.Sub(said) < flashTime:
		return slowTick
	}
	return 0
}

// after is a message after a time, or when the program ends.
func after(ctx context.Context, d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return msg
	}
}
