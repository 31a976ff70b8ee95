package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

// clock is the clock of the bubble that a test runs in.
type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// wire is a network in memory: a server that comes and goes, and connections
// that break.
type wire struct {
	mu    sync.Mutex
	ln    *pipes
	srv   *http.Server
	conns []net.Conn
	// cut, if set, is how many bytes the next connection carries to the client
	// before it breaks.
	cut   func() int
	dials int
	at    string // the address that was dialled last
}

// up starts a server for a handler.
func (w *wire) up(h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ln = &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	w.srv = &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go w.srv.Serve(w.ln)
}

// down stops it as a kill does.
func (w *wire) down() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.srv == nil {
		return
	}
	w.srv.Close()
	w.srv = nil
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.at = address
	ln, srv := w.ln, w.srv
	w.dials++
	w.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if srv == nil {
		return nil, refused
	}
	here, there := net.Pipe()
	select {
	case ln.conns <- there:
	case <-ln.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, here, there)
	if w.cut != nil {
		return &short{Conn: here, left: w.cut()}, nil
	}
	return here, nil
}

// short is a connection that breaks after some bytes.
type short struct {
	net.Conn
	left int
}

func (s *short) Read(p []byte) (int, error) {
	if s.left <= 0 {
		s.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// pipes is a listener of connections in memory.
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

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "/run/pml.sock", Net: "unix"} }

// fakeServer answers as the contract says, as far as a test needs: what was asked
// is recorded, answers are made by handle.
type fakeServer struct {
	mu     sync.Mutex
	asked  []asked
	handle func(w http.ResponseWriter, r *http.Request, body []byte) bool
	events []core.Event
	more   chan struct{}
	mute   bool // sends no heartbeat
}

type asked struct {
	method, path, key string
	header            http.Header
	body              json.RawMessage
}

func newServer() *fakeServer { return &fakeServer{more: make(chan struct{})} }

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	s.mu.Lock()
	if path != "/server" {
		s.asked = append(s.asked, asked{r.Method, path, r.Header.Get("Idempotency-Key"), r.Header.Clone(), body})
	}
	handle := s.handle
	s.mu.Unlock()
	switch {
	case path == "/server":
		answer(w, 200, api.ServerStatus{Version: "1", Protocol: api.Protocol})
	case handle != nil && handle(w, r, body):
	case strings.HasSuffix(path, "/events"):
		s.serveEvents(w, r)
	default:
		problem(w, 404, core.Errorf(core.CodeNotFound, "no such thing"))
	}
}

func (s *fakeServer) log() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

// emit commits events.
func (s *fakeServer) emit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.events = append(s.events, core.Event{Seq: int64(len(s.events) + 1), Type: core.EventTaskLog, RunID: "r1", Message: "a line\nof text"})
	}
	close(s.more)
	s.more = make(chan struct{})
}

// after returns the events after a number, and what tells of more.
func (s *fakeServer) after(seq int64) ([]core.Event, chan struct{}, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := int64(len(s.events))
	if seq >= newest {
		return nil, s.more, newest
	}
	return append([]core.Event(nil), s.events[seq:]...), s.more, newest
}

func (s *fakeServer) serveEvents(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") == "application/json" {
		since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
		list, _, _ := s.after(since)
		answer(w, 200, api.Page[core.Event]{Items: list})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if _, _, newest := s.after(last); err != nil || last > newest {
		raw, _ := json.Marshal(api.Snapshot{Seq: newest})
		io.WriteString(w, "id: "+strconv.FormatInt(newest, 10)+"\nevent: snapshot\ndata: "+string(raw)+"\n\n")
		last = newest
	}
	flusher := http.NewResponseController(w)
	beat := time.NewTicker(15 * time.Second)
	defer beat.Stop()
	for flusher.Flush() == nil {
		list, more, _ := s.after(last)
		for _, e := range list {
			raw, _ := json.Marshal(e)
			if _, err := io.WriteString(w, "id: "+strconv.FormatInt(e.Seq, 10)+"\nevent: "+string(e.Type)+"\ndata: "+string(raw)+"\n\n"); err != nil {
				return
			}
			last = e.Seq
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-more:
		case <-beat.C:
			if !s.mute {
				io.WriteString(w, ": heartbeat\n\n")
			}
		case <-r.Context().Done():
			return
		}
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, e *core.Error) {
	raw, _ := json.Marshal(api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code, Error: e})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(raw)
}

// newClient is a client of a server in memory; call stop before the bubble ends.
func newClient(t *testing.T, w *wire, o client.Options) (c *client.Client, stop func()) {
	t.Helper()
	o.Clock, o.Dial = clock{}, w.dial
	o.Rand = func() float64 { return 0.5 }
	if o.URL == "" {
		o.Socket = "/run/pml.sock"
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		w.down()
		c.Close()
	}
}

// wantCode fails unless an error has a code.
func wantCode(t *testing.T, err error, code core.Code) *core.Error {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	return e
}
