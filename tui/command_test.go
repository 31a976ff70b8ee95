package tui

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/tui/screen"
)

// TestModel_CommandIsSeen: a command that takes its time is said to run for as
// long as it does, leaving asks first, and esc stops it.
func TestModel_CommandIsSeen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *Options) {
		o.Command = func(ctx context.Context, _ []string, _ io.Writer) int {
			<-ctx.Done() // hangs the test unless it is stopped
			return 130
		}
	})
	h.hold = true
	h.want(screen.Command{Line: "execute --code 'return 1'"})
	h.shows("running: pml execute --code 'return 1'")
	h.tick(time.Second)
	h.send(tea.KeyMsg{Type: tea.KeyDown}) // takes a message away
	h.shows("running: pml execute")
	for range 10 {
		h.tick(time.Second)
		h.shows("running: pml execute")
	}
	h.tick(time.Minute)
	h.tick(time.Second)
	h.shows("running: pml execute")
	h.want(screen.Quit{})
	h.shows("still runs here and would be stopped")
	if n := len(h.held); n != 1 {
		t.Fatalf("%d commands, want the program's alone", n)
	}
	h.send(tea.KeyMsg{Type: tea.KeyEsc})
	h.shows("stopping: pml execute")
	h.release()
	if h.quit || len(h.m.commands.running) != 0 || h.m.commands.leaving {
		t.Errorf("quit %t, %d commands", h.quit, len(h.m.commands.running))
	}
	h.want(screen.Quit{})
	if !h.quit {
		t.Error("did not quit once the command had ended")
	}
}

// TestModel_QuitStopsCommands: whoever wants to leave a second time does.
func TestModel_QuitStopsCommands(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *Options) {
		o.Command = func(context.Context, []string, io.Writer) int { return 0 }
	})
	h.hold = true
	h.want(screen.Command{Line: "execute x.ts"})
	h.want(screen.Quit{})
	h.hold = false
	h.want(screen.Quit{})
	if !h.quit {
		t.Error("did not quit")
	}
}

// TestModel_NoEndlessCommand: what never ends by itself is not begun.
func TestModel_NoEndlessCommand(t *testing.T) {
	t.Parallel()
	ran := ""
	h := newHarness(t, func(o *Options) {
		o.Command = func(_ context.Context, args []string, _ io.Writer) int {
			ran = strings.Join(args, " ")
			return 0
		}
	})
	for _, line := range []string{"events --follow", "events -f", "--json events -f", "workflows watch 7f3a", "wf watch 7f3a", "workflows logs 7f3a --follow"} {
		h.want(screen.Command{Line: line})
		h.shows("nothing was run: what goes on and on")
		if ran != "" {
			t.Errorf("%s ran", ran)
		}
	}
	for _, line := range []string{"events", "workflows ls", "execute watch.ts --detach"} {
		if h.want(screen.Command{Line: line}); ran != line {
			t.Errorf("%q did not run", line)
		}
	}
}

// TestModel_CommandThatAsks: a command that asks a person gets the terminal to ask on.
func TestModel_CommandThatAsks(t *testing.T) {
	t.Parallel()
	for line, lent := range map[string]bool{"permissions rm fs:write_file": true, "permissions allow fs:read": true, "trust": true, "init --host claude-code": true, "uninstall": true, "config pin": true, "config path": false, "approve": true, "resume": true, "flows rm docs": true, "flows edit docs": true, "permissions ls": false, "servers ls": false} {
		behind, lend := false, []string(nil)
		h := newHarness(t, func(o *Options) {
			o.Command = func(context.Context, []string, io.Writer) int { behind = true; return 0 }
			o.Self = func(_ context.Context, args []string, _ bool) *exec.Cmd { lend = args; return exec.Command("true") }
		})
		h.want(screen.Command{Line: line})
		if got := strings.Join(lend, " "); behind == lent || lent && got != line {
			t.Errorf("%s: behind %t, lent to %q", line, behind, got)
		}
	}
}

// TestModel_CommandRuns: a run that is begun from here waits for what is decided here.
func TestModel_CommandRuns(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"run a.ts": "run --on-approval wait a.ts", "execute a.ts --on-approval exit": "execute a.ts --on-approval exit",
		"run a.ts --detach": "run a.ts --detach", "tools ls": "tools ls",
	} {
		got := ""
		h := newHarness(t, func(o *Options) {
			o.Command = func(_ context.Context, args []string, _ io.Writer) int { got = strings.Join(args, " "); return 0 }
		})
		h.want(screen.Command{Line: line})
		if got != want {
			t.Errorf("%s ran %q", line, got)
		}
	}
}
