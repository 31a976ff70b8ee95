package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
)

// app is one invocation of the command line.
type app struct {
	Deps
	flags globalFlags
	// backend is opened by the first command that needs it.
	backend  Backend
	progress *progress
	// args are the arguments as they were given.
	args []string
	// file is the program that the command runs, for messages.
	file  string
	stdin *bufio.Reader
	// passive is set where a person has asked for nothing yet: a shell completes.
	passive bool

	warnMu   sync.Mutex
	warnings []string // what is to be said beside a list
	atOnce   bool     // nothing gathers warnings
}

// globalFlags are the flags that every command takes.
type globalFlags struct {
	output  string
	json    bool
	server  string
	home    string
	noColor bool
	quiet   bool
	timeout time.Duration
}

func newApp(d Deps) *app {
	if d.Width == nil {
		d.Width = func() int { return 0 }
	}
	if d.Environ == nil {
		d.Environ = func(string) (string, bool) { return "", false }
	}
	if d.Stdin == nil {
		d.Stdin = strings.NewReader("")
	}
	a := &app{Deps: d, stdin: bufio.NewReader(d.Stdin)}
	a.progress = newProgress(a)
	return a
}

// main runs a command and turns whatever it ends with into an exit code.
func (a *app) main(ctx context.Context, args []string) int {
	a.args = args
	root := a.root()
	root.SetArgs(args)
	// Errors of parsing come before flags are set; JSON is wanted all the same.
	a.sniffJSON(args)
	err := a.run(ctx, root)
	a.progress.stop()
	if cerr := a.close(); err == nil {
		err = cerr
	}
	a.warnAtOnce()
	return a.finish(ctx, err)
}

// run executes the command under --timeout.
func (a *app) run(ctx context.Context, root *cobra.Command) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := a.checkGlobals(); err != nil {
			return err
		}
		if err := notEmpty(cmd, "server"); err != nil {
			return err
		}
		// Commands that wait for a run stop waiting by themselves and say so.
		if a.flags.timeout > 0 && cmd.Annotations[waitsForRun] == "" {
			t := time.AfterFunc(a.flags.timeout, func() { cancel(errTimeout) })
			context.AfterFunc(ctx, func() { t.Stop() })
		}
		return nil
	}
	err := root.ExecuteContext(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return timedOut{core.Errorf(core.CodeTimeout, "--timeout %s ran out", a.flags.timeout)}
	}
	return err
}

var errTimeout = errors.New("--timeout ran out")

// waitsForRun annotates commands for which --timeout bounds the wait for a run.
const waitsForRun = "pml-waits"

func (a *app) close() error {
	if a.backend == nil {
		return nil
	}
	return a.backend.Close()
}

// finish prints what is left to say and returns the exit code. A signal wins
// over whatever error it caused.
func (a *app) finish(ctx context.Context, err error) int {
	var sig Signal
	if errors.As(context.Cause(ctx), &sig) && err != nil {
		a.printInterrupted(err, sig.Code)
		return sig.Code
	}
	if err == nil {
		return exitOK
	}
	var st exitStatus
	if errors.As(err, &st) {
		return int(st)
	}
	var late timedOut
	if errors.As(err, &late) {
		a.printError(late.err, exitTimeout)
		return exitTimeout
	}
	e := core.AsError(err)
	code := exitOfError(err, e.Code)
	a.printError(e, code)
	return code
}

// open opens the backend, or returns the one that is open.
func (a *app) open(ctx context.Context) (Backend, error) {
	if a.backend != nil {
		return a.backend, nil
	}
	if a.Open == nil {
		return nil, core.Errorf(core.CodeInternal, "this build of pml has no backend")
	}
	level, _ := a.Environ("PML_LOG")
	b, err := a.Open(ctx, OpenOptions{
		Home: a.flags.home, Server: a.flags.server, Log: level, Progress: a.progress.event, Warn: a.warn, NoStart: a.passive,
	})
	if err != nil {
		return nil, err
	}
	a.backend = b
	return b, nil
}

// warn takes up what a person should know of an answer that has a gap: it is
// said on stderr, and lists for programs have it in them.
func (a *app) warn(text string) {
	a.warnMu.Lock()
	defer a.warnMu.Unlock()
	if a.passive {
		return
	}
	if a.human() || a.atOnce {
		a.sayWarning(text)
		return
	}
	a.warnings = append(a.warnings, text)
}

// sayWarning puts a warning on stderr, for a program as an object on a line.
func (a *app) sayWarning(text string) {
	if !a.asJSON() {
		a.say("warning: %s", core.Visible(text, 2000, false))
		return
	}
	raw, err := json.Marshal(map[string]string{"warning": text})
	if err != nil {
		return // a string always is
	}
	a.say("%s", raw)
}

// warnAtOnce says warnings as they come, where no list is to have them in it.
func (a *app) warnAtOnce() {
	a.warnMu.Lock()
	defer a.warnMu.Unlock()
	a.atOnce = true
	for _, text := range a.warnings {
		a.sayWarning(text)
	}
	a.warnings = nil
}

// warned returns what was to be said and forgets it.
func (a *app) warned() []string {
	a.warnMu.Lock()
	defer a.warnMu.Unlock()
	out := a.warnings
	a.warnings = nil
	return out
}

func (a *app) actor() core.Actor { return core.Actor{Who: a.User, Via: core.ViaCLI} }

func (a *app) now() time.Time {
	if a.Clock == nil {
		return time.Time{}
	}
	return a.Clock.Now()
}

// dumb reports whether the terminal cannot move its cursor.
func (a *app) dumb() bool {
	term, _ := a.Environ("TERM")
	return term == "dumb"
}

// asJSON reports whether output and errors are JSON.
func (a *app) asJSON() bool {
	switch a.format() {
	case formatJSON, formatJSONL:
		return true
	}
	return false
}

// sniffJSON looks for a JSON format in arguments that may not parse.
func (a *app) sniffJSON(args []string) {
	for i, s := range args {
		switch {
		case s == "--":
			return
		case s == "--json", s == "-ojson", s == "-ojsonl", s == "-o=json", s == "--output=json", s == "--output=jsonl":
			a.flags.json = true
		case (s == "-o" || s == "--output") && i+1 < len(args) && strings.HasPrefix(args[i+1], "json"):
			a.flags.json = true
		}
	}
}

// readLine reads a line of standard input, or returns when the context ends.
// After that nothing may read standard input any more: the reader it leaves
// behind still owns it.
func (a *app) readLine(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		s, err := a.stdin.ReadString('\n')
		if errors.Is(err, io.EOF) && s != "" {
			err = nil
		}
		got <- line{strings.TrimSpace(s), err}
	}()
	select {
	case l := <-got:
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
