package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// busy tells on stderr what a command that takes long is doing: one line with
// the time that is redrawn on a terminal, a line for each step elsewhere. Like
// progress it uses no escape sequence, and --quiet silences it.
type busy struct {
	a       *app
	mu      sync.Mutex
	on      bool
	text    string
	started time.Time
	line    redrawn
	stop    chan struct{}
}

// busy begins to tell; end must be called before anything else is written.
func (a *app) busy(text string) *busy {
	t := &busy{a: a, started: a.now(), on: !a.flags.quiet && a.human()}
	if t.on && t.redraws() {
		t.stop = make(chan struct{})
		go t.tick(t.stop)
	}
	t.say(text)
	return t
}

func (t *busy) redraws() bool { return t.a.StderrTTY && !t.a.dumb() }

// say tells the next step. It may be called from any goroutine.
func (t *busy) say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text = core.Visible(text, 2000, false)
	if !t.on || text == t.text {
		return
	}
	t.text = text
	if t.redraws() {
		t.draw()
		return
	}
	fmt.Fprintf(t.a.Stderr, "%s\n", text)
}

// show writes lines that stay, above the one that is redrawn.
func (t *busy) show(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.erase(t.a)
	io.WriteString(t.a.Stderr, text)
}

// end removes the line. Nothing is told after it.
func (t *busy) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.erase(t.a)
	t.on = false
	if t.stop != nil {
		close(t.stop)
		t.stop = nil
	}
}

func (t *busy) draw() {
	t.line.draw(t.a, fmt.Sprintf("%s  %s", t.text, t.a.now().Sub(t.started).Round(time.Second)))
}

func (t *busy) tick(stop chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return
		case <-every.C:
			t.mu.Lock()
			if t.on {
				t.draw()
			}
			t.mu.Unlock()
		}
	}
}
