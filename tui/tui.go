// Package tui is the terminal companion: everything that runs and waits, live,
// and decisions in seconds. This package is the program: it reads keys and the
// backend, and carries out what the screen wants. The screen itself is in
// tui/screen, what is known in tui/state.
package tui

import (
	"context"
	"io"
	"os"
	"os/exec"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/keys"
	_ "github.com/casys-ai/pml/tui/noprobe" // before bubbletea: see there
	"github.com/casys-ai/pml/tui/paint"
)

// Options are what the program is made of.
type Options struct {
	Backend feed.Backend
	// Links is as in feed.Options.
	Links func(ctx context.Context, f func(feed.Link))
	Clock core.Clock
	In    *os.File // a terminal
	Out   *os.File // a terminal
	// Environ looks a variable of the process environment up.
	Environ func(name string) (string, bool)
	User    string // who decides, as the audit log names them
	// Runner is under what name this process runs runs, as in core.Run.Runner;
	// empty while it runs none. Nil: it is concluded from what happens.
	Runner    func() string
	Version   string
	Workspace string
	// Demo is set where nothing waits after the end: leaving asks nothing.
	Demo    bool
	Keys    *keys.Map
	Palette paint.Palette
	Profile paint.Profile
	ASCII   bool
	Notify  Notify
	// Commands are the words with which a command line of pml begins.
	Commands []string
	// Command runs a command line of pml in this process and writes what it
	// prints to out, without colour; it returns the exit code. It must not read.
	Command func(ctx context.Context, args []string, out io.Writer) int
	// Machine is what this machine has beside runs; nil: nobody can tell.
	Machine Machine
	// Flows are the hook flows of the home and the workspace; nil: nobody can tell.
	Flows Flows
	// Self is pml itself with arguments, to be run in the terminal; with wait it stays
	// until the person has read what it wrote. Nil: it cannot be run.
	Self func(ctx context.Context, args []string, wait bool) *exec.Cmd
	// OpenURL opens an address in the browser; nil: it cannot.
	OpenURL func(ctx context.Context, url string) error
	// Warnings are texts that the backend wants a person to know. May be nil.
	Warnings <-chan string
	// Stderr gets the report of a panic once the terminal is restored. May be nil.
	Stderr io.Writer
}

// Notify says how pml notifies the person of what waits.
type Notify string

// The ways to notify.
const (
	NotifyOff  Notify = "off"
	NotifyBell Notify = "bell"
	NotifyOSC  Notify = "osc" // bell, and a desktop notification
)
