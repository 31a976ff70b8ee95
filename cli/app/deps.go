package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Deps is all that the command line needs from the process it runs in.
// Nothing in this package looks past it.
type Deps struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// StdinTTY, StdoutTTY and StderrTTY say which of them are terminals.
	StdinTTY, StdoutTTY, StderrTTY bool
	// Width is the terminal's width in columns, 0 when it is not known.
	Width func() int
	// Environ looks a variable of the process environment up.
	Environ func(name string) (string, bool)
	Clock   core.Clock
	Version Version
	// User is who decides, as the audit log names them.
	User string
	// ReadSecret writes a prompt to the terminal and reads a line from it without
	// echo. It returns when the context ends, too, and leaves the terminal as it
	// found it. Nil where there is no terminal: then no PIN can be given.
	ReadSecret func(ctx context.Context, prompt string) (string, error)
	// DropTyped forgets what was typed on the terminal and not read yet. Nil where that
	// cannot be done.
	DropTyped func()
	// ReadFD reads one line from a file descriptor that this process was given. Nil
	// where that cannot be done.
	ReadFD func(fd int) (string, error)
	// OpenURL opens an http or https URL in the person's browser: with the
	// command of BROWSER, else the system's own. Nil where that cannot be done.
	OpenURL func(ctx context.Context, url string) error
	// EditText has the person edit a text in their editor, and returns what they have
	// left. Nil where that cannot be done.
	EditText func(ctx context.Context, name, text string) (string, error)
	// Page shows a text in the person's pager until they leave it. Nil where that cannot be
	// done.
	Page func(ctx context.Context, text string) error
	// Open opens the backend. It is called at most once, and only by commands
	// that need it: after the arguments were found to be right.
	Open func(ctx context.Context, o OpenOptions) (Backend, error)
	// Serve runs a server until the context ends. Nil where there is none.
	Serve func(ctx context.Context, o ServeOptions) error
	// Engine looks at what servers keep runs in that is no database of pml's. Nil where there is none.
	Engine func(ctx context.Context, o EngineOptions) ([]api.Check, error)
	// Terminal runs the full screen, or the dialogue of lines, until the person
	// leaves, and returns the runs that it left unfinished. Nil where there is none.
	Terminal func(ctx context.Context, o TerminalOptions) (left []core.ID, err error)
	// Stdio answers an agent's host on stdin and stdout until stdin ends or the
	// context does. Nil where there is none.
	Stdio func(ctx context.Context, o OpenOptions) error
	// Notify tells people of what waits on this machine until the context ends or nothing
	// is left to do. Nil where there is none.
	Notify func(ctx context.Context, o NotifyOptions) error
	// LocalServer gives the server that the options mean: this machine's own, or
	// the one they name. It opens nothing. Nil where there is none.
	LocalServer func(o OpenOptions) (LocalServer, error)
	// Devices gives the paired browsers of this user; nil: there are no pages.
	Devices func(o OpenOptions) (Devices, error)
	// Maintenance gives what works on the database files of the home. It opens nothing.
	// Nil where there is none.
	Maintenance func(o OpenOptions) (Maintenance, error)
}

// OpenOptions are the choices of a command that the backend must know.
type OpenOptions struct {
	// Home, Server and Workspace are set by flags only; empty leaves the choice
	// to the environment and the files.
	Home, Server, Workspace string
	// Log is the level of PML_LOG, empty for the default.
	Log string
	// NoStart starts no server, whatever is asked for.
	NoStart bool
	// Watching is for who looks on for hours: after the first look at what a server
	// has kept, only what decides or runs something starts one, and the part of a
	// server that refuses is left out.
	Watching bool
	// Warn is called with what a person should know about an answer that has a gap. It
	// may be called from any goroutine.
	Warn func(text string)
	// Started is called with what is to be said where the command has started this machine's
	// server. It may be nil, and be called from any goroutine.
	Started func(text string)
	// Via is how decisions come in; empty: by the command line.
	Via core.Via
	// Link is called with each change of the connection to the server while all events are
	// followed. May be nil.
	Link func(Link)
	// Progress gets the events of the runs that this process runs, live and
	// from any goroutine. It must not be called after Close returned.
	Progress func(core.Event)
	// Working is called, often and from any goroutine, with what is being installed and how
	// far it is; an empty text when it is over. It must not be called after Close
	// returned.
	Working func(text string)
}

// NotifyOptions are the choices of the process that tells people of what waits.
type NotifyOptions struct {
	OpenOptions
	// Idle is after how long with nothing to do it leaves; 0: never.
	Idle time.Duration
	// Background is set where pml has started it by itself: it logs to a file.
	Background bool
	// Ready is called once it has begun.
	Ready func()
}

// Link is how a command that follows all events stands with the server.
type Link struct {
	Up   bool
	None bool   // there is no server, which is no fault
	Name string // of the server, if it is known
	Err  error  // why it is not up
}

// Version says which build this is.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
	Go      string `json:"go,omitempty"`
}

// Signal is the cause with which the process cancels the context of Main when
// a signal asks it to stop. Code is the exit code: 129 for SIGHUP, 130
// for SIGINT, 143 for SIGTERM. A run that was under way is not aborted.
type Signal struct{ Code int }

// Error says that a signal came.
func (s Signal) Error() string { return fmt.Sprintf("stopped by a signal (exit %d)", s.Code) }

// TerminalOptions are the choices of the terminal. What is empty or false is
// left to the configuration and the environment.
type TerminalOptions struct {
	OpenOptions
	// Demo plays a script instead of showing this machine's runs.
	Demo bool
	// Plain is a dialogue of lines.
	Plain bool
	// PlainBy is what asked for Plain: --plain, PML_PLAIN or TERM=dumb; empty where
	// nothing did.
	PlainBy string
	ASCII   bool
	// Theme is auto, ansi, dark, light or modus, Color auto, always or never, Notify
	// off, bell or osc.
	Theme, Color, Notify string
	// Commands are the words with which a command line of pml begins.
	Commands []string
}
