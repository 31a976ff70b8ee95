package install_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

// version installs a tree of its own for a version of the package demo.
func version(t *testing.T, home, v string, at time.Time) (*install.Installer, install.Installed) {
	t.Helper()
	in := later(home, at)
	spec := demoSpec(t)
	spec.Range = v
	r, err := in.Latest(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	i, err := in.Install(t.Context(), spec, r, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in, i
}

func later(home string, at time.Time) *install.Installer {
	return install.New(install.Options{Home: home, LookPath: anyPath, Clock: fixedClock{at}, Run: &versions{}})
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func TestUsage_CollectKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	home, day := t.TempDir(), 24*time.Hour
	in, one := version(t, home, "1.0.0", clock.at)
	_, two := version(t, home, "2.0.0", clock.at)
	_, never := version(t, home, "3.0.0", clock.at)
	if err := errors.Join(in.Use(one, "a"), in.Use(one, "b")); err != nil {
		t.Fatal(err)
	}
	if err := later(home, clock.at.Add(day)).Use(two, "a"); err != nil {
		t.Fatal(err)
	}
	users := func(i install.Installed) string {
		u, err := in.Users(i)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(u, " ")
	}
	if users(one) != "b" || users(two) != "a" || users(never) != "" {
		t.Error(users(one), users(two), users(never))
	}
	collect := func(after time.Duration, want ...string) {
		t.Helper()
		got, err := later(home, clock.at.Add(after)).Collect(t.Context())
		if err != nil {
			t.Error(err)
		}
		var dirs []string
		for _, c := range got {
			dirs = append(dirs, c.Dir)
			if c.Bytes == 0 || exists(c.Dir) {
				t.Errorf("%+v", c)
			}
		}
		if diff := cmp.Diff(want, dirs); diff != "" {
			t.Errorf("after %s: %s", after, diff)
		}
	}
	collect(14*day - time.Hour)
	collect(15*day, never.Dir)
	if err := later(home, clock.at.Add(15*day)).Release("b"); err != nil {
		t.Fatal(err)
	}
	collect(20 * day) // it rests from its release
	collect(30*day, one.Dir)
	collect(999 * day)
	if !exists(two.Dir) {
		t.Error("a used tree was removed")
	}
	if err := in.Use(one, "a"); core.CodeOf(err) != core.CodeInstallFailed || users(two) != "a" {
		t.Error("used although it is gone", err, users(two))
	}
	// It can be had again, and is not collected for its old record.
	_, again := version(t, home, "1.0.0", clock.at.Add(30*day))
	collect(31 * day)
	if again != one || !exists(one.Dir) {
		t.Error(again)
	}
}

func TestUsage_Remove(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in, i := version(t, home, "1.0.0", clock.at)
	if err := errors.Join(in.Use(i, "mine"), in.Use(i, "x/pml.lock other")); err != nil {
		t.Fatal(err)
	}
	if err := in.Release("mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Remove(i); core.CodeOf(err) != core.CodeInvalidArguments || !strings.Contains(err.Error(), "used by x/pml.lock other") || !exists(i.Dir) {
		t.Error(err)
	}
	if err := in.Release("x/pml.lock other"); err != nil {
		t.Fatal(err)
	}
	if c, err := in.Remove(i); err != nil || c.Dir != i.Dir || c.Bytes == 0 || exists(i.Dir) {
		t.Error(c, err)
	}
	if c, err := in.Remove(i); err != nil || c.Bytes != 0 {
		t.Error("twice", c, err)
	}
	if _, err := in.Remove(install.Installed{Dir: filepath.Dir(home)}); core.CodeOf(err) != core.CodeInternal || !exists(home) {
		t.Error(err)
	}
}

// What a kill between two writes of Collect or Remove leaves: a folder that is
// marked as dead, and the record of a tree that is gone.
func TestUsage_AfterAKill(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in, i := version(t, home, "1.0.0", clock.at)
	dead := filepath.Join(home, ".staging", "1-demo+x.dead")
	if err := os.Rename(i.Dir, dead); err != nil {
		t.Fatal(err)
	}
	if got, err := in.Collect(t.Context()); err != nil || len(got) != 1 || exists(dead) {
		t.Error(got, err)
	}
	after := clock.at.Add(100 * 24 * time.Hour)
	if _, again := version(t, home, "1.0.0", after); again != i {
		t.Error(again)
	}
	if got, err := later(home, after).Collect(t.Context()); err != nil || len(got) != 0 || !exists(i.Dir) {
		t.Error("collected at once for its old record", got, err)
	}
	// A tree whose receipt is gone is no tree, and does not stand in the way.
	if err := os.Remove(filepath.Join(i.Dir, "pml-receipt.json")); err != nil {
		t.Fatal(err)
	}
	if _, again := version(t, home, "1.0.0", after); again != i {
		t.Error(again)
	}
}

func TestUsage_ManyAtOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	_, i := version(t, home, "1.0.0", clock.at)
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			if err := later(home, clock.at).Use(i, fmt.Sprintf("%02d", n)); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if _, err := later(home, clock.at).Collect(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if users, err := later(home, clock.at).Users(i); err != nil || len(users) != 12 {
		t.Error(users, err)
	}
}

// A record that cannot be read removes nothing.
func TestUsage_Damaged(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	_, i := version(t, home, "1.0.0", clock.at)
	for text, code := range map[string]core.Code{"{": core.CodeInstallFailed, `{"version":2}`: core.CodeStoreNewer} {
		if err := os.WriteFile(filepath.Join(home, ".used.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := later(home, clock.at.Add(1e6*time.Hour)).Collect(t.Context())
		if core.CodeOf(err) != code || len(got) != 0 || !exists(i.Dir) {
			t.Error(got, err)
		}
	}
}

func TestComparePackages(t *testing.T) {
	t.Parallel()
	p := func(name, version, integrity string) install.Package {
		return install.Package{Name: name, Version: version, Integrity: integrity}
	}
	old := []install.Package{p("a", "1", "x"), p("b", "1", "x"), p("b", "2", "x"), p("c", "1", "x"), p("d", "1", "x")}
	now := []install.Package{p("d", "1", "y"), p("b", "2", "y"), p("a", "1", "x"), {Name: "e", Version: "1", Integrity: "x", Scripts: true}, p("c", "2", "x")}
	want := []install.PackageDiff{
		{Name: "b", From: "2", To: "2", Rebuilt: true}, {Name: "b", From: "1"}, {Name: "c", From: "1", To: "2"},
		{Name: "d", From: "1", To: "1", Rebuilt: true}, {Name: "e", To: "1", Scripts: true},
	}
	if diff := cmp.Diff(want, install.ComparePackages(old, now)); diff != "" {
		t.Error(diff)
	}
	if got := install.ComparePackages(old, old); got != nil {
		t.Error(got)
	}
}

// The folder's name has the beginning of a digest only: a tree of another
// digest with the same beginning is not the tree.
func TestInstalled_WholeDigestCounts(t *testing.T) {
	t.Parallel()
	in, i := version(t, t.TempDir(), "1.0.0", clock.at)
	other := i.Digest[:len("sha256:")+12] + strings.Repeat("0", 52)
	if got, ok, err := in.Installed(demoSpec(t), other, false); ok || err != nil {
		t.Error(got, err)
	}
	if err := in.Use(install.Installed{Dir: i.Dir, Digest: other}, "a"); core.CodeOf(err) != core.CodeInstallFailed {
		t.Error(err)
	}
}
