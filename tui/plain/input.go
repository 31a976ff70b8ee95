package plain

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/casys-ai/pml/core"
)

const maxLine = 64 << 10 // of what a person types, in bytes

// typed is a line that a person has typed, or why there is none.
type typed struct {
	text string
	err  error
}

var errLong = errors.New("the line is longer than 64 KiB; nothing of it was taken")

// read passes on what is typed, line by line. It is the only one who reads In.
func (d *dialogue) read(ctx context.Context) {
	defer close(d.lines)
	in := bufio.NewReaderSize(d.o.In, 4096)
	for {
		line, ended := nextLine(in)
		if ended && line == (typed{}) {
			return
		}
		select {
		case d.lines <- line:
		case <-ctx.Done():
			return
		}
		if ended {
			return
		}
	}
}

// nextLine reads a line, which one that is too long is not. ended says that
// nothing comes behind it.
func nextLine(in *bufio.Reader) (line typed, ended bool) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(text) <= maxLine {
			text = append(text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line.text = strings.TrimRight(string(text), "\r\n")
		switch {
		case len(text) > maxLine:
			line = typed{err: errLong}
		case err != nil && !errors.Is(err, io.EOF):
			line.err = err
		}
		return line, err != nil
	}
}

// refused says why a line was not taken, where it was not.
func (d *dialogue) refused(line typed) bool {
	if line.err != nil {
		d.say("error: %s", core.Visible(line.err.Error(), 300, false))
	}
	return line.err != nil
}

// ask asks for a line. What happens meanwhile is said afterwards.
func (d *dialogue) ask(ctx context.Context, prompt string) (string, bool) {
	d.say("%s", prompt)
	line, ok := d.answer(ctx)
	return strings.TrimSpace(line), ok
}

// answer waits for a line, and learns meanwhile what happens: what is decided
// after it is decided with what is known then.
func (d *dialogue) answer(ctx context.Context) (string, bool) {
	for {
		select {
		case change := <-d.changes:
			change(d.st)
			d.behind = true
		case line, ok := <-d.lines:
			d.refresh()
			return line.text, ok && !d.refused(line)
		case <-ctx.Done():
			return "", false
		}
	}
}

// agrees asks for a yes.
func (d *dialogue) agrees(ctx context.Context, to string) bool {
	line, ok := d.ask(ctx, "confirm: type yes to "+to+", anything else goes back")
	return ok && line == "yes"
}

// pin asks for the PIN where one is needed. The terminal does not show it.
func (d *dialogue) pin(ctx context.Context) (pin string, ok bool) {
	need, err := d.o.Backend.NeedsPin(ctx)
	if err != nil {
		d.failed(err)
		return "", false
	}
	if !need {
		return "", true
	}
	if d.o.Echo != nil {
		if err := d.o.Echo(false); err != nil {
			d.failed(err)
			return "", false
		}
		defer func() {
			if err := d.o.Echo(true); err != nil {
				d.failed(err)
			}
		}()
		select {
		case <-d.lines: // was typed before anybody asked, and was seen
		default:
		}
	}
	d.say("type the PIN")
	if pin, ok = d.answer(ctx); ok && pin == "" {
		d.say("no PIN was typed; nothing was decided.")
	}
	return pin, ok && pin != ""
}
