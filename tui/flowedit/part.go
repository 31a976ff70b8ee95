package flowedit

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// Part is what a person edits of a node in an editor of texts.
type Part struct {
	// Suffix is that of a file of its kind: ".js", ".cel", ".txt" or ".json".
	Suffix string
	Text   string
	path   []string // below data; empty: the whole file
}

// Part is the text of a node: its script, expression or message, else its settings as
// JSON; of start, end and the call it is the whole file.
func (e *Editor) Part(id string) Part {
	f := e.Flow()
	n := f.Node(id)
	whole := Part{Suffix: ".json", Text: string(f.Text())}
	if n == nil {
		return whole
	}
	switch d := &n.Data; {
	case n.Type == flow.TypeHook && d.Hook != nil && d.Hook.Module == "":
		return Part{".js", d.Hook.Script, []string{"hook", "script"}}
	case n.Type == flow.TypeCondition && d.Condition != nil && d.Condition.Expression != "":
		return Part{".js", d.Condition.Expression, []string{"condition", "expression"}}
	case n.Type == flow.TypeCondition && d.Condition != nil:
		return Part{".cel", d.Condition.Where, []string{"condition", "where"}}
	case n.Type == flow.TypeApproval && d.Approval != nil:
		return Part{".txt", d.Approval.Message, []string{"approval", "message"}}
	case n.Type == flow.TypeSet || n.Type == flow.TypeCommand || n.Type == flow.TypeHTTP:
		return settings(f, n.ID, n.Type)
	case strings.HasPrefix(n.Type, flow.TypeTemplate):
		return settings(f, n.ID, "parameters")
	}
	return whole
}

// settings is a member of a node's data as JSON.
func settings(f *flow.Flow, id, name string) Part {
	p := Part{Suffix: ".json", Text: "{}\n", path: []string{name}}
	d, err := newDraft(f.Text())
	if err != nil {
		return p
	}
	var raw struct {
		Data map[string]json.RawMessage `json:"data"`
	}
	var b bytes.Buffer
	if n := d.node(id); n != nil && json.Unmarshal(n.raw, &raw) == nil && json.Indent(&b, raw.Data[name], "", "  ") == nil {
		p.Text = b.String() + "\n"
	}
	return p
}

// SetPart takes over what a person made of a part of a node.
func (e *Editor) SetPart(id string, p Part, text string) error {
	switch {
	case len(p.path) == 0:
		return e.SetText([]byte(text))
	case p.Suffix == ".json":
		if !json.Valid([]byte(text)) {
			return core.Errorf(core.CodeInvalidConfig, "this is no JSON; nothing was changed")
		}
		return e.setData(id, p.path, json.RawMessage(text))
	case p.Suffix != ".js":
		text = strings.TrimSpace(text)
	}
	return e.setData(id, p.path, text)
}
