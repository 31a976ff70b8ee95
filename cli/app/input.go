package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/casys-ai/pml/core"
)

// line is what was read of standard input.
type line struct {
	text string
	err  error
}

// ReadLine reads a line of standard input, or returns when the context ends. The
// reader that is left behind then owns standard input: the next ReadLine takes its line,
// and nothing else may read.
func (a *App) ReadLine(ctx context.Context) (string, error) {
	if a.reading == nil {
		got := make(chan line, 1)
		a.reading = got
		go func() {
			s, err := a.stdin.ReadString('\n')
			if errors.Is(err, io.EOF) && s != "" {
				err = nil
			}
			got <- line{strings.TrimSpace(s), err}
		}()
	}
	select {
	case l := <-a.reading:
		a.reading = nil
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ForgetTyped drops what was typed before a question was there, or for one that is over, also
// where a reader that was left behind has it already.
func (a *App) ForgetTyped() {
	if a.DropTyped == nil {
		return
	}
	a.DropTyped()
	if a.reading == nil {
		_, _ = a.stdin.Discard(a.stdin.Buffered()) // what is buffered can be discarded
		return
	}
	select {
	case l := <-a.reading:
		if a.reading = nil; l.err != nil { // the end of the input is nothing that was typed
			again := make(chan line, 1)
			again <- l
			a.reading = again
		}
	default:
	}
}

// maxFile is what is read at most: a DAG of 10,000 tasks fits.
const maxFile = 64 << 20

// ReadInput reads a file, or standard input for "-", for no longer than --timeout
// and until a signal comes.
func (a *App) ReadInput(ctx context.Context, name string) ([]byte, error) {
	return a.ReadUpTo(ctx, name, maxFile)
}

// ReadUpTo is ReadInput of a file of at most so many bytes.
func (a *App) ReadUpTo(ctx context.Context, name string, most int) ([]byte, error) {
	if name == "-" {
		return a.readWithin(ctx, "standard input", a.stdin, most)
	}
	st, err := os.Stat(name) // to open some things is to wait for somebody
	if err != nil {
		return nil, openError(name, err)
	}
	switch {
	case st.IsDir():
		return nil, Usagef("%s is a folder, not a file", core.Visible(name, 200, false))
	case !st.Mode().IsRegular():
		return nil, Usagef("%s is no regular file; a pipe or a device is read from standard input, as -", core.Visible(name, 200, false))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, openError(name, err)
	}
	defer f.Close()
	return a.readWithin(ctx, core.Visible(name, 200, false), f, most)
}

// readWithin reads all of r, which may block for good: then its goroutine is left
// to the end of the process.
func (a *App) readWithin(ctx context.Context, what string, r io.Reader, most int) ([]byte, error) {
	if a.Flags.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, a.Flags.Timeout, ErrTimeout)
		defer cancel()
		ctx = limited
	}
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
		done <- result{data, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return nil, Usagef("cannot read %s: %w", what, got.err)
		}
		return limitFile(what, got.data, most)
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), ErrTimeout) {
			return nil, TimedOut{Err: core.Errorf(core.CodeTimeout, "--timeout %s ran out while %s was read; nothing was started", a.Flags.Timeout, what)}
		}
		return nil, core.Errorf(core.CodeCancelled, "stopped while %s was read; nothing was started", what)
	}
}

func limitFile(name string, data []byte, most int) ([]byte, error) {
	if len(data) > most {
		return nil, core.Errorf(core.CodeTooLarge, "%s is larger than %d MiB", name, most>>20)
	}
	return data, nil
}

func openError(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return Usagef("cannot open %s: %w", core.Visible(name, 200, false), err)
	}
	var names []string
	if entries, derr := os.ReadDir(filepath.Dir(name)); derr == nil {
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return Usagef("no such file: %s%s", core.Visible(name, 200, false), core.Suggest(filepath.Base(name), names))
}
