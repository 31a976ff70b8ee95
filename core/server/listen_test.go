//go:build unix

package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

func TestListenUnix_StaleAndLive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "home", "pml.sock")
	first, err := server.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if _, err := server.ListenUnix(path); core.CodeOf(err) != core.CodeStoreBusy {
		t.Errorf("a second server: %v", err)
	}
	// A crash leaves the file behind.
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + ".x", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	unix.SetUnlinkOnClose(false)
	_ = unix.Close()
	stale, err := server.ListenUnix(path + ".x")
	if err != nil {
		t.Fatalf("a socket that was left behind: %v", err)
	}
	_ = stale.Close()
	if _, err := os.Lstat(path + ".x"); !os.IsNotExist(err) {
		t.Errorf("the file stays after Close: %v", err)
	}
	// A server that goes does not take the file of the one that came.
	_ = os.Remove(path)
	second, err := server.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the newer socket is gone: %v", err)
	}
	_ = second.Close()
}

func TestListenUnix_Refused(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(open, "s"), file, filepath.Join(file, "s"), filepath.Join(dir, strings.Repeat("x", 120))} {
		if ln, err := server.ListenUnix(path); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%s: %v %v", path, ln, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("a file that is no socket was removed")
	}
}

func TestListenTCP_InUse(t *testing.T) {
	t.Parallel()
	ln, err := server.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := server.ListenTCP(ln.Addr().String()); core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("a port in use: %v", err)
	}
}

// Stopping ends streams at once, with a word; what waits is cut off in the end.
func TestServe_Stops(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Grace = 5 * time.Second })
	e.b.mu.Lock()
	e.b.wait = make(chan struct{})
	e.b.mu.Unlock()
	stream := e.open(t, "/api/v1/events")
	waiting := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://pml/api/v1/workflows", strings.NewReader(`{"code":"1","options":{"wait":-1}}`))
		res, err := e.socket.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		waiting <- err
	}()
	stream.next(t)                                                                                      // the snapshot
	e.until(t, func() bool { return last[api.ExecuteRequest](e.b).Code != "" || len(e.scopes()) >= 3 }) // the request is inside
	e.stop()
	rest, _ := io.ReadAll(stream.body)
	if !strings.Contains(string(rest), ": the server stops") {
		t.Errorf("the stream ended with %q", rest)
	}
	<-waiting
	for range 2 {
		if err := <-e.ended; err != nil {
			t.Error(err)
		}
	}
	e.ended <- nil
	e.ended <- nil
	if _, err := os.Lstat(e.sock); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// scopes are the scopes of all requests so far.
func (e *edge) scopes() (out []api.Scope) {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	for _, v := range e.b.asked {
		if s, ok := v.(api.Scope); ok {
			out = append(out, s)
		}
	}
	return out
}

// A caller that sends its request drop by drop is cut off, body and head.
func TestServe_SlowLoris(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"head": "GET /healthz HT",
		"body": "POST /api/v1/workflows HTTP/1.1\r\nHost: pml\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		e := newEdge(t, func(o *server.Options) {
			o.Limits.HeaderTimeout, o.Limits.BodyTimeout = hung, 50*time.Millisecond
			if name == "head" {
				o.Limits.HeaderTimeout = 50 * time.Millisecond
			}
		})
		conn, err := net.Dial("unix", e.sock)
		if err != nil {
			t.Fatal(err)
		}
		// The head may be late: then the server has hung up before it has all of it.
		if _, err := io.WriteString(conn, text); err != nil && name == "body" {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(hung))
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("%s: still open: %v", name, err)
		}
		if name == "body" && !strings.Contains(string(answer), "408") {
			t.Errorf("%s: %q", name, answer)
		}
		_ = conn.Close()
	}
}

// A body that arrives in time leaves no deadline behind that would cut off a
// long answer.
func TestServe_LongAnswer(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.BodyTimeout = 20 * time.Millisecond })
	wait := make(chan struct{})
	e.b.mu.Lock()
	e.b.wait = wait
	e.b.mu.Unlock()
	time.AfterFunc(100*time.Millisecond, func() { close(wait) })
	if r := e.do(t, "POST", "/api/v1/workflows", `{"code":"1","options":{"wait":-1}}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestServe_LargeBodies(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Body = 1000 })
	fits := `{"intent":"` + strings.Repeat("x", 980) + `"}`
	if r := e.do(t, "POST", "/api/v1/workflows", fits); r.status != 200 {
		t.Errorf("%d bytes: %d %s", len(fits), r.status, r.body)
	}
	large := `{"intent":"` + strings.Repeat("x", 1000) + `"}`
	if r := e.do(t, "POST", "/api/v1/workflows", large); r.status != 413 || r.problem(t).Code != core.CodeInvalidArguments {
		t.Errorf("%d %s", r.status, r.body)
	}
	// Without saying how long it is.
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pml/api/v1/workflows", io.MultiReader(strings.NewReader(large)))
	req.ContentLength = -1
	res, err := e.socket.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("chunked: %d", res.StatusCode)
	}
	if r := e.do(t, "POST", "/api/v1/workflows", "code=1", "Content-Type", "application/x-www-form-urlencoded"); r.status != 415 {
		t.Errorf("a form: %d %s", r.status, r.body)
	}
}

// A caller that asks for much and reads none of it does not stay.
func TestServe_AnswersThatNobodyTakes(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	e := newEdge(t, func(o *server.Options) {
		o.Limits.WriteTimeout = 50 * time.Millisecond
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 32<<20))
			gone <- err
		})
	})
	conn, err := net.Dial("unix", e.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: pml\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err == nil {
		t.Error("32 MiB fit into a socket")
	}
}

// What fails because the server stops is one answer: ask again. What the caller
// did wrong is told all the same.
func TestServe_StoppingIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ code, want core.Code }{
		{core.CodeCancelled, core.CodeCancelled}, {core.CodeStoreFailed, core.CodeCancelled}, {core.CodeSandboxCrashed, core.CodeCancelled},
		{core.CodeInternal, core.CodeCancelled}, {core.CodeNotFound, core.CodeNotFound}, {core.CodeDAGInvalid, core.CodeDAGInvalid},
	} {
		e := newEdge(t, nil)
		wait := make(chan struct{})
		e.b.mu.Lock()
		e.b.wait, e.b.fail = wait, core.Errorf(tt.code, "the store is closed").WithRun(id(3))
		e.b.begun = func() {
			e.stop()
			close(wait)
		}
		e.b.mu.Unlock()
		r := e.do(t, "POST", "/api/v1/workflows", `{"code":"1"}`)
		if p := r.problem(t); p.Code != tt.want || p.Error.RunID != id(3) {
			t.Errorf("%s: %d %s", tt.code, r.status, r.body)
		}
		if tt.want == core.CodeCancelled && (r.status != 503 || r.header.Get("Retry-After") == "") {
			t.Errorf("%s: %d %v", tt.code, r.status, r.header)
		}
	}
}
