package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core/api"
)

// machineWith is a machine with pml's own folder and a workspace.
func machineWith(t *testing.T) *fake {
	t.Helper()
	dir := t.TempDir()
	p := api.Paths{Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "w")}
	p.Config, p.Lock = filepath.Join(p.Workspace, ".pml.json"), filepath.Join(p.Workspace, "pml.lock")
	for _, d := range []string{filepath.Join(p.Home, "trust"), p.Workspace} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{p.Config, filepath.Join(p.Workspace, "mine.txt")} {
		if err := os.WriteFile(f, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &fake{world: world{paths: &p}}
}

func there(names ...string) (n int) {
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil {
			n++
		}
	}
	return n
}

// pml says what it would remove, asks, and removes that and nothing else.
func TestUninstall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, typed string
		args        []string
		code        int
		home        bool // is left
		config      bool
	}{
		{"Yes", "y\n", nil, 0, false, true},
		{"Workspace", "y\n", []string{"--workspace"}, 0, false, false},
		{"No", "n\n", []string{"--workspace"}, 9, true, true},
		{"Nobody", "", nil, 8, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := machineWith(t)
			s := &shell{tty: true, stdin: tt.typed, fake: f, server: &fakeServer{}}
			s.run(append([]string{"uninstall"}, tt.args...)...).want(t, tt.code).has(t, "err", "to remove: "+f.world.paths.Home, "remove all of this?")
			if there(f.world.paths.Home) == 1 != tt.home || there(f.world.paths.Config) == 1 != tt.config || there(filepath.Join(f.world.paths.Workspace, "mine.txt")) != 1 {
				t.Error("something else is left")
			}
		})
	}
	f := machineWith(t)
	narrow := (&shell{tty: true, width: 60, stdin: "n\n", fake: f, server: &fakeServer{}}).run("uninstall").want(t, 9)
	for line := range strings.Lines(narrow.err) {
		if n := layout.Width(strings.TrimSuffix(line, "\n")); n > 60 && strings.HasSuffix(line, " sign-ins\n") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	(&shell{fake: f, server: &fakeServer{}}).run("uninstall").want(t, 8).has(t, "err", "next: pml uninstall --yes")
	// The command that comes next is run where it helps: in a folder that is there.
	other := t.TempDir()
	f.world.hostDirs = []string{f.world.paths.Workspace, "/elsewhere", other}
	(&shell{fake: f, server: &fakeServer{}}).run("uninstall", "--yes").want(t, 8).has(t, "err", "/elsewhere", "next: cd "+other+" && pml uninstall --here\n")
	(&shell{fake: f, server: &fakeServer{}}).run("uninstall", "--yes", "--json").want(t, 8).has(t, "err", `"next":["pml","uninstall","--here"],"next_in":"`+other+`"`)
	// Where pml has no folder of its own there is nothing to remove, and none comes to be.
	gone := filepath.Join(t.TempDir(), "gone")
	(&shell{fake: machineWith(t), server: &fakeServer{}}).run("uninstall", "--yes", "--home", gone).want(t, 0).has(t, "out", "nothing to remove")
	if there(gone) != 0 {
		t.Error("a folder has come to be")
	}
	// This folder alone can go: its hosts and files, nothing else.
	here := machineWith(t)
	here.world.hostDirs, here.world.hosts = []string{"/elsewhere"}, []api.HostChange{host("codex", api.HostAdded)}
	s := (&shell{fake: here, server: &fakeServer{}}).run("uninstall", "--here", "--workspace", "--yes").want(t, 0).has(t, "out", "removed from this folder")
	if there(here.world.paths.Home) != 1 || there(here.world.paths.Config) != 0 || len(s.fake.world.told) != 1 {
		t.Errorf("%v", s.fake.world.told)
	}
	(&shell{fake: machineWith(t), server: &fakeServer{}}).run("uninstall", "--here").want(t, 0).has(t, "out", "nothing to remove")
	// What is left is named, here and in other folders that were trusted.
	knows := machineWith(t)
	lock, dotEnv := filepath.Join(other, "pml.lock"), filepath.Join(other, ".env")
	record, err := json.Marshal(map[string]any{"version": 1, "workspace": other, "digest": "sha256:00"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{lock: "{}", dotEnv: "", filepath.Join(knows.world.paths.Home, "trust", "00.json"): string(record)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = (&shell{fake: knows, server: &fakeServer{}}).run("uninstall", "--yes", "--workspace").want(t, 0).has(t, "out", "left: "+lock+"\n", "left: "+dotEnv+"\n")
	if there(lock, dotEnv) != 2 || strings.Contains(s.out, "left: "+knows.world.paths.Config) {
		t.Error(s.out)
	}
	// What is not pml's in its folder is named and stays, and the folder with it.
	mixed := machineWith(t)
	foreign := filepath.Join(mixed.world.paths.Home, "photos")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	(&shell{fake: mixed, server: &fakeServer{}}).run("uninstall", "--yes").want(t, 0).has(t, "err", "left as it is, since it is not pml's: photos", "to remove: the rest of "+mixed.world.paths.Home)
	if there(foreign) != 1 || there(filepath.Join(mixed.world.paths.Home, "trust")) != 0 {
		t.Error("it removed what is not pml's, or left what is")
	}
	f.world.hostDirs = nil
	f.world.paths.Home = filepath.Dir(f.world.paths.Workspace) // above the workspace
	(&shell{fake: f, server: &fakeServer{}}).run("uninstall", "--yes").want(t, 13).has(t, "err", "does not look like")
	if there(f.world.paths.Config) != 1 {
		t.Error("a folder that is not pml's own was removed")
	}
}

// An entry of pml that a person wrote into a host's file stays, and is named.
func TestUninstall_ByHand(t *testing.T) {
	t.Parallel()
	f := machineWith(t)
	f.world.hosts = []api.HostChange{{Host: "cursor", File: "/w/.cursor/mcp.json", State: api.HostByHand, Entry: "gate"}}
	const line = "not added by pml init, left as it is: /w/.cursor/mcp.json (entry gate)\n"
	(&shell{tty: true, stdin: "n\n", fake: f, server: &fakeServer{}}).run("uninstall").want(t, 9).has(t, "err", line)
	s := (&shell{fake: f, server: &fakeServer{}}).run("uninstall", "--here").want(t, 0).has(t, "err", line).has(t, "out", "nothing to remove")
	if len(s.fake.world.told) != 0 {
		t.Error("it was changed")
	}
	(&shell{fake: f, server: &fakeServer{}}).run("uninstall", "--here", "--json").want(t, 0).has(t, "out", `"by_hand": [`, `"entry": "gate"`)
}
