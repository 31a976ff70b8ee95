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

// wantMade fails unless the error of a call says what is known of it.
func wantMade(t *testing.T, err error, maybe bool) {
	t.Helper()
	if err == nil || core.AsError(err).NotMade == maybe {
		t.Errorf("not made: %v, of %v", !maybe, err)
	}
}

// A call whose server cannot be started or reached was not made, and says so.
func TestNotMade(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *upstream.Launch){
		"no command": func(l *upstream.Launch) { l.Command = "/nowhere/at/all" },
		"no folder":  func(l *upstream.Launch) { l.Dir = "/nowhere/at/all" },
		"ends":       func(l *upstream.Launch) { l.Env = []string{"PML_TEST_SERVER=exits"} },
		"not verified": func(l *upstream.Launch) {
			l.Verify = func() error { return core.Errorf(core.CodeInternal, "cannot look") }
		},
		"refused": func(l *upstream.Launch) { l.Command, l.URL = "", "http://127.0.0.1:1/" },
		"no handshake": func(l *upstream.Launch) {
			srv := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(srv.Close)
			l.Command, l.URL = "", srv.URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launch(t, "good")
			change(&l)
			_, err := call(t, newManager(t, nil), l, "echo", `{}`)
			wantMade(t, err, false)
		})
	}
}

// A server over HTTP that has gone since the handshake has got nothing of a call
// that no connection could be opened for. One that took the call may have run it.
func TestNotMade_HTTP(t *testing.T) {
	t.Parallel()
	handler := server.NewStreamableHTTPServer(newMCP(nil))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"abort"`) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Connection", "close") // the next request needs another one
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	defer srv.Close()
	m := newManager(t, nil)
	l := remote(srv.URL)
	if _, err := call(t, m, l, "echo", `{}`); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, m, l, "abort", `{}`)
	wantMade(t, err, true)
	if _, err := call(t, m, l, "echo", `{}`); err != nil {
		t.Fatal(err)
	}
	srv.CloseClientConnections()
	_ = srv.Listener.Close()
	_, err = call(t, m, l, "echo", `{}`)
	if err != nil && strings.Contains(err.Error(), "connection reset") {
		// The client of net/http opens connections ahead. This call was written to one, so it may have been made.
		_, err = call(t, m, l, "echo", `{}`)
	}
	wantMade(t, err, false)
}

// A redirect is an answer: the server had the call, whatever comes after.
func TestNotMade_Redirected(t *testing.T) {
	t.Parallel()
	handler := server.NewStreamableHTTPServer(newMCP(nil))
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"tools/call"`) {
			_ = srv.Listener.Close()
			w.Header().Set("Connection", "close")
			w.Header().Set("Location", srv.URL+"/again")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	defer srv.Close()
	m := newManager(t, nil)
	_, err := call(t, m, remote(srv.URL), "echo", `{}`)
	wantMade(t, err, true)
}

// What a server was sent may have run, however the call ends.
func TestNotMade_NotOfWhatWasSent(t *testing.T) {
	t.Parallel()
	t.Run("dies", func(t *testing.T) {
		t.Parallel()
		_, err := call(t, newManager(t, nil), launch(t, "good"), "die", `{}`)
		wantMade(t, err, true)
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		m := newManager(t, nil)
		p, _ := newPhone(t)
		l := launch(t, "good", p.env())
		if _, err := call(t, m, l, "echo", `{}`); err != nil {
			t.Fatal(err)
		}
		_, err := m.Call(context.Background(), upstream.Request{Launch: l, Tool: "hang", Timeout: time.Millisecond})
		wantCode(t, err, core.CodeToolTimeout)
		wantMade(t, err, true)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			r := <-p.calls
			_, _ = r.ReadString('\n')
			for range 3 { // hanging, cancelled, hanging
				_, _ = r.ReadString('\n')
			}
			cancel()
		}()
		_, err = m.Call(ctx, upstream.Request{Launch: l, Tool: "hang"})
		wantCode(t, err, core.CodeCancelled)
		wantMade(t, err, true)
	})
}

// A call that its caller gives up before it is sent was not made: while its server
// starts, and while others have all places.
func TestNotMade_GivenUp(t *testing.T) {
	t.Parallel()
	p, _ := newPhone(t)
	m := newManager(t, func(o *upstream.Options) { o.Limits.PerServer = 1 })
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		line(t, <-p.calls)
		cancel()
	}()
	_, err := m.Call(ctx, upstream.Request{Launch: launch(t, "gated", p.env()), Tool: "echo"})
	wantCode(t, err, core.CodeCancelled)
	wantMade(t, err, false)

	l := launch(t, "good", p.env())
	holds, release := context.WithCancel(context.Background())
	held := make(chan struct{})
	go func() {
		defer close(held)
		_, _ = m.Call(holds, upstream.Request{Launch: l, Tool: "hang"})
	}()
	r := <-p.calls
	line(t, r)
	line(t, r) // it hangs
	gone, give := context.WithCancel(context.Background())
	give()
	_, err = m.Call(gone, upstream.Request{Launch: l, Tool: "echo"})
	wantCode(t, err, core.CodeCancelled)
	wantMade(t, err, false)
	release()
	<-held
	_ = m.Close()
	_, err = call(t, m, l, "echo", `{}`)
	wantMade(t, err, false)
}

// A server that asked for input has had the call: one that is gone when it is to
// get the answer may have run it, and does not get the call anew.
func TestNotMade_SecondRound(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	handler := func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var msg message
		_ = json.Unmarshal(text, &msg)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case msg.Method == "server/discover":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(msg.ID)+`,"result":{"resultType":"complete","supportedVersions":["`+mcp.ProtocolVersion20260728+`"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`)
		case msg.Method == "tools/call" && calls.Add(1) == 1:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(msg.ID)+`,"result":{"resultType":"input_required","inputRequests":{"x":{"method":"roots/list"}},"requestState":"s"}}`)
		case msg.Method == "tools/call":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(handler))
	defer srv.Close()
	m := newManager(t, nil)
	_, err := call(t, m, with(remote(srv.URL), newHost("a", allCapabilities)), "t", `{}`)
	wantMade(t, err, true)
	if n := calls.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A call whose caller says no at the last moment is not sent, over a pipe or over HTTP.
func TestNotMade_Before(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg message
		_ = json.NewDecoder(r.Body).Decode(&msg)
		w.Header().Set("Content-Type", "application/json")
		switch msg.Method {
		case "tools/call":
			calls.Add(1)
			w.WriteHeader(http.StatusNotFound)
		case "server/discover":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(msg.ID)+`,"result":{"resultType":"complete","supportedVersions":["`+mcp.ProtocolVersion20260728+`"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer srv.Close()
	_, err := newManager(t, nil).Call(t.Context(), upstream.Request{Launch: with(remote(srv.URL), newHost("a", allCapabilities)), Tool: "t", Args: []byte(`{}`), Before: func(context.Context) error {
		return core.Errorf(core.CodeFenced, "taken for dead")
	}})
	wantCode(t, err, core.CodeFenced)
	wantMade(t, err, false)
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	p, _ := newPhone(t)
	m := newManager(t, nil)
	l := launch(t, "good", p.env())
	asked := 0
	_, err = m.Call(t.Context(), upstream.Request{Launch: l, Tool: "hang", Before: func(context.Context) error {
		asked++
		return core.Errorf(core.CodeFenced, "taken for dead")
	}})
	wantCode(t, err, core.CodeFenced)
	wantMade(t, err, false)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	line(t, <-p.calls) // the server has started, and is not in a call: this one would wait for it
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
}
