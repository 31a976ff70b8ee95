// Command picture runs a program on a terminal of its own and writes what the
// terminal shows as an SVG: the pictures of the documentation are made with it.
//
//	go build -o /tmp/pml ./cmd/pml
//	go run ./testdata/picture --keys 2 --wait linear:list_issues --out docs/terminal.svg /tmp/pml tui --demo
//
// It writes the keys once the text of --ready is shown, and takes the picture once
// the text of --wait is and nothing new comes.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

type options struct {
	cols, rows       int
	ready, wait, out string
	light            bool
	keys, program    []string
}

func main() {
	var o options
	flag.IntVar(&o.cols, "cols", 100, "columns of the terminal")
	flag.IntVar(&o.rows, "rows", 26, "rows of the terminal")
	flag.StringVar(&o.ready, "ready", "pml", "the text after which the keys are typed")
	flag.Func("keys", "what is typed; several times: each once the terminal is quiet", func(k string) error {
		o.keys = append(o.keys, k)
		return nil
	})
	flag.StringVar(&o.wait, "wait", "pml", "the text that the picture must show")
	flag.StringVar(&o.out, "out", "", "the file to write")
	flag.BoolVar(&o.light, "light", false, "the terminal has a light ground, and says so when it is asked")
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
	chunks := make(chan []byte)
	go read(tty, chunks)
	steps := []step{{o.ready, ""}}
	for _, k := range o.keys {
		steps = append(steps, step{"", k})
	}
	for _, s := range append(steps, step{o.wait, ""}) {
		if _, err := tty.WriteString(s.keys); err != nil {
			return err
		}
		if err := o.until(s.text, term, tty, chunks); err != nil {
			return err
		}
	}
	colours := &dark
	if o.light {
		colours = &light
	}
	return os.WriteFile(o.out, []byte(colours.svg(term, o.cols, o.rows)), 0o644) //nolint:gosec // a picture for everybody
}

// read passes on what a program writes, whole characters at a time: the emulator drops
// one that comes in two pieces.
func read(tty io.Reader, chunks chan<- []byte) {
	defer close(chunks)
	var rest []byte
	for {
		chunk := make([]byte, 64<<10)
		n, err := tty.Read(chunk)
		if err != nil {
			return
		}
		whole := slices.Concat(rest, chunk[:n])
		end := len(whole)
		for cut := 1; cut < utf8.UTFMax && cut <= len(whole); cut++ {
			if b := whole[len(whole)-cut:]; utf8.RuneStart(b[0]) {
				if !utf8.FullRune(b) {
					end -= cut
				}
				break
			}
		}
		rest = bytes.Clone(whole[end:])
		chunks <- whole[:end]
	}
}

// step is what is typed, and the text that is shown then.
type step struct{ text, keys string }

// quiet is how long a terminal shows nothing new before a picture is one of a whole frame.
const quiet = 300 * time.Millisecond

// until reads what a program writes until it shows a text and is quiet.
func (o options) until(text string, term vt10x.Terminal, tty io.Writer, chunks <-chan []byte) error {
	for {
		var rest <-chan time.Time
		if strings.Contains(term.String(), text) {
			rest = time.After(quiet)
		}
		select {
		case <-rest:
			return nil
		case chunk, ok := <-chunks:
			if !ok {
				return fmt.Errorf("%s never showed %q", o.program[0], text)
			}
			if _, err := term.Write(chunk); err != nil {
				return err
			}
			if o.light && bytes.Contains(chunk, []byte("\x1b]11;?")) {
				if _, err := io.WriteString(tty, "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"); err != nil {
					return err
				}
			}
		}
	}
}
