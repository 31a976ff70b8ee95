//go:build unix

package servers_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// templateFlow is a flow that pml makes of a template, enabled for tools that no other one
// looks at. parameters replace those of its node.
type templateFlow struct {
	template   string
	match      map[string]any
	parameters map[string]any
}

// templateFlows has each template of pml, for tools of servers of npm.
var templateFlows = map[string]templateFlow{
	"outside": {"approve-outside", map[string]any{"tool": "filesystem:write_file"}, nil},
	"pattern": {"block-pattern", map[string]any{"tool": "everything:echo"}, nil},
	"secrets": {"redact-secrets", map[string]any{"tool": "filesystem:read_text_file"}, nil},
	"rate":    {"rate-limit", map[string]any{"tool": "everything:get-sum"}, map[string]any{"limit": 2}},
	"audited": {"audit", map[string]any{"tool": "memory:create_entities"}, nil},
	"cache":   {"cache-reads", map[string]any{"tool": "filesystem:get_file_info", "where": "annotations.read_only"}, nil},
	"cut":     {"cut-results", map[string]any{"tool": "filesystem:read_multiple_files"}, map[string]any{"max_chars": 100}},
	"ticket":  {"require-ticket", map[string]any{"tool": "memory:create_relations"}, nil},
	"closed":  {"office-hours", map[string]any{"tool": "memory:delete_entities"}, map[string]any{"from": 0, "to": 0}},
	"open":    {"office-hours", map[string]any{"tool": "memory:delete_observations"}, map[string]any{"from": 0, "to": 24, "weekend": true}},
	"taint":   {"taint", map[string]any{"server": "memory", "tool": []string{"memory:search_nodes", "memory:add_observations"}}, nil},
}

// makeTemplates makes the flows with pml, and enables them.
func makeTemplates(m *pmltest.Machine) {
	m.T.Helper()
	used := map[string]bool{}
	for id, f := range templateFlows {
		used[f.template] = true
		m.OK("flows", "new", id, "--template", f.template)
		file := filepath.Join(".pml", "flows", id+".json")
		var made map[string]any
		if err := json.Unmarshal([]byte(pmltest.ReadFile(m.T, filepath.Join(m.WS, file))), &made); err != nil {
			m.T.Fatal(err)
		}
		made["match"], made["enabled"] = f.match, true
		for _, n := range made["nodes"].([]any) {
			data, _ := n.(map[string]any)["data"].(map[string]any)
			if own, ok := data["parameters"].(map[string]any); ok {
				maps.Copy(own, f.parameters)
			}
		}
		text, err := json.Marshal(made)
		if err != nil {
			m.T.Fatal(err)
		}
		m.Write(file, string(text))
	}
	for _, tmpl := range flow.Templates() {
		if !used[tmpl.Name] {
			m.T.Errorf("no test uses the template %s with a server", tmpl.Name)
		}
	}
	m.OK("flows", "validate")
	m.OK("trust", "--yes")
}

// TestFlowTemplates: each template does what it says in front of servers of npm.
func TestFlowTemplates(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	withRegistry(m)
	m.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"*"}}, Approvals: map[string]any{"ttl": "1h"}, Servers: publishedEntries("filesystem", "memory", "everything")})
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
	m.Write("secret.txt", "token "+token)
	m.Write("grows.txt", "1")
	m.Write("long.txt", strings.Repeat("long ", 1000))
	if err := os.Mkdir(filepath.Join(m.WS, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := wantAsked(m, `if ([].length > 0) { await mcp.filesystem.list_directory({path: "."}); await mcp.memory.read_graph({}); await mcp.everything.echo({message: ""}) } return 1`)
	for range r.Pending {
		m.PML("continue", string(r.WorkflowID), "--approve")
	}
	makeTemplates(m)

	got := map[string]string{}
	r = m.Execute(0, `const {filesystem: f, everything: e, memory: g} = mcp, out = {};
		const note = async (name, call) => { try { out[name] = JSON.stringify(await call()) } catch (x) { out[name] = x.code + ": " + x.message } };
		await note("inside docs", () => f.write_file({path: "docs/a.md", content: "a"}));
		await note("harmless", () => e.echo({message: "ls"}));
		await note("pattern", () => e.echo({message: "sudo rm -rf /"}));
		await note("secret", () => f.read_text_file({path: "secret.txt"}));
		for (const n of [1, 2, 3]) await note("sum " + n, () => e["get-sum"]({a: n, b: n}));
		await note("audited", () => g.create_entities({entities: [{name: "pml", entityType: "tool", observations: ["asks"]}]}));
		await note("info", () => f.get_file_info({path: "grows.txt"}));
		await f.edit_file({path: "grows.txt", edits: [{oldText: "1", newText: "12345"}]});
		await note("same info", () => f.get_file_info({path: "grows.txt"}));
		await note("no ticket", () => g.create_relations({relations: [{from: "pml", to: "pml", relationType: "is"}]}));
		await note("ticket", () => g.create_relations({relations: [{from: "pml", to: "pml", relationType: "PML-12"}]}));
		await note("closed", () => g.delete_entities({entityNames: ["pml"]}));
		await note("open", () => g.delete_observations({deletions: [{entityName: "pml", observations: ["no such"]}]}));
		await note("long for scripts", () => f.read_multiple_files({paths: ["long.txt"]}));
		return out`)
	if err := json.Unmarshal(r.Result, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"inside docs": "docs/a.md", "harmless": "Echo: ls", "pattern": "denied: ", "secret": "token [redacted]", "sum 1": "2.", "sum 2": "4.", "sum 3": "denied: ",
		"audited": "pml", "no ticket": "no ticket", "ticket": "PML-12", "closed": "from 0 to 0", "open": "", "long for scripts": strings.Repeat("long ", 500),
	} {
		if !strings.Contains(got[name], want) || want == "" && strings.Contains(got[name], "denied") {
			t.Errorf("%s: want %q in %.300q", name, want, got[name])
		}
	}
	if strings.Contains(got["secret"], token) || !strings.Contains(got["info"], "size: 1\\n") || got["info"] != got["same info"] {
		t.Errorf("%.300q, %q and then %q", got["secret"], got["info"], got["same info"])
	}
	if out := m.OK("tools", "call", "filesystem:read_multiple_files", "--args", `{"paths":["long.txt"]}`).Stdout; !strings.Contains(out, "characters were cut") || len(out) > 1500 {
		t.Errorf("an agent gets %.300q", out)
	}
	if out := m.OK("audit", "ls", "--json").Stdout; !strings.Contains(out, "flow:audited") || !strings.Contains(out, "memory:create_entities") {
		t.Errorf("audit log: %s", out)
	}
	templatesAsk(t, m)
}

// templatesAsk has the templates ask that do: before a write outside of docs, and before
// one of a run that has read from outside, not before it has.
func templatesAsk(t *testing.T, m *pmltest.Machine) {
	r := m.Execute(8, `const add = (o) => mcp.memory.add_observations({observations: [{entityName: "pml", contents: [o]}]});
		await add("before");
		await mcp.memory.search_nodes({query: "pml"});
		await Promise.all([add("after"), mcp.filesystem.write_file({path: "docs/../outside.md", content: "a"})]);
		return "done"`)
	var asked []string
	for _, a := range r.Pending {
		asked = append(asked, a.Description)
	}
	all := strings.Join(asked, "\n")
	if len(asked) != 2 || !strings.Contains(all, "has read something from outside") || !strings.Contains(all, "This writes outside of docs.") {
		t.Fatalf("asked: %q", asked)
	}
	for _, a := range r.Pending {
		if a.Type != core.ApproveTool {
			t.Errorf("%s", a.Type)
		}
	}
	if _, err := os.Stat(filepath.Join(m.WS, "outside.md")); err == nil {
		t.Error("it was written before anybody was asked")
	}
	m.PML("continue", string(r.WorkflowID), "--approve")
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if pmltest.ReadFile(t, filepath.Join(m.WS, "outside.md")) != "a" {
		t.Error("what was approved was not written")
	}
}
