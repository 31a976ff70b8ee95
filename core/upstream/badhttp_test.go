package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// tiny is an old MCP server over HTTP whose tool calls are answered by call.
func tiny(t *testing.T, call func(w http.ResponseWriter, r *http.Request, id json.RawMessage)) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg message
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || json.Unmarshal(body, &msg) != nil {
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch msg.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"1"}}}`, msg.ID)
		case "tools/call":
			call(w, r, msg.ID)
		default:
			if len(msg.ID) == 0 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, msg.ID)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// What comes instead of the answer to a call: said clearly, soon, and without
// harm to the calls that follow.
func TestBadHTTP_Calls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
		code core.Code
		want string
	}{
		"a page": {
			func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				fmt.Fprint(w, "<html>Log in</html>")
			}, core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers with text/html, which is no MCP message: is its url right?`,
		},
		"status 500": {
			func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				http.Error(w, "out of cheese\x1b[2J", http.StatusInternalServerError)
			}, core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers with HTTP 500 Internal Server Error: out of cheese\x1b[2J`,
		},
		"status 500 with JSON": {
			func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, `{"message":"out of cheese"}`)
			}, core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers with HTTP 500 Internal Server Error: {"message":"out of cheese"}`,
		},
		"status 502 with a page": {
			func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(http.StatusBadGateway)
				fmt.Fprint(w, "<html>"+strings.Repeat("x", 1000))
			}, core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers with HTTP 502 Bad Gateway`,
		},
		"status 404 without a session": {
			func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) { http.NotFound(w, r) },
			core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers with HTTP 404 Not Found`,
		},
		"another id": {
			func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":4711,"result":{"content":[]}}`)
			}, core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers to another request than the one it was sent`,
		},
		"no result": {
			func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s}`, id)
			}, core.CodeServerUnreachable,
			`server "remote" is of no use for calling x: it answers with neither a result nor an error`,
		},
		"a stream that never ends": {
			func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/event-stream")
				for r.Context().Err() == nil {
					if _, err := fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"x\"}}\n\n"); err != nil {
						return
					}
				}
			}, core.CodeToolTimeout,
			"remote:x did not answer within 300ms, nor tell of progress (limits.call_timeout); it was told to stop, and may have had its effect",
		},
		"an event without end": {
			func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: ")
				for r.Context().Err() == nil {
					if _, err := fmt.Fprint(w, strings.Repeat("x", 64<<10)); err != nil {
						return
					}
				}
			}, core.CodeResultTooLarge,
			"the result of remote:x is longer than 1048576 bytes: ask for less, or raise limits.result_bytes",
		},
		"no headers": {
			func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() },
			core.CodeToolTimeout,
			"remote:x did not answer within 300ms, nor tell of progress (limits.call_timeout); it was told to stop, and may have had its effect",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bad atomic.Bool
			bad.Store(true)
			srv := tiny(t, func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				if bad.Load() {
					tt.call(w, r, id)
					return
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text("well"))
			})
			m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 1 << 20 })
			t.Cleanup(func() { _ = m.Close() })
			timeout := hung
			if tt.code == core.CodeToolTimeout {
				timeout = 300 * time.Millisecond
			}
			done := within(t, soon)
			_, err := m.Call(context.Background(), upstream.Request{Launch: remote(srv.URL), Tool: "x", Timeout: timeout})
			wantError(t, err, tt.code, tt.want)
			bad.Store(false)
			if got, err := call(t, m, remote(srv.URL), "x", `{}`); err != nil || got != `"well"` {
				t.Errorf("it is not used again: %s, %v", got, err)
			}
			done()
		})
	}
}

// A long stream of short events is no long result.
func TestBadHTTP_LongStreamOfShortEvents(t *testing.T) {
	t.Parallel()
	srv := tiny(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		event := `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", 50_000) + `"}}` + "\r\n\r\n"
		for range 60 {
			fmt.Fprint(w, event)
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, text("well"))
	})
	m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 1000 })
	if got, err := call(t, m, remote(srv.URL), "x", `{}`); err != nil || got != `"well"` {
		t.Errorf("%s, %v", got, err)
	}
}

// What an address is that holds no MCP server.
func TestBadHTTP_Starts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Welcome</html>") },
			`server "remote" does not complete the MCP handshake: it answers with text/html, which is no MCP message: is its url right?`},
		"status 500": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no cheese", http.StatusInternalServerError)
		},
			`server "remote" does not complete the MCP handshake: it answers with HTTP 500 Internal Server Error: no cheese`},
		"status 403": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not from here", http.StatusForbidden) },
			`server "remote" does not complete the MCP handshake: it answers with HTTP 403 Forbidden: not from here`},
		"a login page of its own": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			fmt.Fprint(w, "<html>Log in</html>")
		}, `server "remote" does not complete the MCP handshake: it answers with text/html, which is no MCP message: is its url right?`},
		"status 404": {http.NotFound,
			`server "remote" does not complete the MCP handshake: it answers with HTTP 404 Not Found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.answer)
			t.Cleanup(srv.Close)
			defer within(t, soon)()
			_, err := call(t, newManager(t, nil), remote(srv.URL+"/?key=hunter2hunter2"), "x", `{}`)
			wantError(t, err, core.CodeServerUnreachable, tt.want)
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewServer(http.NotFoundHandler())
		srv.Close()
		_, err := call(t, newManager(t, nil), remote(srv.URL+"/?key=hunter2hunter2"), "x", `{}`)
		wantCode(t, err, core.CodeServerUnreachable, "connection refused")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the address with its key is shown: %v", err)
		}
	})
	t.Run("no address", func(t *testing.T) {
		t.Parallel()
		for _, url := range []string{"ftp://x/mcp", "http://", "http://a b/", "mcp"} {
			_, err := call(t, newManager(t, nil), remote(url), "x", `{}`)
			wantError(t, err, core.CodeInvalidConfig, `server "remote": its url is not an address of HTTP`)
		}
	})
}

// A session's end is not waited for longer than a process would be.
func TestBadHTTP_GoodbyeIsNotAnswered(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			asked <- r.Header.Get("X-Key")
			<-r.Context().Done()
			return
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		w.Header().Set("Content-Type", "application/json")
		var msg message
		_ = json.NewDecoder(r.Body).Decode(&msg)
		switch {
		case msg.Method == "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, msg.ID)
		case msg.Method == "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, msg.ID)
		case len(msg.ID) > 0:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, text("well"))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	if _, err := call(t, m, remote(srv.URL), "x", `{}`); err != nil {
		t.Fatal(err)
	}
	done := within(t, soon) // StopGrace is 300 ms here
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	done()
	if key := <-asked; key != "k1" {
		t.Errorf("the configured header was %q", key)
	}
}
