// Package install turns "npx some-package" into a fixed, checked tree of files
// that node can run: it resolves the whole tree before anything is installed, installs exactly that tree, and notices when the
// files change. It also reads and writes pml.lock and keeps what was approved
// on this machine. Nothing here asks anybody: its callers do.
package install

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// Options are what an Installer is made of. Home, LookPath and Clock are
// needed.
type Options struct {
	// Home is the folder of the installed packages, $PML_HOME/packages.
	Home string
	// Env is the whole environment of npm, NAME=value.
	Env      []string
	LookPath func(string) (string, error)
	Clock    core.Clock
	// Run runs npm; nil means os/exec, in a process group of its own.
	Run CommandRunner
	// Logger is for what is odd and harmless; nil discards it.
	Logger *slog.Logger
	// Progress is called with what is being done, in words, several times a second, and an
	// empty text when it is over; nil discards it. It may be called from other
	// goroutines, but not after the call that it is about.
	Progress func(string)
	// ResolveSilence and InstallSilence are how long npm may work without having
	// fetched or said anything; zero means a minute and five minutes. A large tree
	// takes longer than a small one, so nothing here bounds the whole: the
	// context does.
	ResolveSilence time.Duration
	InstallSilence time.Duration
}

// Installer installs packages below one folder. It is safe for concurrent use,
// and any number of processes may use the same folder.
type Installer struct {
	// Files finds and hashes what commands run; it keeps the hashes beside the
	// packages.
	Files       *launch.Files
	Approvals   *Approvals
	Definitions *Definitions
	Failures    *Failures

	o        Options
	npm      *npm
	users    *users
	staging  staging
	resolved resolutions

	mu   sync.Mutex
	busy map[string]*sync.Mutex // one for each tree that is being installed
}

// How long npm may usually be silent. A person waits for the first one; in the
// second, install scripts may compile for minutes.
const (
	resolveSilence = 60 * time.Second
	installSilence = 5 * time.Minute
)

// New returns an installer. It does not touch the disk yet.
func New(o Options) *Installer {
	if o.Run == nil {
		o.Run = execRunner{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.ResolveSilence == 0 {
		o.ResolveSilence = resolveSilence
	}
	if o.InstallSilence == 0 {
		o.InstallSilence = installSilence
	}
	resolved := filepath.Join(o.Home, ".resolved")
	return &Installer{
		Files:       launch.NewFiles(launch.Options{Home: o.Home, LookPath: o.LookPath, Clock: o.Clock, Logger: o.Logger}),
		Approvals:   &Approvals{sharedFile{path: filepath.Join(o.Home, ".approved.json"), log: o.Logger}},
		Definitions: &Definitions{filepath.Join(o.Home, toolsDir), o.Clock, o.Logger},
		Failures:    &Failures{resolved, o.Clock},
		o:           o,
		npm:         &npm{lookPath: o.LookPath, exec: o.Run, env: o.Env, home: o.Home, log: o.Logger, settings: map[string]string{}},
		users:       &users{sharedFile{path: filepath.Join(o.Home, ".used.json"), log: o.Logger}},
		staging:     staging{filepath.Join(o.Home, ".staging"), max(minStale, 2*(o.ResolveSilence+o.InstallSilence)), o.Clock, o.Logger},
		resolved:    resolutions{resolved, o.Clock},
		busy:        map[string]*sync.Mutex{},
	}
}

// Package is one package of a resolved tree.
type Package struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
	// Resolved is where npm would fetch it from, when npm says so.
	Resolved string `json:"-"`
	// Scripts is set when it wants to run something on installation.
	Scripts bool `json:"-"`
	// Elsewhere is set when it is for other platforms than this one, so that npm
	// leaves it out here.
	Elsewhere bool `json:"-"`
}

// Resolved is a tree that could be installed, fixed by hashes.
type Resolved struct {
	Name    string
	Version string
	Range   string
	// Digest is "sha256:" and the hex SHA-256 over the sorted lines
	// "name@version integrity" of all packages. An approval binds to it.
	Digest   string
	Packages []Package // sorted, without repetition
	// Scripts names the packages with install scripts, sorted.
	Scripts []string
	// SizeBytes is the unpacked size on this platform of the packages for which
	// the registry tells it; 0 means that it is not known.
	SizeBytes int64
	// InstallCommand is what a person would type for the same.
	InstallCommand string

	lock []byte // the package-lock.json of exactly this tree
}

// Installed is a package on disk.
type Installed struct {
	Dir     string
	Name    string
	Version string
	Digest  string
	// TreeHash covers every file as it was installed.
	TreeHash string
}

// Launched is the package as what is started.
func (i Installed) Launched() launch.Package {
	return launch.Package{Dir: i.Dir, Name: i.Name, Version: i.Version}
}

// Change says how an installed tree differs from what was installed.
type Change struct {
	OldHash string
	NewHash string
	// Files are the files that differ, sorted, each with what happened to it:
	// "changed: PATH", "added: PATH", "removed: PATH".
	Files []string
}

// CommandLine is a program to be run.
type CommandLine struct {
	Path string
	Args []string
	Dir  string
	Env  []string
	// Heard is called with each line of stderr as it comes; it may be nil, and a runner
	// need not call it.
	Heard func(line string)
}

// CommandOutput is what a program said, bounded: the end of it is kept.
type CommandOutput struct {
	Stdout []byte
	Stderr []byte
}

// CommandRunner runs a program to its end. When the context ends it ends the
// program with all of its children. A program that exits with a status other
// than 0 is an error, with the output beside it.
type CommandRunner interface {
	Run(ctx context.Context, c CommandLine) (CommandOutput, error)
}
