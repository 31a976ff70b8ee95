package hosts_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/hosts"
)

// target is a file in which pml can be registered, of a place that is not there.
func target(t testing.TB, host string) hosts.Target {
	t.Helper()
	for _, tg := range (hosts.Place{Home: "/u", Workspace: "/w", GOOS: "linux"}).Targets() {
		if tg.Host == host {
			return tg
		}
	}
	t.Fatalf("no target %s", host)
	return hosts.Target{}
}

// set registers pml in a text, and holds the edit to what each has to keep:
// pml is there, and taking it back gives the same bytes.
func set(t *testing.T, tg hosts.Target, before string) (after string, edit hosts.Edit) {
	t.Helper()
	want := tg.Own("pml")
	edit, err := tg.Set([]byte(before), want)
	if err != nil {
		t.Fatalf("%q: %v", before, err)
	}
	out, ok := edit.Apply([]byte(before))
	if !ok {
		t.Fatalf("%q: the edit %+v does not fit", before, edit)
	}
	if s, err := tg.Look(out, want); err != nil || !s.There || !s.Same {
		t.Fatalf("%q became %q: %+v %v", before, out, s, err)
	}
	if back := unset(t, tg, string(out), edit); back != before {
		t.Fatalf("%q became %q and then %q", before, out, back)
	}
	return string(out), edit
}

func unset(t *testing.T, tg hosts.Target, text string, was hosts.Edit) string {
	t.Helper()
	edit, err := tg.Unset([]byte(text), was)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	out, ok := edit.Apply([]byte(text))
	if !ok {
		t.Fatalf("%q: the edit %+v does not fit", text, edit)
	}
	return string(out)
}

const (
	ownLines = "\"pml\": {\n      \"command\": \"pml\",\n      \"args\": [\"stdio\"]\n    }"
	ownFlat  = `"pml": {"command": "pml", "args": ["stdio"]}`
)

// What stands in a file stays, byte for byte, and pml stands where a person
// would have put it.
func TestSet_Layouts(t *testing.T) {
	t.Parallel()
	code := target(t, "claude-code")
	for name, c := range map[string]struct{ before, after string }{
		"nothing":         {"", "{\n  \"mcpServers\": {\n    " + ownLines + "\n  }\n}\n"},
		"empty":           {"{}", "{\n  \"mcpServers\": {\n    " + ownLines + "\n  }\n}"},
		"no table":        {"{\n  \"a\": 1\n}\n", "{\n  \"mcpServers\": {\n    " + ownLines + "\n  },\n  \"a\": 1\n}\n"},
		"an empty table":  {"{\n  \"mcpServers\": {}\n}\n", "{\n  \"mcpServers\": {\n    " + ownLines + "\n  }\n}\n"},
		"an open table":   {"{\n  \"mcpServers\": {\n  }\n}\n", "{\n  \"mcpServers\": {\n    " + ownLines + "\n  }\n}\n"},
		"a neighbour":     {"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n  }\n}\n", "{\n  \"mcpServers\": {\n    " + ownLines + ",\n    \"a\": {\"command\": \"x\"}\n  }\n}\n"},
		"one line":        {`{"mcpServers":{"a":{"command":"x"}}}`, `{"mcpServers":{` + ownFlat + `,"a":{"command":"x"}}}`},
		"one airy line":   {`{ "mcpServers": { "a": {} } }`, `{ "mcpServers": { ` + ownFlat + `, "a": {} } }`},
		"an empty line":   {`{"mcpServers":{}}`, `{"mcpServers":{` + ownFlat + `}}`},
		"a comment":       {"{\n  \"mcpServers\": { // mine\n    // of a\n    \"a\": {},\n  },\n}\n", "{\n  \"mcpServers\": { // mine\n    " + ownLines + ",\n    // of a\n    \"a\": {},\n  },\n}\n"},
		"a long comment":  {"{\n  \"mcpServers\": { /* mine\n*/\n    \"a\": {}\n  }\n}\n", "{\n  \"mcpServers\": {\n    " + ownLines + ", /* mine\n*/\n    \"a\": {}\n  }\n}\n"},
		"only a comment":  {"{\n  \"mcpServers\": { /* none */ }\n}\n", "{\n  \"mcpServers\": {\n    " + ownLines + "\n   /* none */ }\n}\n"},
		"tabs":            {"{\n\t\"mcpServers\": {\n\t\t\"a\": {}\n\t}\n}\n", strings.ReplaceAll("{\n  \"mcpServers\": {\n    "+ownLines+",\n    \"a\": {}\n  }\n}\n", "  ", "\t")},
		"Windows":         {"{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", strings.ReplaceAll("{\n  \"mcpServers\": {\n    "+ownLines+",\n    \"a\": {}\n  }\n}\n", "\n", "\r\n")},
		"byte order mark": {"\ufeff{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n", "\ufeff{\n  \"mcpServers\": {\n    " + ownLines + ",\n    \"a\": {}\n  }\n}\n"},
		"of somebody else": {
			"{\n  \"mcpServers\": {\n    \"pml\": {\"command\": \"node\", \"args\": [\"pml.js\"]}, // old\n    \"a\": {}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    " + ownLines + ", // old\n    \"a\": {}\n  }\n}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, _ := set(t, code, c.before)
			if d := cmp.Diff(c.after, after); d != "" {
				t.Error(d)
			}
		})
	}
}

// Codex's file grows by a table of its own at the end.
func TestSet_Codex(t *testing.T) {
	t.Parallel()
	codex := target(t, "codex")
	const own = "[mcp_servers.pml]\ncommand = \"pml\"\nargs = [\"stdio\"]\nenv = { PML_WORKSPACE = \"/w\" }\n"
	for name, c := range map[string]struct{ before, after string }{
		"nothing":        {"", own},
		"a mark":         {"\ufeff", "\ufeff" + own},
		"settings":       {"model = \"o9\" # fast\n", "model = \"o9\" # fast\n\n" + own},
		"no line end":    {"model = \"o9\"", "model = \"o9\"\n\n" + own},
		"Windows":        {"model = \"o9\"\r\n", "model = \"o9\"\r\n\r\n" + strings.ReplaceAll(own, "\n", "\r\n")},
		"a blank line":   {"[a]\nb = '''\n[mcp_servers.pml]\n'''\n\n", "[a]\nb = '''\n[mcp_servers.pml]\n'''\n\n" + own},
		"another server": {"[mcp_servers.a]\ncommand = \"x\"\n", "[mcp_servers.a]\ncommand = \"x\"\n\n" + own},
		"replaced": {
			"[mcp_servers.\"pml\"] # old\ncommand = \"node\"\n[mcp_servers.pml.env]\nTOKEN = \"abcdefgh\"\n\n# the next\n[x]\ny = 1\n",
			own + "\n# the next\n[x]\ny = 1\n",
		},
		"replaced first": {"\ufeff[mcp_servers.pml]\ncommand = \"node\"", "\ufeff" + strings.TrimSuffix(own, "\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, _ := set(t, codex, c.before)
			if d := cmp.Diff(c.after, after); d != "" {
				t.Error(d)
			}
		})
	}
}

// Each host gets the entry that it understands, and none a key.
func TestTargets_Entries(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, tg := range (hosts.Place{Home: "/u", Workspace: "/w", GOOS: "darwin"}).Targets() {
		after, _ := set(t, tg, "")
		got[tg.Host+" "+filepath.ToSlash(tg.File)] = strings.Join(strings.Fields(after), "")
	}
	want := map[string]string{
		"claude-code /w/.mcp.json":         `{"mcpServers":{"pml":{"command":"pml","args":["stdio"]}}}`,
		"vscode /w/.vscode/mcp.json":       `{"servers":{"pml":{"type":"stdio","command":"pml","args":["stdio"],"env":{"PML_WORKSPACE":"${workspaceFolder}"}}}}`,
		"cursor /w/.cursor/mcp.json":       `{"mcpServers":{"pml":{"command":"pml","args":["stdio"],"env":{"PML_WORKSPACE":"${workspaceFolder}"}}}}`,
		"gemini /w/.gemini/settings.json":  `{"mcpServers":{"pml":{"command":"pml","args":["stdio"]}}}`,
		"qwen /w/.qwen/settings.json":      `{"mcpServers":{"pml":{"command":"pml","args":["stdio"]}}}`,
		"opencode /w/opencode.json":        `{"mcp":{"pml":{"type":"local","command":["pml","stdio"],"enabled":true}}}`,
		"codex /u/.codex/config.toml":      `[mcp_servers.pml]command="pml"args=["stdio"]env={PML_WORKSPACE="/w"}`,
		"claude-code-user /u/.claude.json": `{"mcpServers":{"pml":{"type":"stdio","command":"pml","args":["stdio"]}}}`,
		"claude-desktop /u/Library/Application Support/Claude/claude_desktop_config.json": `{"mcpServers":{"pml":{"command":"pml","args":["stdio"],"env":{"PML_WORKSPACE":"/w"}}}}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestTargets_OpenCode: its entry is its own, with the program and the arguments
// in one list, and it goes into the file that is there.
func TestTargets_OpenCode(t *testing.T) {
	t.Parallel()
	tg := target(t, "opencode")
	before := "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    // mine\n    \"a\": {\"type\": \"local\", \"command\": [\"x\"]},\n  },\n}\n"
	own := "    \"pml\": {\n      \"type\": \"local\",\n      \"command\": [\"pml\", \"stdio\"],\n      \"enabled\": true\n    },\n"
	after, _ := set(t, tg, before)
	if d := cmp.Diff(strings.Replace(before, "    // mine", own+"    // mine", 1), after); d != "" {
		t.Error(d)
	}
	for text, same := range map[string]bool{
		`{"mcp": {"pml": {"type": "local", "command": ["/opt/pml", "stdio"]}}}`:                   false,
		`{"mcp": {"pml": {"type": "local", "command": ["pml", "stdio"]}}}`:                        true,
		`{"mcp": {"pml": {"type": "local", "command": ["pml", "stdio"], "enabled": false}}}`:      false,
		`{"mcp": {"pml": {"type": "local", "command": ["node", "SECRET.js", "--token=SECRET"]}}}`: false,
		`{"mcp": {"pml": {"type": "local", "command": "pml", "args": ["stdio"]}}}`:                false,
		`{"mcp": {"pml": {"type": "local", "command": []}}}`:                                      false,
		`{"mcp": {"pml": {"command": ["pml", "stdio"], "environment": {"PML_WORKSPACE": "/x"}}}}`: false,
		`{"mcp": {"pml": {"type": "remote", "url": "https://example.com"}}}`:                      false,
	} {
		got, err := tg.Look([]byte(text), tg.Own("pml"))
		if err != nil || !got.There || got.Same != same || strings.Contains(strings.Join(got.Shown, " "), "=SECRET") {
			t.Errorf("%s: %v %+v", text, err, got)
		}
	}
	got, err := tg.Look([]byte(`{"mcp": {"pml": {"command": ["node", "x.js"], "environment": {"A": "b"}}}}`), tg.Own("pml"))
	if d := cmp.Diff([]string{"command: node", "args: x.js", "environment: …"}, got.Shown); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// TestTargets_OpenCodeFile: opencode reads opencode.jsonc, too. The one that is
// there is changed.
func TestTargets_OpenCodeFile(t *testing.T) {
	t.Parallel()
	for want, files := range map[string][]string{
		"opencode.json":  {"opencode.json", "opencode.jsonc"},
		"opencode.jsonc": {"opencode.jsonc"},
	} {
		dir := t.TempDir()
		for _, name := range files {
			put(t, dir, name, "{}")
		}
		for _, tg := range (hosts.Place{Home: "/u", Workspace: dir, GOOS: "linux"}).Targets() {
			if tg.Host == "opencode" && (filepath.Base(tg.File) != want || !tg.Found) {
				t.Errorf("with %v it is %s", files, tg.File)
			}
		}
	}
}

// What is broken, or could be read in two ways, is left alone.
func TestSet_Refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, text string }{
		{"claude-code", `{"mcpServers": {`},
		{"claude-code", `[]`},
		{"claude-code", `{"mcpServers": []}`},
		{"claude-code", `{"mcpServers": null}`},
		{"claude-code", `{"mcpServers": {}, "mcpServers": {}}`},
		{"claude-code", `{"mcpServers": {"pml": {}, "pml": {}}}`},
		{"claude-code", "{\"a\": \"\xff\"}"},
		{"codex", "[mcp_servers"},
		{"codex", "mcp_servers = {}\n"},
		{"codex", "mcp_servers = 1\n"},
		{"codex", "[[mcp_servers]]\na = 1\n"},
		{"codex", "mcp_servers.pml.command = \"x\"\n"},
		{"codex", "[mcp_servers]\npml = {command = \"x\"}\n"},
		{"codex", "[mcp_servers.pml]\ncommand = \"x\"\n[a]\n[mcp_servers.pml.env]\nB = \"1\"\n"},
	} {
		tg := target(t, c.host)
		edit, err := tg.Set([]byte(c.text), tg.Own("pml"))
		if core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%s %q: %+v %v", c.host, c.text, edit, err)
		}
	}
}

// Look tells what starts pml already from what has its name.
func TestLook(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]hosts.Standing{
		`{}`: {},
		`{"mcpServers": {"pml": {"type": "stdio", "command": "pml", "args": ["stdio"], "env": {}}}}`:             {There: true, Same: true, Name: "pml"},
		`{"mcpServers": {"pml": {"command": "pml.exe", "args": ["stdio"], "timeout": 5, "env": {"A": "b"}}}}`:    {There: true, Same: true, Name: "pml"},
		`{"mcpServers": {"mine": {"command": "pml", "args": ["stdio"]}}}`:                                        {There: true, Same: true, Name: "mine"},
		`{"mcpServers": {"pml": {"command": "pml", "args": ["stdio"], "disabled": true}}}`:                       {There: true, Name: "pml"},
		`{"mcpServers": {"pml": {"command": "pml", "args": ["stdio", "-v"]}}}`:                                   {There: true, Name: "pml"},
		`{"mcpServers": {"pml": {"command": "/no/such/pml", "args": ["stdio"]}}}`:                                {There: true, Name: "pml"},
		`{"mcpServers": {"pml": {"command": "pml", "args": ["stdio"], "env": {"PML_WORKSPACE": "/elsewhere"}}}}`: {There: true, Name: "pml"},
		`{"mcpServers": {"pml": {"url": "https://example.com/mcp"}}}`:                                            {There: true, Name: "pml"},
		`{"mcpServers": {"pml": 3}}`: {There: true, Name: "pml"},
	} {
		tg := target(t, "claude-code")
		got, err := tg.Look([]byte(text), tg.Own("pml"))
		if got.There != (got.Digest != "") || got.There != (len(got.Shown) > 0) {
			t.Errorf("%s: %+v", text, got)
		}
		got.Digest, got.Shown = "", nil
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, d)
		}
	}
}

// What is shown of an entry that somebody else wrote holds no key of theirs.
func TestLook_ShowsNoKeys(t *testing.T) {
	t.Parallel()
	for host, text := range map[string]string{
		"claude-code": `{"mcpServers": {"pml": {"command": "node", "args": ["x.js", "--token", "SECRET-1234567"], "env": {"A": "SECRET-2345678", "PML_WORKSPACE": "/w"}, "headers": {"X": "SECRET-3456789"}, "b": "SECRET-4567890"}}}`,
		"codex":       "[mcp_servers.pml]\ncommand = \"node\"\nargs = [\"--api-key=SECRET-1234567\"]\nbearer = \"SECRET-2\"\n[mcp_servers.pml.env]\nA = \"SECRET-2345678\"\n",
	} {
		tg := target(t, host)
		got, err := tg.Look([]byte(text), tg.Own("pml"))
		shown := strings.Join(got.Shown, "\n")
		if err != nil || strings.Contains(shown, "SECRET") || !strings.Contains(shown, "command: node") || !strings.Contains(shown, "env A: …") {
			t.Errorf("%s: %v\n%s", host, err, shown)
		}
	}
}

// Taking pml out of a file that went on without it leaves the rest.
func TestUnset_AfterOtherChanges(t *testing.T) {
	t.Parallel()
	tg := target(t, "claude-code")
	for name, c := range map[string]struct {
		before string
		change func(string) string
		want   string
	}{
		"a line above": {
			"{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n",
			func(s string) string { return "// mine\n" + s },
			"// mine\n{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n",
		},
		"a server beside it, in our table": {
			"{}",
			func(s string) string { return strings.Replace(s, "]\n    }\n", "]\n    },\n    \"b\": {}\n", 1) },
			"{\n  \"mcpServers\": {\n    \"b\": {}\n  }\n}",
		},
		"the neighbour is gone": {
			"{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n",
			func(s string) string { return strings.Replace(s, ",\n    \"a\": {}", "", 1) },
			"{\n  \"mcpServers\": {\n  }\n}\n",
		},
		"formatted anew": {
			"{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n",
			func(string) string {
				return "{\"mcpServers\":{\"a\":{},\"pml\":{\"args\":[\"stdio\"],\"command\":\"pml\"}}}"
			},
			"{\"mcpServers\":{\"a\":{}}}",
		},
		"comments around": {
			"{}",
			func(string) string {
				return "{\n  \"mcpServers\": {\n    \"a\": {}, // of a\n    \"pml\": {\"command\": \"pml\"} /* of pml */ , // behind\n    \"b\": {}\n  }\n}\n"
			},
			"{\n  \"mcpServers\": {\n    \"a\": {}, // of a\n    /* of pml */ // behind\n    \"b\": {}\n  }\n}\n",
		},
		"a line above what is all pml's": {
			"{\n  \"a\": 1\n}\n",
			func(s string) string { return "// mine\n" + s },
			"// mine\n{\n  \"a\": 1\n}\n",
		},
		"only its comma is left": {
			"{\"mcpServers\":{}}",
			func(string) string { return "{\"mcpServers\":{\"pml\":{\"command\":\"pml\"} , }}" },
			"{\"mcpServers\":{ }}",
		},
		"another one came back": {
			"{\"mcpServers\":{\"pml\":{\"command\":\"old\"}}}",
			func(s string) string { return strings.Replace(s, `["stdio"]`, `["stdio", "-v"]`, 1) },
			"{\"mcpServers\":{\"pml\":{\"command\":\"old\"}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, edit := set(t, tg, c.before)
			changed := c.change(after)
			if changed == after {
				t.Fatalf("nothing changed: %q", after)
			}
			if d := cmp.Diff(c.want, unset(t, tg, changed, edit)); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := tg.Unset([]byte("{}"), hosts.Edit{New: "x"}); core.CodeOf(err) != core.CodeNoSuchTool {
		t.Errorf("nothing to take out: %v", err)
	}
}

func TestUnset_Codex(t *testing.T) {
	t.Parallel()
	tg := target(t, "codex")
	const before = "model = \"x\"\n\n[mcp_servers.a]\ncommand = \"a\"\n"
	after, edit := set(t, tg, before)
	if got := unset(t, tg, strings.Replace(after, "[\"stdio\"]", "[ \"stdio\", \"-v\" ]", 1)+"\n# mine\n[z]\n", edit); got != before+"\n# mine\n[z]\n" {
		t.Errorf("%q", got)
	}
	if got := unset(t, tg, "# top\n"+after, edit); got != "# top\n"+before {
		t.Errorf("%q", got)
	}
	// A line right behind pml's table is in it, and must not get into another one.
	if got := unset(t, tg, after+"tool_timeout_sec = 5\n", edit); got != before {
		t.Errorf("%q", got)
	}
	// What is spread over the file is left to a person.
	spread := strings.Replace(after, "env = ", "#", 1) + "[x]\n[mcp_servers.pml.env]\nA = \"1\"\n"
	if got, err := tg.Unset([]byte(spread), edit); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("%+v %v", got, err)
	}
	const old = "[mcp_servers.pml]\ncommand = \"old\"\n\n[z]\n"
	after, edit = set(t, tg, old)
	if got := unset(t, tg, strings.Replace(after, "env", "enabled = true\nenv", 1), edit); got != old {
		t.Errorf("%q", got)
	}
}

func TestBlank(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, "{}": true, "{\n  \"mcpServers\": {\n  }\n}\n": true, "{\"mcpServers\": {\"a\": {}}}": false, "{} // mine": false, "{": false, "{\"a\": 1}": false,
	} {
		if got := target(t, "claude-code").Blank([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if tg := target(t, "codex"); !tg.Blank(nil) || tg.Blank([]byte("# mine\n")) || tg.Blank([]byte("a = 1\n")) {
		t.Error("codex")
	}
}

// fuzzEdit holds an edit of any text to what a person relies on: it is refused,
// or pml stands in it, and taking it back gives the same bytes.
func fuzzEdit(f *testing.F, host string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	tg := target(f, host)
	f.Fuzz(func(t *testing.T, before []byte) {
		want := tg.Own("/opt/p ml/\"pml\"")
		edit, err := tg.Set(before, want)
		if err != nil {
			if core.CodeOf(err) != core.CodeInvalidConfig {
				t.Fatal(err)
			}
			return
		}
		after, ok := edit.Apply(before)
		if !ok {
			t.Fatalf("%q: %+v does not fit", before, edit)
		}
		if s, err := tg.Look(after, want); err != nil || !s.Same {
			t.Fatalf("%q became %q: %+v %v", before, after, s, err)
		}
		back, err := tg.Unset(after, edit)
		if err != nil {
			t.Fatalf("%q became %q: %v", before, after, err)
		}
		if got, ok := back.Apply(after); !ok || string(got) != string(before) {
			t.Fatalf("%q became %q and then %q", before, after, got)
		}
		// Whatever the place is that was remembered, the entry goes and nothing else.
		if gone, err := tg.Unset(after, hosts.Edit{At: len(after), New: "no such text"}); err == nil {
			if got, ok := gone.Apply(after); !ok {
				t.Fatalf("%q: %+v does not fit", after, gone)
			} else if s, err := tg.Look(got, want); err != nil || s.Name == "pml" {
				t.Fatalf("%q became %q: %+v %v", after, got, s, err)
			}
		}
	})
}

func FuzzEditJSON(f *testing.F) {
	fuzzEdit(f, "claude-code", `{}`, `{"mcpServers":{"a":{},},}`, "\ufeff{ // x\r\n\t\"mcpServers\": { /* y */ }\r\n}", `{"mcpServers":{"pml":{"command":"x"} /* z */ ,"b":[1,]}}`, "{\n \"mcpServers\": {\n  // c\n  \"a\": 1 }\n}")
}

func FuzzEditOpenCode(f *testing.F) {
	fuzzEdit(f, "opencode", `{}`, `{"mcp":{"a":{"type":"local","command":["x"]},},}`, `{"mcp":{"pml":{"command":["x"]} /* z */ ,"b":[1,]}}`)
}

func FuzzEditTOML(f *testing.F) {
	fuzzEdit(f, "codex", "", "a = 1", "[mcp_servers.pml]\ncommand = 'x'\n# c\n[b]", "\ufeff[mcp_servers.\"pml\".env]\r\nA = \"\"\"\n#\n\"\"\"\r\n", "mcp_servers.a.command = \"x\"", "[mcp_servers]\n[[x]]\n[mcp_servers.pml]")
}

// What hosts wrote is read or refused, whatever it is.
func FuzzReadCodex(f *testing.F) {
	for _, s := range []string{"[mcp_servers.a]\ncommand = \"x\"\nenv = {A = 1}", "[mcp_servers.a]\nurl = \"https://x\"\nbearer_token_env_var = \"T\"\nhttp_headers = {X = \"y\"}\nenv_http_headers = {Z = \"V\"}", "mcp_servers = 3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := hosts.Read(ann(nil), put(t, t.TempDir(), "config.toml", "\n"+string(data)))
		if err != nil && core.CodeOf(err) != core.CodeInvalidConfig {
			t.Fatal(err)
		}
		for _, e := range found.Entries {
			if e.Name == "" || e.Name == "workspace" || e.Command == "" && e.URL == "" {
				t.Errorf("%+v", e)
			}
		}
	})
}

// Files as people write them: any mixture of layouts, comments and servers is
// kept, whatever pml does in it and takes back.
func TestSet_AnyLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		nl := rapid.SampledFrom([]string{"\n", "\r\n", " ", ""}).Draw(r, "newline")
		tab := rapid.SampledFrom([]string{"  ", "\t", "    ", ""}).Draw(r, "indent")
		var notes []string
		if nl != "" && nl != " " {
			notes = []string{"", "// }, \"pml\": {" + nl, "/* [ */", " "}
		} else {
			notes = []string{"", "/* \"pml\": { */", " "}
		}
		note := func() string { return rapid.SampledFrom(notes).Draw(r, "note") }
		var b strings.Builder
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "pml", "mcpServers", "servers", `x\"y`}), 0, 5, rapid.ID[string]).Draw(r, "servers")
		list := func() {
			b.WriteString("{" + note() + nl)
			for i, name := range names {
				within := "" // what stands within pml's entry goes with it
				if name != "pml" {
					within = note()
				}
				b.WriteString(tab + tab + note() + `"` + name + `":` + within + `{"command": "x` + "\\u007d" + `"}` + note())
				if i < len(names)-1 || rapid.Bool().Draw(r, "trailing") {
					b.WriteString("," + note())
				}
				b.WriteString(nl)
			}
			b.WriteString(tab + note() + "}")
		}
		b.WriteString(rapid.SampledFrom([]string{"", "\ufeff"}).Draw(r, "mark") + note() + "{" + nl)
		if rapid.Bool().Draw(r, "before") {
			b.WriteString(tab + `"k": [1, {"pml": null}],` + note() + nl)
		}
		b.WriteString(tab + `"mcpServers": `)
		list()
		if rapid.Bool().Draw(r, "after") {
			b.WriteString("," + note() + nl + tab + `"z": "}"` + nl)
		}
		b.WriteString("}" + note())
		before, tg := b.String(), target(t, "claude-code")

		edit, err := tg.Set([]byte(before), tg.Own("pml"))
		if err != nil {
			r.Fatalf("%q: %v", before, err)
		}
		after, _ := edit.Apply([]byte(before))
		if s, err := tg.Look(after, tg.Own("pml")); err != nil || !s.Same {
			r.Fatalf("%q became %q: %+v %v", before, after, s, err)
		}
		for _, was := range []hosts.Edit{edit, {At: 1, New: "gone"}} {
			back, err := tg.Unset(after, was)
			if err != nil {
				r.Fatalf("%q became %q: %v", before, after, err)
			}
			got, _ := back.Apply(after)
			if was == edit && string(got) != before {
				r.Fatalf("%q became %q and then %q", before, after, got)
			}
			for _, c := range []string{"// }", "/* [ */"} {
				if strings.Count(string(got), c) != strings.Count(before, c) {
					r.Fatalf("a comment is gone: %q became %q and then %q", before, after, got)
				}
			}
		}
	})
}
