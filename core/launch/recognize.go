// Package launch says what a server's command is and what it runs: whether it
// starts a package of npm, a script, a container or any code; which files on this
// machine decide what runs, with their hashes; and, right before a process is
// started, whether they still are the ones that were checked. It judges nothing
// and asks nobody: its callers do.
package launch

import (
	"path"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Command is how a server is started according to its configuration.
type Command struct {
	Name    string // of the server, for messages
	Command string
	Args    []string
}

// Kind is what a command is.
type Kind string

// The kinds of command.
const (
	KindNPM    Kind = "npm"    // a package of the npm registry: installed
	KindUVX    Kind = "uvx"    // a package that uv fetches and runs: its command line is hashed
	KindDocker Kind = "docker" // a container (docker, podman, nerdctl): its command line is hashed
	KindScript Kind = "script" // an interpreter with a file (node x.js): command line and file are hashed
	KindFile   Kind = "file"   // a program: command line and file are hashed
	KindOther  Kind = "other"  // anything else (a shell string, code on the command line): its command line is hashed
)

// Spec is a command that was understood. Package, Range, Bin and NodeArgs are
// set for KindNPM only.
type Spec struct {
	Kind    Kind
	Package string
	// Range is the version range or tag; "latest" when the command has none.
	Range string
	// Bin is the program of the package that the command names itself; empty
	// means the one that npx chooses.
	Bin        string
	ServerArgs []string
	NodeArgs   []string // from --node-options
	// Files are what a command that is not installed runs, as configured: its
	// program (after those that only start it), its script, what an interpreter
	// loads before that. Locate finds them.
	Files []FileRef
	// Unpinned says what the command line leaves open, empty when it does not: a
	// package without a version, an image without a digest.
	Unpinned string
	// AnyCode says by what the command line gives code that is run as it stands
	// there ("sh -c"), empty when it does not.
	AnyCode string
	// CommandDigest is the digest of the command line as configured.
	CommandDigest string
}

// Recognize finds out what a server's command is. A command of npx (or bunx,
// pnpm dlx, yarn dlx, which run the same packages) that pml cannot carry out
// faithfully (a shell string, a package from git, a flag that it does not know)
// is core.CodeInvalidConfig saying what to write instead: it is never run half
// understood. The same holds for flags of node after which it is not clear
// which file it runs.
func Recognize(c Command) (Spec, error) {
	digest, err := core.DigestOf(append([]string{c.Command}, c.Args...))
	if err != nil {
		return Spec{}, err
	}
	programs, args, assigned := unwrap(c.Command, c.Args)
	command := programs[len(programs)-1]
	if p, rest, ok := packageRunner(command, args); ok {
		p.server, p.spec = c.Name, Spec{Kind: KindNPM, CommandDigest: digest}
		if assigned {
			return Spec{}, p.refuse("variables set with env on the command line would be lost; write them into the env of the server's entry")
		}
		return p.parse(rest)
	}
	spec, err := recognizeOther(command, args)
	if err != nil {
		return Spec{}, refusal(c.Name, err.Error())
	}
	spec.Files = append(programRefs(programs, spec.Kind), spec.Files...)
	if spec.Unpinned == "" {
		spec.Unpinned = fetchedWithin(spec.Kind, args)
	}
	spec.ServerArgs, spec.CommandDigest = args, digest
	if spec.Kind != KindScript || slices.ContainsFunc(c.Args, isDataURL) {
		spec.AnyCode = anyCode(c.Command, c.Args, spec.Kind)
	}
	if spec.AnyCode == "" {
		spec.AnyCode = starts(command, args)
	}
	return spec, nil
}

// programRefs are the programs of a command: those that only start the next one
// and the one that matters. One that is no interpreter of a file is what runs.
func programRefs(programs []string, k Kind) []FileRef {
	var out []FileRef
	for n, name := range programs {
		ref := FileRef{Name: name, Role: RoleStarter}
		if k == KindFile && n == len(programs)-1 {
			ref.Role = RoleProgram
		}
		if name != "" {
			out = append(out, ref)
		}
	}
	return out
}

// recognizeOther finds out what a command that runs no npm package is.
func recognizeOther(command string, args []string) (Spec, error) {
	name := program(command)
	switch name {
	case "":
		return Spec{Kind: KindOther}, nil
	case "uvx", "uv", "pipx":
		return pythonPackage(name, args)
	case "docker", "podman", "nerdctl":
		return container(args), nil
	case "npm", "pnpm", "yarn", "cmd", "env":
		// What they run is said elsewhere, in a file or a shell string.
		return Spec{Kind: KindOther}, nil
	}
	if i, ok := interpreters[strings.TrimRight(name, "0123456789.")]; ok {
		return i.script(args)
	}
	return Spec{Kind: KindFile}, nil
}

// fetchedWithin says that a command starts another one that fetches a package,
// such as "timeout 60 npx x" or sh -c "npx x".
func fetchedWithin(k Kind, args []string) string {
	if k != KindFile && k != KindOther {
		return ""
	}
	for _, arg := range args {
		for word := range strings.FieldsSeq(arg) {
			if name := program(word); slices.Contains([]string{"npx", "uvx", "bunx", "pnpx"}, name) {
				return "it starts " + name + ", and what that fetches can change; make " + name + " the command of the server"
			}
		}
	}
	return ""
}

// unwrap takes away what only starts the command: "cmd /c", with which
// configurations for Windows start npx, "env A=b", and starters in plain forms. programs are what was
// taken away and, last, the command itself; assigned says that env set
// something. What changes more than a variable stays as it is.
func unwrap(command string, args []string) (programs, rest []string, assigned bool) {
	programs = []string{command}
	switch name := program(command); {
	case name == "cmd" && len(args) >= 2 && strings.EqualFold(args[0], "/c"):
		inner, rest, assigned := unwrap(args[1], args[2:])
		return append(programs, inner...), rest, assigned
	case name == "env":
		n := slices.IndexFunc(args, func(a string) bool { return !strings.Contains(a, "=") })
		// A flag may remove variables or split words; PATH decides what runs.
		if n < 0 || slices.ContainsFunc(args[:n+1], func(a string) bool { return strings.HasPrefix(a, "-") || strings.HasPrefix(a, "PATH=") }) {
			return programs, args, false
		}
		inner, rest, assigned := unwrap(args[n], args[n+1:])
		return append(programs, inner...), rest, assigned || n > 0
	}
	if next, more, ok := started(command, args); ok {
		inner, rest, assigned := unwrap(next, more)
		// A package that is installed would lose what is taken away.
		if _, _, fetched := packageRunner(inner[len(inner)-1], rest); !fetched {
			return append(programs, inner...), rest, assigned
		}
	}
	return programs, args, false
}

// program is the name of a program without its folder and Windows' endings.
func program(command string) string {
	if command == "" {
		return ""
	}
	name := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, end := range []string{".cmd", ".exe", ".ps1"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
