// Package plain is the terminal for screen readers and dumb terminals: a
// dialogue of lines, without any redrawing, with the same decisions under the
// same rules as on the full screen.
package plain

import (
	"bufio"
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
	// Secret reads a PIN without echo; nil: In has it as a line.
	Secret func(ctx context.Context, prompt string) (string, error)
	// OpenURL opens an address in the browser; nil: it cannot.
	OpenURL func(ctx context.Context, url string) error
}

const (
	maxEvents = 2000
	maxLine   = 64 << 10 // of what a person types, in bytes
)

// spoken are the times left at which a waiting approval is mentioned again.
var spoken = []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}

// dialogue is the one conversation. It is used by one goroutine, that of Run.
type dialogue struct {
	o     Options
	st    *state.State
	feed  *feed.Feed
	lines chan string // what the person types; closed at the end of In

	seen    map[core.ID]bool          // approvals that were announced
	said    map[core.ID]time.Duration // the last time left that was mentioned
	told    int64                     // events that were looked at
	current core.ID                   // the approval that choices are about
	card    decide.Card               // of current
	loud    bool                      // every event is told
	links   string                    // what was said of the connections
	mine    map[core.ID]bool          // runs that may go on in this process
	greeted bool
}

// Run talks until the person leaves, In ends or the context does. Runs that this
// process has taken over stop resumable; their ids are returned.
func Run(ctx context.Context, o Options) (left []core.ID, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &dialogue{
		o: o, st: state.New(maxEvents), lines: make(chan string),
		seen: map[core.ID]bool{}, said: map[core.ID]time.Duration{}, mine: map[core.ID]bool{},
	}
	d.feed = feed.New(feed.Options{Backend: o.Backend, Links: o.Links, Clock: o.Clock})
	changes := make(chan feed.Change)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.feed.Run(ctx, func(c feed.Change) { // ends with the context
			select {
			case changes <- c:
			case <-ctx.Done():
			}
		})
	}()
	go d.read(ctx)
	d.say("pml: plain mode on (%s). Type help.", o.Because)
	err = d.talk(ctx, changes)
	cancel()
	<-ended
	return d.unfinished(), err
}

// read passes on what is typed, line by line.
func (d *dialogue) read(ctx context.Context) {
	defer close(d.lines)
	scan := bufio.NewScanner(d.o.In)
	scan.Buffer(make([]byte, 0, 4096), maxLine)
	for scan.Scan() {
		select {
		case d.lines <- scan.Text():
		case <-ctx.Done():
			return
		}
	}
}

// talk listens to the backend and to the person in turn.
func (d *dialogue) talk(ctx context.Context, changes <-chan feed.Change) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case change := <-changes:
			change(d.st)
			d.news()
		case <-second.C:
			d.remind()
		case line, ok := <-d.lines:
			if !ok || d.command(ctx, strings.TrimSpace(line)) {
				return nil
			}
		}
	}
}

// say writes a line. Its words are our own or were made visible.
func (d *dialogue) say(format string, args ...any) { fmt.Fprintf(d.o.Out, format+"\n", args...) }

// now is the time as the person reads it.
func (d *dialogue) now() time.Time { return d.o.Clock.Now() }

// unfinished are the runs that were going on in this process, perhaps.
func (d *dialogue) unfinished() []core.ID {
	var out []core.ID
	for _, id := range d.st.Runs() {
		if r, ok := d.st.Run(id); ok && d.mine[id] && r.State == core.RunRunning && r.Side == core.SideClient {
			out = append(out, id)
		}
	}
	return out
}
