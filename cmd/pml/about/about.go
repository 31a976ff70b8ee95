// Package about knows which build this is, and answers the commands that ask for
// nothing else before the libraries of all other commands start: that takes ten
// times as long as the answer.
//
// Go initialises packages that are ready in the order of their import paths.
// This one needs nothing but the standard library and sorts before nearly all
// others. A test on the real binary holds both, and that the ordinary command
// says the same.
package about

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version, Commit and Date are set by the linker in releases:
// -X github.com/casys-ai/pml/cmd/pml/about.Version=v1.2.3
var Version, Commit, Date string

// Build says which build this is. What is not known is empty.
type Build struct{ Version, Commit, Date, Go string }

// This is this build: the linker's word, else the module's.
func This() Build {
	b := Build{Version, Commit, Date, runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && b.Commit == "":
			b.Commit = s.Value
		case s.Key == "vcs.time" && b.Date == "":
			b.Date = s.Value
		}
	}
	return b
}

// line is what a person is told.
func (b Build) line() string {
	var more []string
	for _, p := range []string{b.Commit, b.Date, b.Go} {
		if p != "" {
			more = append(more, p)
		}
	}
	if len(more) == 0 {
		return "pml " + b.Version + "\n"
	}
	return "pml " + b.Version + " (" + strings.Join(more, ", ") + ")\n"
}

// asked reports whether a command line asks for the version and nothing else.
func asked(args []string) bool {
	return len(args) == 2 && (args[1] == "version" || args[1] == "--version")
}

func init() {
	if !asked(os.Args) {
		return
	}
	if _, err := os.Stdout.WriteString(This().line()); err == nil {
		os.Exit(0)
	}
	// The ordinary command says why it cannot be written.
}
