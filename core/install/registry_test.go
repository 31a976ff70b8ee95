package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/skiptest"
)

// needNPM skips a test where npm and node are missing, and with -short.
func needNPM(t *testing.T) {
	t.Helper()
	skiptest.Short(t, again)
	skiptest.Tool(t, "npm")
	skiptest.Tool(t, "node")
}

// onRegistry is an installer that uses the real npm with a registry on loopback.
func onRegistry(home string, env []string, change ...func(*install.Options)) *install.Installer {
	o := install.Options{Home: home, LookPath: exec.LookPath, Clock: clock, Env: env}
	for _, c := range change {
		c(&o)
	}
	return install.New(o)
}

func specOf(t *testing.T, line string) launch.Spec {
	t.Helper()
	words := strings.Fields(line)
	spec, err := launch.Recognize(launch.Command{Name: "s", Command: words[0], Args: words[1:]})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// demo is a server with a dependency that has an install script.
func demo(version string) []registrytest.Package {
	server := registrytest.Server("@demo/server", version, registrytest.Tool{Name: "echo", Description: "Says it again."})
	server.Bin["other"] = "other.js"
	server.Files["other.js"] = "#!/usr/bin/env node\n"
	server.Dependencies = map[string]string{"dep": "^1.0.0"}
	return []registrytest.Package{server, {
		Name: "dep", Version: "1.0.0", Files: map[string]string{"index.js": "module.exports = 1\n", "make.js": `require('fs').writeFileSync('made.txt', 'made')`},
		Scripts: map[string]string{"postinstall": "node make.js"},
	}}
}

func demoRegistry(t *testing.T) *registrytest.Registry {
	t.Helper()
	needNPM(t)
	r := registrytest.New(t)
	r.Publish(demo("1.0.0")...)
	return r
}

// nothingInstalled wants no tree and no staging.
func nothingInstalled(t *testing.T, in *install.Installer, home string, spec launch.Spec, digest string) {
	t.Helper()
	if i, ok, err := in.Installed(spec, digest, false); ok || err != nil {
		t.Errorf("installed: %v %v", i, err)
	}
	if left, err := os.ReadDir(filepath.Join(home, ".staging")); err != nil || len(left) > 0 {
		t.Errorf("staging: %v %v", left, err)
	}
}

func TestRegistry_InstallsAndTellsSize(t *testing.T) {
	t.Parallel()
	reg := demoRegistry(t)
	var mu sync.Mutex
	var said []string
	in := onRegistry(t.TempDir(), reg.Env(os.Environ()), func(o *install.Options) {
		o.Progress = func(s string) { mu.Lock(); defer mu.Unlock(); said = append(said, s) }
	})
	spec := specOf(t, "npx -y @demo/server@^1 --root x")
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dep"}, r.Scripts); diff != "" || len(r.Packages) != 2 || r.Version != "1.0.0" {
		t.Error(diff, r.Packages, r.Version)
	}
	i, err := in.Install(t.Context(), spec, r, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, pkg := range []string{"dep", "@demo/server"} {
		files, err := filepath.Glob(filepath.Join(i.Dir, "node_modules", pkg, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
	}
	if r.SizeBytes != size {
		t.Errorf("size %d, on disk %d", r.SizeBytes, size)
	}
	again, err := in.Resolve(t.Context(), spec, nil)
	if err != nil || again.SizeBytes != size {
		t.Errorf("remembered: size %d, %v", again.SizeBytes, err)
	}
	entry := r.Entry(spec)
	if pinned, err := in.Resolve(t.Context(), spec, &entry); err != nil || pinned.SizeBytes != size {
		t.Errorf("pinned: size %d, %v", pinned.SizeBytes, err)
	}
	for _, want := range []string{"asking the registry: @demo/server@^1", "installing 0 of 2 packages: @demo/server@1.0.0", "checking @demo/server@1.0.0"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if _, err := os.Stat(filepath.Join(i.Dir, "node_modules/dep/made.txt")); err == nil {
		t.Error("an install script ran that was not allowed")
	}
	answer := converse(t, in, i, spec, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}}`)
	if !strings.Contains(answer, `\"args\":{\"a\":1},\"argv\":[\"--root\",\"x\"]`) {
		t.Error(answer)
	}
}

// converse starts an installed server, sends one line and returns what it
// answers until its stdin ends.
func converse(t *testing.T, in *install.Installer, i install.Installed, spec launch.Spec, line string) string {
	t.Helper()
	command, args, err := in.Files.Program(i.Launched(), spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command, args...)
	cmd.Stdin = strings.NewReader(line + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestRegistry_ProgramByAnotherName(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages; others do, too")
	reg := demoRegistry(t)
	in := onRegistry(t.TempDir(), reg.Env(os.Environ()))
	spec := specOf(t, "npx -y -p @demo/server other")
	_, i := mustInstall(t, in, spec)
	if _, args, err := in.Files.Program(i.Launched(), spec); err != nil || !strings.HasSuffix(args[0], "other.js") {
		t.Error(args, err)
	}
	if _, _, err := in.Files.Program(i.Launched(), specOf(t, "npx -y -p @demo/server none")); err == nil || !strings.Contains(err.Error(), "it has: other, server") {
		t.Error(err)
	}
}

func TestRegistry_ScriptsRunWhenAllowed(t *testing.T) {
	t.Parallel()
	reg := demoRegistry(t)
	in := onRegistry(t.TempDir(), reg.Env(os.Environ()))
	spec := specOf(t, "npx -y @demo/server")
	r, plain := mustInstall(t, in, spec)
	with, err := in.Install(t.Context(), spec, r, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(plain.Dir, "node_modules/dep/made.txt")); err == nil {
		t.Error("a script ran that was not allowed")
	}
	if _, err := os.Stat(filepath.Join(with.Dir, "node_modules/dep/made.txt")); err != nil || with.Dir == plain.Dir {
		t.Error(err, with.Dir)
	}
	for scripts, want := range map[bool]install.Installed{true: with, false: plain} {
		if i, ok, err := in.Installed(spec, r.Digest, scripts); err != nil || !ok || i != want {
			t.Error("not the tree of the answer", scripts, i, err)
		}
	}
}

// The registry serves other bytes than were resolved: before the first
// installation, and to a colleague with the same pml.lock.
func TestRegistry_ChangedTarball(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages; others do, too")
	reg := demoRegistry(t)
	home := t.TempDir()
	in := onRegistry(home, reg.Env(os.Environ()))
	spec := specOf(t, "npx -y @demo/server")
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	evil := demo("1.0.0")[0]
	evil.Files["server.js"] = "#!/usr/bin/env node\nevil()\n" + strings.Repeat("//", 4000)
	reg.Swap(evil)
	_, err = in.Install(t.Context(), spec, r, false, nil)
	if core.CodeOf(err) != core.CodeIntegrityFailed || !strings.Contains(err.Error(), "not what was pinned") {
		t.Errorf("%s: %v", core.CodeOf(err), err)
	}
	nothingInstalled(t, in, home, spec, r.Digest)

	// The registry lies in its documents too: the pin alone says what it was.
	reg.Publish(evil)
	if _, err := in.Latest(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	entry := r.Entry(spec)
	if p, err := in.Resolve(t.Context(), spec, &entry); err != nil || p.SizeBytes >= r.SizeBytes {
		t.Errorf("the size of other bytes counts: %d of %d, %v", p.SizeBytes, r.SizeBytes, err)
	}
	other := t.TempDir()
	fresh := onRegistry(other, append(reg.Env(os.Environ()), "npm_config_cache="+t.TempDir()))
	pinned, err := fresh.Resolve(t.Context(), spec, &entry)
	if err != nil || pinned.Digest != r.Digest {
		t.Fatal(pinned.Digest, err)
	}
	if _, err = fresh.Install(t.Context(), spec, pinned, false, nil); core.CodeOf(err) != core.CodeIntegrityFailed {
		t.Errorf("%s: %v", core.CodeOf(err), err)
	}
	nothingInstalled(t, fresh, other, spec, r.Digest)
	entry.NPM = nil // an entry with the digest alone is asked for again
	if _, err = onRegistry(t.TempDir(), append(reg.Env(os.Environ()), "npm_config_cache="+t.TempDir())).Resolve(t.Context(), spec, &entry); core.CodeOf(err) != core.CodeIntegrityFailed ||
		!strings.Contains(err.Error(), "not what pml.lock pins any more: -@demo/server@1.0.0 +@demo/server@1.0.0") {
		t.Errorf("%s: %v", core.CodeOf(err), err)
	}
}

// A registry that does not do its work: what is said, and that nothing is left.
func TestRegistry_Broken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		mode registrytest.Mode
		at   string // part of the path
		want string
	}{
		{"HangsResolving", registrytest.Hangs, "server", "cannot resolve @demo/server@latest: npm has fetched and said nothing for 1.5s; check the network and npm's registry"},
		{"HangsInstalling", registrytest.Hangs, ".tgz", "cannot install @demo/server@1.0.0: npm has fetched and said nothing for 2.5s"},
		{"FailsResolving", registrytest.Fails, "server", "cannot resolve @demo/server@latest: "},
		{"FailsInstalling", registrytest.Fails, "dep-1.0.0.tgz", "cannot install @demo/server@1.0.0: "},
		{"CutsDocument", registrytest.Cuts, "server", "cannot resolve @demo/server@latest: "},
		{"CutsArchive", registrytest.Cuts, "dep-1.0.0.tgz", "cannot install @demo/server@1.0.0: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.mode == registrytest.Fails || c.name == "CutsDocument" {
				skiptest.Long(t, again)
			}
			reg := demoRegistry(t)
			home := t.TempDir()
			in := onRegistry(home, reg.Env(os.Environ()))
			spec := specOf(t, "npx -y @demo/server")
			hurry := onRegistry(home, reg.Env(os.Environ()), func(o *install.Options) {
				if c.mode == registrytest.Hangs {
					o.ResolveSilence, o.InstallSilence = 1500*time.Millisecond, 2500*time.Millisecond
				}
			})
			reg.Break(c.at, c.mode)
			var digest string
			var err error
			if strings.HasPrefix(c.want, "cannot install") {
				r, resolveErr := in.Resolve(t.Context(), spec, nil)
				if resolveErr != nil {
					t.Fatal(resolveErr)
				}
				digest = r.Digest
				_, err = hurry.Install(t.Context(), spec, r, false, nil)
			} else {
				_, err = hurry.Resolve(t.Context(), spec, nil)
			}
			t.Log(err)
			if core.CodeOf(err) != core.CodeInstallFailed && c.mode != registrytest.Cuts || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", core.CodeOf(err), err)
			}
			if digest != "" {
				nothingInstalled(t, in, home, spec, digest)
			}
			reg.Break(c.at, registrytest.Answers)
			mustInstall(t, in, spec)
		})
	}
}

// What is pinned and installed needs neither npm nor a network.
func TestRegistry_Offline(t *testing.T) {
	t.Parallel()
	reg := demoRegistry(t)
	home := t.TempDir()
	spec := specOf(t, "npx -y @demo/server")
	r, want := mustInstall(t, onRegistry(home, reg.Env(os.Environ())), spec)
	reg.Down()
	in := onRegistry(home, reg.Env(os.Environ()), func(o *install.Options) {
		o.LookPath = func(name string) (string, error) {
			if name == "npm" {
				return "", exec.ErrNotFound
			}
			return exec.LookPath(name)
		}
	})
	entry := r.Entry(spec)
	pinned, err := in.Resolve(t.Context(), spec, &entry)
	if err != nil || pinned.Digest != r.Digest {
		t.Fatal(err)
	}
	entry.NPM = nil
	if pinned, err = in.Resolve(t.Context(), spec, &entry); err != nil || pinned.Digest != r.Digest {
		t.Fatal(err)
	}
	i, err := in.Install(t.Context(), spec, pinned, false, nil)
	if err != nil || i != want {
		t.Fatal(i, err)
	}
	if change, err := in.Verify(i); change != nil || err != nil {
		t.Error(change, err)
	}
	if answer := converse(t, in, i, spec, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); !strings.Contains(answer, `"result":{}`) {
		t.Error(answer)
	}
	if _, err := in.Latest(t.Context(), spec); core.CodeOf(err) != core.CodeInstallFailed || !strings.Contains(err.Error(), "npm is not on PATH") {
		t.Error(err)
	}
}

// A range stands for what it was first resolved to; Latest asks anew, also
// where npm's cache takes the document for fresh.
func TestRegistry_Latest(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages; others do, too")
	reg := demoRegistry(t)
	in := onRegistry(t.TempDir(), reg.Env(os.Environ()))
	spec := specOf(t, "npx -y @demo/server@^1")
	old, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg.Publish(demo("1.1.0")[0], demo("2.0.0")[0])
	if r, err := in.Resolve(t.Context(), spec, nil); err != nil || r.Digest != old.Digest {
		t.Error(r.Version, err)
	}
	now, err := in.Latest(t.Context(), spec)
	if err != nil || now.Version != "1.1.0" {
		t.Fatal(now.Version, err)
	}
	if r, err := in.Resolve(t.Context(), spec, nil); err != nil || r.Digest != now.Digest {
		t.Error("not remembered", r.Version, err)
	}
	want := []install.PackageDiff{{Name: "@demo/server", From: "1.0.0", To: "1.1.0"}}
	if diff := cmp.Diff(want, install.ComparePackages(old.Entry(spec).Packages, now.Packages)); diff != "" {
		t.Error(diff)
	}
}

func TestRegistry_VerifySaysWhichFile(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages; others do, too")
	reg := demoRegistry(t)
	in := onRegistry(t.TempDir(), reg.Env(os.Environ()))
	_, i := mustInstall(t, in, specOf(t, "npx -y @demo/server"))
	flip(t, filepath.Join(i.Dir, "node_modules/dep/index.js"))
	c, err := in.Verify(i)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if diff := cmp.Diff([]string{"changed: node_modules/dep/index.js"}, c.Files); diff != "" {
		t.Error(diff)
	}
}

// npm makes a lock without an optional package that the registry lacks, and npm
// ci refuses that lock. What npm install makes of it counts if it is the tree
// that was approved.
func TestRegistry_OptionalIsMissing(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	reg := demoRegistry(t)
	server := demo("1.1.0")[0]
	server.Fields = map[string]any{"optionalDependencies": map[string]string{"@demo/darwin": "1.1.0"}}
	reg.Publish(server)
	in := onRegistry(t.TempDir(), reg.Env(os.Environ()))
	spec := specOf(t, "npx -y @demo/server")
	r, i := mustInstall(t, in, spec)
	if r.Version != "1.1.0" || len(r.Packages) != 2 {
		t.Fatalf("%s %v", r.Version, r.Packages)
	}
	if change, err := in.Verify(i); change != nil || err != nil {
		t.Error(change, err)
	}
	if answer := converse(t, in, i, spec, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); !strings.Contains(answer, `"result":{}`) {
		t.Error(answer)
	}

	// By the time that it is installed, the registry has it: that is another tree.
	home := t.TempDir()
	later := onRegistry(home, append(reg.Env(os.Environ()), "npm_config_cache="+t.TempDir()))
	approved, err := later.Latest(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	reg.Publish(registrytest.Package{Name: "@demo/darwin", Version: "1.1.0", Files: map[string]string{"index.js": "evil()\n"}})
	_, err = later.Install(t.Context(), spec, approved, false, nil)
	if core.CodeOf(err) != core.CodeIntegrityFailed || !strings.Contains(err.Error(), "+@demo/darwin@1.1.0") {
		t.Errorf("%s: %v", core.CodeOf(err), err)
	}
	nothingInstalled(t, later, home, spec, approved.Digest)
}

// Why a tree was not installed is known in another process, until it is installed
// or looked for anew.
func TestFailures_Last(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	reg := demoRegistry(t)
	home := t.TempDir()
	in := onRegistry(home, reg.Env(os.Environ()))
	spec := specOf(t, "npx -y @demo/server")
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg.Break("dep-1.0.0.tgz", registrytest.Fails)
	_, failed := in.Install(t.Context(), spec, r, false, nil)
	if in.Failures.Last(r.Digest) != nil || failed == nil {
		t.Fatal("a failure is recorded by who shows it", failed)
	}
	if err := in.Failures.Record(r.Digest, failed, "no dep"); err != nil {
		t.Fatal(err)
	}
	again := onRegistry(home, reg.Env(os.Environ()))
	if f := again.Failures.Last(r.Digest); f == nil || f.Message != "no dep" || f.Final || f.Code != core.CodeInstallFailed {
		t.Errorf("%+v", f)
	}
	reg.Break("dep-1.0.0.tgz", registrytest.Answers)
	if _, err := again.Install(t.Context(), spec, r, false, nil); err != nil {
		t.Fatal(err)
	}
	if f := in.Failures.Last(r.Digest); f != nil {
		t.Errorf("it is installed: %+v", f)
	}
	gone := demo("2.0.0")
	gone[0].Dependencies = map[string]string{"dep": "^2.0.0"}
	gone[1].Version = "2.0.0"
	reg.Publish(gone...)
	other := onRegistry(t.TempDir(), append(reg.Env(os.Environ()), "npm_config_cache="+t.TempDir()))
	if r, err = other.Latest(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	reg.Unpublish("dep", "2.0.0")
	_, failed = other.Install(t.Context(), spec, r, false, nil)
	if err := other.Failures.Record(r.Digest, failed, "it is gone"); err != nil {
		t.Fatal(err)
	}
	if f := other.Failures.Last(r.Digest); f == nil || !f.Final {
		t.Errorf("a package that the registry does not have: %+v, %v", f, failed)
	}
	reg.Publish(gone[1])
	if _, err := other.Latest(t.Context(), spec); err != nil || other.Failures.Last(r.Digest) != nil {
		t.Errorf("looked for anew: %v", err)
	}
}
