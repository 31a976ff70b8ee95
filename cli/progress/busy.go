package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// Busy tells on stderr what a command that takes long is doing: one line with
// the time that is redrawn on a terminal, a line for each step elsewhere. Like
// progress it uses no escape sequence, and --quiet silences it.
type Busy struct {
	screen  Screen
	mu      sync.Mutex
	on      bool
	step    string // what the command does
	text    string // what is shown
	started time.Time
	line    redrawn
	phase   phase
	stop    chan struct{}
}

// NewBusy begins to tell, unless on is false; end must be called before anything
// else is written.
func NewBusy(s Screen, on bool, text string) *Busy {
	t := &Busy{screen: s, started: s.Now(), on: on}
	if t.on {
		t.stop = make(chan struct{})
		go t.tick(t.stop)
	}
	t.Say(text)
	return t
}

// Say tells the next step, at once. It may be called from any goroutine.
func (t *Busy) Say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = text
	t.phase.begin()
	t.say(text)
}

func (t *Busy) say(text string) {
	text = core.Visible(text, 2000, false)
	if !t.on || text == t.text {
		return
	}
	t.text = text
	if t.screen.Redraws {
		t.draw()
		return
	}
	if t.phase.due(text, t.screen.Now()) {
		fmt.Fprintf(t.screen.W, "%s\n", text)
	}
}

// Phase tells how far the step is, empty when that is over: in place on a terminal,
// as a line now and then elsewhere.
func (t *Busy) Phase(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text == "" && t.screen.Redraws {
		text = t.step
	}
	t.phase.now = text
	if text != "" {
		t.say(text)
	}
}

// Show writes lines that stay, above the one that is redrawn.
func (t *Busy) Show(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.erase(t.screen)
	io.WriteString(t.screen.W, text)
}

// End removes the line. Nothing is shown after it.
func (t *Busy) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.erase(t.screen)
	t.on = false
	if t.stop != nil {
		close(t.stop)
		t.stop = nil
	}
}

func (t *Busy) draw() {
	t.line.draw(t.screen, fmt.Sprintf("%s  %s", t.text, t.screen.Now().Sub(t.started).Round(time.Second)))
}

func (t *Busy) tick(stop chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return
		case <-every.C:
			t.mu.Lock()
			switch {
			case !t.on:
			case t.screen.Redraws:
				t.draw()
			default:
				t.screen.late(&t.phase)
			}
			t.mu.Unlock()
		}
	}
}
