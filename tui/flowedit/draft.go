package flowedit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/jsonc"
)

// maxDepth bounds how deep values are nested.
const maxDepth = 64

// draft is the text of a flow while a step changes it.
type draft struct {
	doc          *jsonc.Doc
	nodes, edges []item
}

// item is a node or an edge with the bytes that stand for it.
type item struct {
	raw                   []byte
	ID                    string `json:"id"`
	Type                  string `json:"type"`
	Source, Target, Label string
	Data                  struct {
		Blocking *bool `json:"blocking"`
		Hook     struct {
			Blocking *bool `json:"blocking"`
		} `json:"hook"`
	} `json:"data"`
	Position flow.Position `json:"position"`
}

func newDraft(text []byte) (*draft, error) {
	doc, wrong := jsonc.ParseStrict(text, maxDepth)
	if wrong != nil || doc.Root.Value.Kind() != '{' {
		return nil, core.Errorf(core.CodeInvalidConfig, "the file is no JSON object; edit its text first")
	}
	d := &draft{doc: doc}
	var err error
	if d.nodes, err = d.list("nodes"); err == nil {
		d.edges, err = d.list("edges")
	}
	return d, err
}

// list reads a list of objects.
func (d *draft) list(name string) (out []item, err error) {
	m, ok := jsonc.Find(d.doc.Root, name)
	if !ok {
		return nil, nil
	}
	list, ok := m.Value.Value.(*jsonc.Array)
	if !ok {
		return nil, core.Errorf(core.CodeInvalidConfig, "%s is no list; edit the text of the file first", name)
	}
	for _, v := range list.Elements {
		x := item{raw: d.doc.Text()[v.StartOffset:v.EndOffset]}
		if err := json.Unmarshal(x.raw, &x); err != nil {
			return nil, core.Errorf(core.CodeInvalidConfig, "something in %s cannot be read; edit the text of the file first: %w", name, err)
		}
		out = append(out, x)
	}
	return out, nil
}

// text is the file with what has changed in its nodes and edges.
func (d *draft) text() ([]byte, error) {
	text := d.doc.Text()
	for _, part := range []struct {
		name  string
		items []item
	}{{"edges", d.edges}, {"nodes", d.nodes}} {
		doc, wrong := jsonc.ParseStrict(text, maxDepth)
		if wrong != nil {
			return nil, core.Errorf(core.CodeInternal, "a step made no JSON of the flow")
		}
		m, ok := jsonc.Find(doc.Root, part.name)
		if !ok {
			if len(part.items) == 0 {
				continue
			}
			edit, err := doc.Set([]string{part.name}, []any{})
			if err != nil {
				return nil, err
			}
			text, _ = edit.Apply(text)
			doc, _ = jsonc.ParseStrict(text, maxDepth)
			m, _ = jsonc.Find(doc.Root, part.name)
		}
		text = slices.Concat(text[:m.Value.StartOffset], written(part.items), text[m.Value.EndOffset:])
	}
	return text, nil
}

// written is a list with a line for each element.
func written(items []item) []byte {
	if len(items) == 0 {
		return []byte("[]")
	}
	raws := make([][]byte, len(items))
	for i, x := range items {
		raws[i] = x.raw
	}
	return slices.Concat([]byte("[\n    "), bytes.Join(raws, []byte(",\n    ")), []byte("\n  ]"))
}

// set gives a member of an object another value.
func set(raw []byte, path []string, value any) ([]byte, error) {
	doc, wrong := jsonc.ParseStrict(raw, maxDepth)
	if wrong != nil {
		return raw, core.Errorf(core.CodeInternal, "a node is no JSON")
	}
	edit, err := doc.Set(path, value)
	if err != nil {
		return raw, core.Errorf(core.CodeInvalidConfig, "the node cannot be changed: %w", err)
	}
	out, _ := edit.Apply(raw)
	return out, nil
}

func (d *draft) node(id string) *item {
	for i := range d.nodes {
		if d.nodes[i].ID == id {
			return &d.nodes[i]
		}
	}
	return nil
}

// blocking reports whether the call waits for a node.
func (x *item) blocking() bool {
	return (x.Data.Blocking == nil || *x.Data.Blocking) && (x.Data.Hook.Blocking == nil || *x.Data.Hook.Blocking)
}

// add adds a node without edges.
func (d *draft) add(typ string) (id string) {
	base := strings.ReplaceAll(typ, " ", "-")
	id = base
	for n := 2; d.node(id) != nil; n++ {
		id = base + "-" + strconv.Itoa(n)
	}
	type obj = map[string]any
	data := obj{"label": strings.ToUpper(typ[:1]) + typ[1:]}
	kind := typ
	switch typ {
	case flow.TypeHook, TypeBeside:
		kind = flow.TypeHook
		data["hook"] = obj{"id": id, "script": scripts[typ], "blocking": typ == flow.TypeHook}
	case flow.TypeCondition:
		data["condition"] = obj{"where": "true"}
	case flow.TypeSet:
		data["set"] = obj{"name": "calls", "scope": "flow", "op": "add", "value": 1}
	case flow.TypeApproval:
		data["approval"] = obj{"message": "Is this call all right?"}
	case flow.TypeCommand:
		data["command"] = obj{"command": ""}
	case flow.TypeHTTP:
		data["http"] = obj{"url": "https://"}
	}
	raw, err := json.Marshal(obj{"id": id, "type": kind, "position": flow.Position{}, "data": data})
	if err != nil {
		panic(err) // texts only
	}
	x := item{raw: styled(raw, d.nodes)}
	if err := json.Unmarshal(raw, &x); err != nil {
		panic(err) // it was written above
	}
	d.nodes = append(d.nodes, x)
	return id
}

// scripts are what hooks begin with.
var scripts = map[string]string{
	flow.TypeHook: "// context.request.params.arguments are the arguments; behind the call context.response is its result.\n" +
		"// Return {params: {arguments}} or {response} to change them, {block: {message}} to refuse, nothing to go on.\n",
	TypeBeside: "console.log(context.metadata.toolName)\n",
}

func (d *draft) connect(from, to, label string) {
	x := item{Source: from, Target: to, Label: label}
	edge := map[string]string{"source": from, "target": to}
	if label != "" {
		edge["label"] = label
	}
	raw, err := json.Marshal(edge)
	if err != nil {
		panic(err) // texts only
	}
	x.raw = styled(raw, d.edges)
	d.edges = append(d.edges, x)
}

// styled puts the members of a new element on lines of their own where the others do.
func styled(raw []byte, others []item) []byte {
	var b bytes.Buffer
	if len(others) == 0 || !bytes.Contains(others[0].raw, []byte("\n")) || json.Indent(&b, raw, "    ", "  ") != nil {
		return raw
	}
	return b.Bytes()
}

// What wayOn and wayTo give where there is no edge, or no single one.
const (
	noWay    = -1
	manyWays = -2
)

// wayOn is the index of the edge that the way goes on along behind a node; behind a
// condition that is true.
func (d *draft) wayOn(id string) int {
	best := noWay
	for i, x := range d.edges {
		if to := d.node(x.Target); x.Source == id && to != nil && to.blocking() && (best < 0 || x.Label == "true") {
			best = i
		}
	}
	return best
}

// wayTo is the index of the edge that leads to a node.
func (d *draft) wayTo(id string) int {
	best := noWay
	for i, x := range d.edges {
		if x.Target == id {
			if best != noWay {
				return manyWays
			}
			best = i
		}
	}
	return best
}

// insert puts a node into an edge, or beside its source when nobody waits for the node.
// Without an edge it is connected with the node at.
func (d *draft) insert(way int, at, id string, before bool) {
	n := d.node(id)
	switch {
	case way < 0 && before:
		d.place(n, at)
		d.connect(id, at, "")
		return
	case way < 0:
		d.place(n, at)
		d.connect(at, id, d.labelOn(at))
		return
	}
	old := d.edges[way]
	d.place(n, old.Source)
	if n.Type == flow.TypeEnd {
		return // a person connects it
	}
	if !n.blocking() {
		d.connect(old.Source, id, old.Label)
		return
	}
	d.edges = slices.Delete(d.edges, way, way+1)
	d.connect(old.Source, id, old.Label)
	if n.Type != flow.TypeCondition {
		d.connect(id, old.Target, "")
		return
	}
	d.connect(id, old.Target, "true")
	d.otherwise(id, old.Target)
}

// labelOn is the label of a new edge from a node.
func (d *draft) labelOn(from string) string {
	if n := d.node(from); n != nil && n.Type == flow.TypeCondition {
		return "true"
	}
	return ""
}

// otherwise gives a new condition the edge false: to a call of its own where it stands
// before the call, and on to the end.
func (d *draft) otherwise(id, target string) {
	end := slices.IndexFunc(d.nodes, func(x item) bool { return x.Type == flow.TypeEnd })
	if end < 0 {
		return
	}
	to := d.nodes[end].ID
	if !d.callsFrom(target, map[string]bool{}) {
		d.connect(id, to, "false")
		return
	}
	call := d.add(flow.TypeCall)
	d.place(d.node(call), id)
	d.connect(id, call, "false")
	d.connect(call, to, "")
}

// callsFrom reports whether a node is a call, or leads to one.
func (d *draft) callsFrom(id string, seen map[string]bool) bool {
	if n := d.node(id); n == nil || seen[id] {
		return false
	} else if n.Type == flow.TypeCall {
		return true
	}
	seen[id] = true
	return slices.ContainsFunc(d.edges, func(x item) bool { return x.Source == id && d.callsFrom(x.Target, seen) })
}

// place puts a new node beside another one, for editors that draw by positions.
func (d *draft) place(n *item, beside string) {
	if b := d.node(beside); b != nil {
		n.Position = flow.Position{X: b.Position.X + 200, Y: b.Position.Y}
		if raw, err := set(n.raw, []string{"position"}, n.Position); err == nil {
			n.raw = raw
		}
	}
}

// takeOut takes the edges of a node away; what leads to it leads to what comes behind.
func (d *draft) takeOut(id string) {
	next := ""
	if way := d.wayOn(id); way >= 0 {
		next = d.edges[way].Target
	}
	blocking := d.node(id).blocking()
	var bridged []item
	d.edges = slices.DeleteFunc(d.edges, func(x item) bool {
		if x.Target == id && x.Source != id && next != "" && blocking {
			bridged = append(bridged, x)
		}
		return x.Source == id || x.Target == id
	})
	for _, x := range bridged {
		same := func(o item) bool { return o.Source == x.Source && o.Target == next && o.Label == x.Label }
		if x.Source != next && !slices.ContainsFunc(d.edges, same) {
			d.connect(x.Source, next, x.Label)
		}
	}
}
