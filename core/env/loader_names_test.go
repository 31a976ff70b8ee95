package env_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

const filledConfig = `{"mcpServers": {
	"run": {"command": "${CMD}", "args": ["-x", "${ARG:-a.js}", "${PLAIN}"], "cwd": "${SUB:-sub}",
		"env": {"NODE_OPTIONS": "${NODE_OPTS:-}", "PYTHONPATH": "", "LD_PRELOAD": "", "PATH": "/opt/bin:${PATH}", "HOME": "${HOME}", "TOKEN": "${TOKEN}", "DENO_AUTH_TOKENS": "${TOKEN}"}},
	"web": {"url": "${U:-https://good.example}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
}}`

// What .env fills of a workspace's entry is named where it decides what runs or
// where keys go, and nowhere else.
func TestResolve_FromDotEnv(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", filledConfig)
	b.environ["PLAIN"], b.environ["CMD"], b.environ["PATH"] = "p", "node", "/usr/bin"
	b.environ["HOME"] = "/home/me"
	b.write(".env", "TOKEN=t0ken-value\nPYTHONPATH=lib\nLD_PRELOAD=./x.so\n")
	resolve := func(name string) env.Resolved {
		t.Helper()
		r, err := b.load().Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := resolve("run")
	equal(t, []string{"/env/LD_PRELOAD", "/env/PYTHONPATH"}, r.FromDotEnv)
	equal(t, map[string]string{"LD_PRELOAD": "./x.so", "PYTHONPATH": "lib", "PATH": "/opt/bin:${PATH}"}, r.Loader)
	equal(t, "/opt/bin:/usr/bin", r.Env["PATH"])
	equal(t, "sub", r.Cwd)
	equal(t, filepath.Join(b.work.Dir, "sub"), r.Dir)
	equal(t, []string(nil), resolve("web").FromDotEnv)

	delete(b.environ, "CMD")
	b.write(".env", "TOKEN=t0ken-value\nCMD=./x.sh\nARG=b.js\nSUB=/elsewhere\nNODE_OPTS=--require ./pre.js\nU=https://evil.example\nPLAIN=unused\n")
	r = resolve("run")
	equal(t, []string{"/command", "/args/1", "/cwd", "/env/NODE_OPTIONS"}, r.FromDotEnv)
	equal(t, map[string]string{"NODE_OPTIONS": "--require ./pre.js", "PATH": "/opt/bin:${PATH}"}, r.Loader)
	equal(t, []string{"LD_PRELOAD", "PYTHONPATH"}, r.Missing)
	equal(t, "/elsewhere", r.Cwd)
	equal(t, []string{"/url"}, resolve("web").FromDotEnv)
}

// An entry of the home gets keys from the .env of a folder, not what it loads.
func TestResolve_HomeEntryLoadsNothingFromDotEnv(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"mcpServers": {
		"opt": {"command": "node", "env": {"NODE_OPTIONS": "${NODE_OPTS:-}", "PYTHONPATH": "", "KEY": "${KEY}"}},
		"must": {"command": "node", "env": {"NODE_OPTIONS": "${NODE_OPTS}"}}}}`)
	b.write(".env", "NODE_OPTS=--require ./evil.js\nPYTHONPATH=evil\nKEY=from-dot-env\n")
	c := b.load()
	r, err := c.Resolve("opt")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, map[string]string{"NODE_OPTIONS": "", "PYTHONPATH": "", "KEY": "from-dot-env"}, r.Env)
	equal(t, []string(nil), append(r.Missing, r.FromDotEnv...))
	_, err = c.Resolve("must")
	lines := b.lines(err)
	if core.CodeOf(err) != core.CodeInvalidConfig || len(lines) != 1 || !strings.Contains(lines[0], "/mcpServers/must/env/NODE_OPTIONS: ${NODE_OPTS} is not set; set it in the environment,") {
		t.Errorf("%v %q", err, lines)
	}
	b.environ["NODE_OPTS"] = "--max-old-space-size=100"
	r, err = b.load().Resolve("must")
	if err != nil || r.Env["NODE_OPTIONS"] != "--max-old-space-size=100" || r.Loader["NODE_OPTIONS"] != "--max-old-space-size=100" {
		t.Errorf("%+v %v", r, err)
	}
}

// What a person must see to decide what runs is no secret; keys beside it are.
func TestSecrets_NotWhatRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"mcpServers": {
		"run": {"command": "${CMD}", "args": ["${SCRIPT}", "--import=${SCRIPT}", "${KEY_ARG}"], "cwd": "${SUB}", "env": {
			"NODE_OPTIONS": "${NODE_OPTS}", "JAVA_TOOL_OPTIONS": "-Dtoken=${IN_OPTION}", "UV_INDEX_URL": "${INDEX}", "PYTHONPATH": "./lib:${SCRIPT}"}},
		"web": {"url": "${ORIGIN}/${IN_PATH}/mcp?k=${IN_QUERY}"},
		"whole": {"url": "${WHOLE}"}}}`)
	b.write("sub/long-name-of-a-script.js", "")
	b.write(".env", strings.Join([]string{
		"CMD=./long-name-of-a-program", "SCRIPT=long-name-of-a-script.js", "SUB=sub", "NODE_OPTS=--require ./long-name-of-a-file.js",
		"KEY_ARG=key-in-an-argument", "IN_OPTION=key-in-an-option", "INDEX=https://me:key-of-an-index@index.example/simple",
		"ORIGIN=https://host.example.org:8443", "IN_PATH=key-in-a-path", "IN_QUERY=key-in-a-query", "WHOLE=https://host.example.org/key-in-it/mcp",
	}, "\n"))
	equal(t, map[string]string{
		"KEY_ARG": "key-in-an-argument", "IN_OPTION": "key-in-an-option",
		"INDEX": "https://me:key-of-an-index@index.example/simple", "UV_INDEX_URL": "https://me:key-of-an-index@index.example/simple",
		"IN_PATH": "key-in-a-path", "IN_QUERY": "key-in-a-query", "WHOLE": "https://host.example.org/key-in-it/mcp",
	}, b.load().Secrets())
}

// A child finds no programs in whatever folder it stands in.
func TestChildEnv_AbsolutePath(t *testing.T) {
	t.Parallel()
	list := func(folders ...string) string { return strings.Join(folders, string(os.PathListSeparator)) }
	for path, want := range map[string]string{
		list("/a", "/b"): list("/a", "/b"), list("bin", "/a", "./x", "", "/b", "."): list("/a", "/b"),
		list("bin", ""): os.DevNull, "": os.DevNull,
	} {
		environ := func(name string) (string, bool) { return path, name == "PATH" }
		equal(t, []string{"PATH=" + want}, env.ChildEnv(nil, environ))
		equal(t, []string{"PATH=" + want}, env.ChildEnv(map[string]string{"PATH": path}, nil))
		equal(t, []string{"PATH=" + want}, env.NpmEnv(environ, nil))
	}
}

// Each family of variables that load code, beside keys of the same beginning.
func TestResolve_Loader(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	declare := func(names ...string) string {
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = `"` + name + `": "x"`
		}
		return strings.Join(list, ", ")
	}
	loads := []string{
		"AWS_CONFIG_FILE", "BASH_ENV", "BUN_INSTALL", "DENO_DIR", "DOCKER_AUTH_CONFIG", "DOCKER_HOST", "DYLD_INSERT_LIBRARIES", "ENV", "GIT_ASKPASS", "GIT_SSH_COMMAND",
		"GOFLAGS", "GRADLE_OPTS", "HOME", "HTTPS_PROXY", "JAVA_TOOL_OPTIONS", "JRUBY_OPTS", "KUBECONFIG", "LD_PRELOAD", "MYAPP_CONFIG_KEY", "NODE_OPTIONS", "NODE_PATH",
		"OPENAI_BASE_URL", "OPENSSL_CONF", "PATH", "PERL5OPT", "PGHOST", "PIP_INDEX_URL", "PYTHONPATH", "PYTHONSTARTUP", "PYTHON_KEYRING_BACKEND", "RUBYOPT", "SSH_ASKPASS",
		"UV_INDEX_URL", "https_proxy", "npm_config_registry",
	}
	keys := []string{"API_KEY", "BUN_AUTH_TOKEN", "DENO_AUTH_TOKENS", "DOCKER_PASSWORD", "ENVIRONMENT", "GITHUB_TOKEN", "NODE_ENV", "PATHS", "UV_INDEX_MINE_PASSWORD"}
	b.write(".pml.json", `{"mcpServers": {"s": {"command": "x", "env": {`+declare(append(loads, keys...)...)+`}}}}`)
	r, err := b.load().Resolve("s")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, loads, slices.Sorted(maps.Keys(r.Loader)))
}

// .env fills what has the name of a key and nothing else without a question,
// whatever the entry declares and whoever it belongs to.
func TestResolve_OnlyKeysSilently(t *testing.T) {
	t.Parallel()
	silent := []string{
		"API_KEY", "AWS_ACCESS_KEY_ID", "DATABASE_URL", "EXAAPIKEY", "GITHUB_PAT", "GITHUB_PERSONAL_ACCESS_TOKEN", "MONGODB_URI", "PGPASSWORD", "PGUSER_PASSWORD",
		"SENTRY_DSN", "SLACK_TEAM_ID", "SLACK_WEBHOOK_URL", "SMTP_PASS", "SMTP_USER",
	}
	asked := []string{
		"ANTHROPIC_BASE_URL", "BASH_ENV", "CUSTOM_URL", "GIT_ASKPASS", "HTTPS_PROXY", "JRUBY_OPTS", "KUBECONFIG", "LOG_LEVEL", "MEMORY_FILE_PATH", "MYAPP_CONFIG_TOKEN",
		"NODE_OPTIONS", "OPENSSL_CONF",
	}
	b := newBox(t)
	var declared, dotenv []string
	for _, name := range append(slices.Clone(silent), asked...) {
		declared = append(declared, `"`+name+`": "${`+name+`}"`)
		dotenv = append(dotenv, name+"=value-of-it")
	}
	entry := `{"mcpServers": {"s": {"command": "x", "env": {` + strings.Join(declared, ", ") + `}}}}`
	b.write(".pml.json", entry)
	b.write(".env", strings.Join(dotenv, "\n"))
	r, err := b.load().Resolve("s")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range asked {
		want = append(want, "/env/"+name)
	}
	slices.Sort(want)
	equal(t, want, r.FromDotEnv)
	equal(t, "(from .env)", r.Loader["LOG_LEVEL"])
	equal(t, "value-of-it", r.Env["LOG_LEVEL"])
	equal(t, "value-of-it", r.Loader["JRUBY_OPTS"])

	b.write(".pml.json", `{}`)
	b.write(b.home.Config(), `{"mcpServers": {"s": {"command": "x", "env": {"API_KEY": "${API_KEY}", "LOG_LEVEL": "${LOG_LEVEL}", "HTTPS_PROXY": ""}}}}`)
	r, err = b.load().Resolve("s")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []string{"/env/LOG_LEVEL"}, r.FromDotEnv)
	equal(t, map[string]string{"API_KEY": "value-of-it", "LOG_LEVEL": "value-of-it", "HTTPS_PROXY": ""}, r.Env)
	// The environment of the user is no file of a folder.
	b.environ["LOG_LEVEL"] = "debug"
	r, err = b.load().Resolve("s")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []string(nil), r.FromDotEnv)
}
