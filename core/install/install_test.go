package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/skiptest"
)

type fixedClock struct{ at time.Time }

func (c fixedClock) Now() time.Time { return c.at }

var clock = fixedClock{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}

// again is why a test with the real npm and a registry of its own is a long one.
const again = "has npm install packages again and again"

// fakeNPM answers as npm does for a package "demo" with one dependency.
type fakeNPM struct {
	calls  atomic.Int32
	stderr string           // not empty: fail with it
	ci     func(dir string) // after the files are there
}

func hash(c string) string { return "sha512-" + strings.Repeat(c, 86) + "==" }

func demoLock() string {
	return fmt.Sprintf(`{"lockfileVersion":3,"packages":{"":{"dependencies":{"demo":"latest"}},
"node_modules/demo":{"version":"1.2.3","integrity":%q,"bin":{"demo":"cli.js"},"dependencies":{"dep":"^2.0.0"}},
"node_modules/dep":{"version":"2.0.0","integrity":%q,"hasInstallScript":true}}}`, hash("A"), hash("B"))
}

func (f *fakeNPM) Run(_ context.Context, c install.CommandLine) (install.CommandOutput, error) {
	f.calls.Add(1)
	if f.stderr != "" {
		return install.CommandOutput{Stderr: []byte(f.stderr)}, errors.New("exit status 1")
	}
	if c.Args[0] == "install" {
		return install.CommandOutput{}, os.WriteFile(filepath.Join(c.Dir, "package-lock.json"), []byte(demoLock()), 0o600)
	}
	err := errors.Join(
		put(c.Dir, "node_modules/demo/package.json", `{"version":"1.2.3","bin":{"demo":"cli.js"}}`),
		put(c.Dir, "node_modules/demo/cli.js", "#!/usr/bin/env -S node --no-warnings\n"),
		put(c.Dir, "node_modules/dep/package.json", `{"version":"2.0.0"}`))
	if f.ci != nil {
		f.ci(c.Dir)
	}
	return install.CommandOutput{}, err
}

func put(dir, name, content string) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600))
}

func anyPath(name string) (string, error) { return "/bin/" + name, nil }

func newFake(home string, npm *fakeNPM) *install.Installer {
	return install.New(install.Options{Home: home, LookPath: anyPath, Clock: clock, Run: npm})
}

func demoSpec(t *testing.T) launch.Spec {
	t.Helper()
	spec, err := launch.Recognize(launch.Command{Name: "demo", Command: "npx", Args: []string{"-y", "demo", "--port", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func mustInstall(t *testing.T, in *install.Installer, spec launch.Spec) (install.Resolved, install.Installed) {
	t.Helper()
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	i, err := in.Install(t.Context(), spec, r, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, i
}

func TestInstaller_InstallsOnceAndLaunches(t *testing.T) {
	t.Parallel()
	npm := &fakeNPM{}
	in := newFake(t.TempDir(), npm)
	spec := demoSpec(t)
	r, i := mustInstall(t, in, spec)
	if diff := cmp.Diff([]string{"dep"}, r.Scripts); diff != "" {
		t.Error(diff)
	}
	if again, ok, err := in.Installed(spec, r.Digest, false); err != nil || !ok || again != i {
		t.Errorf("Installed = %v, %v, %v", again, ok, err)
	}
	entry := r.Entry(spec)
	pinned, err := in.Resolve(t.Context(), spec, &entry)
	if err != nil || pinned.Digest != r.Digest {
		t.Errorf("pinned: %v, %v", pinned.Digest, err)
	}
	mustInstall(t, in, spec)
	if n := npm.calls.Load(); n != 2 {
		t.Errorf("npm ran %d times, want 2: nothing is asked twice", n)
	}
	command, args, err := in.Files.Program(i.Launched(), spec)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.EvalSymlinks(i.Dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--no-warnings", filepath.Join(root, "node_modules/demo/cli.js"), "--port", "1"}
	if diff := cmp.Diff(want, args); diff != "" || command != "/bin/node" {
		t.Error(command, diff)
	}
}

func TestInstaller_VerifyNoticesChanges(t *testing.T) {
	t.Parallel()
	in := newFake(t.TempDir(), &fakeNPM{})
	_, i := mustInstall(t, in, demoSpec(t))
	if c, err := in.Verify(i); c != nil || err != nil {
		t.Fatal(c, err)
	}
	if err := errors.Join(put(i.Dir, "node_modules/demo/cli.js", "evil"), put(i.Dir, "node_modules/dep/new.js", ""),
		os.Remove(filepath.Join(i.Dir, "node_modules/dep/package.json"))); err != nil {
		t.Fatal(err)
	}
	c, err := in.Verify(i)
	if err != nil || c == nil {
		t.Fatal("no change noticed", err)
	}
	want := []string{"added: node_modules/dep/new.js", "changed: node_modules/demo/cli.js", "removed: node_modules/dep/package.json"}
	if diff := cmp.Diff(want, c.Files); diff != "" || c.OldHash != i.TreeHash || c.NewHash == c.OldHash {
		t.Error(diff, c)
	}
}

func TestInstaller_PinContradictsItself(t *testing.T) {
	t.Parallel()
	in := newFake(t.TempDir(), &fakeNPM{})
	spec := demoSpec(t)
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	entry := r.Entry(spec)
	entry.NPM = json.RawMessage(strings.Replace(string(entry.NPM), hash("B"), hash("C"), 1))
	if _, err := in.Resolve(t.Context(), spec, &entry); core.CodeOf(err) != core.CodeIntegrityFailed {
		t.Error(err)
	}
}

func TestInstaller_NPMFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stderr string
		code   core.Code
		want   string
	}{
		"NotFound":  {"npm warn x\nnpm error code E404\nnpm error 404 Not Found - GET \x1b[31mx\nnpm error 404 Note that you can also install from a\nnpm error 404 tarball, folder, http url, or git url.\nnpm error A complete log of this run", core.CodeInstallFailed, `Not Found - GET \x1b[31mx`},
		"Integrity": {"npm error code EINTEGRITY\nnpm error sha512-x integrity checksum failed", core.CodeIntegrityFailed, "checksum failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newFake(t.TempDir(), &fakeNPM{stderr: c.stderr}).Resolve(t.Context(), demoSpec(t), nil)
			if core.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "complete log") || strings.Contains(err.Error(), "tarball") {
				t.Errorf("%s: %v", core.CodeOf(err), err)
			}
		})
	}
}

func TestInstaller_ProgramsMissing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	_, i := mustInstall(t, newFake(home, &fakeNPM{}), demoSpec(t))
	none := install.New(install.Options{Home: t.TempDir(), Clock: clock, LookPath: func(string) (string, error) { return "", exec.ErrNotFound }})
	if _, err := none.Resolve(t.Context(), demoSpec(t), nil); err == nil || !strings.Contains(err.Error(), "npm is not on PATH") {
		t.Error(err)
	}
	if _, _, err := none.Files.Program(i.Launched(), demoSpec(t)); err == nil || !strings.Contains(err.Error(), "node is not on PATH") {
		t.Error(err)
	}
}

func TestInstaller_ManyAtOnce(t *testing.T) {
	t.Parallel()
	home, npm := t.TempDir(), &fakeNPM{}
	spec := demoSpec(t)
	r, err := newFake(home, npm).Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Each has an Installer of its own, as processes have: all npm runs meet.
	var ready, all sync.WaitGroup
	ready.Add(8)
	npm.ci = func(string) { ready.Done(); ready.Wait() }
	got := make([]install.Installed, 8)
	for n := range got {
		all.Go(func() {
			i, err := newFake(home, npm).Install(context.Background(), spec, r, false, nil)
			if err != nil {
				t.Error(err)
			}
			got[n] = i
		})
	}
	all.Wait()
	if len(slices.Compact(got)) != 1 {
		t.Error("different trees", got)
	}
	if left, err := os.ReadDir(filepath.Join(home, ".staging")); err != nil || len(left) != 0 {
		t.Error("garbage left", left, err)
	}
}

// TestInstaller_Killed runs an installer in a process of its own, which dies in
// the middle of npm ci.
func TestInstaller_Killed(t *testing.T) {
	home := os.Getenv("INSTALL_TEST_KILL")
	if home != "" {
		npm := &fakeNPM{ci: func(string) {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			t.Log(err)
			select {}
		}}
		mustInstall(t, newFake(home, npm), demoSpec(t))
		return
	}
	t.Parallel()
	home = t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInstaller_Killed$")
	cmd.Env = append(os.Environ(), "INSTALL_TEST_KILL="+home)
	if err := cmd.Run(); err == nil {
		t.Fatal("the installer was not killed")
	}
	staging := filepath.Join(home, ".staging")
	if left, err := os.ReadDir(staging); err != nil || len(left) != 1 {
		t.Fatalf("want one staging folder of the dead process: %v %v", left, err)
	}
	later := install.New(install.Options{Home: home, LookPath: anyPath, Clock: fixedClock{clock.at.Add(time.Hour)}, Run: &fakeNPM{}})
	r, err := later.Resolve(t.Context(), demoSpec(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := later.Installed(demoSpec(t), r.Digest, false); ok || err != nil {
		t.Fatal("half a tree counts as installed", err)
	}
	_, i := mustInstall(t, later, demoSpec(t))
	if c, err := later.Verify(i); c != nil || err != nil {
		t.Error(c, err)
	}
	if left, err := os.ReadDir(staging); err != nil || len(left) != 0 {
		t.Errorf("stale staging left: %v %v", left, err)
	}
}

func TestInstaller_Approve(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			if err := newFake(home, nil).Approvals.Approve("package", strconv.Itoa(n), "sha256:x"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	in := newFake(home, nil)
	for n := range 16 {
		if !in.Approvals.Approved("package", strconv.Itoa(n), "sha256:x") || in.Approvals.Approved("tree", strconv.Itoa(n), "sha256:x") || in.Approvals.Approved("package", strconv.Itoa(n), "sha256:y") {
			t.Error(n)
		}
	}
}

// TestInstaller_Real installs the reference file system server from npm.
func TestInstaller_Real(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs from the npm registry")
	for _, name := range []string{"npm", "node"} {
		if _, err := exec.LookPath(name); err != nil {
			skiptest.Missing(t, "needs "+name+": "+err.Error())
		}
	}
	in := install.New(install.Options{Home: t.TempDir(), LookPath: exec.LookPath, Clock: clock, Env: os.Environ()})
	spec, err := launch.Recognize(launch.Command{Name: "filesystem", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		skiptest.Missing(t, "needs npm's registry: "+err.Error())
	}
	t.Logf("%d packages, %d bytes", len(r.Packages), r.SizeBytes)
	if r.Version != "2026.8.31" || len(r.Packages) < 50 || len(r.Scripts) != 0 {
		t.Errorf("resolved %s, %d packages, scripts %v", r.Version, len(r.Packages), r.Scripts)
	}
	i, err := in.Install(t.Context(), spec, r, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := in.Verify(i); c != nil || err != nil {
		t.Fatal(c, err)
	}
	_, args, err := in.Files.Program(i.Launched(), spec)
	if err != nil || len(args) != 2 || !strings.HasSuffix(filepath.ToSlash(args[0]), "server-filesystem/dist/index.js") {
		t.Fatal(args, err)
	}
	flip(t, args[0])
	c, err := in.Verify(i)
	if err != nil || c == nil {
		t.Fatal("a flipped byte is not noticed", err)
	}
	want := []string{"changed: node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"}
	if diff := cmp.Diff(want, c.Files); diff != "" {
		t.Error(diff)
	}
}

// flip changes one byte and puts size and modification time back.
func flip(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := errors.Join(os.WriteFile(file, raw, 0o600), os.Chtimes(file, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkVerify_Unchanged4000(b *testing.B) {
	npm := &fakeNPM{ci: func(dir string) {
		for n := range 4000 {
			if err := put(dir, fmt.Sprintf("node_modules/dep/d%d/f%d.js", n/20, n), "x"); err != nil {
				b.Fatal(err)
			}
		}
	}}
	in := newFake(b.TempDir(), npm)
	spec := launch.Spec{Kind: launch.KindNPM, Package: "demo", Range: "latest"}
	r, err := in.Resolve(b.Context(), spec, nil)
	if err != nil {
		b.Fatal(err)
	}
	i, err := in.Install(b.Context(), spec, r, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if c, err := in.Verify(i); c != nil || err != nil {
			b.Fatal(c, err)
		}
	}
}

// versions answers as npm does for a package "demo" of any one version.
type versions struct{}

func (versions) Run(_ context.Context, c install.CommandLine) (install.CommandOutput, error) {
	raw, err := os.ReadFile(filepath.Join(c.Dir, "package.json"))
	var m struct{ Dependencies map[string]string }
	if err = errors.Join(err, json.Unmarshal(raw, &m)); err != nil {
		return install.CommandOutput{}, err
	}
	v := m.Dependencies["demo"]
	if c.Args[0] == "install" {
		lock := fmt.Sprintf(`{"lockfileVersion":3,"packages":{"node_modules/demo":{"version":%q,"integrity":%q}}}`, v, hash(v[:1]))
		return install.CommandOutput{}, put(c.Dir, "package-lock.json", lock)
	}
	return install.CommandOutput{}, put(c.Dir, "node_modules/demo/package.json", fmt.Sprintf(`{"version":%q,"bin":"x.js"}`, v))
}
