//go:build unix

package pmltest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"
)

// Emulator is a pml tui on a terminal, and what that terminal shows.
type Emulator struct {
	T    testing.TB
	Cmd  *exec.Cmd
	tty  *os.File
	term vt10x.Terminal

	Mu      sync.Mutex
	Raw     strings.Builder // every byte that was written
	Before  string          // the terminal's settings
	changed chan struct{}   // closed and replaced with each write
	ended   chan struct{}   // closed when nothing more comes
}

// OnScreen starts a command on a terminal of its own, as a session of its own.
func (m *Machine) OnScreen(cols, rows uint16, cmd *exec.Cmd) *Emulator {
	m.T.Helper()
	s := &Emulator{T: m.T, Cmd: cmd, changed: make(chan struct{}), ended: make(chan struct{})}
	s.Cmd.Env = append(s.Cmd.Env, "TERM=xterm-256color", "LANG=C.UTF-8")
	s.term = vt10x.New(vt10x.WithSize(int(cols), int(rows)), vt10x.WithWriter(io.Discard))
	var end *os.File
	var err error
	if s.tty, end, err = pty.Open(); err != nil {
		m.T.Fatal(err)
	}
	defer end.Close()
	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		m.T.Fatal(err)
	}
	s.Before = s.Settings()
	s.Cmd.Stdin, s.Cmd.Stdout, s.Cmd.Stderr = end, end, end
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.Cmd.Start(); err != nil {
		m.T.Fatal(err)
	}
	go s.read()
	m.T.Cleanup(func() {
		_ = s.Cmd.Process.Kill() // most have ended
		_ = s.Cmd.Wait()
		_ = s.tty.Close()
		<-s.ended
	})
	return s
}

// Settings are those of the terminal, as they are now.
func (s *Emulator) Settings() string {
	s.T.Helper()
	state, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		s.T.Fatal(err)
	}
	return fmt.Sprintf("%+v", *state)
}

// Written is every byte that came.
func (s *Emulator) Written() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Raw.String()
}

func (s *Emulator) read() {
	defer close(s.ended)
	chunk := make([]byte, 64<<10)
	var rest []byte // of a character that came in two pieces: the emulator would drop it
	for {
		n, err := s.tty.Read(chunk)
		s.Mu.Lock()
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
		_, _ = s.term.Write(whole[:end])
		rest = whole[end:]
		s.Raw.Write(chunk[:n])
		close(s.changed)
		s.changed = make(chan struct{})
		s.Mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text is what the terminal shows.
func (s *Emulator) text() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.term.String()
}

// Shows waits until the terminal shows all of some texts.
func (s *Emulator) Shows(texts ...string) string {
	s.T.Helper()
	return s.Until("shows "+strings.Join(texts, ", "), func(text string) bool {
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
}

// Until waits until what the terminal shows has a property.
func (s *Emulator) Until(what string, ok func(text string) bool) string {
	s.T.Helper()
	hangs := time.After(Patience)
	for {
		s.Mu.Lock()
		text, changed := s.term.String(), s.changed
		s.Mu.Unlock()
		if ok(text) {
			return text
		}
		select {
		case <-changed:
		case <-s.ended:
			s.T.Fatalf("pml tui has ended; it never %s:\n%s", what, s.text())
		case <-hangs:
			s.T.Fatalf("pml tui never %s:\n%s", what, s.text())
		}
	}
}

// Types types, as a person does: a key after the other.
func (s *Emulator) Types(keys ...string) {
	s.T.Helper()
	for _, k := range keys {
		if _, err := s.tty.WriteString(k); err != nil {
			s.T.Fatal(err)
		}
	}
}

// Does presses a key again and again until the terminal shows a text: one that
// comes too early, while keys are kept quiet, does nothing.
func (s *Emulator) Does(key, text string) {
	s.T.Helper()
	s.Presses(key, text, 2*time.Second)
}

// Presses is does for a program that takes longer to heed a key.
func (s *Emulator) Presses(key, text string, every time.Duration) {
	s.T.Helper()
	again := time.NewTicker(every)
	defer again.Stop()
	hangs := time.After(Patience)
	s.Types(key)
	for !strings.Contains(s.text(), text) {
		s.Mu.Lock()
		changed := s.changed
		s.Mu.Unlock()
		select {
		case <-changed:
		case <-again.C:
			s.Types(key)
		case <-hangs:
			s.T.Fatalf("%q never led to %q:\n%s", key, text, s.text())
		}
	}
}

// Resize gives the terminal another size.
func (s *Emulator) Resize(cols, rows uint16) {
	s.T.Helper()
	s.Mu.Lock()
	s.term.Resize(int(cols), int(rows))
	s.Mu.Unlock()
	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		s.T.Fatal(err)
	}
	if err := s.Cmd.Process.Signal(syscall.SIGWINCH); err != nil {
		s.T.Fatal(err)
	}
}

// End waits for the end and returns the exit code.
func (s *Emulator) End() int {
	s.T.Helper()
	select {
	case <-s.ended:
	case <-time.After(Patience):
		s.T.Fatalf("pml tui does not end:\n%s", s.text())
	}
	_ = s.Cmd.Wait()
	return s.Cmd.ProcessState.ExitCode()
}

// Restored wants that the terminal is as it was: nothing that was switched on
// is still on.
func (s *Emulator) Restored() {
	s.T.Helper()
	raw := s.Written()
	for mode, name := range map[string]string{
		"?1049": "the alternate screen", "?1002": "the mouse", "?1006": "the mouse's coordinates", "?1004": "focus reports", "?2004": "bracketed paste",
	} {
		if strings.LastIndex(raw, "\x1b["+mode+"h") > strings.LastIndex(raw, "\x1b["+mode+"l") {
			s.T.Errorf("%s is still on", name)
		}
	}
	if strings.LastIndex(raw, "\x1b[?25l") > strings.LastIndex(raw, "\x1b[?25h") {
		s.T.Error("the cursor is still hidden")
	}
	if after := s.Settings(); after != s.Before {
		s.T.Errorf("the terminal's settings are %s, they were %s", after, s.Before)
	}
}
