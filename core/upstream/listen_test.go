package upstream_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core/upstream"
)

// listened is an old server over HTTP, with a session, whose stream of
// notifications is what stream makes of it; n counts its openings from 1.
func listened(t *testing.T, stream func(w http.ResponseWriter, r *http.Request, n int32)) upstream.Launch {
	t.Helper()
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if r.Header.Get("Mcp-Protocol-Version") != "2025-06-18" || r.Header.Get("X-Key") != "k1" {
				t.Errorf("the stream's headers: %v", r.Header)
			}
			stream(w, r, n.Add(1))
			return
		}
		var msg message
		_ = json.NewDecoder(r.Body).Decode(&msg)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case msg.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}}`, msg.ID)
		case msg.Method == "tools/call":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, text("well"))
		case len(msg.ID) > 0:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, msg.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	return remote(srv.URL)
}

const changedEvent = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"

// A stream of notifications that does not come up holds up nothing.
func TestListen_StreamThatHangs(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{}, 1)
	l := listened(t, func(_ http.ResponseWriter, r *http.Request, _ int32) {
		opened <- struct{}{}
		<-r.Context().Done()
	})
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close() })
	defer within(t, soon)()
	if _, err := call(t, m, l, "x", `{}`); err != nil {
		t.Fatal(err)
	}
	<-opened
	if _, err := call(t, m, l, "x", `{}`); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A stream that breaks is opened again.
func TestListen_OpensAgain(t *testing.T) {
	t.Parallel()
	l := listened(t, func(w http.ResponseWriter, r *http.Request, n int32) {
		if r.Header.Get("Mcp-Session-Id") != "s1" {
			t.Error("the stream belongs to no session")
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if n == 1 {
			return
		}
		fmt.Fprint(w, changedEvent)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	changes := make(chan string, 10)
	m := newManager(t, told(changes))
	t.Cleanup(func() { _ = m.Close() })
	if _, err := call(t, m, l, "x", `{}`); err != nil {
		t.Fatal(err)
	}
	next(t, changes, "remote in /w")
}

// A server that refuses the stream is asked once, not every second.
func TestListen_RefusedIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusBadRequest, http.StatusOK} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			var times atomic.Int32
			l := listened(t, func(w http.ResponseWriter, _ *http.Request, n int32) {
				times.Store(n)
				w.WriteHeader(code)
			})
			l.Auth = &tokens{}
			defer within(t, soon)()
			if err := upstream.Listen(t.Context(), l); err != nil {
				t.Error(err)
			}
			if n := times.Load(); n != 1 {
				t.Errorf("opened %d times", n)
			}
		})
	}
}
