//go:build unix

package cli_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cli/app"
)

// What is no regular file is refused at once: to open it may be to wait for ever.
func TestExecute_NoRegularFile(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo.ts")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{fifo: "no regular file", "/dev/zero": "no regular file", t.TempDir(): "is a folder"} {
		for _, args := range [][]string{{"execute", name}, {"plan", name}, {"execute", "--code", "return 1", "--input", "@" + name}} {
			s := &shell{}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.run(args...)
			}()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatalf("%v still waits for somebody who writes into %s; it was to be refused at once", args, name)
			}
			if s.want(t, 2); !strings.Contains(s.err, want) || s.opened != 0 {
				t.Errorf("%v: %s", args, s.err)
			}
		}
	}
}

// While standard input is read, --timeout holds, and so does a signal.
func TestExecute_ReadEnds(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe() // nobody writes
	t.Cleanup(func() { _ = w.Close() })
	s := &shell{input: r}
	if s.run("execute", "-", "--timeout", "1ms").want(t, 124); !strings.Contains(s.err, "while standard input was read") || s.opened != 0 {
		t.Error(s.err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(app.Signal{Code: 143})
	s = &shell{input: r, ctx: ctx}
	if s.run("execute", "-").want(t, 143); s.opened != 0 {
		t.Error(s.err)
	}
}
