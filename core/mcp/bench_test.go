package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
	"github.com/casys-ai/pml/core/upstream"
)

func benchEdge(b *testing.B) *mcp.Edge {
	b.Helper()
	f := &fake{execute: func(context.Context, api.ExecuteRequest) (api.Result, error) {
		return api.Result{Status: api.StatusSuccess, WorkflowID: runID, Result: core.Null}, nil
	}}
	e, err := mcp.New(mcp.Options{
		Backend:  func(api.Scope) (mcp.Backend, error) { return f, nil },
		Scope:    mcp.Fixed(api.Scope{}),
		Validate: new(upstream.Validator).Faults,
		Clock:    newClock(),
	})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// What MCP itself costs of a call of execute.
func BenchmarkExecute_Stdio(b *testing.B) {
	e := benchEdge(b)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() { _ = e.ServeStdio(b.Context(), inR, outW) }()
	r := bufio.NewReader(outR)
	line := callLine("1", "execute", `{"code":"return 1"}`, "") + "\n"
	for b.Loop() {
		if _, err := io.WriteString(inW, line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	_ = inW.Close()
}

func BenchmarkExecute_HTTP(b *testing.B) {
	srv := httptest.NewServer(benchEdge(b).Handler())
	defer srv.Close()
	send := func(body, session string) string {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Mcp-Session-Id", session)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.Header.Get("Mcp-Session-Id")
	}
	session := send(initialize, "")
	line := callLine("1", "execute", `{"code":"return 1"}`, "")
	for b.Loop() {
		send(line, session)
	}
}

// What the edge itself costs of a call that is offered through.
func BenchmarkOffered_Stdio(b *testing.B) {
	gw := &behind{call: func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
		return api.OfferedResult{Raw: []byte(`{"content":[{"type":"text","text":"hello"}]}`)}, nil
	}}
	e, err := mcp.New(mcp.Options{
		Backend:  func(api.Scope) (mcp.Backend, error) { return &fake{}, nil },
		Scope:    mcp.Fixed(api.Scope{}),
		Validate: new(upstream.Validator).Faults,
		Clock:    newClock(),
		Proxy:    func(api.Scope) (mcp.Proxy, error) { return gw, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() { _ = e.ServeStdio(b.Context(), inR, outW) }()
	r := bufio.NewReader(outR)
	line := callLine("1", "echo", `{"text":"hello"}`, "") + "\n"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.WriteString(inW, line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	_ = inW.Close()
}
