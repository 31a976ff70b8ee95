package local_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// ask keeps a run that waits for one decision.
func (c *client) ask(owner string, ap core.Approval) (run, approval core.ID) {
	c.t.Helper()
	now := time.Now()
	ap.ID, ap.RunID, ap.State, ap.CreatedAt, ap.Digest = newID(), newID(), core.ApprovalOpen, now, "sha256:00"
	step := store.Step{
		Run:    core.Run{ID: ap.RunID, Side: core.SideServer, Workspace: c.workspace(), Owner: owner, Kind: core.KindCode, State: core.RunWaiting, CreatedAt: now, UpdatedAt: now},
		Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1, Source: "return 1", Script: "return 1"}, Open: []core.Approval{ap},
	}
	if err := c.store.Commit(c.ctx(), step); err != nil {
		c.t.Fatal(err)
	}
	return ap.RunID, ap.ID
}

func (c *client) workspace() string {
	c.t.Helper()
	paths, err := c.Paths(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	return paths.Workspace
}

// However much time is added, an approval does not expire in the past.
func TestExtend_Far(t *testing.T) {
	t.Parallel()
	p := newMachine(t).server()
	soon := time.Now().Add(time.Minute)
	_, id := p.ask("", core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b", ExpiresAt: &soon})
	for range 3 {
		ap, err := p.Extend(p.ctx(), id, 1<<63-1)
		if err != nil || ap.ExpiresAt == nil || ap.ExpiresAt.Year() != 2200 {
			t.Fatalf("%v: %v", err, ap.ExpiresAt)
		}
	}
	if list, err := p.Approvals(p.ctx(), false); err != nil || len(list) != 1 {
		t.Errorf("%v: %d are open", err, len(list))
	}
}

// What an approval grants to the server's machine the holder of an API key cannot
// grant: the question stays open for the person there.
func TestDecide_OwnersGrantNothingOfTheServer(t *testing.T) {
	t.Parallel()
	p := newMachine(t).server()
	alice := p.in(api.Scope{Owner: "alice"})
	for name, tt := range map[string]struct {
		ap      core.Approval
		answer  *core.Answer
		nobody  bool // nor the person at the server
		refused bool
	}{
		"dependency": {ap: core.Approval{Type: core.ApproveDependency, Subject: "demo", Tool: "demo"}, refused: true},
		"scripts":    {ap: core.Approval{Type: core.ApproveDependency, Subject: "demo", Tool: "demo"}, answer: &core.Answer{Scripts: true}, refused: true},
		"integrity":  {ap: core.Approval{Type: core.ApproveIntegrity, Subject: "demo", Tool: "demo"}, refused: true},
		"oauth":      {ap: core.Approval{Type: core.ApproveOAuth, Subject: "demo", Tool: "demo"}, refused: true},
		"keys":       {ap: core.Approval{Type: core.ApproveKeys, Subject: "demo", Tool: "demo"}},
		"answered":   {ap: core.Approval{Type: core.ApproveKeys, Subject: "demo", Tool: "demo"}, answer: &core.Answer{}, refused: true},
		"tool":       {ap: core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"}},
		"session":    {ap: core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"}, answer: &core.Answer{Remember: core.RememberSession}},
		"rule":       {ap: core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"}, answer: &core.Answer{Remember: core.RememberRule}, refused: true, nobody: true},
	} {
		run, id := alice.ask("alice", tt.ap)
		try := func(c *client, d api.Decision) error {
			d.Answer = tt.answer
			_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run, Decision: &d, By: me})
			return err
		}
		decisions := []api.Decision{{Approve: true}, {Approve: true, Checkpoint: id}}
		if tt.ap.Type != core.ApproveIntegrity {
			decisions = append(decisions, api.Decision{Approve: true, AllOfType: tt.ap.Type})
		}
		if !tt.refused {
			decisions = decisions[:1]
		}
		for _, d := range decisions {
			if err := try(alice, d); (core.CodeOf(err) == core.CodePermissionDenied) != tt.refused || !tt.refused && err != nil {
				t.Errorf("%s: alice: %v", name, err)
			}
		}
		if !tt.refused {
			continue
		}
		if ap, err := alice.Approval(alice.ctx(), id); err != nil || ap.State != core.ApprovalOpen {
			t.Errorf("%s: %v: it is %s", name, err, ap.State)
		}
		if err := try(p.client, api.Decision{Approve: true}); (core.CodeOf(err) == core.CodePermissionDenied) != tt.nobody || !tt.nobody && err != nil {
			t.Errorf("%s: the person: %v", name, err)
		}
	}
	run, _ := alice.ask("alice", core.Approval{Type: core.ApproveDependency, Subject: "demo", Tool: "demo"})
	if _, err := alice.Continue(alice.ctx(), api.ContinueRequest{ID: run, Decision: &api.Decision{Reason: "no"}, By: me}); err != nil {
		t.Errorf("a denial: %v", err)
	}
}

// TestDecider_Human: where people decide, an agent can neither approve nor
// deny, and the approval stays open for a person.
func TestDecider_Human(t *testing.T) {
	t.Parallel()
	agent := core.Actor{Who: "agent", Via: core.ViaMCP}
	dialog := core.Actor{Who: "agent", Via: core.ViaElicitation}
	tests := []struct {
		name, config string
		by           core.Actor
		approve      bool
		want         core.Code
	}{
		{"AgentApproves", `{"approvals": {"decider": "human"}}`, agent, true, core.CodeAwaitingHuman},
		{"AgentDenies", `{"approvals": {"decider": "human"}}`, agent, false, core.CodeAwaitingHuman},
		{"Dialog", `{"approvals": {"decider": "human"}}`, dialog, true, core.CodeAwaitingHuman},
		{"Person", `{"approvals": {"decider": "human"}}`, me, true, ""},
		{"Anybody", `{}`, agent, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", tt.config)
			c := m.client()
			r := c.execute(writes, api.StatusApprovalRequired)
			_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: tt.by, Wait: -1, Decision: &api.Decision{Approve: tt.approve}})
			code(t, err, tt.want)
			open, lerr := c.Approvals(c.ctx(), false)
			if lerr != nil || (len(open) == 1) != (tt.want != "") {
				t.Errorf("%v, open: %+v", lerr, open)
			}
		})
	}
}
