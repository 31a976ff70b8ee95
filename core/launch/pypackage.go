package launch

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// uvValues are the flags of uv and pipx whose value is the next argument.
var uvValues = []string{
	"--from", "--spec", "--with", "-w", "--with-editable", "--with-requirements", "--python", "-p", "--index", "--index-url", "-i", "--default-index",
	"--extra-index-url", "--find-links", "-f", "--directory", "--project", "--cache-dir", "--config-file", "--env-file", "--refresh-package",
	"--resolution", "--prerelease", "--exclude-newer", "--link-mode", "--index-strategy", "--keyring-provider", "--allow-insecure-host",
	"--upgrade-package", "-P", "--reinstall-package", "--no-binary-package", "--no-build-package", "--constraints", "-c", "--overrides",
	"--extra", "--group", "--only-group", "--no-extra", "--no-group", "--package", "--color", "--python-platform", "--torch-backend", "--pip-args",
}

// pythonPackage reads the arguments of uvx, uv and pipx.
func pythonPackage(name string, args []string) (Spec, error) {
	if name != "uvx" {
		sub := subcommand(args, uvValues)
		if sub < 0 {
			return Spec{Kind: KindOther}, nil
		}
		before, word := args[:sub], args[sub]
		args = args[sub+1:]
		switch {
		case name == "uv" && word == "tool" && len(args) > 0 && args[0] == "run":
			args = slices.Concat(before, args[1:])
		case name == "uv" && word == "run":
			all := slices.Concat(before, args)
			spec, err := uvScript(all)
			if err == nil && spec.Unpinned == "" {
				spec.Unpinned = unpinnedWith(all)
			}
			return spec, err
		case name == "pipx" && word == "run":
		default:
			return Spec{Kind: KindOther}, nil
		}
	}
	what := valueOf(args, "--from", "--spec")
	if at := subcommand(args, uvValues); what == "" && at >= 0 {
		what = args[at]
	}
	spec := Spec{Kind: KindUVX, Unpinned: unpinnedWith(args)}
	if !pinnedPython(what) {
		spec.Unpinned = "the package " + core.Visible(what, 120, false) + " has no exact version: what it is can change; write one, as in NAME==1.2.3"
		if what == "" {
			spec.Unpinned = "no package is named"
		}
	}
	return spec, nil
}

// unpinnedWith says which package that --with adds has no exact version.
func unpinnedWith(args []string) string {
	for at, arg := range args[:max(subcommand(args, uvValues), 0)] {
		name, value, inline := strings.Cut(arg, "=")
		if name != "--with" && name != "-w" {
			continue
		}
		if !inline {
			value = args[at+1]
		}
		for what := range strings.SplitSeq(value, ",") {
			if !pinnedPython(what) {
				return "the package " + core.Visible(what, 120, false) + " of --with has no exact version: what it is can change; write one, as in NAME==1.2.3"
			}
		}
	}
	return ""
}

// pinnedPython reports whether a requirement leaves no choice of a version:
// name==1.2, name@1.2, a commit of git in full.
func pinnedPython(s string) bool {
	if strings.Contains(s, "://") {
		_, rev, _ := strings.Cut(s[strings.Index(s, "://")+3:], "@")
		rev, _, _ = strings.Cut(rev, "#")
		return len(rev) == 40 && strings.Trim(rev, "0123456789abcdef") == ""
	}
	if _, version, ok := strings.Cut(s, "=="); ok {
		return version != "" && !strings.ContainsAny(version, "*,<>")
	}
	_, version, _ := strings.Cut(s, "@")
	version = strings.TrimSpace(version)
	return version != "" && version[0] >= '0' && version[0] <= '9'
}

// uvScript reads "uv run": with a file of Python it is a script, with anything
// else a command that uv finds.
func uvScript(args []string) (Spec, error) {
	at := subcommand(args, uvValues)
	if at < 0 || slices.Contains(args[:at], "-m") || slices.Contains(args[:at], "--module") {
		return Spec{Kind: KindOther}, nil
	}
	file, rest := args[at], args[at+1:]
	spec := Spec{Kind: KindScript, Files: []FileRef{{Name: file, Role: RolePython}}}
	if name := program(file); name == "python" || name == "python3" {
		var err error
		if spec, err = interpreters["python"].script(rest); err != nil || spec.Kind != KindScript {
			return spec, err
		}
	} else if !strings.HasSuffix(file, ".py") && !slices.Contains(args[:at], "-s") && !slices.Contains(args[:at], "--script") {
		return Spec{Kind: KindOther}, nil
	}
	if dir := valueOf(args[:at], "--directory"); dir != "" {
		inFolder(dir, spec.Files)
	}
	return spec, nil
}

// valueOf returns the value of a flag, separate or after "=", before the first
// word that is none.
func valueOf(args []string, flags ...string) string {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		separate := !inline && slices.Contains(uvValues, name)
		if separate && i+1 < len(args) {
			value = args[i+1]
		}
		if slices.Contains(flags, name) {
			return value
		}
		if separate {
			i++
		}
	}
	return ""
}
