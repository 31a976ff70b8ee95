package launch

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// interpreter is what must be known of a program's flags to find the files that
// it runs.
type interpreter struct {
	subs  []string // words before the file that change nothing, such as run
	value []string // flags whose value is the next argument
	// code are flags after which no file is run: code on the command line, a
	// module by its name. Letters of them count inside of a cluster (-lc) too.
	code []string
	file []string // flags whose value is the file
	// loads are flags whose value is loaded before the file: a path, or the name
	// of an installed module, which is none of its files. reads are those whose
	// value always is a path.
	loads, reads []string
	folder       []string // flags whose value is the folder that the file is in
	// strict: every flag must be known, or be one of switches, which have no
	// value: the word after any other one may be its value or the file.
	strict   bool
	switches []string
	role     Role // of the file; empty is RoleFile
	// other: without a file flag nothing is recognised, except by these endings.
	other   bool
	endings []string
}

var shellLike = interpreter{
	value: []string{"-o", "+o", "-O", "+O"},
	reads: []string{"--rcfile", "--init-file"},
	code:  []string{"-c", "-s", "-"},
}

// interpreters by name, without the version that some carry (python3.12).
var interpreters = map[string]interpreter{
	"node": nodeLike, "nodejs": nodeLike, "tsx": tsx, "ts-node": tsNode,
	"deno": {
		subs: []string{"run"}, other: true, endings: []string{".ts", ".js", ".mts", ".mjs", ".tsx", ".jsx"},
		value: []string{"--cert", "--location", "--seed", "--lock", "-L", "--log-level", "--ext"},
		reads: []string{"-c", "--config", "--import-map", "--preload", "--require", "--import"},
		code:  []string{"-"},
	},
	"bun": {
		subs: []string{"run"}, other: true, endings: []string{".ts", ".js", ".mts", ".mjs", ".cjs", ".tsx", ".jsx"},
		value:  []string{"--env-file", "--tsconfig-override", "-d", "--define", "-l", "--loader"},
		loads:  []string{"-r", "--preload", "--require", "--import"},
		reads:  []string{"-c", "--config"},
		folder: []string{"--cwd"},
		code:   []string{"-e", "--eval", "-p", "--print", "-"},
	},
	"python":     {value: []string{"-W", "-X", "--check-hash-based-pycs"}, code: []string{"-c", "-m", "-"}, role: RolePython},
	"ruby":       {value: []string{"-I", "-E"}, loads: []string{"-r"}, folder: []string{"-C"}, code: []string{"-e", "-S", "-"}},
	"perl":       {value: []string{"-I", "-M", "-m"}, code: []string{"-e", "-E", "-S", "-"}},
	"php":        {value: []string{"-d"}, reads: []string{"-c"}, code: []string{"-r", "-R", "-B", "-E", "-S", "-a", "-"}, file: []string{"-f", "--file"}},
	"java":       {value: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules", "--add-opens", "--add-exports"}, code: []string{"-m", "--module"}, file: []string{"-jar"}, other: true, endings: []string{".java"}},
	"pwsh":       {file: []string{"-file", "-f"}, code: []string{"-command", "-c", "-encodedcommand"}, other: true, endings: []string{".ps1"}, value: []string{"-executionpolicy", "-ep"}},
	"powershell": {file: []string{"-file", "-f"}, code: []string{"-command", "-c", "-encodedcommand"}, other: true, endings: []string{".ps1"}, value: []string{"-executionpolicy", "-ep"}},
	"sh":         shellLike, "bash": shellLike, "zsh": shellLike, "dash": shellLike, "ksh": shellLike,
}

// meaning is what a flag does.
type meaning int

const (
	isSwitch  meaning = iota // nothing that matters here
	isUnknown                // of a strict interpreter
	isCode
	isValue
	isScript
	isLoad
	isRead
	isFolder
)

// scriptArgs reads the arguments of an interpreter.
type scriptArgs struct {
	interpreter
	found    Spec // what it is so far
	ended    bool // the script is known, or that there is none
	coded    bool // code was named: there is no script
	preloads []FileRef
	chdir    string
}

// script finds the files among an interpreter's arguments.
func (i interpreter) script(args []string) (Spec, error) {
	p := scriptArgs{interpreter: i, found: Spec{Kind: KindOther}}
	sub := true
	for n := 0; n < len(args) && !p.ended; n++ {
		arg := args[n]
		switch {
		case arg == "--":
			p.word(args[n+1:])
		case strings.HasPrefix(arg, "-"), strings.HasPrefix(arg, "+"):
			used, err := p.take(args[n:])
			if err != nil {
				return Spec{}, err
			}
			n += used
		case sub && slices.Contains(i.subs, arg):
			sub = false
		default:
			p.word(args[n:])
		}
	}
	spec := p.found
	spec.Files = append(spec.Files, p.preloads...)
	if p.chdir != "" {
		inFolder(p.chdir, spec.Files)
	}
	return spec, nil
}

// take reads one flag and says how many further arguments it used.
func (p *scriptArgs) take(args []string) (used int, err error) {
	what, value, inline := p.flag(args[0])
	follows := len(args) > 1 && !strings.HasPrefix(args[1], "-")
	switch {
	case what == isSwitch:
		return 0, nil
	case what == isUnknown:
		if follows {
			return 0, unclearFlag(args[0])
		}
		return 0, nil
	case what == isCode:
		p.coded = true
		// What follows are the arguments of the code, and not flags any more,
		// except for those of node.
		p.ended = !p.strict || args[0] == "-"
		if !inline && follows {
			used = 1
		}
		return used, nil
	case !inline && len(args) < 2:
		return 0, nil
	case !inline:
		value, used = args[1], 1
	}
	switch what {
	case isScript:
		p.runs(value)
	case isLoad, isRead:
		p.load(value, what)
	case isFolder:
		p.chdir = value
	default:
	}
	return used, nil
}

func unclearFlag(flag string) error {
	shown := core.Visible(flag, 60, false)
	return core.Errorf(core.CodeInvalidConfig, "%s is not a flag that pml knows, so it cannot be told whether the word after it is its value or the program; write %s=VALUE, or -- before the program if it has no value", shown, shown)
}

// load notes what is loaded before the script. A module by its name and code in
// a URL are no files.
func (p *scriptArgs) load(value string, what meaning) {
	if path, ok := strings.CutPrefix(value, "file://"); ok {
		value = path
	} else if hasScheme(value) {
		return
	}
	if value == "" || what == isLoad && !isPath(value) && !p.named(value) {
		return
	}
	p.preloads = append(p.preloads, FileRef{Name: value, Role: p.fileRole()})
}

// isPath reports whether a module is named by its path.
func isPath(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasPrefix(s, `\`) || filepath.IsAbs(s)
}

func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	return ok && len(scheme) > 1 && !strings.ContainsAny(scheme, `/\`)
}

// named reports whether a word ends as scripts of the interpreter do.
func (i interpreter) named(word string) bool {
	return slices.Contains(i.endings, strings.ToLower(filepath.Ext(word)))
}

func (i interpreter) fileRole() Role {
	if i.role == "" {
		return RoleFile
	}
	return i.role
}

// word takes the first of the arguments for the script, if it can be one.
func (p *scriptArgs) word(args []string) {
	p.ended = true
	switch {
	case len(args) == 0 || p.coded:
	case hasScheme(args[0]):
		// Fetched when it runs: there is no file to hash.
		scheme, _, _ := strings.Cut(args[0], ":")
		p.found.Unpinned = "what " + scheme + ": names is fetched when it runs"
	case p.other && !p.named(args[0]):
	default:
		p.runs(args[0])
	}
}

// runs takes a name for the script.
func (p *scriptArgs) runs(name string) {
	p.ended = true
	if name != "" {
		p.found = Spec{Kind: KindScript, Files: []FileRef{{Name: name, Role: p.fileRole()}}}
	}
}

// inFolder makes relative names those of a folder.
func inFolder(dir string, files []FileRef) {
	for i, f := range files {
		if !filepath.IsAbs(f.Name) {
			files[i].Name = filepath.Join(dir, f.Name)
		}
	}
}

// flag says what a flag does. Short flags may stand in a cluster (-euo pipefail)
// and have their value attached (-Wignore); inline says that value is there.
func (i interpreter) flag(arg string) (what meaning, value string, inline bool) {
	name, value, inline := strings.Cut(arg, "=")
	if what, ok := i.meaning(name); ok {
		return what, value, inline
	}
	switch {
	case i.strict && len(arg) > 1 && arg[1] == '-':
		if inline || slices.Contains(i.switches, name) || strings.HasPrefix(name, "--no-") {
			return isSwitch, "", inline
		}
		return isUnknown, "", false
	case i.other || len(arg) < 3 || arg[1] == '-':
		return i.unknownShort(name, inline), "", false // no clusters
	}
	for n, letter := range arg[1:] {
		flag := arg[:1] + string(letter)
		if what, ok := i.meaning(flag); ok {
			rest := arg[1+n+len(string(letter)):]
			return what, strings.TrimPrefix(rest, "="), rest != ""
		}
	}
	return isSwitch, "", false
}

// unknownShort is what a flag means that is in no list.
func (i interpreter) unknownShort(name string, inline bool) meaning {
	if i.strict && !inline && !slices.Contains(i.switches, name) {
		return isUnknown
	}
	return isSwitch
}

// meaning looks a flag up.
func (i interpreter) meaning(name string) (meaning, bool) {
	for _, l := range []struct {
		flags []string
		what  meaning
	}{{i.code, isCode}, {i.file, isScript}, {i.value, isValue}, {i.loads, isLoad}, {i.reads, isRead}, {i.folder, isFolder}} {
		if contains(l.flags, name) {
			return l.what, true
		}
	}
	return isSwitch, false
}

// contains compares flags; those of PowerShell are of any case, as its list is
// all lower case and longer than one letter.
func contains(flags []string, arg string) bool {
	return slices.Contains(flags, arg) || len(arg) > 2 && arg[0] == '-' && arg[1] != '-' && slices.Contains(flags, strings.ToLower(arg))
}
