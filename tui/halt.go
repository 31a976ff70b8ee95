package tui

import (
	"context"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/screen"
)

// halt halts all calls, or lets them go on: a person has been asked on this terminal. Where
// that needs the PIN it is pml resume that asks for it.
func (m *model) halt(i screen.Intent) tea.Cmd {
	return m.act(func(ctx context.Context) then {
		var err error
		what, done, level := "halt all calls", "all calls are halted: no run begins another one", screen.Note
		if _, ok := i.(screen.Resume); ok {
			what, done, level = "let calls go on", "calls go on again", screen.Good
			_, err = m.o.Backend.ResumeCalls(ctx, api.ResumeRequest{By: m.actor(), Presence: core.PresenceTerminal})
		} else {
			_, err = m.o.Backend.HaltCalls(ctx, m.actor(), "")
		}
		now, unsaid := m.o.Backend.Halts(ctx)
		return func(m *model, at time.Time) tea.Cmd {
			if unsaid == nil {
				m.state.SetHalts(now)
			}
			m.feed.Refresh() // runs stand otherwise now, and no event tells of it
			if err != nil {
				m.say(screen.Bad, problem(what, err), at)
				return nil
			}
			m.say(level, done, at)
			return nil
		}
	})
}

// untilResumed says of calls that a person has just approved that none starts before the halt
// ends, and how that ends it; empty where their half is not halted.
func untilResumed(m *model, list []core.Approval) string {
	halted := func(a core.Approval) bool {
		return slices.ContainsFunc(m.state.Halts, func(h core.Halt) bool { return h.Side == "" || h.Side == a.Side })
	}
	if !slices.ContainsFunc(list, halted) {
		return ""
	}
	return "; its call starts after the halt (" + keyFor(m, keys.Halt, "pml resume") + ", and " + keyFor(m, keys.Again, "pml continue") + " if its process is gone)"
}
