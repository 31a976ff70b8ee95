package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// bareServer is a server whose answers are written by hand.
type bareServer struct {
	url   string
	calls atomic.Int32
	// tool are the members of the definition of its one tool, "write", but its name.
	tool string
	// other serves what is not MCP.
	other http.Handler
	// answer writes the response to a call with this id.
	answer func(w http.ResponseWriter, n int32, id json.RawMessage)
}

func newBare(t *testing.T) *bareServer {
	t.Helper()
	s := &bareServer{tool: `"inputSchema":{"type":"object"}`, other: http.NotFoundHandler()}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *bareServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/mcp" {
		s.other.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &m) != nil || len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	switch m.Method {
	case "initialize":
		say(w, m.ID, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{},"resources":{}},"serverInfo":{"name":"x","version":"1"}}`)
	case "tools/list":
		say(w, m.ID, `"result":{"tools":[{"name":"write",`+s.tool+`}]}`)
	case "tools/call", "resources/read":
		s.answer(w, s.calls.Add(1), m.ID)
	default:
		say(w, m.ID, `"error":{"code":-32601,"message":"no"}`)
	}
}

func say(w http.ResponseWriter, id json.RawMessage, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, text)
}

// exposingBare is a machine on which the server is offered.
func exposingBare(t *testing.T, s *bareServer) *client {
	t.Helper()
	m := newMachine(t)
	m.write(".pml.json", `{"mcpServers": {"up": {"type": "http", "url": "`+s.url+`/mcp"}}, "permissions": {"allow": ["up"]}, "expose": ["up"]}`)
	return m.client().trusting()
}

// What comes up when a call with effects is about to be made is asked for: its run
// takes back that it has begun, and waits.
func TestThrough_TakenBack(t *testing.T) {
	t.Parallel()
	for _, repeatable := range []bool{false, true} {
		t.Run(fmt.Sprintf("repeatable %v", repeatable), func(t *testing.T) {
			t.Parallel()
			s, auth := newBare(t), protected(t, "/register")
			if repeatable {
				s.tool += `,"annotations":{"idempotentHint":true}`
			}
			s.other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"resource":"%s/mcp","authorization_servers":["%s"],"scopes_supported":["mail.read"]}`, s.url, auth.URL)
			})
			s.answer = func(w http.ResponseWriter, _ int32, _ json.RawMessage) {
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", resource_metadata="`+s.url+`/meta", scope="mail.read"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
			c := exposingBare(t, s)
			r, err := c.through("up:write", ``)
			if err != nil || r.Paused == nil || r.Paused.ApprovalType != core.ApproveOAuth || s.calls.Load() != 1 {
				t.Fatalf("%+v, %v, %d calls", r, err, s.calls.Load())
			}
			shown, _ := c.runsAndReads()
			if len(shown) != 1 || shown[0].ID != r.Paused.WorkflowID || shown[0].State != core.RunWaiting {
				t.Fatalf("%+v", shown)
			}
			c.wasNotMade(shown[0], repeatable)
		})
	}
}

// wasNotMade checks what is kept of a call that went back to its gates.
func (c *client) wasNotMade(run core.Run, repeatable bool) {
	c.t.Helper()
	var kinds []core.RecordKind
	records, err := c.Records(c.ctx(), run.ID, 0)
	for _, r := range records {
		kinds = append(kinds, r.Kind)
	}
	want := []core.RecordKind{core.RecordStarted, core.RecordVoid, core.RecordParked}
	if repeatable {
		want = want[2:]
	}
	if err != nil || fmt.Sprint(kinds) != fmt.Sprint(want) {
		c.t.Errorf("%v, %v", kinds, err)
	}
	w, err := c.Workflow(c.ctx(), run.ID)
	if err != nil || len(w.Layers) != 1 || w.Layers[0].Tasks[0].State != core.TaskWaiting {
		c.t.Errorf("%+v, %v", w.Layers, err)
	}
	if _, err := c.Retry(c.ctx(), run.ID, me, -1); core.CodeOf(err) != core.CodeNotWaiting {
		c.t.Errorf("it can be retried while it waits: %v", err)
	}
	if got, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run.ID, By: me, Wait: -1}); err != nil || got.Status != api.StatusApprovalRequired {
		c.t.Errorf("%+v, %v", got, err)
	}
}
