package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// hang is when a test gives up: what it waits for will never be.
const hang = 30 * time.Second

// session is a terminal with a shell on it.
type session struct {
	t     *testing.T
	tty   *os.File
	shell *exec.Cmd

	mu   sync.Mutex
	news *sync.Cond
	raw  bytes.Buffer
}

func newSession(t *testing.T) *session {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	t.Cleanup(cancel)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, shell: exec.CommandContext(ctx, bash, "--norc", "--noprofile", "-i")}
	s.news = sync.NewCond(&s.mu)
	s.shell.Env = append(os.Environ(), "PS1=ready> ", "HISTFILE=", "TERM=xterm", "SELF="+self)
	if s.tty, err = pty.Start(s.shell); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := s.tty.Read(buf)
			s.mu.Lock()
			s.raw.Write(buf[:n])
			s.news.Broadcast()
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.shell.Process.Kill() // it may have ended
		_ = s.shell.Wait()
		s.tty.Close()
		<-read
	})
	s.sees(0, "ready> ")
	return s
}

// sees waits for a text after the first bytes, and returns what came so far.
func (s *session) sees(from int, pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	late := false
	timer := time.AfterFunc(hang, func() { s.mu.Lock(); late = true; s.news.Broadcast(); s.mu.Unlock() })
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !re.Match(s.raw.Bytes()[from:]) {
		if late {
			s.t.Fatalf("it never showed %q: %q", pattern, s.raw.Bytes()[from:])
		}
		s.news.Wait()
	}
	return s.raw.String()[from:]
}

func (s *session) came() int { s.mu.Lock(); defer s.mu.Unlock(); return s.raw.Len() }

func (s *session) types(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) settings() unix.Termios {
	s.t.Helper()
	state, err := unix.IoctlGetTermios(int(s.tty.Fd()), getTermios)
	if err != nil {
		s.t.Fatal(err)
	}
	return *state
}

// waits starts the process that waits as a job of the shell, and returns its
// pipe and its id.
func (s *session) waits() (*os.File, int) {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		s.t.Fatal(err)
	}
	// For reading too: opening it must not wait.
	pipe, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { pipe.Close() })
	s.types("\"$SELF\" " + Command + " < " + name + " 3<>/dev/tty & echo job $!.\n")
	job := regexp.MustCompile(`job (\d+)\.\r`).FindStringSubmatch(s.sees(0, `job \d+\.\r[^>]*ready> `))[1]
	pid, err := strconv.Atoi(job)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it has ended
	// Its shell has opened the pipe for it by then.
	s.until("it starts", func() bool { return strings.Contains(commandLine(pid), Command) })
	return pipe, pid
}

// foreground starts a program in the foreground and returns its group.
func (s *session) foreground(settings string) int {
	s.t.Helper()
	from := s.came()
	s.types("sh -c 'stty " + settings + "; echo group $$.; exec sleep 300'\n")
	m := regexp.MustCompile(`group (\d+)\.`).FindStringSubmatch(s.sees(from, `group \d+\.`))
	group, err := strconv.Atoi(m[1])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	return group
}

// TestRestore: who has the terminal when the program has ended decides what is
// restored.
func TestRestore(t *testing.T) {
	t.Parallel()
	const wild = "raw -echo"
	tests := []struct {
		name                   string
		settings               string // of the program in the foreground; empty: the shell has the terminal
		ours                   bool   // it is the program that ended
		said                   string
		left, settled, unpaste bool
		crash                  string // shown
	}{
		{name: "as it was left", settings: wild, ours: true, said: "+", left: true, settled: true, unpaste: true},
		{name: "with a crash", settings: wild, ours: true, said: "+panic: \x1b]0;x\x07\nhere", left: true, settled: true, unpaste: true, crash: "panic: \\x1b]0;x\\x07\r\nhere"},
		{name: "given back", settings: wild, ours: true, said: "+-"},
		{name: "taken again", settings: wild, ours: true, said: "+-+", left: true, settled: true, unpaste: true},
		{name: "other settings", settings: "sane", ours: true, said: "+"},
		{name: "another program", settings: wild, said: "+"},
		{name: "the shell", said: "+", left: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			pipe, waits := s.waits()
			terms := terms{Before: s.settings(), Leave: "<left>", Shell: s.shell.Process.Pid, Group: 1}
			terms.Before.Cc[unix.VEOF] = 'E' // nobody else sets it
			if tt.settings != "" {
				if group := s.foreground(tt.settings); tt.ours {
					terms.Group = group
				}
			}
			line, err := json.Marshal(terms)
			if err != nil {
				t.Fatal(err)
			}
			from, before := s.came(), s.settings()
			if _, err := pipe.WriteString(string(line) + "\n" + tt.said); err != nil {
				t.Fatal(err)
			}
			pipe.Close()
			text := s.result(from, waits)
			if got := strings.Contains(text, "<left>"); got != tt.left {
				t.Errorf("the screen was given back: %v, want %v: %q", got, tt.left, text)
			}
			if got := strings.Contains(text, pasteOff+"<left>"); got != tt.unpaste {
				t.Errorf("paste was switched off: %v, want %v: %q", got, tt.unpaste, text)
			}
			if !strings.Contains(text, tt.crash) || tt.crash == "" && strings.Contains(text, "crashed") {
				t.Errorf("want %q: %q", tt.crash, text)
			}
			want := before
			if tt.settled {
				want = terms.Before
			}
			if after := s.settings(); after != want {
				t.Errorf("the settings are %+v, want %+v", after, want)
			}
		})
	}
}

// result is what was written until the process that waits had ended.
func (s *session) result(from, waits int) string {
	s.t.Helper()
	s.until("it ends", func() bool { return commandLine(waits) == "" })
	// What is written now comes after all that was.
	end, err := os.OpenFile("/proc/"+strconv.Itoa(s.shell.Process.Pid)+"/fd/0", os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer end.Close()
	if _, err := end.WriteString("<end>"); err != nil {
		s.t.Fatal(err)
	}
	return s.sees(from, "<end>")
}

// commandLine is that of a process, empty when it has ended: its shell may not
// have looked at its end yet.
func commandLine(pid int) string {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // none: it is gone
	return string(line)
}

// until waits until something is so that nothing tells.
func (s *session) until(what string, is func() bool) {
	s.t.Helper()
	hangs := time.After(hang)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-hangs:
			s.t.Fatalf("%s never", what)
		}
	}
}

// TestKeeper_NoTerminal: without a terminal nothing is started, and nothing is
// waited for.
func TestKeeper_NoTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := New(f, f, "")
	k.Taken(true)
	k.Start()
	if k.pipe != nil {
		t.Error("somebody waits")
	}
	k.Taken(false)
	k.Close()
	k.Start()
}
