//go:build unix

package pmltest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// Caller speaks HTTP to a machine's server: on its socket, or over TCP with a key.
type Caller struct {
	M    *Machine
	Base string
	Head map[string]string
	Conn *http.Client
}

// Caller is one on the socket, in the workspace. via is cli, tui or nothing.
// It looks for the server with every request.
func (m *Machine) Caller(via string) *Caller {
	c := &Caller{M: m, Base: "http://pml", Head: map[string]string{api.HeaderWorkspace: m.WS}}
	if via != "" {
		c.Head[api.HeaderVia] = via
	}
	c.Conn = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		rec, _ := daemon.ReadRecord(m.Home)
		return (&net.Dialer{}).DialContext(ctx, "unix", rec.Socket)
	}}}
	return c
}

// Answer is what a request came to.
type Answer struct {
	t      testing.TB
	what   string
	Status int
	Head   http.Header
	Body   []byte
}

// Send sends a request; a body that is no reader is sent as JSON.
func (c *Caller) Send(ctx context.Context, method, path string, body any, head map[string]string) (Answer, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r = b
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return Answer{}, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, r)
	if err != nil {
		return Answer{}, err
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range []map[string]string{c.Head, head} {
		for k, v := range h {
			req.Header.Set(k, v)
		}
	}
	resp, err := c.Conn.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return Answer{t: c.M.T, what: method + " " + path, Status: resp.StatusCode, Head: resp.Header, Body: raw}, err
}

// do sends a request that must be answered.
func (c *Caller) do(method, path string, body any) Answer {
	c.M.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*Patience)
	defer cancel()
	a, err := c.Send(ctx, method, path, body, nil)
	if err != nil {
		c.M.T.Errorf("%s %s: %v", method, path, err)
		return Answer{t: c.M.T, what: method + " " + path}
	}
	return a
}

// Get sends a GET to a path of the API.
func (c *Caller) Get(path string) Answer {
	c.M.T.Helper()
	return c.do(http.MethodGet, "/api/v1"+path, nil)
}

// Post sends a POST with a body as JSON to a path of the API.
func (c *Caller) Post(path string, body any) Answer {
	c.M.T.Helper()
	return c.do(http.MethodPost, "/api/v1"+path, body)
}

// Want wants a status.
func (a Answer) Want(status int) Answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: status %d, want %d\n%s", a.what, a.Status, status, a.Body)
	}
	return a
}

// Decode reads the body as JSON.
func (a Answer) Decode(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		a.t.Fatalf("%s: %v\n%d %s", a.what, err, a.Status, a.Body)
	}
}

// Result reads the body as a result.
func (a Answer) Result() api.Result {
	a.t.Helper()
	var r api.Result
	a.Decode(&r)
	return r
}

// Problem reads a problem and wants its status and code.
func (a Answer) Problem(status int, code core.Code) api.Problem {
	a.t.Helper()
	var p api.Problem
	a.Decode(&p)
	if a.Status != status || p.Status != status || p.Code != code || p.Error == nil || a.Head.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("%s: %d %s, want %d %s\n%s", a.what, a.Status, p.Code, status, code, a.Body)
	}
	return p
}

// Workflow is a run as the server tells it.
func (c *Caller) Workflow(id core.ID) core.Workflow {
	c.M.T.Helper()
	var w core.Workflow
	c.Get("/workflows/" + string(id)).Want(http.StatusOK).Decode(&w)
	return w
}

// Approvals are those that the caller may see.
func (c *Caller) Approvals(query string) []core.Approval {
	c.M.T.Helper()
	var page api.Page[core.Approval]
	c.Get("/approvals" + query).Want(http.StatusOK).Decode(&page)
	return page.Items
}

// Execute starts a run and waits until it ends or pauses.
func (c *Caller) Execute(body api.ExecuteBody) api.Result {
	c.M.T.Helper()
	if body.Options == nil {
		body.Options = &api.ExecuteOptions{}
	}
	if body.Options.Wait == 0 {
		body.Options.Wait = 2 * Patience.Milliseconds()
	}
	return c.Post("/workflows", body).Want(http.StatusOK).Result()
}

// Tool calls a tool of pml at /mcp, in a session of its own. A result comes
// back as what it says and whether it is a failure, an error of the protocol as
// its code.
func (c *Caller) Tool(ctx context.Context, name string, args any) (r api.Result, failed bool, code int) {
	c.M.T.Helper()
	fail := func(err error, a Answer) {
		c.M.T.Helper()
		c.M.T.Errorf("%s at /mcp: %v\n%d %s", name, err, a.Status, a.Body)
	}
	message := func(id int, method string, params any) map[string]any {
		out := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
		if id > 0 {
			out["id"] = id
		}
		return out
	}
	hello, err := c.Send(ctx, http.MethodPost, "/mcp", message(1, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	}), nil)
	session := map[string]string{"Mcp-Session-Id": hello.Head.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-06-18"}
	if err != nil || session["Mcp-Session-Id"] == "" {
		fail(err, hello)
		return
	}
	if _, err := c.Send(ctx, http.MethodPost, "/mcp", message(0, "notifications/initialized", map[string]any{}), session); err != nil {
		fail(err, Answer{})
		return
	}
	a, err := c.Send(ctx, http.MethodPost, "/mcp", message(2, "tools/call", map[string]any{"name": name, "arguments": args}), session)
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

// Agent is tool for an answer that must come.
func (c *Caller) Agent(name string, args any) api.Result {
	c.M.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	r, failed, code := c.Tool(ctx, name, args)
	if code != 0 || failed != (r.Status == api.StatusError) {
		c.M.T.Errorf("%s at /mcp: protocol error %d, failed %t: %+v", name, code, failed, r)
	}
	return r
}
