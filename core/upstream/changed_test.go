package upstream_test

import (
	"context"
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

// told collects what ToolsChanged is told.
func told(changes chan<- string) func(*upstream.Options) {
	return func(o *upstream.Options) {
		o.ToolsChanged = func(name, workspace string) { changes <- name + " in " + workspace }
	}
}

func next(t *testing.T, changes <-chan string, want string) {
	t.Helper()
	select {
	case got := <-changes:
		if got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	case <-time.After(hung):
		t.Fatal("not told")
	}
}

func TestToolsChanged_Announced(t *testing.T) {
	t.Parallel()
	changes := make(chan string, 10)
	m := newManager(t, told(changes))
	l := launch(t, "good")
	if _, err := call(t, m, l, "changed", `{}`); err != nil {
		t.Fatal(err)
	}
	next(t, changes, "good in "+l.Workspace)
	if len(changes) != 0 {
		t.Error("told twice")
	}
}

// A server that announces without end keeps nobody busy.
func TestToolsChanged_Flood(t *testing.T) {
	t.Parallel()
	changes := make(chan string, 10_000)
	m := newManager(t, told(changes))
	l := launch(t, "good")
	began := time.Now()
	if _, err := call(t, m, l, "changed-often", `{}`); err != nil {
		t.Fatal(err)
	}
	next(t, changes, "good in "+l.Workspace)
	next(t, changes, "good in "+l.Workspace) // what came after the first was told
	if n, most := len(changes), int(time.Since(began)/(200*time.Millisecond)); n > most {
		t.Errorf("told %d times more, at most %d", n, most)
	}
}

// Whoever is told may ask at once.
func TestToolsChanged_MayCallTheManager(t *testing.T) {
	t.Parallel()
	asked := make(chan int, 1)
	var m *upstream.Manager
	var l upstream.Launch
	m = newManager(t, func(o *upstream.Options) {
		o.ToolsChanged = func(name, workspace string) {
			_, known := m.Health(name, workspace)
			tools, err := m.Tools(context.Background(), l)
			if err != nil || !known {
				t.Error(known, err)
			}
			asked <- len(tools)
		}
	})
	l = launch(t, "good")
	if _, err := call(t, m, l, "changed", `{}`); err != nil {
		t.Fatal(err)
	}
	if n := <-asked; n != 2 {
		t.Errorf("%d tools", n)
	}
}

func TestToolsChanged_AnotherProcess(t *testing.T) {
	t.Parallel()
	changes := make(chan string, 10)
	m := newManager(t, told(changes))
	l := launch(t, "good")
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, m, l, "die", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if len(changes) != 0 {
		t.Error("told of the first process")
	}
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	if len(changes) != 1 { // before the call was made
		t.Fatalf("told %d times", len(changes))
	}
	next(t, changes, "good in "+l.Workspace)
	l.Digest = "d2" // configured otherwise
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	next(t, changes, "good in "+l.Workspace)
}

// announcing is a server that tells of changes, of one revision.
func announcing(t *testing.T, versions ...string) (*server.MCPServer, *httptest.Server, *atomic.Int32) {
	t.Helper()
	s := server.NewMCPServer("remote", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("first"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("1"), nil
	})
	opts := []server.StreamableHTTPOption{server.WithStateful(true)}
	if len(versions) > 0 {
		opts = append(opts, server.WithStreamableHTTPProtocolVersions(versions...))
	}
	handler := server.NewStreamableHTTPServer(s, opts...)
	var streams atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || strings.Contains(r.Header.Get("Mcp-Method"), "subscriptions") {
			if r.Header.Get("X-Key") != "k1" {
				t.Error("the stream has not the configured headers")
			}
			streams.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return s, srv, &streams
}

func TestToolsChanged_OverHTTP(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string][]string{"listening": {"2025-06-18"}, "subscribed": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, srv, streams := announcing(t, versions...)
			changes := make(chan string, 100)
			m := newManager(t, told(changes))
			t.Cleanup(func() { _ = m.Close() }) // before the server, which waits for its streams
			l := remote(srv.URL)
			tools, err := m.Tools(context.Background(), l)
			if err != nil || len(tools) != 1 {
				t.Fatal(tools, err)
			}
			// The stream opens beside the first calls: announce until it is heard.
			deadline := time.After(hung)
			for heard := false; !heard; {
				s.AddTool(mcp.NewTool("second"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return mcp.NewToolResultText("2"), nil
				})
				select {
				case got := <-changes:
					if got != "remote in /w" {
						t.Error(got)
					}
					heard = true
				case <-time.After(20 * time.Millisecond):
				case <-deadline:
					h, _ := m.Health("remote", "/w")
					t.Fatalf("not told; %d streams, %+v", streams.Load(), h)
				}
			}
			if tools, err := m.Tools(context.Background(), l); err != nil || len(tools) != 2 {
				t.Errorf("the old tools are still remembered: %v, %v", tools, err)
			}
		})
	}
}

// A server that does not say that it announces changes is not listened to.
func TestToolsChanged_NoStreamWithoutNeed(t *testing.T) {
	t.Parallel()
	var gets atomic.Int32
	handler := server.NewStreamableHTTPServer(newMCP(nil, server.WithToolCapabilities(false)), server.WithStreamableHTTPProtocolVersions("2025-06-18"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	if _, err := call(t, m, remote(srv.URL), "echo", `{}`); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil { // what would listen has ended
		t.Error(err)
	}
	if n := gets.Load(); n != 0 {
		t.Errorf("%d streams", n)
	}
}
