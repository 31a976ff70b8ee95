package cli_test

import (
	"testing"

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
		{"Neither", "", true, nil, 2, 0, []string{"--all"}},
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
