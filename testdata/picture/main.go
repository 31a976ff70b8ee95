// Command picture runs a program on a terminal of its own and writes what the
// terminal shows as an SVG: the pictures of the documentation are made with it.
//
//	go build -o /tmp/pml ./cmd/pml
//	go run ./testdata/picture --keys 2 --wait linear:list_issues --out docs/terminal.svg /tmp/pml tui --demo
//
// It writes the keys once the text of --ready is shown, and takes the picture once
// the text of --wait is.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

type options struct {
	cols, rows             int
	ready, keys, wait, out string
	program                []string
}

func main() {
	var o options
	flag.IntVar(&o.cols, "cols", 100, "columns of the terminal")
	flag.IntVar(&o.rows, "rows", 26, "rows of the terminal")
	flag.StringVar(&o.ready, "ready", "pml", "the text after which the keys are typed")
	flag.StringVar(&o.keys, "keys", "", "what is typed")
	flag.StringVar(&o.wait, "wait", "pml", "the text that the picture must show")
	flag.StringVar(&o.out, "out", "", "the file to write")
	flag.Parse()
	o.program = flag.Args()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.out == "" || len(o.program) == 0 {
		return fmt.Errorf("usage: picture --out FILE [flags] PROGRAM [ARGUMENTS]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	term := vt10x.New(vt10x.WithSize(o.cols, o.rows), vt10x.WithWriter(io.Discard))
	cmd := exec.CommandContext(ctx, o.program[0], o.program[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor", "LANG=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(o.cols), Rows: uint16(o.rows)}) //nolint:gosec // sizes of terminals
	if err != nil {
		return err
	}
	defer tty.Close()
	steps := []struct{ until, keys string }{{o.ready, o.keys}, {o.wait, ""}}
	chunk := make([]byte, 64<<10)
	for len(steps) > 0 {
		n, err := tty.Read(chunk)
		if err != nil {
			return fmt.Errorf("%s never showed %q: %w", o.program[0], steps[0].until, err)
		}
		if _, err := term.Write(chunk[:n]); err != nil {
			return err
		}
		for len(steps) > 0 && strings.Contains(term.String(), steps[0].until) {
			if _, err := tty.WriteString(steps[0].keys); err != nil {
				return err
			}
			steps = steps[1:]
		}
	}
	return os.WriteFile(o.out, []byte(svg(term, o.cols, o.rows)), 0o644) //nolint:gosec // a picture for everybody
}
