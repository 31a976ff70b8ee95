package cli_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// installing is a machine on which two of three servers miss their package.
func installing() *fake {
	list := []api.ServerInfo{
		{Name: "files", State: api.ServerReady, Kind: "npm"}, {Name: "notes", State: api.ServerReady, Kind: "npm"},
		{Name: "there", State: api.ServerReady, Kind: "npm", Installed: true},
	}
	u := api.Update{Package: "@scope/server", To: "1.2.0", Digest: hashA, Packages: []api.PackageChange{{Name: "a", To: "1"}}, Scripts: []string{"postinstall: x"}}
	return &fake{world: world{list: list, update: u}}
}

// All that is missing is decided in one list, by one answer, and nothing that was
// not shown is installed.
func TestServersInstall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, typed string
		tty         bool
		args        []string
		code, done  int
		says        []string
	}{
		{"All", "y\n", true, []string{"--all"}, 0, 2, []string{"install and approve these 2? [y]es / [n]o: ", "installed "}},
		{"One", "y\n", true, []string{"notes"}, 0, 1, []string{"install and approve this?"}},
		{"There", "", true, []string{"there"}, 0, 0, []string{"no package is missing"}},
		{"No", "n\n", true, []string{"--all"}, 9, 0, []string{"nothing was installed"}},
		{"Pipe", "y\n", false, []string{"--all"}, 8, 0, []string{"no terminal to ask on", "next: pml servers install --all --yes"}},
		{"PipeYes", "", false, []string{"--all", "--yes"}, 0, 2, nil},
		{"Neither", "y\n", true, nil, 0, 2, []string{"install and approve these 2? [y]es / [n]o: "}},
		{"NeitherPipe", "", false, nil, 2, 0, []string{"next: pml servers install --all\n"}},
		{"Both", "", true, []string{"files", "--all"}, 2, 0, nil},
		{"Unknown", "", true, []string{"fils"}, 2, 0, []string{"did you mean files"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{tty: tt.tty, stdin: tt.typed, fake: installing()}).run(append([]string{"servers", "install"}, tt.args...)...).want(t, tt.code).has(t, "err", tt.says...)
			done := 0
			for _, u := range s.fake.world.updates {
				if u.Digest == hashA && !u.Scripts {
					done++
				}
			}
			if done != tt.done {
				t.Errorf("%d installed: %+v", done, s.fake.world.updates)
			}
		})
	}
	(&shell{fake: installing()}).run("servers", "install", "--all", "--yes").want(t, 0).has(t, "out", "@scope/server@1.2.0", "1 script will not run")
}

// The list fits the terminal: nothing of it is broken within a word.
func TestServersInstall_Fits(t *testing.T) {
	t.Parallel()
	f := installing()
	f.world.update.Name, f.world.update.Package, f.world.update.To = "files", "@modelcontextprotocol/server-everything-with-files", "2026.11.14"
	s := (&shell{tty: true, width: 80, stdin: "y\n", fake: f}).run("servers", "install", "--all").want(t, 0)
	s.lacks(t, "SIZE", "not known") // the registry says the size of no package
	sized := installing()
	sized.world.update.SizeBytes = 3 << 20
	(&shell{fake: sized}).run("servers", "install", "--all", "--yes").want(t, 0).has(t, "out", "SIZE", "3.0 MiB")
	for line := range strings.Lines(s.out) {
		if n := layout.Width(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, hashA) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A server whose workspace is not trusted is not looked up, is said with what to run,
// and keeps no other from being installed.
func TestServersInstall_NotTrusted(t *testing.T) {
	t.Parallel()
	f := installing()
	f.world.list[0].State, f.world.update.Name = api.ServerNotTrusted, "notes"
	(&shell{fake: f}).run("servers", "install", "--all", "--yes").want(t, 8).
		has(t, "err", "files: not installed", "next: pml trust, then pml servers install files", "installed notes")
	for _, u := range f.world.updates {
		if u.Name != "notes" {
			t.Errorf("asked for %+v", u)
		}
	}
	f.world.list = f.world.list[:1]
	if s := (&shell{fake: f}).run("servers", "install", "--all", "--yes").want(t, 8); strings.Contains(s.err, "no package is missing") {
		t.Errorf("what was not looked at is said to lack nothing: %s", s.err)
	}
}

// A package that cannot be looked up keeps no other from being looked up, and ends
// the command with its own code.
func TestServersInstall_LookupFails(t *testing.T) {
	t.Parallel()
	f := installing()
	f.world.lookErr = core.Errorf(core.CodeDigestMismatch, "the registry has other content")
	s := (&shell{fake: f}).run("servers", "install", "--all", "--yes").has(t, "err", "the registry has other content")
	if len(f.world.updates) != 2 || s.code == 0 {
		t.Errorf("exit code %d, asked for %+v", s.code, f.world.updates)
	}
}

// A package that is nowhere is said with its server and what corrects that; what the others
// need is asked about all the same.
func TestServersInstall_NotFound(t *testing.T) {
	t.Parallel()
	f := needy()
	f.world.list = f.world.list[1:] // notes misses its package, db is to be accepted
	f.world.lookErr = core.Errorf(core.CodeInstallFailed, "cannot resolve @x/y@latest: Not Found").WithNext("pml", "servers", "add", "notes", "--replace", "--", "COMMAND")
	f.world.keysIn = 1
	s := (&shell{tty: true, fake: f, stdin: "y\nbeef\n"}).run("servers", "install", "--all").want(t, 1).
		has(t, "err", "error: notes: cannot resolve @x/y@latest: Not Found", "next: pml servers add notes --replace -- COMMAND")
	if len(f.world.accepted) != 1 || strings.Contains(s.err, "installed ") {
		t.Errorf("accepted %+v\n%s", f.world.accepted, s.err)
	}
	for _, checked := range f.world.checked {
		if strings.Contains(checked, "notes") {
			t.Errorf("started %q", checked)
		}
	}
}

// needy are servers that need one of each: trust, a key, a package, and somebody who
// accepts what one of them is now.
func needy() *fake {
	f := installing()
	f.trust = api.TrustState{Workspace: "/w", Digest: hashA, Content: "{}"}
	f.world.list[0].State = api.ServerNotTrusted
	of := func(t core.ApprovalType, text string, context map[string]any) []api.ServerNeed {
		return []api.ServerNeed{{Type: t, Description: text, Context: context, Digest: hashA}}
	}
	f.world.list = append(f.world.list,
		api.ServerInfo{Name: "search", State: api.ServerNeeds, Kind: "other", Needs: of(core.ApproveKeys, "The server search needs KEY.", map[string]any{"instruction": "Add KEY to /w/.env"})},
		api.ServerInfo{Name: "db", State: api.ServerNeeds, Kind: "other", Needs: of(core.ApproveIntegrity, "its command line is new", map[string]any{"kind": "command", "new_hash": "sha256:beef00"})})
	f.world.keysIn = 3
	return f
}

// One command decides all that servers need, each on what it is about.
func TestServersInstall_All(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, fake: needy(), stdin: "y\ny\ny\ny\nbeef\n"}).run("servers", "install", "--all").want(t, 0).has(t, "err",
		"needed:", "files   trust", "search  missing key", "db      integrity", "trust this?", "Add KEY to /w/.env", "is it there now?", "install and approve these 2?",
		"its command line is new", "accept this? [y]es, then type beef / [n]o: ", "type beef to approve")
	w := s.fake.world
	if s.fake.trusted != hashA || len(w.updates) != 4 || len(w.accepted) != 1 {
		t.Fatalf("trusted %q, updates %+v, accepted %+v", s.fake.trusted, w.updates, w.accepted)
	}
	if got := w.accepted[0]; got.Name != "db" || got.Digest != hashA || got.Presence != core.PresenceTerminal || got.By.Via != core.ViaCLI {
		t.Errorf("%+v", got)
	}
}

// Whether tools only read need not be said of a server whose every call a person wants to be
// asked about: a rule is proposed for that, and nothing is accepted.
func TestServersInstall_EachTime(t *testing.T) {
	t.Parallel()
	list := func(kind string) *fake {
		f := &fake{}
		f.world.list = []api.ServerInfo{{Name: "db", State: api.ServerNeeds, Kind: "npm", Installed: true, Needs: []api.ServerNeed{{
			Type: core.ApproveIntegrity, Description: "Do the tools of db only read?", Digest: "sha256:db",
			Context: map[string]any{"kind": kind, "tool": "db", "fqdn_base": "db", "new_hash": "sha256:beef00"},
		}}}}
		return f
	}
	s := (&shell{tty: true, fake: list("readonly"), stdin: "e\ny\n"}).run("servers", "install", "db").has(t, "err", "ask me each time", "+db:*", "write this?")
	if len(s.fake.world.accepted) > 0 {
		t.Errorf("accepted %+v", s.fake.world.accepted)
	}
	(&shell{tty: true, fake: list("readonly"), stdin: "e\nn\n"}).run("servers", "install", "db").has(t, "err", "nothing was written")
	if s := (&shell{tty: true, fake: list("server"), stdin: "e\nn\n"}).run("servers", "install", "db"); strings.Contains(s.err, "each time") {
		t.Errorf("what has changed is asked about as before:\n%s", s.err)
	}
}

// What is the same question about servers of one package is asked once, and accepted for
// each; another package or hash is asked about by itself.
func TestServersInstall_Same(t *testing.T) {
	t.Parallel()
	list := func() *fake {
		f := &fake{}
		for _, s := range []struct{ name, pkg, hash string }{{"a", "p", "beef"}, {"b", "p", "beef"}, {"c", "other", "beef"}, {"d", "p", "cafe"}} {
			f.world.list = append(f.world.list, api.ServerInfo{Name: s.name, State: api.ServerNeeds, Kind: "npm", Installed: true, Package: s.pkg, Needs: []api.ServerNeed{{
				Type: core.ApproveIntegrity, Description: "Do the tools of " + s.name + " only read?", Digest: "sha256:" + s.name,
				Context: map[string]any{"kind": "readonly", "tool": s.name, "fqdn_base": s.name, "new_hash": "sha256:" + s.hash + "00"},
			}}})
		}
		return f
	}
	s := (&shell{tty: true, fake: list(), stdin: "y\nbeef\ny\nbeef\ny\ncafe\n"}).run("servers", "install", "--all").want(t, 0).has(t, "err",
		"is asked about the servers a, b: your answer is for all of them", "accept this for these 2 servers?")
	var names []string
	for _, r := range s.fake.world.accepted {
		if names = append(names, r.Name); r.Digest != "sha256:"+r.Name || r.Presence != core.PresenceTerminal {
			t.Errorf("%+v", r)
		}
	}
	if strings.Join(names, " ") != "a b c d" || strings.Count(s.err, "accept this") != 3 {
		t.Errorf("%v\n%s", names, s.err)
	}
	if s := (&shell{tty: true, fake: list(), stdin: "n\nn\nn\n"}).run("servers", "install", "--all"); len(s.fake.world.accepted) > 0 || strings.Count(s.err, "accept this") != 3 {
		t.Errorf("%+v\n%s", s.fake.world.accepted, s.err)
	}
}

// A no to one kind keeps no other from being decided, and nothing is accepted by less
// than the four characters.
func TestServersInstall_No(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, fake: needy(), stdin: "n\nn\ny\ny\nbee\n"}).run("servers", "install", "--all").want(t, 8).has(t, "err",
		"/w is not trusted", "installed ", "not approved: that was not beef")
	if w := s.fake.world; s.fake.trusted != "" || len(w.updates) != 2 || len(w.accepted) != 0 {
		t.Errorf("trusted %q, updates %+v, accepted %+v", s.fake.trusted, w.updates, w.accepted)
	}
}

// Who mistypes the characters is asked about the same server again, and may say no.
func TestServersInstall_Mistyped(t *testing.T) {
	t.Parallel()
	for typed, accepted := range map[string]int{"bee\ny\nbeef\n": 1, "bee\nn\n": 0} {
		s := (&shell{tty: true, fake: needy(), stdin: "y\ny\ny\ny\n" + typed}).run("servers", "install", "--all").want(t, map[int]int{1: 0, 0: 8}[accepted])
		if n := strings.Count(s.err, "accept this?"); n != 2 || len(s.fake.world.accepted) != accepted {
			t.Errorf("%q: asked %d times, accepted %+v\n%s", typed, n, s.fake.world.accepted, s.err)
		}
	}
}

// --yes, and a place without a terminal, trust nothing and accept nothing.
func TestServersInstall_OnlyAtATerminal(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{true, false} {
		s := (&shell{tty: tty, fake: needy(), stdin: "y\ny\ny\ny\nbeef\n"}).run("servers", "install", "--all", "--yes").want(t, 8).has(t, "err", "next: pml trust")
		if w := s.fake.world; s.fake.trusted != "" || len(w.accepted) != 0 || len(w.updates) != 2 {
			t.Errorf("trusted %q, updates %+v, accepted %+v", s.fake.trusted, w.updates, w.accepted)
		}
	}
}
