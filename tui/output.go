package tui

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/osc"
)

// output is the one writer to the terminal: of frames, which the terminal is to
// show at once, and of sequences, which must not end up inside of a frame. The
// library finds out by its methods that it is a terminal.
type output struct {
	file *os.File
	fd   uintptr // of file; the library asks for it even after the end
	mu   sync.Mutex
	// synchronized frames are not asked of a terminal that knows nothing.
	synchronized bool
	buf          []byte
}

// Write writes what the renderer made: a frame is one call.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frame := o.synchronized && len(p) > len(ansi.CursorHomePosition) && strings.HasPrefix(string(p[:len(ansi.CursorHomePosition)]), ansi.CursorHomePosition)
	if !frame {
		return o.file.Write(p)
	}
	o.buf = append(append(append(o.buf[:0], osc.BeginFrame...), p...), osc.EndFrame...)
	if _, err := o.file.Write(o.buf); err != nil {
		return 0, err
	}
	return len(p), nil
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

// Fd, Read and Close make it a terminal for the library. Close closes nothing:
// the file is the caller's.
func (o *output) Fd() uintptr                { return o.fd }
func (o *output) Read(p []byte) (int, error) { return o.file.Read(p) }
func (o *output) Close() error               { return nil }

// input is the terminal to read from. The library takes the end of the input
// for a reason to read no more and to go on without keys; here it is the end of
// the program: the terminal is gone.
type input struct {
	*os.File
	fd uintptr
}

// Fd returns the descriptor without a look at the file.
func (i input) Fd() uintptr { return i.fd }

// Read reads keys.
func (i input) Read(p []byte) (int, error) {
	n, err := i.File.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		return 0, core.Errorf(core.CodeCancelled, "the terminal was closed")
	}
	return 0, err
}
