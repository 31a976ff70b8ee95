package dag_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/dag"
)

// tools are those that the graphs of these tests call.
func tools(id string) (core.Tool, bool) {
	schemas := map[string][2]string{
		"workspace:read": {`{"type":"object","properties":{"path":{"type":"string"}}}`, `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"lines":{"type":"array","items":{"type":"string"}},"size":{"type":"integer"}},"additionalProperties":false}`},
		"loose:read":     {`{}`, `{"type":"object","properties":{"content":{"type":"string"}}}`},
		"open:read":      {`{}`, `{"type":"object","properties":{"content":{"type":"string"}},"anyOf":[{"properties":{"more":{}}}]}`},
		"ref:read":       {`{}`, `{"$ref":"#/$defs/x"}`},
		"odd:read":       {`{}`, `{"type":"any","properties":{"content":{"type":"text"}},"additionalProperties":false}`},
		"notes:add": {
			`{"type":"object","properties":{"contents":{"type":"array","items":{"type":"string"}},"n":{"type":"number"},"any":{},"maybe":{"type":["object","null"]},"either":{"anyOf":[{"type":"string"},{"type":"object"}]}}}`, ``,
		},
	}
	s, ok := schemas[id]
	if !ok {
		return core.Tool{}, false
	}
	server, name, _ := core.SplitTool(id)
	return core.Tool{Server: server, Name: name, InputSchema: json.RawMessage(s[0]), OutputSchema: json.RawMessage(s[1])}, true
}

// TestMisfits: of a reference only what the schemas speak against for certain is a fault,
// what they do not name a warning, and what they leave open is neither.
func TestMisfits(t *testing.T) {
	t.Parallel()
	type said struct{ Path, Fault, Warning string }
	for _, c := range []struct {
		tool, args string
		want       said
	}{
		{"workspace:read", `{"contents": ["a", "$r"]}`, said{
			Path:  "/tasks/1/arguments/contents/1",
			Fault: `$r: it is an object, and contents[1] of notes:add takes a string`,
		}},
		{"workspace:read", `{"maybe": "$r"}`, said{}},
		{"workspace:read", `{"n": "$r.lines", "any": "$r"}`, said{
			Path: "/tasks/1/arguments/n", Fault: `$r.lines: it is an array, and n of notes:add takes a number`,
		}},
		{"workspace:read", `{"contents": "$r"}`, said{
			Path: "/tasks/1/arguments/contents", Fault: `$r: it is an object, and contents of notes:add takes an array (did you mean ${r.lines}?)`,
		}},
		{"workspace:read", `{"any": "x ${r.contnt}"}`, said{
			Path: "/tasks/1/arguments/any", Fault: `${r.contnt}: workspace:read returns no key "contnt" in r, which is an object (did you mean content?)`,
		}},
		{"workspace:read", `{"any": "${r.content.x}"}`, said{
			Path: "/tasks/1/arguments/any", Fault: `${r.content.x}: workspace:read returns no key "x" in r.content, which is a string`,
		}},
		{"workspace:read", `{"any": "${r.lines.first}"}`, said{
			Path: "/tasks/1/arguments/any", Fault: `${r.lines.first}: workspace:read returns no key "first" in r.lines, which is an array`,
		}},
		{"workspace:read", `"$r.content"`, said{
			Path: "/tasks/1/arguments", Fault: `$r.content: it is a string, and the whole of the arguments of notes:add takes an object`,
		}},
		{"workspace:read", `{"n": "$r.size", "contents": "$r.lines", "any": ["${r.lines[0]}", "$r.lines.0"], "either": "$r", "unknown": "$r", "1e999": 1e999, "x": "$r"}`, said{}},
		{"workspace:read", `{"contents": ["${r.content} and $r", "${r}!"]}`, said{}},
		{"loose:read", `{"any": "${r.contnt}"}`, said{
			Warning: `task w: ${r.contnt}: loose:read returns no key "contnt" in r, which is an object (did you mean content?)`,
		}},
		{"loose:read", `{"n": "$r"}`, said{Warning: `task w: $r: it is an object, and n of notes:add takes a number`}},
		{"open:read", `{"any": "${r.more}"}`, said{}},
		{"ref:read", `{"n": "${r.more}"}`, said{}},
		{"odd:read", `{"n": "${r.content}"}`, said{}},
		{"none:read", `{"n": "${r.content}"}`, said{}},
	} {
		g, err := dag.Build([]core.TaskSpec{{ID: "r", Tool: c.tool}, {ID: "w", Tool: "notes:add", Arguments: json.RawMessage(c.args)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		faults, warnings := g.Misfits(tools)
		var got said
		if len(faults)+len(warnings) > 1 {
			t.Errorf("%s: %v %v", c.args, faults, warnings)
		}
		for _, f := range faults {
			got.Path, got.Fault = f.Path, f.Message
		}
		for _, w := range warnings {
			got.Warning = w.Message
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %s: %s", c.args, c.tool, diff)
		}
	}
}

// TestMisfits_Names: arguments with references are checked by their names, which are known.
func TestMisfits_Names(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		`{"path": "${r.content}"}`:                    nil,
		`{"paths": "${r.content}"}`:                   {"notes:open takes no paths (did you mean path?)", "notes:open needs path"},
		`{"path": "a", "n": "${r.size}", "more": {}}`: {"notes:open takes no more"},
		`"$r"`: nil,
	} {
		g, err := dag.Build([]core.TaskSpec{{ID: "r", Tool: "workspace:read"}, {ID: "w", Tool: "notes:open", Arguments: json.RawMessage(args)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		faults, _ := g.Misfits(func(id string) (core.Tool, bool) {
			if id != "notes:open" {
				return tools(id)
			}
			return core.Tool{Server: "notes", Name: "open", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}},"required":["path"],"additionalProperties":false}`)}, true
		})
		for _, f := range faults {
			if got = append(got, f.Message); f.Path != "/tasks/1/arguments" {
				t.Errorf("%s: at %s", args, f.Path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
