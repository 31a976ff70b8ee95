//go:build unix

package server_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// eventLines reads whole lines of events.
func eventLines(t testing.TB, text string) []core.Event {
	t.Helper()
	var out []core.Event
	for line := range strings.Lines(text) {
		var e core.Event
		if !strings.HasSuffix(line, "\n") {
			break // it is still written
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// TestEvents_Follow: who follows before there is a server has the events of one
// that is started then, and of its successor, each once; and begins again after
// the last number of either half.
func TestEvents_Follow(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	p := m.Start("events", "--follow", "--json")
	complete := func(id core.ID, side core.Side) {
		t.Helper()
		pmltest.WaitFor(t, "the end of "+string(id), func() bool {
			for _, e := range eventLines(t, p.Out.String()) {
				if e.RunID == id && e.Type == core.EventWorkflowComplete && e.Side == side {
					return true
				}
			}
			return false
		})
	}
	complete(m.Execute(0, "return 1").WorkflowID, core.SideClient)
	complete(m.Execute(0, "return 2", "--detach", "--wait", "150s").WorkflowID, core.SideServer)
	m.OK("server", "stop")
	complete(m.Execute(0, "return 3", "--detach", "--wait", "150s").WorkflowID, core.SideServer)

	seen := map[string]bool{}
	last := map[core.Side]int64{}
	for _, e := range eventLines(t, p.Out.String()) {
		name := fmt.Sprint(e.Side, e.Seq)
		if seen[name] || e.Seq <= last[e.Side] {
			t.Errorf("%s %d after %d", e.Side, e.Seq, last[e.Side])
		}
		seen[name], last[e.Side] = true, e.Seq
	}
	since := fmt.Sprintf("client:%d,server:%d", last[core.SideClient], last[core.SideServer]-1)
	rest := eventLines(t, m.OK("events", "--json", "--since", since).Stdout)
	if len(rest) != 1 || rest[0].Side != core.SideServer || rest[0].Seq != last[core.SideServer] {
		t.Errorf("after %s: %+v", since, rest)
	}
	if f := m.Exit(2, "events", "--since", "1", "--json").Fault(); strings.Join(f.Next, " ") != "pml events --since client:1" {
		t.Errorf("%+v", f)
	}
}

// TestNamed_Refused: a named server whose address makes no sense, or that
// refuses the key, is an error; one that is away makes a list shorter.
func TestNamed_Refused(t *testing.T) {
	t.Parallel()
	there := pmltest.NewMachine(t, pmltest.AllowRec())
	key := strings.TrimSpace(there.OK("server", "key", "add", "ann").Stdout)
	there.Serving("--listen", "127.0.0.1:0")
	url := there.Status(0).Server.URL

	here := pmltest.NewMachine(t, pmltest.AllowRec())
	here.Execute(0, "return 1")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	away := ln.Addr().String() // nobody answers there: it is closed now, as nobody accepts
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{{"workflows", "ls"}, {"approvals", "ls"}, {"events"}} {
		args := func(more ...string) []string { return append(append([]string{}, list...), more...) }
		here.Exit(4, args("--server", url)...)
		here.Exit(13, args("--server", "localhost")...)
		here.Exit(2, args("--server", "")...)
		out := here.OK(args("--json", "--server", "http://"+away)...)
		pmltest.Wants(t, out.Stdout+out.Stderr, "does not answer")
	}
	var page api.Page[core.Run]
	if here.OK("workflows", "ls", "--json", "--server", "http://"+away).Decode(&page); len(page.Items) != 1 || len(page.Warnings) != 1 {
		t.Errorf("%+v", page)
	}
	// The status is that of the server that the environment names.
	here.Setenv("PML_SERVER", url)
	here.Setenv("PML_API_KEY", key)
	if s := here.Status(0); !s.Running || s.Server.Version == "" {
		t.Errorf("%+v", s)
	}
}

// TestDetach_Again: the key of a run that has ended gives its id again.
func TestDetach_Again(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	args := []string{"execute", "--code", "return 5", "--detach", "--idempotency-key", "k"}
	if out := m.OK(append(args, "--wait", "150s")...); out.Stdout != "5\n" {
		t.Errorf("with --wait: %q", out.Stdout)
	}
	id := strings.TrimSpace(m.OK(args...).Stdout)
	if out := m.OK("workflows", "result", id); out.Stdout != "5\n" {
		t.Errorf("%q: %q", id, out.Stdout)
	}
}
