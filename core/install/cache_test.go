package install_test

import (
	"os"
	"testing"

	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/skiptest"
)

// npm's cache knows an older state of the package than the one that is to be
// installed: after an update, and for a colleague who was given pml.lock.
func TestInstall_OlderCacheOfNPM(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, again)
	reg := demoRegistry(t)
	env := reg.Env(os.Environ())
	spec := specOf(t, "npx -y @demo/server@^1 --root x")
	mine := onRegistry(t.TempDir(), env)
	setUp := func(in *install.Installer, r install.Resolved) {
		t.Helper()
		i, err := in.Install(t.Context(), spec, r, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i.Version != r.Version {
			t.Errorf("%s, want %s", i.Version, r.Version)
		}
	}
	old, err := mine.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	setUp(mine, old) // the cache is warm from here on

	reg.Publish(demo("1.1.0")[0])
	fresh, err := mine.Latest(t.Context(), spec)
	if err != nil || fresh.Version != "1.1.0" {
		t.Fatalf("%+v %v", fresh, err)
	}
	setUp(mine, fresh)

	// The colleague's registry has the same packages, and a cache of its own.
	other := demoRegistry(t)
	env = other.Env(os.Environ())
	before := onRegistry(t.TempDir(), env)
	if old, err = before.Resolve(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	setUp(before, old)
	other.Publish(demo("1.1.0")[0])
	theirs := onRegistry(t.TempDir(), env)
	entry := fresh.Entry(spec)
	pinned, err := theirs.Resolve(t.Context(), spec, &entry)
	if err != nil {
		t.Fatal(err)
	}
	setUp(theirs, pinned)
	// Without npm's lock in it, the registry is asked for the pinned version.
	entry.NPM = nil
	if _, err := onRegistry(t.TempDir(), env).Resolve(t.Context(), spec, &entry); err != nil {
		t.Error(err)
	}
}
