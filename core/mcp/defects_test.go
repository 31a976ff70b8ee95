package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// The tests of mcp-go's known defects are named in docs/mcp.md; here are those
// that stand nowhere else.

// Tasks of mcp-go are kept in memory only: pml declares none and has none, its
// runs are what lasts.
func TestDefect_Tasks(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	w.send(initialize)
	var in struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(w.next().Result, &in); err != nil {
		t.Fatal(err)
	}
	if _, ok := in.Capabilities["tasks"]; ok || len(in.Capabilities) == 0 {
		t.Errorf("declared %v", in.Capabilities)
	}
	for _, method := range []string{"tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"} {
		w.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"taskId":"x"}}`)
		if m := w.next(); m.Error == nil || m.Error.Code != -32601 {
			t.Errorf("%s: %+v", method, m)
		}
	}
}

// mcp-go has one session over stdio for a whole process. Here every connection
// has its own: the same ids are other calls, and questions do not mix.
func TestDefect_StdioSessions(t *testing.T) {
	t.Parallel()
	a := newAsker(t, oneApproval())
	e := newEdge(t, a, nil)
	one, two := dial(t, e), dial(t, e)
	one.send(handshake(elicits))
	one.next()
	two.send(initialize)
	two.next()
	two.send(callLine("1", "execute", `{"code":"1"}`, ""))
	if _, r := two.next().result(t); r.Status != api.StatusApprovalRequired {
		t.Errorf("who declared nothing got %+v", r)
	}
	one.send(callLine("1", "execute", `{"code":"1"}`, ""))
	q := one.next()
	if q.Method != "elicitation/create" {
		t.Fatalf("who declared it was not asked: %+v", q)
	}
	two.send(said(q, approves)) // of another session
	two.send(ping)
	two.next()
	if got := a.decisions(); len(got) != 0 {
		t.Errorf("another session decided %+v", got)
	}
}

// Sessions that are idle do not pile up: one that nobody uses makes room, with
// its subscriptions and its stream.
func TestDefect_IdleSessions(t *testing.T) {
	t.Parallel()
	now := newClock()
	srv, e := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) { o.Clock, o.OwnerSessions = now, 2 })
	first := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	for range 5 {
		now.add(1)
		if res := post(t, srv.URL, initialize); res.code != http.StatusOK {
			t.Fatalf("%d %s", res.code, res.body)
		}
	}
	if res := post(t, srv.URL, ping, "Mcp-Session-Id", first); res.code != http.StatusNotFound || e.Sessions() != 2 {
		t.Errorf("%d, %d sessions", res.code, e.Sessions())
	}
}

// approval_response says how a call in doubt goes on; a plain yes is refused,
// and who refuses names the field.
func TestApproval_InDoubt(t *testing.T) {
	t.Parallel()
	doubt := oneApproval()
	doubt.Type = core.ApproveInDoubt
	call := func(rest string) (*asker, msg) {
		a := newAsker(t, doubt)
		a.refuse = core.Errorf(core.CodeInvalidArguments, "a yes must say which")
		if strings.Contains(rest, "way") {
			a.refuse = nil
		}
		w := dial(t, newEdge(t, a, nil))
		w.send(callLine("1", "approval_response", `{"workflow_id":"0b9d2a4e","checkpoint_id":"`+string(approvalID)+`",`+rest+`}`, ""))
		return a, w.next()
	}
	a, m := call(`"approved":true`)
	if _, r := m.result(t); r.ErrorCode != core.CodeInvalidArguments || !strings.Contains(r.Error, "in_doubt") || len(a.taken) != 1 {
		t.Errorf("a plain yes: %+v", r)
	}
	for rest, want := range map[string]core.Answer{
		`"approved":true,"in_doubt":{"way":"run_again"}`:                {InDoubt: core.RunAgain},
		`"approved":true,"in_doubt":{"way":"skip","result":{"n":1.10}}`: {InDoubt: core.SkipResult, Result: json.RawMessage(`{"n":1.10}`)},
	} {
		a, m := call(rest)
		if _, r := m.result(t); r.Status != api.StatusComplete {
			t.Errorf("%s: %+v", rest, r)
		}
		if got := a.taken[0].Decision.Answer; got == nil || got.InDoubt != want.InDoubt || string(got.Result) != string(want.Result) || got.Remember != "" {
			t.Errorf("%s: %+v", rest, got)
		}
	}
	for _, rest := range []string{
		`"approved":false,"in_doubt":{"way":"run_again"}`, `"approved":true,"in_doubt":{"way":"run_again","result":1}`,
		`"approved":true,"in_doubt":{"way":"again"}`, `"approved":true,"in_doubt":"run_again"`, `"approved":true,"in_doubt":{}`,
		`"approved":true,"remember":"rule"`, `"approved":true,"in_doubt":{"way":"skip","remember":"run"}`,
	} {
		if a, m := call(rest); m.Error == nil || m.Error.Code != -32602 || len(a.taken) != 0 {
			t.Errorf("%s: %+v %s", rest, m.Error, m.Result)
		}
	}
}
