// Package live shows what models write while they write it: to whoever watches, in this
// process or another one of the same home. Nothing of it is kept, nobody waits for a
// watcher, and without one nothing is done but to remember the text of the answer that is
// under way.
package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/redact"
)

const (
	maxText  = 256 << 10 // bytes of an answer that are shown while it comes
	maxPiece = 16 << 10  // bytes of one event
)

// Texts are the answers that models of this process write, one for each run.
type Texts struct {
	clock core.Clock
	log   *slog.Logger

	mu      sync.Mutex
	open    map[core.ID]*Text
	readers map[core.ID]map[chan struct{}]bool
}

// NewTexts returns Texts without any.
func NewTexts(clock core.Clock, log *slog.Logger) *Texts {
	return &Texts{clock: clock, log: log, open: map[core.ID]*Text{}, readers: map[core.ID]map[chan struct{}]bool{}}
}

// Text is an answer that is being written.
type Text struct {
	texts *Texts
	run   core.ID
	call  string
	view  redact.View

	// What follows is guarded by texts.mu.
	raw   strings.Builder
	full  bool // what has come since is left out
	ended bool

	reading sync.Mutex // held by the reader that takes values out, for all of them
	done    int        // of raw, that shown has or rest
	shown   string     // without values
	rest    string     // may be the beginning of one
}

// Begin begins an answer to a call of a run, in place of the one before.
func (t *Texts) Begin(run core.ID, call string, view redact.View) *Text {
	x := &Text{texts: t, run: run, call: call, view: view}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[run] = x
	t.wake(run)
	return x
}

// Add adds what has come. It does not block.
func (x *Text) Add(piece string) {
	x.texts.mu.Lock()
	defer x.texts.mu.Unlock()
	if x.full = x.full || x.raw.Len()+len(piece) > maxText; !x.full {
		x.raw.WriteString(piece)
		x.texts.wake(x.run)
	}
}

// End ends the answer. Who watches gets what is left of it; then it is forgotten.
func (x *Text) End() {
	t := x.texts
	t.mu.Lock()
	defer t.mu.Unlock()
	x.ended = true
	if len(t.readers[x.run]) == 0 && t.open[x.run] == x {
		delete(t.open, x.run)
	}
	t.wake(x.run)
}

// wake tells the readers of a run that there is more. Each has a place for one word.
func (t *Texts) wake(run core.ID) {
	for ch := range t.readers[run] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Watch calls f with what the model of a run writes, from the beginning of the answer
// that is under way, until the context ends or f fails. An f that takes its time gets
// more at once, and keeps nobody waiting.
func (t *Texts) Watch(ctx context.Context, run core.ID, f func(core.Event) error) error {
	news := make(chan struct{}, 1)
	t.enter(run, news)
	defer t.leave(run, news)
	var at *Text
	sent := 0
	for {
		t.mu.Lock()
		now := t.open[run]
		t.mu.Unlock()
		if now != at {
			at, sent = now, 0
		}
		for at != nil {
			piece := at.after(sent)
			if piece == "" {
				break
			}
			if err := f(at.event(sent, piece)); err != nil {
				return err
			}
			sent += len(piece)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *Texts) enter(run core.ID, news chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readers[run] == nil {
		t.readers[run] = map[chan struct{}]bool{}
	}
	t.readers[run][news] = true
}

func (t *Texts) leave(run core.ID, news chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readers[run], news)
	if len(t.readers[run]) > 0 {
		return
	}
	delete(t.readers, run)
	if x := t.open[run]; x != nil && x.ended {
		delete(t.open, run)
	}
}

// after is what is shown after so many bytes, as much as one event has.
func (x *Text) after(sent int) string {
	x.texts.mu.Lock()
	raw, ended := x.raw.String(), x.ended
	x.texts.mu.Unlock()
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.done < len(raw) {
		var shown string
		shown, x.rest = x.view.Piece(x.rest + raw[x.done:])
		x.shown += shown
		x.done = len(raw)
	}
	if ended && x.rest != "" {
		x.shown, x.rest = x.shown+x.view.Text(x.rest), ""
	}
	return cut(x.shown[min(sent, len(x.shown)):])
}

// cut is the beginning of a text, as long as an event may be, at the end of a character.
func cut(text string) string {
	if len(text) <= maxPiece {
		return text
	}
	n := maxPiece
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n]
}

func (x *Text) event(offset int, text string) core.Event {
	data, err := json.Marshal(core.AgentPiece{Offset: offset})
	if err != nil {
		data = nil
	}
	return core.Event{
		Type: core.EventAgentText, At: x.texts.clock.Now().UTC(), RunID: x.run, TaskID: x.call, Tool: core.ModelTool, Message: text, Data: data,
	}
}
