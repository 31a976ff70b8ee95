//go:build unix

package main

import (
	"net"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/daemon"
)

// TestTUI_KeyRefused: a named server that refuses the key is shown as lost, and
// what waits on this machine can be seen and decided.
func TestTUI_KeyRefused(t *testing.T) {
	t.Parallel()
	there := newMachine(t, allowRec())
	there.ok("server", "key", "add", "ann")
	there.serving("--listen", "127.0.0.1:0")
	m := newMachine(t, allowRec())
	r := m.execute(8, asksOnce)
	s := m.tui(120, 35, "--server", there.status(0).Server.URL)
	s.shows("1 waiting", r.WorkflowID.Short(), "● local", "server lost")
	s.types("2", "\r")
	s.shows("rec:danger", "Deny")
	s.approves()
	waitFor(t, "the run to end", func() bool { return m.latest().State.Final() })
	m.exit(4, "workflows", "ls", "--server", there.status(0).Server.URL)
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
	m := newMachine(t, allowRec())
	s := m.tui(120, 35, "--server", url)
	s.shows("● local", "server lost")
}

// TestTUI_ServerStops: a server that a person stops stays stopped while a
// terminal is open.
func TestTUI_ServerStops(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.stopAtEnd()
	m.ok("execute", "--code", "return 5", "--detach", "--wait", "150s")
	s := m.tui(120, 35)
	s.shows("● local", "● server")
	m.ok("server", "stop")
	s.shows("server lost")
	// Long enough for the feed to look again some times.
	s.until("lost for longer", func(text string) bool {
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
	m := bareMachine(t)
	m.write(".pml.json", "{ this is none")
	m.tui(80, 24, "--demo").shows("release-notes")
	m.exit(13, "tui", "--plain")
	if out := m.exit(2, "tui", "--theme", "pink"); !strings.Contains(out.Stderr, "is not one of ansi, dark, light, modus") {
		t.Errorf("%s", out.Stderr)
	}
}
