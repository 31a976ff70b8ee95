package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// hosted is a machine with files of two agent hosts.
func hosted(t *testing.T) *machine {
	m := newMachine(t)
	user := filepath.Join(filepath.Dir(m.ws), "user")
	m.environ["HOME"], m.environ["USERPROFILE"] = user, user
	m.write(".mcp.json", `{"mcpServers": {
		"files": {"command": "npx", "args": ["-y", "server-filesystem", "."]},
		"search": {"command": "npx", "args": ["-y", "search"], "env": {"API_KEY": "k-1234567890", "LIMIT": "5"}},
		"broken": {"command": "npx", "args": ["-c", "rm -rf /"]}
	}}`)
	if err := os.MkdirAll(filepath.Join(user, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	cursor := `{"mcpServers": {"files": {"command": "evil"}, "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer k-0987654321"}}}}`
	if err := os.WriteFile(filepath.Join(user, ".cursor", "mcp.json"), []byte(cursor), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (c *client) importing(req api.ImportRequest) api.Import {
	c.t.Helper()
	got, err := c.ImportServers(c.ctx(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	raw, err := json.Marshal(got)
	if err != nil || strings.Contains(string(raw), "k-1234567890") || strings.Contains(string(raw), "k-0987654321") {
		c.t.Fatalf("%v %s", err, raw)
	}
	return got
}

func (m *machine) servers() map[string]map[string]any {
	m.t.Helper()
	text, _ := m.file(".pml.json")
	var f struct {
		Servers map[string]map[string]any `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		m.t.Fatal(err)
	}
	return f.Servers
}

func TestImport_All(t *testing.T) {
	t.Parallel()
	m := hosted(t)
	c := m.client()
	got := c.importing(api.ImportRequest{})
	if len(got.Sources) != 2 || got.Sources[0].Host != "mcp.json" || got.Sources[1].Host != "cursor" || len(got.Changes) != 2 {
		t.Fatalf("%+v", got)
	}
	if s := got.Sources[0].Skipped; len(s) != 1 || !strings.HasPrefix(s[0], "broken: ") {
		t.Errorf("%q", s)
	}
	if s := got.Sources[1].Skipped; len(s) != 1 || !strings.HasPrefix(s[0], "files: the one of ") || !strings.HasSuffix(s[0], "comes first") {
		t.Errorf("%q", s)
	}
	trusted, err := c.Write(c.ctx(), got.ChangeSet, true, "")
	if err != nil || !trusted {
		t.Fatal(trusted, err)
	}
	servers := m.servers()
	if len(servers) != 3 || servers["files"]["command"] != "npx" || servers["search"]["env"].(map[string]any)["API_KEY"] != "${API_KEY}" ||
		servers["web"]["headers"].(map[string]any)["Authorization"] != "Bearer ${WEB_AUTHORIZATION}" {
		t.Errorf("%+v", servers)
	}
	if text, mode := m.file(".env"); text != "API_KEY=k-1234567890\nWEB_AUTHORIZATION=k-0987654321\n" || mode != 0o600 {
		t.Errorf("%q %s", text, mode)
	}
	// Once more there is nothing to do, and every server says why.
	again := c.importing(api.ImportRequest{})
	if !again.Empty() || len(again.Sources[0].Skipped)+len(again.Sources[1].Skipped) != 5 {
		t.Errorf("%+v", again)
	}
}

func TestImport_Chosen(t *testing.T) {
	t.Parallel()
	m := hosted(t)
	m.write(".pml.json", `{"mcpServers": {"files": {"command": "own"}}}`)
	c := m.client()
	got := c.importing(api.ImportRequest{From: "mcp.json", Names: []string{"files"}})
	if !got.Empty() || !slices.ContainsFunc(got.Sources[0].Skipped, func(s string) bool { return strings.Contains(s, "--replace") }) {
		t.Errorf("%+v", got)
	}
	got = c.importing(api.ImportRequest{From: filepath.Join(m.ws, ".mcp.json"), Names: []string{"files"}, Replace: true})
	if len(got.Changes) != 1 || !strings.Contains(string(got.Changes[0].After), "server-filesystem") || strings.Contains(string(got.Changes[0].After), "own") {
		t.Errorf("%+v", got)
	}
	got = c.importing(api.ImportRequest{From: "cursor", Home: true, Names: []string{"web"}})
	if len(got.Changes) != 1 || got.Changes[0].File != filepath.Join(m.home, "config.json") || len(got.Notes) != 2 || !strings.Contains(strings.Join(got.Notes, "\n"), "still has the keys of web") {
		t.Errorf("%+v", got)
	}
	for _, bad := range []struct {
		req  api.ImportRequest
		want core.Code
	}{
		{api.ImportRequest{Names: []string{"flies"}}, core.CodeNoSuchTool},
		{api.ImportRequest{From: "curser"}, core.CodeInvalidArguments},
		{api.ImportRequest{From: "claude-desktop"}, core.CodeInvalidArguments},
		{api.ImportRequest{From: filepath.Join(m.ws, "a.txt")}, core.CodeInvalidConfig},
	} {
		_, err := c.ImportServers(c.ctx(), bad.req)
		if core.CodeOf(err) != bad.want {
			t.Errorf("%+v: %v", bad.req, err)
		}
	}
}

// A key of one server never becomes that of another one.
func TestImport_KeysOfTheSameName(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".env", "API_KEY=mine-1234567890\n")
	m.write("two.json", `{"mcpServers": {
		"a": {"command": "npx", "args": ["a"], "env": {"API_KEY": "of-a-1234567890"}},
		"b": {"command": "npx", "args": ["b"], "env": {"API_KEY": "of-b-1234567890"}}
	}}`)
	c := m.client()
	got := c.importing(api.ImportRequest{From: filepath.Join(m.ws, "two.json")})
	if _, err := c.Write(c.ctx(), got.ChangeSet, false, ""); err != nil {
		t.Fatal(err)
	}
	text, _ := m.file(".env")
	for server, want := range map[string]string{"a": "of-a-1234567890", "b": "of-b-1234567890"} {
		ref, _ := m.servers()[server]["env"].(map[string]any)["API_KEY"].(string)
		name := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
		if !strings.Contains(text, "\n"+name+"="+want+"\n") {
			t.Errorf("%s uses %s of\n%s", server, ref, text)
		}
	}
}
