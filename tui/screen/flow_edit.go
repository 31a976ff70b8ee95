package screen

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/flowedit"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// picking is a step that needs a second node: the cursor goes there, and enter takes it.
type picking struct {
	act  keys.Action // empty: none
	from string
}

// flowButton is a step that can be clicked on.
type flowButton struct {
	act  keys.Action
	x, w int
}

// editActions are the steps that change a flow, as the bar below the graph shows them.
var editActions = []keys.Action{
	keys.AddNode, keys.AddBefore, keys.ConnectTo, keys.Disconnect, keys.MoveNode, keys.LabelNode, keys.Edit, keys.DeleteNode, keys.Undo, keys.Redo, keys.Save,
}

// drawBar draws the steps that can be taken, or which node is looked for.
func (v *flowView) drawBar(a paint.Area, e *Env) {
	a.Rule(0, "")
	v.buttons = v.buttons[:0]
	if v.trial != nil {
		a.Text(1, 0, a.W-1, paint.Style{Role: paint.Accent}.Bold(), " test: enter next step, "+keyOf(e, keys.PreviousTab)+" step back, esc ends it. Nothing is called ")
		return
	}
	if v.picking.act != "" {
		a.Text(1, 0, a.W-1, paint.Style{Role: paint.Accent}.Bold(), " "+keys.Label(v.picking.act)+": go to the other node, enter takes it, esc does not ")
		return
	}
	x := 0
	for _, act := range editActions {
		label := shortLabel(act)
		if act == keys.Edit {
			label = "edit"
		}
		style := paint.Style{Role: paint.Muted}
		if act == keys.Save && v.edit.Changed() {
			style = paint.Style{Role: paint.Warn}.Bold()
		}
		spans := []span{{keyOf(e, act), paint.Style{Role: paint.Accent}}, {" " + label + " ", style}}
		w := spansWidth(spans)
		if x+w > a.W {
			return
		}
		putSpans(a, x, 0, w, spans)
		v.buttons = append(v.buttons, flowButton{act, x, w})
		x += w
	}
}

// doEdit takes a step.
func (v *flowView) doEdit(act keys.Action) ([]Intent, bool) {
	if v.picking.act != "" {
		switch act {
		case keys.Open, v.picking.act:
			return v.picked(), true
		case keys.Back:
			v.picking = picking{}
			return nil, true
		default:
		}
	}
	switch act {
	case keys.AddNode, keys.AddBefore:
		return v.addMenu(act == keys.AddBefore), true
	case keys.ConnectTo, keys.Disconnect, keys.MoveNode:
		v.picking = picking{act, v.node}
		return nil, true
	case keys.LabelNode:
		return v.labelPrompt(), true
	case keys.DeleteNode:
		return v.remove(), true
	case keys.Undo:
		return v.moved(v.edit.Undo(), "nothing to undo"), true
	case keys.Redo:
		return v.moved(v.edit.Redo(), "nothing to redo"), true
	case keys.Edit, keys.Open:
		return []Intent{EditFlowPart{v.row.file, v.node, v.edit.Part(v.node)}}, true
	case keys.EditFlow:
		return []Intent{EditFlowPart{v.row.file, "", v.edit.Part("")}}, true
	case keys.Save:
		return v.save(), true
	case keys.SwitchFlow:
		if v.edit.Changed() {
			return []Intent{say{Note, "save the flow first"}}, true
		}
	default:
	}
	return nil, false
}

// remove deletes the selected node, and selects the one that led to it.
func (v *flowView) remove() []Intent {
	before := v.node
	for _, e := range v.flow().Edges {
		if e.Target == v.node {
			before = e.Source
		}
	}
	err := v.edit.Delete(v.node)
	if err == nil {
		v.node = before
	}
	return v.stepped(err)
}

// picked takes the step for which a second node was looked for.
func (v *flowView) picked() []Intent {
	p := v.picking
	v.picking = picking{}
	switch p.act {
	case keys.ConnectTo:
		return v.stepped(v.edit.Connect(p.from, v.node))
	case keys.Disconnect:
		err := v.edit.Disconnect(p.from, v.node)
		if err != nil && v.edit.Disconnect(v.node, p.from) == nil {
			err = nil
		}
		return v.stepped(err)
	default:
		return v.stepped(v.edit.Move(p.from, v.node))
	}
}

// stepped says what a step came to.
func (v *flowView) stepped(err error) []Intent {
	if err != nil {
		return []Intent{say{Bad, core.Visible(err.Error(), 300, false)}}
	}
	v.trial = nil
	v.lay()
	if n := len(v.flow().Faults); n > 0 {
		return []Intent{say{Note, "the flow has " + plural(n, "fault") + " now"}}
	}
	return nil
}

func (v *flowView) moved(ok bool, why string) []Intent {
	if !ok {
		return []Intent{say{Note, why}}
	}
	return v.stepped(nil)
}

// addMenu asks which type of node to add.
func (v *flowView) addMenu(before bool) []Intent {
	m := &menu{title: "Add behind " + v.node}
	if before {
		m.title = "Add before " + v.node
	}
	m.title = core.Visible(m.title, 60, false)
	for _, t := range flowedit.Types {
		m.items = append(m.items, menuItem{t.Type, t.Does})
	}
	m.done = func(i int) []Intent {
		id, err := v.edit.Add(v.node, flowedit.Types[i].Type, before)
		if err == nil {
			v.node = id
		}
		return v.stepped(err)
	}
	return []Intent{openOverlay{m}}
}

func (v *flowView) labelPrompt() []Intent {
	n := v.selected()
	if n == nil {
		return nil
	}
	ask := newProposal("name of the node:", n.Data.Label)
	ask.done = func(text string, _ *Env) []Intent { return v.stepped(v.edit.Label(n.ID, text)) }
	return []Intent{openOverlay{ask}}
}

// save writes the flow. One that has faults and is enabled would refuse all that it
// matches.
func (v *flowView) save() []Intent {
	f := v.flow()
	switch {
	case !v.edit.Changed():
		return []Intent{say{Note, "there is nothing to save"}}
	case f.Enabled && f.Mode != flow.Audit && len(f.Faults) > 0:
		return []Intent{say{Bad, "it is enabled and has " + plural(len(f.Faults), "fault") + ": saved like this it would refuse the calls that it matches. n goes to a fault, u takes a step back"}}
	}
	return []Intent{SaveFlow{v.row.file, v.edit.Text(), v.edit.SavedText()}}
}

// FlowSaved takes note of a flow that was written, so that it counts as read; a new one opens.
func (s *Screen) FlowSaved(file state.FlowFile, text []byte) {
	p := s.panels[PanelFlows].(*flowsPanel)
	if p.view != nil && p.view.row.file == file {
		p.view.edit.Saved(text)
		return
	}
	p.opening = file
}

// FlowPartEdited takes over what a person made of a part of a flow, unless another flow
// is open by now.
func (s *Screen) FlowPartEdited(i EditFlowPart, text string) error {
	p := s.panels[PanelFlows].(*flowsPanel)
	if p.view == nil || p.view.row.file != i.Flow {
		return core.Errorf(core.CodeNotFound, "the flow is not open any more")
	}
	err := p.view.edit.SetPart(i.Node, i.Part, text)
	if err == nil {
		p.view.lay()
	}
	return err
}

// newFlow asks which template a new flow begins with, and where it holds.
func (p *flowsPanel) newFlow(e *Env) []Intent {
	m := &menu{title: "New flow from a template"}
	templates := flow.Templates()
	for _, t := range templates {
		m.items = append(m.items, menuItem{t.Name, t.Does})
	}
	now := e.Now
	m.done = func(i int) []Intent {
		where := &menu{title: "Where is " + templates[i].Name + " to hold?", items: []menuItem{
			{"this workspace", "in .pml/flows; it needs trust (T)"}, {"all workspaces", "in pml's home; it needs no trust"},
		}}
		where.done = func(home int) []Intent { return p.fromTemplate(templates[i], home == 1, now) }
		return []Intent{openOverlay{where}}
	}
	return []Intent{openOverlay{m}}
}

// fromTemplate saves a new flow under a name that is free.
func (p *flowsPanel) fromTemplate(t flow.Template, home bool, now time.Time) []Intent {
	id := t.Name
	for n := 2; p.row(state.FlowFile{Home: home, Name: id + ".json"}) != nil; n++ {
		id = t.Name + "-" + itoa(n)
	}
	return []Intent{SaveFlow{Flow: state.FlowFile{Home: home, Name: id + ".json"}, Text: t.Flow(id, id, now)}}
}
