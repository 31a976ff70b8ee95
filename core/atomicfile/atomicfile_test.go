package atomicfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWrite_ContentAndModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	file := filepath.Join(dir, "f")
	for i, mode := range []fs.FileMode{0o600, 0o644, 0o640} {
		want := []byte(fmt.Sprint("content ", i))
		if err := Write(file, want, mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q %v, want %q", got, err, want)
		}
		if fi, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && fi.Mode() != mode {
			t.Errorf("%v %v, want %v", fi.Mode(), err, mode)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if fi, err := os.Stat(d); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", d, fi.Mode(), err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("%q", got)
	}
}

// What cannot be replaced stays as it is, and nothing is left beside it.
func TestWrite_FailsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.Mkdir(file, 0o700); err != nil { // a folder cannot be replaced by a file
		t.Fatal(err)
	}
	if err := Write(file, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if err := Write(filepath.Join(file, "sub", "\x00"), nil, 0o600); err == nil {
		t.Error("a name that cannot be")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("%q", got)
	}
}

func TestDraft_Discard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := Write(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 2 || !slices.ContainsFunc(got, Leftover) || Leftover(file) {
		t.Errorf("%q", got)
	}
	d.Discard()
	d.Discard()
	if err := d.Commit([]byte("new"), 0o600); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "old" || len(names(t, dir)) != 1 {
		t.Errorf("%q %v %q", got, err, names(t, dir))
	}
}

// A link in the place of the file: Write replaces it, Target finds what it
// leads to, and refuses one that leads out.
func TestTarget(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(root, "in"), filepath.Join(root, "out")
	for _, file := range []string{filepath.Join(in, "real"), out} {
		if err := Write(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"inside": "real", "outside": out, "up": "../out", "nothing": "missing", "twice": "up"} {
		if err := os.Symlink(to, filepath.Join(in, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"real": "real", "new": "new", "inside": "real"} {
		if got, err := Target(filepath.Join(in, name), in); err != nil || got != filepath.Join(in, want) {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	for _, name := range []string{"outside", "up", "twice"} {
		if got, err := Target(filepath.Join(in, name), in); !errors.Is(err, ErrOutside) {
			t.Errorf("%s: %s %v", name, got, err)
		}
		if got, err := Target(filepath.Join(in, name), ""); err != nil || got != out {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	if got, err := Target(filepath.Join(in, "nothing"), in); err == nil {
		t.Errorf("a link to nothing: %s", got)
	}
	if err := Write(filepath.Join(in, "outside"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "x" {
		t.Errorf("Write followed the link: %s %v", got, err)
	}
}

// Processes that are killed in the middle of writing leave a whole file: the
// content of one of their writes.
func TestWrite_Killed(t *testing.T) {
	if file := os.Getenv("ATOMICFILE_TEST_CHILD"); file != "" {
		for i := 0; ; i++ {
			if err := Write(file, bytes.Repeat([]byte{'a' + byte(i%26)}, 200_000), 0o600); err != nil {
				fmt.Println(err)
				return
			}
			if i == 3 {
				fmt.Println("writing")
			}
		}
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWrite_Killed$")
		cmd.Env = append(os.Environ(), "ATOMICFILE_TEST_CHILD="+file)
		said, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 100)
		n, err := said.Read(line)
		if err != nil || !strings.HasPrefix(string(line[:n]), "writing") {
			t.Errorf("%q %v", line[:n], err)
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		cancel()
		got, err := os.ReadFile(file)
		if err != nil || len(got) != 200_000 || len(bytes.Trim(got, string(got[:1]))) != 0 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}
