package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// located is what a command runs in a folder, one path after the other.
func located(t *testing.T, in *launch.Files, line string, at launch.Place) (launch.Located, string, error) {
	t.Helper()
	l, err := in.Locate(specOf(t, line), at)
	var paths []string
	for _, f := range l.Files {
		paths = append(paths, strings.TrimPrefix(f.Path, at.Dir+"/"))
	}
	return l, strings.Join(paths, " "), err
}

func puts(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := errors.Join(put(dir, name, "x"), os.Chmod(filepath.Join(dir, name), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names and no mode there")
	}
	dir, bin := t.TempDir(), t.TempDir()
	puts(t, dir, "x.js", "pkg/lib/main.js", "py/__main__.py", "index/index.js", "own/tool", "own/node", "docker", "env", "uvx", ".venv/bin/python",
		"s.py", "pre.js", "pre/index.js", "conf.json", "sub/x.ts", "sub/pre.ts", "server/index.js", "server.ts", "both.js", "both/index.js", "mjs.mjs", "s.jar")
	puts(t, bin, "tool", "docker", "uvx", "node", "python3", "bun", "sh", "java", "tsx")
	if err := errors.Join(put(dir, "pkg/package.json", `{"main":"lib/main"}`), put(dir, "plain", "x"), put(dir, "tool", "not executable")); err != nil {
		t.Fatal(err)
	}
	in := launch.NewFiles(launch.Options{Home: t.TempDir(), Clock: clock, LookPath: func(name string) (string, error) { return "/looked/up/" + name, nil }, Logger: quiet})
	path := slices.Clip([]string{"PATH=/nowhere", "PATH=relative:" + dir + string(filepath.ListSeparator) + bin})
	inside := []string{"PATH=" + dir + "/own:" + bin}
	for _, c := range []struct {
		line string
		env  []string
		want string // or part of the error
	}{
		{"node x.js", path, "x.js"},
		{"node ./x", path, "x.js"},
		{"node pkg", path, "pkg/lib/main.js"},
		{"node index", path, "index/index.js"},
		{"python3 py", path, "py/__main__.py"},
		{"python3 plain", path, "plain"},
		{"node gone.js", path, "the script gone.js is not there (looked for " + dir + "/gone.js)"},
		{"./own/tool", nil, "own/tool"},
		{"./plain", nil, "./plain is no program at " + dir + "/plain"},
		{"./own", nil, "is no program"},
		{"tool -v", path, bin + "/tool"},
		{"tool", nil, "/looked/up/tool"},
		{"gone", path, "gone is not on PATH; install it"},
		{"npx x", path, ""},

		// Starters count by path, and when PATH leads into the workspace.
		{"docker run x", []string{"PATH=" + bin}, ""},
		{"docker run x", path, "docker"},
		{"./docker run x", path, "docker"},
		{"./uvx a==1", path, "uvx"},
		{"./own/node x.js", path, "own/node x.js"},
		{"node x.js", inside, "own/node x.js"},
		{".venv/bin/python s.py", path, ".venv/bin/python s.py"},
		{".venv/bin/python -m s", path, ".venv/bin/python"},
		{"./env A=b ./own/node x.js", path, "env own/node x.js"},
		{"./gone/python s.py", path, "is no program"},

		// What is loaded before the script.
		{"node -r ./pre.js --import ./mjs.mjs x.js", path, "x.js pre.js mjs.mjs"},
		{"node --require=./pre x.js", path, "x.js pre.js"},
		{"node --import file://" + dir + "/mjs.mjs -r dotenv/config x.js", path, "x.js mjs.mjs"},
		{"node -r ./gone.js x.js", path, "gone.js is not there"},
		{"node -e 1 -r ./pre.js", path, "pre.js"},
		{"node --dns-result-order ipv4first x.js", path, "x.js"},
		{"node --unheard-of=1 x.js", path, "x.js"},
		{"node --unheard-of -- x.js", path, "x.js"},
		{"bun --cwd sub --preload ./pre.ts run x.ts", path, "sub/x.ts sub/pre.ts"},
		{"java -jar s.jar", path, "s.jar"},

		// The same from the environment.
		{"node x.js", append(path, `NODE_OPTIONS=--no-warnings --require ./pre.js "--import=./mjs.mjs" -r "dotenv/config"`), "x.js pre.js mjs.mjs"},
		{"npx x", append(path, `NODE_OPTIONS=-r "./pre\".js"`), `the script ./pre".js is not there`},
		{"npx x", append(path, "NODE_OPTIONS=--require=./pre.js"), "pre.js"},
		{"./docker run x", append(path, "NODE_OPTIONS=--require=./pre.js"), "docker"},

		// Node has no "run"; which of several it takes depends on its version.
		{"node run x.js", path, "the script run is not there"},
		{"node both", path, "both.js"},
		{"node server", path, "server could be any of " + dir + "/server.ts, " + dir + "/server/index.js; write the whole name"},
		{"python3 x", path, "the script x is not there"},
		{"sh x", path, "the script x is not there"},
		{"tsx x", path, "x.js"},
		{"tsx server", path, "could be any of"},
	} {
		_, got, err := located(t, in, c.line, launch.Place{Dir: dir, Workspace: dir, Env: c.env})
		if err != nil {
			if core.CodeOf(err) != core.CodeServerUnreachable || c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.line, err)
			}
		} else if got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	spec, err := launch.Recognize(launch.Command{Name: "s", Command: "tool --port 1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Locate(spec, launch.Place{Dir: dir, Env: path}); err == nil || !strings.Contains(err.Error(), "each argument into args") {
		t.Error(err)
	}
}

// What is started is the file that was found, and not what its name means later.
func TestLocate_Program(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names and no mode there")
	}
	dir, bin := t.TempDir(), t.TempDir()
	puts(t, dir, "own/python", "s.py")
	puts(t, bin, "node", "env", "npm")
	if err := os.Symlink(filepath.Join(dir, "own/python"), filepath.Join(bin, "python")); err != nil {
		t.Fatal(err)
	}
	in := newFiles(t.TempDir())
	for line, want := range map[string]string{
		"./own/python s.py": dir + "/own/python", "node -e 1": bin + "/node", "env A=b node -e 1": bin + "/env", "npm start": bin + "/npm", "npx x": "",
	} {
		l, _, err := located(t, in, line, launch.Place{Dir: dir, Workspace: dir, Env: []string{"PATH=" + bin}})
		if err != nil || l.Program != want {
			t.Errorf("%s: %q %v", line, l.Program, err)
		}
	}
	// A link on PATH to a program of the workspace is one of the workspace.
	if _, got, err := located(t, in, "python s.py", launch.Place{Dir: dir, Workspace: dir, Env: []string{"PATH=" + bin}}); err != nil || got != bin+"/python s.py" {
		t.Errorf("%q %v", got, err)
	}
}

func TestHashFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := newFiles(t.TempDir())
	hash := func(names ...string) string {
		t.Helper()
		var files []launch.File
		for _, name := range names {
			files = append(files, launch.File{Name: name, Path: filepath.Join(dir, name)})
		}
		h, err := in.HashFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	puts(t, dir, "a", "b")
	one, err := in.HashFile(filepath.Join(dir, "a"))
	if err != nil || hash("a") != one || hash() != "" {
		t.Errorf("%s %s %v", hash("a"), hash(), err)
	}
	before := hash("a", "b")
	if before == one || before == hash("b", "a") || !strings.HasPrefix(before, "sha256:") {
		t.Error(before)
	}
	if err := put(dir, "b", "y"); err != nil {
		t.Fatal(err)
	}
	if hash("a", "b") == before {
		t.Error("a changed file is not noticed")
	}
	if _, err := in.HashFiles([]launch.File{{Name: "a", Path: filepath.Join(dir, "a")}, {Name: "gone", Path: filepath.Join(dir, "gone")}}); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Error(err)
	}
}

func TestHashFile(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "x.js")
	if err := put(dir, "x.js", "abc"); err != nil {
		t.Fatal(err)
	}
	// The file has rested for the clock.
	in := newFiles(home)
	if err := os.Chtimes(file, time.Time{}, clock.at.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	const abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	hash := func(in *launch.Files) string {
		t.Helper()
		h, err := in.HashFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if got := hash(in); got != abc {
		t.Error(got)
	}
	// A later process does not read it again: a false memory is believed.
	kept, err := filepath.Glob(filepath.Join(home, ".hashed/*.json"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	raw, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	planted := "sha256:" + strings.Repeat("0", 64)
	if err := os.WriteFile(kept[0], []byte(strings.Replace(string(raw), abc, planted, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := hash(newFiles(home)); got != planted {
		t.Error("read again", got)
	}
	// Size and modification time are those of before, the change time is not.
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		flip(t, file)
		if got := hash(in); got == planted || got == abc {
			t.Error("a changed byte is not noticed", got)
		}
	}
	// Another file put in its place.
	if err := errors.Join(put(dir, "y", "abc"), os.Chtimes(filepath.Join(dir, "y"), time.Time{}, clock.at.Add(-time.Hour)), os.Rename(filepath.Join(dir, "y"), file)); err != nil {
		t.Fatal(err)
	}
	if got := hash(in); got != abc {
		t.Error(got)
	}
	for name, want := range map[string]string{dir: "not a regular file", file + "x": "no such file"} {
		if _, err := in.HashFile(name); core.CodeOf(err) != core.CodeServerUnreachable || !strings.Contains(err.Error(), want) {
			t.Error(name, err)
		}
	}
}

// A file that was written just now is not remembered: a second write in the
// same tick of the file system's clock would look the same.
func TestHashFile_WrittenJustNow(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "x")
	if err := errors.Join(put(dir, "x", "1"), os.Chtimes(file, time.Time{}, clock.at.Add(-time.Second))); err != nil {
		t.Fatal(err)
	}
	if _, err := newFiles(home).HashFile(file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, launch.HashesDir)); err == nil {
		t.Error("remembered")
	}
}

func BenchmarkHashFile_Unchanged(b *testing.B) {
	file := filepath.Join(b.TempDir(), "x")
	if err := errors.Join(os.WriteFile(file, make([]byte, 16<<20), 0o600), os.Chtimes(file, time.Time{}, clock.at.Add(-time.Hour))); err != nil {
		b.Fatal(err)
	}
	in := newFiles(b.TempDir())
	if _, err := in.HashFile(file); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := in.HashFile(file); err != nil {
			b.Fatal(err)
		}
	}
}

// flip changes one byte of a file and nothing of its size and modification time.
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
