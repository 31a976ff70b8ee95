package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/screen"
)

// editArguments has the person change the arguments that an approval asks about, and
// has what they leave judged anew. It decides nothing: the card shows it again.
func (m *model) editArguments(i screen.EditArguments, now time.Time) tea.Cmd {
	d, err := newDraft("arguments-"+i.Approval.ID.Short()+".json", i.Arguments, 0o600)
	if err != nil {
		m.say(screen.Bad, problem("cannot edit the arguments", err), now)
		return nil
	}
	return m.edit(d, func(m *model, now time.Time, err error) tea.Cmd {
		text := ""
		if err == nil {
			text, err = d.read()
		}
		d.remove()
		args := json.RawMessage(bytes.TrimSpace([]byte(text)))
		if err == nil && !json.Valid(args) {
			err = core.Errorf(core.CodeInvalidArguments, "what the editor left is no JSON")
		}
		if err != nil {
			m.screen.Edited(i.Approval, i.Approval, nil, err, now)
			return nil
		}
		return m.effect(func(ctx context.Context) then {
			edited, err := m.o.Backend.Edited(ctx, i.Approval.ID, args)
			return func(m *model, now time.Time) tea.Cmd {
				m.screen.Edited(i.Approval, edited, args, err, now)
				return nil
			}
		})
	})
}
