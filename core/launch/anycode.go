package launch

import (
	"slices"
	"strings"
)

// evaluators are programs that run code from their command line, beside the
// interpreters, with the flags that do it. None: any argument does.
var evaluators = map[string][]string{
	"fish": {"-c", "--command", "-C", "--init-command"}, "csh": {"-c"}, "tcsh": {"-c"}, "ash": {"-c"}, "mksh": {"-c"}, "nu": {"-c", "--commands"},
	"xonsh": {"-c"}, "elvish": {"-c"}, "su": {"-c", "--command"}, "script": {"-c", "--command"}, "flock": {"-c", "--command"},
	"lua": {"-e"}, "luajit": {"-e"}, "rscript": {"-e"}, "r": {"-e"}, "julia": {"-e", "-E", "--eval", "--print"}, "elixir": {"-e", "--eval", "--rpc-eval"},
	"erl": {"-eval", "-run"}, "groovy": {"-e"}, "scala": {"-e"}, "osascript": {"-e"}, "guile": {"-c"}, "ghc": {"-e"}, "racket": {"-e", "--eval"},
	"emacs": {"--eval", "-eval", "--execute", "-execute"}, "vim": {"-c", "--cmd"}, "nvim": {"-c", "--cmd"}, "tcc": {"-run"},
	"find": {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"}, "gfind": {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"},
	"fd": {"-x", "-X", "--exec", "--exec-batch"}, "fdfind": {"-x", "-X", "--exec", "--exec-batch"}, "rg": {"--pre"}, "ripgrep": {"--pre"}, "sort": {"--compress-program"},
	"tar": {"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script"}, "rsync": {"-e", "--rsh", "--rsync-path"}, "zip": {"-TT"},
	"tclsh": {"-c"}, "psql": {"-c", "--command"}, "jshell": {"-R"}, "crystal": {"eval"}, "nim": {"--eval"}, "sbcl": {"--eval"}, "clojure": {"-e", "--eval"}, "clj": {"-e", "--eval"},
	"git": {"-c", "--config-env"}, // an alias that begins with ! is a line for the shell
	"awk": nil, "gawk": nil, "mawk": nil, "nawk": nil, "xargs": nil, "ssh": nil, "sed": nil, "gsed": nil, "eval": nil,
	"sqlite3": nil, // .shell
}

// modules are flags after which an interpreter runs what has a name, or what it
// is told on its stdin, which is the protocol's: no code of the command line.
var modules = []string{"-m", "--module", "-S", "-", "-s", "-a", "--test", "--test-only", "-i", "--interactive", "--build-snapshot"}

// anyCode says where a command line gives code that is run as it stands there:
// "sh -c", "nohup python -c"; empty when it does not. Words that follow a script
// are its own.
func anyCode(command string, args []string, k Kind) string {
	if k == KindNPM {
		return ""
	}
	if name := program(command); name == "cmd" && slices.ContainsFunc(args, func(a string) bool { return strings.ContainsAny(a, "&|<>^%\n") }) {
		return "cmd"
	}
	line := append([]string{command}, args...)
	for n, word := range line {
		name, rest := program(word), line[n+1:]
		if slices.Contains([]string{"bun", "deno"}, name) && len(rest) > 0 && slices.Contains([]string{"task", "eval", "exec"}, rest[0]) {
			return name + " " + rest[0]
		}
		if flag := abbreviated(name, rest); flag != "" {
			return name + " " + flag
		}
		if i, ok := interpreters[strings.TrimRight(name, "0123456789.")]; ok {
			if flag, script := i.evaluates(rest); flag != "" {
				return name + " " + flag
			} else if script {
				return ""
			}
		}
		flags, known := evaluators[name]
		switch {
		case known && flags == nil && len(rest) > 0:
			return name
		case name == "env" && slices.ContainsFunc(rest, splits):
			return "env -S"
		case n == 0 && slices.Contains([]string{"npm", "pnpm", "yarn"}, name):
			return strings.TrimSpace(name + " " + strings.Join(rest[:min(1, len(rest))], ""))
		}
		for _, arg := range rest {
			if flag, _, _ := strings.Cut(arg, "="); slices.Contains(flags, flag) || slices.ContainsFunc(flags, func(f string) bool { return endsCluster(arg, f) }) {
				return name + " " + flag
			}
		}
	}
	return ""
}

// endsCluster reports whether a flag of one letter is the last of several in one
// word: -c in -qc.
func endsCluster(arg, flag string) bool {
	return len(flag) == 2 && len(arg) > 2 && arg[0] == '-' && strings.Trim(arg[1:], letters) == "" && arg[len(arg)-1] == flag[1]
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// isDataURL reports whether a word, or the value of a flag in it, is a module that
// stands in its own address.
func isDataURL(arg string) bool {
	if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
		arg = value
	}
	return len(arg) >= len("data:") && strings.EqualFold(arg[:len("data:")], "data:")
}

// splits reports whether an argument is env's flag for a whole line in one word.
func splits(arg string) bool {
	return strings.HasPrefix(arg, "-S") || strings.HasPrefix(arg, "--split-string") || strings.HasPrefix(arg, "-vS") || strings.HasPrefix(arg, "-iS")
}

// abbreviated returns the flag by which PowerShell is given code: it takes any
// beginning of a flag's name.
func abbreviated(name string, args []string) string {
	if name != "powershell" && name != "pwsh" {
		return ""
	}
	for _, arg := range args {
		low := strings.ToLower(arg)
		if len(low) > 1 && (low == "-ec" || strings.HasPrefix("-encodedcommand", low) || strings.HasPrefix("-command", low)) {
			return arg
		}
		if len(low) > 1 && strings.HasPrefix("-file", low) {
			return ""
		}
	}
	return ""
}

// evaluates returns the flag by which an interpreter's arguments give it code;
// else script says whether they name a file.
func (i interpreter) evaluates(args []string) (flag string, script bool) {
	for n := 0; n < len(args); n++ {
		arg := args[n]
		if isDataURL(arg) {
			return "data:", false
		}
		if !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "+") {
			if slices.Contains(i.subs, arg) {
				continue
			}
			return "", true
		}
		if arg == "--" {
			return "", n+1 < len(args)
		}
		what, _, inline := i.flag(arg)
		switch {
		case what == isCode && !i.runsModule(arg):
			name, _, _ := strings.Cut(arg, "=")
			return name, false
		case what == isCode:
			return "", true
		case what == isScript:
			return "", true
		case what != isSwitch && what != isUnknown && !inline:
			if n++; n < len(args) && isDataURL(args[n]) {
				return "data:", false
			}
		}
	}
	return "", false
}

// runsModule reports whether a flag of the kind isCode, which may stand in a
// cluster, is one of modules.
func (i interpreter) runsModule(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	if _, ok := i.meaning(name); ok {
		return slices.Contains(modules, name)
	}
	for _, letter := range arg[1:] {
		flag := arg[:1] + string(letter)
		if what, ok := i.meaning(flag); ok {
			return what == isCode && slices.Contains(modules, flag)
		}
	}
	return false
}
