package tui

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/osc"
)

// output is the one writer to the terminal: of the library's sequences, which
// switch its modes, of frames, and of sequences that must not end up inside of a
// frame. The library finds out by its methods that it is a terminal.
//
// The library's own frames are dropped: draw writes frames when they are ready.
// It follows from the library's sequences when there is a screen to draw on and
// what is on it, so nothing is drawn while another program has the terminal.
type output struct {
	file *os.File
	fd   uintptr // of file; the library asks for it even after the end
	// synchronized frames are not asked of a terminal that knows nothing.
	synchronized bool

	mu    sync.Mutex
	on    bool     // there is a screen to draw on
	shown []string // the lines on it; nil: whatever
	buf   []byte
}

// Write writes a sequence of the library, and takes a frame of it for written: a
// frame is one call that begins in the corner.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sequence := string(p)
	if len(sequence) > len(ansi.CursorHomePosition) && strings.HasPrefix(sequence, ansi.CursorHomePosition) {
		return len(p), nil
	}
	enter, leave := strings.Contains(sequence, ansi.SetAltScreenSaveCursorMode), strings.Contains(sequence, ansi.ResetAltScreenSaveCursorMode)
	if enter || leave || strings.Contains(sequence, ansi.EraseEntireScreen) {
		o.shown = nil
	}
	if enter {
		o.on = true
	}
	n, err := o.file.Write(p)
	if leave {
		o.on = false
	}
	return n, err
}

// forget has the next frame written whole: what is on the screen is not known.
func (o *output) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shown = nil
}

// draw shows a frame, in one write of the lines that are not on the screen yet.
// Its lines must be as wide as the window. Where there is no screen nothing
// happens; a terminal that is gone is found by who reads from it.
func (o *output) draw(frame string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on {
		return
	}
	o.buf = o.buf[:0]
	if o.synchronized {
		o.buf = append(o.buf, osc.BeginFrame...)
	}
	empty := len(o.buf)
	row := 0
	for line := range strings.SplitSeq(frame, "\n") {
		switch {
		case row == len(o.shown):
			o.shown = append(o.shown, line)
		case o.shown[row] == line:
			row++
			continue
		default:
			o.shown[row] = line
		}
		row++
		o.buf = append(appendRow(o.buf, row), line...)
	}
	if row < len(o.shown) {
		o.shown = o.shown[:row]
		o.buf = append(appendRow(o.buf, row+1), ansi.EraseScreenBelow...)
	}
	if len(o.buf) == empty {
		return
	}
	if o.synchronized {
		o.buf = append(o.buf, osc.EndFrame...)
	}
	if _, err := o.file.Write(o.buf); err != nil {
		o.shown = nil
	}
}

// appendRow appends the sequence that goes to the beginning of a row, from 1.
func appendRow(b []byte, row int) []byte {
	return append(strconv.AppendInt(append(b, "\x1b["...), int64(row), 10), ";1H"...)
}

// send writes a sequence between two frames. A terminal that is gone is found
// by who reads from it.
func (o *output) send(sequence string) {
	if sequence == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.file.WriteString(sequence)
}

// Fd returns the descriptor without a look at the file. With Read and Close it
// makes the output a terminal for the library.
func (o *output) Fd() uintptr { return o.fd }

// Read reads from the terminal; the library never does.
func (o *output) Read(p []byte) (int, error) { return o.file.Read(p) }

// Close closes nothing: the file is the caller's.
func (o *output) Close() error { return nil }

// maxHeld is more than is ever held back of an answer of the terminal, in bytes.
const maxHeld = 128

// input is the terminal to read from. The library takes the end of the input
// for a reason to read no more and to go on without keys; here it is the end of
// the program: the terminal is gone.
type input struct {
	*os.File
	fd      uintptr
	answers *osc.Answers
}

// Fd returns the descriptor without a look at the file.
func (i input) Fd() uintptr { return i.fd }

// Read reads keys. What the terminal answers is none of them; what was held back of
// that before always fits, as so much was read less then.
func (i input) Read(p []byte) (int, error) {
	room := len(p)
	if room > 2*maxHeld {
		room -= maxHeld
	}
	n, err := i.File.Read(p[:room])
	if err == nil || n > 0 {
		return copy(p, i.answers.Take(p[:n])), nil
	}
	if errors.Is(err, io.EOF) {
		return 0, core.Errorf(core.CodeCancelled, "the terminal was closed")
	}
	return 0, err
}
