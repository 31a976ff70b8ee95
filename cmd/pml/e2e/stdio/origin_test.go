//go:build unix

package stdio_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestStdio_Origin: what an agent asks for and decides is put down to its host, in the
// run, the approval and the audit log, and the run has a name wherever it is listed.
func TestStdio_Origin(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	h := startHost(m)
	asked := h.result(h.tool("execute", map[string]any{"code": pmltest.AsksOnce}))
	if asked.Status != api.StatusApprovalRequired {
		t.Fatalf("%+v", asked)
	}
	h.result(h.tool("approval_response", map[string]any{"workflow_id": asked.WorkflowID, "checkpoint_id": asked.CheckpointID, "approved": false}))
	h.result(h.tool("execute", map[string]any{"name": "tidy up", "code": "return 1"}))
	h.close()

	by := core.Actor{Via: core.ViaMCP, Client: core.Client{Name: "host", Version: "1"}}
	same := func(what string, got core.Actor, name, want string) {
		t.Helper()
		if got.Who = ""; got != by || name != want {
			t.Errorf("%s: %q by %+v", what, name, got)
		}
	}
	runs := m.Runs()
	if len(runs) != 2 {
		t.Fatalf("%+v", runs)
	}
	same("the newest run", runs[0].RequestedBy, runs[0].Name, "tidy up")
	same("the first run", runs[1].RequestedBy, runs[1].Name, "inc a")
	for _, a := range m.Approvals("--all") {
		same("the approval", a.RequestedBy, a.RunName, "inc a")
		same("its decision", a.DecidedBy.Actor, a.RunName, "inc a")
	}
	var rows api.Page[core.AuditRow]
	m.OK("audit", "ls", "--tool", "rec:danger", "--json").Decode(&rows)
	if len(rows.Items) != 1 {
		t.Fatalf("%+v", rows.Items)
	}
	same("the row", rows.Items[0].By, rows.Items[0].RunName, "inc a")
	for _, list := range [][]string{{"runs", "ls"}, {"audit", "ls"}, {"approvals", "show", string(asked.CheckpointID)}, {"runs", "show", string(asked.WorkflowID)}, {"events"}} {
		if out := m.OK(list...).Stdout; !strings.Contains(out, "inc a") || list[0] != "events" && !strings.Contains(out, "agent host") {
			t.Errorf("%v does not say what and whose it is:\n%s", list, out)
		}
	}
}

// TestStdio_Connected: hosts that have only shaken hands are listed by pml status and in
// the terminal while they are there; one that is killed is gone.
func TestStdio_Connected(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	one := hostNamed(m, "first-host", map[string]any{})
	two := hostNamed(m, "other\x1b[2Jhost", map[string]any{})
	connected := func() (names []string) {
		var s struct{ Connected []api.ConnectedHost }
		m.OK("status", "--json").Decode(&s)
		for _, c := range s.Connected {
			names = append(names, c.Client.Name)
			if c.Transport != "stdio" || c.Client.Version != "1" || c.Workspace != m.WS || c.PID != one.cmd.Process.Pid && c.PID != two.cmd.Process.Pid {
				t.Errorf("%+v", c)
			}
		}
		return names
	}
	if got := connected(); len(got) != 2 || got[0] != "first-host" {
		t.Fatalf("%q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.LongPatience)
	defer cancel()
	s := m.OnScreen(100, 30, m.Command(ctx, "tui"))
	s.Shows("Nothing has run yet")
	s.Types("8")
	s.Shows("2 connected", "first-host 1", `other\x1b[2Jhost`, "stdio "+strconv.Itoa(one.cmd.Process.Pid), "stdio "+strconv.Itoa(two.cmd.Process.Pid))
	if err := two.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = two.cmd.Wait()
	s.Shows("1 connected", "first-host 1")
	one.close()
	s.Shows("0 connected", "None is connected")
	s.Types("q")
	if code := s.End(); code != 0 || len(connected()) != 0 {
		t.Errorf("exit code %d, connected %q", code, connected())
	}
}

// TestStdio_ServersElsewhere: a server that runs in the process of one host is shown
// with its owner to others, and not once that is killed.
func TestStdio_ServersElsewhere(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	h := hostNamed(m, "first-host", map[string]any{})
	h.result(h.tool("execute", map[string]any{"code": `return await mcp.rec.inc({key: "k"})`}))
	elsewhere := func() (list []api.ServerProcess) {
		var page api.Page[api.ServerInfo]
		m.OK("servers", "ls", "--json").Decode(&page)
		for _, s := range page.Items {
			list = append(list, s.Elsewhere...)
		}
		return list
	}
	pmltest.WaitFor(t, "the process to be listed", func() bool { return len(elsewhere()) == 1 })
	if p := elsewhere()[0]; p.Server != "rec" || p.Owner != h.cmd.Process.Pid || p.PID == p.Owner || p.Client.Name != "first-host" {
		t.Errorf("%+v", p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.LongPatience)
	defer cancel()
	s := m.OnScreen(80, 24, m.Command(ctx, "tui"))
	s.Shows("complete")
	s.Types("7")
	s.Shows("elsewhere", "of pml "+strconv.Itoa(h.cmd.Process.Pid)+" (first-host)")
	s.Types("R")
	s.Shows("rec answers", "running")
	s.Types("q")
	s.End()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	if got := elsewhere(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
