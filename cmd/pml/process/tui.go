package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/term"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/tui"
	"github.com/casys-ai/pml/tui/demo"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/plain"
)

// terminal runs the full screen or the dialogue of lines.
func terminal(ctx context.Context, o app.TerminalOptions) ([]core.ID, error) {
	environ := env.OS()
	settings, bound, err := terminalSettings(o, environ)
	if err != nil {
		return nil, err
	}
	src, err := openSource(ctx, o)
	if err != nil {
		return nil, err
	}
	var left []core.ID
	if o.Plain || settings.Plain {
		left, err = plain.Run(ctx, plain.Options{
			Backend: src.backend, Links: src.links, Clock: systemClock{}, In: os.Stdin, Out: os.Stdout, User: userName(),
			Because: because(o, settings), Echo: echoSwitch(os.Stdin), Warnings: src.warnings, Runner: src.runner,
			Bell:    cmp.Or(o.Notify, settings.Notify) != string(tui.NotifyOff) && term.IsTerminal(int(os.Stdout.Fd())),
			OpenURL: browserOpener(environ, runtime.GOOS, startDetached), ReadFile: readPlan,
		})
	} else {
		stop := recordCrashes(o, environ)
		left, err = tui.Run(ctx, tui.Options{
			Backend: src.backend, Links: src.links, Warnings: src.warnings, Clock: systemClock{}, In: os.Stdin, Out: os.Stdout, Stderr: os.Stderr,
			Environ: environ, User: userName(), Runner: src.runner, Version: buildVersion().Version, Workspace: src.workspace, Demo: o.Demo, Keys: bound,
			Palette: paint.Palette(cmp.Or(o.Theme, settings.Theme)), Profile: profile(o, environ),
			ASCII:  o.ASCII || settings.ASCII || !tui.UTF8(environ),
			Notify: tui.Notify(cmp.Or(o.Notify, settings.Notify)), Commands: o.Commands, Command: command(o), Machine: src.machine, Flows: src.flows, Self: self(o), OpenURL: browserOpener(environ, runtime.GOOS, startDetached),
		})
		stop()
	}
	if len(left) > 0 {
		fmt.Fprintln(os.Stderr, "pml: stopping; calls that are under way have some seconds to end")
	}
	return left, errors.Join(err, src.close())
}

// terminalSettings is the configuration of the terminal, that of the home, and
// the keys in it. A demonstration needs neither: what cannot be read is left out.
func terminalSettings(o app.TerminalOptions, environ env.Environ) (env.Terminal, *keys.Map, error) {
	settings, err := configured(o, environ)
	var bound *keys.Map
	if err == nil {
		bound, err = keys.New(settings.Keys)
	}
	if err != nil && o.Demo {
		settings = env.Terminal{}
		bound, err = keys.New(nil)
	}
	return settings, bound, err
}

func configured(o app.TerminalOptions, environ env.Environ) (env.Terminal, error) {
	home, err := ownHome(o.Home, environ)
	if err != nil {
		return env.Terminal{}, err
	}
	ws, err := workspaceOf(o.Workspace, environ)
	if err != nil {
		return env.Terminal{}, err
	}
	cfg, err := env.Load(env.LoadOptions{Workspace: ws, Home: home, Environ: environ, Server: o.Server})
	if err != nil {
		return env.Terminal{}, err
	}
	return cfg.Terminal, nil
}

// because says why the dialogue of lines is on.
func because(o app.TerminalOptions, settings env.Terminal) string {
	if settings.Plain && !o.Plain {
		return "via the configuration"
	}
	return "via " + o.PlainBy
}

// profile is what the terminal can show, as far as flags and environment say.
func profile(o app.TerminalOptions, environ env.Environ) paint.Profile {
	p := tui.Profile(environ)
	switch o.Color {
	case "never":
		return min(p, paint.NoColor)
	case "always":
		return max(p, paint.Ansi16)
	default:
		return p
	}
}

// source is where the terminal reads from and decides.
type source struct {
	backend   feed.Backend
	links     func(ctx context.Context, f func(feed.Link))
	warnings  chan string
	workspace string
	machine   tui.Machine
	flows     tui.Flows
	runner    func() string // nil: nobody knows
	close     func() error
}

func openSource(ctx context.Context, o app.TerminalOptions) (*source, error) {
	if o.Demo {
		ctx, cancel := context.WithCancel(ctx)
		b := demo.New(systemClock{})
		go b.Play(ctx)
		return &source{backend: b, links: b.Links, workspace: "demo", machine: b, flows: b, close: func() error { cancel(); return nil }}, nil
	}
	s := &source{warnings: make(chan string, 16)}
	l := newLinks()
	s.links = l.watch
	oo := o.OpenOptions
	oo.Via, oo.Link, oo.Watching = core.ViaTUI, l.put, true
	oo.Warn = func(text string) {
		select {
		case s.warnings <- text:
		default: // who does not read them has enough of them
		}
	}
	b, err := openBackend(oo, func(half *service.Service) (*service.Service, error) { return half, nil })
	if err != nil {
		return nil, err
	}
	l.begin(b.server.named)
	s.runner = b.half.RunnerID
	s.backend, s.machine, s.close = b, b, sync.OnceValue(b.Close)
	c := b.server
	s.flows = terminalFlows{half: b.half, kept: &keptRuns{runs: map[core.FlowKey][]core.FlowRun{}}, home: c.home, workspace: c.workspace, load: func() (*env.Config, error) {
		return env.Load(env.LoadOptions{Workspace: c.workspace, Home: c.home, Environ: c.environ, Server: o.Server})
	}}
	if paths, err := b.Paths(ctx); err == nil {
		s.workspace = paths.Workspace
	}
	return s, nil
}

// links passes the state of the connection to the server on, the last one first.
type links struct {
	mu   sync.Mutex
	last feed.Link
	to   func(feed.Link)
}

func newLinks() *links { return &links{last: feed.Link{Side: core.SideServer, None: true}} }

// begin names the server, before anything is told of it; empty: none is named.
func (l *links) begin(named string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if named != "" {
		l.last = feed.Link{Side: core.SideServer, Connecting: true, Name: named}
	}
}

func (l *links) put(link app.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = feed.Link{Side: core.SideServer, Up: link.Up, None: link.None, Name: link.Name, Err: link.Err}
	if l.to != nil {
		l.to(l.last)
	}
}

// watch implements feed.Options.Links.
func (l *links) watch(ctx context.Context, f func(feed.Link)) {
	l.mu.Lock()
	l.to = f
	f(l.last)
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	l.to = nil
	l.mu.Unlock()
}

// maxPlan bounds a file of tasks, in bytes.
const maxPlan = 8 << 20

// readPlan reads a file that a person names.
func readPlan(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidArguments, "cannot read the file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPlan+1))
	switch {
	case err != nil:
		return nil, core.Errorf(core.CodeInvalidArguments, "cannot read the file: %w", err)
	case len(data) > maxPlan:
		return nil, core.Errorf(core.CodeTooLarge, "the file has more than %d MiB", maxPlan>>20)
	}
	return data, nil
}

// self makes pml itself a command in the terminal of this one.
func self(o app.TerminalOptions) func(ctx context.Context, args []string, wait bool) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	return func(ctx context.Context, args []string, wait bool) *exec.Cmd {
		if o.Home != "" {
			args = append(args, "--home", o.Home)
		}
		if o.Server != "" {
			args = append(args, "--server", o.Server)
		}
		if !wait || runtime.GOOS == "windows" {
			return exec.CommandContext(ctx, exe, args...)
		}
		return exec.CommandContext(ctx, "sh", append([]string{"-c", `"$@"; printf '\n(enter goes back) '; read -r _`, "sh", exe}, args...)...)
	}
}

// command runs a command line of pml in this process, with a backend of its own
// and nothing to read.
func command(o app.TerminalOptions) func(context.Context, []string, io.Writer) int {
	return func(ctx context.Context, args []string, out io.Writer) int {
		deps := commandLine()
		deps.Stdin, deps.Stdout, deps.Stderr = new(bytes.Buffer), out, out
		deps.StdinTTY, deps.StdoutTTY, deps.StderrTTY = false, false, false
		deps.ReadSecret, deps.Serve, deps.Terminal, deps.Stdio, deps.Notify = nil, nil, nil, nil, nil
		deps.Width = func() int { return 0 }
		deps.Open = func(ctx context.Context, inner app.OpenOptions) (app.Backend, error) {
			inner.Home, inner.Server, inner.Via = cmp.Or(inner.Home, o.Home), cmp.Or(inner.Server, o.Server), core.ViaTUI
			return open(ctx, inner)
		}
		return cli.Main(ctx, args, deps)
	}
}
