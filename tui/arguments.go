package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
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

// boundsHead stands above the bounds in the editor.
const boundsHead = `# The bounds for the calls of %s from line %s.
# Lines that begin with # do not count, and what is left out stays as it is.
# Save the file and leave the editor: the bounds are shown again then.
#
#   max 10                    how many calls, the one that is asked about included
#   until 10m                 a while, a time, or run
#   NAME is VALUE             the argument has this value
#   NAME matches "docs/*.md"  it is a text like that, * stands for any characters
#   NAME any                  it has any value of its type
#
`

// boundsDraft are bounds that a person changes in an editor.
type boundsDraft struct {
	screen.EditBounds
	head     string
	draft    draft
	rejected int // how often they were given back
}

// editBounds has the person change the bounds that a card shows. It decides nothing: the card
// shows them again.
func editBounds(m *model, i screen.EditBounds, now time.Time) tea.Cmd {
	head := fmt.Sprintf(boundsHead, core.Visible(i.Approval.Tool, 120, false), approval.Line(i.Approval.Place))
	d, err := newDraft("bounds-"+i.Approval.ID.Short()+".txt", head+i.Text, 0o600)
	if err != nil {
		m.say(screen.Bad, problem("cannot edit the bounds", err), now)
		return nil
	}
	return (&boundsDraft{EditBounds: i, head: head, draft: d}).edit(m)
}

// edit opens the editor on the draft.
func (b *boundsDraft) edit(m *model) tea.Cmd {
	return m.edit(b.draft, func(m *model, now time.Time, err error) tea.Cmd {
		text := ""
		if err == nil {
			text, err = b.draft.read()
		}
		if err != nil {
			b.draft.remove()
			m.say(screen.Bad, problem("the bounds are as they were", err), now)
			return nil
		}
		return b.use(m, text, now)
	})
}

// use takes what the editor left, or opens it again with what is wrong: whoever leaves
// that as it is has given up.
func (b *boundsDraft) use(m *model, text string, now time.Time) tea.Cmd {
	body := withoutNotes(text)
	if b.rejected > 0 && body == b.Text {
		b.draft.remove()
		m.say(screen.Note, "the bounds are as they were", now)
		return nil
	}
	wrong, open := m.screen.BoundsEdited(b.EditBounds, body, now)
	switch {
	case !open:
		m.say(screen.Bad, "the question is not on screen any more, or another one: the bounds are not changed", now)
	case len(wrong) > 0:
		if b.rejected++; b.rejected >= maxRejected {
			m.say(screen.Bad, "the bounds are as they were; your text is in "+core.Visible(b.draft.file, 200, false)+". "+wrong[0], now)
			return nil
		}
		b.Text = body
		err := b.draft.write("# Not changed:\n#   " + strings.Join(wrong, "\n#   ") + "\n#\n" + b.head + body)
		if err == nil {
			return b.edit(m)
		}
		m.say(screen.Bad, problem("the bounds are as they were", err), now)
	}
	b.draft.remove()
	return nil
}

// withoutNotes takes the lines that begin with # out of a text.
func withoutNotes(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}
