package mcp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

type foundTools struct {
	Tools []struct {
		ID          string          `json:"id"`
		Call        string          `json:"call"`
		Description string          `json:"description"`
		ReadOnly    bool            `json:"read_only"`
		Score       float64         `json:"score"`
		Input       json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Total   int      `json:"total"`
	Next    int      `json:"next_offset"`
	Related []string `json:"related"`
}

func toolbox() []core.Tool {
	yes := true
	schema := json.RawMessage(`{"type":"object"}`)
	return []core.Tool{
		{Server: "github", Name: "list_issues", Description: "Lists issues of a repository.", InputSchema: schema, Annotations: core.Annotations{ReadOnly: &yes}},
		{Server: "github", Name: "create_issue", Description: "Makes an issue.\u202e" + strings.Repeat("x", 400), InputSchema: schema},
		{Server: "my-fs", Name: "read.file", Description: "Reads a file.", InputSchema: schema},
		{Server: "fs", Name: "read_file", Description: "Reads a file.", InputSchema: schema},
	}
}

func TestDiscover_Find(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		want       []string
		total      int
		next       int
	}{
		{"All", `{"pattern":"*"}`, []string{"fs:read_file", "github:create_issue", "github:list_issues", "my-fs:read.file"}, 4, 0},
		{"Page", `{"pattern":"*","limit":2,"offset":1}`, []string{"github:create_issue", "github:list_issues"}, 4, 3},
		{"PastEnd", `{"pattern":"*","offset":9}`, nil, 4, 0},
		{"Glob", `{"pattern":"git*:*_issue"}`, []string{"github:create_issue"}, 1, 0},
		{"Dot", `{"pattern":"*read?file"}`, []string{"fs:read_file", "my-fs:read.file"}, 2, 0},
		{"Literal", `{"pattern":"*read.file"}`, []string{"my-fs:read.file"}, 1, 0},
		{"Server", `{"pattern":"github"}`, []string{"github:create_issue", "github:list_issues"}, 2, 0},
		{"Name", `{"name":"read_file"}`, []string{"fs:read_file"}, 1, 0},
		{"FullName", `{"name":"my-fs:read.file"}`, []string{"my-fs:read.file"}, 1, 0},
		{"Intent", `{"intent":"list the issues"}`, []string{"github:list_issues", "github:create_issue"}, 2, 0},
		{"MinScore", `{"intent":"list the issues","filter":{"minScore":0.6}}`, []string{"github:list_issues"}, 1, 0},
		{"NoFit", `{"intent":"zzz"}`, nil, 0, 0},
	}
	w := dial(t, newEdge(t, &fake{t: t, tools: toolbox()}, nil))
	for _, tt := range tests {
		w.send(callLine("1", "discover", tt.args, ""))
		tr, _ := w.next().result(t)
		var got foundTools
		if err := json.Unmarshal(tr.Structured, &got); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, f := range got.Tools {
			ids = append(ids, f.ID)
		}
		if diff := cmp.Diff(tt.want, ids); diff != "" || got.Total != tt.total || got.Next != tt.next {
			t.Errorf("%s: total %d, next %d, tools (-want +got):\n%s", tt.name, got.Total, got.Next, diff)
		}
	}
}

func TestDiscover_Shown(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t, tools: toolbox()}, nil))
	get := func(args string) foundTools {
		w.send(callLine("1", "discover", args, ""))
		tr, _ := w.next().result(t)
		var got foundTools
		if err := json.Unmarshal(tr.Structured, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := get(`{"id":"my-fs:read.file","include_related":true}`)
	if f := got.Tools[0]; f.Call != `mcp["my-fs"]["read.file"]` || f.Input == nil || f.ReadOnly {
		t.Errorf("got %+v", f)
	}
	got = get(`{"name":"github:list_issues","include_related":true}`)
	if f := got.Tools[0]; f.Call != `mcp.github.list_issues` || f.Input != nil || !f.ReadOnly {
		t.Errorf("got %+v", f)
	}
	if !slices.Equal(got.Related, []string{"github:create_issue"}) {
		t.Errorf("related: %v", got.Related)
	}
	if d := get(`{"name":"create_issue"}`).Tools[0].Description; strings.Contains(d, "\u202e") || !strings.Contains(d, "more bytes)") {
		t.Errorf("what a server says of its tool is shown as it is: %q", d)
	}
	w.send(callLine("1", "discover", `{"name":"read_fil"}`, ""))
	if tr, r := w.next().result(t); !tr.IsError || r.ErrorCode != core.CodeNoSuchTool || !strings.Contains(r.Error, "fs:read_file") {
		t.Errorf("got %+v", r)
	}
}

// The ranking that is given is used; tools that it makes up are not.
func TestDiscover_Rank(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t, tools: toolbox()}, func(o *mcp.Options) {
		o.Rank = func(intent string, _ []core.Tool, _ int) []api.SuggestedTool {
			return []api.SuggestedTool{{CallName: "no:such", Score: 1}, {CallName: "fs:read_file", Score: 0.9}, {CallName: "github:" + intent, Score: 0.2}}
		}
	}))
	w.send(callLine("1", "discover", `{"intent":"list_issues"}`, ""))
	tr, _ := w.next().result(t)
	var got foundTools
	if err := json.Unmarshal(tr.Structured, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Tools) != 2 || got.Tools[0].ID != "fs:read_file" || got.Tools[0].Score != 0.9 || got.Tools[1].ID != "github:list_issues" {
		t.Errorf("got %+v", got)
	}
}
