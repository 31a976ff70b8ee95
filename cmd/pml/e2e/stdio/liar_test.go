//go:build unix

package stdio_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

const nobodys = "3f0c1c52-6a0e-4f7e-9a41-0d1b7a2c9e55" // an id that was made up

// liar is an agent that says what is not so, over stdio or TCP.
func liar(t *testing.T, m *pmltest.Machine, over string) *meeting {
	t.Helper()
	l := &meeting{Machine: m, peer: peer{name: "liar", revision: oldRevision, dial: func(t testing.TB, to dialed) mcpClient {
		return dialMCPGo(t, to, mcpgo.WithProtocolVersion(oldRevision))
	}}}
	if over == "TCP" {
		l.key = strings.TrimSpace(m.OK("server", "key", "add", "liar").Stdout)
	}
	l.begin()
	return l
}

// audited counts the rows about approvals of runs in the audit log that belongs
// to the way in. Over TCP it is the server's, which is stopped for that.
func (m *meeting) audited(outcome core.ApprovalState) (n int) {
	m.T.Helper()
	if m.key == "" {
		return m.Machine.Audited(outcome)
	}
	m.server.Signal(syscall.SIGTERM)
	m.server.Wait().Want(0)
	st, err := bolt.Open(bolt.Options{
		Dir: m.Home, Name: "server", Exclusive: true, Clock: pmltest.Clock{}, NewID: func() core.ID { return nobodys }, PID: os.Getpid(), Process: "test",
	})
	if err != nil {
		m.T.Fatal(err)
	}
	rows, err := st.Audit(context.Background(), store.AuditFilter{})
	if err = errors.Join(err, st.Close()); err != nil {
		m.T.Fatal(err)
	}
	for _, r := range rows {
		if r.RunID != "" && r.Outcome == outcome {
			n++
		}
	}
	return n
}

// eachWay runs a test over stdio and over TCP.
func eachWay(t *testing.T, f func(t *testing.T, over string)) {
	for _, over := range []string{"stdio", "TCP"} {
		t.Run(over, func(t *testing.T) {
			t.Parallel()
			f(t, over)
		})
	}
}

// refused wants a call to fail with a code.
func (m *meeting) refused(code core.Code, name string, args map[string]any) {
	m.T.Helper()
	r, err := m.try(name, args)
	if err != nil || r.Status != api.StatusError || r.ErrorCode != code {
		m.T.Errorf("%s %v: %v %s %s (%s), want %s", name, args, err, r.Status, r.ErrorCode, r.Error, code)
	}
}

// malformed wants a call to be refused as what the schema does not allow.
func (m *meeting) malformed(at, name string, args map[string]any) {
	m.T.Helper()
	if r, err := m.try(name, args); err == nil || !strings.Contains(err.Error(), at) {
		m.T.Errorf("%s %v: %v %+v, want an error of the protocol at %s", name, args, err, r, at)
	}
}

// asking is a run that waits for a person's yes to danger.
func (m *meeting) asking(x string) api.Result {
	m.T.Helper()
	r := m.call("execute", map[string]any{"code": fmt.Sprintf(`return await mcp.rec.danger({x: %q})`, x)})
	if r.Status != api.StatusApprovalRequired || r.CheckpointID == "" {
		m.T.Fatalf("%+v", r)
	}
	return r
}

// every is all ways to move or to see a run.
func every(run, approval core.ID) map[string]map[string]any {
	return map[string]map[string]any{
		"continue":          {"workflow_id": run},
		"abort":             {"workflow_id": run},
		"workflow_status":   {"workflow_id": run},
		"replan":            {"workflow_id": run, "new_tasks": []any{map[string]any{"id": "x", "tool": "rec:inc", "arguments": map[string]any{"key": "x"}}}},
		"approval_response": {"workflow_id": run, "checkpoint_id": approval, "approved": true},
		"execute":           {"continue_workflow": map[string]any{"workflow_id": run, "approved": true}},
	}
}

// TestLiar_Ids: ids that were made up, and those of another workspace and of
// another key, name nothing.
func TestLiar_Ids(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, over string) {
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		l := liar(t, m, over)
		for name, args := range every(nobodys, nobodys) {
			l.refused(core.CodeNotFound, name, args)
		}
		own := l.asking("own")
		l.refused(core.CodeNotFound, "approval_response", map[string]any{"workflow_id": own.WorkflowID, "checkpoint_id": nobodys, "approved": true})

		// The same home, another folder.
		other := *m
		other.WS = filepath.Join(m.Dir, "other")
		other.Env = append([]string{}, m.Env...)
		other.Setenv("PML_WORKSPACE", other.WS)
		other.Write("x", "")
		other.Configure(pmltest.AllowRec())
		theirs := other.JSON(8, "execute", "--code", `return await mcp.rec.danger({x: "theirs"})`)
		for name, args := range every(theirs.WorkflowID, theirs.CheckpointID) {
			l.refused(core.CodeNotFound, name, args)
		}
		// An approval of another run under the name of an own one.
		l.refused(core.CodeNotFound, "approval_response", map[string]any{"workflow_id": own.WorkflowID, "checkpoint_id": theirs.CheckpointID, "approved": true})
		if over == "TCP" {
			// Another key, of the same server.
			honest := *l
			honest.key = strings.TrimSpace(m.OK("server", "key", "add", "honest").Stdout)
			honest.connect()
			ids := honest.asking("honest")
			for name, args := range every(ids.WorkflowID, ids.CheckpointID) {
				l.refused(core.CodeNotFound, name, args)
			}
		}
		if m.Count("danger") != 0 || m.Count("inc") != 0 {
			t.Errorf("something ran: %q", m.Calls())
		}
		if n := l.audited(core.ApprovalApproved); n != 0 {
			t.Errorf("%d approvals in the audit log", n)
		}
	})
}

// TestLiar_Yes: what is not the value true is no yes, and a decision is made
// once.
func TestLiar_Yes(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, over string) {
		m := pmltest.NewMachine(t, pmltest.AllowRec().AgentsDecide())
		l := liar(t, m, over)
		r := l.asking("once")
		for _, yes := range []any{"true", 1, nil, []any{true}, map[string]any{"approved": true}} {
			l.malformed("/approved", "approval_response", map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": yes})
			l.malformed("/continue_workflow/approved", "execute", map[string]any{"continue_workflow": map[string]any{"workflow_id": r.WorkflowID, "approved": yes}})
		}
		l.malformed("approved", "approval_response", map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID})
		l.malformed("approved", "execute", map[string]any{"continue_workflow": map[string]any{"workflow_id": r.WorkflowID}})
		l.malformed("decided_by", "approval_response", map[string]any{
			"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true, "decided_by": map[string]any{"who": "root", "via": "tui"},
		})
		if m.Count("danger") != 0 {
			t.Fatalf("it counted: %q", m.Calls())
		}

		yes := map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true}
		if done := l.call("approval_response", yes); done.Status != api.StatusComplete {
			t.Fatalf("%+v", done)
		}
		no := map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": false}
		l.refused(core.CodeAlreadyDecided, "approval_response", no)
		again := l.call("approval_response", yes) // what was said before may be said again; it moves nothing
		if again.ErrorCode != core.CodeAlreadyDecided && again.Status != api.StatusComplete {
			t.Errorf("%+v", again)
		}
		if yes, no := l.audited(core.ApprovalApproved), l.audited(core.ApprovalDenied); m.Count("danger") != 1 || yes != 1 || no != 0 {
			t.Errorf("%q; audited: %d yes, %d no", m.Calls(), yes, no)
		}
		m.OK("audit", "verify")
	})
}

// TestLiar_Changed: what was approved for one call does not hold for another
// one: other arguments, other code, the same key for another program.
func TestLiar_Changed(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, over string) {
		m := pmltest.NewMachine(t, pmltest.AllowRec().AgentsDecide())
		l := liar(t, m, over)
		execute := func(x string) api.Result {
			r, err := l.try("execute", map[string]any{
				"code": fmt.Sprintf(`return await mcp.rec.danger({x: %q})`, x), "options": map[string]any{"idempotency_key": "k"},
			})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		small := execute("small")
		if done := l.call("execute", map[string]any{"continue_workflow": map[string]any{"workflow_id": small.WorkflowID, "approved": true}}); done.Status != api.StatusComplete {
			t.Fatalf("%+v", done)
		}
		// The key of the approved program, with another one.
		if r := execute("big"); r.Status != api.StatusError && r.Status != api.StatusApprovalRequired {
			t.Errorf("%+v", r)
		}
		// The same tool with other arguments.
		if r := l.asking("big"); r.WorkflowID == small.WorkflowID {
			t.Errorf("%+v", r)
		}
		// The yes with a program beside it: the yes is for what was shown.
		r := l.asking("medium")
		l.call("execute", map[string]any{
			"continue_workflow": map[string]any{"workflow_id": r.WorkflowID, "approved": true}, "code": `return await mcp.rec.danger({x: "big"})`,
		})
		for _, c := range m.Calls() {
			if strings.Contains(c, "big") {
				t.Errorf("it ran: %s", c)
			}
		}
		if m.Count("danger") != 2 {
			t.Errorf("%q", m.Calls())
		}
	})
}

// TestLiar_HighRisk: where nobody has said who decides, no tool of the agent
// approves what destroys; it may deny it.
func TestLiar_HighRisk(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, over string) {
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		l := liar(t, m, over)
		r := l.asking("high")
		answer := func(yes bool) map[string]any {
			return map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": yes}
		}
		for name, args := range map[string]map[string]any{"approval_response": answer(true), "execute": {"continue_workflow": answer(true)}} {
			if got := l.call(name, args); got.Status != api.StatusAwaitingHuman || got.ErrorCode != core.CodeAwaitingHuman {
				t.Errorf("%s: %+v", name, got)
			}
		}
		l.call("approval_response", answer(false))
		if no, yes := l.audited(core.ApprovalDenied), l.audited(core.ApprovalApproved); no != 1 || yes != 0 || m.Count("danger") != 0 {
			t.Errorf("%q; audited: %d yes, %d no", m.Calls(), yes, no)
		}
	})
}

// TestLiar_Human: where a person decides, no tool of the agent does, over
// neither way in.
func TestLiar_Human(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, over string) {
		c := pmltest.AllowRec()
		c.Approvals = map[string]any{"decider": "human"}
		m := pmltest.NewMachine(t, c)
		l := liar(t, m, over)
		r := l.asking("human")
		for name, args := range map[string]map[string]any{
			"approval_response": {"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true},
			"execute":           {"continue_workflow": map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true}},
		} {
			if got := l.call(name, args); got.Status != api.StatusAwaitingHuman || got.ErrorCode != core.CodeAwaitingHuman {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if got := l.call("continue", map[string]any{"workflow_id": r.WorkflowID}); got.Status != api.StatusApprovalRequired {
			t.Errorf("%+v", got)
		}
		if m.Count("danger") != 0 || l.audited(core.ApprovalApproved) != 0 {
			t.Errorf("it counted: %q", m.Calls())
		}
	})
}

// TestLiar_Names: names of tools with characters that move a cursor or end a
// line are no tools, and are not shown as they are.
func TestLiar_Names(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, over string) {
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		l := liar(t, m, over)
		for _, name := range []string{"execute\x1b[2J", "exec\x00ute", "execute\n", " execute", "EXECUTE", "execute\u202e", "\u2066approval_response", ""} {
			l.shown(l.try(name, map[string]any{"code": "return 1"}))
			tool := "rec:danger" + name
			raw, err := json.Marshal("danger" + name)
			if err != nil {
				t.Fatal(err)
			}
			if name == "" {
				continue // it is danger itself
			}
			l.shown(l.try("execute", map[string]any{"code": fmt.Sprintf(`return await mcp.rec[%s]({x: "x"})`, raw)}))
			l.shown(l.try("execute", map[string]any{"workflow": map[string]any{"tasks": []any{map[string]any{"id": "a", "tool": tool, "arguments": map[string]any{}}}}}))
			l.shown(l.try("execute", map[string]any{"accept_suggestion": map[string]any{"callName": tool}}))
		}
		if m.Count("danger") != 0 {
			t.Errorf("%q", m.Calls())
		}
		ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
		defer cancel()
		if _, err := l.client.tools(ctx); err != nil {
			t.Errorf("pml is gone: %v", err)
		}
	})
}

// shown wants an error that shows no foreign character as it is.
func (m *meeting) shown(r api.Result, err error) {
	m.T.Helper()
	text := r.Error
	if err != nil {
		text = err.Error()
	}
	if err == nil && r.Status != api.StatusError || strings.ContainsAny(text, "\x1b\x00\u202e\u2066") {
		m.T.Errorf("%v %+v", err, r)
	}
}

// TestLiar_State: a requestState that is made up, changed, given to another call
// or used before decides nothing and begins nothing, and is in the audit log.
func TestLiar_State(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	w := openWire(m)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"w","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	n := 0
	call := func(code string, more map[string]any) message {
		t.Helper()
		n++
		params := map[string]any{"name": "execute", "arguments": map[string]any{"code": code}}
		maps.Copy(params, more)
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,%s`+"}\n", n, meta, raw[1:]))
		all := w.until(strconv.Itoa(n))
		return all[len(all)-1]
	}
	var in struct {
		Type     string                     `json:"resultType"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    string                     `json:"requestState"`
	}
	if first := call(pmltest.AsksOnce, nil); json.Unmarshal(first.Result, &in) != nil || in.Type != "input_required" {
		t.Fatalf("%s %+v", first.Result, first.Error)
	}
	<-time.After(seen)
	yes := func(state string) map[string]any {
		answers := map[string]any{"requestState": state, "inputResponses": map[string]any{}}
		for key, question := range in.Requests {
			answers["inputResponses"] = map[string]any{key: approval(question)}
		}
		return answers
	}
	refused := func(what, code, state string) {
		t.Helper()
		if got := call(code, yes(state)); got.Error == nil || got.Error.Code != -32602 {
			t.Errorf("%s: %s %+v", what, got.Result, got.Error)
		}
	}
	body, seal, _ := strings.Cut(in.State, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	longer := regexp.MustCompile(`"exp":\d+`).ReplaceAll(raw, []byte(`"exp":9999999999999`))
	refused("made up", pmltest.AsksOnce, "e30.e30")
	refused("changed", pmltest.AsksOnce, base64.RawURLEncoding.EncodeToString(longer)+"."+seal)
	refused("without its seal", pmltest.AsksOnce, body+".")
	refused("of another call", `return await mcp.rec.danger({x: "other"})`, in.State)
	if m.Count("danger") != 0 || len(m.Approvals()) != 1 {
		t.Fatalf("%q", m.Calls())
	}
	if done := call(pmltest.AsksOnce, yes(in.State)); done.Error != nil || !strings.Contains(string(done.Result), `"success"`) {
		t.Errorf("%s %+v", done.Result, done.Error)
	}
	refused("used before", pmltest.AsksOnce, in.State)
	if m.Count("danger") != 1 || m.Count("inc") != 1 {
		t.Errorf("%q", m.Calls())
	}
	_ = w.in.Close()
	if _, exit := w.rest(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	if out := m.OK("audit", "ls").Stdout; !strings.Contains(out, "requestState: ") || !strings.Contains(out, "belongs to another call") {
		t.Errorf("no refusal in the audit log:\n%s", out)
	}
	m.OK("audit", "verify")
}
