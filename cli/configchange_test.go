package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// changing is a fake whose workspace is trusted, and whose commands change its
// file.
func changing() *fake {
	return &fake{
		world: world{set: change(), sources: []api.ImportSource{{
			Host: "cursor", File: "/u/.cursor/mcp.json", Servers: []string{"files", "web"}, Skipped: []string{"old: it speaks SSE only"},
		}}},
		trust: api.TrustState{Workspace: "/w", Trusted: true, Digest: hashA},
	}
}

func addFiles(flags ...string) []string {
	args := append([]string{"servers", "add", "files"}, flags...)
	return append(args, "--", "npx", "-y", "x")
}

const shownChange = `in /w/.pml.json:
     "mcpServers": {
  +    "files": {"command": "npx", "args": ["-y", "x\x1b[2J"]}
     }
  note: the value of KEY goes to .env
note: nothing is started
`

// A change is shown, then asked, then written; whatever else happens, nothing
// is written.
func TestChange_ShownThenAsked(t *testing.T) {
	t.Parallel()
	once := []writing{{Digest: hashA}}
	kept := []writing{{Digest: hashA, Keep: true}}
	tests := []struct {
		name  string
		tty   bool
		typed string
		flags []string
		code  int
		want  []writing
		says  []string
	}{
		{"KeepTrust", true, "yes\n", nil, 0, kept, []string{"add files? [y]es / [n]o: ", "next: pml servers install files"}},
		{"TrustByFlag", true, "y\n", []string{"--trust"}, 0, kept, nil},
		{"No", true, "n\n", nil, 9, nil, []string{"nothing was written"}},
		{"EmptyIsNoYes", true, "\n\n \nn\n", nil, 9, nil, nil},
		{"EOF", true, "", nil, 8, nil, []string{"nobody answered"}},
		{"Pipe", false, "y\n", nil, 8, nil, []string{"no terminal to ask on", "next: pml servers add files --yes -- npx -y x"}},
		{"PipeYes", false, "", []string{"--yes"}, 0, once, []string{"next: pml trust"}},
		{"PipeYesTrust", false, "", []string{"--yes", "--trust"}, 0, kept, nil},
		{"PipeTrust", false, "", []string{"--trust"}, 8, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{tty: tt.tty, stdin: tt.typed, fake: changing()}).run(addFiles(tt.flags...)...).want(t, tt.code).
				has(t, "err", append(tt.says, shownChange)...)
			if diff := cmp.Diff(tt.want, s.fake.world.written); diff != "" {
				t.Error(diff)
			}
			out := "wrote /w/.pml.json\n"
			if tt.code != 0 {
				out = ""
			}
			if diff := cmp.Diff(out, s.out); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Where people decide, one who has said yes at a terminal may keep the trust; --yes is nobody.
func TestChange_TrustInPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags []string
		code  int
	}{{[]string{"--trust"}, 0}, {[]string{"--trust", "--yes"}, 8}} {
		f := changing()
		f.trust.Human = true
		s := (&shell{tty: true, stdin: "y\n", fake: f}).run(addFiles(tt.flags...)...).want(t, tt.code)
		if written := len(s.fake.world.written); written != map[int]int{0: 1, 8: 0}[tt.code] {
			t.Errorf("%v: written %d times", tt.flags, written)
		}
		if tt.code != 0 {
			s.has(t, "err", "error: nothing was written: people decide in /w", "next: pml servers add files --trust -- npx -y x\n")
		}
	}
}

func TestChange_JSON(t *testing.T) {
	t.Parallel()
	type shape struct {
		Changes []struct {
			File, Diff, Digest string
		}
		Written bool
		Trusted *bool
	}
	read := func(s *shell) (v shape) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.out), &v); err != nil {
			t.Fatalf("%v: %s", err, s.out)
		}
		return v
	}
	// A terminal or not: output for programs never asks.
	s := (&shell{tty: true, stdin: "y\nyes\n", fake: changing()}).run(addFiles("--json")...).want(t, 8)
	if v := read(s); v.Written || len(v.Changes) != 1 || v.Changes[0].Digest != hashA || v.Trusted != nil || s.fake.world.written != nil {
		t.Errorf("%+v", v)
	}
	var body struct {
		Error struct {
			Code string
			Exit int
			Next []string
		}
	}
	if err := json.Unmarshal([]byte(s.err), &body); err != nil {
		t.Fatalf("%v: %s", err, s.err)
	}
	if diff := cmp.Diff([]string{"pml", "servers", "add", "files", "--json", "--yes", "--", "npx", "-y", "x"}, body.Error.Next); diff != "" || body.Error.Exit != 8 {
		t.Error(diff)
	}
	s = (&shell{fake: changing()}).run(addFiles("--json", "--yes")...).want(t, 0)
	if v := read(s); !v.Written || v.Trusted == nil || *v.Trusted || s.err != "" {
		t.Errorf("%+v, stderr %q", v, s.err)
	}
	s = (&shell{fake: changing()}).run(addFiles("--json", "--yes", "--trust")...).want(t, 0)
	if v := read(s); v.Trusted == nil || !*v.Trusted {
		t.Errorf("%+v", v)
	}
}

// A workspace that is not trusted does not become so by a change, and a change
// of the home's file has nothing to do with it.
func TestChange_NoTrustToKeep(t *testing.T) {
	t.Parallel()
	f := changing()
	f.trust.Trusted = false
	s := (&shell{tty: true, stdin: "y\n", fake: f}).run(addFiles("--trust")...).want(t, 0).has(t, "err", "--trust keeps a trusted workspace trusted, and this one was not", "next: pml trust")
	if diff := cmp.Diff([]writing{{Digest: hashA}}, s.fake.world.written); diff != "" {
		t.Error(diff)
	}
	f = changing()
	f.world.set.Changes[0].File = "/h/config.json"
	s = (&shell{tty: true, stdin: "y\n", fake: f}).run(addFiles("--global")...).want(t, 0)
	if strings.Contains(s.err, "trust") || !s.fake.world.added[0].Home {
		t.Errorf("%s", s.err)
	}
	f = changing()
	f.world.set = api.ChangeSet{}
	s = (&shell{fake: f}).run(addFiles()...).want(t, 0).has(t, "out", "nothing to change")
	if s.fake.world.written != nil {
		t.Error("wrote nothing at all")
	}
}

func TestChange_Pin(t *testing.T) {
	t.Parallel()
	f := changing()
	f.world.pin = "493817"
	s := (&shell{tty: true, stdin: "y\nyes\n", secrets: []string{"493817"}, fake: f}).run(addFiles()...).want(t, 0)
	if diff := cmp.Diff([]writing{{hashA, true, "493817"}}, s.fake.world.written); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(s.out+s.err, "493817") {
		t.Error("the PIN was shown")
	}
	f = changing()
	f.world.pin = "493817"
	s = (&shell{tty: true, stdin: "y\nno\n", fake: f}).run(addFiles()...).want(t, 0) // no trust, no PIN
	if len(s.prompts) > 0 {
		t.Error("asked for the PIN")
	}
	f = changing()
	f.world.pin = "493817"
	s = (&shell{stdin: "493817\n", secrets: []string{"493817"}, fake: f}).run(addFiles("--yes", "--trust")...).want(t, 4).has(t, "err", "at a terminal")
	if s.fake.world.written != nil || len(s.prompts) > 0 {
		t.Error("a PIN from a pipe counted")
	}
}

func TestServersAdd_Entry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want api.ServerEntry
	}{
		{"Command", []string{"files", "--", "npx", "-y", "x", "--flag", "--", "."},
			api.ServerEntry{Name: "files", Command: "npx", Args: []string{"-y", "x", "--flag", "--", "."}}},
		{"Env", []string{"s", "--env", "A=b=c,d", "--env", "TOKEN", "--env=KEY=-", "--env", "EMPTY=", "--", "run"},
			api.ServerEntry{Name: "s", Command: "run", Args: []string{}, Env: map[string]string{"A": "b=c,d", "TOKEN": "${TOKEN}", "KEY": "${KEY}", "EMPTY": ""}}},
		{"URL", []string{"w", "--url", "https://x.example/mcp", "--header", "Authorization: Bearer a:b", "--header", "X-Api-Key", "--header", "x-2fa=-", "--global"},
			api.ServerEntry{Name: "w", URL: "https://x.example/mcp", Home: true, Headers: map[string]string{
				"Authorization": "Bearer a:b", "X-Api-Key": "${X_API_KEY}", "x-2fa": "${X_2FA}",
			}}},
		{"OAuth", []string{"w", "--url", "https://x.example/mcp", "--oauth-client-id", "Iv1.8a", "--oauth-secret", "W_SECRET", "--oauth-scope", "repo", "--oauth-port", "8976"},
			api.ServerEntry{Name: "w", URL: "https://x.example/mcp", OAuth: &core.OAuthClient{
				ClientID: "Iv1.8a", ClientSecret: "${W_SECRET}", Scopes: []string{"repo"}, RedirectPort: 8976,
			}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// --yes stands first: what follows -- is the command's.
			s := (&shell{fake: changing()}).run(append([]string{"servers", "add", "--yes"}, tt.args...)...).want(t, 0)
			if diff := cmp.Diff([]api.ServerEntry{tt.want}, s.fake.world.added); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What comes next is what the new server needs, where a command decides that.
func TestServersAdd_Next(t *testing.T) {
	t.Parallel()
	install := []string{"pml", "servers", "install", "files"}
	for name, tt := range map[string]struct {
		list []api.ServerInfo
		want string
	}{
		"Needs": {[]api.ServerInfo{{Name: "x", State: api.ServerReady}, {Name: "files", State: api.ServerNeeds, Kind: "npm", Next: install}}, "next: pml servers install files\n"},
		"Ready": {[]api.ServerInfo{{Name: "files", State: api.ServerReady, Next: install}}, "next: pml servers install files\n"},
		"Other": {[]api.ServerInfo{{Name: "x", State: api.ServerNeeds, Next: install}}, "next: pml servers install files\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := changing()
			f.world.list = tt.list
			(&shell{tty: true, stdin: "yes\n", fake: f}).run(addFiles()...).want(t, 0).has(t, "err", tt.want)
		})
	}
}

// At a terminal a server that was added is installed and checked at once, if the person wants it.
func TestServersAdd_AtOnce(t *testing.T) {
	t.Parallel()
	for typed, checked := range map[string]bool{"y\ny\n": true, "y\nn\n": false, "y\n": false} {
		f := changing()
		f.world.list = []api.ServerInfo{{Name: "files", State: api.ServerReady, Kind: "file", Tools: 3}}
		s := (&shell{tty: true, stdin: typed, fake: f}).run(addFiles()...).want(t, 0).has(t, "err", "install and check it now? [y]es (enter) / [n]o: ")
		if strings.Contains(s.out, "STATE") != checked || strings.Contains(s.err, "next: pml servers install files\n") == checked {
			t.Errorf("%q: %s%s", typed, s.out, s.err)
		}
	}
	if s := (&shell{tty: true, fake: changing()}).run(addFiles("--yes", "--trust")...).want(t, 0); strings.Contains(s.err, "now?") {
		t.Error(s.err)
	}
}

// A value on the command line is a key until somebody knows better: no error
// and no advice writes it out again.
func TestServersAdd_SecretsNotEchoed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--env", "KEY=hunter2hunter2", "--", "run"},
		{"--env", "hunter2-hunter2", "--", "run"},
		{"--env", "KEY=hunter2hunter2", "--env", "KEY=hunter2hunter2", "--", "run"},
		{"--url", "https://x.example", "--header", "Authorization: Bearer hunter2hunter2"},
		{"--url", "https://x.example", "--header", "Bearer hunter2hunter2"},
		{"--url", "https://x.example", "--header", "A: hunter2hunter2\x01"},
		{"--url", "https://x.example", "--oauth-client-id", "a", "--oauth-secret", "hunter2-hunter2"},
		{"--url", "https://x.example", "--oauth-secret", "HUNTER2"},
	} {
		for _, format := range []string{"table", "json"} {
			s := (&shell{fake: changing()}).run(append([]string{"servers", "add", "s", "-o", format}, args...)...)
			if s.code == 0 || strings.Contains(s.out+s.err, "hunter2") {
				t.Errorf("%v: exit %d\n%s%s", args, s.code, s.out, s.err)
			}
		}
	}
}

// Where only names are given the advice is the whole command; where the
// backend found a key in what was given, it is not.
func TestServersAdd_Again(t *testing.T) {
	t.Parallel()
	args := []string{"servers", "add", "s", "--env", "TOKEN", "--", "run", "it"}
	(&shell{fake: changing()}).run(args...).want(t, 8).has(t, "err", "next: pml servers add s --env TOKEN --yes -- run it\n")
	f := changing()
	f.world.set.Changes = append([]api.Change{{File: "/w/.env", Diff: "+KEY=«KEY»", Digest: hashA}}, f.world.set.Changes...)
	s := (&shell{fake: f}).run("servers", "add", "s", "--", "run", "--key=hunter2hunter2").want(t, 8).has(t, "err", "next: pml servers add --help\n")
	if strings.Contains(s.err, "hunter2") {
		t.Errorf("%s", s.err)
	}
}

func TestServers_BadInput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"add"}, "needs NAME"},
		{[]string{"add", "x"}, "say what to run"},
		{[]string{"add", "x", "npx"}, "after --"},
		{[]string{"add", "--", "npx"}, "needs NAME"},
		{[]string{"add", "x", "--"}, "say what to run"},
		{[]string{"add", "x", "--", ""}, "is empty"},
		{[]string{"add", "x", "npx", "-y", "p"}, "-y"},
		{[]string{"add", "x", "--url", "https://a", "--", "b"}, "not both"},
		{[]string{"add", "x", "--url", "https://a", "--env", "A=1"}, "takes --header"},
		{[]string{"add", "x", "--header", "A: 1", "--", "b"}, "goes with --url"},
		{[]string{"add", "x", "--env", "A=1", "--env", "A=2", "--", "b"}, "twice"},
		{[]string{"add", "x", "--header", "A: 1", "--header", "a: 2", "--url", "https://a"}, "twice"},
		{[]string{"add", "x", "--env", "1A=1", "--", "b"}, "number 1"},
		{[]string{"add", "x", "--header", "no name", "--url", "https://a"}, "number 1"},
		{[]string{"rm"}, "needs at least one NAME"},
		{[]string{"update"}, "needs NAME"},
		{[]string{"connect", "a", "b"}, "unexpected argument"},
		{[]string{"import", "claud-code"}, "did you mean claude-code"},
		{[]string{"ls", "x"}, "unexpected argument"},
		{[]string{"lock", "--chek"}, "did you mean --check"},
		{[]string{"update", "x", "--expect-digst", "d"}, "did you mean --expect-digest"},
	}
	for _, tt := range tests {
		s := (&shell{}).run(append([]string{"servers"}, tt.args...)...).want(t, 2).has(t, "err", tt.says, "next: pml servers")
		if s.opened != 0 || s.out != "" {
			t.Errorf("%v: opened %d times, stdout %q", tt.args, s.opened, s.out)
		}
		j := (&shell{}).run(append([]string{"servers", "--json"}, tt.args...)...).want(t, 2)
		if !strings.Contains(j.err, `{"error":{"code":"usage"`) {
			t.Errorf("%v: %s", tt.args, j.err)
		}
	}
}

func TestServersImport(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, stdin: "y\nno\n", fake: changing()}).run("servers", "import", "cursor", "files", "web", "--replace").want(t, 0).
		has(t, "err", "from /u/.cursor/mcp.json (cursor): files, web\n  not taken over: old: it speaks SSE only\n", shownChange, "take these servers over?")
	if diff := cmp.Diff([]api.ImportRequest{{From: "cursor", Names: []string{"files", "web"}, Replace: true}}, s.fake.world.imported); diff != "" {
		t.Error(diff)
	}
	s = (&shell{fake: changing()}).run("servers", "import", "--global", "--json").want(t, 8).has(t, "out", `"sources": [`, `"written": false`)
	if diff := cmp.Diff([]api.ImportRequest{{Home: true}}, s.fake.world.imported); diff != "" {
		t.Error(diff)
	}
	(&shell{fake: changing()}).run("servers", "import", "./mcp.json").want(t, 8).has(t, "err", "next: pml servers import ./mcp.json --yes")
	nothing := &fake{}
	(&shell{fake: nothing}).run("servers", "import").want(t, 0).has(t, "out", "nothing to change")
}

func TestServersRm(t *testing.T) {
	t.Parallel()
	f := changing()
	f.world.removed = api.Removed{Trees: []string{"/h/packages/x/1"}, Bytes: 3 << 20, Kept: []string{"y@2 is used by /other"}}
	s := (&shell{tty: true, stdin: "y\nyes\n", fake: f}).run("servers", "rm", "files", "--purge").want(t, 0).
		has(t, "err", "with its credentials and its packages").
		has(t, "out", "wrote /w/.pml.json\nremoved /h/packages/x/1\n3.0 MiB freed\nkept: y@2 is used by /other\n")
	if diff := cmp.Diff([]string{"files"}, s.fake.world.purged); diff != "" {
		t.Error(diff)
	}
	s = (&shell{tty: true, stdin: "n\n", fake: changing()}).run("servers", "rm", "files", "--purge").want(t, 9)
	if s.fake.world.purged != nil || s.fake.world.written != nil {
		t.Error("removed after a no")
	}
	s = (&shell{fake: changing()}).run("servers", "rm", "files", "--yes").want(t, 0)
	if s.fake.world.purged != nil {
		t.Error("purged without --purge")
	}
	// After a kill between the two steps the second can be done alone.
	gone := changing()
	gone.world.gone = true
	(&shell{fake: gone}).run("servers", "rm", "files").want(t, 3).has(t, "err", "no server has the name files")
	s = (&shell{fake: gone}).run("servers", "rm", "files", "--purge").want(t, 8)
	if s.fake.world.purged != nil {
		t.Error("purged without being asked")
	}
	s = (&shell{fake: gone}).run("servers", "rm", "files", "--purge", "--yes", "--json").want(t, 0).has(t, "out", `"removed": [`)
	if diff := cmp.Diff([]string{"files"}, s.fake.world.purged); diff != "" || s.fake.world.written != nil {
		t.Error(diff)
	}
}

// Several names are one change and one question.
func TestServersRm_Several(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, stdin: "y\n", fake: changing()}).run("servers", "rm", "web", "files", "web").want(t, 0).
		has(t, "err", shownChange, "remove files, web? ")
	if diff := cmp.Diff([]string{"files", "web"}, s.fake.world.removing); diff != "" || strings.Count(s.err, "[y]es") != 1 {
		t.Error(diff, s.err)
	}
	s = (&shell{fake: changing()}).run("servers", "rm", "web", "gone", "--yes").want(t, 3)
	if s.fake.world.written != nil {
		t.Error("one of them was removed")
	}
	s = (&shell{fake: changing()}).run("servers", "rm", "web", "gone", "--purge", "--yes").want(t, 0).has(t, "err", "gone is not configured")
	if diff := cmp.Diff([]string{"gone", "web"}, s.fake.world.purged); diff != "" || !slices.Equal(s.fake.world.removing, []string{"web"}) {
		t.Error(diff, s.fake.world.removing)
	}
}

func TestChange_Refused(t *testing.T) {
	t.Parallel()
	f := changing()
	f.failWith = core.Errorf(core.CodeInvalidConfig, "there is a server files already")
	s := (&shell{fake: f}).run(addFiles("--yes")...).want(t, 13).has(t, "err", "there is a server files already")
	if s.fake.world.written != nil {
		t.Error("written after an error")
	}
	f = changing()
	f.world.writeErr = core.Errorf(core.CodeDigestMismatch, "/w/.pml.json has changed since it was shown")
	s = (&shell{fake: f}).run(addFiles("--yes")...).want(t, 12).has(t, "err", "has changed since")
	if s.out != "" {
		t.Errorf("stdout %q", s.out)
	}
	f = changing()
	f.world.writeErr = core.Errorf(core.CodeDigestMismatch, "changed")
	s = (&shell{fake: f}).run("servers", "rm", "files", "--purge", "--yes").want(t, 12)
	if s.fake.world.purged != nil {
		t.Error("purged although the file still names the server")
	}
}
