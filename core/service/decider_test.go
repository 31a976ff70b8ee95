package service_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
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
	ap.ID, ap.RunID, ap.State, ap.CreatedAt, ap.Digest, ap.Workspace = newID(), newID(), core.ApprovalOpen, now, cmp.Or(ap.Digest, "sha256:00"), c.workspace()
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

// An agent approves what does little harm; what is of high risk, leaves the
// workspace, or lasts longer than its run waits for a person, and stays open.
// approvals.agent_may lifts that, where the workspace is trusted.
func TestDecider_WhatAnAgentApproves(t *testing.T) {
	t.Parallel()
	m, free := newMachine(t), newMachine(t)
	free.write(".pml.json", `{"approvals": {"agent_may": "high"}}`)
	careful, high := m.server(), free.server()
	high.trusting()
	for name, tt := range map[string]struct {
		ap     core.Approval
		answer *core.Answer
		may    bool
	}{
		"medium":         {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskMedium}, may: true},
		"low":            {ap: core.Approval{Type: core.ApproveLayer, Risk: core.RiskLow}, may: true},
		"package":        {ap: core.Approval{Type: core.ApproveDependency, Risk: core.RiskMedium, Context: json.RawMessage(`{"dependency":{}}`)}, may: true},
		"scripts":        {ap: core.Approval{Type: core.ApproveDependency, Risk: core.RiskHigh}},
		"scripts chosen": {ap: core.Approval{Type: core.ApproveDependency, Risk: core.RiskMedium}, answer: &core.Answer{Scripts: true}},
		"integrity":      {ap: core.Approval{Type: core.ApproveIntegrity, Risk: core.RiskHigh}},
		"destructive":    {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskHigh}},
		"in doubt":       {ap: core.Approval{Type: core.ApproveInDoubt, Risk: core.RiskHigh}, answer: &core.Answer{InDoubt: core.RunAgain}},
		"no risk named":  {ap: core.Approval{Type: core.ApproveTool}},
		"leaves":         {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskMedium, Context: json.RawMessage(`{"leaves_workspace":true}`)}},
		"not installed":  {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskMedium, Context: json.RawMessage(`{"needs_installation":true}`)}},
		"session":        {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskLow}, answer: &core.Answer{Remember: core.RememberSession}},
		"rule":           {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskLow}, answer: &core.Answer{Remember: core.RememberRule}},
		"run":            {ap: core.Approval{Type: core.ApproveTool, Risk: core.RiskLow}, answer: &core.Answer{Remember: core.RememberRun}, may: true},
	} {
		tt.ap.Subject, tt.ap.Tool = "a:b#1", "a:b"
		for where, c := range map[string]*client{"by default": careful.client, "agent_may": high.client} {
			run, id := c.ask("", tt.ap)
			by := core.Actor{Who: "root", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}
			_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run, By: by, Decision: &api.Decision{Approve: true, Answer: tt.answer}})
			ap, aerr := c.Approval(c.ctx(), id)
			if aerr != nil {
				t.Fatal(aerr)
			}
			if want := tt.may || where == "agent_may"; !want {
				e := core.AsError(err)
				if e == nil || e.Code != core.CodeAwaitingHuman || ap.State != core.ApprovalOpen || !strings.Contains(e.Message, `"agent_may": "high"`) || !strings.Contains(e.Message, "pml tui") {
					t.Errorf("%s, %s: %v, and it is %s", name, where, err, ap.State)
				}
			} else if err != nil || ap.State != core.ApprovalApproved || ap.DecidedBy.Actor != by {
				t.Errorf("%s, %s: %v: it is %s by %+v", name, where, err, ap.State, ap.DecidedBy)
			}
		}
	}
	rows, err := careful.Audit(careful.ctx(), api.AuditQuery{})
	if err != nil || !slices.ContainsFunc(rows, func(r core.AuditRow) bool {
		return r.By.Name() == "agent claude-code (root)" && r.Outcome == core.ApprovalApproved
	}) || !slices.ContainsFunc(rows, func(r core.AuditRow) bool {
		return r.By.Host() == "claude-code" && r.Outcome == core.OutcomeRefused
	}) {
		t.Errorf("%v: the log does not say whose the decisions were: %+v", err, rows)
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
		{"AnybodyDenies", `{}`, agent, false, ""},
		{"CreatesAFile", `{}`, agent, true, ""},
		// To delete is of high risk: an agent's yes is not enough.
		{"HighRisk", `{}`, agent, true, core.CodeAwaitingHuman},
		{"HighRiskDecided", `{"approvals": {"decider": "any"}}`, agent, true, core.CodeAwaitingHuman},
		{"HighRiskInTheDialog", `{}`, dialog, true, ""},
		{"HighRiskUntrusted", `{"approvals": {"agent_may": "high"}}`, agent, true, core.CodeAwaitingHuman},
		{"NoTerminal", `{"approvals": {"decider": "human"}}`, me, true, core.CodeAwaitingHuman},
		{"NoTerminalDenies", `{"approvals": {"decider": "human"}}`, me, false, core.CodeAwaitingHuman},
		{"SaysTUI", `{"approvals": {"decider": "human"}}`, core.Actor{Who: "me", Via: core.ViaTUI}, true, core.CodeAwaitingHuman},
		{"HTTP", `{"approvals": {"decider": "human"}}`, core.Actor{Who: "me", Via: core.ViaHTTP}, true, core.CodeAwaitingHuman},
		{"PINThatIsNotSet", `{"approvals": {"decider": "human"}}`, core.Actor{Who: "pin", Via: core.ViaCLI}, true, core.CodeAwaitingHuman},
		{"AgentClaims", `{"approvals": {"decider": "human"}}`, core.Actor{Who: "terminal", Via: core.ViaMCP}, true, core.CodeAwaitingHuman},
		{"Person", `{"approvals": {"decider": "human"}}`, core.Actor{Who: "terminal", Via: core.ViaCLI}, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", tt.config)
			c := m.client()
			script := writes
			if strings.HasPrefix(tt.name, "HighRisk") {
				script = `await mcp.workspace.delete_file({path: "a.txt"})`
			}
			r := c.execute(script, api.StatusApprovalRequired)
			d := &api.Decision{Approve: tt.approve}
			switch tt.by.Who {
			case "terminal":
				d.Presence = core.PresenceTerminal
			case "pin":
				d.Pin = rightPin
			}
			_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: tt.by, Wait: -1, Decision: d})
			code(t, err, tt.want)
			open, lerr := c.Approvals(c.ctx(), false)
			if lerr != nil || (len(open) == 1) != (tt.want != "") {
				t.Errorf("%v, open: %+v", lerr, open)
			}
		})
	}
}

// TestDecider_EqualsAskForMore: an answer that is carried to equal questions of other runs
// decides none that is of higher risk, or is left to people.
func TestDecider_EqualsAskForMore(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	question := core.Approval{Type: core.ApproveTool, Subject: "s", Tool: "pml:model/models.example.org", Risk: core.RiskLow}
	risky, human := question, question
	risky.Risk, human.Human = core.RiskHigh, true
	run, _ := c.ask("", question)
	_, same := c.ask("", question)
	_, more := c.ask("", risky)
	_, people := c.ask("", human)
	if _, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run, Decision: &api.Decision{Approve: true}, By: me}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[core.ID]core.ApprovalState{same: core.ApprovalApproved, more: core.ApprovalOpen, people: core.ApprovalOpen} {
		if ap, err := c.Approval(c.ctx(), id); err != nil || ap.State != want {
			t.Errorf("%v: %s, want %s", err, ap.State, want)
		}
	}
}

// TestDecider_HumanOver: where people decide, the error of who is too late says that it was decided, and
// not that a person is waited for; the audit log has no refusal of it.
func TestDecider_HumanOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	never := c.execute(`return 1`, api.StatusSuccess)
	decide := func(id core.ID, d api.Decision) error {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: id, By: me, Wait: -1, Decision: &d})
		return err
	}
	code(t, decide(r.WorkflowID, api.Decision{Approve: true}), core.CodeAwaitingHuman)
	if err := decide(r.WorkflowID, api.Decision{Approve: true, Presence: core.PresenceTerminal}); err != nil {
		t.Fatal(err)
	}
	refusals := func() (n int) {
		rows, err := c.Audit(c.ctx(), api.AuditQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if strings.Contains(r.Reason, "waits for a person") {
				n++
			}
		}
		return n
	}
	before := refusals()
	for _, d := range []api.Decision{{Approve: true}, {}, {Approve: true, Checkpoint: r.CheckpointID}, {Checkpoint: r.CheckpointID}} {
		e := code(t, decide(r.WorkflowID, d), core.CodeAlreadyDecided)
		if !strings.Contains(e.Message, "is complete: nothing in it waits") {
			t.Errorf("%+v: %s", d, e.Message)
		}
	}
	code(t, decide(never.WorkflowID, api.Decision{Approve: true}), core.CodeNotWaiting)
	if n := refusals(); before != 1 || n != 1 {
		t.Errorf("%d refusals in the audit log, then %d", before, n)
	}
}

// Where people decide the PIN shows a person as a terminal does: for a yes and a no,
// over HTTP too, and for nobody's agent.
func TestDecider_HumanWithPin(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	c := m.client()
	ask := func(d api.Decision, via core.Via) error {
		r := c.execute(writes, api.StatusApprovalRequired)
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: core.Actor{Who: "me", Via: via}, Wait: -1, Decision: &d})
		return err
	}
	for _, approve := range []bool{true, false} {
		for _, via := range []core.Via{core.ViaCLI, core.ViaHTTP} {
			code(t, ask(api.Decision{Approve: approve, Pin: rightPin}, via), "")
			code(t, ask(api.Decision{Approve: approve, Pin: "letmein1"}, via), core.CodeAuth)
			code(t, ask(api.Decision{Approve: approve}, via), core.CodeAwaitingHuman)
			c.tries(core.PinTries{})
		}
		code(t, ask(api.Decision{Approve: approve, Pin: rightPin}, core.ViaMCP), core.CodeAwaitingHuman)
	}
}

// Whoever can write config.json does not become a person by a PIN of their own: one that comes
// after the first run shows a person once it was typed at a terminal.
func TestDecider_PinOfOnesOwn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	c := m.client()
	before := c.execute(writes, api.StatusApprovalRequired)
	m.setPin(rightPin)
	c = m.client()
	after := c.execute(writes, api.StatusApprovalRequired)
	for _, r := range []api.Result{before, after} {
		_, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Pin: rightPin})
		code(t, err, core.CodeAwaitingHuman)
		_, err = c.decide(r.WorkflowID, api.Decision{Pin: rightPin})
		code(t, err, core.CodeAwaitingHuman)
	}
	// At a terminal it is needed, and from then on it shows a person.
	_, err := c.decide(before.WorkflowID, api.Decision{Approve: true, Presence: core.PresenceTerminal})
	code(t, err, core.CodeAuth)
	_, err = c.decide(before.WorkflowID, api.Decision{Approve: true, Presence: core.PresenceTerminal, Pin: rightPin})
	code(t, err, "")
	_, err = c.decide(after.WorkflowID, api.Decision{Approve: true, Pin: rightPin})
	code(t, err, "")
}

// A question that was asked where people decide stays theirs when the
// configuration changes, and when another home that says otherwise uses the store.
func TestDecider_AskedOfPeople(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.writeHome("config.json", `{"approvals": {"decider": "human"}}`)
	r := m.client().execute(writes, api.StatusApprovalRequired)
	if len(r.Pending) != 1 || !r.Pending[0].Human {
		t.Fatalf("%+v", r.Pending)
	}
	m.writeHome("config.json", `{}`)
	c := m.client()
	for _, by := range []core.Actor{agent, me} {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: by, Wait: -1, Decision: &api.Decision{Approve: true}})
		code(t, err, core.CodeAwaitingHuman)
	}
	if _, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Presence: core.PresenceTerminal}); err != nil {
		t.Error(err)
	}
}

// Where nobody has chosen who decides, a question that an agent may approve says so.
func TestDecider_Unchosen(t *testing.T) {
	t.Parallel()
	const deletes = `await mcp.workspace.delete_file({path: "a.txt"})`
	for name, tt := range map[string]struct {
		config, script string
		want           bool
	}{
		"NobodyHasChosen": {`{}`, writes, true},
		"HighRisk":        {`{}`, deletes, false},
		"Any":             {`{"approvals": {"decider": "any"}}`, writes, false},
		"Human":           {`{"approvals": {"decider": "human"}}`, writes, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", tt.config)
			c := m.client()
			c.trusting()
			ap, err := c.Approval(c.ctx(), c.execute(tt.script, api.StatusApprovalRequired).CheckpointID)
			if err != nil || ap.Unchosen != tt.want || (ap.Decides() != "") != tt.want {
				t.Errorf("%v %+v", err, ap)
			}
		})
	}
}
