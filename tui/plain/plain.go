// Package plain is the terminal for screen readers and dumb terminals: a
// dialogue of lines, without any redrawing, with the same decisions under the
// same rules as on the full screen.
package plain

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/state"
)

// Options are what the dialogue is made of.
type Options struct {
	Backend feed.Backend
	// Links is as in feed.Options.
	Links func(ctx context.Context, f func(feed.Link))
	Clock core.Clock
	In    io.Reader
	Out   io.Writer
	User  string // who decides, as the audit log names them
	// Because says why the mode is on, as in "via --plain".
	Because string
	// Echo says whether the terminal shows what is typed into In, which is off
	// while a PIN is; nil: In is no terminal. Nobody else reads In meanwhile.
	Echo func(on bool) error
	// OpenURL opens an address in the browser; nil: it cannot.
	OpenURL func(ctx context.Context, url string) error
	// ReadFile reads a file that the person names; nil: it cannot.
	ReadFile func(name string) ([]byte, error)
	// Warnings are texts that the backend wants a person to know. Nil: none. It is
	// not closed.
	Warnings <-chan string
	// Runner is under what name this process runs runs, as in core.Run.Runner;
	// nil: nobody knows, and a run is taken for taken over by it whose runner has
	// changed since something was done to it here.
	Runner func() string
	// Bell rings when something new waits.
	Bell bool
}

const maxEvents = 2000

// spoken are the times left at which a waiting approval is mentioned again.
var spoken = []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}

// dialogue is the one conversation. It is used by one goroutine, that of Run.
type dialogue struct {
	o       Options
	st      *state.State
	feed    *feed.Feed
	lines   chan typed // what the person types; closed at the end of In
	changes chan feed.Change
	behind  bool // there were changes of which nothing was said

	status    status
	seen      map[core.ID]bool          // approvals that were announced
	mentioned map[core.ID]time.Duration // the last time left that was said of them
	greeted   bool
	begun     bool // what waited at the start was announced

	current core.ID          // the approval that choices are about
	card    decide.Card      // of current
	offered time.Time        // when it became that by itself
	lapsed  core.ID          // the one that had expired when it was chosen
	stale   bool             // the one before ended by itself, and nobody has chosen since
	done    map[core.ID]bool // approvals that were decided here

	taken takeovers
}

// Run talks until the person leaves, In ends or the context does. Runs that this
// process has taken over stop resumable; their ids are returned.
func Run(ctx context.Context, o Options) (left []core.ID, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &dialogue{
		o: o, st: state.New(maxEvents), lines: make(chan typed), changes: make(chan feed.Change),
		seen: map[core.ID]bool{}, mentioned: map[core.ID]time.Duration{}, done: map[core.ID]bool{},
		taken: takeovers{backend: o.Backend, runner: o.Runner, before: map[core.ID]string{}},
	}
	d.status.say, d.status.since = d.say, d.now()
	d.feed = feed.New(feed.Options{Backend: o.Backend, Links: o.Links, Clock: o.Clock})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.feed.Run(ctx, func(c feed.Change) { // ends with the context
			select {
			case d.changes <- c:
			case <-ctx.Done():
			}
		})
	}()
	go d.read(ctx)
	d.say("pml: plain mode on (%s). Type help.", o.Because)
	err = d.talk(ctx)
	left = d.taken.unfinished(ctx, d.st.Runs())
	cancel()
	<-ended
	return left, err
}

// talk listens to the backend and to the person in turn.
func (d *dialogue) talk(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case change := <-d.changes:
			change(d.st)
			d.news()
		case text := <-d.o.Warnings:
			d.say("warning: %s", core.Visible(text, 1000, false))
		case <-second.C:
			d.remind()
		case line, ok := <-d.lines:
			if !ok || !d.refused(line) && d.command(ctx, strings.TrimSpace(line.text)) {
				return nil
			}
			if d.behind {
				d.behind = false
				d.news()
			}
		}
	}
}

// say writes a line. Its words are our own or were made visible.
func (d *dialogue) say(format string, args ...any) { fmt.Fprintf(d.o.Out, format+"\n", args...) }

// now is the time as the person reads it.
func (d *dialogue) now() time.Time { return d.o.Clock.Now() }
