package launch_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/upstream"
)

// The last check is right before the process starts, whatever was found before:
// what has changed in between is not run.
func TestGuard_AsksAgainAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, trace := filepath.Join(dir, "serve.sh"), filepath.Join(dir, "trace")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("exit 1\n")
	clock := &hand{time.Now()}
	files := launch.NewFiles(launch.Options{Home: filepath.Join(dir, "packages"), Clock: clock, LookPath: func(s string) (string, error) { return s, nil }, Logger: slog.New(slog.DiscardHandler)})
	spec, err := launch.Recognize(launch.Command{Name: "fake", Command: "/bin/sh", Args: []string{script}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := files.Guard("fake", spec, launch.Place{Dir: dir, Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	start := upstream.Launch{Name: "fake", Workspace: dir, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Digest: "entry"}
	start.Command, start.Args, start.Verify = "/bin/sh", []string{script}, g.Check
	if start.Digest, err = g.DigestWith(start.Digest, start.Command, start.Args); err != nil {
		t.Fatal(err)
	}
	if start.Digest == "entry" {
		t.Error("the digest of the process does not cover what runs")
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	write("echo ran > " + trace + "\n")
	clock.at = clock.at.Add(time.Second)
	m := upstream.New(upstream.Options{Clock: clock})
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = m.Tools(t.Context(), start)
	if !errors.Is(err, launch.ErrChanged) || core.CodeOf(err) != core.CodeIntegrityFailed {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("the changed script was run")
	}
}

// An interpreter that would take another file by now is noticed, also when that
// file has the same content.
func TestGuard_AnotherFileOfTheName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "srv"), 0o700), os.WriteFile(filepath.Join(dir, "srv", "index.js"), []byte("1"), 0o600),
		os.WriteFile(filepath.Join(dir, "node"), []byte("x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	clock := &hand{time.Now()}
	files := launch.NewFiles(launch.Options{Home: filepath.Join(dir, "packages"), Clock: clock, LookPath: func(string) (string, error) { return filepath.Join(dir, "node"), nil }, Logger: slog.New(slog.DiscardHandler)})
	spec, err := launch.Recognize(launch.Command{Name: "fake", Command: "node", Args: []string{"srv"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := files.Guard("fake", spec, launch.Place{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "srv.js"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.at = clock.at.Add(time.Second)
	if err := g.Check(); !errors.Is(err, launch.ErrChanged) {
		t.Errorf("%v", err)
	}
}
