package gate

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/upstream"
)

// hand is a clock that stands until it is moved.
type hand struct{ at time.Time }

func (h *hand) Now() time.Time { return h.at }

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
	in := install.New(install.Options{Home: filepath.Join(dir, "packages"), Clock: clock, LookPath: func(s string) (string, error) { return s, nil }})
	spec, err := install.Recognize(install.Command{Name: "fake", Command: "/bin/sh", Args: []string{script}})
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{name: "fake", in: in, clock: clock, spec: spec, place: install.Place{Dir: dir, Workspace: dir}}
	if g.located, err = in.Locate(spec, g.place); err != nil {
		t.Fatal(err)
	}
	if g.digest, err = in.HashFiles(g.located.Files); err != nil {
		t.Fatal(err)
	}
	launch := upstream.Launch{Name: "fake", Workspace: dir, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Digest: "entry"}
	if err := (start{command: "/bin/sh", args: []string{script}, guard: g}).into(&launch); err != nil {
		t.Fatal(err)
	}
	if launch.Digest == "entry" {
		t.Error("the digest of the process does not cover what runs")
	}
	if err := g.check(); err != nil {
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
	_, err = m.Tools(t.Context(), launch)
	if !errors.Is(err, errChanged) || core.CodeOf(err) != core.CodeIntegrityFailed {
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
	in := install.New(install.Options{Home: filepath.Join(dir, "packages"), Clock: clock, LookPath: func(string) (string, error) { return filepath.Join(dir, "node"), nil }})
	spec, err := install.Recognize(install.Command{Name: "fake", Command: "node", Args: []string{"srv"}})
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{name: "fake", in: in, clock: clock, spec: spec, place: install.Place{Dir: dir}}
	if g.located, err = in.Locate(spec, g.place); err != nil {
		t.Fatal(err)
	}
	if g.digest, err = in.HashFiles(g.located.Files); err != nil {
		t.Fatal(err)
	}
	if err := g.check(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "srv.js"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.at = clock.at.Add(time.Second)
	if err := g.check(); !errors.Is(err, errChanged) {
		t.Errorf("%v", err)
	}
}
