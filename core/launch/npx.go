package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// packageRunner recognises the programs that fetch an npm package and run it.
// rest are their arguments without the subcommand.
func packageRunner(command string, args []string) (p npxParser, rest []string, ok bool) {
	name := program(command)
	p.tool = name
	switch name {
	case "npx", "bunx", "pnpx":
		return p, args, true
	case "npm", "pnpm", "yarn", "bun":
	default:
		return p, nil, false
	}
	sub := subcommand(args, npxValues)
	if sub < 0 {
		return p, nil, false
	}
	p.tool = name + " " + args[sub]
	p.anywhere = name == "npm"
	rest = slices.Concat(args[:sub], args[sub+1:])
	return p, rest, slices.Contains([]string{"npm exec", "npm x", "pnpm dlx", "yarn dlx", "bun x"}, p.tool)
}

// subcommand returns the index of the first argument that is neither a flag nor
// the value of one of the flags that take one, or -1.
func subcommand(args, withValue []string) int {
	for i := 0; i < len(args); i++ {
		switch {
		case !strings.HasPrefix(args[i], "-"):
			return i
		case slices.Contains(withValue, args[i]):
			i++
		}
	}
	return -1
}

// npxParser reads the arguments of npx, npm exec and their likes.
type npxParser struct {
	server string
	tool   string // as it is written
	spec   Spec
	// anywhere: npm exec reads its flags up to "--", npx up to the first word.
	anywhere bool
	packages []string
	words    []string
}

// npxValues are the flags whose value may be the next argument.
var npxValues = []string{"-p", "--package", "--node-options", "--loglevel", "--registry", "--userconfig", "--globalconfig", "--prefix", "--cache", "-C", "--dir", "--cwd"}

// npxSwitches do not change what is run.
var npxSwitches = []string{
	"-y", "--yes", "--no", "--no-install", "--no-yes", "-q", "--quiet", "-s", "--silent", "-d", "-dd", "-ddd", "--verbose",
	"--prefer-offline", "--prefer-online", "--offline", "--ignore-existing", "--no-audit", "--no-fund",
	"--no-update-notifier", "--no-progress", "--ignore-scripts", "--legacy-peer-deps", "--include-workspace-root",
}

func (p *npxParser) parse(args []string) (Spec, error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			p.words = append(p.words, args[i+1:]...)
			return p.finish()
		case !strings.HasPrefix(arg, "-"):
			if !p.anywhere {
				p.words = args[i:]
				return p.finish()
			}
			p.words = append(p.words, arg)
		default:
			used, err := p.flag(args[i:])
			if err != nil {
				return Spec{}, err
			}
			i += used
		}
	}
	return p.finish()
}

// flag reads one flag and says how many further arguments it used.
func (p *npxParser) flag(args []string) (int, error) {
	name, value, inline := strings.Cut(args[0], "=")
	if slices.Contains(npxSwitches, name) {
		return 0, nil
	}
	// npm also takes its short flag with the value at once.
	if strings.HasPrefix(args[0], "-p") && len(args[0]) > 2 && !inline {
		name, value, inline = "-p", args[0][2:], true
	}
	switch name {
	case "-p", "--package", "--node-options", "--loglevel":
		used := 0
		if !inline {
			if len(args) < 2 || args[1] == "--" {
				return 0, p.refuse("%s needs a value", name)
			}
			value, used = args[1], 1
		}
		switch name {
		case "-p", "--package":
			p.packages = append(p.packages, value)
		case "--node-options":
			if err := checkNodeOptions(strings.Fields(value)); err != nil {
				return 0, p.refuse("%s", err)
			}
			p.spec.NodeArgs = append(p.spec.NodeArgs, strings.Fields(value)...)
		}
		return used, nil
	case "--bun":
		return 0, p.refuse("--bun runs the package with bun; pml runs it with node: leave the flag out")
	case "-c", "--call", "--shell-mode":
		return 0, p.refuse("%s runs a shell string, which cannot be checked; write the package and its arguments instead", name)
	case "--registry", "--userconfig", "--globalconfig", "--prefix", "--cache":
		return 0, p.refuse("%s is not supported; put it into your .npmrc instead", name)
	}
	if p.anywhere && len(p.words) > 0 {
		return 0, p.refuse("%s is not a flag of npm exec; write -- before the arguments of the server", core.Visible(name, 40, false))
	}
	return 0, p.refuse("%s is not a flag of %s that pml knows; leave it out, or write it after the package if it is the server's", core.Visible(name, 40, false), p.tool)
}

func (p *npxParser) finish() (Spec, error) {
	what := ""
	switch {
	case len(p.packages) > 1:
		return Spec{}, p.refuse("more than one --package is not supported; name the one package that has the program, its dependencies come with it")
	case len(p.packages) == 1:
		what = p.packages[0]
		if len(p.words) > 0 {
			p.spec.Bin, p.words = p.words[0], p.words[1:]
			if strings.ContainsAny(p.spec.Bin, `/\`) {
				return Spec{}, p.refuse("%s is not the name of a program of the package", core.Visible(p.spec.Bin, 80, false))
			}
		}
	case len(p.words) > 0:
		what, p.words = p.words[0], p.words[1:]
	}
	if strings.TrimSpace(what) == "" {
		return Spec{}, p.refuse("no package is named; write %s NAME", p.tool)
	}
	if err := p.pkg(what); err != nil {
		return Spec{}, err
	}
	p.spec.ServerArgs = slices.Clone(p.words)
	return p.spec, nil
}

// pkg reads name@range. What does not come from the registry has no hash to
// pin and is refused.
func (p *npxParser) pkg(s string) error {
	name, rng := s, ""
	if at := strings.LastIndex(s, "@"); at > 0 {
		name, rng = s[:at], s[at+1:]
	}
	shown := core.Visible(s, 120, false)
	switch {
	case strings.Contains(s, "@npm:"):
		return p.refuse("%s is an alias; write the package itself: %s", shown, core.Visible(s[strings.Index(s, "@npm:")+len("@npm:"):], 120, false))
	case strings.ContainsAny(s, `:\#`), strings.HasPrefix(s, "."), strings.HasPrefix(s, "/"), strings.HasPrefix(s, "~"),
		strings.HasSuffix(s, ".tgz"), strings.HasSuffix(s, ".tar.gz"),
		!strings.HasPrefix(s, "@") && strings.Contains(s, "/"), strings.Contains(rng, "/"):
		return p.refuse("%s is a package from git, a file or a URL; only packages of the npm registry can be pinned and installed: "+
			"name its release there, or install it into a folder of your own and write node and the path of its program", shown)
	case !ValidName(name):
		return p.refuse("%s is not the name of an npm package", shown)
	case !validRange(rng):
		return p.refuse("%s has a version range that cannot be read; write a version (1.2.3), a range (^1.2) or a tag (latest)", shown)
	}
	if rng == "" {
		rng = "latest"
	}
	p.spec.Package, p.spec.Range = name, rng
	return nil
}

func (p *npxParser) refuse(format string, args ...any) *core.Error {
	return refusal(p.server, fmt.Sprintf(format, args...))
}

// refusal is the error of a server's command that is not carried out.
func refusal(server, message string) *core.Error {
	return core.Errorf(core.CodeInvalidConfig, "server %s: %s", core.Visible(server, 60, false), message)
}

// ValidName reports whether a name is one of a package, scoped or not. Names
// become folders, so this is also what keeps paths inside.
func ValidName(name string) bool {
	if strings.HasPrefix(name, "-") {
		return false // npm would read it as a flag
	}
	parts := []string{name}
	if rest, scoped := strings.CutPrefix(name, "@"); scoped {
		parts = strings.Split(rest, "/")
		if len(parts) != 2 {
			return false
		}
	}
	for _, part := range parts {
		if part == "" || len(name) > 214 || part[0] == '.' || part == "node_modules" {
			return false
		}
		if strings.ContainsFunc(part, func(r rune) bool { return !wordRune(r) && !strings.ContainsRune("-_.~", r) }) {
			return false
		}
	}
	return true
}

func validRange(s string) bool {
	return len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool {
		return !wordRune(r) && !strings.ContainsRune("-_.~^<>=|*+ ", r)
	})
}

func wordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
