package launch

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Role says how a file of a command is found, and whether its content counts.
type Role string

// The roles of files.
const (
	RoleStarter    Role = "starter"    // a program that runs what is named after it: counts by path or inside of the workspace
	RoleProgram    Role = "program"    // a program: by path, or on PATH
	RoleFile       Role = "file"       // exactly this file
	RoleNode       Role = "node"       // as node finds what it runs
	RoleTypeScript Role = "typescript" // as runners of TypeScript find what they run
	RolePython     Role = "python"     // a file, or a folder with a __main__.py
)

// FileRef is a file as a command names it.
type FileRef struct {
	Name string
	Role Role
}

// Place is where a command is run: the folder it is started in, the workspace,
// and its environment (NAME=value).
type Place struct {
	Dir       string
	Workspace string
	Env       []string
}

// File is a file of a command on this machine.
type File struct {
	Name string // as the command has it
	Path string // absolute
}

// Located are the files of a command on this machine.
type Located struct {
	// Program is the absolute path of what is started; empty for a package that
	// is installed.
	Program string
	// Files are those whose content decides what runs, in the order of the
	// command: programs and scripts given by path, programs of their own. A
	// program of the machine that only starts something, as node on PATH does,
	// is none of them.
	Files []File
}

// Options are what Files is made of. All fields are needed.
type Options struct {
	// Home is the folder of the installed packages, in which hashes are kept.
	Home     string
	LookPath func(string) (string, error)
	Clock    core.Clock
	Logger   *slog.Logger
}

// Files finds and hashes the files that commands run. It is safe for concurrent
// use, and any number of processes may use the same home.
type Files struct {
	o    Options
	read func(path string) (hash, stat string, err error) // readContent, but in tests
}

// NewFiles returns a Files. It does not touch the disk yet.
func NewFiles(o Options) *Files { return &Files{o, readContent} }

// Locate finds the files that a command runs: programs on the PATH of its
// environment, scripts as their interpreter finds them, what NODE_OPTIONS of its
// environment makes node load, in an installed package too. What is not there, is
// no program, or could be one of several is core.CodeServerUnreachable.
func (f *Files) Locate(spec Spec, at Place) (Located, error) {
	var l Located
	for n, ref := range slices.Concat(spec.Files, nodeOptionFiles(spec, at.Env)) {
		path, err := f.find(ref, at)
		if err != nil {
			return Located{}, err
		}
		if n == 0 && (ref.Role == RoleStarter || ref.Role == RoleProgram) {
			l.Program = path
		}
		if ref.Role == RoleStarter && !strings.ContainsAny(ref.Name, `/\`) && !within(at.Workspace, path) {
			continue
		}
		l.Files = append(l.Files, File{Name: ref.Name, Path: path})
	}
	return l, nil
}

// within reports whether a file, or what it is a link to, lies in a folder.
func within(dir, file string) bool {
	if dir == "" {
		return false
	}
	below := func(dir, file string) bool {
		return strings.HasPrefix(file, filepath.Clean(dir)+string(filepath.Separator))
	}
	if below(dir, file) {
		return true
	}
	realDir, err := filepath.EvalSymlinks(dir)
	real, fileErr := filepath.EvalSymlinks(file)
	return err == nil && fileErr == nil && below(realDir, real)
}

func (f *Files) find(ref FileRef, at Place) (string, error) {
	if ref.Role == RoleStarter || ref.Role == RoleProgram {
		return f.findProgram(ref.Name, at)
	}
	return locateScript(absolute(ref.Name, at.Dir), ref)
}

// findProgram finds a program by its path, or on PATH.
func (f *Files) findProgram(name string, at Place) (string, error) {
	if strings.ContainsAny(name, `/\`) {
		file := absolute(name, at.Dir)
		if executable(file) || isFile(file) && runtime.GOOS == "windows" {
			return file, nil
		}
		return "", noProgram(name, "is no program at "+file)
	}
	path, ok := Variable(at.Env, "PATH")
	if !ok {
		file, err := f.o.LookPath(name)
		if err != nil {
			return "", noProgram(name, "is not on PATH")
		}
		return absolute(file, at.Dir), nil
	}
	for _, folder := range filepath.SplitList(path) {
		// A relative folder would make it depend on where pml was started.
		if file := filepath.Join(folder, name); filepath.IsAbs(folder) {
			for _, end := range programEndings(at.Env) {
				if executable(file + end) {
					return file + end, nil
				}
			}
		}
	}
	return "", noProgram(name, "is not on PATH")
}

func noProgram(name, what string) error {
	hint := "install it, or correct the command of the server"
	if strings.ContainsAny(name, " \t") {
		hint = "write the program alone into command and each argument into args"
	}
	return core.Errorf(core.CodeServerUnreachable, "%s %s; %s", core.Visible(name, 200, false), core.Visible(what, 400, false), hint)
}

// locateScript finds a script as its interpreter does. Where versions of that
// differ in which one of several files they take, nothing is taken.
func locateScript(file string, ref FileRef) (string, error) {
	if isFile(file) {
		return file, nil
	}
	var found []string
	switch ref.Role {
	case RoleNode:
		found = byNode(file)
		if len(found) != 1 || found[0] != file+".js" {
			found = append(found, packageMain(file, byNode)...)
		}
	case RoleTypeScript:
		found = append(byTypeScript(file), packageMain(file, byTypeScript)...)
	case RolePython:
		found = existing(filepath.Join(file, "__main__.py"), "")
	case RoleStarter, RoleProgram, RoleFile:
	}
	shown := core.Visible(ref.Name, 200, false)
	switch len(found) {
	case 0:
		return "", core.Errorf(core.CodeServerUnreachable, "the script %s is not there (looked for %s); correct the args of the server", shown, core.Visible(file, 400, false))
	case 1:
		return found[0], nil
	}
	return "", core.Errorf(core.CodeServerUnreachable, "%s could be any of %s; write the whole name of the file into the args of the server",
		shown, core.Visible(strings.Join(found, ", "), 600, false))
}

// existing returns the files that are there of one name with endings.
func existing(file string, endings ...string) []string {
	var out []string
	for _, end := range endings {
		if isFile(file + end) {
			out = append(out, file+end)
		}
	}
	return out
}

// byNode finds what node may take for a name without its ending: .js before all
// others, and of these whatever its version knows.
func byNode(file string) []string {
	if isFile(file + ".js") {
		return []string{file + ".js"}
	}
	return existing(file, ".json", ".node", ".ts", ".cts", ".mts")
}

func byTypeScript(file string) []string {
	return existing(file, ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json", ".node")
}

// packageMain finds the program of a folder: what its package.json says, else
// its index.
func packageMain(dir string, find func(string) []string) []string {
	var pkg struct {
		Main string `json:"main"`
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "package.json")); err == nil && json.Unmarshal(raw, &pkg) == nil && pkg.Main != "" {
		main := filepath.Join(dir, filepath.FromSlash(pkg.Main))
		for _, found := range [][]string{existing(main, ""), find(main), find(filepath.Join(main, "index"))} {
			if len(found) > 0 {
				return found
			}
		}
	}
	return find(filepath.Join(dir, "index"))
}

func absolute(file, dir string) string {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return filepath.Clean(file)
}

func isFile(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows")
}

// programEndings are what may be left out of a program's name.
func programEndings(env []string) []string {
	if runtime.GOOS != "windows" {
		return []string{""}
	}
	endings, ok := Variable(env, "PATHEXT")
	if !ok {
		endings = ".COM;.EXE;.BAT;.CMD"
	}
	return append([]string{""}, strings.Split(endings, ";")...)
}

// Variable returns the last value of a variable in NAME=value lines.
func Variable(env []string, name string) (value string, ok bool) {
	for _, line := range slices.Backward(env) {
		n, v, _ := strings.Cut(line, "=")
		if n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name) {
			return v, true
		}
	}
	return "", false
}
