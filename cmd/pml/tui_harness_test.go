//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"
)

// screenful is a pml tui on a terminal, and what that terminal shows.
type screenful struct {
	t    testing.TB
	cmd  *exec.Cmd
	tty  *os.File
	term vt10x.Terminal

	mu      sync.Mutex
	raw     strings.Builder // every byte that was written
	before  string          // the terminal's settings
	changed chan struct{}   // closed and replaced with each write
	ended   chan struct{}   // closed when nothing more comes
}

// tui starts pml tui on a terminal of a size that answers no query.
func (m *machine) tui(cols, rows uint16, args ...string) *screenful {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	m.t.Cleanup(cancel)
	return m.onScreen(cols, rows, m.command(ctx, append([]string{"tui"}, args...)...))
}

// onScreen starts a command on a terminal of its own, as a session of its own.
func (m *machine) onScreen(cols, rows uint16, cmd *exec.Cmd) *screenful {
	m.t.Helper()
	s := &screenful{t: m.t, cmd: cmd, changed: make(chan struct{}), ended: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm-256color", "LANG=C.UTF-8")
	s.term = vt10x.New(vt10x.WithSize(int(cols), int(rows)), vt10x.WithWriter(io.Discard))
	var end *os.File
	var err error
	if s.tty, end, err = pty.Open(); err != nil {
		m.t.Fatal(err)
	}
	defer end.Close()
	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		m.t.Fatal(err)
	}
	s.before = s.settings()
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = end, end, end
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go s.read()
	m.t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // most have ended
		_ = s.cmd.Wait()
		_ = s.tty.Close()
		<-s.ended
	})
	return s
}

// settings are those of the terminal, as they are now.
func (s *screenful) settings() string {
	s.t.Helper()
	state, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%+v", *state)
}

// written is every byte that came.
func (s *screenful) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

func (s *screenful) read() {
	defer close(s.ended)
	chunk := make([]byte, 64<<10)
	for {
		n, err := s.tty.Read(chunk)
		s.mu.Lock()
		_, _ = s.term.Write(chunk[:n])
		s.raw.Write(chunk[:n])
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text is what the terminal shows.
func (s *screenful) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term.String()
}

// shows waits until the terminal shows all of some texts.
func (s *screenful) shows(texts ...string) string {
	s.t.Helper()
	return s.until("shows "+strings.Join(texts, ", "), func(text string) bool {
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
}

// until waits until what the terminal shows has a property.
func (s *screenful) until(what string, ok func(text string) bool) string {
	s.t.Helper()
	hangs := time.After(patience)
	for {
		s.mu.Lock()
		text, changed := s.term.String(), s.changed
		s.mu.Unlock()
		if ok(text) {
			return text
		}
		select {
		case <-changed:
		case <-s.ended:
			s.t.Fatalf("pml tui has ended; it never %s:\n%s", what, s.text())
		case <-hangs:
			s.t.Fatalf("pml tui never %s:\n%s", what, s.text())
		}
	}
}

// types types, as a person does: a key after the other.
func (s *screenful) types(keys ...string) {
	s.t.Helper()
	for _, k := range keys {
		if _, err := s.tty.WriteString(k); err != nil {
			s.t.Fatal(err)
		}
	}
}

// does presses a key again and again until the terminal shows a text: one that
// comes too early, while keys are kept quiet, does nothing.
func (s *screenful) does(key, text string) {
	s.t.Helper()
	again := time.NewTicker(600 * time.Millisecond)
	defer again.Stop()
	hangs := time.After(patience)
	s.types(key)
	for !strings.Contains(s.text(), text) {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-again.C:
			s.types(key)
		case <-hangs:
			s.t.Fatalf("%q never led to %q:\n%s", key, text, s.text())
		}
	}
}

// resize gives the terminal another size.
func (s *screenful) resize(cols, rows uint16) {
	s.t.Helper()
	s.mu.Lock()
	s.term.Resize(int(cols), int(rows))
	s.mu.Unlock()
	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGWINCH); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end and returns the exit code.
func (s *screenful) end() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("pml tui does not end:\n%s", s.text())
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// restored wants that the terminal is as it was: nothing that was switched on
// is still on.
func (s *screenful) restored() {
	s.t.Helper()
	raw := s.written()
	for mode, name := range map[string]string{
		"?1049": "the alternate screen", "?1002": "the mouse", "?1006": "the mouse's coordinates", "?1004": "focus reports", "?2004": "bracketed paste",
	} {
		if strings.LastIndex(raw, "\x1b["+mode+"h") > strings.LastIndex(raw, "\x1b["+mode+"l") {
			s.t.Errorf("%s is still on", name)
		}
	}
	if strings.LastIndex(raw, "\x1b[?25l") > strings.LastIndex(raw, "\x1b[?25h") {
		s.t.Error("the cursor is still hidden")
	}
	if after := s.settings(); after != s.before {
		s.t.Errorf("the terminal's settings are %s, they were %s", after, s.before)
	}
}
