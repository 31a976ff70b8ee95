package service_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestKeysFound: a key is found once .env or the environment has it; neither a
// placeholder nor what the file of another folder has counts.
func TestKeysFound(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const config = `{"mcpServers": {"tavily": {"command": "tavily-mcp", "env": {"TAVILY_API_KEY": "${TAVILY_API_KEY}"}},
		"two": {"type": "http", "url": "https://two.example", "headers": {"Authorization": "Bearer ${TWO_TOKEN}", "X-Org": "${TWO_ORG}"}}}}`
	m.write(".pml.json", config)
	c := m.client()
	ask := func(subject string, keys ...string) core.ID {
		raw, err := json.Marshal(map[string]any{"missing_keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		_, id := c.ask("", core.Approval{Type: core.ApproveKeys, Subject: subject, Tool: subject, Workspace: m.ws, Context: raw})
		return id
	}
	one, two := ask("tavily", "TAVILY_API_KEY"), ask("two", "TWO_ORG", "TWO_TOKEN")
	found := func(step string, id core.ID, want ...string) {
		t.Helper()
		got, err := c.KeysFound(c.ctx(), id)
		if err != nil || got == nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %#v, want %v", step, err, got, want)
		}
	}
	found("no file", one)
	m.write(".env", "TAVILY_API_KEY=your-key-here\nTWO_ORG=\n")
	found("a placeholder", one)
	found("empty", two)
	m.write(".env", "TAVILY_API_KEY=tvly-1234567890\nTWO_ORG=acme\n")
	found("in the file", one, "TAVILY_API_KEY")
	found("one of two", two, "TWO_ORG")
	m.environ["TWO_TOKEN"] = "of-the-environment"
	found("in the environment", two, "TWO_ORG", "TWO_TOKEN")
	ap, err := c.Approval(c.ctx(), two)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.KeysOf(c.ctx(), ap); err != nil || !slices.Equal(got, []string{"TWO_ORG"}) {
		t.Errorf("as the server of the machine sees it: %v %v", got, err)
	}
	m.write(".env", "TAVILY_API_KEY='tvly-1234567890\n")
	_, err = c.KeysFound(c.ctx(), one)
	if e := code(t, err, core.CodeInvalidConfig); strings.Contains(e.Error(), "tvly-1234567890") {
		t.Errorf("a value was told: %v", e)
	}
	_, err = c.KeysFound(c.ctx(), newID())
	code(t, err, core.CodeNotFound)
}

// TestKeysFound_Other: other approvals have no keys to look for.
func TestKeysFound_Other(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", ownConfig)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	if names, err := c.KeysFound(c.ctx(), r.CheckpointID); err != nil || names != nil {
		t.Errorf("%v %v", names, err)
	}
}
