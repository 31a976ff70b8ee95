package main

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

	"github.com/casys-ai/pml/cmd/pml/keeper"
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

// keeperOf waits until somebody waits for the end of a pml tui, and returns who.
func keeperOf(t *testing.T, tui int) (waits int) {
	t.Helper()
	waitFor(t, "a process that waits", func() bool {
		if found := children(t, tui, keeper.Command); len(found) == 1 {
			waits = found[0]
		}
		return waits != 0
	})
	return waits
}

// ended waits until a process is not there any more.
func ended(t *testing.T, pid int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("the end of %d", pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// TestTUI_GivenBack: whatever ends it at once, the terminal is as it was, and what
// a crash says can be read.
func TestTUI_GivenBack(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			m := bareMachine(t)
			tui := m.tui(80, 24, "--demo")
			tui.shows("release-notes")
			waits := keeperOf(t, tui.cmd.Process.Pid)
			if tui.settings() == tui.before {
				t.Fatal("the settings are those from before")
			}
			send(t, tui.cmd.Process.Pid, s)
			tui.end()
			ended(t, waits)
			tui.restored()
			_, after, _ := strings.Cut(tui.written(), leavesScreen)
			if crash := s == syscall.SIGQUIT || s == syscall.SIGABRT; strings.Contains(after, "goroutine ") != crash || strings.Contains(after, leavesScreen) {
				t.Errorf("after the screen was given back: %q", after)
			}
		})
	}
}

// TestTUI_GivenBackOnce: who leaves gives the terminal back himself, and nobody
// is left behind.
func TestTUI_GivenBackOnce(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	tui := m.tui(80, 24, "--demo")
	tui.shows("release-notes")
	waits := keeperOf(t, tui.cmd.Process.Pid)
	tui.types("\x03")
	if code := tui.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if err := syscall.Kill(waits, 0); err == nil {
		t.Error("somebody still waits")
	}
	tui.restored()
	if n := strings.Count(tui.written(), leavesScreen); n != 1 {
		t.Errorf("the screen was given back %d times", n)
	}
}

// inShell starts an interactive shell on a terminal, and pml tui from it.
func (m *machine) inShell(t *testing.T) (s *screenful, tui int) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(cancel)
	pml := m.command(ctx, "tui", "--demo")
	cmd := exec.CommandContext(ctx, bash, "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = pml.Dir, append(pml.Env, "PS1=ready> ", "HISTFILE=", "PML="+pml.Path)
	s = m.onScreen(80, 24, cmd)
	s.shows("ready> ")
	s.types("\"$PML\" tui --demo\n")
	s.shows("release-notes")
	found := children(t, s.cmd.Process.Pid, "tui")
	if len(found) != 1 {
		t.Fatalf("the shell has %d", len(found))
	}
	t.Cleanup(func() { _ = syscall.Kill(found[0], syscall.SIGKILL) }) // most have ended
	return s, found[0]
}

// answers wants that the shell answers at its prompt.
func (s *screenful) answers(n int) {
	s.t.Helper()
	s.types(fmt.Sprintf("echo this is $((%d + 1))\n", n))
	s.shows(fmt.Sprintf("this is %d", n+1))
}

// TestTUI_Suspended: a terminal that was given back for a while is the shell's:
// nothing is written to it, whatever happens to the program; and one that was
// taken again is given back again.
func TestTUI_Suspended(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{false, true} {
		t.Run(map[bool]string{false: "stopped", true: "resumed"}[resumed], func(t *testing.T) {
			t.Parallel()
			m := bareMachine(t)
			s, tui := m.inShell(t)
			waits := keeperOf(t, tui)
			s.types("\x1a")
			s.shows("Stopped")
			s.answers(1)
			want := 1
			if resumed {
				s.types("fg\n")
				s.shows("Workflows")
				want = 2
			}
			if syscall.Kill(waits, 0) != nil {
				t.Error("nobody waits any more")
			}
			send(t, tui, syscall.SIGKILL)
			ended(t, waits)
			s.answers(2)
			if n := strings.Count(s.written(), leavesScreen); n != want {
				t.Errorf("the screen was given back %d times, want %d", n, want)
			}
			s.types("exit\n")
			s.end()
			s.restored()
		})
	}
}
