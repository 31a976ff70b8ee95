package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli/layout"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func withServers() *fake { return &fake{world: world{list: servers()}} }

const serversTable = `NAME   STATE        KIND   VERSION/URL                                                   TOOLS  FROM
files  ready        npm    2026.8.31                                                     14     workspace
web    needs        http   https://mcp.example.com/a/very/long/path/that/is/shown/whole  -      home
git    not_trusted  uvx    -                                                             -      workspace
bad    broken       other  -                                                             0      workspace
`

func TestServers_Golden(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: withServers()}).run("servers", "ls").want(t, 0).has(t, "err", "next: pml servers install --all", `bad: broken: it ended at once\x1b[31m no database`,
		"git: warning: the version is looked up anew each time")
	if diff := cmp.Diff(serversTable, s.out); diff != "" {
		t.Error(diff)
	}
	colour := (&shell{fake: withServers(), env: map[string]string{"NO_COLOR": "1"}}).run("srv", "list").want(t, 0)
	if diff := cmp.Diff(s.out, colour.out); diff != "" {
		t.Error(diff)
	}
	narrow := (&shell{fake: withServers(), tty: true, width: 40}).run("servers", "ls").want(t, 0)
	for line := range strings.Lines(narrow.out) {
		if layout.Width(strings.TrimSuffix(line, "\n")) > 40 {
			t.Errorf("too wide: %q", line)
		}
	}
	(&shell{fake: withServers(), tty: true, width: 40}).run("servers", "ls", "-o", "wide").want(t, 0).
		has(t, "out", "@scope/server@^2026", hashA, "npx -y '@scope/server@^2026' 'a b'", "oauth_connect", "the version is looked up anew each time")
	(&shell{}).run("servers", "ls").want(t, 0).has(t, "err", "no servers are configured")
}

// A broken one has below its reason what corrects it.
func TestServers_BrokenNext(t *testing.T) {
	t.Parallel()
	f := &fake{world: world{list: []api.ServerInfo{{Name: "bad", State: api.ServerFailed, Kind: "npm", Error: "gone", Next: []string{"pml", "servers", "add", "bad", "--replace", "--", "COMMAND"}}}}}
	(&shell{fake: f}).run("servers", "ls").want(t, 0).has(t, "err", "bad: broken: gone\n  next: pml servers add bad --replace -- COMMAND\n")
}

// One that was never started is not said to be ready: what it asks for is not known.
func TestServers_NotStarted(t *testing.T) {
	t.Parallel()
	f := &fake{world: world{list: []api.ServerInfo{{Name: "new", State: api.ServerReady, Kind: "npm"}, {Name: "workspace", State: api.ServerReady, Kind: "builtin"}}}}
	(&shell{fake: f}).run("servers", "ls").want(t, 0).has(t, "out", "new        not started", "workspace  ready")
	f.world.list[0].Tools = 3
	if s := (&shell{fake: f}).run("servers", "ls").want(t, 0); strings.Contains(s.out, "not started") {
		t.Error(s.out)
	}
}

func TestServers_JSON(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: withServers()}).run("servers", "ls", "--json").want(t, 0)
	var page api.Page[api.ServerInfo]
	if err := json.Unmarshal([]byte(s.out), &page); err != nil || len(page.Items) != 4 || page.Items[0].State != api.ServerReady {
		t.Errorf("%v: %s", err, s.out)
	}
	if s.err != "" {
		t.Errorf("stderr %q", s.err)
	}
	if s := (&shell{fake: withServers()}).run("servers", "ls", "-o", "jsonl").want(t, 0); strings.Count(s.out, "\n") != 4 {
		t.Errorf("%s", s.out)
	}
	if diff := cmp.Diff("{\n  \"items\": []\n}\n", (&shell{}).run("servers", "ls", "--json").want(t, 0).out); diff != "" {
		t.Error(diff)
	}
}

func TestServers_Alone(t *testing.T) {
	t.Parallel()
	(&shell{fake: withServers()}).run("servers").want(t, 0).has(t, "out", "NAME", "workspace") // as servers ls
	(&shell{}).run("servers", "lits").want(t, 2).has(t, "err", "did you mean list")
}

func TestServersCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		names []string
		code  int
	}{
		{"All", nil, 1},
		{"Ready", []string{"files"}, 0},
		{"Needs", []string{"files", "web"}, 8},
		{"NotTrusted", []string{"git"}, 8},
		{"Failed", []string{"bad"}, 1},
		{"FailedWeighsMore", []string{"bad", "web"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{fake: withServers()}).run(append([]string{"servers", "check"}, tt.names...)...).want(t, tt.code)
			if diff := cmp.Diff(tt.names, s.fake.world.checked); diff != "" && tt.names != nil {
				t.Error(diff)
			}
			j := (&shell{fake: withServers()}).run(append([]string{"servers", "check", "--json"}, tt.names...)...).want(t, tt.code)
			if !json.Valid([]byte(j.out)) || j.err != "" {
				t.Errorf("stdout %s, stderr %s", j.out, j.err)
			}
		})
	}
	(&shell{fake: &fake{failWith: core.Errorf(core.CodeNoSuchTool, "no server has the name fils (did you mean files?)")}}).
		run("servers", "check", "fils").want(t, 3).has(t, "err", "did you mean files")
	other := &fake{world: world{list: []api.ServerInfo{{Name: "x", State: "asleep"}}}}
	(&shell{fake: other}).run("servers", "check").want(t, 1)
}

// What decides about a changed command line is said with it.
func TestServersCheck_Integrity(t *testing.T) {
	t.Parallel()
	need := []api.ServerNeed{{Type: core.ApproveIntegrity, Description: "its command line is new", Digest: hashA}}
	next := []string{"pml", "servers", "install", "db"}
	s := &shell{fake: &fake{world: world{list: []api.ServerInfo{{Name: "db", State: api.ServerNeeds, Kind: "other", Needs: need, Next: next}}}}}
	s.run("servers", "check").want(t, 8).has(t, "out", "decided      by the next command, or when a run first calls one of its tools", "next: pml servers install db")
}

func TestServersCheck_Details(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: withServers()}).run("servers", "check", "web", "bad", "git").want(t, 1)
	want := `
web
  needs        oauth_connect
  what         web asks you to sign in
  digest       ` + hashA + `
  next: pml servers connect web

git
  needs        the trust of this workspace's files on this machine
  warning      the version is looked up anew each time
  next: pml trust

bad
  error        it ended at once\x1b[31m no database
  health       failing, failed 3 times in a row
  last error   exit status 1
  its last words on stderr:
    boom\x07
    Traceback
  tool changed: bad:write
    - readOnlyHint: true
    + readOnlyHint: false
    was sha256:aa
    now sha256:bb
  next: pml servers check bad
`
	_, details, _ := strings.Cut(s.out, "workspace\n\n")
	if i := strings.Index(s.out, "\nweb\n"); i >= 0 {
		details = s.out[i:]
	}
	if diff := cmp.Diff(want, details); diff != "" {
		t.Error(diff)
	}
	s.has(t, "err", "checking servers")
	if q := (&shell{fake: withServers()}).run("servers", "check", "files", "--quiet").want(t, 0); q.err != "" {
		t.Errorf("quiet: %q", q.err)
	}
}

// At a terminal what a server needs is folded at words, under what it is of.
func TestServersCheck_Narrow(t *testing.T) {
	t.Parallel()
	need := []api.ServerNeed{{Type: core.ApproveIntegrity, Description: strings.Repeat("nine of its tools only read ", 6), Digest: hashA}}
	s := &shell{tty: true, width: 80, fake: &fake{world: world{list: []api.ServerInfo{{Name: "db", State: api.ServerNeeds, Kind: "npm", Needs: need}}}}}
	s.run("servers", "check").want(t, 8).has(t, "out", "nine of\n               its tools")
	for line := range strings.Lines(s.out) {
		if layout.Width(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("too wide: %q", line)
		}
	}
}

func TestServersLock(t *testing.T) {
	t.Parallel()
	stale := func() *fake {
		return &fake{
			world: world{lock: api.LockReport{File: "/w/pml.lock", Changed: []string{"files", "git\x1b[2J"}}},
			trust: api.TrustState{Workspace: "/w", Digest: hashA},
		}
	}
	s := (&shell{fake: stale()}).run("servers", "lock", "files", "git").want(t, 0).
		has(t, "out", "wrote /w/pml.lock: files, git\\x1b[2J").has(t, "err", "next: pml trust")
	if s.fake.world.lockOnly || len(s.fake.world.locked) != 2 {
		t.Errorf("%+v", s.fake.world)
	}
	s = (&shell{fake: stale()}).run("servers", "lock", "--check").want(t, 1).
		has(t, "out", "is not up to date: files").has(t, "err", "next: pml servers lock")
	if !s.fake.world.lockOnly {
		t.Error("--check wrote")
	}
	s = (&shell{fake: stale()}).run("servers", "lock", "--check", "--json").want(t, 1).has(t, "out", `"written": false`, `"servers": []`)
	if s.err != "" {
		t.Errorf("stderr %q", s.err)
	}
	gone := &fake{world: world{lock: api.LockReport{File: "/w/pml.lock", Changed: []string{"files", "git"}, Gone: []string{"git"}}}}
	(&shell{fake: gone}).run("servers", "lock", "--check").want(t, 1).has(t, "out", "is not up to date: files; the configuration no longer has git")
	(&shell{fake: gone}).run("servers", "lock").want(t, 0).has(t, "out", "wrote /w/pml.lock: files; taken out git")
	fresh := &fake{world: world{lock: api.LockReport{File: "/w/pml.lock"}}}
	(&shell{fake: fresh}).run("servers", "lock", "--check").want(t, 0).has(t, "out", "/w/pml.lock is up to date")
	offline := &fake{world: world{lock: api.LockReport{File: "/w/pml.lock", Servers: servers()}}}
	(&shell{fake: offline}).run("servers", "lock").want(t, 1).has(t, "out", "it ended at once")
}

func TestServersConnect(t *testing.T) {
	t.Parallel()
	long := "https://id.example.com/authorize?client_id=" + strings.Repeat("x", 300) + "&state=\x1b[2J"
	shown := strings.ReplaceAll(long, "\x1b", `\x1b`)
	for _, tty := range []bool{false, true} {
		s := (&shell{tty: tty, width: 40, fake: &fake{world: world{url: long}}}).run("servers", "connect", "web").want(t, 0).
			has(t, "err", "\n"+shown+"\n", "waiting for the browser").has(t, "out", "connected web\n")
		if s.browsed != nil {
			t.Error("a browser was opened")
		}
	}
	s := (&shell{fake: &fake{world: world{url: long}}}).run("servers", "connect", "web", "--quiet").want(t, 0).has(t, "err", shown)
	if strings.Contains(s.err, "waiting") {
		t.Error("not quiet")
	}
	s = (&shell{fake: &fake{world: world{url: "https://id.example.com/a?b=1&c=2"}}}).run("servers", "connect", "web", "--json", "--open").want(t, 0).
		has(t, "out", `"connected": true`)
	var line struct {
		URL string `json:"auth_url"`
	}
	if err := json.Unmarshal([]byte(s.err), &line); err != nil || line.URL != "https://id.example.com/a?b=1&c=2" {
		t.Errorf("%v: %q", err, s.err)
	}
	if diff := cmp.Diff([]string{line.URL}, s.browsed); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"file:///etc/passwd", "--help", "javascript:alert(1)", "x-app://open", "https:nohost"} {
		s = (&shell{fake: &fake{world: world{url: bad}}}).run("servers", "connect", "web", "--open").want(t, 0).has(t, "err", bad, "was not opened")
		if s.browsed != nil {
			t.Errorf("%s was opened", bad)
		}
	}
	failing := &fake{failWith: core.Errorf(core.CodeAuth, "the server refused"), world: world{url: "https://x.example"}}
	(&shell{fake: failing}).run("servers", "connect", "web").want(t, 4).has(t, "err", "the server refused")
	(&shell{fake: &fake{block: true}}).run("servers", "connect", "web", "--timeout", "1ms").want(t, 124)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(app.Signal{Code: 130})
	(&shell{ctx: ctx, fake: &fake{block: true}}).run("servers", "connect", "web").want(t, 130)
}

func TestServers_Completion(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: withServers()}).run("__complete", "servers", "rm", "").want(t, 0).has(t, "out", "files\tnpm ready", "web\thttp needs")
	if s.fake.world.checked != nil {
		t.Error("completion started servers")
	}
	s = (&shell{fake: withServers()}).run("__complete", "servers", "update", "files", "").want(t, 0)
	if strings.Contains(s.out, "web") {
		t.Errorf("a second name: %s", s.out)
	}
	s = (&shell{fake: withServers()}).run("__complete", "servers", "check", "files", "").want(t, 0).has(t, "out", "web\t")
	if strings.Contains(s.out, "files\t") {
		t.Errorf("a name twice: %s", s.out)
	}
	(&shell{openErr: core.Errorf(core.CodeInvalidConfig, "bad")}).run("__complete", "servers", "update", "").want(t, 0)
	(&shell{}).run("__complete", "servers", "import", "").want(t, 0).has(t, "out", "claude-desktop", "mcp.json")
	(&shell{}).run("__complete", "continue", "7f3a", "--remember", "").want(t, 0).has(t, "out", "session")
}

// Of a server that does not start a check says in words what its next command corrects.
func TestServersCheck_Helps(t *testing.T) {
	t.Parallel()
	for word, next := range map[string][]string{
		"check the address":                  {"pml", "servers", "add", "bad", "--replace", "--url", "URL"},
		"declare the variable that it lacks": {"pml", "servers", "add", "bad", "--replace", "--env", "KEY_A", "--", "run"},
		"  next: pml servers check bad\n":    {"pml", "servers", "check", "bad"},
	} {
		f := &fake{world: world{list: []api.ServerInfo{{Name: "bad", State: api.ServerFailed, Kind: "http", Error: "gone", Next: next}}}}
		s := (&shell{fake: f}).run("servers", "check").want(t, 1).has(t, "out", word, "  next: "+strings.Join(next, " ")+"\n")
		if strings.Contains(s.out, "helps") == (next[2] == "check") {
			t.Error(s.out)
		}
	}
}
