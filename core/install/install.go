// Package install turns "npx some-package" into a fixed, checked tree of files
// that node can run: it recognises the command, resolves the whole tree before
// anything is installed, installs exactly that tree, and notices when the
// files change. It also reads and writes pml.lock and keeps what was approved
// on this machine. Nothing here asks anybody: its callers do.
package install

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
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
	// Progress is told what is being done, in words; nil discards it. It may be
	// called from other goroutines, but not after the call that it is about.
	Progress func(string)
	// ResolveTimeout and InstallTimeout bound one run of npm each; zero means a
	// minute and five minutes.
	ResolveTimeout time.Duration
	InstallTimeout time.Duration
}

// Installer installs packages below one folder. It is safe for concurrent use,
// and any number of processes may use the same folder.
type Installer struct {
	o Options

	mu   sync.Mutex
	busy map[string]*sync.Mutex // one for each tree that is being installed

	trustMu sync.Mutex
	usageMu sync.Mutex
}

// The usual bounds of npm's runs. A person waits for the first one.
const (
	resolveTimeout = 60 * time.Second
	installTimeout = 5 * time.Minute
)

// New returns an installer. It does not touch the disk yet.
func New(o Options) *Installer {
	if o.Run == nil {
		o.Run = execRunner{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.ResolveTimeout == 0 {
		o.ResolveTimeout = resolveTimeout
	}
	if o.InstallTimeout == 0 {
		o.InstallTimeout = installTimeout
	}
	return &Installer{o: o, busy: map[string]*sync.Mutex{}}
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
	// Heard is told each line of stderr as it comes; it may be nil, and a runner
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
