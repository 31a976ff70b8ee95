//go:build unix

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// keyUser is a user of a server over TCP, by a key.
type keyUser struct {
	t         testing.TB
	name, key string
	url       string
}

// do sends a request and returns its status and answer.
func (c keyUser) do(method, path, body string, headers ...string) (int, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// run executes and returns the result.
func (c keyUser) run(code, key string) api.Result {
	c.t.Helper()
	body, err := json.Marshal(api.ExecuteBody{Code: code, Options: &api.ExecuteOptions{Wait: 30_000, IdempotencyKey: key}})
	if err != nil {
		c.t.Fatal(err)
	}
	status, text := c.do(http.MethodPost, "/api/v1/workflows", string(body))
	var r api.Result
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
		c.t.Fatalf("%s: %d %s", c.name, status, text)
	}
	return r
}

// follow reads events until the test ends, and returns what there is so far.
func (c keyUser) follow(path string) (so func() string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", c.key)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s %s: %v %v", c.name, path, resp, err)
	}
	var got pmltest.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&got, resp.Body) }) // it ends with its context
	c.t.Cleanup(func() { cancel(); wg.Wait(); resp.Body.Close() })
	return got.String
}

// tool calls a tool of /mcp and returns the whole answer.
func (c keyUser) tool(session, name, args string) string {
	c.t.Helper()
	_, text := c.do(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args),
		"Mcp-Session-Id", session, "Accept", "application/json, text/event-stream")
	return text
}

// session opens a session at /mcp.
func (c keyUser) session() string {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodPost, c.url+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || id == "" {
		c.t.Fatalf("%s: initialize: %d", c.name, resp.StatusCode)
	}
	return id
}

// TestTCP_TwoUsers: two users of one server neither see nor move what the other
// one has: runs, approvals and events, over HTTP, as a stream and over MCP, by
// whole ids, prefixes and @latest.
//
// Scenario 25.
func TestTCP_TwoUsers(t *testing.T) {
	t.Parallel()
	onBoth(t, testTwoUsers)
}

func testTwoUsers(t *testing.T, args ...string) {
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	user := func(name string) keyUser {
		return keyUser{t: t, name: name, key: strings.TrimSpace(m.OK("server", "key", "add", name).Stdout)}
	}
	ann, bob := user("ann"), user("bob")
	m.Serving(append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	ann.url = m.Status(0).Server.URL
	bob.url = ann.url
	heard := []func() string{
		bob.follow("/api/v1/events"), bob.follow("/api/v1/events?since=0"), bob.follow("/api/v1/events?types=workflow_complete,approval_requested"),
	}
	own := ann.follow("/api/v1/events?since=0")

	done := ann.run(`console.log("ann's secret"); return (await mcp.rec.inc({key: "ann"})).count`, "one")
	waits := ann.run(`await mcp.rec.danger({x: "ann's"}); return "ann decided"`, "two")
	if done.Status != api.StatusSuccess || waits.Status != api.StatusApprovalRequired {
		t.Fatalf("ann's runs: %+v, %+v", done, waits)
	}
	session := ann.session()
	theirs := bob.session()
	if text := ann.tool(session, "workflow_status", `{"workflow_id":"`+string(done.WorkflowID)+`"}`); !strings.Contains(text, string(done.WorkflowID)) {
		t.Errorf("ann does not see her own run over MCP: %s", text)
	}

	// Every path with an id, for each way to name ann's.
	names := map[string]string{ // an id, and what it stands for
		string(done.WorkflowID): "a run", string(done.WorkflowID[:8]): "its prefix", string(waits.WorkflowID): "a run that waits",
		string(waits.CheckpointID): "an approval", string(waits.CheckpointID[:8]): "its prefix", "@latest": "the newest",
	}
	cp := string(waits.CheckpointID)
	paths := []struct{ method, path, body string }{
		{"GET", "", ""}, {"GET", "/dag", ""}, {"GET", "/checkpoints", ""}, {"GET", "/journal", ""}, {"GET", "/result", ""}, {"GET", "/events", ""},
		{"POST", "/continue", `{}`}, {"POST", "/continue", `{"decision":{"approved":true}}`}, {"POST", "/abort", `{}`}, {"POST", "/retry", `{}`},
		{"POST", "/replan", `{"new_tasks":[{"id":"x","tool":"rec:echo","arguments":{}}]}`},
		{"POST", "/trace", `{"state":"complete","records":[]}`}, {"DELETE", "", ""},
		{"POST", "/approvals/" + cp, `{"approved":true}`}, {"POST", "/approvals/" + cp, `{"approved":false}`},
		{"POST", "/approvals/" + cp + "/extend", `{"by_ms":1000}`}, {"POST", "/approvals/" + cp + "/renew", ``},
	}
	for name, what := range names {
		for _, p := range paths {
			if status, text := bob.do(p.method, "/api/v1/workflows/"+name+p.path, p.body); status != http.StatusNotFound {
				t.Errorf("bob, %s %s of %s: %d %s", p.method, p.path, what, status, text)
			}
		}
		if status, text := bob.do("GET", "/api/v1/approvals/"+name, ""); status != http.StatusNotFound {
			t.Errorf("bob, the approval %s: %d %s", what, status, text)
		}
		if status, text := bob.do("GET", "/api/v1/workflows/"+name+"/events", "", "Accept", "text/event-stream"); status != http.StatusNotFound {
			t.Errorf("bob, the stream of %s: %d %s", what, status, text)
		}
		if status, text := bob.do("GET", "/api/v1/events?workflow="+name, "", "Accept", "application/json"); status != http.StatusNotFound {
			t.Errorf("bob, events of %s: %d %s", what, status, text)
		}
		for _, call := range []struct{ tool, args string }{
			{"workflow_status", `{"workflow_id":"` + name + `"}`}, {"continue", `{"workflow_id":"` + name + `"}`}, {"abort", `{"workflow_id":"` + name + `"}`},
			{"approval_response", `{"workflow_id":"` + name + `","checkpoint_id":"` + cp + `","approved":true}`},
			{"execute", `{"continue_workflow":{"workflow_id":"` + name + `","approved":true}}`},
			{"replan", `{"workflow_id":"` + name + `","new_tasks":[{"id":"x","tool":"rec:echo","arguments":{}}]}`},
		} {
			if text := bob.tool(theirs, call.tool, call.args); !strings.Contains(text, "workflow_not_found") {
				t.Errorf("bob, %s of %s over MCP: %s", call.tool, what, text)
			}
		}
	}
	for _, path := range []string{"/api/v1/workflows", "/api/v1/approvals", "/api/v1/approvals?all=true", "/api/v1/events?since=0"} {
		status, text := bob.do("GET", path, "", "Accept", "application/json")
		var page api.Page[json.RawMessage]
		if err := json.Unmarshal([]byte(text), &page); status != http.StatusOK || err != nil || len(page.Items) != 0 {
			t.Errorf("bob, %s: %d %s", path, status, text)
		}
	}
	if text := bob.tool(theirs, "workflow_status", `{}`); strings.Contains(text, string(done.WorkflowID)) || strings.Contains(text, string(waits.WorkflowID)) {
		t.Errorf("bob lists ann's over MCP: %s", text)
	}
	if text := bob.tool(session, "workflow_status", `{}`); strings.Contains(text, string(waits.WorkflowID)) || strings.Contains(text, `"result"`) {
		t.Errorf("bob uses ann's session: %s", text)
	}
	if status, _ := bob.do(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", session); status < 400 {
		t.Errorf("bob ends ann's session: %d", status)
	}

	// A key of his own: what ann has given hers for is nothing to him.
	same := bob.run(`return "bob"`, "one")
	if same.WorkflowID == done.WorkflowID || string(same.Result) != `"bob"` {
		t.Errorf("one idempotency key of two users: %+v", same)
	}
	if again := ann.run(`console.log("ann's secret"); return (await mcp.rec.inc({key: "ann"})).count`, "one"); again.WorkflowID != done.WorkflowID || m.Count("inc") != 1 {
		t.Errorf("ann's key again: %+v, %d calls", again, m.Count("inc"))
	}
	// @latest is the newest of one's own.
	for _, c := range []struct {
		keyUser
		want core.ID
	}{{ann, waits.WorkflowID}, {bob, same.WorkflowID}} {
		if status, text := c.do("GET", "/api/v1/workflows/@latest", ""); status == http.StatusOK && !strings.Contains(text, string(c.want)) {
			t.Errorf("%s's newest: %s", c.name, text)
		}
	}
	// What bob tried has moved nothing.
	if m.Count("danger") != 0 {
		t.Fatal("bob's decision counted")
	}
	status, text := ann.do("POST", "/api/v1/workflows/"+string(waits.WorkflowID)+"/approvals/"+cp, `{"approved":true,"wait":30000}`)
	var r api.Result
	if err := json.Unmarshal([]byte(text), &r); status != http.StatusOK || err != nil || string(r.Result) != `"ann decided"` {
		t.Errorf("ann decides: %d %s", status, text)
	}
	pmltest.WaitFor(t, "ann hears of the end of both", func() bool { return strings.Count(own(), "event: workflow_complete") == 2 })
	pmltest.WaitFor(t, "bob hears of his run", func() bool {
		for _, h := range heard {
			if strings.Count(h(), "event: workflow_complete") != 1 {
				return false
			}
		}
		return true
	})
	for i, h := range heard {
		for _, id := range []core.ID{done.WorkflowID, waits.WorkflowID, waits.CheckpointID} {
			if strings.Contains(h(), string(id)) {
				t.Errorf("bob's stream %d tells of ann's %s: %s", i, id, linesWith(h(), string(id)))
			}
		}
		if strings.Contains(h(), "ann") {
			t.Errorf("bob's stream %d tells of ann: %s", i, linesWith(h(), "ann"))
		}
	}
	if strings.Contains(own(), string(same.WorkflowID)) {
		t.Errorf("ann's stream tells of bob's run: %s", linesWith(own(), string(same.WorkflowID)))
	}
}

func linesWith(text, what string) string {
	var out bytes.Buffer
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		if strings.Contains(scan.Text(), what) {
			out.WriteString(scan.Text() + "\n")
		}
	}
	return out.String()
}

// TestTCP_NoServers: over TCP nobody sees or restarts the MCP servers that a server runs.
func TestTCP_NoServers(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	ann := keyUser{t: t, name: "ann", key: strings.TrimSpace(m.OK("server", "key", "add", "ann").Stdout)}
	m.Serving("--listen", "127.0.0.1:0")
	ann.url = m.Status(0).Server.URL
	if status, text := ann.do(http.MethodGet, "/api/v1/tools", ""); status != http.StatusOK {
		t.Fatalf("the key does nothing: %d %s", status, text)
	}
	for path, method := range map[string]string{"/api/v1/servers": http.MethodGet, "/api/v1/servers/rec/restart": http.MethodPost} {
		if status, text := ann.do(method, path, ""); status != http.StatusForbidden || strings.Contains(text, "recorder") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
