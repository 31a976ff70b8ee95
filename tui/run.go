package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/osc"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// grace is how long a decision that is under way may take after the end of the
// program.
const grace = 3 * time.Second

// crash is a panic and where it was.
type crash struct {
	value string
	stack string
}

func newCrash(r any) crash {
	return crash{core.Visible(fmt.Sprint(r), 400, false), string(debug.Stack())}
}

// Error says what the panic was.
func (c crash) Error() string { return c.value }

// session is one run of the program.
type session struct {
	o     Options
	model *model
	feed  *feed.Feed
	out   *output
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	crashed *crash // the first one
}

// Run shows the terminal until the person leaves or the context ends, and
// leaves the terminal as it found it, after a panic too. Runs that this process
// has taken over and that still go on stop resumable; their ids are returned,
// whatever the error.
//
// The error is the context's cause when the context ended, core.CodeCancelled
// when the terminal was closed, and core.CodeInternal after a panic, whose
// stack is written to Options.Stderr.
func Run(ctx context.Context, o Options) (left []core.ID, err error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	deciding, stopDeciding := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDeciding()

	s := &session{o: o, stop: stop, out: &output{file: o.Out, fd: o.Out.Fd(), synchronized: o.Profile > paint.Dumb}}
	known := state.New(maxEvents)
	safe := guarded{o.Backend, s.crash}
	s.feed = feed.New(feed.Options{
		Backend: safe, Links: safe.links(o.Links), Clock: o.Clock,
		Listed: debug.FreeOSMemory, // reading thousands of runs takes twice the memory that is needed from then on
	})
	s.model = newModel(o, known, s.feed)
	s.model.send, s.model.crashed = s.out.send, s.crash
	s.model.reading, s.model.deciding = inner, deciding

	err = s.show(inner)
	stop(nil)
	s.model.flights.close(grace, stopDeciding)
	if c := s.crashed; c != nil {
		if o.Stderr != nil {
			fmt.Fprintf(o.Stderr, "panic: %s\n\n%s\n", c.value, c.stack)
		}
		return s.model.taken.running(known), core.Errorf(core.CodeInternal, "the terminal crashed (%s); this is a fault of pml, and nothing that runs is lost", c.value)
	}
	return s.model.taken.running(known), s.reason(ctx, err)
}

// show has the library show the model, and the feed read beside it.
func (s *session) show(ctx context.Context) error {
	answers := &osc.Answers{}
	p := tea.NewProgram(newPainter(s.model, s.out),
		tea.WithInput(input{s.o.In, s.o.In.Fd(), answers}), tea.WithOutput(s.out),
		tea.WithAltScreen(), tea.WithMouseCellMotion(), tea.WithReportFocus(), tea.WithFPS(libraryFPS),
		// Signals end the context, by who made it.
		tea.WithoutSignalHandler())
	answers.Told = func(light bool) {
		go p.Send(backgroundMsg{light}) // whoever reads keys waits for nobody
	}
	reading, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		// Not by the library's own context: it would leave while it still reads
		// keys, which are the shell's by then.
		<-reading.Done()
		p.Quit()
	})
	wg.Go(func() { sweepDrafts(os.TempDir()) })
	wg.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				s.crash(newCrash(r))
			}
		}()
		_ = s.feed.Run(reading, func(c feed.Change) { p.Send(changeMsg{c}) })
	})
	if !s.model.term.Silent {
		s.out.send(osc.SaveTitle)
	}
	_, err := p.Run()
	stop()
	p.Kill() // nobody takes messages any more
	wg.Wait()
	s.out.send(s.model.term.Working(false))
	if !s.model.term.Silent {
		s.out.send(osc.RestoreTitle)
	}
	return err
}

// crash keeps the first panic and ends the program.
func (s *session) crash(c crash) {
	s.mu.Lock()
	if s.crashed == nil {
		s.crashed = &c
	}
	s.mu.Unlock()
	s.stop(c)
}

// reason turns the library's error into the caller's.
func (s *session) reason(ctx context.Context, err error) error {
	var own *core.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.Is(err, io.EOF):
		return core.Errorf(core.CodeCancelled, "the terminal was closed")
	}
	return core.Errorf(core.CodeInternal, "the terminal cannot be used: %w", err)
}
