package service_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// configure writes a configuration with servers and trusts it.
func (m *machine) configure(c *client, more map[string]any, servers map[string]any) {
	m.t.Helper()
	file := map[string]any{"mcpServers": servers}
	maps.Copy(file, more)
	raw, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(".pml.json", string(raw))
	m.clock.forward(time.Second) // a look at the files counts for a moment
	c.trust()
}

func states(list []api.ServerInfo) map[string]api.ServerState {
	out := map[string]api.ServerState{}
	for _, s := range list {
		out[s.Name] = s.State
	}
	return out
}

func TestServers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	keyed := mirror()
	keyed["env"] = map[string]any{"KEY": ""}
	servers := map[string]any{"mirror": mirror(), "keyed": keyed, "gone": map[string]any{"command": filepath.Join(m.ws, "gone")}}
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	m.write(".pml.json", string(raw))
	list, err := c.Servers(c.ctx())
	if got := states(list); err != nil || got["mirror"] != api.ServerNotTrusted || got["workspace"] != api.ServerReady {
		t.Fatalf("%v %+v", err, got)
	}
	c.trust()
	list, err = c.CheckServers(c.ctx())
	got := states(list)
	if err != nil || got["mirror"] != api.ServerReady || got["keyed"] != api.ServerNeeds || got["gone"] != api.ServerFailed {
		t.Fatalf("%v %+v", err, list)
	}
	i := slices.IndexFunc(list, func(s api.ServerInfo) bool { return s.Name == "mirror" })
	if s := list[i]; s.Tools != 2 || s.Health == nil || !strings.Contains(s.Health.Server, "mirror") {
		t.Errorf("%+v", s)
	}
	_, err = c.CheckServers(c.ctx(), "miror")
	if e := code(t, err, core.CodeNoSuchTool); !strings.Contains(e.Message, "mirror") {
		t.Error(e)
	}
	if r, err := c.LockServers(c.ctx(), true); err != nil || r.Written || !slices.Equal(r.Changed, []string{"gone"}) {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := c.Purge(c.ctx(), "mirror"); err != nil {
		t.Error(err)
	}
	code(t, c.ConnectServer(c.ctx(), "mirror", func(string) {}), core.CodeInvalidArguments)
	_, err = c.UpdateServer(c.ctx(), api.UpdateRequest{Name: "mirror"}, func(string) {})
	code(t, err, core.CodeInvalidArguments)
	m.setPin(rightPin)
	for _, pin := range []string{"", "letmein1"} {
		_, err = c.UpdateServer(c.ctx(), api.UpdateRequest{Name: "mirror", Digest: "sha256:x", Pin: pin}, func(string) {})
		code(t, err, core.CodeAuth)
	}
}

// What a server needs comes with the command that shows and decides it.
func TestServers_NeedsNameACommand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.configure(c, nil, map[string]any{"demo": map[string]any{"command": "npx", "args": []string{"-y", "demo"}}})
	list, err := c.Servers(c.ctx())
	i := slices.IndexFunc(list, func(s api.ServerInfo) bool { return s.Name == "demo" })
	if err != nil || i < 0 || list[i].State != api.ServerNeeds || !slices.Equal(list[i].Next, []string{"pml", "servers", "install", "demo"}) {
		t.Errorf("%v %+v", err, list)
	}
}

// A person accepts what a server is now, at a terminal or by the PIN, and the audit log
// says how; nobody else does.
func TestServers_Accept(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.write(".env", "LAST=x\n")
	m.configure(c, nil, map[string]any{"mirror": mirror("${LAST}")})
	need := func() []api.ServerNeed {
		t.Helper()
		list, err := c.CheckServers(c.ctx(), "mirror")
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %+v", err, list)
		}
		return list[0].Needs
	}
	open := need()
	if len(open) != 1 || open[0].Type != core.ApproveIntegrity {
		t.Fatalf("%+v", open)
	}
	req := api.AcceptRequest{Name: "mirror", Digest: open[0].Digest, By: me}
	code(t, c.AcceptServer(c.ctx(), req), core.CodeAwaitingHuman)
	m.setPin(rightPin)
	req.Presence = core.PresenceTerminal
	for _, pin := range []string{"", "letmein1"} {
		req.Pin = pin
		code(t, c.AcceptServer(c.ctx(), req), core.CodeAuth)
	}
	if len(need()) != 1 {
		t.Fatal("it was accepted")
	}
	req.Pin, req.Presence = rightPin, ""
	if err := c.AcceptServer(c.ctx(), req); err != nil || len(need()) != 0 {
		t.Fatalf("%v %+v", err, need())
	}
	rows, err := c.Audit(c.ctx(), api.AuditQuery{Newest: true, Limit: 1})
	if err != nil || len(rows) != 1 || rows[0].Type != core.ApproveIntegrity || rows[0].Asked != core.PresencePin || rows[0].Digest != req.Digest || rows[0].Outcome != core.ApprovalApproved {
		t.Errorf("%v %+v", err, rows)
	}
}

// TestServers_AcceptedForRuns: what is accepted of a server, in a run or outside of any, is
// accepted for all runs of the workspace that ask the very same.
func TestServers_AcceptedForRuns(t *testing.T) {
	t.Parallel()
	for _, outside := range []bool{false, true} {
		m := newMachine(t)
		c := m.client()
		m.write(".env", "LAST=x\n")
		m.configure(c, map[string]any{"permissions": map[string]any{"allow": []string{"mirror"}}}, map[string]any{"mirror": mirror("${LAST}")})
		const look = `return await mcp.mirror.look({})`
		first, second := c.execute(look, api.StatusApprovalRequired), c.execute(look, api.StatusApprovalRequired)
		if first.ApprovalType != core.ApproveIntegrity || first.Digest != second.Digest {
			t.Fatalf("%+v, %+v", first, second)
		}
		if outside {
			req := api.AcceptRequest{Name: "mirror", Digest: first.Digest, By: me, Presence: core.PresenceTerminal}
			if err := c.AcceptServer(c.ctx(), req); err != nil {
				t.Fatal(err)
			}
		} else if _, err := c.decide(first.WorkflowID, api.Decision{Approve: true}); err != nil {
			t.Fatal(err)
		}
		c.awaitOpen(0)
		for _, id := range []core.ID{first.WorkflowID, second.WorkflowID} {
			got, err := c.Continue(c.ctx(), api.ContinueRequest{ID: id, By: me, Wait: -1})
			if err != nil || got.Status != api.StatusComplete {
				t.Errorf("outside=%v: %v %+v", outside, err, got)
			}
		}
		if report, err := c.VerifyAudit(c.ctx()); err != nil || report.Bad != 0 {
			t.Errorf("the log does not hold: %+v, %v", report, err)
		}
	}
}

// Scenario 10: a tool that changes while its server runs asks before its next
// call; the tool beside it goes on.
func TestServers_ToolsChangeWhileRunning(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.configure(c, map[string]any{"permissions": map[string]any{"allow": []string{"mirror"}}}, map[string]any{"mirror": mirror()})
	c.execute(`await mcp.mirror.look({}); return await mcp.mirror.turn({})`, api.StatusSuccess)
	c.execute(`return await mcp.mirror.turn({})`, api.StatusSuccess)
	r := c.execute(`return await mcp.mirror.look({})`, api.StatusApprovalRequired)
	if r.ApprovalType != core.ApproveIntegrity || !strings.Contains(string(r.Context), "and more") {
		t.Fatalf("%+v", r)
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || got.Status != api.StatusComplete {
		t.Errorf("%v %+v", err, got)
	}
}

// A permission that is remembered as a rule needs the PIN once; the rule is in
// the file, and the workspace stays trusted.
func TestRemember_Rule(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	m.write(".pml.json", ownConfig)
	c := m.client()
	c.trust()
	r := c.execute(writes, api.StatusApprovalRequired)
	rule, err := c.RuleFor(c.ctx(), r.CheckpointID)
	if err != nil {
		t.Fatal(err)
	}
	answer := &core.Answer{Remember: core.RememberRule}
	_, err = c.decide(r.WorkflowID, api.Decision{Approve: true, Answer: answer})
	code(t, err, core.CodeAuth)
	if text, _ := m.file(".pml.json"); text != ownConfig {
		t.Fatal("the rule was written without the PIN")
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Answer: answer, Pin: rightPin})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	if text, _ := m.file(".pml.json"); text != string(rule.Change.After) || !c.trusted() {
		t.Errorf("trusted %v: %s", c.trusted(), text)
	}
	second := m.client()
	done := second.execute(writes, api.StatusSuccess)
	second.close()
	for id, want := range map[core.ID]string{r.WorkflowID: "", done.WorkflowID: "allow " + rule.Pattern} { // of the first somebody was asked
		w, err := m.client().Workflow(c.ctx(), id)
		if err != nil || len(w.Layers) == 0 || w.Layers[len(w.Layers)-1].Tasks[0].AllowedBy != want {
			t.Errorf("%v: allowed by something else than %q: %+v", err, want, w.Layers)
		}
	}
}
