package env_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

// box is a workspace and a home in a folder of the test's own.
type box struct {
	t       testing.TB
	work    env.Workspace
	home    env.Home
	environ map[string]string
}

func newBox(t testing.TB) *box {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, work: env.Workspace{Dir: filepath.Join(root, "work")}, home: env.Home{Dir: filepath.Join(root, "home")}, environ: map[string]string{}}
	for _, dir := range []string{b.work.Dir, b.home.Dir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *box) get(name string) (string, bool) { v, ok := b.environ[name]; return v, ok }

func (b *box) write(path, text string) {
	b.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.work.Dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) options() env.LoadOptions {
	return env.LoadOptions{Workspace: b.work, Home: b.home, Environ: b.get}
}

func (b *box) load() *env.Config {
	b.t.Helper()
	c, err := env.Load(b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// faults loads a configuration that must fail, and gives its faults on lines.
func (b *box) faults() []string {
	b.t.Helper()
	_, err := env.Load(b.options())
	return b.lines(err)
}

func (b *box) lines(err error) []string {
	b.t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeInvalidConfig {
		b.t.Fatalf("error %v, want invalid_config", err)
	}
	var out []string
	for _, f := range e.Faults {
		f.File = filepath.Base(f.File)
		out = append(out, f.String())
	}
	return out
}

func equal(t testing.TB, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindHome(t *testing.T) {
	t.Parallel()
	vars := func(m map[string]string) env.Environ {
		return func(n string) (string, bool) { v, ok := m[n]; return v, ok }
	}
	for _, c := range []struct {
		name, flag, want string
		vars             map[string]string
	}{
		{"Flag", "/f", "/f", map[string]string{"PML_HOME": "/p", "HOME": "/h"}},
		{"Variable", "", "/p", map[string]string{"PML_HOME": "/p", "HOME": "/h"}},
		{"Default", "", "/h/.pml", map[string]string{"HOME": "/h", "USERPROFILE": "/h"}},
	} {
		h, err := env.FindHome(c.flag, vars(c.vars))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, filepath.FromSlash(c.want), h.Dir)
	}
	if _, err := env.FindHome("", vars(nil)); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("no home at all: %v", err)
	}
}

func TestFindWorkspace(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("repo/.git/HEAD", "x")
	b.write("repo/sub/.pml.json", "{}")
	b.write("repo/sub/deep/file", "x")
	link := filepath.Join(b.work.Dir, "link")
	if err := os.Symlink(filepath.Join(b.work.Dir, "repo/sub/deep"), link); err != nil {
		t.Skip("no symbolic links here")
	}
	dir := func(s string) string { return filepath.Join(b.work.Dir, filepath.FromSlash(s)) }
	for _, c := range []struct{ cwd, variable, want, source string }{
		{"repo", "", "repo", ".git"},
		{"repo/sub/deep", "", "repo/sub", ".pml.json"},
		{"link", "", "repo/sub", ".pml.json"},
		{"repo", "sub/deep", "repo/sub/deep", "PML_WORKSPACE"},
		{"repo", link, "repo/sub/deep", "PML_WORKSPACE"},
	} {
		got, err := env.FindWorkspace(dir(c.cwd), func(n string) (string, bool) { return c.variable, n == "PML_WORKSPACE" && c.variable != "" })
		if err != nil {
			t.Fatal(err)
		}
		equal(t, env.Workspace{Dir: dir(c.want), Source: c.source}, got)
	}
	for _, bad := range []string{dir("none"), dir("repo/sub/.pml.json")} {
		_, err := env.FindWorkspace(b.work.Dir, func(string) (string, bool) { return bad, true })
		if core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestLoad_NoFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	c := b.load()
	if c.Approvals.TTL.Minutes() != 5 || c.Approvals.ResumeTTL.Hours() != 24 || c.Retention.Hours() != 720 ||
		c.Approvals.Decider != env.DeciderAny || c.Routing.Default != core.SideClient || c.Limits.Calls != 10_000 {
		t.Errorf("defaults: %+v %+v", c.Approvals, c.Limits)
	}
	s, err := b.home.TrustOf(c)
	if err != nil || !s.Empty || !s.Trusted {
		t.Errorf("trust %+v, %v", s, err)
	}
}

func TestLoad_Layers(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"server":{"url":"http://home"},"permissions":{"deny":["h"],"allow":["ha"]},
		"approvals":{"ttl":"0","decider":"human"},"retention":"7d",
		"mcpServers":{"a":{"command":"home-a"},"h":{"command":"home-h"}}}`)
	b.write(".pml.json", `{ // comment
		"server":{"url":"http://work"},"permissions":{"deny":["w"],"readonly":"allow"},
		"approvals":{"ttl":"90s"},
		"mcpServers":{"a":{"command":"work-a"},"w":{"url":"https://x/mcp"}} /* end */ }`)
	c := b.load()
	equal(t, policy.Patterns("h", "w"), c.Permissions.Deny)
	equal(t, "http://work", c.Server.URL)
	equal(t, 90.0, c.Approvals.TTL.Seconds())
	equal(t, env.DeciderHuman, c.Approvals.Decider)
	equal(t, 168.0, c.Retention.Hours())
	equal(t, "work-a", c.Servers["a"].Command)
	equal(t, env.TypeHTTP, c.Servers["w"].Type)
	for pointer, want := range map[string]env.Origin{
		"/server/url": env.FromWorkspace, "/permissions/deny/0": env.FromHome, "/permissions/deny/1": env.FromWorkspace,
		"/approvals/decider": env.FromHome, "/mcpServers/a/command": env.FromWorkspace, "/limits/calls": env.FromDefault,
	} {
		if got := c.Origin(pointer); got != want {
			t.Errorf("%s is from %s, want %s", pointer, got, want)
		}
	}
	b.environ["PML_SERVER"] = "http://environment"
	equal(t, "http://environment", b.load().Server.URL)
	o := b.options()
	o.Server = "http://flag"
	c, err := env.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "http://flag", c.Server.URL)
	equal(t, env.FromFlag, c.Origin("/server/url"))

	// A fault in the merged list is found in the file that it came from.
	err = c.Locate(&core.Error{Code: core.CodeInvalidConfig, Faults: []core.Fault{{Path: "/permissions/deny/1", Message: "bad"}}})
	equal(t, []string{".pml.json:2:57:/permissions/deny/0: bad"}, b.lines(err))
}

func TestLoad_Faults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"TrailingCommas", "{\n  \"version\": 1,\n  \"expose\": [\"a\",],\n}", []string{
			".pml.json:3:17: trailing comma: remove it", ".pml.json:3:19: trailing comma: remove it",
		}},
		{"TrailingCommaBehindComment", "{\"version\": 1, // last\n}", []string{".pml.json:1:14: trailing comma: remove it"}},
		{"CommaInString", `{"flows": "a,"}`, nil},
		{"All", `{"versoin": 1, "permissions": {"alow": [], "deny": "x", "readonly": "yes"}, "limits": {"calls": "5"},` +
			` "approvals": {"ttl": 5, "decider": "humans", "pin": "1234"}, "mcpServers": {"a": {}, "workspace": {"command": "x"}}}`, []string{
			`.pml.json:1:2:/versoin: unknown key "versoin" (did you mean version?)`,
			`.pml.json:1:32:/permissions/alow: unknown key "alow" (did you mean allow?)`,
			`.pml.json:1:52:/permissions/deny: must be a list of patterns, not a string`,
			`.pml.json:1:69:/permissions/readonly: must be allow or ask, not "yes"`,
			`.pml.json:1:97:/limits/calls: must be a number, not a string`,
			`.pml.json:1:124:/approvals/ttl: must be a duration in quotes such as "5m", "12h" or "30d"; "0" means never or no limit`,
			`.pml.json:1:138:/approvals/decider: must be any or human, not "humans" (did you mean human?)`,
			`.pml.json:1:155:/approvals/pin: a PIN belongs to this machine: put it in config.json of pml's home`,
			`.pml.json:1:184:/mcpServers/a: needs a command or a url`,
			`.pml.json:1:188:/mcpServers/workspace: "workspace" cannot be the name of a server: it is that of a built-in server`,
		}},
		{"Syntax", "{\n  \"é\" 1\n}", []string{".pml.json:2:7: not valid JSON: invalid character '1' after object key"}},
		{"Empty", "", []string{".pml.json:1:1: not valid JSON: unexpected end of JSON input"}},
		{"Unclosed", `{"version": 1`, []string{".pml.json:1:14: not valid JSON: unexpected end of JSON input"}},
		{"Comment", "{ /* ", []string{".pml.json:1:3: the comment that starts here does not end"}},
		{"NotUTF8", "{\"a\xff\": 1}", []string{".pml.json:1:4: the file is not UTF-8 text"}},
		{"List", `[]`, []string{`.pml.json:1:1: must be an object, not a list`}},
		{"Null", `{"flows": null}`, []string{`.pml.json:1:11:/flows: must be a string, not null`}},
		{"Twice", `{"flows": "a", "flows": "b"}`, []string{`.pml.json:1:16:/flows: the key "flows" stands twice`}},
		{"Newer", `{"version": 2}`, []string{`.pml.json:1:13:/version: must be a whole number from 1 to 1`}},
		{"Both", `{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}`, []string{`.pml.json:1:22:/mcpServers/a: has a command and a url; one of them is too many`}},
		{"TypeOfUrl", `{"mcpServers": {"a": {"type": "stdio", "url": "http://x"}}}`, []string{`.pml.json:1:22:/mcpServers/a: type "stdio" does not go with a url`}},
		{"Scheme", `{"mcpServers": {"a": {"url": "ftp://x"}}}`, []string{`.pml.json:1:22:/mcpServers/a/url: must be a URL that begins with http:// or https:// and names a host`}},
		{"Ref", `{"mcpServers": {"a": {"command": "x", "args": ["${A", "${a b}"], "env": {"K": "${A:-${B}}"}}}}`, []string{
			`.pml.json:1:48:/mcpServers/a/args/0: a "${" is not closed; write "$${" for a literal one`,
			`.pml.json:1:55:/mcpServers/a/args/1: after "${" stands something else than the name of a variable; write "$${" for a literal one`,
			`.pml.json:1:79:/mcpServers/a/env/K: the default of ${A:-…} holds another ${; that is not supported`,
		}},
		{"Name", `{"mcpServers": {"a:b": {"command": "x"}}}`, []string{`.pml.json:1:17:/mcpServers/a:b: "a:b" cannot be the name of a server: use letters, digits, dot, underscore and, but for the first, dash`}},
		{"NameLeavesShell", `{"mcpServers": {"x';touch y;'": {"command": "x"}}}`, []string{`.pml.json:1:17:/mcpServers/x';touch y;': "x';touch y;'" cannot be the name of a server: use letters, digits, dot, underscore and, but for the first, dash`}},
		{"NameUnseen", `{"mcpServers": {"fs\u115f": {"command": "x"}}}`, []string{`.pml.json:1:17:/mcpServers/fs` + "\u115f" + `: "fs\\u{115f}" cannot be the name of a server: use letters, digits, dot, underscore and, but for the first, dash`}},
		{"NameIsFlag", `{"mcpServers": {"--yes": {"command": "x"}, "é-1": {"command": "x"}}}`, []string{`.pml.json:1:17:/mcpServers/--yes: "--yes" cannot be the name of a server: use letters, digits, dot, underscore and, but for the first, dash`}},
		{"FlowsOutside", `{"flows": "../x"}`, []string{`.pml.json:1:11:/flows: must be a folder within the workspace`}},
		{"ServerURL", `{"server": {"url": "${NOPE}"}}`, []string{`.pml.json:1:20:/server/url: ${NOPE} is not set; set it in the environment, or write ${NOPE:-default}`}},
		{"Deep", strings.Repeat("[", 100), []string{`.pml.json:1:100: nested more than 64 deep`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write(".pml.json", c.text)
			if c.want == nil {
				b.load()
				return
			}
			equal(t, c.want, b.faults())
		})
	}
}

func TestLoad_FaultsOfBothFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"a1": 1}`)
	b.write(".pml.json", `{"b1": 1}`)
	equal(t, []string{`config.json:1:2:/a1: unknown key "a1"`, `.pml.json:1:2:/b1: unknown key "b1"`}, b.faults())
}

func TestLoad_FileIsAFolder(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json/x", "")
	equal(t, []string{".pml.json: is not a file"}, b.faults())
}

const keysConfig = `{"mcpServers": {
	"gh": {"command": "${BIN:-gh-mcp}", "args": ["--org", "${ORG}"], "env": {"TOKEN": "${GH_TOKEN}", "EMPTY": "", "OPT": "${OPT:-}", "LIT": "plain"}},
	"web": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${WEB_KEY}"}},
	"lit": {"url": "https://x/mcp", "headers": {"Authorization": "Bearer your-key-here"}},
	"ok": {"command": "run", "args": ["$${X}", "a$b"], "env": {}}
}}`

func TestKeys(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", keysConfig)
	c := b.load()
	missing := func(server string) []string {
		t.Helper()
		k, err := c.Keys(server)
		if err != nil {
			t.Fatal(err)
		}
		return k.Missing
	}
	equal(t, []string{"EMPTY", "GH_TOKEN"}, missing("gh"))
	equal(t, []string{"WEB_KEY"}, missing("web"))
	equal(t, []string{"Authorization"}, missing("lit"))
	equal(t, []string(nil), missing("ok"))

	// .env is read again each time (scenario 8); a placeholder is no key.
	b.write(".env", "GH_TOKEN=your-key-here\nEMPTY=now-it-is-there\n")
	equal(t, []string{"GH_TOKEN"}, missing("gh"))
	b.write(".env", "GH_TOKEN='ghp_real'\nEMPTY=now-it-is-there\n")
	equal(t, []string(nil), missing("gh"))
	k, _ := c.Keys("gh")
	equal(t, map[string]string{"TOKEN": "ghp_real", "EMPTY": "now-it-is-there", "OPT": "", "LIT": "plain"}, k.Env)

	// The process environment beats .env, and another value another digest.
	b.environ["GH_TOKEN"] = "from-process"
	k2, _ := c.Keys("gh")
	equal(t, "from-process", k2.Env["TOKEN"])
	if k.Digest == k2.Digest {
		t.Error("the digest does not notice another value")
	}
	b.environ["WEB_KEY"] = "k"
	k3, _ := c.Keys("web")
	equal(t, map[string]string{"Authorization": "Bearer k"}, k3.Headers)
	if _, err := c.Keys("ghh"); core.CodeOf(err) != core.CodeNoSuchTool || !strings.Contains(err.Error(), "did you mean gh") {
		t.Errorf("unknown server: %v", err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", keysConfig)
	c := b.load()
	// One server's unset variable is no other server's problem.
	_, err := c.Resolve("gh")
	equal(t, []string{".pml.json:2:56:/mcpServers/gh/args/1: ${ORG} is not set; set it in the environment or .env, or write ${ORG:-default}"}, b.lines(err))
	r, err := c.Resolve("ok")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []string{"${X}", "a$b"}, r.Args)
	equal(t, b.work.Dir, r.Dir)
	equal(t, 2, len(c.Unset()))

	b.write(".env", "ORG=acme\nHOST=example.com\n")
	r, err = c.Resolve("gh")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "gh-mcp", r.Command)
	equal(t, []string{"--org", "acme"}, r.Args)
	equal(t, []string{"EMPTY", "GH_TOKEN"}, r.Missing)
	equal(t, 0, len(c.Unset()))
	b.environ["GH_TOKEN"] = "another"
	r2, _ := c.Resolve("gh")
	if r.Digest == r2.Digest {
		t.Error("the digest does not notice another value")
	}
}

func TestResolve_HomeEntryIgnoresDotEnv(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"mcpServers": {"web": {"url": "https://${HOST:-good}/", "headers": {"K": "${KEY}"}}}}`)
	b.write(".env", "HOST=evil\nKEY=from-dot-env\n")
	r, err := b.load().Resolve("web")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "https://good/", r.URL)
	equal(t, "from-dot-env", r.Headers["K"])
}

func TestResolve_MalformedDotEnv(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", keysConfig)
	b.write(".env", "A=1\nthis is hunter2-secret\nB=\"open\nC=3\n")
	c := b.load()
	_, err := c.Keys("gh")
	got := b.lines(err)
	equal(t, []string{
		".env:2:1: line 2 is not NAME=value; a quote may be missing",
		".env:3:1: line 3 is not NAME=value; a quote may be missing",
	}, got)
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("a value is in the message")
	}
	if _, err := c.Resolve("ok"); err != nil {
		t.Errorf("a server without variables: %v", err)
	}
}

func TestParseDotEnv_Multiline(t *testing.T) {
	t.Parallel()
	values, faults := env.ParseDotEnv(".env", []byte("\ufeffA=\"one\ntwo\"\r\nexport B=x # c\n\nbad line\nC='z'\n"))
	equal(t, map[string]string{"A": "one\ntwo", "B": "x", "C": "z"}, values)
	equal(t, 1, len(faults))
	equal(t, &core.Position{Line: 5, Column: 1}, faults[0].At)
}

func TestPlaceholder(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {"s": {"command": "x", "env": {"K": "${V}"}}}}`)
	c := b.load()
	check := func(value string, want bool) {
		t.Helper()
		b.environ["V"] = value
		k, err := c.Keys("s")
		if err != nil {
			t.Fatal(err)
		}
		if got := len(k.Missing) > 0; got != want {
			t.Errorf("%q is a placeholder: %v, want %v", value, got, want)
		}
	}
	for _, v := range []string{
		"", " ", "your-key-here", "YOUR_API_KEY", "your-github-token-here", "xxx", "XXXXXXXX", "xxxx-xxxx-xxxx", "<token>", "<your key>",
		"TODO", "todo", "CHANGE_ME", "changeme", "placeholder", "test-key", "fake-key", "fake_api_key", "example", "insert-here",
		"insert-your-key-here", "replace-me", "replace_with_your_token", "...", "***", "your key here", `"your-key-here"`,
		"sk-...", "ghp_…", "sk-proj-...", "TODO: set", "todo:", "FIXME : a key", "null", "undefined", "NULL",
	} {
		check(v, true)
	}
	for _, v := range []string{
		"sk-live-example-8f7a", "example.com", "https://example.com", "ghp_xxx1234", "xx", "x", "my-app", "test-project", "test-org",
		"none", "*", "[1,2]", "your", "todo-list", "AKIAIOSFODNN7EXAMPLE", "postgres://user:password@localhost/test", "production",
		"set-7f3a9c-here", "key", "token123", "enter", "public-key", "add-on",
		"./...", "nullable", "undefined-1", "sk-...4f8a", "http://todo:8080", "my:todo",
	} {
		check(v, false)
	}
}

func TestChildEnv(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"PATH": "/bin", "HOME": "/h", "SECRET": "s", "LANG": "C", "SHELL": "() { evil; }", "HTTPS_PROXY": "p", "npm_config_registry": "r", "TZ": ""}
	e := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	equal(t, []string{"HOME=/x", "KEY=v", "LANG=C", "PATH=/bin", "TZ="}, env.ChildEnv(map[string]string{"KEY": "v", "HOME": "/x"}, e))
	got := env.NpmEnv(e, []string{"SECRET", "npm_config_registry"})
	equal(t, []string{"HOME=/h", "HTTPS_PROXY=p", "LANG=C", "PATH=/bin", "TZ=", "npm_config_registry=r"}, got)
}

func TestShow_NoSecrets(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {"a": {"command": "x", "args": ["--t=${ARG}"], "env": {"K": "literal-secret", "L": "${L:-default-secret}"}, "headers": {"H": "Bearer abc${T}"}}}}`)
	b.environ["L"] = "value-of-l"
	got := string(b.load().Show())
	for _, secret := range []string{"literal-secret", "default-secret", "value-of-l", "Bearer"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is shown:\n%s", secret, got)
		}
	}
	for _, want := range []string{`"K": "«hidden»"`, `"H": "«hidden»${T}"`, `"from": "workspace"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not shown:\n%s", want, got)
		}
	}
}

func ExampleConfig_Keys() {
	dir, err := os.MkdirTemp("", "pml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text := `{"mcpServers": {"github": {"command": "gh-mcp", "env": {"TOKEN": "${GITHUB_TOKEN}"}}}}`
	if err := os.WriteFile(filepath.Join(dir, ".pml.json"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	none := func(string) (string, bool) { return "", false }
	c, err := env.Load(env.LoadOptions{Workspace: env.Workspace{Dir: dir}, Home: env.Home{Dir: dir}, Environ: none})
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := c.Keys("github")
	fmt.Println(keys.Missing, err)
	// Output: [GITHUB_TOKEN] <nil>
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {
		"a": {"command": "x", "args": ["--key=${ARG_KEY}", "${BASE}"], "env": {"TOKEN": "${TOKEN}", "ROOT": "`+b.work.Dir+`"}},
		"b": {"url": "https://x/", "headers": {"Authorization": "Bearer ${B_KEY}"}, "env": {"TOKEN": "another-token"}}}}`)
	b.write(".env", "TOKEN=token-in-file\nARG_KEY=key-in-argument\nB_KEY=key-in-header\nUNUSED=not-declared\n")
	b.environ["BASE"] = "/usr/share/base"
	b.write(b.home.Config(), `{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "third-token"}}}}`)
	equal(t, map[string]string{
		"a.TOKEN": "third-token", "TOKEN": "token-in-file", "ARG_KEY": "key-in-argument", "B_KEY": "key-in-header",
		"Authorization": "Bearer key-in-header", "b.TOKEN": "another-token", "UNUSED": "not-declared",
	}, b.load().Secrets())
}

// What stands in .env is redacted whether an entry declares it or not: a server
// can read the file. Plain words of settings are not: they stand everywhere.
func TestSecrets_Undeclared(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {"a": {"command": "${CMD}", "env": {"TOKEN": "${TOKEN}"}}}}`)
	b.environ["TOKEN"] = "of-the-environment"
	b.write(".env", strings.Join([]string{
		"CMD=./a-long-name-of-a-program", "TOKEN=of-the-file", "SMTP_PASS='quoted # value'", "export STRIPE_KEY=sk_live_0123456789", "SHORT=1234567",
		"NODE_ENV=production", "DB_HOST=localhost", "DB_PASSWORD=postgres", "HERE=" + b.work.Dir, "broken line", "LAST=after-the-broken-line",
	}, "\n")+"\n")
	equal(t, map[string]string{
		"TOKEN": "of-the-environment", ".env.TOKEN": "of-the-file", "SMTP_PASS": "quoted # value", "STRIPE_KEY": "sk_live_0123456789",
		"SHORT": "1234567", "DB_PASSWORD": "postgres", "LAST": "after-the-broken-line",
	}, b.load().Secrets())
	b.write(".env", strings.Repeat("broken line\n", 100)+"LAST=after-many-broken-lines\n")
	equal(t, "after-many-broken-lines", b.load().Secrets()["LAST"])
}
