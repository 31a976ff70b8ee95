package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// modernCall is a tools/call of revision 2026-07-28 by a client that declares
// capabilities. more is further params, each followed by a comma.
func modernCall(id, tool, args, capabilities, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,` + more +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
}

// inputRequired is a result that asks.
type inputRequired struct {
	Type     string `json:"resultType"`
	Requests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
	State string `json:"requestState"`
}

// asks reads a result that must ask.
func (m msg) asks(t *testing.T) inputRequired {
	t.Helper()
	var in inputRequired
	if err := json.Unmarshal(m.Result, &in); err != nil || in.Type != "input_required" || len(in.Requests) != 1 || in.State == "" {
		t.Fatalf("nothing is asked: %+v %s", m, m.Result)
	}
	return in
}

// retry are the params that answer.
func (in inputRequired) retry(answer string) string {
	state, _ := json.Marshal(in.State)
	return `"inputResponses":{"question":` + answer + `},"requestState":` + string(state) + `,`
}

const approves = `{"action":"accept","content":{"approve":true}}`

// stateEdge is an edge with a secret that outlives it.
func stateEdge(t *testing.T, b mcp.Backend, now core.Clock) *wire {
	t.Helper()
	return dial(t, newEdge(t, b, func(o *mcp.Options) {
		o.Clock, o.Secret = now, []byte("the same after a restart, 32 byte")
	}))
}

// A client of the newest revision gets the question as the result of its call,
// and decides by making the call again; pml may have been restarted meanwhile,
// and never begins a second run.
func TestState_Decides(t *testing.T) {
	t.Parallel()
	const args = `{"code":"1","options":{"timeout":1000}}`
	for _, tt := range []struct {
		name, answer string
		took         time.Duration
		restart      bool
		want         []api.Decision
		status       api.Status
	}{
		{"Approve", approves, time.Second, false, []api.Decision{{Approve: true, Checkpoint: approvalID, ExpectDigest: "sha256:d1"}}, api.StatusSuccess},
		{"AfterRestart", approves, time.Second, true, []api.Decision{{Approve: true, Checkpoint: approvalID, ExpectDigest: "sha256:d1"}}, api.StatusSuccess},
		{"Decline", `{"action":"decline"}`, time.Second, false, []api.Decision{{Checkpoint: approvalID, ExpectDigest: "sha256:d1"}}, api.StatusSuccess},
		{"Instant", `{"action":"decline"}`, 200 * time.Millisecond, false, nil, api.StatusApprovalRequired},
		{"InstantAccept", approves, 299 * time.Millisecond, true, nil, api.StatusApprovalRequired},
		{"Cancel", `{"action":"cancel"}`, time.Second, false, nil, api.StatusApprovalRequired},
		{"Garbage", `[1]`, time.Second, false, nil, api.StatusApprovalRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, now := newAsker(t, oneApproval()), newClock()
			w := stateEdge(t, a, now)
			w.send(modernCall("1", "execute", args, elicits, ""))
			in := w.next().asks(t)
			q := in.Requests["question"]
			if q.Method != "elicitation/create" || !strings.Contains(string(q.Params), "sha256:d1") || strings.Contains(string(q.Params), "elicitationId") {
				t.Errorf("asked %+v", in)
			}
			if tt.restart {
				w = stateEdge(t, a, now)
			}
			now.add(tt.took)
			w.send(modernCall("2", "execute", `{ "options":{"timeout":1000}, "code":"1" }`, elicits, in.retry(tt.answer)))
			if _, r := w.next().result(t); r.Status != tt.status || (tt.want == nil) != (r.Reason != "") {
				t.Errorf("got %+v", r)
			}
			if diff := cmp.Diff(tt.want, a.decisions()); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
			if a.started != 1 {
				t.Errorf("%d runs were begun", a.started)
			}
			// The same again decides nothing more, whatever it says.
			w.send(modernCall("3", "execute", args, elicits, in.retry(`{"action":"decline"}`)))
			if m := w.next(); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "used before") || !strings.Contains(string(m.Error.Data), string(runID)) {
				t.Errorf("a second use: %+v %s", m.Error, m.Result)
			}
			if a.started != 1 || len(a.decisions()) != len(tt.want) {
				t.Errorf("%d runs, decided %+v", a.started, a.decisions())
			}
		})
	}
}

// What was approved elsewhere meanwhile is not decided again: the retry gets the
// result.
func TestState_DecidedElsewhere(t *testing.T) {
	t.Parallel()
	a, now := newAsker(t, oneApproval()), newClock()
	w := stateEdge(t, a, now)
	w.send(modernCall("1", "execute", `{"code":"1"}`, elicits, ""))
	in := w.next().asks(t)
	a.mu.Lock()
	a.waits = nil
	a.mu.Unlock()
	now.add(time.Second)
	w.send(modernCall("2", "execute", `{"code":"1"}`, elicits, in.retry(`{"action":"decline"}`)))
	if _, r := w.next().result(t); r.Status != api.StatusSuccess || len(a.decisions()) != 0 {
		t.Errorf("got %+v, decided %+v", r, a.decisions())
	}
}

// Every approval has a state of its own.
func TestState_OneByOne(t *testing.T) {
	t.Parallel()
	second := oneApproval()
	second.ID, second.Digest = "5c3f77aa-2222-4bbb-8bbb-000000000003", "sha256:d2"
	a, now := newAsker(t, oneApproval(), second), newClock()
	w := stateEdge(t, a, now)
	w.send(modernCall("1", "execute", `{"code":"1"}`, elicits, ""))
	first := w.next().asks(t)
	now.add(time.Second)
	w.send(modernCall("2", "execute", `{"code":"1"}`, elicits, first.retry(approves)))
	next := w.next().asks(t)
	if next.State == first.State || !strings.Contains(string(next.Requests["question"].Params), "sha256:d2") {
		t.Errorf("asked %+v", next)
	}
	now.add(100 * time.Millisecond) // since the second question
	w.send(modernCall("3", "execute", `{"code":"1"}`, elicits, next.retry(approves)))
	if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired || r.CheckpointID != second.ID {
		t.Errorf("got %+v", r)
	}
	if got := a.decisions(); len(got) != 1 || got[0].Checkpoint != approvalID {
		t.Errorf("decided %+v", got)
	}
}

// A state that was tampered with, is of another call, another caller or another
// secret, or is too old, decides nothing and begins nothing.
func TestState_Refused(t *testing.T) {
	t.Parallel()
	a, now := newAsker(t, oneApproval()), newClock()
	expires := now.Now().Add(5 * time.Minute)
	a.waits[0].ExpiresAt = &expires
	secret := []byte("one secret of 32 bytes, or so it")
	srv, _ := serveHTTP(t, a, func(o *mcp.Options) { o.Clock, o.Secret = now, secret })
	other, _ := serveHTTP(t, a, func(o *mcp.Options) { o.Clock = now })
	send := func(url, tool, args, capabilities, more string, headers ...string) msg {
		t.Helper()
		res := post(t, url, modernCall("1", tool, args, capabilities, more), append([]string{
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool,
		}, headers...)...)
		var m msg
		if err := json.Unmarshal([]byte(res.body), &m); err != nil {
			t.Fatalf("%d %s", res.code, res.body)
		}
		if m.Error != nil && res.code != http.StatusBadRequest {
			t.Errorf("%d for %+v", res.code, m.Error)
		}
		return m
	}
	const args = `{"code":"1"}`
	in := send(srv.URL, "execute", args, elicits, "").asks(t)
	now.add(time.Second)
	body, seal, _ := strings.Cut(in.State, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	forged := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), `sha256:d1`, `sha256:d2`, 1)))
	with := func(state string) string { return inputRequired{State: state}.retry(approves) }
	for _, tt := range []struct {
		name, url, tool, args, more, want string
		headers                           []string
	}{
		{"Changed", srv.URL, "execute", args, with(forged + "." + seal), "not one that pml has given out", nil},
		{"OtherSeal", srv.URL, "execute", args, with(body + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 32))), "not one that", nil},
		{"NoSeal", srv.URL, "execute", args, with(body), "not one that", nil},
		{"EmptySeal", srv.URL, "execute", args, with(body + "."), "not one that", nil},
		{"Empty", srv.URL, "execute", args, with(""), "not one that", nil},
		{"Long", srv.URL, "execute", args, with(strings.Repeat("a", 9000) + "." + seal), "not one that", nil},
		{"OtherSecret", other.URL, "execute", args, with(in.State), "not one that", nil},
		{"OtherCaller", srv.URL, "execute", args, with(in.State), "another caller", []string{"X-Who", "bob"}},
		{"OtherWorkspace", srv.URL, "execute", args, with(in.State), "another caller", []string{api.HeaderWorkspace, "/there"}},
		{"OtherArguments", srv.URL, "execute", `{"code":"2"}`, with(in.State), "another call", nil},
		{"OtherTool", srv.URL, "continue", `{"workflow_id":"0b9d2a4e"}`, with(in.State), "another call", nil},
		{"NoState", srv.URL, "execute", args, `"inputResponses":{"question":` + approves + `},`, "without the requestState", nil},
	} {
		m := send(tt.url, tt.tool, tt.args, elicits, tt.more, tt.headers...)
		if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, tt.want) || !strings.Contains(string(m.Error.Data), "permission_denied") {
			t.Errorf("%s: %+v %s", tt.name, m.Error, m.Result)
		}
	}
	now.add(5 * time.Minute)
	if m := send(srv.URL, "execute", args, elicits, with(in.State)); m.Error == nil || !strings.Contains(m.Error.Message, "expired") {
		t.Errorf("an old one: %+v %s", m.Error, m.Result)
	}
	if a.started != 1 || len(a.decisions()) != 0 {
		t.Errorf("%d runs, decided %+v", a.started, a.decisions())
	}
}

// A client of the newest revision that declares nothing is asked nothing.
func TestState_NotDeclared(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, newAsker(t, oneApproval()), nil))
	w.send(modernCall("1", "execute", `{"code":"1"}`, `{}`, ""))
	if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired {
		t.Errorf("got %+v", r)
	}
}
