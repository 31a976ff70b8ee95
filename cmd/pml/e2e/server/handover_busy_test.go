//go:build unix

package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestHandOver_Busy: many commands of a newer pml at once, with those of an
// older one between them, put one newer server in the place of the older. Calls
// that are under way end in the older server, and what follows runs in the
// newer; who waits for a run, or reads the events, notices nothing.
//
// Scenario 36.
func TestHandOver_Busy(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "builds two versions of pml")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	older := func(args ...string) *pmltest.Process { m.Version = "v1.0.0"; return m.Start(args...) }
	newer := func(args ...string) *pmltest.Process { m.Version = "v1.1.0"; return m.Start(args...) }

	var waiters, commands []*pmltest.Process
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range append(waiters, commands...) {
				t.Logf("%q: %s%s", p.Args, p.Out.String(), p.Err.String())
			}
			t.Logf("the servers said:\n%s", pmltest.ReadFile(t, daemon.LogFile(m.Home)))
		}
	})
	want := []string{}
	for i := range 4 {
		waiters = append(waiters, older("execute", "--detach", "--wait", "150s", "--code", fmt.Sprintf(
			`const a = await mcp.rec.inc({key: "a%d"}); await mcp.rec.hold({file: %q}); return a.count + (await mcp.rec.inc({key: "b%[1]d"})).count`, i, gate)))
		want = append(want, fmt.Sprintf(`inc {"key":"a%d"}`, i), fmt.Sprintf(`hold {"file":%q}`, gate), fmt.Sprintf(`inc {"key":"b%d"}`, i))
	}
	pmltest.WaitFor(t, "the runs are in the middle", func() bool { return m.Count("hold") == len(waiters) })
	var waiting []string
	for i := range 4 {
		waiting = append(waiting, string(older("execute", "--detach", "--wait", "150s", "--json", "--code",
			fmt.Sprintf(`return (await mcp.rec.danger({x: "d%d"})).done`, i)).Wait().Want(8).Result().WorkflowID))
		want = append(want, fmt.Sprintf(`danger {"x":"d%d"}`, i))
	}
	old, _ := daemon.ReadRecord(m.Home)
	o := client.Options{Socket: old.Socket, Workspace: m.WS, Clock: pmltest.Clock{}}
	events := readEvents(t, mustClient(t, o))
	pmltest.WaitFor(t, "the reader reads", func() bool { return len(events.all()) > 0 })

	for range 3 {
		commands = append(commands, newer("approvals", "ls"), newer("execute", "--detach", "--wait", "150s", "--code", "return 1"), older("workflows", "ls"))
	}
	pmltest.WaitFor(t, "the older server stops", func() bool {
		return strings.Contains(pmltest.ReadFile(t, daemon.LogFile(m.Home)), "the server stops")
	})
	pmltest.Touch(t, gate)
	for _, p := range commands {
		p.Wait().Want(0)
	}
	for _, p := range waiters {
		if out := p.Wait().Want(0).Stdout; out != "2\n" {
			t.Errorf("who waited through the change got %q", out)
		}
	}
	now := m.Status(0).Server
	if now.Version != "v1.1.0" || now.PID == old.PID || serversStarted(m) != 2 {
		t.Errorf("%d servers were started, the last is %+v", serversStarted(m), now)
	}
	for i, id := range waiting {
		if out := m.OK("continue", id, "--approve"); out.Stdout != fmt.Sprintf("d%d\n", i) {
			t.Errorf("the approval %d came to %q", i, out.Stdout)
		}
	}
	got := m.Calls()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	var kept []core.Event
	if err := mustClient(t, o).Events(t.Context(), "", api.Since{}, false, func(e core.Event) error {
		kept = append(kept, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	pmltest.WaitFor(t, "the reader has all events", func() bool { return len(events.all()) >= len(kept) })
	if diff := cmp.Diff(lines(kept), lines(events.all())); diff != "" {
		t.Errorf("events (-kept +read):\n%s", diff)
	}
}
