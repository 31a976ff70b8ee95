package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
	"github.com/casys-ai/pml/core/skiptest"
)

// sse is one frame.
type sse struct {
	id    int64
	event string
	data  string
}

// stream is an open stream of events.
type stream struct {
	body io.ReadCloser
	in   *bufio.Reader
}

func (e *edge) open(t testing.TB, path string, headers ...string) *stream {
	t.Helper()
	s, status := e.tryOpen(t, e.socket, "http://pml"+path, headers...)
	if s == nil {
		t.Fatalf("%s: %d", path, status)
	}
	return s
}

func (e *edge) tryOpen(t testing.TB, c *http.Client, url string, headers ...string) (*stream, int) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		return nil, res.StatusCode
	}
	return &stream{res.Body, bufio.NewReaderSize(res.Body, 64<<10)}, 200
}

// read returns the next frame, comments left out.
func (s *stream) read() (sse, error) {
	var f sse
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && f.event != "":
			return f, nil
		case name == "id":
			f.id, _ = strconv.ParseInt(value, 10, 64)
		case name == "event":
			f.event = value
		case name == "data":
			f.data = value
		}
	}
}

func (s *stream) next(t testing.TB) sse {
	t.Helper()
	f, err := s.read()
	if err != nil {
		t.Fatalf("the stream ended: %v", err)
	}
	return f
}

func TestEvents_SnapshotThenEvents(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for range 3 {
		e.b.emit(core.Event{RunID: id(0x11110001), Owner: "ana"})
	}
	s := e.open(t, "/api/v1/events")
	first := s.next(t)
	var snap api.Snapshot
	if err := json.Unmarshal([]byte(first.data), &snap); err != nil || first.event != "snapshot" || first.id != 3 || snap.Seq != 3 || len(snap.Workflows) != 2 || snap.Approvals == nil {
		t.Fatalf("%+v %v", first, err)
	}
	e.b.emit(core.Event{Type: core.EventTaskStart, RunID: id(0x22220002), Owner: "ben", TaskID: "t1", Message: "two\nlines"})
	f := s.next(t)
	var got core.Event
	if err := json.Unmarshal([]byte(f.data), &got); err != nil || f.id != 4 || f.event != "task_start" || got.Seq != 4 || got.TaskID != "t1" || got.Message != "two\nlines" {
		t.Errorf("%+v %v", f, err)
	}
	if r := e.do(t, "GET", "/api/v1/server", ""); !strings.Contains(r.body, `"readers":1`) || !strings.Contains(r.body, `"protocol":1`) {
		t.Error(r.body)
	}
}

func TestEvents_Filters(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	ana, ben := id(0x11110001), id(0x22220002)
	tests := []struct {
		name, path string
		who        string
		want       []int64
		snapshot   int // runs in it
	}{
		{"owner", "/api/v1/events", "ana", []int64{1, 3}, 1},
		{"other owner", "/api/v1/events", "ben", []int64{2, 4, 5}, 1},
		{"run", "/api/v1/events?workflow=1111", "ana", []int64{1, 3}, 1},
		{"path", "/api/v1/workflows/22220002/events", "ben", []int64{2, 4, 5}, 1},
		{"types", "/api/v1/events?types=task_start,task_error&types=checkpoint", "ben", []int64{4, 5}, 1},
	}
	var streams []*stream
	for _, tt := range tests {
		s, status := e.tryOpen(t, e.client, e.tcp+tt.path, "x-api-key", e.token[tt.who])
		if s == nil {
			t.Fatalf("%s: %d", tt.name, status)
		}
		var snap api.Snapshot
		if err := json.Unmarshal([]byte(s.next(t).data), &snap); err != nil || len(snap.Workflows) != tt.snapshot {
			t.Errorf("%s: %+v %v", tt.name, snap, err)
		}
		streams = append(streams, s)
	}
	emit := func() {
		e.b.emit(core.Event{RunID: ana, Owner: "ana"})
		e.b.emit(core.Event{RunID: ben, Owner: "ben"})
		e.b.emit(core.Event{RunID: ana, Owner: "ana", Type: core.EventTaskComplete})
		e.b.emit(core.Event{RunID: ben, Owner: "ben", Type: core.EventTaskStart})
		e.b.emit(core.Event{RunID: ben, Owner: "ben", Type: core.EventCheckpoint})
	}
	emit()
	for i, tt := range tests {
		for _, want := range tt.want {
			if f := streams[i].next(t); f.id != want {
				t.Errorf("%s: %d, want %d", tt.name, f.id, want)
			}
		}
		// The same from the store, for one that was away.
		s, _ := e.tryOpen(t, e.client, e.tcp+tt.path, "x-api-key", e.token[tt.who], "Last-Event-ID", "0")
		for _, want := range tt.want {
			if f := s.next(t); f.id != want {
				t.Errorf("%s, resumed: %d, want %d", tt.name, f.id, want)
			}
		}
	}
}

// TestEvents_Texts: what a model writes goes to a stream of one run that names its type,
// without a number, and to no other.
func TestEvents_Texts(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for _, path := range []string{"/api/v1/workflows/11110001/events?types=agent_text,task_log", "/api/v1/events?workflow=11110001&types=agent_text,task_log"} {
		s := e.open(t, path)
		s.next(t) // the snapshot
		f := s.next(t)
		var got core.Event
		if err := json.Unmarshal([]byte(f.data), &got); err != nil || f.id != 0 || f.event != "agent_text" || got.Message != "one\ntwo" || got.TaskID != "m1" {
			t.Errorf("%s: %+v %v", path, f, err)
		}
	}
	all := e.open(t, "/api/v1/workflows/11110001/events")
	all.next(t)
	e.b.emit(core.Event{RunID: id(0x11110001), Owner: "ana"})
	if f := all.next(t); f.event != "task_log" || f.id != 1 {
		t.Errorf("without the type: %+v", f)
	}
	if r := e.do(t, "GET", "/api/v1/events?types=agent_text", ""); r.status != http.StatusBadRequest || !strings.Contains(r.body, "name it with workflow") {
		t.Errorf("of all runs: %d %s", r.status, r.body)
	}
}

// TestEvents_Agent: a stream of an agent begins with what its runs ask, and a defect in what
// shows the text of its model ends neither the stream nor the server.
func TestEvents_Agent(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	e.b.below = []core.Approval{{ID: id(0x77770001), RunID: id(0x88880001), State: core.ApprovalOpen}}
	e.b.said = func() { panic("a defect") }
	s := e.open(t, "/api/v1/workflows/11110001/events?types=agent_text,task_log")
	var snap api.Snapshot
	if err := json.Unmarshal([]byte(s.next(t).data), &snap); err != nil || len(snap.Approvals) != 1 || snap.Approvals[0].ID != id(0x77770001) {
		t.Errorf("%+v, %v", snap.Approvals, err)
	}
	e.b.emit(core.Event{RunID: id(0x11110001), Owner: "ana"})
	if f := s.next(t); f.event != "task_log" || f.id != 1 {
		t.Errorf("%+v", f)
	}
}

func TestEvents_Resume(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for range 10 {
		e.b.emit(core.Event{RunID: id(0x11110001)})
	}
	for path, header := range map[string]string{"/api/v1/events?since=7": "", "/api/v1/events": "7", "/api/v1/events?since=2": "7"} {
		var headers []string
		if header != "" {
			headers = []string{"Last-Event-ID", header}
		}
		s := e.open(t, path, headers...)
		for want := int64(8); want <= 10; want++ {
			if f := s.next(t); f.event == "snapshot" || f.id != want {
				t.Errorf("%s: %+v, want %d", path, f, want)
			}
		}
	}
	// Newer than all there is: it comes from another store.
	if f := e.open(t, "/api/v1/events", "Last-Event-ID", "11").next(t); f.event != "snapshot" || f.id != 10 {
		t.Errorf("%+v", f)
	}
}

func TestEvents_Pages(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for i := range 25 {
		e.b.emit(core.Event{RunID: id([]int{0x11110001, 0x22220002}[i%2])})
	}
	var seqs []int64
	next := ""
	for range 10 {
		path := "/api/v1/workflows/11110001/events?limit=5"
		if next != "" {
			path += "&since=" + next
		}
		var page api.Page[core.Event]
		if err := json.Unmarshal([]byte(e.do(t, "GET", path, "", "Accept", "application/json").body), &page); err != nil {
			t.Fatal(err)
		}
		for _, ev := range page.Items {
			seqs = append(seqs, ev.Seq)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(seqs) != 13 || seqs[0] != 1 || seqs[12] != 25 {
		t.Errorf("%v", seqs)
	}
}

// Readers come and go, at the end and far behind, while events rain into a ring
// that is much smaller than what there is: none of them misses or repeats one.
func TestEvents_NoGapNoRepetition(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]server.Limits{"events": {Ring: 64}, "bytes": {RingBytes: 8000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hammer(t, newEdge(t, func(o *server.Options) { o.Limits = limits }))
		})
	}
}

func hammer(t *testing.T, e *edge) {
	const total, readers = 3000, 12
	// So much is there at first that each reader is far behind, however slow the rain.
	const before = 1000
	for i := range before {
		e.b.emit(core.Event{RunID: id(1), TaskID: strconv.Itoa(i)})
	}
	go func() {
		drop := time.NewTicker(time.Millisecond) // rain, not one flood
		defer drop.Stop()
		for i := before; i < total; i++ {
			e.b.emit(core.Event{RunID: id(1), TaskID: strconv.Itoa(i)})
			if i%20 == 0 {
				<-drop.C
			}
		}
	}()
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			seen := int64(0)
			for seen < total {
				s, status := e.tryOpen(t, e.socket, "http://pml/api/v1/events", "Last-Event-ID", strconv.FormatInt(seen, 10))
				if s == nil {
					t.Errorf("%d", status)
					return
				}
				for n := 0; seen < total && n < 200+50*r; n++ {
					f, err := s.read()
					if err != nil {
						break // too slow; it comes again
					}
					if f.id != seen+1 || f.event != "task_log" {
						t.Errorf("reader %d: %d (%s) after %d", r, f.id, f.event, seen)
						return
					}
					seen = f.id
				}
				_ = s.body.Close()
			}
		})
	}
	wg.Wait()
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.b.pages <= readers {
		t.Errorf("only %d reads of the store: the ring was never too small", e.b.pages)
	}
}

// 200 readers, one of them stuck, 1,000 events a second: none of the others
// loses or repeats one, and the stuck one resumes.
func TestEvents_StuckReader(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits for 15 s until a reader that does not read has had its time")
	e := newEdge(t, func(o *server.Options) { o.Limits.WriteTimeout = 15 * time.Second })
	const readers, total = 200, 2000
	filler := json.RawMessage(`"` + strings.Repeat("x", 300) + `"`) // of all more than fits into a socket
	stuck, err := (&net.Dialer{}).DialContext(t.Context(), "unix", e.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if _, err := io.WriteString(stuck, "GET /api/v1/events HTTP/1.1\r\nHost: pml\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	streams := make([]*stream, readers-1)
	for i := range streams {
		streams[i] = e.open(t, "/api/v1/events")
		streams[i].next(t)
	}
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := range total {
			if i%10 == 0 {
				<-tick.C
			}
			e.b.emit(core.Event{RunID: id(1), Data: filler})
		}
	}()
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() {
			for want := int64(1); want <= total; want++ {
				f, err := s.read()
				if err != nil || f.id != want {
					t.Errorf("reader %d: %d, want %d: %v", i, f.id, want, err)
					return
				}
			}
		})
	}
	wg.Wait()
	e.until(t, func() bool { return e.Readers() == readers-1 })
	// What the stuck one finds when it wakes up ends in the middle; it goes on
	// from the last frame that it has.
	_ = stuck.SetReadDeadline(time.Now().Add(hung))
	res, err := http.ReadResponse(bufio.NewReader(stuck), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	s, seen := &stream{res.Body, bufio.NewReader(res.Body)}, int64(0)
	for {
		f, err := s.read()
		if err != nil {
			break
		}
		seen = f.id
	}
	if seen == total {
		t.Fatal("it was not stuck")
	}
	s = e.open(t, "/api/v1/events", "Last-Event-ID", strconv.FormatInt(seen, 10))
	for want := seen + 1; want <= total; want++ {
		if f := s.next(t); f.id != want {
			t.Fatalf("resumed: %d, want %d", f.id, want)
		}
	}
}

// until waits for something that nothing tells of.
func (e *edge) until(t testing.TB, done func() bool) {
	t.Helper()
	again, deadline := time.NewTicker(time.Millisecond), time.After(hung)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}

func TestEvents_ReadersAreBounded(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Readers, o.Limits.OwnerReaders = 3, 1 })
	open := func(who string) int {
		_, status := e.tryOpen(t, e.client, e.tcp+"/api/v1/events", "x-api-key", e.token[who])
		return status
	}
	if open("ana") != 200 || open("ana") != 429 || open("ben") != 200 {
		t.Error("a key may have one reader")
	}
	mine := e.open(t, "/api/v1/events")
	if s, status := e.tryOpen(t, e.socket, "http://pml/api/v1/events"); s != nil || status != 429 {
		t.Errorf("a fourth reader: %d", status)
	}
	_ = mine.body.Close()
	e.until(t, func() bool { return e.Readers() == 2 })
	e.open(t, "/api/v1/events")
}

// recorder is a ResponseWriter in memory, for time that is not real.
type recorder struct {
	mu     sync.Mutex
	header http.Header
	text   strings.Builder
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Flush()              {}
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func TestEvents_Heartbeat(t *testing.T) {
	t.Parallel()
	keys := server.NewKeys(t.TempDir(), &clock{now: start})
	token, err := keys.Create("ana")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		s := server.New(server.Options{Half: b.half, Clock: &clock{now: start}, Keys: keys})
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", token)
		w, done := &recorder{header: http.Header{}}, make(chan struct{})
		go func() {
			s.Handler().ServeHTTP(w, req)
			close(done)
		}()
		time.Sleep(61 * time.Second) // of the bubble's time
		cancel()
		<-done
		s.Close()
		if n := strings.Count(w.text.String(), ": heartbeat\n\n"); n != 4 {
			t.Errorf("%d heartbeats in 61 s: %s", n, w.text.String())
		}
	})
}

// A store that fails for a while does not end the streams.
func TestEvents_StoreComesBack(t *testing.T) {
	t.Parallel()
	fails := make(chan struct{}, 1)
	e := newEdge(t, func(o *server.Options) {
		half := o.Half
		o.Half = func(scope api.Scope) (server.Backend, error) {
			b, err := half(scope)
			if scope == (api.Scope{}) {
				return &flaky{b, fails}, err
			}
			return b, err
		}
	})
	s := e.open(t, "/api/v1/events")
	s.next(t)
	for want := int64(1); want <= 5; want++ {
		select {
		case fails <- struct{}{}:
		default:
		}
		e.b.emit(core.Event{RunID: id(1)})
		if f := s.next(t); f.id != want {
			t.Fatalf("%d, want %d", f.id, want)
		}
	}
}

// flaky ends following after an event when it is told to.
type flaky struct {
	server.Backend
	fails chan struct{}
}

func (f *flaky) Events(ctx context.Context, run core.ID, since api.Since, follow bool, fn func(core.Event) error) error {
	return f.Backend.Events(ctx, run, since, follow, func(e core.Event) error {
		select {
		case <-f.fails:
			return errors.New("the store is away")
		default:
			return fn(e)
		}
	})
}

func TestEvents_EndWithTheirKey(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Heartbeat = 20 * time.Millisecond })
	ana, _ := e.tryOpen(t, e.client, e.tcp+"/api/v1/events", "x-api-key", e.token["ana"])
	ben, _ := e.tryOpen(t, e.client, e.tcp+"/api/v1/events", "x-api-key", e.token["ben"])
	ana.next(t)
	ben.next(t)
	if err := e.keys.Remove("ana"); err != nil {
		t.Fatal(err)
	}
	if f, err := ana.read(); err == nil {
		t.Errorf("%+v", f)
	}
	e.b.emit(core.Event{Owner: "ben"})
	if f := ben.next(t); f.id != 1 {
		t.Errorf("%+v", f)
	}
}

// What happened before the server was there comes from the store: of the
// reader's owner, run and types only, and then goes on live.
func TestEvents_ResumeFromTheStore(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) { o.Limits.Ring = 4 })
	emit := func() {
		for i := range 10 {
			who, typ := []string{"ana", "ben"}[i%2], []core.EventType{core.EventTaskStart, core.EventTaskLog, core.EventTaskLog}[i%3]
			e.b.emit(core.Event{Owner: who, Type: typ, RunID: id(0x11110001)})
		}
	}
	emit()
	all, _ := e.tryOpen(t, e.client, e.tcp+"/api/v1/events", "x-api-key", e.token["ana"], "Last-Event-ID", "2")
	starts, _ := e.tryOpen(t, e.client, e.tcp+"/api/v1/events?types=task_start&since=1", "x-api-key", e.token["ana"])
	// The newest event is ben's: what was read does not reach it, but it was looked at.
	for _, want := range []int64{3, 5, 7, 9} {
		if f := all.next(t); f.id != want {
			t.Errorf("%d, want %d", f.id, want)
		}
	}
	if f := starts.next(t); f.id != 7 {
		t.Errorf("%+v", f)
	}
	e.b.emit(core.Event{Owner: "ben"})
	e.b.emit(core.Event{Owner: "ana", Type: core.EventTaskStart})
	for _, s := range []*stream{all, starts} {
		if f := s.next(t); f.id != 12 {
			t.Errorf("%+v, want 12", f)
		}
	}
}
