package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

var byAnn = core.Actor{Who: "ann", Via: core.ViaCLI}

func updating(scripts ...string) *fake {
	return &fake{world: world{update: api.Update{
		Name: "files", Package: "@scope/server", Range: "^2026", From: "2026.8.31", To: "2026.9.1", OldDigest: "sha256:00ff", Digest: hashA,
		Packages: []api.PackageChange{
			{Name: "@scope/server", From: "2026.8.31", To: "2026.9.1"},
			{Name: "added\x1b[2J", To: "1.0.0", Scripts: true},
			{Name: "gone", From: "0.1.0"},
			{Name: "same", From: "3.0.0", To: "3.0.0", Rebuilt: true},
		},
		Scripts: scripts,
		Tools:   []api.ToolChange{{Tool: "files:read", Kind: "changed", Diff: []string{"- Reads a file.", "+ Reads any file."}}},
	}}}
}

const shownUpdate = `update of files
  package    @scope/server
  range      ^2026
  version    2026.8.31 -> 2026.9.1
  size       not known
  packages   4 changed
      @scope/server 2026.8.31 -> 2026.9.1
    + added\x1b[2J 1.0.0 (install script)
    - gone 0.1.0
    ! same 3.0.0: the same version with other content
  scripts    these want to run on installation:
    added: node x.js\x07
  was        sha256:00ff
  digest     ` + hashA + "\n"

func TestServersUpdate(t *testing.T) {
	t.Parallel()
	const script = "added: node x.js\x07"
	tests := []struct {
		name  string
		tty   bool
		typed string
		flags []string
		code  int
		did   bool // the update was carried out
		ran   bool // with its scripts
		says  []string
	}{
		{"WithoutScripts", true, "y\n", nil, 0, true, false, []string{"without its scripts"}},
		{"WithScripts", true, "s\n9f04\n", nil, 0, true, true, []string{"high risk: type 9f04"}},
		{"WrongDigits", true, "s\n9f05\nn\n", nil, 9, false, false, []string{"that was not 9f04"}},
		{"DigitsEOF", true, "s\n", nil, 8, false, false, nil},
		{"No", true, "no\n", nil, 9, false, false, nil},
		{"EmptyIsNoYes", true, "\n\nn\n", nil, 9, false, false, nil},
		{"EOF", true, "", nil, 8, false, false, nil},
		{"AllowScripts", true, "y\n9F04\n", []string{"--allow-scripts"}, 0, true, true, []string{"and run its scripts?"}},
		{"AllowScriptsNeedsDigits", true, "y\ny\nn\n", []string{"--allow-scripts"}, 9, false, false, nil},
		{"Pipe", false, "y\n", nil, 8, false, false, []string{"next: pml servers update files --expect-digest " + hashA + " --yes\n"}},
		{"PipeScripts", false, "y\n", []string{"--allow-scripts"}, 8, false, false, []string{"--yes --allow-scripts\n"}},
		{"YesRunsNoScripts", false, "", []string{"--yes"}, 0, true, false, nil},
		{"YesAllowScripts", false, "", []string{"--yes", "--allow-scripts"}, 0, true, true, nil},
		{"Expected", false, "", []string{"--yes", "--expect-digest", hashA}, 0, true, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{tty: tt.tty, stdin: tt.typed, fake: updating(script)}).run(append([]string{"servers", "update", "files"}, tt.flags...)...).
				want(t, tt.code).has(t, "err", append(tt.says, shownUpdate)...)
			want := []api.UpdateRequest{{Name: "files", By: byAnn}}
			if tt.did {
				want = append(want, api.UpdateRequest{Name: "files", Digest: hashA, Scripts: tt.ran, By: byAnn})
				s.has(t, "out", "updated files: @scope/server 2026.9.1\n", "tool changed: files:read\n    - Reads a file.\n")
				if tt.ran == strings.Contains(s.out, "did not run") {
					t.Errorf("scripts: %s", s.out)
				}
			}
			if diff := cmp.Diff(want, s.fake.world.updates); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServersUpdate_Refused(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: updating()}).run("servers", "update", "files", "--yes", "--expect-digest", "sha256:beef").want(t, 12).
		has(t, "err", hashA, "next: pml servers update files")
	if len(s.fake.world.updates) != 1 {
		t.Errorf("%+v", s.fake.world.updates)
	}
	f := updating()
	f.world.update.Current = true
	s = (&shell{fake: f}).run("servers", "update", "files", "--yes").want(t, 0).has(t, "out", "files is up to date: @scope/server 2026.9.1")
	if len(s.fake.world.updates) != 1 {
		t.Errorf("%+v", s.fake.world.updates)
	}
	// Pinned by somebody else, and the newest there is.
	f = updating()
	f.world.update.OldDigest = f.world.update.Digest
	s = (&shell{fake: f}).run("servers", "update", "files").want(t, 0).has(t, "out", "nothing newer for files", "2026.9.1").has(t, "err", "next: pml servers update files --expect-digest")
	if len(s.fake.world.updates) != 1 {
		t.Errorf("%+v", s.fake.world.updates)
	}
	f = updating()
	f.world.update.OldDigest = f.world.update.Digest
	(&shell{fake: f, tty: true, stdin: "y\n"}).run("servers", "update", "files").want(t, 0).has(t, "err", "nothing newer").has(t, "out", "updated files")
	// Installed, but it does not start: both are said.
	f = updating()
	f.world.startErr = core.Errorf(core.CodeServerUnreachable, "it ended at once")
	(&shell{fake: f}).run("servers", "update", "files", "--yes").want(t, 5).has(t, "out", "updated files").has(t, "err", "error: it ended at once")
	f = updating()
	f.world.update.From = ""
	(&shell{fake: f}).run("servers", "update", "files").want(t, 8).has(t, "err", "version    2026.9.1 (none was pinned)")
	f = updating()
	f.failWith = core.Errorf(core.CodeNoSuchTool, "no server has the name fils (did you mean files?)")
	(&shell{fake: f}).run("servers", "update", "fils").want(t, 3)
}

func TestServersUpdate_Pin(t *testing.T) {
	t.Parallel()
	f := updating()
	f.world.pin = "493817"
	s := (&shell{tty: true, stdin: "y\n", secrets: []string{"493817"}, fake: f}).run("servers", "update", "files").want(t, 0)
	if got := s.fake.world.updates[1].Pin; got != "493817" || strings.Contains(s.out+s.err, got) {
		t.Errorf("%q", got)
	}
	f = updating()
	f.world.pin = "493817"
	s = (&shell{fake: f}).run("servers", "update", "files", "--yes").want(t, 4).has(t, "err", "typed by a person at a terminal")
	if len(s.fake.world.updates) != 1 {
		t.Error("installed without the PIN")
	}
	f = updating()
	f.world.pin = "493817"
	(&shell{tty: true, stdin: "y\n", secrets: []string{"000000"}, fake: f}).run("servers", "update", "files").want(t, 4)
}

func TestServersUpdate_JSON(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, stdin: "y\n", fake: updating()}).run("servers", "update", "files", "--json").want(t, 8)
	var u api.Update
	if err := json.Unmarshal([]byte(s.out), &u); err != nil || u.Installed || u.Digest != hashA || len(u.Packages) != 4 {
		t.Errorf("%v: %s", err, s.out)
	}
	var body struct{ Error struct{ Next []string } }
	if err := json.Unmarshal([]byte(s.err), &body); err != nil {
		t.Fatalf("%v: %s", err, s.err)
	}
	if diff := cmp.Diff([]string{"pml", "servers", "update", "files", "--expect-digest", hashA, "--yes"}, body.Error.Next); diff != "" {
		t.Error(diff)
	}
	s = (&shell{fake: updating()}).run("servers", "update", "files", "--json", "--yes").want(t, 0).has(t, "out", `"installed": true`, `"scripts": []`)
	if s.err != "" {
		t.Errorf("stderr %q", s.err)
	}
}
