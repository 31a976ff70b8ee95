package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	proto "github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// blocking is a fake whose calls wait until they are let go or cancelled; each
// tells how it ended.
func blocking(t *testing.T) (f *fake, begun chan struct{}, ended chan error, let chan struct{}) {
	t.Helper()
	begun, ended, let = make(chan struct{}, 1000), make(chan error, 1000), make(chan struct{})
	return &fake{t: t, execute: func(ctx context.Context, _ api.ExecuteRequest) (api.Result, error) {
		begun <- struct{}{}
		select {
		case <-let:
			ended <- nil
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		case <-ctx.Done():
			ended <- context.Cause(ctx)
			return api.Result{}, ctx.Err()
		}
	}}, begun, ended, let
}

// 100 calls that wait keep a 101st, and a ping, from nothing.
func TestStdio_ManyWait(t *testing.T) {
	t.Parallel()
	f, begun, _, let := blocking(t)
	w := dial(t, newEdge(t, f, nil))
	for i := range 100 {
		w.send(callLine(strconv.Itoa(i), "execute", `{"code":"1"}`, ""))
	}
	for range 100 {
		<-begun
	}
	w.send(callLine(`"quick"`, "discover", `{"pattern":"*"}`, ""))
	if m := w.next(); string(m.ID) != `"quick"` {
		t.Errorf("got %s first", m.ID)
	}
	w.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	if m := w.next(); string(m.ID) != `"ping"` {
		t.Errorf("got %s first", m.ID)
	}
	close(let)
	for range 100 {
		w.next().result(t)
	}
}

// More calls at once than the limit are refused; those that wait stay.
func TestStdio_TooMany(t *testing.T) {
	t.Parallel()
	f, begun, _, let := blocking(t)
	w := dial(t, newEdge(t, f, func(o *mcp.Options) { o.MaxCalls = 2 }))
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	w.send(callLine("2", "execute", `{"code":"1"}`, ""))
	<-begun
	<-begun
	w.send(callLine("3", "execute", `{"code":"1"}`, ""))
	if m := w.next(); string(m.ID) != "3" || m.Error == nil || m.Error.Code != -32000 {
		t.Errorf("got %+v", m)
	}
	close(let)
	w.next().result(t)
	w.next().result(t)
}

// A cancelled call is not answered; its backend stops waiting. Another with an
// id that looks alike goes on.
func TestStdio_Cancelled(t *testing.T) {
	t.Parallel()
	f, begun, ended, let := blocking(t)
	w := dial(t, newEdge(t, f, nil))
	w.send(callLine("7", "execute", `{"code":"1"}`, ""))
	w.send(callLine(`"7"`, "execute", `{"code":"1"}`, ""))
	<-begun
	<-begun
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if err := <-ended; err == nil {
		t.Error("the call was not cancelled")
	}
	close(let)
	if m := w.next(); string(m.ID) != `"7"` {
		t.Errorf("an answer to %s", m.ID)
	}
	w.send(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	if m := w.next(); string(m.ID) != "8" {
		t.Errorf("an answer to %s", m.ID)
	}
}

// The end of stdin gives calls a while to end and then ends them.
func TestStdio_EOF(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, begun, ended, _ := blocking(t)
		w := dial(t, newEdge(t, f, nil))
		w.send(callLine("1", "execute", `{"code":"1"}`, ""))
		<-begun
		from := time.Now()
		_ = w.in.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		if d := time.Since(from); d != 2*time.Second {
			t.Errorf("calls were given %v", d)
		}
		if err := <-w.done; err != nil {
			t.Error(err)
		}
		w.done <- nil
	})
}

// A context that ends does the same while stdin stays open.
func TestStdio_Stopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, hold := io.Pipe()
	defer func() { _ = hold.Close() }()
	done := make(chan error, 1)
	e := newEdge(t, &fake{t: t}, nil)
	go func() { done <- e.ServeStdio(ctx, in, io.Discard) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What is not a message gets an error and harms nothing.
func TestStdio_Garbage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line string
		code       int
		id         string
	}{
		{"Text", `hello`, -32700, "null"},
		{"Half", `{"jsonrpc":"2.0","id":1,"meth`, -32700, "null"},
		{"Batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "null"},
		{"Number", `7`, -32600, "null"},
		{"Version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "1"},
		{"NoMethod", `{"jsonrpc":"2.0","id":"a"}`, -32600, `"a"`},
		{"IDObject", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "null"},
		{"IDNull", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "null"},
		{"Method", `{"jsonrpc":"2.0","id":4,"method":"no/such"}`, -32601, "4"},
		{"ParamsText", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":"x"}`, -32600, "5"},
		{"Long", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 3000) + `"}`, -32600, "null"},
	}
	w := dial(t, newEdge(t, &fake{t: t}, func(o *mcp.Options) { o.MaxMessage = 2000 }))
	for _, tt := range tests {
		w.send(tt.line)
		m := w.next()
		if m.Error == nil || m.Error.Code != tt.code || string(m.ID) != tt.id {
			t.Errorf("%s: got id %s, error %+v", tt.name, m.ID, m.Error)
		}
	}
	// What wants no answer gets none.
	w.send(``)
	w.send(`{"jsonrpc":"2.0","method":"no/such"}`)
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
	w.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	w.send(`{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	if m := w.next(); string(m.ID) != "6" || m.Error != nil {
		t.Errorf("got %+v", m)
	}
}

// mcp-go's own client speaks every revision to it, both eras.
func TestStdio_Revisions(t *testing.T) {
	t.Parallel()
	for _, version := range proto.ValidProtocolVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f, _ := gated(t, false)
			e := newEdge(t, f, nil)
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			go func() { _ = e.ServeStdio(t.Context(), inR, outW) }()
			c := client.NewClient(transport.NewIO(outR, inW, io.NopCloser(strings.NewReader(""))), client.WithProtocolVersion(version))
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			speak(t, c, version)
		})
	}
}

// speak does what every client does first, and one call.
func speak(t *testing.T, c *client.Client, version string) {
	t.Helper()
	var req proto.InitializeRequest
	req.Params.ProtocolVersion = version
	req.Params.ClientInfo = proto.Implementation{Name: "test", Version: "1"}
	init, err := c.Initialize(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if init.ProtocolVersion != version || init.ServerInfo.Name != "pml" {
		t.Errorf("agreed on %s with %s", init.ProtocolVersion, init.ServerInfo.Name)
	}
	list, err := c.ListTools(t.Context(), proto.ListToolsRequest{})
	if err != nil || len(list.Tools) != 9 {
		t.Fatalf("tools: %v, %v", list, err)
	}
	var call proto.CallToolRequest
	call.Params.Name, call.Params.Arguments = "execute", map[string]any{"code": "return 1"}
	res, err := c.CallTool(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	var got, text map[string]any
	raw, _ := json.Marshal(res.StructuredContent)
	if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal([]byte(res.Content[0].(proto.TextContent).Text), &text)); err != nil {
		t.Fatal(err)
	}
	if got["status"] != "approval_required" || text["status"] != "approval_required" {
		t.Errorf("got %v and %v", got, text)
	}
	call.Params.Arguments = map[string]any{"code": 5}
	if _, err := c.CallTool(t.Context(), call); err == nil || !strings.Contains(err.Error(), "/code") {
		t.Errorf("bad arguments: %v", err)
	}
}

// Whatever comes in, only JSON-RPC goes out, and the server ends with its input.
func FuzzStdio(f *testing.F) {
	f.Add([]byte(initialize + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"))
	f.Add([]byte(callLine("1", "discover", `{"pattern":"*"}`, `{"progressToken":1}`)))
	f.Add([]byte("\x00\xff[[[{\n\n{}"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		b := &fake{t: t}
		b.execute = func(context.Context, api.ExecuteRequest) (api.Result, error) { return api.Result{}, nil }
		b.proceed = func(context.Context, api.ContinueRequest) (api.Result, error) { return api.Result{}, nil }
		e := newEdge(t, b, func(o *mcp.Options) { o.Grace = time.Millisecond })
		if err := e.ServeStdio(t.Context(), bytes.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var m struct {
				JSONRPC string `json:"jsonrpc"`
			}
			if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
				t.Errorf("%q came out: %v", line, err)
			}
		}
	})
}

// Who the client is, is passed on once, whether it shakes hands or says it with each
// request; a client without a name is nobody.
func TestStdio_Introduced(t *testing.T) {
	t.Parallel()
	const modern = `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":%q,"version":"2"}}}}`
	const handshake = `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":%q,"version":"2"}}}`
	for name, tt := range map[string]struct {
		line, client string
		want         int
	}{
		"handshake": {handshake, "one", 1}, "modern": {modern, "one", 1}, "without a name": {handshake, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []core.Client
			w := dial(t, newEdge(t, &fake{t: t}, func(o *mcp.Options) { o.Introduced = func(c core.Client) { got = append(got, c) } }))
			w.send(fmt.Sprintf(tt.line, 1, tt.client))
			w.next()
			w.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			w.next()
			w.send(fmt.Sprintf(tt.line, 3, tt.client))
			w.next()
			if len(got) != tt.want || tt.want == 1 && got[0] != (core.Client{Name: "one", Version: "2"}) {
				t.Errorf("%+v", got)
			}
		})
	}
}
