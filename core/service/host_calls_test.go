package service_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// bash is a call of Claude Code's shell that the host would ask a person about.
func bash(command string) api.HostCall {
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	return api.HostCall{Host: core.HostClaude, Tool: "Bash", Args: args, Asking: true, Client: core.Client{Name: "claude-code"}}
}

// hosting is a machine with rules about tools of a host, and patience.
func hosting(t *testing.T, permissions, wait string) (*machine, *client) {
	t.Helper()
	m := newMachine(t)
	m.environ["KEY"] = "sesame-open-up"
	m.write(".pml.json", `{"mcpServers": {"x": {"command": "x", "env": {"KEY": "${KEY}"}}}, "permissions": `+permissions+`, "hooks": {"wait": "`+wait+`"}}`)
	return m, m.client().trusting()
}

// answered is what HostMay comes to while somebody does something about the approval that
// it asks for.
func (c *client) answered(hc api.HostCall, do func(core.Approval)) (api.HostAnswer, error) {
	c.t.Helper()
	return c.answeredIn(c.ctx(), hc, do)
}

// answeredIn is answered of a hook that may end before.
func (c *client) answeredIn(hook context.Context, hc api.HostCall, do func(core.Approval)) (api.HostAnswer, error) {
	c.t.Helper()
	type outcome struct {
		a   api.HostAnswer
		err error
	}
	ctx, done := c.ctx(), make(chan outcome, 1)
	changed, err := c.store.Watch(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	go func() {
		a, err := c.HostMay(hook, hc)
		done <- outcome{a, err}
	}()
	for {
		list, err := c.Approvals(ctx, false)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(list) > 0 {
			do(list[0])
			break
		}
		select {
		case <-changed:
		case o := <-done:
			c.t.Fatalf("nobody was asked: %+v", o)
		case <-ctx.Done():
			c.t.Fatal("no approval has come")
		}
	}
	o := <-done
	return o.a, o.err
}

// none checks that nothing waits for a person.
func (c *client) none() {
	c.t.Helper()
	list, err := c.Decidable(c.ctx())
	if err != nil || len(list) > 0 {
		c.t.Errorf("%+v, %v", list, err)
	}
}

// Rules decide without anybody; one that lets through every server's tools was not
// written for those of hosts.
func TestHostMay_Rules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		permissions, command string
		asking               bool
		want                 api.HostEffect
	}{
		"Allow":          {`{"allow": [{"tool": "claude:Bash", "where": "args.command.startsWith('npm ')"}]}`, "npm test", true, api.HostAllow},
		"AllowNot":       {`{"allow": [{"tool": "claude:Bash", "where": "args.command.startsWith('npm ')"}]}`, "rm x", false, api.HostSilent},
		"AllowFails":     {`{"allow": [{"tool": "claude:Bash", "where": "args.cmd == 'x'"}]}`, "rm x", false, api.HostAsk},
		"AllowHost":      {`{"allow": ["claude"]}`, "ls", false, api.HostAllow},
		"AllowClient":    {`{"allow": [{"tool": "claude:*", "where": "client == 'claude-code'"}]}`, "ls", false, api.HostAllow},
		"AllowAny":       {`{"allow": ["*"]}`, "ls", false, api.HostSilent},
		"AllowAnyTool":   {`{"allow": ["*:*"]}`, "ls", true, api.HostAsk},
		"AllowSomeHosts": {`{"allow": ["c*:Bash"]}`, "ls", false, api.HostSilent},
		"Other":          {`{"allow": ["codex:Bash"], "readonly": "allow"}`, "ls", false, api.HostSilent},
		"Deny":           {`{"allow": ["claude"], "deny": [{"tool": "claude:Bash", "where": "args.command.contains('rm')"}]}`, "rm x", true, api.HostDeny},
		"DenyAny":        {`{"deny": ["*"]}`, "ls", false, api.HostDeny},
		"Ask":            {`{"ask": ["claude:Bash"]}`, "ls", false, api.HostAsk},
		"NoRule":         {`{}`, "ls", false, api.HostSilent},
		"HostAsks":       {`{}`, "ls", true, api.HostAsk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := hosting(t, tt.permissions, "0")
			hc := bash(tt.command)
			hc.Asking = tt.asking
			got, err := c.HostMay(c.ctx(), hc)
			if err != nil || got.Effect != tt.want {
				t.Fatalf("%+v, %v", got, err)
			}
			c.none()
			rows, err := c.Audit(c.ctx(), api.AuditQuery{})
			if err != nil {
				t.Fatal(err)
			}
			denied := 0
			for _, r := range rows {
				if r.Tool == "claude:Bash" && r.Outcome == core.ApprovalDenied && r.Type == core.ApproveHost {
					denied++
				}
			}
			if (denied == 1) != (tt.want == api.HostDeny) {
				t.Errorf("%+v", rows)
			}
		})
	}
}

// What a workspace that nobody trusts allows does not count; what it denies does.
func TestHostMay_Untrusted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"permissions": {"allow": ["claude"], "deny": ["claude:Write"]}}`)
	c := m.client()
	hc := bash("ls")
	hc.Asking = false
	if got, err := c.HostMay(c.ctx(), hc); err != nil || got.Effect != api.HostSilent {
		t.Errorf("%+v, %v", got, err)
	}
	hc.Tool = "Write"
	if got, err := c.HostMay(c.ctx(), hc); err != nil || got.Effect != api.HostDeny {
		t.Errorf("%+v, %v", got, err)
	}
}

// A person decides, whatever approvals.decider says, and sees what the host would do,
// without the values of keys. An agent cannot.
func TestHostMay_Decided(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		m, c := hosting(t, `{}`, "1h")
		hc := bash("echo sesame-open-up ${KEY} $host \x1b[2J")
		hc.Folder = filepath.Join(m.ws, "sub")
		got, err := c.answered(hc, func(a core.Approval) {
			shown := string(a.Context)
			if a.Type != core.ApproveHost || !a.Human || !a.Once || a.Tool != "claude:Bash" || strings.Contains(shown, "sesame-open-up") ||
				!strings.Contains(shown, `"folder":"`+hc.Folder) || !strings.Contains(shown, "Claude Code") || !strings.Contains(shown, "${KEY} $host") {
				t.Errorf("%+v %s", a, shown)
			}
			if a.RequestedBy.Label() != "agent claude-code" || a.ExpiresAt == nil || a.ExpiresAt.Sub(a.CreatedAt) != 5*time.Minute {
				t.Errorf("%+v", a)
			}
			for _, by := range []core.Actor{{Who: "agent", Via: core.ViaMCP}, {Who: "agent", Via: core.ViaElicitation}, me} {
				_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: a.RunID, Decision: &api.Decision{Approve: true}, By: by, Wait: -1})
				code(t, err, core.CodeAwaitingHuman)
			}
			d := api.Decision{Approve: approve, Presence: core.PresenceTerminal, Reason: "because", ExpectDigest: a.Digest}
			if _, err := c.decide(a.RunID, d); err != nil && approve {
				t.Error(err)
			}
		})
		want, said := api.HostAllow, "approved in pml"
		if !approve {
			want, said = api.HostDeny, "because"
		}
		if err != nil || got.Effect != want || !strings.Contains(got.Reason, said) || strings.Contains(got.Reason, "tasks failed") {
			t.Errorf("%+v, %v", got, err)
		}
		c.none()
	}
}

// Nobody answers in time: the host asks, and nothing stays in the inbox.
func TestHostMay_NobodyAnswers(t *testing.T) {
	t.Parallel()
	_, c := hosting(t, `{"ask": ["claude:Bash"]}`, "1ms")
	got, err := c.HostMay(c.ctx(), bash("ls"))
	if err != nil || got.Effect != api.HostAsk {
		t.Errorf("%+v, %v", got, err)
	}
	c.none()
	page, err := c.Workflows(c.ctx(), core.RunStates, 0, "")
	if err != nil || len(page.Items) != 1 || page.Items[0].State != core.RunAborted {
		t.Errorf("%+v, %v", page.Items, err)
	}
}

// The host waits no more: the question is taken back, and an approval that a hook left
// behind that was killed goes with the next question.
func TestHostMay_Gone(t *testing.T) {
	t.Parallel()
	m, c := hosting(t, `{}`, "1h")
	ctx, cancel := context.WithCancel(t.Context())
	got, err := c.answeredIn(ctx, bash("ls"), func(core.Approval) { cancel() })
	if err == nil && got.Effect != api.HostAsk {
		t.Errorf("%+v", got)
	}
	c.none()
	left, err := c.Execute(c.ctx(), api.ExecuteRequest{
		By: core.Actor{Who: "me", Via: core.ViaHook}, Wait: -1, Tasks: []core.TaskSpec{{ID: "host", Tool: "claude:Bash", Arguments: json.RawMessage(`{}`)}},
	})
	if err != nil || left.Status != api.StatusApprovalRequired {
		t.Fatalf("%+v, %v", left, err)
	}
	m.clock.forward(10 * time.Minute)
	m.write(".pml.json", `{"hooks": {"wait": "1ms"}}`)
	c.trusting()
	if got, err := c.HostMay(c.ctx(), bash("ls")); err != nil || got.Effect != api.HostAsk {
		t.Errorf("%+v, %v", got, err)
	}
	c.none()
}

// Only a hook asks in the name of a host: a program's call is of a server of that name,
// which there is not.
func TestHostMay_NoProgram(t *testing.T) {
	t.Parallel()
	_, c := hosting(t, `{"allow": ["*", "claude"]}`, "1h")
	for _, by := range []core.Actor{me, {Who: "agent", Via: core.ViaMCP}} {
		r, err := c.Execute(c.ctx(), api.ExecuteRequest{By: by, Wait: -1, Tasks: []core.TaskSpec{{ID: "x", Tool: "claude:Bash", Arguments: json.RawMessage(`{"command": "ls"}`)}}})
		if err == nil && r.Status != api.StatusError {
			t.Errorf("%+v", r)
		}
	}
}

// While calls are halted no rule lets one through: the host asks.
func TestHostMay_Halted(t *testing.T) {
	t.Parallel()
	_, c := hosting(t, `{"allow": ["claude"]}`, "0")
	if _, err := c.HaltCalls(c.ctx(), me, "stop"); err != nil {
		t.Fatal(err)
	}
	_, err := c.HostMay(c.ctx(), bash("ls"))
	code(t, err, core.CodeHalted)
}
