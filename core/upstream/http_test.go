package upstream_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// newMCP is a real server with a few tools.
func newMCP(hung chan<- struct{}, opts ...server.ServerOption) *server.MCPServer {
	s := server.NewMCPServer("remote", "1", opts...)
	s.AddTool(mcp.NewTool("echo"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b, err := json.Marshal(r.GetRawArguments())
		return mcp.NewToolResultText(string(b)), err
	})
	s.AddTool(mcp.NewTool("big"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", 4<<20)), nil
	})
	s.AddTool(mcp.NewTool("fail"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("no such city"), nil
	})
	s.AddTool(mcp.NewTool("hang"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		hung <- struct{}{}
		<-ctx.Done()
		hung <- struct{}{}
		return nil, ctx.Err()
	})
	return s
}

func remote(url string) upstream.Launch {
	return upstream.Launch{Name: "remote", Workspace: "/w", URL: url, Headers: map[string]string{"X-Key": "k1"}}
}

func TestHTTP_Calls(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{}, 2)
	handler := server.NewStreamableHTTPServer(newMCP(hung))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "k1" && r.Method == http.MethodPost {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 1 << 20 })
	l := remote(srv.URL)
	if got, err := call(t, m, l, "echo", `{"a":1}`); err != nil || got != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	_, err := call(t, m, l, "fail", `{}`)
	wantCode(t, err, core.CodeToolFailed, "no such city")
	_, err = call(t, m, l, "big", `{}`)
	wantCode(t, err, core.CodeResultTooLarge)
	_, err = call(t, m, l, "ecko", `{}`)
	wantCode(t, err, core.CodeNoSuchTool, "echo")
	tools, err := m.Tools(context.Background(), l)
	if err != nil || len(tools) != 4 {
		t.Errorf("%v, %v", tools, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, upstream.Request{Launch: l, Tool: "hang"})
		done <- err
	}()
	<-hung
	cancel()
	wantCode(t, <-done, core.CodeCancelled)
	<-hung
	l.Headers, l.Digest = nil, "other"
	_, err = call(t, m, l, "echo", `{}`)
	wantCode(t, err, core.CodeAuth, "remote")
}

// One broken request does not end the others of the same server.
func TestHTTP_BrokenRequestHarmsNoOther(t *testing.T) {
	t.Parallel()
	waiting, release := make(chan struct{}), make(chan struct{})
	s := newMCP(nil)
	s.AddTool(mcp.NewTool("wait"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(waiting)
		<-release
		return mcp.NewToolResultText("waited"), nil
	})
	handler := server.NewStreamableHTTPServer(s)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"abort"`) {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	done := make(chan string, 1)
	go func() {
		got, err := call(t, m, remote(srv.URL), "wait", `{}`)
		if err != nil {
			got = err.Error()
		}
		done <- got
	}()
	<-waiting
	_, err := call(t, m, remote(srv.URL), "abort", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "remote")
	close(release)
	if got := <-done; got != `"waited"` {
		t.Error(got)
	}
}

func TestHTTP_Unreachable(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	m := newManager(t, nil)
	_, err := call(t, m, remote(srv.URL), "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "remote")
	srv.Close()
	_, err = call(t, m, remote(srv.URL), "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "remote")
}

// A server that was restarted does not know our session: the call is made in a
// new one, once.
func TestHTTP_SessionForgotten(t *testing.T) {
	t.Parallel()
	var handler atomic.Pointer[server.StreamableHTTPServer]
	fresh := func() {
		handler.Store(server.NewStreamableHTTPServer(newMCP(nil), server.WithStateful(true), server.WithStreamableHTTPProtocolVersions("2025-06-18")))
	}
	fresh()
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"tools/call"`) {
			calls.Add(1)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	for i := range 2 {
		if _, err := call(t, m, remote(srv.URL), "echo", `{}`); err != nil {
			t.Fatal(i, err)
		}
		fresh()
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d requests for 2 calls, one of them refused", n)
	}
}

func TestHTTP_RedirectElsewhereNotFollowed(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("X-Key") != "") }))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	_, err := call(t, m, remote(srv.URL), "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if leaked.Load() {
		t.Error("the header went to another host")
	}
}

func TestHTTP_NeverAnswers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	m := newManager(t, func(o *upstream.Options) { o.Limits.Start = 100 * time.Millisecond })
	_, err := call(t, m, remote(srv.URL), "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "did not answer initialize within 100ms")
}
