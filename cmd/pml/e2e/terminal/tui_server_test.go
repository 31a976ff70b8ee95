//go:build unix

package terminal_test

import (
	"net"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/daemon"
)

// TestTUI_KeyRefused: a named server that refuses the key is shown as lost, and
// what waits on this machine can be seen and decided.
func TestTUI_KeyRefused(t *testing.T) {
	t.Parallel()
	there := pmltest.NewMachine(t, pmltest.AllowRec())
	there.OK("server", "key", "add", "ann")
	there.Serving("--listen", "127.0.0.1:0")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, pmltest.AsksOnce)
	s := startTUI(m, 120, 35, "--server", there.Status(0).Server.URL)
	s.Shows("1 waiting", r.WorkflowID.Short(), "● local", "server lost")
	s.Types("2", "\r")
	s.Shows("rec:danger", "Deny")
	approves(s)
	pmltest.WaitFor(t, "the run to end", func() bool { return m.Latest().State.Final() })
	m.Exit(4, "workflows", "ls", "--server", there.Status(0).Server.URL)
}

// TestTUI_NamedAway: a named server that nobody answers for is shown as lost from
// the start.
func TestTUI_NamedAway(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	s := startTUI(m, 120, 35, "--server", url)
	s.Shows("● local", "server lost")
}

// TestTUI_ServerStops: a server that a person stops stays stopped while a
// terminal is open.
func TestTUI_ServerStops(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	m.OK("execute", "--code", "return 5", "--detach", "--wait", "150s")
	s := startTUI(m, 120, 35)
	s.Shows("● local", "● server")
	m.OK("server", "stop")
	s.Shows("server lost")
	// Long enough for the feed to look again some times.
	s.Until("lost for longer", func(text string) bool {
		_, after, _ := strings.Cut(text, "server lost ")
		return strings.HasPrefix(after, "7") || strings.HasPrefix(after, "8") || strings.HasPrefix(after, "9")
	})
	if rec, ok := daemon.ReadRecord(m.Home); ok {
		t.Errorf("a server is there: %+v", rec)
	}
}

// TestTUI_DemoNeedsNothing: a demonstration runs whatever the configuration says.
func TestTUI_DemoNeedsNothing(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Write(".pml.json", "{ this is none")
	startTUI(m, 80, 24, "--demo").Shows("release-notes")
	m.Exit(13, "tui", "--plain")
	if out := m.Exit(2, "tui", "--theme", "pink"); !strings.Contains(out.Stderr, "is not one of auto, ansi, dark, light, modus") {
		t.Errorf("%s", out.Stderr)
	}
}
