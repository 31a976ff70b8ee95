package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// asks runs a script that writes a file, and decides what it asks.
func (c *client) asks(path string, d api.Decision) {
	c.t.Helper()
	r := c.execute(fmt.Sprintf(`await mcp.workspace.write_file({path: %q, content: "x"})`, path), api.StatusApprovalRequired)
	if _, err := c.decide(r.WorkflowID, d); err != nil {
		c.t.Fatal(err)
	}
}

// Rules are proposed from what people have approved, count what they would save, and
// are gone once they are written and trusted.
func TestPermissions_Suggest(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{}`)
	c := m.client()
	since := m.clock.Now().Add(-time.Hour)
	yes := api.Decision{Approve: true, Presence: core.PresenceTerminal}
	suggested := func() (out []string) {
		t.Helper()
		list, err := c.SuggestRules(c.ctx(), since)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			out = append(out, fmt.Sprintf("%d %d %s %s", s.Number, s.Saves, s.Rule.Tool, s.Rule.Where))
		}
		return out
	}
	for i := range 4 {
		c.asks(fmt.Sprintf("docs/%d.md", i), yes)
		c.asks(fmt.Sprintf("src/%d.go", i), api.Decision{Approve: true})                       // nobody was asked
		c.asks(fmt.Sprintf(".vscode/%d.json", i), yes)                                         // of high risk
		c.asks(fmt.Sprintf("docs/no/%d.md", i), api.Decision{Presence: core.PresenceTerminal}) // denied
	}
	c.asks("src/4.go", api.Decision{Approve: true})
	if got := suggested(); got != nil {
		t.Errorf("four are too few: %q", got)
	}
	c.asks("docs/4.md", yes)
	if got := suggested(); got != nil { // it would let the denied ones through
		t.Errorf("denied: %q", got)
	}
	for i := range 5 {
		c.asks(fmt.Sprintf("notes/a/%d.md", i), yes)
	}
	rule := api.PermissionRule{List: "allow", Tool: "workspace:write_file", Where: `args.content == 'x' && under(args.path, 'notes/a') && all(keys(args), # in ['content', 'path'])`}
	if diff := cmp.Diff([]string{"1 5 " + rule.Tool + " " + rule.Where}, suggested()); diff != "" {
		t.Fatal(diff)
	}
	set, err := c.AddRules(c.ctx(), false, rule)
	if err != nil || len(set.Changes) != 1 || !strings.Contains(set.Changes[0].Diff, "notes/a") {
		t.Fatalf("%+v, %v", set, err)
	}
	if _, err := c.Write(c.ctx(), set, true, ""); err != nil {
		t.Fatal(err)
	}
	c.trust()
	if got := suggested(); got != nil {
		t.Errorf("it is written: %q", got)
	}
	c.execute(`await mcp.workspace.write_file({path: "notes/a/9.md", content: "x"})`, api.StatusSuccess)
	c.execute(`await mcp.workspace.write_file({path: "notes/9.md", content: "x"})`, api.StatusApprovalRequired)
	if set, err := c.AddRules(c.ctx(), false, rule); err != nil || !set.Empty() {
		t.Errorf("it stands there already: %+v, %v", set, err)
	}
	if set, err := c.AddRules(c.ctx(), true, rule); err != nil || set.Empty() {
		t.Errorf("it holds in one workspace, and is asked for in all: %+v, %v", set, err)
	}
	everywhere := api.PermissionRule{List: "ask", Tool: "workspace", Where: "run.depth > 0"}
	if set, err = c.AddRules(c.ctx(), true, everywhere); err == nil {
		_, err = c.Write(c.ctx(), set, false, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	if set, err := c.AddRules(c.ctx(), true, everywhere); err != nil || !set.Empty() {
		t.Errorf("it stands in the home already: %+v, %v", set, err)
	}
	rules, err := c.Rules(c.ctx())
	rule.From, everywhere.From = "workspace", "home"
	if err != nil || !slices.Contains(rules, rule) || !slices.Contains(rules, everywhere) {
		t.Errorf("%+v, %v", rules, err)
	}
}

// A candidate is tried on recorded calls: with the arguments that were sent, and with
// what was decided about them.
func TestPermissions_Try(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".env", "API_KEY=hunter2hunter2\n")
	m.write(".pml.json", `{"mcpServers": {"x": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}}}`)
	c := m.client()
	c.trust()
	yes, no := api.Decision{Approve: true, Presence: core.PresenceTerminal}, api.Decision{Presence: core.PresenceTerminal}
	c.asks("docs/a.md", yes)
	c.asks("docs/b.md", no)
	c.asks("src/hunter2hunter2", yes)
	c.execute(`return [await mcp.workspace.stat({path: "docs/a.md"}), await mcp.workspace.stat({path: "."})]`, api.StatusSuccess)
	try := func(list, tool, where string) []string {
		t.Helper()
		r, err := c.TryRule(c.ctx(), api.PermissionRule{List: list, Tool: tool, Where: where}, m.clock.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		out := []string{fmt.Sprintf("%d calls, %d failed", r.Calls, r.Failed)}
		for _, ch := range r.Changed {
			out = append(out, fmt.Sprintf("%s %s→%s %s %s", ch.Tool, ch.Now, ch.Then, ch.Decided, ch.Arguments))
		}
		slices.Sort(out[1:])
		return out
	}
	for _, tt := range []struct {
		list, tool, where string
		want              []string
	}{
		{"allow", "workspace:write_file", `under(args.path, "docs")`, []string{
			"3 calls, 0 failed", `workspace:write_file ask→allow approved {"path":"docs/a.md","content":"x"}`, `workspace:write_file ask→allow denied {"path":"docs/b.md","content":"x"}`,
		}},
		{"deny", "workspace:stat", `args.path == "."`, []string{"2 calls, 0 failed", `workspace:stat allow→deny  {"path":"."}`}},
		{"ask", "workspace:stat", `args.nothing`, []string{"2 calls, 2 failed", `workspace:stat allow→ask  {"path":"."}`, `workspace:stat allow→ask  {"path":"docs/a.md"}`}},
		{"allow", "workspace:write_file", `args.nothing`, []string{"3 calls, 3 failed"}},
		{"deny", "workspace:write_file", `args.path startsWith "src"`, []string{"3 calls, 0 failed", `workspace:write_file ask→deny approved {"path":"src/«API_KEY»","content":"x"}`}},
		{"deny", "other", "", []string{"0 calls, 0 failed"}},
	} {
		if diff := cmp.Diff(tt.want, try(tt.list, tt.tool, tt.where)); diff != "" {
			t.Errorf("%s %s where %s: %s", tt.list, tt.tool, tt.where, diff)
		}
	}
	for _, r := range []api.PermissionRule{{List: "never", Tool: "a"}, {List: "allow", Tool: "a["}, {List: "allow", Tool: "a", Where: "x y"}} {
		if _, err := c.TryRule(c.ctx(), r, time.Time{}); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// A trial says of how many calls it knows nothing of the tool: its server is no more.
func TestPermissions_TryUnknown(t *testing.T) {
	t.Parallel()
	m, _ := exposing(t, exposeAll)
	c := m.client().trusting()
	if _, err := c.through("up:read", `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	c.close()
	rule := api.PermissionRule{List: "ask", Tool: "up:read", Where: "annotations.read_only"}
	for unknown, config := range []string{"", `{}`} {
		if config != "" {
			m.write(".pml.json", config)
		}
		c := m.client().trusting()
		r, err := c.TryRule(t.Context(), rule, m.clock.Now().Add(-time.Hour))
		if err != nil || r.Calls != 1 || r.Unknown != unknown {
			t.Errorf("%+v, %v", r, err)
		}
		c.close()
	}
}

// A rule that is written and removed keeps the trust of the workspace when a person agrees,
// the audit log says which it was, and one that is not valid is refused before it is shown.
func TestPermissions_WrittenAndRemoved(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.write(".pml.json", `{"permissions": {"deny": ["workspace:move"], "allow": ["workspace:write_file"]}}`)
	c.trust()
	written := func(set api.ChangeSet, err error) {
		t.Helper()
		if err != nil || len(set.Changes) != 1 {
			t.Fatalf("%+v, %v", set, err)
		}
		if trusted, err := c.Write(c.ctx(), set, true, ""); err != nil || !trusted {
			t.Fatalf("trusted %v, %v", trusted, err)
		}
	}
	rule := api.PermissionRule{List: "allow", Tool: "workspace:mkdir", Where: "args.path == 'a'"}
	written(c.AddRules(c.ctx(), false, rule))
	written(c.RemoveRules(c.ctx(), false, api.PermissionRule{Tool: "workspace:write_file"}))
	written(c.RemoveRules(c.ctx(), false, api.PermissionRule{List: "deny", Tool: "workspace:move"}))
	written(c.AddRules(c.ctx(), true, api.PermissionRule{List: "allow", Tool: "elsewhere"})) // trust has nothing to do with it
	rules, err := c.Rules(c.ctx())
	if diff := cmp.Diff([]api.PermissionRule{{List: "allow", Tool: "elsewhere", From: "home"}, {List: "allow", Tool: rule.Tool, Where: rule.Where, From: "workspace"}}, rules); err != nil || diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
	rows, err := c.Audit(c.ctx(), api.AuditQuery{})
	var said []string
	for _, r := range rows {
		if about, _, ok := strings.Cut(r.Reason, ", by the change of "); ok {
			said = append(said, about)
		}
	}
	want := []string{"allow workspace:mkdir where args.path == 'a'", "no longer allow workspace:write_file", "no longer deny workspace:move", "allow elsewhere"}
	if diff := cmp.Diff(want, said); err != nil || diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
	written(c.AddRules(c.ctx(), false, api.PermissionRule{List: "deny", Tool: "workspace:move"}))
	if set, err := c.AddRules(c.ctx(), false, api.PermissionRule{List: "allow", Tool: "workspace:move"}); err != nil || len(set.Notes) != 1 || !strings.Contains(set.Notes[0], `"workspace:move" in permissions.deny`) {
		t.Errorf("a rule that decides nothing: %+v, %v", set, err)
	}
	for _, like := range []api.PermissionRule{{Tool: "workspace:mkdir", Where: "true"}, {Tool: "workspace:mkdir", List: "deny"}, {Tool: "workspace"}} {
		if _, err := c.RemoveRules(c.ctx(), false, like); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("%+v: %v", like, err)
		}
	}
	if _, err := c.AddRules(c.ctx(), false, api.PermissionRule{List: "allow", Tool: "fs:a", Where: "args."}); core.CodeOf(err) != core.CodeInvalidArguments {
		t.Error(err)
	}
}
