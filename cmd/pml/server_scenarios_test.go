//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// stores are what a server can keep its runs in.
var stores = []string{"bbolt", "postgres"}

// onStores runs a test on a machine whose server keeps its runs in server.db,
// and on one that has a PostgreSQL database of its own.
func onStores(t *testing.T, c config, test func(t *testing.T, m *machine)) {
	t.Helper()
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := bareMachine(t)
			if kind == "postgres" {
				m.setenv("PML_STORE", database(t))
			}
			m.configure(c)
			test(t, m)
		})
	}
}

// caller speaks HTTP to a machine's server: on its socket, or over TCP with a key.
type caller struct {
	m    *machine
	base string
	head map[string]string
	conn *http.Client
}

// caller is one on the socket, in the workspace. via is cli, tui or nothing.
// It looks for the server with every request.
func (m *machine) caller(via string) *caller {
	c := &caller{m: m, base: "http://pml", head: map[string]string{api.HeaderWorkspace: m.WS}}
	if via != "" {
		c.head[api.HeaderVia] = via
	}
	c.conn = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		rec, _ := daemon.ReadRecord(m.Home)
		return (&net.Dialer{}).DialContext(ctx, "unix", rec.Socket)
	}}}
	return c
}

// key makes an API key.
func (m *machine) key(name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.ok("server", "key", "add", name).Stdout)
}

// keyed is a caller over TCP with a key.
func (m *machine) keyed(key string) *caller {
	m.t.Helper()
	return &caller{
		m: m, base: m.status(0).Server.URL, head: map[string]string{"Authorization": "Bearer " + key},
		conn: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// restart ends a server by a signal, -9 with everything below it, and starts
// the next one.
func (m *machine) restart(p *process, sig syscall.Signal, args ...string) *process {
	m.t.Helper()
	if sig == syscall.SIGKILL {
		p.kill()
	} else {
		p.signal(sig)
		p.wait().want(0)
	}
	return m.serving(args...)
}

// answer is what a request came to.
type answer struct {
	t      testing.TB
	what   string
	Status int
	Head   http.Header
	Body   []byte
}

// send sends a request; a body that is no reader is sent as JSON.
func (c *caller) send(ctx context.Context, method, path string, body any, head map[string]string) (answer, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r = b
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return answer{}, err
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range []map[string]string{c.head, head} {
		for k, v := range h {
			req.Header.Set(k, v)
		}
	}
	resp, err := c.conn.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{t: c.m.t, what: method + " " + path, Status: resp.StatusCode, Head: resp.Header, Body: raw}, err
}

// do sends a request that must be answered.
func (c *caller) do(method, path string, body any) answer {
	c.m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	a, err := c.send(ctx, method, path, body, nil)
	if err != nil {
		c.m.t.Errorf("%s %s: %v", method, path, err)
		return answer{t: c.m.t, what: method + " " + path}
	}
	return a
}

func (c *caller) get(path string) answer {
	c.m.t.Helper()
	return c.do(http.MethodGet, "/api/v1"+path, nil)
}

func (c *caller) post(path string, body any) answer {
	c.m.t.Helper()
	return c.do(http.MethodPost, "/api/v1"+path, body)
}

// want wants a status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: status %d, want %d\n%s", a.what, a.Status, status, a.Body)
	}
	return a
}

func (a answer) decode(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		a.t.Fatalf("%s: %v\n%d %s", a.what, err, a.Status, a.Body)
	}
}

func (a answer) result() api.Result {
	a.t.Helper()
	var r api.Result
	a.decode(&r)
	return r
}

// problem reads a problem and wants its status and code.
func (a answer) problem(status int, code core.Code) api.Problem {
	a.t.Helper()
	var p api.Problem
	a.decode(&p)
	if a.Status != status || p.Status != status || p.Code != code || p.Error == nil || a.Head.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("%s: %d %s, want %d %s\n%s", a.what, a.Status, p.Code, status, code, a.Body)
	}
	return p
}

// workflow is a run as the server tells it.
func (c *caller) workflow(id core.ID) core.Workflow {
	c.m.t.Helper()
	var w core.Workflow
	c.get("/workflows/" + string(id)).want(http.StatusOK).decode(&w)
	return w
}

// approvals are those that the caller may see.
func (c *caller) approvals(query string) []core.Approval {
	c.m.t.Helper()
	var page api.Page[core.Approval]
	c.get("/approvals" + query).want(http.StatusOK).decode(&page)
	return page.Items
}

// execute starts a run and waits until it ends or pauses.
func (c *caller) execute(body api.ExecuteBody) api.Result {
	c.m.t.Helper()
	if body.Options == nil {
		body.Options = &api.ExecuteOptions{}
	}
	if body.Options.Wait == 0 {
		body.Options.Wait = 2 * patience.Milliseconds()
	}
	return c.post("/workflows", body).want(http.StatusOK).result()
}

// yes and no are decisions that wait for what comes of them.
func yes() map[string]any { return decides(true) }

func no() map[string]any { return decides(false) }

func decides(approved bool) map[string]any {
	return map[string]any{"decision": map[string]any{"approved": approved}, "wait": patience.Milliseconds()}
}

// tool calls a tool of pml at /mcp, in a session of its own. A result comes
// back as what it says and whether it is a failure, an error of the protocol as
// its code.
func (c *caller) tool(ctx context.Context, name string, args any) (r api.Result, failed bool, code int) {
	c.m.t.Helper()
	fail := func(err error, a answer) {
		c.m.t.Helper()
		c.m.t.Errorf("%s at /mcp: %v\n%d %s", name, err, a.Status, a.Body)
	}
	message := func(id int, method string, params any) map[string]any {
		out := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
		if id > 0 {
			out["id"] = id
		}
		return out
	}
	hello, err := c.send(ctx, http.MethodPost, "/mcp", message(1, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	}), nil)
	session := map[string]string{"Mcp-Session-Id": hello.Head.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-06-18"}
	if err != nil || session["Mcp-Session-Id"] == "" {
		fail(err, hello)
		return
	}
	if _, err := c.send(ctx, http.MethodPost, "/mcp", message(0, "notifications/initialized", map[string]any{}), session); err != nil {
		fail(err, answer{})
		return
	}
	a, err := c.send(ctx, http.MethodPost, "/mcp", message(2, "tools/call", map[string]any{"name": name, "arguments": args}), session)
	if err != nil {
		fail(err, a)
		return
	}
	var reply struct {
		Result *struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
		Error *struct{ Code int }
	}
	if err := json.Unmarshal(a.Body, &reply); err != nil || (reply.Result == nil) == (reply.Error == nil) {
		fail(err, a)
		return
	}
	if reply.Error != nil {
		return r, true, reply.Error.Code
	}
	if err := json.Unmarshal(reply.Result.StructuredContent, &r); err != nil || len(reply.Result.Content) == 0 {
		fail(err, a)
	}
	return r, reply.Result.IsError, 0
}

// agent is tool for an answer that must come.
func (c *caller) agent(name string, args any) api.Result {
	c.m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, failed, code := c.tool(ctx, name, args)
	if code != 0 || failed != (r.Status == api.StatusError) {
		c.m.t.Errorf("%s at /mcp: protocol error %d, failed %t: %+v", name, code, failed, r)
	}
	return r
}

// specs are tasks as a request has them.
func specs(t testing.TB, tasks []map[string]any) *api.WorkflowBody {
	t.Helper()
	raw, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	var out api.WorkflowBody
	if err := json.Unmarshal(raw, &out.Tasks); err != nil {
		t.Fatal(err)
	}
	return &out
}
