package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/api"
)

// A client that does not read what servers say keeps neither the servers nor
// other clients waiting: its stream ends, and it can listen again.
func TestHTTP_Stalled(t *testing.T) {
	t.Parallel()
	b := &behind{}
	seen := make(chan *api.Peer, 3)
	b.call = func(_ context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		seen <- c.Peer
		return api.OfferedResult{Raw: json.RawMessage(`{}`)}, nil
	}
	srv, _ := serveHTTP(t, &fake{t: t}, offering(b))
	client := func() (id string, p *api.Peer) {
		id = post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
		post(t, srv.URL, callLine("1", "echo", `{}`, ""), "Mcp-Session-Id", id)
		return id, <-seen
	}
	stalled, deaf := client()
	hears, other := client()
	conn := listenRaw(t, srv.Listener.Addr().String(), fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", stalled))
	listener := open(t, http.MethodGet, srv.URL, "", "Mcp-Session-Id", hears)

	long := json.RawMessage(`{"level":"info","data":"` + strings.Repeat("x", 64<<10) + `"}`)
	told := make(chan struct{})
	go func() { // as the reader of a server that both share
		defer close(told)
		for range 1000 {
			deaf.Notify("notifications/message", long)
		}
		other.Notify("notifications/message", json.RawMessage(`{"level":"info","data":"heard"}`))
	}()
	select {
	case <-told:
	case <-time.After(hung):
		t.Fatal("the server waits for a client that does not read")
	}
	if m := listener.next(); !strings.Contains(string(m.Params), "heard") {
		t.Errorf("got %s", m.Params)
	}
	_ = conn.SetReadDeadline(time.Now().Add(hung))
	if n, err := io.Copy(io.Discard, conn); n >= 1000*64<<10 || isTimeout(err) {
		t.Errorf("the stream went on: %d bytes, %v", n, err)
	}
	again := open(t, http.MethodGet, srv.URL, "", "Mcp-Session-Id", stalled)
	for end := time.Now().Add(hung); again.res.StatusCode == http.StatusConflict && time.Now().Before(end); {
		// The client saw the end of the connection before the server's handler was through.
		again = open(t, http.MethodGet, srv.URL, "", "Mcp-Session-Id", stalled)
	}
	if again.res.StatusCode != http.StatusOK {
		t.Fatalf("listening again: %d", again.res.StatusCode)
	}
	deaf.Notify("notifications/message", json.RawMessage(`{"level":"info","data":"again"}`))
	if m := again.next(); !strings.Contains(string(m.Params), "again") {
		t.Errorf("got %s", m.Params)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // io.Copy does not wrap
	return ok && e.Timeout()
}

// listenRaw sends a request and reads the head of its answer, and no more.
func listenRaw(t *testing.T, addr, head string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(hung))
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(conn, 16)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			return conn
		}
	}
}

// What a client over stdio does not read yet keeps nobody waiting either, and
// what it was told before an answer comes before it.
func TestStdio_Stalled(t *testing.T) {
	t.Parallel()
	b := &behind{}
	told, first := make(chan struct{}), make(chan struct{})
	b.call = func(_ context.Context, c api.OfferedCall) (api.OfferedResult, error) {
		c.Peer.Notify("notifications/resources/updated", json.RawMessage(`{"uri":"first"}`))
		close(first)
		for range 1000 {
			c.Peer.Notify("notifications/resources/updated", json.RawMessage(`{"uri":"x"}`))
		}
		close(told)
		return api.OfferedResult{Raw: json.RawMessage(`{}`)}, nil
	}
	in, send := io.Pipe()
	read, out := io.Pipe()
	e := newEdge(t, &fake{t: t}, offering(b))
	done := make(chan error, 1)
	go func() { done <- e.ServeStdio(t.Context(), in, out) }()
	if _, err := io.WriteString(send, callLine("1", "echo", `{}`, "")+"\n"); err != nil {
		t.Fatal(err)
	}
	<-first
	select {
	case <-told:
	case <-time.After(hung):
		t.Fatal("the server waits for a client that does not read")
	}
	lines, before := bufio.NewScanner(read), 0
	for lines.Scan() && !strings.Contains(lines.Text(), `"result"`) {
		before++
	}
	if before < 100 || before > 500 {
		t.Errorf("%d notifications came before the answer", before)
	}
	_ = send.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
