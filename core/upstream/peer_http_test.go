package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// asker is an old server over HTTP with a session. What call makes of a tool's
// call is its stream of events; answers gets what the client posts to our own
// requests.
type asker struct {
	url     string
	answers chan string
	listen  chan string // events for the stream of notifications
	// late is what the stream of notifications waits for before it opens, nil for nothing.
	late func()
}

func newAsker(t *testing.T, call func(a *asker, id json.RawMessage, event func(string))) *asker {
	t.Helper()
	a := &asker{answers: make(chan string, 10), listen: make(chan string, 10)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event := func(s string) {
			fmt.Fprint(w, s)
			_ = http.NewResponseController(w).Flush()
		}
		if r.Method == http.MethodGet {
			if a.late != nil {
				a.late()
			}
			w.Header().Set("Content-Type", "text/event-stream")
			event(": open\n\n")
			for {
				select {
				case s := <-a.listen:
					event(s)
				case <-r.Context().Done():
					return
				}
			}
		}
		text, _ := io.ReadAll(r.Body)
		var msg message
		_ = json.Unmarshal(text, &msg)
		switch {
		case msg.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}}`, msg.ID)
		case msg.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			call(a, msg.ID, event)
		case msg.Method == "resources/read":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such resource","data":{"n":12345678901234567890}}}`, msg.ID)
		case msg.Method == "" && len(msg.ID) > 0:
			if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-06-18" || r.Header.Get("X-Key") != "k1" {
				t.Errorf("an answer's headers: %v", r.Header)
			}
			w.WriteHeader(http.StatusAccepted)
			a.answers <- string(text)
		case len(msg.ID) > 0:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, msg.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

const (
	askEvent  = "event: message\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\",\n" + "data: \"params\":{\"n\":12345678901234567890}}\n\n"
	askAnswer = `{"jsonrpc":"2.0","id":"q","result":{"asked":"elicitation/create","with":{"n":12345678901234567890}}}`
)

// A question in the stream of a call, or in that of notifications, and what is
// told before the result.
func TestPeer_OverHTTP(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"the call's stream", "the stream of notifications"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, func(a *asker, id json.RawMessage, event func(string)) {
				for i := range 50 {
					event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"i\":%d,\"f\":1.10}}\r\n\r\n", i))
				}
				if where == "the call's stream" {
					event(askEvent)
				} else {
					a.listen <- askEvent
				}
				answer := <-a.answers
				event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, text(answer)))
			})
			m := newManager(t, nil)
			t.Cleanup(func() { _ = m.Close() })
			h := newHost("a", allCapabilities)
			got, err := call(t, m, with(remote(a.url), h), "x", `{}`)
			sameJSON(t, askAnswer, got, err)
			var want []string
			for i := range 50 {
				want = append(want, fmt.Sprintf(`notifications/message {"i":%d,"f":1.10}`, i))
			}
			if diff := cmp.Diff(want, h.heard()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A server that opens its stream of notifications late loses nothing that it asks
// there: no call is made before.
func TestPeer_OverHTTPListensFirst(t *testing.T) {
	t.Parallel()
	called, asked := make(chan struct{}), make(chan string, 1)
	a := newAsker(t, func(_ *asker, id json.RawMessage, event func(string)) {
		close(called)
		event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, text("well")))
	})
	a.late = func() {
		select {
		case <-called:
			asked <- "it was called before anybody listened"
		case <-time.After(200 * time.Millisecond):
			asked <- ""
		}
	}
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close() })
	if _, err := call(t, m, with(remote(a.url), newHost("a", allCapabilities)), "x", `{}`); err != nil {
		t.Fatal(err)
	}
	if wrong := <-asked; wrong != "" {
		t.Error(wrong)
	}
}

// Over HTTP a question ends with the very call in whose stream it came.
func TestPeer_OverHTTPQuestionEndsWithItsCall(t *testing.T) {
	t.Parallel()
	a := newAsker(t, func(_ *asker, id json.RawMessage, event func(string)) {
		event(askEvent)
		event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, text("never mind")))
	})
	h := newHost("a", allCapabilities)
	h.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close() })
	if got, err := call(t, m, with(remote(a.url), h), "x", `{}`); err != nil || got != `"never mind"` {
		t.Fatal(got, err)
	}
	if got := <-a.answers; !strings.Contains(got, `"error"`) || !strings.Contains(got, `"id":"q"`) {
		t.Error(got)
	}
}

// The data of an error keeps its digits, in a stream and out of one.
func TestPeer_OverHTTPErrorsUnharmed(t *testing.T) {
	t.Parallel()
	a := newAsker(t, func(_ *asker, id json.RawMessage, event func(string)) {
		event(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32042,\"message\":\"open it\",\"data\":{\"n\":12345678901234567890}}}\n\n", id))
	})
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close() })
	_, err := call(t, m, remote(a.url), "x", `{}`)
	wantCode(t, err, core.CodeToolFailed, "open it")
	wantRPC(t, err, jsonrpc.Error{Code: -32042, Message: "open it", Data: json.RawMessage(`{"n":12345678901234567890}`)})
	_, err = forward(t, m, remote(a.url), "resources/read", `{"uri":"u"}`)
	wantRPC(t, err, jsonrpc.Error{Code: -32002, Message: "no such resource", Data: json.RawMessage(`{"n":12345678901234567890}`)})
}
