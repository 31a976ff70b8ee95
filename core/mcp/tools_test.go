package mcp_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/upstream"
)

var update = flag.Bool("update", false, "write the golden files anew")

// listed is a tool as tools/list gives it.
type listedTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  map[string]any  `json:"annotations"`
}

func listTools(t *testing.T) (json.RawMessage, []listedTool) {
	t.Helper()
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	w.send(initialize)
	w.next()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	m := w.next()
	var list struct {
		Tools []listedTool `json:"tools"`
	}
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	return m.Result, list.Tools
}

// The whole of what an agent's host sees of the tools.
func TestTools_Golden(t *testing.T) {
	t.Parallel()
	raw, _ := listTools(t)
	var got bytes.Buffer
	if err := json.Indent(&got, unescaped(raw), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	const golden = "testdata/tools.json"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("tools/list has changed (-want +got); -update takes it over:\n%s", diff)
	}
}

// Names, descriptions and input schemas are in every request of an agent to its
// model: 2,650 tokens of 4 characters are what they may cost.
func TestTools_Budget(t *testing.T) {
	t.Parallel()
	_, tools := listTools(t)
	chars := 0
	for _, tool := range tools {
		chars += len(tool.Name) + len(tool.Description) + len(unescaped(tool.InputSchema))
	}
	t.Logf("%d characters, %d tokens", chars, chars/4)
	if chars > 10600 {
		t.Errorf("the tools cost %d characters, more than 10600", chars)
	}
}

func TestTools_Schemas(t *testing.T) {
	t.Parallel()
	_, tools := listTools(t)
	want := []string{"workflow_status", "flow_status", "discover", "execute", "agent_delegate", "continue", "approval_response", "replan", "abort"}
	var names []string
	v := new(upstream.Validator)
	for _, tool := range tools {
		names = append(names, tool.Name)
		if tool.Title == "" || tool.Description == "" || len(tool.Annotations) != 4 {
			t.Errorf("%s: title, description or hints are missing", tool.Name)
		}
		for _, f := range v.Faults(tool.OutputSchema, json.RawMessage(`{"status":"error","error":"x","error_code":"y"}`)) {
			t.Errorf("%s: a failed result does not match the output schema: %s", tool.Name, f)
		}
		var schema any
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		// Model interfaces take no alternatives at the top of a schema.
		for _, word := range []string{"anyOf", "oneOf", "allOf"} {
			if _, ok := schema.(map[string]any)[word]; ok {
				t.Errorf("%s: %s at the top of its input schema", tool.Name, word)
			}
		}
		closed(t, tool.Name, schema)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// closed checks that every object with properties lets no others in.
func closed(t *testing.T, where string, schema any) {
	t.Helper()
	switch s := schema.(type) {
	case map[string]any:
		if props, ok := s["properties"].(map[string]any); ok {
			if s["additionalProperties"] != false {
				t.Errorf("%s: lets unknown properties in", where)
			}
			for name, p := range props {
				closed(t, where+"/"+name, p)
			}
		}
		closed(t, where+"[]", s["items"])
	}
}
