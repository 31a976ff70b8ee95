package flowedit_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/flowedit"
)

// plain is a flow of another editor's, with keys that pml does not know.
const plain = `{
  "id": "f", "name": "F", "x-team": {"b": 1.0, "a": [1, 2]}, "workflowType": "tools/call",
  "nodes": [
    {"id": "start", "type": "start", "position": {"x": 1, "y": 2}, "data": {"label": "Start"}},
    {"id": "mcp", "type": "mcp-call",  "position": {"x": 3.50, "y": 2}, "data": {"label": "Call", "colour": "red"}},
    {"id": "end", "type": "end", "position": {"x": 1, "y": 2}, "data": {"label": "End"}}
  ],
  "edges": [{"id": "e1", "source": "start", "target": "mcp"}, {"source": "mcp", "target": "end", "animated": true}]
}
`

func open(text string) *flowedit.Editor {
	folder := flow.Parse(map[string][]byte{"f.json": []byte(text)}, false)
	return flowedit.New(folder, folder.Flows[0])
}

func edgesOf(e *flowedit.Editor) string {
	var out []string
	for _, x := range e.Flow().Edges {
		text := x.Source + ">" + x.Target
		if x.Label != "" {
			text = x.Source + "=" + x.Label + ">" + x.Target
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantFlow fails unless the flow has these edges, and no fault.
func wantFlow(t *testing.T, e *flowedit.Editor, edges string) {
	t.Helper()
	if got := edgesOf(e); got != edges {
		t.Errorf("edges\n%s\nwant\n%s", got, edges)
	}
	if f := e.Flow(); len(f.Faults) > 0 {
		t.Errorf("%v", f.Faults)
	}
}

func TestEditor(t *testing.T) {
	t.Parallel()
	e := open(plain)
	ask, err := e.Add("start", flow.TypeApproval, false)
	must(t, err)
	wantFlow(t, e, "mcp>end start>approval approval>mcp")
	cond, err := e.Add(ask, flow.TypeCondition, true) // its other branch calls without asking
	must(t, err)
	wantFlow(t, e, "mcp>end approval>mcp start>condition condition=true>approval condition=false>mcp-call mcp-call>end")
	must(t, e.SetPart(cond, e.Part(cond), "!args.path.startsWith('docs/')\n"))
	_, err = e.Add("mcp", flowedit.TypeBeside, false)
	must(t, err)
	must(t, e.Label(ask, "Ask <me> & go"))
	wantFlow(t, e, "mcp>end approval>mcp start>condition condition=true>approval condition=false>mcp-call mcp-call>end mcp>hook-beside")
	hook, err := e.Add("end", flow.TypeHook, false)
	if err == nil {
		t.Errorf("%s was put before an end that two lead to", hook)
	}
	must(t, e.Move("hook-beside", "mcp-call"))
	must(t, e.Move(ask, "mcp"))
	if faults := e.Flow().Faults; len(faults) == 0 {
		t.Error("an approval behind the call is no fault")
	}
	e.Undo()
	must(t, e.Delete(ask))
	must(t, e.Delete("hook-beside"))
	wantFlow(t, e, "mcp>end start>condition condition=false>mcp-call mcp-call>end condition=true>mcp")
	text := string(e.Text())
	for _, want := range []string{`"x-team": {"b": 1.0, "a": [1, 2]}`, `"x": 3.50`, `"colour": "red"`, `"animated": true`, `!args.path.startsWith('docs/')"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is gone from\n%s", want, text)
		}
	}
	must(t, e.Disconnect("start", cond))
	must(t, e.Connect("start", cond))
	for name, err := range map[string]error{
		"itself": e.Connect("mcp", "mcp"), "twice": e.Connect("start", cond), "no node": e.Connect("start", "nope"), "no edge": e.Disconnect("end", "start"),
		"delete": e.Delete("nope"), "move": e.Move("start", "mcp"), "no JSON": e.SetText([]byte("{")), "behind end": e.Move("mcp", "end"),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if !e.Changed() {
		t.Error("nothing to save")
	}
	if e.Saved(e.Text()); e.Changed() {
		t.Error("saved, and still to save")
	}
}

// TestEditor_Parts: what a person edits of a node comes back into its place.
func TestEditor_Parts(t *testing.T) {
	t.Parallel()
	e := open(plain)
	for typ, text := range map[string]string{
		flow.TypeHook: "return {block: {message: '<no>'}}\n", flow.TypeApproval: "Really?", flow.TypeCondition: "args.a == 1",
		flow.TypeSet: `{"name": "n", "op": "add", "value": 2}`, flow.TypeCommand: `{"command": "opa"}`, flow.TypeHTTP: `{"url": "https://x.example"}`,
	} {
		id, err := e.Add("start", typ, false)
		must(t, err)
		must(t, e.SetPart(id, e.Part(id), text))
		if got := e.Part(id).Text; got != text && !json.Valid([]byte(text)) {
			t.Errorf("%s: %q", typ, got)
		}
		for _, f := range e.Flow().Faults {
			if e.Flow().NodeOf(f) == id && typ != flow.TypeHook && typ != flow.TypeCommand && typ != flow.TypeHTTP {
				t.Errorf("%s: %s", typ, f.Message)
			}
		}
	}
	if p := e.Part("start"); p.Suffix != ".json" || p.Text != string(e.Text()) {
		t.Error("start does not stand for the file")
	}
	if err := e.SetPart("set", e.Part("set"), "{"); err == nil {
		t.Error("half an object was taken")
	}
}

// TestEditor_Broken: a file that is no flow can be edited as a text only.
func TestEditor_Broken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", "[]", `{"enabled": true, "nodes": 1}`, `{"enabled": true, "nodes": [1]}`} {
		e := open(text)
		if _, err := e.Add("start", flow.TypeHook, false); err == nil {
			t.Errorf("%s: a node was added", text)
		}
		must(t, e.SetText([]byte(plain)))
		if len(e.Flow().Faults) > 0 || !e.Undo() || string(e.Text()) != text {
			t.Errorf("%s: %v", text, e.Flow().Faults)
		}
	}
}

// TestEditor_Property: whatever was done, taking all of it back gives the same bytes, and
// doing it again the same flow; keys that pml does not know stay.
func TestEditor_Property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := open(plain)
		var steps [][]byte
		node := rapid.Custom(func(t *rapid.T) string {
			ids := []string{"start", "nope"}
			for _, n := range e.Flow().Nodes {
				ids = append(ids, n.ID)
			}
			return rapid.SampledFrom(ids).Draw(t, "node")
		})
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			before := e.Text()
			var err error
			a, b := node.Draw(t, "a"), node.Draw(t, "b")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				typ := flowedit.Types[rapid.IntRange(0, len(flowedit.Types)-1).Draw(t, "type")].Type
				_, err = e.Add(a, typ, rapid.Bool().Draw(t, "before"))
			case 2:
				err = e.Connect(a, b)
			case 3:
				err = e.Disconnect(a, b)
			case 4:
				err = e.Delete(a)
			case 5:
				err = e.Move(a, b)
			case 6:
				err = e.Label(a, rapid.String().Draw(t, "label"))
			}
			if err != nil && !bytes.Equal(before, e.Text()) {
				t.Fatalf("a step that failed changed the flow: %v", err)
			}
			if !json.Valid(e.Text()) || !bytes.Contains(e.Text(), []byte(`"x-team": {"b": 1.0, "a": [1, 2]}`)) {
				t.Fatalf("the file is broken:\n%s", e.Text())
			}
			if !bytes.Equal(before, e.Text()) {
				steps = append(steps, e.Text())
			}
		}
		last := e.Text()
		for i, step := range slices.Backward(steps) {
			if !bytes.Equal(e.Text(), step) || !e.Undo() {
				t.Fatalf("step %d is not taken back", i)
			}
		}
		if string(e.Text()) != plain || e.Undo() || e.Changed() {
			t.Fatalf("all taken back:\n%s", e.Text())
		}
		for e.Redo() {
		}
		if !bytes.Equal(e.Text(), last) {
			t.Fatalf("done again:\n%s\nwant\n%s", e.Text(), last)
		}
	})
}

// TestEditor_Places: a new node stands beside the one that leads to it, for editors that
// draw by positions, and what stood somewhere stays there.
func TestEditor_Places(t *testing.T) {
	t.Parallel()
	e := open(plain)
	id, err := e.Add("start", flow.TypeHook, false)
	must(t, err)
	beside, err := e.Add("mcp", flowedit.TypeBeside, false)
	must(t, err)
	must(t, e.Move(id, "mcp"))
	for node, want := range map[string]flow.Position{"start": {X: 1, Y: 2}, "mcp": {X: 3.5, Y: 2}, "end": {X: 1, Y: 2}, id: {X: 203.5, Y: 2}, beside: {X: 203.5, Y: 2}} {
		if got := e.Flow().Node(node).Position; got != want {
			t.Errorf("%s stands at %v, want %v", node, got, want)
		}
	}
}
