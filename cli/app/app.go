// Package app is what all commands share: streams, flags, output in every format,
// questions to a person, opening the backend, errors and exit codes. Commands talk to
// the rest of pml through Backend only.
package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/progress"
	"github.com/casys-ai/pml/core"
)

// App is one invocation of the command line.
type App struct {
	Deps
	Flags GlobalFlags
	PinFD int // of --pin-fd, -1 without
	// backend is opened by the first command that needs it.
	backend  Backend
	Progress *progress.Progress
	busy     atomic.Pointer[progress.Busy] // of a command that runs no program
	// args are the arguments as they were given.
	args []string
	// command is the path of the command that was found, for the help that errors name.
	command []string
	// File is the program that the command runs, for messages.
	File  string
	stdin *bufio.Reader
	// reading is where a reader of standard input puts its line that nobody has taken yet.
	reading chan line
	// Folder is whose workspace the backend is opened for; empty: the current folder's.
	Folder string
	// NextIn is the folder where the command that an error names is to be run; empty: here.
	NextIn string
	// Decides is set by a command that holds a decision or is told to prompt: it asks on standard
	// error also where standard output is for a program.
	Decides bool
	// passive is set where a person has asked for nothing yet: a shell completes.
	passive bool

	warnMu   sync.Mutex
	warnings []string // what is to be said beside a list
	atOnce   bool     // nothing gathers warnings
}

// GlobalFlags are the flags that every command takes.
type GlobalFlags struct {
	Output  string
	JSON    bool
	Server  string
	Home    string
	NoColor bool
	Quiet   bool
	Timeout time.Duration
}

// New makes an invocation.
func New(d Deps) *App {
	if d.Width == nil {
		d.Width = func() int { return 0 }
	}
	if d.Environ == nil {
		d.Environ = func(string) (string, bool) { return "", false }
	}
	if d.Stdin == nil {
		d.Stdin = strings.NewReader("")
	}
	a := &App{Deps: d, stdin: bufio.NewReader(d.Stdin)}
	a.Progress = progress.New(a.screen())
	return a
}

// Run runs a command of a tree and turns whatever it ends with into an exit
// code.
func (a *App) Run(ctx context.Context, args []string, root *cobra.Command) int {
	a.args = args
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	// Errors of parsing come before flags are set; JSON is wanted all the same.
	a.sniffJSON(args)
	err := a.execute(ctx, root)
	a.Progress.Stop()
	left := leftBehind(ctx, a, err)
	if cerr := a.close(); err == nil {
		err = cerr
	}
	a.WarnAtOnce()
	return a.finish(ctx, err, left)
}

// execute executes the command under --timeout.
func (a *App) execute(ctx context.Context, root *cobra.Command) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		a.command = strings.Fields(cmd.CommandPath())
		if err := a.checkGlobals(); err != nil {
			return err
		}
		if err := NotEmpty(cmd, "server"); err != nil {
			return err
		}
		// Commands that wait for a run stop waiting by themselves and say so.
		if a.Flags.Timeout > 0 && cmd.Annotations[WaitsForRun] == "" {
			t := time.AfterFunc(a.Flags.Timeout, func() { cancel(ErrTimeout) })
			context.AfterFunc(ctx, func() { t.Stop() })
		}
		return nil
	}
	err := root.ExecuteContext(ctx)
	if said := (TimedOut{}); err != nil && errors.Is(context.Cause(ctx), ErrTimeout) && !errors.As(err, &said) {
		return TimedOut{Err: core.Errorf(core.CodeTimeout, "--timeout %s ran out", a.Flags.Timeout)}
	}
	return err
}

// ErrTimeout is the cause with which --timeout ends a context.
var ErrTimeout = errors.New("--timeout ran out")

// WaitsForRun annotates commands for which --timeout bounds the wait for a run.
const WaitsForRun = "pml-waits"

// CloseBackend closes the backend now, for a command that removes what it uses. It
// must not be used afterwards.
func (a *App) CloseBackend() error {
	err := a.close()
	a.backend = nil
	return err
}

func (a *App) close() error {
	if a.backend == nil {
		return nil
	}
	return a.backend.Close()
}

// finish prints what is left to say and returns the exit code. A signal wins
// over whatever error it caused.
func (a *App) finish(ctx context.Context, err error, left *core.Error) int {
	var sig Signal
	if errors.As(context.Cause(ctx), &sig) && err != nil {
		a.printError(left, sig.Code)
		return sig.Code
	}
	if err == nil {
		return ExitOK
	}
	if st, ok := errors.AsType[ExitStatus](err); ok {
		return int(st)
	}
	if late, ok := errors.AsType[TimedOut](err); ok {
		a.printError(late.Err, exitTimeout)
		return exitTimeout
	}
	e := core.AsError(err)
	code := exitOfError(err, e.Code)
	a.printError(e, code)
	return code
}

// Backend opens the backend, or returns the one that is open.
func (a *App) Backend(ctx context.Context) (Backend, error) {
	if a.backend != nil {
		return a.backend, nil
	}
	if a.Open == nil {
		return nil, core.Errorf(core.CodeInternal, "this build of pml has no backend")
	}
	level, _ := a.Environ("PML_LOG")
	b, err := a.Open(ctx, OpenOptions{
		Home: a.Flags.Home, Server: a.Flags.Server, Workspace: a.Folder, Log: level, Progress: a.Progress.Event, Working: a.working, Warn: a.warn, NoStart: a.passive,
		Started: func(text string) { a.Note("note: %s", core.Visible(text, 400, false)) },
	})
	if err != nil {
		return nil, err
	}
	a.backend = b
	return b, nil
}

// With is what a command does that needs the backend.
func (a *App) With(do func(ctx context.Context, b Backend, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		b, err := a.Backend(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd.Context(), b, args)
	}
}

// PassiveBackend is open for a shell that completes: no server is started and
// nothing is warned of.
func (a *App) PassiveBackend(ctx context.Context) (Backend, error) {
	a.passive = true
	return a.Backend(ctx)
}

// warn takes up what a person should know of an answer that has a gap: it is
// said on stderr, and lists for programs have it in them.
func (a *App) warn(text string) {
	a.warnMu.Lock()
	defer a.warnMu.Unlock()
	if a.passive {
		return
	}
	if a.Human() || a.atOnce {
		a.sayWarning(text)
		return
	}
	a.warnings = append(a.warnings, text)
}

// sayWarning puts a warning on stderr, for a program as an object on a line.
func (a *App) sayWarning(text string) {
	if !a.AsJSON() {
		a.Say("%s %s", a.PaintErr(layout.Warn, "warning:"), core.Visible(text, 2000, false))
		return
	}
	raw, err := json.Marshal(map[string]string{"warning": text})
	if err != nil {
		return // a string always is
	}
	a.Say("%s", raw)
}

// WarnAtOnce says warnings as they come, where no list is to have them in it.
func (a *App) WarnAtOnce() {
	a.warnMu.Lock()
	defer a.warnMu.Unlock()
	a.atOnce = true
	for _, text := range a.warnings {
		a.sayWarning(text)
	}
	a.warnings = nil
}

// warned returns what was to be said and forgets it.
func (a *App) warned() []string {
	a.warnMu.Lock()
	defer a.warnMu.Unlock()
	out := a.warnings
	a.warnings = nil
	return out
}

// Actor is who decides with this command.
func (a *App) Actor() core.Actor { return core.Actor{Who: a.User, Via: core.ViaCLI} }

// Now is the time, zero without a clock.
func (a *App) Now() time.Time {
	if a.Clock == nil {
		return time.Time{}
	}
	return a.Clock.Now()
}

// AsJSON reports whether output and errors are JSON.
func (a *App) AsJSON() bool {
	switch a.Format() {
	case FormatJSON, FormatJSONL:
		return true
	}
	return false
}

// sniffJSON looks for a JSON format in arguments that may not parse.
func (a *App) sniffJSON(args []string) {
	for i, s := range args {
		switch {
		case s == "--":
			return
		case s == "--json", s == "-ojson", s == "-ojsonl", s == "-o=json", s == "--output=json", s == "--output=jsonl":
			a.Flags.JSON = true
		case (s == "-o" || s == "--output") && i+1 < len(args) && strings.HasPrefix(args[i+1], "json"):
			a.Flags.JSON = true
		}
	}
}

// WithFlags is the command line of this invocation with more flags, before
// what stands behind "--".
func (a *App) WithFlags(flags ...string) []string {
	argv := append([]string{"pml"}, a.args...)
	i := slices.Index(argv, "--")
	if i < 0 {
		i = len(argv)
	}
	return slices.Insert(argv, i, flags...)
}

// WithArg is the command line of this invocation with another text in place of an
// argument, nil where what it was may be the value of a flag.
func WithArg(a *App, was, is string) []string {
	argv := append([]string{"pml"}, a.args...)
	for i := len(argv) - 1; i > 0; i-- {
		if argv[i] == was && !strings.HasPrefix(argv[i-1], "-") {
			argv[i] = is
			return argv
		}
	}
	return nil
}

// GlobalFlags adds the flags that every command takes.
func (a *App) GlobalFlags(f *pflag.FlagSet) {
	f.StringVarP(&a.Flags.Output, "output", "o", formatTable, "output format: "+strings.Join(Formats, ", "))
	f.BoolVar(&a.Flags.JSON, "json", false, "the same as -o json; pml help json says the fields")
	f.StringVar(&a.Flags.Server, "server", "", "URL of a pml server: http://…, https://…, or unix:///path of a socket")
	f.StringVar(&a.Flags.Home, "home", "", "pml's own folder (default ~/.pml)")
	f.BoolVar(&a.Flags.NoColor, "no-color", false, "no colour")
	f.BoolVarP(&a.Flags.Quiet, "quiet", "q", false, "no progress on stderr")
	f.DurationVar(&a.Flags.Timeout, "timeout", 0, "stop waiting after this long (exit 124); the run is kept, and one of the server goes on")
}

// checkGlobals checks what flags of a known type can still get wrong.
func (a *App) checkGlobals() error {
	known := false
	for _, f := range Formats {
		known = known || f == a.Flags.Output
	}
	if !known {
		return Usagef("unknown output format %q%s; use one of %s", a.Flags.Output, core.Suggest(a.Flags.Output, Formats), strings.Join(Formats, ", "))
	}
	if a.Flags.Timeout < 0 {
		return Usagef("--timeout %s is negative", a.Flags.Timeout)
	}
	return nil
}
