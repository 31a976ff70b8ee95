package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// steady reads a little every second, of the bubble's time.
type steady struct {
	net.Conn
}

func (s steady) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Conn.Read(p[:min(len(p), 16<<10)])
}

// A reader that is slow and not stuck gets all of a large answer, however long
// that takes.
func TestWrites_SlowButSteady(t *testing.T) {
	t.Parallel()
	keys := server.NewKeys(t.TempDir(), &clock{now: start})
	token, err := keys.Create("ana")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		const size = 2 << 20
		s := server.New(server.Options{
			Half: newBackend().half, Clock: &clock{now: start}, Keys: keys,
			MCP: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }),
		})
		ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, ln) }()
		near, far := net.Pipe()
		ln.conns <- far
		if _, err := io.WriteString(near, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Api-Key: "+token+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		res, err := http.ReadResponse(bufio.NewReaderSize(steady{near}, 16<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if n != size || err != nil {
			t.Errorf("%d of %d bytes after %s: %v", n, size, time.Since(begin), err)
		}
		if time.Since(begin) < time.Minute {
			t.Errorf("the reader was not slow: %s", time.Since(begin))
		}
		_ = res.Body.Close()
		_ = near.Close()
		stop()
		<-ended
		s.Close()
	})
}

// Requests that wait have places of their own: who has taken all of its own is
// refused more, and still gets quick answers; others are not held up.
func TestLimits_Waiting(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Waiting, o.Limits.OwnerWaiting = 3, 2 })
	release := make(chan struct{})
	e.b.wait = release
	const waits, quick = `{"code":"1","options":{"wait":-1}}`, `{"decision":{"approved":true}}`
	var wg sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(5)
	e.b.begun = begun.Done
	wait := func(send func() reply) {
		wg.Go(func() {
			if r := send(); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	for range 2 {
		wait(func() reply { return e.as(t, "ana", "POST", "/api/v1/workflows", waits) })
	}
	for range 3 {
		wait(func() reply { return e.do(t, "POST", "/api/v1/workflows", waits) })
	}
	begun.Wait()
	e.b.mu.Lock()
	e.b.begun = nil
	e.b.mu.Unlock()
	const run = "/api/v1/workflows/11110001"
	for path, body := range map[string]string{
		"/api/v1/workflows": waits, run + "/continue": `{"wait":5,"hold_approvals":true}`, run + "/retry": `{"wait":5}`,
		run + "/approvals/ffff0001": `{"approved":true,"wait":5}`,
	} {
		r := e.as(t, "ana", "POST", path, body)
		if r.status != 429 || r.header.Get("Retry-After") == "" || r.problem(t).Code != core.CodeRateLimited {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		if r = e.do(t, "POST", path, body); r.status != 429 {
			t.Errorf("%s on the socket: %d %s", path, r.status, r.body)
		}
	}
	if r := e.as(t, "ana", "POST", run+"/continue", quick); r.status != 200 {
		t.Errorf("what does not wait: %d %s", r.status, r.body)
	}
	if r := e.as(t, "ben", "POST", "/api/v1/workflows/22220002/continue", `{"wait":-1}`); r.status != 200 {
		t.Errorf("another key: %d %s", r.status, r.body)
	}
	close(release)
	wg.Wait()
	if r := e.as(t, "ana", "POST", run+"/continue", `{"wait":5}`); r.status != 200 {
		t.Errorf("after they were answered: %d %s", r.status, r.body)
	}
}

// A time that nobody lives to see does not come out as one in the past.
func TestTimes_AreBounded(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	const run = "/api/v1/workflows/11110001"
	const extend = run + "/approvals/ffff0001/extend"
	for _, tt := range []struct{ path, body, at string }{
		{extend, `{"by_ms":31536000001}`, "/by_ms"},
		{extend, `{"by_ms":9223372036854775807}`, "/by_ms"},
		{"/api/v1/workflows", `{"code":"1","options":{"timeout":9223372036854775807}}`, "/options/timeout"},
	} {
		r := e.do(t, "POST", tt.path, tt.body)
		p := r.problem(t)
		if r.status != 400 || p.Error == nil || len(p.Error.Faults) != 1 || p.Error.Faults[0].Path != tt.at || !strings.Contains(r.body, "31536000000") {
			t.Errorf("%s: %d %s", tt.body, r.status, r.body)
		}
	}
	if r := e.do(t, "POST", extend, `{"by_ms":31536000000}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, wait := range []string{"9223372036854775807", "-9223372036854775808"} {
		r := e.do(t, "POST", run+"/continue", `{"wait":`+wait+`}`)
		if got := last[api.ContinueRequest](e.b).Wait; r.status != 200 || got != -1 {
			t.Errorf("%s: %d, waits %s", wait, r.status, got)
		}
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// A body that is nested too deeply is refused, and an answer that cannot be
// written is a problem and not an empty reply.
func TestDepth(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	body := func(n int) string { return `{"code":"1","input":` + nested(n) + `}` }
	if r := e.do(t, "POST", "/api/v1/workflows", body(core.MaxDepth)); r.status != 200 {
		t.Errorf("as deep as a value may be: %d %.80s", r.status, r.body)
	}
	for _, n := range []int{core.MaxDepth + 20, 9999, 20_000} {
		if r := e.do(t, "POST", "/api/v1/workflows", body(n)); r.status != 400 || !strings.Contains(r.problem(t).Detail, "levels deep") {
			t.Errorf("%d: %d %.80s", n, r.status, r.body)
		}
	}
	e.b.mu.Lock()
	e.b.runs[1].Result = json.RawMessage(nested(10_001))
	e.b.answer.Result = json.RawMessage(nested(10_001))
	e.b.mu.Unlock()
	for _, r := range []reply{e.do(t, "GET", "/api/v1/workflows/22220002", ""), e.do(t, "POST", "/api/v1/workflows", `{"code":"1"}`)} {
		if r.status != 500 || r.problem(t).Code != core.CodeInternal {
			t.Errorf("%d %.80s", r.status, r.body)
		}
	}
}

// HEAD is answered with the head only, also where GET would not end.
func TestHead(t *testing.T) {
	t.Parallel()
	e := newEdge(t, withAll)
	for path, kind := range map[string]string{
		"/api/v1/events": "text/event-stream", "/api/v1/workflows": "application/json", "/api/v1/workflows/11110001": "application/json",
		"/api/v1/workflows/11110001/events": "application/json", "/api/v1/openapi.json": "application/openapi+json", "/healthz": "application/json",
	} {
		r := e.do(t, "HEAD", path, "")
		if r.status != 200 || r.body != "" || r.header.Get("Content-Type") != kind {
			t.Errorf("%s: %d %q %q", path, r.status, r.header.Get("Content-Type"), r.body)
		}
	}
	if n := e.Readers(); n != 0 {
		t.Errorf("%d readers", n)
	}
	if r := e.do(t, "HEAD", "/api/v1/workflows/99999999/events", ""); r.status != 404 {
		t.Errorf("%d", r.status)
	}
}

// What a key is told of the server is its own part.
func TestStatus_OfAnOwner(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pml_up 1") })
		o.MetricsKeys = []string{"ben"}
		o.Status = func(context.Context) api.ServerStatus {
			return api.ServerStatus{Version: "1.2.3", PID: 4711, StartedAt: start, Socket: "/secret/pml.sock", URL: "http://inside", Store: "bbolt", Background: true, Running: 70, Waiting: 80, Approvals: 90}
		}
	})
	reader, _ := e.tryOpen(t, e.client, e.tcp+"/api/v1/events", "x-api-key", e.token["ben"])
	reader.next(t)
	status := func(r reply) (st api.ServerStatus) {
		if err := json.Unmarshal([]byte(r.body), &st); err != nil || r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return st
	}
	want := api.ServerStatus{Version: "1.2.3", Protocol: api.Protocol, StartedAt: start, Store: "bbolt", Waiting: 1, Approvals: 1}
	if got := status(e.as(t, "ana", "GET", "/api/v1/server", "")); got != want {
		t.Errorf("a key: %+v", got)
	}
	if got := status(e.do(t, "GET", "/api/v1/server", "")); got.PID != 4711 || got.Running != 70 || got.Readers != 1 {
		t.Errorf("this user: %+v", got)
	}
	for who, want := range map[string]int{"ana": 403, "ben": 200} {
		if r := e.as(t, who, "GET", "/metrics", ""); r.status != want {
			t.Errorf("metrics for %s: %d %s", who, r.status, r.body)
		}
	}
	if r := e.do(t, "GET", "/metrics", ""); r.status != 200 {
		t.Errorf("metrics for this user: %d", r.status)
	}
}

// A page of this server itself, as it is called on its own machine, may call it.
func TestAuth_OwnOrigin(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Hosts = []string{"pml.example"} })
	for _, tt := range []struct {
		host, origin string
		status       int
	}{
		{"localhost:7465", "http://localhost:7465", 200},
		{"127.0.0.1:7465", "http://127.0.0.1:7465", 200},
		{"[::1]:7465", "http://[::1]:7465", 200},
		{"localhost:7465", "http://localhost:7466", 403},
		{"localhost:7465", "https://localhost:7465", 403},
		{"localhost:7465", "http://127.0.0.1:7465", 403},
		{"localhost:7465", "http://localhost", 403},
		{"pml.example", "http://pml.example", 403},
		{"evil.example", "http://evil.example", 403},
	} {
		r := send(t, e.client, "GET", e.tcp+"/api/v1/approvals", "", "Host", tt.host, "Origin", tt.origin, "x-api-key", e.token["ana"])
		if r.status != tt.status {
			t.Errorf("%s from %s: %d %s", tt.host, tt.origin, r.status, r.body)
		}
	}
}

// A browser's client of MCP may send what it must, and read what it needs.
func TestAuth_PreflightOfMCP(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Origins = []string{"https://app.example"} })
	r := send(t, e.client, "OPTIONS", e.tcp+"/mcp", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	for header, names := range map[string][]string{
		"Access-Control-Allow-Headers":  {"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Last-Event-ID", "Authorization", "Content-Type"},
		"Access-Control-Expose-Headers": {"WWW-Authenticate", "Mcp-Session-Id", "Retry-After"},
	} {
		for _, name := range names {
			if !strings.Contains(", "+r.header.Get(header)+",", ", "+name+",") {
				t.Errorf("%s has no %s: %q", header, name, r.header.Get(header))
			}
		}
	}
}

// A key whose file could not be read for a while works when it can be again,
// though nothing that a folder shows has changed.
func TestKeys_ReadAgain(t *testing.T) {
	t.Parallel()
	keys := server.NewKeys(t.TempDir(), &clock{now: start})
	token, err := keys.Create("ana")
	if err != nil {
		t.Fatal(err)
	}
	keys.SetOpen(func(path string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("too many open files")}
	})
	if _, ok, _ := keys.Owner(token); ok {
		t.Error("a key that cannot be read works")
	}
	keys.SetOpen(os.ReadFile)
	if owner, ok, err := keys.Owner(token); !ok || owner != "ana" {
		t.Errorf("%q %v %v", owner, ok, err)
	}
}

// MCP is described as it answers.
func TestOpenAPI_MCP(t *testing.T) {
	t.Parallel()
	paths := document(t, newEdge(t, withAll))["paths"].(map[string]any)["/mcp"].(map[string]any)
	for method, statuses := range map[string][]string{"post": {"200", "202", "400", "404", "413", "415", "503"}, "delete": {"204", "404", "405"}, "get": {"405"}} {
		responses := paths[method].(map[string]any)["responses"].(map[string]any)
		if len(responses) != len(statuses)+1 {
			t.Errorf("%s: %v", method, responses)
		}
		for _, status := range statuses {
			if responses[status] == nil {
				t.Errorf("%s has no %s", method, status)
			}
		}
	}
	if kinds := fmt.Sprint(paths["post"].(map[string]any)["responses"].(map[string]any)["200"]); !strings.Contains(kinds, "text/event-stream") || !strings.Contains(kinds, "application/json") {
		t.Error(kinds)
	}
}
