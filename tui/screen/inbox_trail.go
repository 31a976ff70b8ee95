package screen

import (
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// trail shows what is known of the way of one approval: who asked, what
// happened to it, who decided.
type trail struct {
	id    core.ID
	pager widget.Pager
	// version is of the state that the lines were made from.
	version int64
	made    bool
}

func newTrail(id core.ID) *trail { return &trail{id: id} }

func (t *trail) draw(window paint.Area, e *Env) {
	if v := e.State.Version(); !t.made || v != t.version {
		t.made, t.version = true, v
		t.pager.SetLines(trailLines(t.id, e))
	}
	w, h := min(window.W, max(window.W*3/4, 60)), min(window.H, max(window.H*2/3, 12))
	a := window.Sub((window.W-w)/2, (window.H-h)/2, w, h)
	box := a.Frame(paint.Title{Left: "Audit trail " + t.id.Short(), Right: "esc back", Focus: true})
	t.pager.Draw(box)
}

func (t *trail) key(k keys.Key, e *Env) (intents []Intent, closed bool) {
	for _, act := range e.Keys.Actions(k) {
		if act == keys.Back || act == keys.Open || act == keys.Trail {
			return nil, true
		}
		if t.pager.Do(act) {
			return nil, false
		}
	}
	return nil, false
}

// trailLines are the facts about an approval in the order of time: of itself,
// of the events that are kept and of the rows of the audit log that were read.
func trailLines(id core.ID, e *Env) []widget.Line {
	a, ok := e.State.Approval(id)
	if !ok {
		return []widget.Line{{Text: "it is gone"}}
	}
	var out []widget.Line
	add := func(label, text string) {
		out = append(out, widget.Line{Label: fmt.Sprintf("%-*s", evidence.LabelWidth, label), Text: text})
	}
	add("asked", clockText(a.CreatedAt, e)+" by "+a.RequestedBy.Origin())
	for _, ev := range e.State.Events() {
		if ev.ApprovalID == id {
			add("event", clockText(ev.At, e)+" "+string(ev.Type)+" "+ev.Message)
		}
	}
	if a.ExpiresAt != nil {
		add("expires", clockText(*a.ExpiresAt, e))
	}
	if d := a.DecidedBy; d != nil {
		add(string(a.State), clockText(d.At, e)+" by "+d.Origin())
		if d.Reason != "" {
			add("reason", d.Reason)
		}
		if edited := a.IfEdited(); edited != nil {
			add("edited", "by "+d.Origin()+" before the yes; sent: "+string(edited.Answer.Arguments))
			add("proposed", string(argumentsOf(a)))
		}
	} else {
		add("state", string(a.StateAt(e.Now)))
	}
	if a.RenewedBy != "" {
		add("asked again", "as "+a.RenewedBy.Short())
	}
	for _, r := range e.State.Audit() {
		if r.ApprovalID == id {
			add("audit", fmt.Sprintf("%s row %s  %s by %s  %s", clockText(r.At, e), rowName(r), r.Outcome, r.By.Origin(), r.Reason))
			add("", "hash "+r.Hash)
		}
	}
	if len(e.State.Audit()) == 0 {
		out = append(out, widget.Line{}, widget.Line{Text: "no row of the audit log was read yet"})
	}
	return out
}
