package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// cutter is an old server over HTTP whose streams end early. A call is answered by
// call and a stream that is resumed, with the id to resume it behind, by resumed.
type cutter struct {
	url string

	mu    sync.Mutex
	calls int
	gets  []string // the ids, in their order
	ended time.Time
	waits []time.Duration
}

const cutterRetry = 120 * time.Millisecond

func newCutter(t *testing.T, first string, resumed func(c *cutter, w http.ResponseWriter, r *http.Request, id json.RawMessage)) *cutter {
	t.Helper()
	c := &cutter{}
	var call json.RawMessage
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg message
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &msg)
		if r.Header.Get("X-Key") != "k1" {
			t.Errorf("%s %s: %v", r.Method, msg.Method, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
			if h := r.Header; h.Get("Mcp-Session-Id") != "s1" || h.Get("Mcp-Protocol-Version") != "2025-11-25" || h.Get("Content-Type") != "" {
				t.Errorf("%v", h)
			}
			c.mu.Lock()
			c.gets = append(c.gets, r.Header.Get("Last-Event-ID"))
			c.waits = append(c.waits, time.Since(c.ended))
			c.mu.Unlock()
			resumed(c, w, r, call)
		case r.Method != http.MethodPost:
			http.Error(w, "no", http.StatusMethodNotAllowed)
		case msg.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, msg.ID)
		case msg.Method == "tools/call":
			call = msg.ID
			c.mu.Lock()
			c.calls++
			c.mu.Unlock()
			events(w, first)
			c.end()
		case len(msg.ID) > 0:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, msg.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

func (c *cutter) end() {
	c.mu.Lock()
	c.ended = time.Now()
	c.mu.Unlock()
}

// events sends a part of a stream of events, and has it ended after it.
func events(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	text, torn := strings.CutSuffix(text, "<torn>")
	fmt.Fprint(w, text)
	if torn {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// A stream of a call that ends before its answer is resumed behind the last event
// that came whole, after the wait that the server named, and the call is never made
// again.
func TestResume(t *testing.T) {
	t.Parallel()
	primed := fmt.Sprintf("id: e1\nretry: %d\ndata: \n\n", cutterRetry.Milliseconds())
	const progress = "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p1\",\"progress\":1}}\n\n"
	answer := func(id json.RawMessage) string {
		return fmt.Sprintf("id: e3\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, text("done"))
	}
	for name, tt := range map[string]struct {
		first   string
		resumed []string // answer: the answer; a number: that status
		gets    []string
		why     string // the error, where there is one
	}{
		"ended behind the first event": {primed, []string{progress + "answer"}, []string{"e1"}, ""},
		"ended between events":         {primed + progress, []string{"answer"}, []string{"e2"}, ""},
		"torn in an event":             {primed + progress[:30] + "<torn>", []string{progress + "answer"}, []string{"e1"}, ""},
		"ended several times":          {primed, []string{"", progress, "answer"}, []string{"e1", "e1", "e2"}, ""},
		"what is in the way passes":    {primed + progress, []string{"503", "429", "answer"}, []string{"e2", "e2", "e2"}, ""},
		"no id":                        {"retry: 10\ndata: \n\n", nil, nil, "the stream of its answer ended before the answer, without an event id to resume it by"},
		"torn without an id":           {": x\n\n<torn>", nil, nil, `server "remote" cannot be reached while calling x`},
		"the session is forgotten":     {primed, []string{"404"}, []string{"e1"}, "could not be resumed: it answers with HTTP 404 Not Found"},
		"cannot be resumed":            {primed, []string{"405"}, []string{"e1"}, "could not be resumed: it answers with HTTP 405 Method Not Allowed"},
		"refused":                      {primed, []string{"401"}, []string{"e1"}, "could not be resumed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t, tt.first, func(c *cutter, w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				c.mu.Lock()
				n := len(c.gets)
				c.mu.Unlock()
				if n > len(tt.resumed) {
					http.Error(w, "resumed too often", http.StatusGone)
					return
				}
				next := tt.resumed[n-1]
				defer c.end()
				var status int
				if n, _ := fmt.Sscan(next, &status); n == 1 {
					http.Error(w, "no", status)
					return
				}
				events(w, strings.Replace(next, "answer", answer(id), 1))
			})
			m := newManager(t, nil)
			told := 0
			got, err := m.Call(t.Context(), upstream.Request{
				Launch: remote(c.url), Tool: "x", Progress: func(string, float64, float64) { told++ },
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.calls != 1 || cmp.Diff(tt.gets, c.gets) != "" {
				t.Errorf("called %d times, resumed behind %q", c.calls, c.gets)
			}
			for i, wait := range c.waits {
				if wait < cutterRetry {
					t.Errorf("stream %d was resumed after %s", i, wait)
				}
			}
			if tt.why == "" {
				if err != nil || string(got.Value) != `"done"` || told != 1 {
					t.Errorf("%s, %v, progress %d times", got.Value, err, told)
				}
				return
			}
			wantCode(t, err, core.CodeServerUnreachable, tt.why)
			if core.AsError(err).NotMade {
				t.Error("the call counts as not made")
			}
		})
	}
}

// The stream of notifications goes on behind the last event, too.
func TestResume_Notifications(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var opened []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg message
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &msg)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet:
			mu.Lock()
			opened = append(opened, r.Header.Get("Last-Event-ID"))
			n := len(opened)
			mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: e%d\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"u%d\"}}\n\n", n, n)
			if n == 3 {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		case msg.Method == "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}}`, msg.ID)
		case msg.Method == "server/discover":
			// A result would end the library's wait for the handshake, and with it the stream.
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, msg.ID)
		case len(msg.ID) > 0:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, text("ok"))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	m := newManager(t, nil)
	t.Cleanup(func() { _ = m.Close() })
	h, told := newHost("a", allCapabilities), make(chan string, 10)
	h.Notify = func(_ string, params json.RawMessage) { told <- string(params) }
	if _, err := call(t, m, with(remote(srv.URL), h), "x", `{}`); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(hung)
	for i := range 3 {
		select {
		case got := <-told:
			if want := fmt.Sprintf(`{"uri":"u%d"}`, i+1); got != want {
				t.Errorf("%s, not %s", got, want)
			}
		case <-deadline:
			t.Fatalf("only %d of 3 updates were heard", i)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"", "e1", "e2"}, opened); diff != "" {
		t.Error(diff)
	}
}
