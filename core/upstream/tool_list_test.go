package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// bound calls a tool of one edition of a server.
func bound(m *upstream.Manager, l upstream.Launch, e upstream.Edition, tool string) (string, error) {
	resp, err := m.Call(context.Background(), upstream.Request{Launch: l, Edition: e, Tool: tool, Args: json.RawMessage("{}")})
	return string(resp.Value), err
}

func listed(t *testing.T, m *upstream.Manager, l upstream.Launch) upstream.Edition {
	t.Helper()
	_, e, err := m.List(context.Background(), l)
	if err != nil || e == 0 || !m.Lives(l, e) {
		t.Fatalf("edition %d: %v", e, err)
	}
	return e
}

func wantOther(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, upstream.ErrOtherEdition) || core.CodeOf(err) != core.CodeServerUnreachable {
		t.Fatalf("made, or refused with other words: %v", err)
	}
}

// A call that is bound to a process starts no other one, however that ended.
func TestEdition_Process(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, m *upstream.Manager, l upstream.Launch){
		"died": func(t *testing.T, m *upstream.Manager, l upstream.Launch) {
			_, err := call(t, m, l, "die", `{}`)
			wantCode(t, err, core.CodeServerUnreachable)
		},
		"stopped": func(_ *testing.T, m *upstream.Manager, l upstream.Launch) { m.Stop(l.Name, l.Workspace) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := make(chan string, 10)
			m := newManager(t, told(changes))
			l := launch(t, "good")
			e := listed(t, m, l)
			first, err := bound(m, l, e, "pid")
			if err != nil {
				t.Fatal(err)
			}
			end(t, m, l)
			if m.Lives(l, e) {
				t.Error("it lives")
			}
			_, err = bound(m, l, e, "pid")
			wantOther(t, err)
			if h, _ := m.Health(l.Name, l.Workspace); h.PID != 0 || len(changes) != 0 {
				t.Errorf("another process was started: %+v", h)
			}
			next := listed(t, m, l)
			_, err = bound(m, l, e, "pid") // it runs now, and is another one
			wantOther(t, err)
			second, err := bound(m, l, next, "pid")
			if err != nil || second == first {
				t.Errorf("%s, then %s: %v", first, second, err)
			}
			l.Digest = "d2" // configured otherwise
			_, err = bound(m, l, next, "pid")
			wantOther(t, err)
		})
	}
}

// A server that has forgotten the session gets the call only if that may go to
// any session: the tools of the next one were not listed.
func TestEdition_Session(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	serve := func() http.Handler {
		s := server.NewMCPServer("remote", "1", server.WithToolCapabilities(false))
		s.AddTool(mcp.NewTool("t"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			calls.Add(1)
			return mcp.NewToolResultText("1"), nil
		})
		return server.NewStreamableHTTPServer(s, server.WithStateful(true), server.WithStreamableHTTPProtocolVersions("2025-06-18"))
	}
	var handler atomic.Value
	handler.Store(serve())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, _ := handler.Load().(http.Handler)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close() })
	l := remote(srv.URL)
	e := listed(t, m, l)
	if _, err := bound(m, l, e, "t"); err != nil {
		t.Fatal(err)
	}
	handler.Store(serve()) // restarted
	_, err := bound(m, l, e, "t")
	wantOther(t, err)
	if n := calls.Load(); n != 1 {
		t.Fatalf("called %d times", n)
	}
	if _, err := bound(m, l, listed(t, m, l), "t"); err != nil {
		t.Error(err)
	}
	handler.Store(serve())
	if _, err := bound(m, l, 0, "t"); err != nil {
		t.Errorf("a call that names no edition is made on the next session: %v", err)
	}
}
