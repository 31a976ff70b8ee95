package hosts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/hosts"
)

// ann is where the files of testdata are at home.
func ann(environ map[string]string) hosts.Place {
	return hosts.Place{Home: "/home/ann", Workspace: "/home/ann/shop", GOOS: "linux", Environ: func(name string) (string, bool) {
		v, ok := environ[name]
		return v, ok
	}}
}

// put writes a file of testdata, or a text, below a folder.
func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if from, ok := strings.CutPrefix(text, "testdata/"); ok {
		raw, err := os.ReadFile(filepath.Join("testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		text = string(raw)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// read reads a text as a file of a name.
func read(t *testing.T, name, text string) hosts.Found {
	t.Helper()
	file := put(t, t.TempDir(), name, text)
	f, err := hosts.Read(ann(nil), file)
	if err != nil {
		t.Fatal(err)
	}
	if f.File != file {
		t.Errorf("file %q", f.File)
	}
	f.File = ""
	return f
}

type m = map[string]string

// accepted wants entries that .pml.json takes as they are.
func accepted(t *testing.T, entries []hosts.Entry) {
	t.Helper()
	for _, e := range entries {
		_, err := env.SetServer(".pml.json", nil, env.ServerEntry{
			Name: e.Name, Command: e.Command, Args: e.Args, Env: e.Env, URL: e.URL, Headers: e.Headers, Cwd: e.Cwd,
		})
		if err != nil {
			t.Fatalf(".pml.json does not accept %+v: %v", e, err)
		}
	}
}

func TestRead_RealFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       hosts.Found
	}{
		{".claude.json", "testdata/claude.json", hosts.Found{
			Host: "claude-code",
			Entries: []hosts.Entry{
				{
					Name: "context7", Command: "npx", Env: m{"CONTEXT7_URL": "${CONTEXT7_URL}"},
					Args:    []string{"-y", "@upstash/context7-mcp@${CONTEXT7_VERSION:-latest}", "--api-key", "${CONTEXT7_API_KEY}"},
					Secrets: m{"CONTEXT7_API_KEY": "ctx7sk-6f1e2d3c-4b5a-6978-8a9b-0c1d2e3f4a5b"},
				},
				{
					Name: "github", URL: "https://api.githubcopilot.com/mcp/", Headers: m{"Authorization": "Bearer ${GITHUB_AUTHORIZATION}"},
					Secrets: m{"GITHUB_AUTHORIZATION": "ghp_x8Kq2mV7nB4pL9sT1wY6zR3cF5dH0jG2aE7u"},
				},
				{
					Name: "postgres", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-postgres", "${POSTGRES_URL}"}, Env: m{},
					Secrets: m{"POSTGRES_URL": "postgresql://shop:hunter22@localhost:5432/shop"},
				},
			},
			Skipped: []string{
				"github (line 34): the settings of this project have another one of the same name, which counts",
				"linear (line 35): it uses the transport SSE, which is deprecated and which pml does not speak: if the server offers streamable HTTP too, often at a URL that ends in /mcp, add that with: pml servers add",
			},
		}},
		{"claude_desktop_config.json", "testdata/claude_desktop_config.json", hosts.Found{
			Host: "claude-desktop",
			Entries: []hosts.Entry{
				{
					Name: "brave-search", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-brave-search"}, Env: m{"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
					Secrets: m{"BRAVE_API_KEY": "BSAq8Zk3Jx7Rt2Lw9Nv4Hc6Yp1Md5Fg"},
				},
				{Name: "filesystem", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/Users/ann/Desktop", "/Users/ann/Downloads"}},
				{
					Name: "github", Command: "docker",
					Args:    []string{"run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN=${GITHUB_PERSONAL_ACCESS_TOKEN}", "-e", "LOG_LEVEL=debug", "ghcr.io/github/github-mcp-server"},
					Secrets: m{"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"},
				},
				{
					Name: "windows", Command: "npx", Args: []string{"-y", "mcp-remote", "https://x.example/mcp", "--header", "Authorization: Bearer ${WINDOWS_AUTHORIZATION}"},
					Secrets: m{"WINDOWS_AUTHORIZATION": "0f9e8d7c6b5a4938"},
				},
				{Name: "workspace-2", Command: "uvx", Args: []string{"workspace-mcp"}},
			},
			Notes: []string{
				"brave search: is taken over as brave-search, since pml allows letters, digits, dot, dash and underscore in the name of a server",
				"workspace: is taken over as workspace-2, since pml has a server of its own with that name",
			},
		}},
		{".vscode/mcp.json", "testdata/vscode.json", hosts.Found{
			Host: "vscode",
			Entries: []hosts.Entry{
				{Name: "github", URL: "https://api.githubcopilot.com/mcp"},
				{Name: "local", Command: "../bin/server", Cwd: "./tools", Args: []string{"--root", ".."}},
				{
					Name: "perplexity", Command: "npx", Args: []string{"-y", "server-perplexity-ask"}, Keys: []string{"PERPLEXITY_KEY"},
					Env: m{"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}", "LOG": "${LOG_LEVEL}", "RETRIES": "3"},
				},
				{Name: "playwright", Command: "npx", Args: []string{"-y", "@playwright/mcp@0.0.83", "--output-dir=./out", "--user-data-dir", "${HOME}/.cache/pw"}},
				{Name: "remote", URL: "https://mcp.example.com/${PERPLEXITY_KEY}", Headers: m{"X-Api-Key": "${PERPLEXITY_KEY}"}, Keys: []string{"PERPLEXITY_KEY"}},
			},
			Skipped: []string{
				"database (line 23): the input pickedDatabase is computed by a command of the editor",
				"config (line 24): uses ${config:editor.fontSize}, which pml has no word for",
				"filed (line 25): it takes variables from an envFile, which pml does not read: name them in env, and put their values into .env",
				"old (line 26): it uses the transport SSE, which is deprecated and which pml does not speak: if the server offers streamable HTTP too, often at a URL that ends in /mcp, add that with: pml servers add",
				"wrong (line 27): command must be a string, not a list",
			},
		}},
		{".cursor/mcp.json", "testdata/cursor.json", hosts.Found{
			Host: "cursor",
			Entries: []hosts.Entry{
				{Name: "exa", URL: "https://mcp.exa.ai/mcp?exaApiKey=${EXA_EXA_API_KEY}&tools=web_search", Secrets: m{"EXA_EXA_API_KEY": "1f2e3d4c-5b6a-7988-9a0b-c1d2e3f4a5b6"}},
				{Name: "figma", URL: "http://127.0.0.1:3845/mcp"},
				{Name: "jot", URL: "https://api.example.com/v1/mcp", Headers: m{"Authorization": "Bearer ${JOT_TOKEN}"}},
				{
					Name: "tableau", Command: "npx", Args: []string{"-y", "@tableau/mcp-server@latest"},
					Env:     m{"SERVER": "https://tableau.example.com", "PAT_NAME": "ann", "PAT_VALUE": "${PAT_VALUE}", "AUTH": "${AUTH}"},
					Secrets: m{"PAT_VALUE": "hT4kQ9xZ2mW7vB1nC6pL3sD8fG5jR0yA", "AUTH": "pat"},
				},
			},
			Skipped: []string{
				"old (line 5): it uses the transport SSE, which is deprecated and which pml does not speak: if the server offers streamable HTTP too, often at a URL that ends in /mcp, add that with: pml servers add",
				"off (line 13): it is disabled there",
			},
		}},
		{".mcp.json", "testdata/mcp.json", hosts.Found{
			Host: "mcp.json",
			Entries: []hosts.Entry{
				{Name: "api", URL: "${API_BASE_URL:-https://api.example.com}/mcp", Headers: m{"Authorization": "Bearer ${API_KEY}"}},
				{Name: "memory", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-memory"}, Env: m{"MEMORY_FILE_PATH": "./memory.json"}},
			},
			Skipped: []string{"helper (line 5): its headers come from a program (headersHelper), which pml does not run: name them in headers"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := read(t, c.name, c.text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			accepted(t, got.Entries)
		})
	}
}

// The same content is told apart without the name that a host gives it.
func TestRead_HostByContent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"testdata/claude.json": "claude-code", "testdata/vscode.json": "vscode", "testdata/mcp.json": "mcp.json",
		`{"mcp":{"servers":{"a":{"command":"a"}}}}`: "vscode",
	} {
		f := read(t, "some.json", text)
		if f.Host != want || len(f.Entries) == 0 {
			t.Errorf("%s: %s with %d entries, want %s", text, f.Host, len(f.Entries), want)
		}
	}
}

func TestFind_Places(t *testing.T) {
	t.Parallel()
	one := func(name string) string { return `{"mcpServers":{"` + name + `":{"command":"x"}}}` }
	for _, c := range []struct {
		goos    string
		environ map[string]string // values below the home folder
		files   []string
		want    []string
	}{
		{"linux", nil, []string{
			"ws/.mcp.json", "ws/.cursor/mcp.json", "ws/.vscode/mcp.json", ".claude.json", ".config/Claude/claude_desktop_config.json",
			".config/Code/User/mcp.json", ".cursor/mcp.json", "Library/Application Support/Claude/claude_desktop_config.json",
		}, []string{
			"mcp.json ws/.mcp.json", "vscode ws/.vscode/mcp.json", "cursor ws/.cursor/mcp.json", "claude-code .claude.json",
			"claude-desktop .config/Claude/claude_desktop_config.json", "vscode .config/Code/User/mcp.json", "cursor .cursor/mcp.json",
		}},
		{"linux", map[string]string{"XDG_CONFIG_HOME": "xdg", "CLAUDE_CONFIG_DIR": "cc"},
			[]string{".claude.json", "cc/.claude.json", ".config/Code/User/mcp.json", "xdg/Code/User/mcp.json", "xdg/Code - Insiders/User/mcp.json"},
			[]string{"claude-code cc/.claude.json", "vscode xdg/Code/User/mcp.json", "vscode xdg/Code - Insiders/User/mcp.json"}},
		{"darwin", nil, []string{"Library/Application Support/Claude/claude_desktop_config.json", "Library/Application Support/Code/User/mcp.json", ".config/Code/User/mcp.json"},
			[]string{"claude-desktop Library/Application Support/Claude/claude_desktop_config.json", "vscode Library/Application Support/Code/User/mcp.json"}},
		{"windows", map[string]string{"APPDATA": "roaming"}, []string{"roaming/Claude/claude_desktop_config.json", "roaming/Code/User/mcp.json"},
			[]string{"claude-desktop roaming/Claude/claude_desktop_config.json", "vscode roaming/Code/User/mcp.json"}},
		{"windows", nil, []string{"AppData/Roaming/Claude/claude_desktop_config.json"}, []string{"claude-desktop AppData/Roaming/Claude/claude_desktop_config.json"}},
	} {
		home := t.TempDir()
		for _, f := range c.files {
			text := one("s")
			if strings.Contains(f, "Code") || strings.Contains(f, ".vscode") {
				text = strings.Replace(text, "mcpServers", "servers", 1)
			}
			put(t, home, f, text)
		}
		found, faults := hosts.Find(hosts.Place{Home: home, Workspace: filepath.Join(home, "ws"), GOOS: c.goos, Environ: func(name string) (string, bool) {
			v, ok := c.environ[name]
			return filepath.Join(home, v), ok
		}})
		var got []string
		for _, f := range found {
			rel, err := filepath.Rel(home, f.File)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Host+" "+filepath.ToSlash(rel))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || len(faults) > 0 {
			t.Errorf("%s %v: faults %v (-want +got):\n%s", c.goos, c.environ, faults, diff)
		}
	}
}

// A file that cannot be read takes nothing away from the others, and says
// where it is wrong.
func TestFind_BadFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ws := filepath.Join(home, "ws")
	put(t, ws, ".mcp.json", "{\n  \"mcpServers\": {\"é\": {]}\n}")
	put(t, ws, ".cursor/mcp.json", `{"mcpServers":{"a":{"command":"a"}}}`)
	put(t, home, ".claude.json", "[]")
	put(t, ws, ".vscode/mcp.json", "\xff\xfe{")
	put(t, home, ".config/Claude/claude_desktop_config.json", `{"preferences":{}}`) // no servers, and no fault
	if err := os.MkdirAll(filepath.Join(home, ".config", "Code", "User", "mcp.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := hosts.Place{Home: home, Workspace: ws, GOOS: "linux"}
	found, faults := hosts.Find(p)
	if len(found) != 1 || found[0].Entries[0].Name != "a" {
		t.Errorf("found %+v", found)
	}
	var got []string
	for _, f := range faults {
		got = append(got, strings.TrimPrefix(f.String(), home+"/"))
	}
	want := []string{
		"ws/.mcp.json:2:24: not valid JSON from here on",
		"ws/.vscode/mcp.json: is not UTF-8 text",
		".claude.json:1:1: must be an object, not a list",
		".config/Code/User/mcp.json: is not a plain file",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestRead_Errors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := filepath.Join(dir, "big.json")
	put(t, dir, "big.json", "{}")
	if err := os.Truncate(big, 16<<20+1); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct {
		code core.Code
		text string
	}{
		filepath.Join(dir, "none.json"):      {core.CodeInvalidArguments, "there is no file"},
		dir:                                  {core.CodeInvalidConfig, "is not a plain file"},
		big:                                  {core.CodeInvalidConfig, "larger than 16 MiB"},
		put(t, dir, "other.json", `{"a":1}`): {core.CodeInvalidConfig, "lists no MCP servers"},
		put(t, dir, "empty.json", ``):        {core.CodeInvalidConfig, "1:1: not valid JSON"},
		put(t, dir, "open.json", "{} /* x"):  {core.CodeInvalidConfig, ""},
		put(t, dir, "two.json", "{}\n{}"):    {core.CodeInvalidConfig, "2:1: not valid JSON"},
		put(t, dir, "comma.json", "{\"a\":[1 2]}"):           {core.CodeInvalidConfig, "1:9: not valid JSON"},
		put(t, dir, "deep.json", strings.Repeat("[", 1<<20)): {core.CodeInvalidConfig, "not valid JSON"},
	} {
		_, err := hosts.Read(ann(nil), file)
		if core.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
	f, err := hosts.Read(ann(nil), put(t, dir, "none-yet.json", `{"mcpServers":{}}`))
	if err != nil || len(f.Entries) != 0 {
		t.Errorf("an empty list: %v, %v", f, err)
	}
}

// Whatever the types are, it is said; nothing is taken over by half.
func TestRead_WrongTypes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a"`:                                             "must be an object, not a string",
		`{}`:                                              "neither a command nor a url",
		`{"command":"a","url":"https://a.b"}`:             "one of them is too many",
		`{"command":1}`:                                   "command must be a string, not a number",
		`{"command":"a","args":"-y"}`:                     "args must be a list, not a string",
		`{"command":"a","args":[["-y"]]}`:                 "args must hold strings only, not a list",
		`{"command":"a","args":[null]}`:                   "args must hold strings only, not null",
		`{"command":"a","env":[]}`:                        "env must be an object, not a list",
		`{"command":"a","env":{"A":{}}}`:                  "env: A must be a string, not an object",
		`{"command":"a","env":{"A=B":"c"}}`:               `"A=B" cannot be the name of a variable`,
		`{"command":"a\u0000"}`:                           "command holds a zero byte",
		`{"url":"https://a.b","headers":{"A B":"c"}}`:     `"A B" cannot be the name of a header`,
		`{"url":"https://a.b","headers":{"A":"c\r\nD:"}}`: "the header A holds a line break",
		`{"url":"ws://a.b"}`:                              "must begin with http:// or https://",
		`{"url":"unix:///tmp/x"}`:                         "must begin with http:// or https://",
		`{"type":"ws","url":"https://a"}`:                 "pml has no transport ws",
		`{"type":"\u001b[31m","url":"x"}`:                 `pml has no transport \x1b[31m`,
		`{"command":"npx -y x"}`:                          "put them into args",
		`{"command":"a","enabled":false}`:                 "it is disabled there",
	} {
		f := read(t, ".mcp.json", `{"mcpServers":{"s":`+text+`}}`)
		if len(f.Entries) != 0 || len(f.Skipped) != 1 || !strings.HasPrefix(f.Skipped[0], "s (line 1): ") || !strings.Contains(f.Skipped[0], want) {
			t.Errorf("%s: %+v", text, f)
		}
	}
	many := strings.Repeat(`"a","b",`, 300)
	f := read(t, ".mcp.json", `{"mcpServers":{"s":{"command":"a","args":[`+many+`"c"]}}}`)
	if len(f.Skipped) != 1 || !strings.Contains(f.Skipped[0], "args has 601 items") {
		t.Errorf("many arguments: %+v", f)
	}
	f = read(t, ".mcp.json", `{"mcpServers":{`+strings.Repeat(`"a":{},`, 501)+`}}`)
	if len(f.Skipped) != 1 || !strings.Contains(f.Skipped[0], "it has 501") {
		t.Errorf("many servers: %+v", f)
	}
	f = read(t, ".mcp.json", `{"mcpServers":["s"]}`)
	if len(f.Skipped) != 1 || !strings.Contains(f.Skipped[0], "must be an object, not a list") {
		t.Errorf("a list of servers: %+v", f)
	}
}

// pml never takes itself over, however it is written.
func TestRead_OwnEntry(t *testing.T) {
	t.Parallel()
	f := read(t, ".mcp.json", `{"mcpServers":{
		"a":{"command":"pml","args":["stdio"]}, "b":{"command":"C:\\bin\\pml.exe","args":["stdio","--verbose"]},
		"c":{"command":"cmd","args":["/c","pml","stdio"]}, "d":{"command":"${HOME}/bin/pml","args":["--workspace","x","stdio"]},
		"e":{"command":"xpml","args":["stdio"]}, "f":{"command":"pml","args":["other"]},
		"pml":{"command":"/tmp/build/main","args":["stdio"]}, "h":{"command":"go","args":["run","./cmd/pml","stdio"]}, "i":{"command":"go","args":["run","./cmd/x","stdio"]}}}`)
	var got []string
	for _, e := range f.Entries {
		got = append(got, e.Name)
	}
	if diff := cmp.Diff([]string{"e", "f", "i"}, got); diff != "" || len(f.Skipped) != 0 {
		t.Errorf("skipped %v (-want +got):\n%s", f.Skipped, diff)
	}
}

func TestRead_Names(t *testing.T) {
	t.Parallel()
	f := read(t, ".mcp.json", `{"mcpServers":{"a/b":{"command":"1"},"a-b":{"command":"2"},"a:b":{"command":"3"},"日本":{"command":"4"},
		"x":{"command":"5"},"x":{"command":"6"},"e\u001b[0m":{"command":"7"},"`+strings.Repeat("n", 300)+`":{"command":"8"}}}`)
	got := map[string]string{}
	for _, e := range f.Entries {
		got[e.Name] = e.Command
	}
	want := map[string]string{"a-b": "2", "a-b-2": "1", "a-b-3": "3", "server": "4", "x": "6", "e-0m": "7", strings.Repeat("n", 90): "8"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(f.Notes) != 5 || len(f.Skipped) != 1 || !strings.Contains(f.Skipped[0], "stands twice") {
		t.Errorf("notes %q, skipped %q", f.Notes, f.Skipped)
	}
	for _, n := range f.Notes {
		if n != core.Visible(n, 0, false) {
			t.Errorf("not visible: %q", n)
		}
	}
}

func TestRead_Variables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, text, want, why string }{
		{".mcp.json", "${A}-${B:-c}", "${A}-${B:-c}", ""},
		{".mcp.json", "${B:-}", "${B:-}", ""},
		{".mcp.json", "${workspaceFolder.x}", "$${workspaceFolder.x}", ""},
		{".mcp.json", "100$ ${", "100$ $${", ""},
		{".mcp.json", "$${A}", "", "right before a variable"},
		{".mcp.json", "${A:-${B}}", "", "no word for"},
		{".cursor/mcp.json", "${env:A_b1}/${workspaceFolderBasename}${/}x${pathSeparator}", "${A_b1}/shop/x/", ""},
		{".cursor/mcp.json", "${A_B}", "${A_B}", ""},
		{".cursor/mcp.json", "${file}", "", "no word for"},
		{".cursor/mcp.json", "${env:a b}", "", "no word for"},
		{".vscode/mcp.json", "${input:gitHub.token}", "${GIT_HUB_TOKEN}", ""},
		{".vscode/mcp.json", "${input:2fa}", "${_2FA}", ""},
		{".vscode/mcp.json", "${input:}", "${INPUT}", ""},
		{".vscode/mcp.json", "${workspaceFolder:web}/x", "", "no word for"},
		{".vscode/mcp.json", "${command:x\u202ey}", "", `${command:x\u{202e}y}`},
	} {
		f := read(t, c.host, `{"mcpServers":{"s":{"command":"x","args":["`+c.text+`"]}}}`)
		switch {
		case c.why != "":
			if len(f.Skipped) != 1 || !strings.Contains(f.Skipped[0], c.why) {
				t.Errorf("%s %s: %+v", c.host, c.text, f)
			}
		case len(f.Entries) != 1 || f.Entries[0].Args[0] != c.want:
			t.Errorf("%s %s: %+v, want %s", c.host, c.text, f, c.want)
		}
	}
}

// A person's secrets go to .env, and nothing else does.
func TestRead_Secrets(t *testing.T) {
	t.Parallel()
	const key = "q8Zk3Jx7Rt2Lw9Nv4Hc6Yp1Md5Fg"
	for _, c := range []struct {
		entry  string
		secret map[string]string
	}{
		{`"env":{"API_KEY":"abc"}`, m{"API_KEY": "abc"}},
		{`"env":{"openaiApiKey":"abc"}`, m{"openaiApiKey": "abc"}},
		{`"env":{"not a name KEY":"abc"}`, m{"S_NOT_A_NAME_KEY": "abc"}},
		{`"env":{"DB_PASSWORD":"1234"}`, m{"DB_PASSWORD": "1234"}},
		{`"env":{"SESSION":"` + key + `"}`, m{"SESSION": key}},
		{`"env":{"X":"sk-ant-REDACTED"}`, m{"X": "sk-ant-REDACTED"}},
		{`"env":{"DATABASE":"postgres://u:pw@h/db"}`, m{"DATABASE": "postgres://u:pw@h/db"}},
		{`"env":{"HOOK":"https://h.example/in?token=abcd"}`, m{"S_TOKEN": "abcd"}},
		{`"env":{"MAX_TOKENS":"4096","AUTH":"true","TOKEN_LIMIT":"10","KEY_FILE":"id_ed25519","AUTHOR":"ann","AUTH_TYPE":"oauth2"}`, nil},
		{`"env":{"GOOGLE_APPLICATION_CREDENTIALS":"/home/ann/key.json","AUTH_URL":"https://login.example.com","KEYCLOAK":"","OWNER":"ann@example.com","PASS_TO":"ann@example.com"}`, nil},
		{`"env":{"MODEL":"claude-sonnet-4-5-20250929","VERSION":"2026.8.31","FOLDER":"/srv/data/projects/warehouse2024/files","N":12345678901234567890}`, nil},
		{`"env":{"API_KEY":"${API_KEY}","TOKEN":"x-${T}"}`, nil},
		{`"args":["--api-key","abc","--name","ann"]`, m{"S_API_KEY": "abc"}},
		{`"args":["--db-pass","abc","--tokens","abcd"]`, m{"S_DB_PASS": "abc", "S_TOKENS": "abcd"}},
		{`"args":["--token=abc","-v"]`, m{"S_TOKEN": "abc"}},
		{`"args":["--token","--verbose"]`, nil},
		{`"args":["--key-file","./key.pem","--max-tokens","100","--password-stdin"]`, nil},
		{`"args":["ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"]`, m{"S_TOKEN": "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"}},
		{`"args":["-y","@scope/pkg-name-with-words@1.2.3-beta.20260831","mysql://u:p@h/d"]`, m{"S_URL": "mysql://u:p@h/d"}},
		{`"args":["-e","A_TOKEN=abc","-e","B=c","X-Api-Key:abc2"]`, m{"A_TOKEN": "abc", "S_X_API_KEY": "abc2"}},
		{`"args":["--oauth","serve","keycloak:26","--authenticate","x","token:sync"]`, nil},
		{`"args":["-H","Api-Key: abc"]`, m{"S_API_KEY": "abc"}},
		{`"args":["https://h.example/mcp?key=abc#f","https://h.example/a?b=c"]`, m{"S_KEY": "abc"}},
	} {
		f := read(t, ".mcp.json", `{"mcpServers":{"s":{"command":"x",`+c.entry+`}}}`)
		if len(f.Entries) != 1 {
			t.Fatalf("%s: %+v", c.entry, f)
		}
		e := f.Entries[0]
		if diff := cmp.Diff(c.secret, e.Secrets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.entry, diff)
		}
		for name, value := range e.Secrets {
			all := strings.Join(e.Args, "\n")
			for _, v := range e.Env {
				all += "\n" + v
			}
			if !strings.Contains(all, "${"+name+"}") || strings.Contains(all, value) {
				t.Errorf("%s: %+v", c.entry, e)
			}
		}
	}
}

func TestRead_HeaderSecrets(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][2]string{
		`"Authorization":"Bearer abc"`:       {"Bearer ${S_AUTHORIZATION}", "abc"},
		`"authorization":"Basic YTpi"`:       {"Basic ${S_AUTHORIZATION}", "YTpi"},
		`"Authorization":"abc"`:              {"${S_AUTHORIZATION}", "abc"},
		`"X-API-Key":"abc"`:                  {"${S_X_API_KEY}", "abc"},
		`"Cookie":"sid=1; b=2"`:              {"${S_COOKIE}", "sid=1; b=2"},
		`"X-Tenant":"acme"`:                  {"acme", ""},
		`"Authorization":"Bearer ${TOKEN}"`:  {"Bearer ${TOKEN}", ""},
		`"X-Id":"q8Zk3Jx7Rt2Lw9Nv4Hc6Yp1Md"`: {"${S_X_ID}", "q8Zk3Jx7Rt2Lw9Nv4Hc6Yp1Md"},
	} {
		e := read(t, ".mcp.json", `{"mcpServers":{"s":{"url":"https://x.example","headers":{`+header+`}}}}`).Entries[0]
		for _, got := range e.Headers {
			if got != want[0] {
				t.Errorf("%s: %q, want %q", header, got, want[0])
			}
		}
		for _, got := range e.Secrets {
			if got != want[1] {
				t.Errorf("%s: %q, want %q", header, got, want[1])
			}
		}
		if (want[1] == "") != (len(e.Secrets) == 0) {
			t.Errorf("%s: secrets %v", header, e.Secrets)
		}
	}
}

// One name stands for one value, across the files of all hosts.
func TestFind_SecretsDoNotMeet(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	put(t, home, ".mcp.json", `{"mcpServers":{"a":{"command":"a","env":{"API_KEY":"one"}},"b":{"command":"b","env":{"API_KEY":"two"}},"c":{"command":"c","env":{"API_KEY":"one"}}}}`)
	put(t, home, ".cursor/mcp.json", `{"mcpServers":{"b":{"command":"b","env":{"API_KEY":"three"}}}}`)
	found, faults := hosts.Find(hosts.Place{Home: home, Workspace: home, GOOS: "linux"})
	if len(faults) > 0 || len(found) != 2 {
		t.Fatalf("%v, %v", found, faults)
	}
	var got []map[string]string
	for _, f := range found {
		for _, e := range f.Entries {
			for name := range e.Secrets {
				if e.Env["API_KEY"] != "${"+name+"}" {
					t.Errorf("%+v", e)
				}
			}
			got = append(got, e.Secrets)
		}
	}
	want := []map[string]string{{"API_KEY": "one"}, {"B_API_KEY": "two"}, {"API_KEY": "one"}, {"B_API_KEY_2": "three"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, filepath.Base(file))
	}
	f.Add([]byte(`{"mcpServers":{"a":{"command":"$${A}${","args":["--key=${x"],"env":{"":""}}}}`), "mcp.json")
	f.Add([]byte("\ufeff{/**/\"servers\":{,}}//"), "x")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if len(name) > 50 || name == "." || name == ".." || name == "" || strings.ContainsAny(name, "/\x00") {
			name = "x.json"
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Skip(err)
		}
		found, err := hosts.Read(ann(nil), file)
		if err != nil {
			var e *core.Error
			if !errors.As(err, &e) || e.Code != core.CodeInvalidConfig || len(e.Faults) != 1 {
				t.Fatalf("error %v", err)
			}
			if at := e.Faults[0].At; at != nil && (at.Line < 1 || at.Line > strings.Count(string(data), "\n")+1 || at.Column < 1) {
				t.Fatalf("position %+v", at)
			}
			return
		}
		seen, secrets := map[string]bool{}, map[string]string{}
		for _, e := range found.Entries {
			if seen[e.Name] || e.Name == "" || e.Name == "workspace" || len(e.Name) > 100 || strings.ContainsAny(e.Name, " :*?[]{}\\,/") || e.Name != core.Visible(e.Name, 0, false) {
				t.Fatalf("name %q", e.Name)
			}
			seen[e.Name] = true
			if (e.Command == "") == (e.URL == "") {
				t.Fatalf("command %q, url %q", e.Command, e.URL)
			}
			for name, value := range e.Secrets {
				if had, ok := secrets[name]; ok && had != value {
					t.Fatalf("%s stands for two values", name)
				}
				secrets[name] = value
			}
		}
		accepted(t, found.Entries)
		for _, s := range append(found.Skipped, found.Notes...) {
			if s != core.Visible(s, 0, false) {
				t.Fatalf("not visible: %q", s)
			}
		}
	})
}

// Codex keeps its servers in TOML, has no variables in its texts, and names
// those of the environment instead of their values.
func TestRead_Codex(t *testing.T) {
	t.Parallel()
	got := read(t, "config.toml", `# mine
model = "o9"

[mcp_servers.gh]
command = "gh-mcp"
args = ["--dir", "${HOME}", "--token", "ghp_0123456789abcdefghij"]
env = { API_KEY = "k-1234567890", LEVEL = 3 }
env_vars = ["PROXY", "API_KEY"]
startup_timeout_sec = 20

[mcp_servers."my web"]
url = "https://example.com/mcp"
bearer_token_env_var = "WEB_TOKEN"
http_headers = { X-Team = "shop" }
env_http_headers = { X-User = "WEB_USER" }

[mcp_servers.pml]
command = "/opt/bin/pml"
args = ["stdio"]
[mcp_servers.pml.env]
PML_WORKSPACE = "/home/ann/shop"

[mcp_servers.off]
command = "x"
enabled = false

[mcp_servers.bad]
url = "https://example.com/mcp"
bearer_token_env_var = "no name"
`)
	want := hosts.Found{
		Host: "codex",
		Entries: []hosts.Entry{
			{
				Name: "gh", Command: "gh-mcp", Args: []string{"--dir", "$${HOME}", "--token", "${GH_TOKEN}"},
				Env: m{"API_KEY": "${API_KEY}", "LEVEL": "3", "PROXY": "${PROXY}"}, Secrets: m{"API_KEY": "k-1234567890", "GH_TOKEN": "ghp_0123456789abcdefghij"},
			},
			{Name: "my-web", URL: "https://example.com/mcp", Headers: m{"X-Team": "shop", "X-User": "${WEB_USER}", "Authorization": "Bearer ${WEB_TOKEN}"}},
		},
		Skipped: []string{
			`bad (line 27): "no name" cannot be the name of a variable`,
			"off (line 23): it is disabled there",
		},
		Notes: []string{"my web: is taken over as my-web, since pml allows letters, digits, dot, dash and underscore in the name of a server"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Codex's file is found where CODEX_HOME says, and one that is broken is a fault
// with its place and without its text.
func TestFind_Codex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := put(t, dir, "own/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n")
	place := hosts.Place{Home: filepath.Join(dir, "home"), GOOS: "linux", Environ: func(name string) (string, bool) {
		return filepath.Join(dir, "own"), name == "CODEX_HOME"
	}}
	found, faults := hosts.Find(place)
	if len(found) != 1 || found[0].Host != "codex" || found[0].File != file || len(faults) != 0 {
		t.Errorf("%+v %+v", found, faults)
	}
	put(t, dir, "own/config.toml", "a = 1\n[mcp_servers.a\ntoken = \"ghp_0123456789abcdefghij\"\n")
	found, faults = hosts.Find(place)
	if len(found) != 0 || len(faults) != 1 || faults[0].At == nil || faults[0].At.Line != 2 || strings.Contains(faults[0].String(), "ghp_") {
		t.Errorf("%+v %+v", found, faults)
	}
	_, err := hosts.Read(place, put(t, dir, "else.toml", "a = 1\n"))
	if core.CodeOf(err) != core.CodeInvalidConfig {
		t.Error(err)
	}
}
