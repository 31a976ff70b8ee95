package service_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// TestName: a run is called what its caller says, else by its intent, its file, its
// first call, how its code begins: never by its kind or its id.
func TestName(t *testing.T) {
	t.Parallel()
	c := newMachine(t).server()
	write := []core.TaskSpec{{ID: "t1", Tool: "workspace:write_file", Arguments: json.RawMessage(`{"path":"src/a.ts","content":"x"}`)}}
	for want, req := range map[string]api.ExecuteRequest{
		"given":               {Name: "given", Intent: "intent", File: "a.ts", Code: "return 1"},
		"two lines…":          {Name: "two lines\nand more", Code: "return 1"},
		"intent":              {Intent: "intent", File: "a.ts", Code: "return 1"},
		"nightly.ts":          {File: "/home/me/flows/nightly.ts", Code: "return 1"},
		"write_file src/a.ts": {Tasks: write},
		"list_directory .":    {Code: `const x = 1; return await mcp.workspace.list_directory({path: "."})`},
		"read_file no.txt":    {Code: `const n = await mcp.workspace.list_directory; return await mcp.workspace.read_file({limit: input?.n, path: "no.txt"})`},
		"write_file b.txt":    {Code: `await mcp.workspace.list_directory({path: "."}); const t = await mcp.workspace.read_file({path: "a.txt"}); await mcp.workspace.write_file({path: "b.txt", content: t})`},
		"read_file a.txt":     {Code: `await mcp.workspace.list_directory({path: "./"}); await mcp.workspace.read_file({path: "a.txt"})`},
		"counts the pages":    {Code: "\n// counts the pages\nreturn 2"},
		"return 1 + 1":        {Code: "return 1 + 1"},
		"weekly figures":      {Code: "```ts\n#!/usr/bin/env node\n// weekly figures\nreturn 3\n```\n"},
	} {
		var id core.ID
		req.Wait, req.Started = -1, func(started core.ID) { id = started }
		_, err := c.Execute(c.ctx(), req)
		if id == "" {
			t.Errorf("%s: no run: %v", want, err)
			continue
		}
		if run, err := c.Workflow(c.ctx(), id); err != nil || run.Name != want || run.Title() != want {
			t.Errorf("%q, want %q (%v)", run.Name, want, err)
		}
	}
}

// nameless stores runs as an older pml did: without a name.
type nameless struct{ store.Store }

func (n nameless) Commit(ctx context.Context, step store.Step) error {
	step.Run.Name = ""
	return n.Store.Commit(ctx, step)
}

// TestName_Older: a run of an older pml, which has stored no name, is called what it
// does.
func TestName_Older(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.over(nameless{m.client().store})
	var id core.ID
	req := api.ExecuteRequest{Wait: -1, Started: func(started core.ID) { id = started }, Code: `return await mcp.workspace.read_file({path: "a.txt"})`}
	if _, err := c.Execute(c.ctx(), req); id == "" {
		t.Fatal(err)
	}
	page, err := c.Workflows(c.ctx(), nil, 0, "")
	if err != nil || len(page.Items) != 1 || page.Items[0].Title() != "read_file a.txt" {
		t.Errorf("listed as %v (%v)", page.Items, err)
	}
	if run, err := c.Workflow(c.ctx(), id); err != nil || run.Title() != "read_file a.txt" {
		t.Errorf("shown as %q (%v)", run.Title(), err)
	}
}
