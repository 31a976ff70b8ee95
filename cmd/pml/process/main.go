// Package process is a process of pml: a command, the terminal, a server, or what an agent's host
// starts. It is the only place that knows all packages: it wires them together, and turns signals
// and exit codes. A program is this package and the engines that it brings (cmd/pml has none).
package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	_ "github.com/casys-ai/pml/cmd/pml/gcpercent" // before what the others import is initialised
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/analyze"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/tui"
)

// sandboxCommand is the hidden subcommand under which pml starts itself as a
// sandbox child.
const sandboxCommand = "__sandbox"

// Main is all that a program does; it returns the exit code. Whoever calls it does nothing before.
func Main(b Build, brought ...Engine) int {
	if len(os.Args) == 2 && os.Args[1] == sandboxCommand {
		return sandbox.ChildMain(os.Stdin, os.Stdout, analyze.Code)
	}
	build, engines = b, brought
	return run(os.Args[1:])
}

func run(args []string) int {
	ctx, stop := signals(context.Background())
	defer stop()
	return cli.Main(ctx, args, commandLine())
}

// commandLine is what the command line gets of this process.
func commandLine() app.Deps {
	return app.Deps{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdinTTY: isTerminal(os.Stdin), StdoutTTY: isTerminal(os.Stdout), StderrTTY: isTerminal(os.Stderr),
		Width: width, Environ: env.OS(), Clock: systemClock{}, Version: buildVersion(), User: userName(), Open: open,
		Serve: serve, Engine: checkEngine, LocalServer: openLocalServer, Devices: openDevices, Terminal: terminal, Stdio: stdio, Notify: notifyPeople, Maintenance: openMaintenance,
		DropTyped: typedBefore(os.Stdin), ReadSecret: secretReader(os.Stdin, os.Stderr), ReadFD: readFD, OpenURL: browserOpener(env.OS(), runtime.GOOS, startDetached),
		EditText: func(ctx context.Context, name, text string) (string, error) {
			return tui.EditText(ctx, env.OS(), name, text)
		},
		Page: pager(env.OS()),
	}
}

// signals returns a context that ends at the first SIGINT, SIGTERM or SIGHUP (a
// terminal that goes away, unless that is to be ignored, as under nohup); a second
// one later ends the process at once, which is safe at any time.
func signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	caught := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		caught = append(caught, syscall.SIGHUP)
	}
	signal.Notify(ch, caught...)
	go heed(ch, time.Now, cancel, os.Exit)
	return ctx, func() {
		signal.Stop(ch)
		close(ch)
		cancel(nil)
	}
}

// sameSignal is how soon after the first signal another one says no more: who
// stops a process and then its group, as timeout does, sends two at once.
const sameSignal = 500 * time.Millisecond

// heed cancels at the first signal, and exits at a later one.
func heed(ch <-chan os.Signal, now func() time.Time, cancel context.CancelCauseFunc, exit func(int)) {
	var first time.Time
	for s := range ch {
		code := 130
		switch s {
		case syscall.SIGTERM:
			code = 143
		case syscall.SIGHUP:
			code = 129
		}
		switch {
		case first.IsZero():
			first = now()
			cancel(app.Signal{Code: code})
		case now().Sub(first) >= sameSignal:
			exit(code)
		}
	}
}

type systemClock struct{}

// Now implements core.Clock.
func (systemClock) Now() time.Time { return time.Now() }

func newID() core.ID { return core.ID(uuid.NewString()) }

// newLogger logs to stderr at the level that PML_LOG names. Without it that is
// errors, as a command says itself what a person should know; a host's log is
// the only place for the warnings of what it has started.
func newLogger(level string, via core.Via) *slog.Logger {
	otherwise := slog.LevelError
	if via == core.ViaMCP {
		otherwise = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel(level, otherwise)}))
}

// logLevel reads a level of PML_LOG; one that makes no sense is the default.
func logLevel(text string, otherwise slog.Level) slog.Level {
	l := otherwise
	if text != "" && l.UnmarshalText([]byte(text)) != nil {
		return otherwise
	}
	return l
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func width() int {
	w, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// userName is who decides, for the audit log.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprintf("uid %d", os.Getuid())
	}
	return u.Username
}
