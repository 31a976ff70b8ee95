package terminal_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

const leavesScreen = "\x1b[?1049l"

// children are the processes that a process has started, under a command of pml.
func children(t *testing.T, parent int, command string) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// After the name, which is in brackets: the state and the parent.
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if f := bytes.Fields(rest); len(f) < 2 || string(f[1]) != strconv.Itoa(parent) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if strings.Contains(string(line), "\x00"+command+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, pid)
		}
	}
	return found
}

func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// TestTUI_Hangup: a terminal that goes away ends pml tui in order: the settings
// are as they were, and the screen was given back once.
func TestTUI_Hangup(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	tui := startTUI(m, 80, 24, "--demo")
	tui.Shows("release-notes")
	if tui.Settings() == tui.Before {
		t.Fatal("the settings are those from before")
	}
	send(t, tui.Cmd.Process.Pid, syscall.SIGHUP)
	tui.End()
	tui.Restored()
	if n := strings.Count(tui.Written(), leavesScreen); n != 1 {
		t.Errorf("the screen was given back %d times", n)
	}
}

// TestTUI_CrashRecorded: what the Go runtime says when it ends pml tui is in the
// home afterwards, readable for its owner only.
func TestTUI_CrashRecorded(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	tui := startTUI(m, 80, 24)
	tui.Shows("1 Runs")
	send(t, tui.Cmd.Process.Pid, syscall.SIGABRT)
	tui.End()
	name := filepath.Join(m.Home, "tui-crash.log")
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), "SIGABRT") || !strings.Contains(string(text), "goroutine ") {
		t.Errorf("the crash says %q, %v", text, err)
	}
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
}

// inShell starts an interactive shell on a terminal, and pml tui from it.
func inShell(m *pmltest.Machine, t *testing.T) (s *pmltest.Emulator, tui int) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.LongPatience)
	t.Cleanup(cancel)
	pml := m.Command(ctx, "tui", "--demo")
	cmd := exec.CommandContext(ctx, bash, "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = pml.Dir, append(pml.Env, "PS1=ready> ", "HISTFILE=", "PML="+pml.Path)
	s = m.OnScreen(80, 24, cmd)
	s.Shows("ready> ")
	s.Types("\"$PML\" tui --demo\n")
	s.Shows("release-notes")
	found := children(t, s.Cmd.Process.Pid, "tui")
	if len(found) != 1 {
		t.Fatalf("the shell has %d", len(found))
	}
	t.Cleanup(func() { _ = syscall.Kill(found[0], syscall.SIGKILL) }) // most have ended
	return s, found[0]
}

// answers wants that the shell answers at its prompt.
func answers(s *pmltest.Emulator, n int) {
	s.T.Helper()
	s.Types(fmt.Sprintf("echo this is $((%d + 1))\n", n))
	s.Shows(fmt.Sprintf("this is %d", n+1))
}

// TestTUI_Suspended: while pml tui is stopped the terminal is the shell's; it takes
// the screen again with fg, and leaves the terminal as it was at the end.
func TestTUI_Suspended(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	s, _ := inShell(m, t)
	s.Types("\x1a")
	s.Shows("Stopped")
	answers(s, 1)
	s.Types("fg\n")
	s.Shows("1 Runs")
	s.Types("\x03")
	s.Shows("ready> ") // what is typed earlier could be read by pml
	answers(s, 2)
	if n := strings.Count(s.Written(), leavesScreen); n != 2 {
		t.Errorf("the screen was given back %d times, want 2", n)
	}
	s.Types("exit\n")
	s.End()
	s.Restored()
}
