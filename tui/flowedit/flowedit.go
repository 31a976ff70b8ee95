// Package flowedit changes a hook flow step by step, with undo and redo. It touches no
// file: what it holds is the text of the flow's file, and what is wrong with it now.
//
// A step changes only the parts of the text that it is about, so that keys which pml
// does not know, and the layout of everything else, stay as they were.
package flowedit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// maxSteps is how many steps can be taken back.
const maxSteps = 200

// Editor is a flow that is being changed. It is used by one goroutine.
type Editor struct {
	folder *flow.Folder
	file   string
	steps  []*flow.Flow // at is what is shown; behind it is what was taken back
	at     int
	saved  []byte
}

// New begins with a flow of a folder, whose modules and node manifests it uses.
func New(folder *flow.Folder, f *flow.Flow) *Editor {
	return &Editor{folder: folder, file: f.File, steps: []*flow.Flow{f}, saved: f.Text()}
}

// Flow is the flow as it is now, with its faults.
func (e *Editor) Flow() *flow.Flow { return e.steps[e.at] }

// Text is the file as it is now.
func (e *Editor) Text() []byte { return e.Flow().Text() }

// SavedText is the file as it was read or saved last.
func (e *Editor) SavedText() []byte { return e.saved }

// Changed reports whether there is something to save.
func (e *Editor) Changed() bool { return !bytes.Equal(e.Text(), e.saved) }

// Saved takes note of the text that was written to the file.
func (e *Editor) Saved(text []byte) { e.saved = slices.Clone(text) }

// Undo takes the last step back; false: there is none.
func (e *Editor) Undo() bool {
	if e.at == 0 {
		return false
	}
	e.at--
	return true
}

// Redo takes the step again that was taken back last; false: there is none.
func (e *Editor) Redo() bool {
	if e.at == len(e.steps)-1 {
		return false
	}
	e.at++
	return true
}

// SetText puts another text in the place of the whole file.
func (e *Editor) SetText(text []byte) error {
	if !json.Valid(text) {
		return core.Errorf(core.CodeInvalidConfig, "this is no JSON; nothing was changed")
	}
	e.push(text)
	return nil
}

func (e *Editor) push(text []byte) {
	if bytes.Equal(text, e.Text()) {
		return
	}
	e.steps = append(e.steps[:e.at+1], e.folder.ParseOne(e.file, text))
	e.steps = e.steps[max(0, len(e.steps)-maxSteps):]
	e.at = len(e.steps) - 1
}

// change is one step.
func (e *Editor) change(do func(d *draft) error) error {
	d, err := newDraft(e.Text())
	if err != nil {
		return err
	}
	if err := do(d); err != nil {
		return err
	}
	text, err := d.text()
	if err == nil {
		e.push(text)
	}
	return err
}

// Types are the types of node that can be added, with what each is for. A hook that
// nobody waits for is TypeBeside.
var Types = []struct{ Type, Does string }{
	{flow.TypeApproval, "asks a person before the call is made"},
	{flow.TypeCondition, "goes on along true or false"},
	{flow.TypeHook, "a script that may change or block"},
	{TypeBeside, "a script that nobody waits for"},
	{flow.TypeSet, "keeps a value for later calls"},
	{flow.TypeCommand, "a program that decides"},
	{flow.TypeHTTP, "a URL that decides"},
	{flow.TypeCall, "the call itself"},
	{flow.TypeEnd, "the end of the way"},
	{flow.TypeStart, "the beginning"},
}

// TypeBeside is the type by which Add makes a hook that nobody waits for.
const TypeBeside = "hook beside"

// Add adds a node behind another one, into the way on from there, or with before set
// into the way to it; it returns the new node's id. A condition gets both its edges:
// false leads to a call of its own, or behind the call to the end.
func (e *Editor) Add(at, typ string, before bool) (id string, err error) {
	err = e.change(func(d *draft) error {
		n := d.node(at)
		if n == nil && len(d.nodes) > 0 {
			return gone(at)
		}
		id = d.add(typ)
		if n == nil || typ == flow.TypeStart {
			return nil
		}
		if n.Type == flow.TypeEnd && typ != TypeBeside {
			before = true
		}
		way := d.wayOn(at)
		if before {
			if way = d.wayTo(at); way == manyWays {
				return core.Errorf(core.CodeInvalidArguments, "several edges lead to %s; add the node behind one of the nodes that they come from", quoted(at))
			}
		}
		d.insert(way, at, id, before)
		return nil
	})
	return id, err
}

// Connect adds an edge. That of a condition is labelled with what it has not yet.
func (e *Editor) Connect(from, to string) error {
	return e.change(func(d *draft) error {
		source := d.node(from)
		switch {
		case source == nil:
			return gone(from)
		case d.node(to) == nil:
			return gone(to)
		case from == to:
			return core.Errorf(core.CodeInvalidArguments, "a node cannot lead to itself")
		}
		label := ""
		if source.Type == flow.TypeCondition {
			if label = "true"; slices.ContainsFunc(d.edges, func(x item) bool { return x.Source == from && x.Label == label }) {
				label = "false"
			}
		}
		if slices.ContainsFunc(d.edges, func(x item) bool { return x.Source == from && x.Target == to && x.Label == label }) {
			return core.Errorf(core.CodeInvalidArguments, "%s leads to %s already", quoted(from), quoted(to))
		}
		d.connect(from, to, label)
		return nil
	})
}

// Disconnect takes the edges from a node to another away.
func (e *Editor) Disconnect(from, to string) error {
	return e.change(func(d *draft) error {
		n := len(d.edges)
		d.edges = slices.DeleteFunc(d.edges, func(x item) bool { return x.Source == from && x.Target == to })
		if len(d.edges) == n {
			return core.Errorf(core.CodeInvalidArguments, "no edge leads from %s to %s", quoted(from), quoted(to))
		}
		return nil
	})
}

// Delete takes a node away. What led to it leads to what came behind it; behind a
// condition that is its branch true.
func (e *Editor) Delete(id string) error {
	return e.change(func(d *draft) error {
		if d.node(id) == nil {
			return gone(id)
		}
		d.takeOut(id)
		i := slices.IndexFunc(d.nodes, func(x item) bool { return x.ID == id })
		d.nodes = slices.Delete(d.nodes, i, i+1)
		return nil
	})
}

// Move takes a node out of its way and puts it behind another one.
func (e *Editor) Move(id, behind string) error {
	return e.change(func(d *draft) error {
		n := d.node(id)
		switch {
		case n == nil:
			return gone(id)
		case d.node(behind) == nil:
			return gone(behind)
		case id == behind, slices.ContainsFunc(d.edges, func(x item) bool { return x.Source == behind && x.Target == id }):
			return core.Errorf(core.CodeInvalidArguments, "it is there already")
		case n.Type == flow.TypeStart || n.Type == flow.TypeEnd || n.Type == flow.TypeCondition || d.node(behind).Type == flow.TypeEnd:
			return core.Errorf(core.CodeInvalidArguments, "start, end and conditions stay where they are, and nothing comes behind end; connect and disconnect change their edges")
		}
		d.takeOut(id)
		d.insert(d.wayOn(behind), behind, id, false)
		return nil
	})
}

// Label names a node.
func (e *Editor) Label(id, text string) error { return e.setData(id, []string{"label"}, text) }

func (e *Editor) setData(id string, path []string, value any) error {
	return e.change(func(d *draft) error {
		i := slices.IndexFunc(d.nodes, func(x item) bool { return x.ID == id })
		if i < 0 {
			return gone(id)
		}
		raw, err := set(d.nodes[i].raw, append([]string{"data"}, path...), value)
		d.nodes[i].raw = raw
		return err
	})
}

func gone(id string) error {
	return core.Errorf(core.CodeInvalidArguments, "there is no node %s", quoted(id))
}

func quoted(id string) string { return strconv.Quote(core.Visible(id, 60, false)) }
