package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// person is the home folder of the person, where hosts keep their files.
func (m *machine) person() string {
	m.t.Helper()
	user := filepath.Join(filepath.Dir(m.ws), "user")
	m.environ["HOME"], m.environ["USERPROFILE"] = user, user
	if err := os.MkdirAll(user, 0o700); err != nil {
		m.t.Fatal(err)
	}
	return user
}

// put writes a file and the folders above it.
func (m *machine) put(file, text string) string {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		m.t.Fatal(err)
	}
	return file
}

func (m *machine) at(file string) string {
	m.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(raw)
}

func (c *client) hosts(undo bool, names ...string) []api.HostChange {
	c.t.Helper()
	list, err := c.HostChanges(c.ctx(), api.HostRequest{Hosts: names, Undo: undo})
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

// host is the one change of a host, in a state.
func (c *client) host(undo bool, name string, want api.HostState) api.HostChange {
	c.t.Helper()
	list := c.hosts(undo, name)
	if len(list) != 1 || list[0].State != want {
		c.t.Fatalf("%+v, want %s", list, want)
	}
	return list[0]
}

func (c *client) told(undo bool, name string, want api.HostState) api.HostChange {
	c.t.Helper()
	h := c.host(undo, name, want)
	if err := c.WriteHost(c.ctx(), h); err != nil {
		c.t.Fatal(err)
	}
	return h
}

const claudeFile = "{\r\n\t\"mcpServers\": { // mine\r\n\t\t\"gh\": {\"command\": \"gh\", \"env\": {\"TOKEN\": \"ghp_0123456789abcdef\"}},\r\n\t},\r\n}\r\n"

// Telling a host and taking it back leaves every byte, the mode and the link to
// the file; nothing that is shown holds anybody's key.
func TestHosts_ThereAndBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	user := m.person()
	real := m.put(filepath.Join(m.ws, "config", "claude.json"), "\ufeff"+claudeFile)
	if err := os.Symlink(real, filepath.Join(m.ws, ".mcp.json")); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	codex := m.put(filepath.Join(user, ".codex", "config.toml"), "# mine\nmodel = \"x\"\n[mcp_servers.gh]\ncommand = \"gh\"\nenv = { TOKEN = \"ghp_0123456789abcdef\" }\n")
	before := m.at(codex)
	c := m.client()
	for _, name := range []string{"claude-code", "codex"} {
		h := c.told(false, name, api.HostNew)
		if strings.Contains(h.Change.Diff, "ghp_") || !strings.Contains(h.Change.Diff, "stdio") {
			t.Errorf("%s", h.Change.Diff)
		}
		c.host(false, name, api.HostRegistered)
	}
	if text := m.at(real); !strings.Contains(text, "\r\n\t\t\"pml\": {\r\n\t\t\t\"command\": \"pml\"") || !strings.Contains(text, "// mine") {
		t.Errorf("%q", text)
	}
	if text := m.at(codex); !strings.HasPrefix(text, before) || !strings.Contains(text, "PML_WORKSPACE = \""+m.ws) {
		t.Errorf("%q", text)
	}
	info, err := os.Lstat(filepath.Join(m.ws, ".mcp.json"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if list := c.hosts(true); len(list) != 2 {
		t.Errorf("%+v", list)
	}
	for _, name := range []string{"claude-code", "codex"} {
		if h := c.told(true, name, api.HostAdded); strings.Contains(h.Change.Diff, "ghp_") {
			t.Errorf("%s", h.Change.Diff)
		}
	}
	if d := cmp.Diff("\ufeff"+claudeFile, m.at(real)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, m.at(codex)); d != "" {
		t.Error(d)
	}
	if list := c.hosts(true); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// A file that pml made goes with its folder, unless somebody else uses them.
func TestHosts_Made(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.person()
	c := m.client()
	vscode, cursor := filepath.Join(m.ws, ".vscode"), filepath.Join(m.ws, ".cursor")
	c.told(false, "vscode", api.HostNew)
	c.told(false, "cursor", api.HostNew)
	m.put(filepath.Join(cursor, "rules"), "mine")
	m.put(filepath.Join(m.ws, ".pml.json"), "{\"version\": 1}")
	if h := c.told(true, "vscode", api.HostAdded); h.Change.After != nil {
		t.Errorf("%q", h.Change.After)
	}
	c.told(true, "cursor", api.HostAdded)
	if _, err := os.Stat(vscode); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", vscode, err)
	}
	if _, err := os.Stat(filepath.Join(cursor, "mcp.json")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if m.at(filepath.Join(cursor, "rules")) != "mine" {
		t.Error("what a person keeps is gone")
	}
	// An empty file that was there stays.
	file := m.put(filepath.Join(m.ws, ".mcp.json"), "")
	c.told(false, "claude-code", api.HostNew)
	c.told(true, "claude-code", api.HostAdded)
	if m.at(file) != "" {
		t.Error("not as it was")
	}
	// One that somebody added a server to stays as well.
	c.told(false, "vscode", api.HostNew)
	file = filepath.Join(vscode, "mcp.json")
	m.put(file, strings.Replace(m.at(file), "\"pml\":", "\"mine\": {\"command\": \"x\"},\n    \"pml\":", 1))
	c.told(true, "vscode", api.HostAdded)
	if text := m.at(file); !strings.Contains(text, "mine") || strings.Contains(text, "pml") {
		t.Error(text)
	}
}

// An entry that is somebody else's is shown, and comes back.
func TestHosts_Differs(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.person()
	c := m.client()
	const theirs = `{"mcpServers": {"pml": {"command": "node", "args": ["pml.js", "--token=SECRET-1234"], "env": {"K": "SECRET-2345"}}}}`
	file := m.put(filepath.Join(m.ws, ".mcp.json"), theirs)
	h := c.told(false, "claude-code", api.HostDiffers)
	if strings.Contains(h.Change.Diff, "SECRET") || !strings.Contains(h.Change.Diff, "-command: node") || !strings.Contains(h.Change.Diff, "+command: pml") {
		t.Errorf("%s", h.Change.Diff)
	}
	c.host(false, "claude-code", api.HostRegistered)
	// A person changes it; pml registers once more, and then takes back its own.
	m.put(file, strings.Replace(m.at(file), `"stdio"`, `"stdio", "--quiet"`, 1))
	if h := c.host(true, "claude-code", api.HostChanged); !strings.Contains(strings.Join(h.Change.Notes, " "), "somebody has changed") {
		t.Errorf("%+v", h.Change)
	}
	c.told(true, "claude-code", api.HostChanged)
	if m.at(file) != theirs {
		t.Errorf("%s", m.at(file))
	}
	m.put(file, `{"mcpServers": {}}`)
	if list := c.hosts(true); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// Another workspace takes the one entry of a host over; undo gives it back, and
// undo there goes back to what was before pml.
func TestHosts_TwoWorkspaces(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := m.put(filepath.Join(m.person(), ".codex", "config.toml"), "model = \"x\"\n")
	c := m.client()
	c.told(false, "codex", api.HostNew)
	c.close()
	other := *m
	other.ws = m.ws + "2"
	other.put(filepath.Join(other.ws, "a.txt"), "")
	c = other.client()
	if list := c.hosts(true); len(list) != 0 {
		t.Errorf("what another workspace added: %+v", list)
	}
	h := c.told(false, "codex", api.HostDiffers)
	if !strings.Contains(h.Change.Diff, "-env PML_WORKSPACE: "+m.ws+"\n+env PML_WORKSPACE: "+other.ws) {
		t.Errorf("%s", h.Change.Diff)
	}
	other.put(file, "# more\n"+m.at(file)) // what else changes meanwhile stays
	h = c.told(true, "codex", api.HostAdded)
	if !strings.Contains(h.Change.Diff, "+env PML_WORKSPACE: "+m.ws+"\n") || !strings.Contains(strings.Join(h.Change.Notes, " "), m.ws+", ") {
		t.Errorf("%s %q", h.Change.Diff, h.Change.Notes)
	}
	if text := m.at(file); !strings.Contains(text, "PML_WORKSPACE = \""+m.ws+"\"") || strings.Contains(text, other.ws) {
		t.Errorf("%q", text)
	}
	c.close()
	c = m.client()
	c.host(false, "codex", api.HostRegistered)
	c.told(true, "codex", api.HostAdded)
	if m.at(file) != "# more\nmodel = \"x\"\n" {
		t.Errorf("%q", m.at(file))
	}
}

// A workspace that took its own entry back, or is gone, is not given it back.
func TestHosts_NotGivenBack(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"Gone": true, "InTurns": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			file := m.put(filepath.Join(m.person(), ".codex", "config.toml"), "model = \"x\"\n")
			other := *m
			other.ws = m.ws + "2"
			other.put(filepath.Join(other.ws, "a.txt"), "")
			for n, here := range []*machine{m, &other, m, &other, m} {
				c := here.client()
				state := api.HostDiffers
				if n == 0 {
					state = api.HostNew
				}
				c.told(false, "codex", state)
				c.close()
			}
			if gone {
				if err := os.RemoveAll(other.ws); err != nil {
					t.Fatal(err)
				}
			}
			c := m.client()
			c.told(true, "codex", api.HostAdded)
			c.close()
			if !gone {
				c = other.client()
				c.told(true, "codex", api.HostAdded)
			}
			if m.at(file) != "model = \"x\"\n" {
				t.Errorf("%q", m.at(file))
			}
		})
	}
}

// What is broken, read-only, foreign or not a file is left alone, with the
// reason.
func TestHosts_Unusable(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.person()
	c := m.client()
	file := filepath.Join(m.ws, ".mcp.json")
	outside := m.put(filepath.Join(filepath.Dir(m.ws), "outside", "mcp.json"), "{}")
	for name, prepare := range map[string]func() error{
		"not valid JSON": func() error {
			return os.WriteFile(file, []byte("{\"mcpServers\": {\"a\": \"ghp_0123456789abcdef\""), 0o600)
		},
		"read-only":       func() error { return os.WriteFile(file, []byte("{}"), 0o400) },
		"no plain file":   func() error { return os.Mkdir(file, 0o700) },
		"out of the":      func() error { return os.Symlink(outside, file) },
		"cannot be found": func() error { return os.Symlink(outside+"x", file) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if h := c.host(false, "claude-code", api.HostUnusable); !strings.Contains(h.Reason, name) || strings.Contains(h.Reason, "ghp_") || h.Change != nil {
			t.Errorf("%s: %+v", name, h)
		}
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(m.ws, ".vscode")); err != nil {
		t.Fatal(err)
	}
	if h := c.host(false, "vscode", api.HostUnusable); !strings.Contains(h.Reason, "out of the workspace") {
		t.Errorf("%+v", h)
	}
	if m.at(outside) != "{}" {
		t.Error("written outside")
	}
	_, err := c.HostChanges(c.ctx(), api.HostRequest{Hosts: []string{"cluade-code"}})
	if e := code(t, err, core.CodeInvalidArguments); !strings.Contains(e.Message, "claude-code") {
		t.Error(e)
	}
}

// Nothing is written over what somebody else wrote after it was shown, nor over
// anything else than what was shown.
func TestHosts_ChangedMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.person()
	c := m.client()
	file := m.put(filepath.Join(m.ws, ".mcp.json"), "{}")
	h := c.host(false, "claude-code", api.HostNew)
	m.put(file, "{ }")
	code(t, c.WriteHost(c.ctx(), h), core.CodeDigestMismatch)
	if m.at(file) != "{ }" {
		t.Errorf("%s", m.at(file))
	}
	h = c.host(false, "claude-code", api.HostNew)
	forged := *h.Change
	forged.Digest, forged.After = "", []byte("{\"evil\": 1}")
	h.Change = &forged
	code(t, c.WriteHost(c.ctx(), h), core.CodeDigestMismatch)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.told(false, "claude-code", api.HostNew)
	m.put(file, "{}")
	c.told(true, "claude-code", api.HostGone)
	if list := c.hosts(true); len(list) != 0 || m.at(file) != "{}" {
		t.Errorf("%+v %s", list, m.at(file))
	}
}

// Only hosts that are in use are offered, and Claude Code once.
func TestHosts_Found(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	user := m.person()
	c := m.client()
	states := func() map[string]api.HostState {
		out := map[string]api.HostState{}
		for _, h := range c.hosts(false) {
			out[h.Host] = h.State
			if h.Covered != "" {
				out[h.Host] += " by " + api.HostState(h.Covered)
			}
		}
		return out
	}
	if d := cmp.Diff(map[string]api.HostState{}, states()); d != "" {
		t.Error(d)
	}
	claude := m.put(filepath.Join(user, ".claude.json"), `{"projects": {}}`)
	m.put(filepath.Join(user, ".codex", "auth.json"), "{}")
	if err := os.Mkdir(filepath.Join(m.ws, ".vscode"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]api.HostState{"claude-code": api.HostNew, "claude-code-user": "new by claude-code", "codex": api.HostNew, "vscode": api.HostNew}
	if d := cmp.Diff(want, states()); d != "" {
		t.Error(d)
	}
	// As "claude mcp add pml -- pml stdio" leaves it.
	m.put(claude, `{"projects": {"`+filepath.ToSlash(m.ws)+`": {"mcpServers": {"pml": {"type": "stdio", "command": "pml", "args": ["stdio"], "env": {}}}}}}`)
	want["claude-code"], want["claude-code-user"] = "registered by claude-code-user", api.HostRegistered
	if d := cmp.Diff(want, states()); d != "" {
		t.Error(d)
	}
}

// What a newer pml noted, or what nobody can read, is not written over.
func TestHosts_Notes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.person()
	c := m.client()
	for text, want := range map[string]core.Code{`{"version": 2}`: core.CodeStoreNewer, `{`: core.CodeStoreFailed} {
		m.put(filepath.Join(m.home, "hosts.json"), text)
		_, err := c.HostChanges(c.ctx(), api.HostRequest{Hosts: []string{"codex"}})
		code(t, err, want)
	}
	if err := os.Remove(filepath.Join(m.home, "hosts.json")); err != nil {
		t.Fatal(err)
	}
	c.told(false, "codex", api.HostNew)
	if info, err := os.Stat(filepath.Join(m.home, "hosts.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// What pml has not added to the files of hosts is told apart from what it has.
func TestHostChanges_ByHand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.person()
	c := m.client()
	mine := m.put(filepath.Join(m.ws, ".cursor", "mcp.json"), `{"mcpServers": {"gate": {"command": "pml", "args": ["stdio", "--quiet"]}, "x": {"command": "x"}, "pml": {"command": "/opt/pml", "args": ["stdio"]}}}`)
	m.put(filepath.Join(m.ws, ".vscode", "mcp.json"), `{"servers": {"other": {"type": "stdio", "command": "x"}}}`)
	added := c.host(false, "claude-code", api.HostNew)
	if err := c.WriteHost(c.ctx(), added); err != nil {
		t.Fatal(err)
	}
	got, err := c.HostChanges(c.ctx(), api.HostRequest{ByHand: true})
	want := []api.HostChange{{Host: "cursor", Title: "Cursor", File: mine, State: api.HostByHand, Entry: "pml"}, {Host: "cursor", Title: "Cursor", File: mine, State: api.HostByHand, Entry: "gate"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
