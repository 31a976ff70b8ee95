package service_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestEdited_Decided: changed arguments are checked and judged anew; only what was
// shown under its digest is approved, in one decision that the audit log has both of.
func TestEdited_Decided(t *testing.T) {
	t.Parallel()
	p := newMachine(t).server()
	ask := func() (core.ID, core.ID) {
		return p.ask("", core.Approval{
			Type: core.ApproveTool, Subject: "workspace:write_file#x", Tool: "workspace:write_file", Risk: core.RiskMedium,
			Context: json.RawMessage(`{"arguments":{"path":"a.txt","content":"old"}}`),
		})
	}
	run, id := ask()
	for args, want := range map[string]core.Code{
		`[]`: core.CodeInvalidArguments, `{"path":5,"content":""}`: core.CodeInvalidArguments, `{"path":"a.txt"`: core.CodeInvalidArguments,
		`{"path":"a.txt","content":"«redacted: KEY»"}`: "", // no mark of a value: nothing of that name is redacted here
	} {
		if _, err := p.Edited(p.ctx(), id, json.RawMessage(args)); core.CodeOf(err) != want {
			t.Errorf("%s: %v", args, err)
		}
	}
	args := json.RawMessage(`{"path":"a.txt","content":"new"}`)
	now, err := p.Edited(p.ctx(), id, args)
	if err != nil || now.ID != id || now.Digest == "sha256:00" || !strings.Contains(string(now.Context), `"new"`) {
		t.Fatalf("%v: %+v", err, now)
	}
	risky, err := p.Edited(p.ctx(), id, json.RawMessage(`{"path":".claude/settings.json","content":"x"}`))
	if err != nil || risky.Risk != core.RiskHigh || !risky.Once {
		t.Errorf("%v: it is not judged anew: %+v", err, risky)
	}
	decide := func(run core.ID, by core.Actor, d api.Decision) error {
		d.Approve = true
		_, err := p.Continue(p.ctx(), api.ContinueRequest{ID: run, By: by, Decision: &d})
		return err
	}
	other := &core.Answer{Arguments: json.RawMessage(`{"path":"a.txt","content":"else"}`)}
	for name, tt := range map[string]struct {
		d    api.Decision
		by   core.Actor
		want core.Code
	}{
		"NotShown":      {api.Decision{Checkpoint: id, ExpectDigest: "sha256:00", Answer: &core.Answer{Arguments: args}}, me, core.CodeDigestMismatch},
		"NoDigest":      {api.Decision{Checkpoint: id, Answer: &core.Answer{Arguments: args}}, me, core.CodeDigestMismatch},
		"OtherThanSeen": {api.Decision{Checkpoint: id, ExpectDigest: now.Digest, Answer: other}, me, core.CodeDigestMismatch},
		"OwnDigest":     {api.Decision{Checkpoint: id, ExpectDigest: now.Digest, Answer: &core.Answer{Arguments: other.Arguments, Digest: now.Digest}}, me, core.CodeDigestMismatch},
		"NoId":          {api.Decision{ExpectDigest: now.Digest, Answer: &core.Answer{Arguments: args}}, me, core.CodeInvalidArguments},
		"Remembered":    {api.Decision{Checkpoint: id, ExpectDigest: now.Digest, Answer: &core.Answer{Arguments: args, Remember: core.RememberRun}}, me, core.CodeInvalidArguments},
		"Agent":         {api.Decision{Checkpoint: id, ExpectDigest: risky.Digest, Answer: &core.Answer{Arguments: json.RawMessage(`{"path":".claude/settings.json","content":"x"}`)}}, core.Actor{Who: "agent", Via: core.ViaMCP}, core.CodeAwaitingHuman},
	} {
		if err := decide(run, tt.by, tt.d); core.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
		if ap, err := p.Approval(p.ctx(), id); err != nil || ap.State != core.ApprovalOpen {
			t.Fatalf("%s: %v: it is %s", name, err, ap.State)
		}
	}
	if err := decide(run, me, api.Decision{Checkpoint: id, ExpectDigest: now.Digest, Answer: &core.Answer{Arguments: args}}); err != nil {
		t.Fatal(err)
	}
	ap, err := p.Approval(p.ctx(), id)
	if err != nil || ap.State != core.ApprovalApproved || ap.Digest != "sha256:00" || string(ap.Answer.Arguments) != string(args) || ap.Answer.Digest != now.Digest {
		t.Errorf("%v: %+v, %+v", err, ap, ap.Answer)
	}
	rows, err := p.Audit(context.Background(), api.AuditQuery{Args: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.ApprovalID == id && r.Outcome == core.ApprovalApproved && (r.SentDigest != now.Digest || string(r.Sent) != string(args) || !strings.Contains(string(r.Arguments), "old")) {
			t.Errorf("%+v", r)
		}
	}
	if report, err := p.VerifyAudit(p.ctx()); err != nil || report.Bad != 0 {
		t.Errorf("the log does not hold: %+v, %v", report, err)
	}
}

// TestAskedNow: a file that has changed since a question about it is compared anew when the
// question is shown, and a yes to what it would have done before counts no more.
func TestAskedNow(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client().trusting()
	r := c.execute(`await mcp.workspace.write_file({path: "new.txt", content: "mine"})`, api.StatusApprovalRequired)
	before := r.Pending[0]
	if before.Risk != core.RiskMedium || !strings.Contains(string(before.Context), `"state":"new"`) {
		t.Fatalf("%s, %s", before.Risk, before.Context)
	}
	m.write("new.txt", strings.Repeat("theirs\n", 300))
	now, err := c.Approval(c.ctx(), before.ID)
	if err != nil || now.Risk != core.RiskHigh || now.Digest == before.Digest || !strings.Contains(string(now.Context), `"removed":300`) || !strings.Contains(string(now.Context), "200 lines or more") {
		t.Fatalf("%v: %s, %s", err, now.Risk, now.Context)
	}
	w, err := c.Workflow(c.ctx(), r.WorkflowID)
	if err != nil || len(w.Approvals) != 1 || w.Approvals[0].Digest != now.Digest {
		t.Errorf("%v: %+v", err, w.Approvals)
	}
	if list, err := c.Approvals(c.ctx(), false); err != nil || len(list) != 1 || list[0].Digest != now.Digest {
		t.Errorf("%v: %+v", err, list)
	}
	decide := func(by core.Actor, digest string) error {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: by, Decision: &api.Decision{Approve: true, Checkpoint: before.ID, ExpectDigest: digest}})
		return err
	}
	agent := core.Actor{Who: "agent", Via: core.ViaMCP}
	for name, tt := range map[string]struct {
		by     core.Actor
		digest string
		want   core.Code
	}{
		"AsItWasShown": {me, before.Digest, core.CodeDigestMismatch},
		"AnAgent":      {agent, now.Digest, core.CodeAwaitingHuman},
		"AnAgentBlind": {agent, "", core.CodeAwaitingHuman},
	} {
		if err := decide(tt.by, tt.digest); core.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, _ := m.file("new.txt"); !strings.HasPrefix(text, "theirs") {
		t.Fatalf("it was written: %s", text)
	}
	if got, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: before.ID, ExpectDigest: now.Digest}); err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v: %+v", err, got)
	}
	if text, _ := m.file("new.txt"); text != "mine" {
		t.Errorf("new.txt is %q", text)
	}
	if report, err := c.VerifyAudit(c.ctx()); err != nil || report.Bad != 0 {
		t.Errorf("the log does not hold: %+v, %v", report, err)
	}
}

// TestAskedNow_AskedAgain: a question that expired and was asked again is shown as it was asked,
// whatever has become of its file since; what was decided is the newer one.
func TestAskedNow_AskedAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client().trusting()
	r := c.execute(`await mcp.workspace.write_file({path: "new.txt", content: "mine"})`, api.StatusApprovalRequired)
	before := r.Pending[0]
	m.clock.forward(time.Hour)
	m.write("new.txt", "theirs")
	if now, err := c.Approval(c.ctx(), before.ID); err != nil || now.State != core.ApprovalExpired || now.Digest == before.Digest {
		t.Fatalf("it may still be decided, and is not compared anew: %v, %+v", err, now)
	}
	again, err := c.Renew(c.ctx(), before.ID, me)
	if err != nil || again.ID == before.ID {
		t.Fatalf("%v: %+v", err, again)
	}
	got, err := c.Approval(c.ctx(), before.ID)
	if err != nil || got.RenewedBy != again.ID || got.Digest != before.Digest || got.Risk != before.Risk || string(got.Context) != string(before.Context) {
		t.Errorf("%v: %+v\nwant %+v", err, got, before)
	}
}

// TestEdited_Through: what a person has made of the arguments of a host's call is sent, not
// what the host has sent.
func TestEdited_Through(t *testing.T) {
	t.Parallel()
	m, u := exposing(t, exposeAll)
	u.AddTool(mcp.NewTool("ask"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		raw, err := json.Marshal(r.GetArguments())
		return mcp.NewToolResultText("got " + string(raw)), err
	})
	c := m.client().trusting()
	for _, cold := range []bool{false, true} {
		r, err := c.through("up:ask", `{"x": 1}`)
		if err != nil || r.Paused == nil {
			t.Fatalf("%+v, %v", r, err)
		}
		if cold {
			c.close()
			c = m.client()
		}
		args := json.RawMessage(`{"x":2}`)
		now, err := c.Edited(c.ctx(), r.Paused.CheckpointID, args)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.decide(r.Paused.WorkflowID, api.Decision{Approve: true, Checkpoint: now.ID, ExpectDigest: now.Digest, Answer: &core.Answer{Arguments: args}})
		if err != nil || !strings.Contains(string(got.Result), `got {\"x\":2}`) {
			t.Errorf("cold=%v: %v, %s", cold, err, got.Result)
		}
	}
}
