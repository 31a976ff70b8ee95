package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/install"
)

// What a server remembers beside its code is no change of what runs. Anything
// that could be is, whatever its ending where the package brought it.
func TestVerify_DataOfTheServer(t *testing.T) {
	t.Parallel()
	npm := &fakeNPM{ci: func(dir string) {
		if err := put(dir, "node_modules/demo/seed.jsonl", "{}"); err != nil {
			t.Error(err)
		}
	}}
	in := newFake(t.TempDir(), npm)
	_, i := mustInstall(t, in, demoSpec(t))
	verify := func(what string, want ...string) {
		t.Helper()
		c, err := in.Verify(i)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			c = &install.Change{}
		}
		if diff := cmp.Diff(want, c.Files); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	write := func(name string, mode os.FileMode) string {
		t.Helper()
		file := filepath.Join(i.Dir, filepath.FromSlash(name))
		if err := os.WriteFile(file, []byte("more of "+name), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, name := range []string{"memory.jsonl", "state.db", "state.db-wal", "Server.LOG"} {
		write("node_modules/demo/"+name, 0o600)
	}
	verify("added data")
	write("node_modules/demo/memory.jsonl", 0o600)
	verify("data that goes on changing")
	for _, name := range []string{"package2.json", "plain", "code.js", "run.node", "notes.md"} {
		file := write("node_modules/demo/"+name, 0o600)
		verify(name, "added: node_modules/demo/"+name)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	file := write("node_modules/demo/tool.log", 0o600)
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
	verify("a program by the name of data", "added: node_modules/demo/tool.log")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	verify("a link", "added: node_modules/demo/tool.log")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	verify("as before")
	write("node_modules/demo/seed.jsonl", 0o600)
	verify("data of the package", "changed: node_modules/demo/seed.jsonl")
	if err := os.Remove(filepath.Join(i.Dir, "pml-manifest.txt")); err != nil {
		t.Fatal(err)
	}
	verify("without a record", "the record of the files is damaged too; which of them changed is not known")
}
