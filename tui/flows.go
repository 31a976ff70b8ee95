package tui

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// Flows reads and changes the hook flows of the home and the workspace.
type Flows interface {
	// ReadFlows reads the flows and their runs. It starts nothing.
	ReadFlows(ctx context.Context) (state.Flows, error)
	// CallFlowRuns are the flow runs of one call of a run, newest first.
	CallFlowRuns(ctx context.Context, run core.ID, call string) ([]core.FlowRun, error)
	// TryFlow runs the text of a flow on a call that is not made, and keeps nothing of it.
	TryFlow(ctx context.Context, file state.FlowFile, text []byte, call state.FlowCall) (state.FlowTried, error)
	// SaveFlow writes a flow's file at once or not at all. It must still be what was read:
	// was; empty, and it must not be there.
	SaveFlow(ctx context.Context, file state.FlowFile, text, was []byte) error
	// EnableFlow enables or disables a flow. One that has faults is not enabled
	// (core.CodeInvalidConfig).
	EnableFlow(ctx context.Context, file state.FlowFile, enable bool) error
}

// loadFlows reads the flows and what they did. Who asks while it reads has it read once more
// afterwards: what they ask about may have happened since it began.
func (m *model) loadFlows() tea.Cmd {
	if m.o.Flows == nil {
		m.screen.ShowFlows(state.Flows{}, errors.New("this terminal has no flows of a machine"))
		return nil
	}
	if m.flowing {
		m.flowsAgain = true
		return nil
	}
	m.flowing = true
	return m.effect(func(ctx context.Context) then {
		read, err := m.o.Flows.ReadFlows(ctx)
		return func(m *model, now time.Time) tea.Cmd {
			again := m.flowsAgain
			m.flowing, m.flowsAgain = false, false
			m.screen.ShowFlows(read, err)
			switch {
			case again:
				return m.loadFlows()
			case err == nil && m.flowNews.file.Name != "":
				m.flowNews.tell(m, read, now)
				m.flowNews = flowNews{}
			case err != nil && m.screen.ShowsFlows(): // another process may have had the store
				m.say(screen.Bad, problem("cannot read the flows", err), now)
				m.flowsDue = now.Add(flowsAfter)
				return m.after(flowsAfter, flowsMsg{})
			}
			return nil
		}
	})
}

// flowsAfter is how long after something has happened flow runs are read again, while
// somebody looks at them: their records are written a moment after their calls.
const flowsAfter = time.Second

// flowsMsg has the model look whether flows are to be read.
type flowsMsg struct{}

// followFlows reads the flows again a while after something has happened, where the panel
// is in view.
func (m *model) followFlows(now time.Time) tea.Cmd {
	v := m.state.Version()
	switch {
	case m.o.Flows == nil || !m.screen.ShowsFlows():
		return nil
	case m.flowsDue.IsZero() && v != m.flowsAt:
		m.flowsDue, m.flowsAt = now.Add(flowsAfter), v
		return m.after(flowsAfter, flowsMsg{})
	case !m.flowsDue.IsZero() && !now.Before(m.flowsDue):
		m.flowsDue = time.Time{}
		return m.loadFlows()
	}
	return nil
}

// findFlowRuns shows what flows did with a call.
func (m *model) findFlowRuns(i screen.FindFlowRuns) tea.Cmd {
	if m.o.Flows == nil {
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		runs, err := m.o.Flows.CallFlowRuns(ctx, i.Run, i.Call)
		read, readErr := m.o.Flows.ReadFlows(ctx)
		return func(m *model, now time.Time) tea.Cmd {
			if err = errors.Join(err, readErr); err != nil {
				m.say(screen.Bad, problem("cannot read the flow runs of this call", err), now)
				return nil
			}
			m.screen.ShowFlows(read, nil)
			if why := m.screen.ShowFlowRun(runs); why != "" {
				m.say(screen.Note, why, now)
			}
			return nil
		}
	})
}

// switchFlow enables or disables a flow.
func (m *model) switchFlow(i screen.SwitchFlow) tea.Cmd {
	if m.o.Flows == nil {
		return nil
	}
	return m.act(func(ctx context.Context) then {
		err := m.o.Flows.EnableFlow(ctx, i.Flow, i.Enable)
		return func(m *model, now time.Time) tea.Cmd {
			word := "disabled"
			if i.Enable {
				word = "enabled"
			}
			return m.flowWritten(i.Flow, word, err, now)
		}
	})
}

// flowWritten says what became of a change of a flow's file, and reads all flows again.
func (m *model) flowWritten(file state.FlowFile, word string, err error, now time.Time) tea.Cmd {
	if err != nil {
		m.say(screen.Bad, problem(core.Visible(file.Name, 60, false)+" was not "+word, err), now)
		return nil
	}
	m.flowNews = flowNews{file, word}
	return m.loadFlows()
}

// flowNews is a change of a flow's file. The status line reports it once pml has read the files again: only then does
// pml know whether somebody must trust them.
type flowNews struct {
	file state.FlowFile
	word string // what it is now: enabled, disabled, saved
}

// tell reports the change.
func (n flowNews) tell(m *model, read state.Flows, now time.Time) {
	if !n.file.Home && !read.Trusted {
		refused := "calls that it checks are refused"
		if read.Workspace != nil {
			if f := read.Workspace.Flow(n.file.Name); f != nil && !f.Enabled {
				refused = "what it checked before is refused"
			}
		}
		n.word += "; until it is trusted, " + refused + ": " + keyFor(m, keys.TrustFlows, "pml trust") + " comes next"
	}
	m.say(screen.Good, core.Visible(n.file.Name, 60, false)+" is "+n.word, now)
}

// saveFlow writes a flow that a person has changed or made.
func (m *model) saveFlow(i screen.SaveFlow) tea.Cmd {
	if m.o.Flows == nil {
		return nil
	}
	return m.act(func(ctx context.Context) then {
		err := m.o.Flows.SaveFlow(ctx, i.Flow, i.Text, i.Was)
		return func(m *model, now time.Time) tea.Cmd {
			if err == nil {
				m.screen.FlowSaved(i.Flow, i.Text)
			}
			return m.flowWritten(i.Flow, "saved", err, now)
		}
	})
}

// editFlowPart has the person edit a script, an expression or the whole file of a flow.
// Nothing is saved by that.
func (m *model) editFlowPart(i screen.EditFlowPart, now time.Time) tea.Cmd {
	d, err := newDraft(i.Node+i.Part.Suffix, i.Part.Text, 0o600)
	if err != nil {
		m.say(screen.Bad, problem("cannot edit it", err), now)
		return nil
	}
	return m.edit(d, func(m *model, now time.Time, err error) tea.Cmd {
		text := ""
		if err == nil {
			text, err = d.read()
		}
		d.remove()
		if err == nil && text != i.Part.Text {
			err = m.screen.FlowPartEdited(i, text)
		}
		if err != nil {
			m.say(screen.Bad, problem("the flow is as it was", err), now)
		}
		return nil
	})
}

// tryFlow runs a flow on a call that is not made.
func (m *model) tryFlow(i screen.TryFlow) tea.Cmd {
	if m.o.Flows == nil {
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		tried, err := m.o.Flows.TryFlow(ctx, i.Flow, i.Text, i.Call)
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("the flow cannot be tested", err), now)
				return nil
			}
			m.screen.ShowTrial(i, tried)
			return nil
		}
	})
}

// tryFlowOnAll runs a flow on several calls that are not made.
func (m *model) tryFlowOnAll(i screen.TryFlowOnAll) tea.Cmd {
	if m.o.Flows == nil {
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		tried := make([]state.FlowTried, len(i.Calls))
		var err error
		for n := range i.Calls {
			if tried[n], err = m.o.Flows.TryFlow(ctx, i.Flow, i.Text, i.Calls[n]); err != nil {
				break
			}
		}
		return func(m *model, now time.Time) tea.Cmd {
			if err != nil {
				m.say(screen.Bad, problem("the flow cannot be tested", err), now)
				return nil
			}
			m.screen.ShowTrials(i, tried)
			return nil
		}
	})
}
