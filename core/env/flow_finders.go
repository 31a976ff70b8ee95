package env

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// finders are programs that look for what they run by themselves, and the files of a
// folder in which they look first.
var finders = map[string][]string{
	"make": {"GNUmakefile", "makefile", "Makefile"}, "gmake": {"GNUmakefile", "makefile", "Makefile"},
	"npm": {"package.json", ".npmrc"}, "npx": {"package.json", ".npmrc"}, "pnpm": {"package.json", ".npmrc"}, "yarn": {"package.json", ".yarnrc.yml"},
	"bun": {"package.json", "bunfig.toml"}, "bunx": {"package.json", "bunfig.toml"}, "deno": {"deno.json", "deno.jsonc"},
	"uv": {"pyproject.toml", "uv.toml"}, "uvx": {"pyproject.toml", "uv.toml"}, "poetry": {"pyproject.toml"}, "pipenv": {"Pipfile"}, "tox": {"tox.ini"},
	"just": {"justfile", "Justfile", ".justfile"}, "task": {"Taskfile.yml", "Taskfile.yaml"}, "rake": {"Rakefile"}, "bundle": {"Gemfile"},
	"cargo": {"Cargo.toml"}, "go": {"go.mod", "go.work"}, "mvn": {"pom.xml"}, "gradle": {"build.gradle", "build.gradle.kts"}, "composer": {"composer.json"},
}

// wrappers are programs that start the one which their arguments name.
var wrappers = []string{"env", "nohup", "nice", "time", "timeout", "exec", "sudo", "xargs", "setsid", "stdbuf"}

// wordsOf are the words of a line for a shell.
func wordsOf(line string) []string {
	line = strings.NewReplacer(`"`, "", `'`, "").Replace(line)
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n;|&()<>=,`", r) })
}

// finder says which program of a command line finds what it runs by itself, and in which
// files of a folder; empty: none is known to. A word of a line for a shell counts as one.
func finder(c *flow.Command) (by string, files []string) {
	if c == nil {
		return "", nil
	}
	line := append([]string{c.Command}, c.Args...)
	wraps := slices.Contains(wrappers, filepath.Base(c.Command))
	for i, arg := range line {
		words, shell := wordsOf(arg), strings.ContainsAny(arg, " \t\n")
		if i > 0 && !wraps && !shell {
			continue
		}
		if !shell { // the words behind it are its own arguments
			words = append([]string{arg}, line[i+1:]...)
		}
		for n, word := range words {
			name := strings.TrimSuffix(filepath.Base(word), ".exe")
			if found, ok := finders[name]; ok {
				return name, found
			}
			if module := moduleOf(name, words[n+1:]); module != "" {
				return name + " -m", moduleFiles(module)
			}
			if !shell && !wraps {
				break
			}
		}
	}
	return "", nil
}

// moduleOf is the module that an interpreter of Python is to run; empty: none.
func moduleOf(name string, args []string) string {
	if n := strings.TrimRight(name, "0123456789."); n != "python" && n != "pypy" && n != "py" {
		return ""
	}
	for i, arg := range args {
		if module, ok := strings.CutPrefix(arg, "-m"); ok && module != "" {
			return module
		} else if ok && i+1 < len(args) {
			return args[i+1]
		}
		if !strings.HasPrefix(arg, "-") {
			break
		}
	}
	return ""
}

// moduleFiles are the files of a folder that a module may be, and those of the packages
// around it.
func moduleFiles(module string) (files []string) {
	path := filepath.FromSlash(strings.ReplaceAll(module, ".", "/"))
	files = []string{path + ".py", filepath.Join(path, "__main__.py")}
	for ; path != "." && path != string(filepath.Separator); path = filepath.Dir(path) {
		files = append(files, filepath.Join(path, "__init__.py"))
	}
	return files
}

// FlowWarnings name the command nodes of the workspace's flows whose programs find by
// themselves what they run: the trust covers where they look first, not what that leads to.
func (c *Config) FlowWarnings() (out []string) {
	for _, f := range c.workFlows.Flows {
		for _, n := range f.Nodes {
			if n.Type != flow.TypeCommand {
				continue
			}
			if by, files := finder(n.Data.Command); by != "" {
				out = append(out, fmt.Sprintf("flow %s, node %s: of high risk: runs whatever %s finds; pml notices a change of %s, and not of what that leads to",
					core.Visible(f.File, 80, false), core.Visible(n.ID, 60, false), by, core.Visible(strings.Join(files, ", "), 200, false)))
			}
		}
	}
	return out
}
