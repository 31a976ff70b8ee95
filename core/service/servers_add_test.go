package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestAddServer_Refused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"mcpServers": {"old": {"command": "x"}}}`)
	c := m.client()
	for name, bad := range map[string]struct {
		e    api.ServerEntry
		want core.Code
	}{
		"Name":      {api.ServerEntry{Name: "a:b", Command: "x"}, core.CodeInvalidArguments},
		"NoName":    {api.ServerEntry{Command: "x"}, core.CodeInvalidArguments},
		"Builtin":   {api.ServerEntry{Name: "workspace", Command: "x"}, core.CodeInvalidArguments},
		"Nothing":   {api.ServerEntry{Name: "a"}, core.CodeInvalidArguments},
		"Both":      {api.ServerEntry{Name: "a", Command: "x", URL: "https://x"}, core.CodeInvalidArguments},
		"Http":      {api.ServerEntry{Name: "a", URL: "http://example.com/mcp"}, core.CodeInvalidArguments},
		"HttpVar":   {api.ServerEntry{Name: "a", URL: "HTTP://${HOST}/mcp"}, core.CodeInvalidArguments},
		"File":      {api.ServerEntry{Name: "a", URL: "file:///etc/passwd"}, core.CodeInvalidArguments},
		"Reference": {api.ServerEntry{Name: "a", Command: "x", Args: []string{"${"}}, core.CodeInvalidArguments},
		"Npx":       {api.ServerEntry{Name: "a", Command: "npx", Args: []string{"--unknown-flag", "x"}}, core.CodeInvalidConfig},
		"NpxShell":  {api.ServerEntry{Name: "a", Command: "npx", Args: []string{"-c", "rm -rf /"}}, core.CodeInvalidConfig},
		"Other":     {api.ServerEntry{Name: "old", Command: "y"}, core.CodeInvalidArguments},
	} {
		set, err := c.AddServer(c.ctx(), bad.e)
		if core.CodeOf(err) != bad.want || !set.Empty() {
			t.Errorf("%s: %s %v", name, core.CodeOf(err), err)
		}
	}
	for _, good := range []api.ServerEntry{
		{Name: "a", URL: "http://localhost:1/mcp"}, {Name: "a", URL: "http://[::1]:1/mcp"}, {Name: "a", URL: "http://127.0.0.2/mcp"},
		{Name: "a", URL: "https://example.com/mcp"}, {Name: "a", URL: "${URL}"}, {Name: "old", Command: "y", Home: true},
	} {
		if set, err := c.AddServer(c.ctx(), good); err != nil || len(set.Changes) != 1 {
			t.Errorf("%+v: %v", good, err)
		}
	}
	if set, err := c.AddServer(c.ctx(), api.ServerEntry{Name: "old", Command: "y", Replace: true}); err != nil || len(set.Changes) != 1 || !strings.Contains(set.Changes[0].Diff, `"y"`) {
		t.Errorf("in its place: %+v %v", set, err)
	}
	if set, err := c.AddServer(c.ctx(), api.ServerEntry{Name: "old", Command: "x"}); err != nil || !set.Empty() || len(set.Notes) != 1 {
		t.Errorf("%+v %v", set, err)
	}
}

// Keys that were typed are in .env and nowhere else, under a name that is
// nobody else's.
func TestAddServer_Keys(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".env", "API_KEY=that-of-another-server\nTOKEN=your-token-here")
	m.environ["GH_TOKEN"] = "from-the-environment"
	if err := os.Mkdir(filepath.Join(m.ws, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := m.client()
	const secret = "k-1234567890"
	set := c.adding(api.ServerEntry{
		Name: "my-git", Command: "npx", Args: []string{"git"},
		Env: map[string]string{"API_KEY": secret, "TOKEN": secret + "t", "GH_TOKEN": secret + "g", "MODE": "fast", "OTHER_KEY": "${OTHER_KEY}"},
	})
	raw, err := json.Marshal(set)
	if err != nil || strings.Contains(string(raw), secret) || len(set.Changes) != 2 {
		t.Fatalf("%v %s", err, raw)
	}
	if set.Changes[0].Diff != "@@ at the end @@\n+MY_GIT_API_KEY=«MY_GIT_API_KEY»\n+MY_GIT_GH_TOKEN=«MY_GIT_GH_TOKEN»\n+TOKEN=«TOKEN»\n" ||
		len(set.Changes[0].Notes) != 1 || !strings.Contains(set.Changes[0].Notes[0], ".gitignore") {
		t.Errorf("%+v", set.Changes[0])
	}
	if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
		t.Fatal(err)
	}
	if text, _ := m.file(".env"); text != "API_KEY=that-of-another-server\nTOKEN=your-token-here\nMY_GIT_API_KEY=k-1234567890\nMY_GIT_GH_TOKEN=k-1234567890g\nTOKEN=k-1234567890t\n" {
		t.Error(text)
	}
	text, _ := m.file(".pml.json")
	for _, want := range []string{`"API_KEY": "${MY_GIT_API_KEY}"`, `"GH_TOKEN": "${MY_GIT_GH_TOKEN}"`, `"TOKEN": "${TOKEN}"`, `"MODE": "fast"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	// The same once more changes nothing.
	if set := c.adding(api.ServerEntry{Name: "s", URL: "https://x/mcp?token=" + secret, Headers: map[string]string{"Authorization": "Bearer " + secret + "b"}}); strings.Contains(string(set.Changes[1].After), secret) {
		t.Errorf("%s", set.Changes[1].After)
	}
}

// The home's servers are for all workspaces: their keys are in no .env.
func TestAddServer_HomeKeys(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	set := c.adding(api.ServerEntry{Name: "s", Command: "npx", Args: []string{"s"}, Env: map[string]string{"API_KEY": "k-1234567890"}, Home: true})
	if len(set.Changes) != 1 || strings.Contains(string(set.Changes[0].After), "k-1234567890") || len(set.Notes) != 1 || !strings.Contains(set.Notes[0], "set API_KEY in the environment") {
		t.Errorf("%+v", set)
	}
}

// A key in the arguments or the URL of a server for all workspaces would be
// taken from the environment alone: that is refused, and said when servers are
// taken over.
func TestAddServer_HomeKeysInPlain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for _, e := range []api.ServerEntry{
		{Name: "s", Command: "npx", Args: []string{"s", "--token", secret}},
		{Name: "s", URL: "https://example.com/mcp?api_key=" + secret},
	} {
		if set := c.adding(e); len(set.Changes) != 2 {
			t.Errorf("in a workspace: %+v", set)
		}
		e.Home = true
		_, err := c.AddServer(c.ctx(), e)
		if refused := code(t, err, core.CodeInvalidArguments); !strings.Contains(refused.Message, "all workspaces") || strings.Contains(refused.Error(), secret) {
			t.Errorf("%v", refused)
		}
	}
	m.write("one.json", `{"mcpServers": {"s": {"command": "npx", "args": ["s", "--token", "`+secret+`"]}}}`)
	got := c.importing(api.ImportRequest{From: filepath.Join(m.ws, "one.json"), Home: true})
	if skipped := strings.Join(got.Sources[0].Skipped, ""); !got.Empty() || !strings.Contains(skipped, "all workspaces") || strings.Contains(skipped, secret) {
		t.Errorf("%+v", got)
	}
}

// A diff shows lines around the change: values of keys and the PIN's hash are
// left out of them.
func TestAddServer_DiffHasNoSecrets(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.writeHome("config.json", "{\n  \"approvals\": {\"pin\": \"$2a$12$abcdefghijklmnopqrstuvwxyz\"},\n  \"mcpServers\": {\"old\": {\"command\": \"x\", \"env\": {\"KEY\": \"clear-text-key\"}}}\n}\n")
	c := m.client()
	set := c.adding(api.ServerEntry{Name: "s\u0041", Command: "np\u202ex", Home: true})
	diff := set.Changes[0].Diff
	if strings.Contains(diff, "$2a$") || strings.Contains(diff, "clear-text-key") || strings.Contains(diff, "\u202e") || !strings.Contains(diff, "«PIN»") {
		t.Error(diff)
	}
}

func TestRemoveServer(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	both := `{"mcpServers": {"a": {"command": "x"}}}`
	m.write(".pml.json", both)
	m.writeHome("config.json", both)
	c := m.client()
	for i, file := range []string{filepath.Join(m.ws, ".pml.json"), filepath.Join(m.home, "config.json")} {
		set, err := c.RemoveServers(c.ctx(), "a")
		if err != nil || len(set.Changes) != 1 || set.Changes[0].File != file || (len(set.Notes) == 1) != (i == 0) {
			t.Fatalf("%v %+v", err, set)
		}
		if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
			t.Fatal(err)
		}
		if text, _ := m.file(file); text != `{"mcpServers": {}}` {
			t.Error(text)
		}
	}
	_, err := c.RemoveServers(c.ctx(), "a")
	code(t, err, core.CodeNoSuchTool)
}

// Several are removed together or not at all, from one file by one change.
func TestRemoveServers_Several(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "memory": {"command": "z"}}}`)
	m.writeHome("config.json", `{"mcpServers": {"c": {"command": "x"}}}`)
	c := m.client()
	_, err := c.RemoveServers(c.ctx(), "a", "memroy", "zzz")
	code(t, err, core.CodeNoSuchTool)
	if text := err.Error(); !strings.Contains(text, `"memroy" (did you mean memory?)`) || !strings.Contains(text, `"zzz"`) || strings.Contains(text, `"a"`) {
		t.Error(text)
	}
	set, err := c.RemoveServers(c.ctx(), "b", "a", "c", "b")
	if err != nil || len(set.Changes) != 2 || set.Changes[0].About+set.Changes[1].About != "no longer the server a, no longer the server bno longer the server c" &&
		set.Changes[0].About+set.Changes[1].About != "no longer the server cno longer the server a, no longer the server b" {
		t.Fatalf("%v %+v", err, set)
	}
	if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
		t.Fatal(err)
	}
	if text, _ := m.file(filepath.Join(m.ws, ".pml.json")); strings.Contains(text, `"a"`) || strings.Contains(text, `"b"`) || !strings.Contains(text, `"memory"`) {
		t.Error(text)
	}
	if text, _ := m.file(filepath.Join(m.home, "config.json")); text != `{"mcpServers": {}}` {
		t.Error(text)
	}
}
