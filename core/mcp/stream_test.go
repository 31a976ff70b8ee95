package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// hung is how long a test waits for what must come.
const hung = 2 * time.Minute

// sse is a response whose events are read as they come.
type sse struct {
	t    *testing.T
	res  *http.Response
	got  chan msg
	stop context.CancelFunc
}

// open sends a request whose answer is a stream.
func open(t *testing.T, method, url, body string, headers ...string) *sse {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	headers = append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, headers...)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // the reader closes it
	if err != nil {
		t.Fatal(err)
	}
	s := &sse{t: t, res: res, got: make(chan msg, 1000), stop: cancel}
	go func() {
		defer close(s.got)
		defer func() { _ = res.Body.Close() }()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var m msg
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Errorf("not JSON in an event: %q", data)
				return
			}
			s.got <- m
		}
	}()
	t.Cleanup(cancel)
	return s
}

// next is the next message of the stream.
func (s *sse) next() msg {
	s.t.Helper()
	select {
	case m, ok := <-s.got:
		if !ok {
			s.t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(hung):
		s.t.Fatal("no event came")
	}
	return msg{}
}

// ends waits for the end of the stream.
func (s *sse) ends() {
	s.t.Helper()
	select {
	case m, ok := <-s.got:
		if ok {
			s.t.Errorf("more came: %+v", m)
		}
	case <-time.After(hung):
		s.t.Error("the stream did not end")
	}
}

// Over HTTP a question comes in the stream of the call that it belongs to; the
// answer is a request of its own, of the same session only.
func TestHTTP_Question(t *testing.T) {
	t.Parallel()
	a, now := newAsker(t, oneApproval()), newClock()
	srv, _ := serveHTTP(t, a, func(o *mcp.Options) { o.Clock = now })
	id := post(t, srv.URL, handshake(elicits)).header.Get("Mcp-Session-Id")
	other := post(t, srv.URL, handshake(elicits)).header.Get("Mcp-Session-Id")
	call := open(t, http.MethodPost, srv.URL, callLine("1", "execute", `{"code":"1"}`, ""), "Mcp-Session-Id", id)
	q := call.next()
	if q.Method != "elicitation/create" || len(q.ID) == 0 {
		t.Fatalf("got %+v", q)
	}
	now.add(time.Second)
	if res := post(t, srv.URL, said(q, `{"action":"decline"}`), "Mcp-Session-Id", other); res.code != http.StatusAccepted {
		t.Errorf("another session: %d %s", res.code, res.body)
	}
	if res := post(t, srv.URL, said(q, approves), "Mcp-Session-Id", id); res.code != http.StatusAccepted || res.body != "" {
		t.Errorf("the answer: %d %s", res.code, res.body)
	}
	if _, r := call.next().result(t); r.Status != api.StatusSuccess {
		t.Errorf("got %+v", r)
	}
	call.ends()
	if got := a.decisions(); len(got) != 1 || !got[0].Approve {
		t.Errorf("decided %+v", got)
	}
}

// A client that reads no event stream cannot be asked: it gets the result.
func TestHTTP_NoStream(t *testing.T) {
	t.Parallel()
	a := newAsker(t, oneApproval())
	srv, _ := serveHTTP(t, a, nil)
	id := post(t, srv.URL, handshake(elicits)).header.Get("Mcp-Session-Id")
	res := post(t, srv.URL, callLine("1", "execute", `{"code":"1"}`, ""), "Mcp-Session-Id", id, "Accept", "application/json")
	var m msg
	if err := json.Unmarshal([]byte(res.body), &m); err != nil {
		t.Fatal(err)
	}
	if _, r := m.result(t); r.Status != api.StatusApprovalRequired || !strings.Contains(r.Reason, "no way to ask") {
		t.Errorf("got %+v", r)
	}
}

// A session has one stream of its own, which lives by comments and ends with the
// session; nobody else gets it.
func TestHTTP_Listen(t *testing.T) {
	t.Parallel()
	srv, _ := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) { o.Beat = time.Millisecond })
	id := post(t, srv.URL, initialize, "X-Who", "ann").header.Get("Mcp-Session-Id")
	first := open(t, http.MethodGet, srv.URL, "", "X-Who", "ann", "Mcp-Session-Id", id)
	if first.res.StatusCode != http.StatusOK || !strings.HasPrefix(first.res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %s", first.res.StatusCode, first.res.Header)
	}
	for _, tt := range []struct {
		want    int
		headers []string
	}{
		{http.StatusConflict, []string{"X-Who", "ann", "Mcp-Session-Id", id}},
		{http.StatusNotFound, []string{"X-Who", "bob", "Mcp-Session-Id", id}},
		{http.StatusNotFound, []string{"X-Who", "ann"}},
		{http.StatusMethodNotAllowed, []string{"X-Who", "ann", "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2026-07-28"}},
	} {
		if res := request(t, http.MethodGet, srv.URL, "", append([]string{"Accept", "text/event-stream"}, tt.headers...)...); res.code != tt.want {
			t.Errorf("%v: %d, want %d", tt.headers, res.code, tt.want)
		}
	}
	if res := request(t, http.MethodDelete, srv.URL, "", "X-Who", "ann", "Mcp-Session-Id", id); res.code != http.StatusNoContent {
		t.Errorf("DELETE: %d", res.code)
	}
	first.ends()
}

// watched is a fake whose events a test sends.
func watched(t *testing.T) (f *fake, events chan<- core.Event, following <-chan struct{}) {
	t.Helper()
	ch, begun := make(chan core.Event), make(chan struct{}, 10)
	f = &fake{t: t}
	f.events = func(ctx context.Context, each func(core.Event) error) error {
		begun <- struct{}{}
		for {
			select {
			case ev := <-ch:
				if err := each(ev); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return f, ch, begun
}

// recent is an event of the fake clock's present.
func recent(kind core.EventType) core.Event {
	return core.Event{Type: kind, RunID: runID, ApprovalID: approvalID, At: newClock().Now()}
}

const subscribeRun = `{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"pml://workflows/` + string(runID) + `"}}`

// Who subscribes to a run hears that it has changed, once for much that happens
// at the same time; what has happened before is no news.
func TestSubscribe_Run(t *testing.T) {
	t.Parallel()
	f, events, following := watched(t)
	w := dial(t, newEdge(t, f, nil))
	w.send(initialize)
	w.next()
	w.send(subscribeRun)
	if m := w.next(); string(m.Result) != "{}" {
		t.Fatalf("got %+v", m)
	}
	<-following
	old := recent(core.EventTaskComplete)
	old.At = old.At.Add(-time.Second)
	events <- old
	for range 50 {
		events <- recent(core.EventTaskComplete)
	}
	m := w.next()
	if m.Method != "notifications/resources/updated" || !strings.Contains(string(m.Params), "pml://workflows/"+string(runID)) {
		t.Errorf("got %+v", m)
	}
	w.send(strings.Replace(subscribeRun, "subscribe", "unsubscribe", 1))
	told := 0
	for m = w.next(); len(m.ID) == 0; m = w.next() {
		told++
	}
	if told > 2 {
		t.Errorf("%d notifications for what happened at once", told+1)
	}
	w.send(strings.Replace(subscribeRun, string(runID), "made-up", 1))
	if m := w.next(); m.Error == nil || m.Error.Code != -32002 {
		t.Errorf("a run that does not exist: %+v", m)
	}
	w.send(strings.Replace(subscribeRun, "pml://workflows", "pml://nothing", 1))
	if m := w.next(); m.Error == nil || m.Error.Code != -32002 {
		t.Errorf("a resource that does not exist: %+v", m)
	}
}

// The inbox has changed when what waits is not what it was; an event alone is no
// change. Over HTTP that comes on the session's own stream.
func TestSubscribe_Approvals(t *testing.T) {
	t.Parallel()
	f, events, following := watched(t)
	srv, _ := serveHTTP(t, &locked{fake: f}, nil)
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	subscribe := `{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"pml://approvals"}}`
	if res := post(t, srv.URL, subscribe, "Mcp-Session-Id", id); res.code != http.StatusOK {
		t.Fatalf("%d %s", res.code, res.body)
	}
	listen := open(t, http.MethodGet, srv.URL, "", "Mcp-Session-Id", id)
	<-following
	events <- recent(core.EventApprovalRequested) // nothing waits yet
	f.mu.Lock()
	f.open = []core.Approval{oneApproval()}
	f.mu.Unlock()
	events <- recent(core.EventApprovalRequested)
	if m := listen.next(); m.Method != "notifications/resources/updated" || !strings.Contains(string(m.Params), "pml://approvals") {
		t.Errorf("got %+v", m)
	}
	request(t, http.MethodDelete, srv.URL, "", "Mcp-Session-Id", id)
	listen.ends()
}

// locked reads the fake's approvals under its lock.
type locked struct{ *fake }

func (l *locked) Approvals(context.Context, bool) ([]core.Approval, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, nil
}

// anyRun knows every run.
type anyRun struct{ *fake }

func (anyRun) Resolve(_ context.Context, text string) (id, approval core.ID, err error) {
	return core.ID(text), "", nil
}

// A session watches no more than so much, the same as often as it likes.
func TestSubscribe_Bounded(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, anyRun{&fake{t: t}}, nil))
	for n := range 203 {
		w.send(strings.Replace(subscribeRun, string(runID), strconv.Itoa(n%101), 1))
		m := w.next()
		if over := n%101 == 100; over != (m.Error != nil) {
			t.Fatalf("subscription %d: %+v", n, m)
		}
	}
}

// A modern client listens by a request: first what is listened to, then what
// changes, all with the id of the request.
func TestSubscribe_Modern(t *testing.T) {
	t.Parallel()
	f, events, following := watched(t)
	srv, _ := serveHTTP(t, f, nil)
	listen := open(t, http.MethodPost, srv.URL, modern("77", "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["pml://workflows/`+string(runID)+`"]},`),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	ack := listen.next()
	if ack.Method != "notifications/subscriptions/acknowledged" || strings.Contains(string(ack.Params), "toolsListChanged") || !strings.Contains(string(ack.Params), string(runID)) {
		t.Errorf("acknowledged %+v %s", ack, ack.Params)
	}
	<-following
	events <- recent(core.EventTaskStart)
	m := listen.next()
	if m.Method != "notifications/resources/updated" || !strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":77`) {
		t.Errorf("got %+v %s", m, m.Params)
	}
	listen.stop()
}

// A call that waits for a person stays open with signs of life while somebody
// decides in a terminal, and returns the result, over both transports.
func TestExecute_WaitsOpen(t *testing.T) {
	t.Parallel()
	waits := func() (f *fake, decided chan struct{}) {
		f, decided = &fake{t: t}, make(chan struct{})
		f.execute = func(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
			if !req.HoldApprovals || req.Wait != time.Hour {
				t.Errorf("hold %v, wait %v", req.HoldApprovals, req.Wait)
			}
			req.Started(runID)
			select {
			case <-decided:
				return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
			case <-ctx.Done():
				return api.Result{}, ctx.Err()
			}
		}
		return f, decided
	}
	line := callLine("1", "execute", `{"code":"1","options":{"wait":3600000}}`, `{"progressToken":"p"}`)
	check := func(name string, next func() msg, decided chan struct{}) {
		for range 3 {
			if m := next(); m.Method != "notifications/progress" {
				t.Errorf("%s: got %+v", name, m)
			}
		}
		close(decided)
		m := next()
		for m.Method == "notifications/progress" {
			m = next()
		}
		if _, r := m.result(t); r.Status != api.StatusSuccess {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	soon := func(o *mcp.Options) { o.Beat = time.Millisecond }
	f, decided := waits()
	w := dial(t, newEdge(t, f, soon))
	w.send(line)
	check("stdio", w.next, decided)

	f, decided = waits()
	srv, _ := serveHTTP(t, f, soon)
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	check("HTTP", open(t, http.MethodPost, srv.URL, line, "Mcp-Session-Id", id).next, decided)
}

// A session that listens is in use, until its client has said nothing for too
// long: then it is over, and so is what it listens to.
func TestHTTP_ListenerStays(t *testing.T) {
	t.Parallel()
	now := newClock()
	srv, _ := serveHTTP(t, &fake{t: t}, func(o *mcp.Options) { o.Clock, o.OwnerSessions = now, 1 })
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	listener := open(t, http.MethodGet, srv.URL, "", "Mcp-Session-Id", id)
	now.add(7 * time.Hour)
	if res := post(t, srv.URL, initialize); res.code != http.StatusServiceUnavailable {
		t.Errorf("%d", res.code)
	}
	if res := post(t, srv.URL, ping, "Mcp-Session-Id", id); res.code != http.StatusOK {
		t.Errorf("%d", res.code)
	}
	now.add(8 * time.Hour)
	if res := post(t, srv.URL, initialize); res.code != http.StatusOK {
		t.Errorf("%d", res.code)
	}
	for m := range listener.got {
		t.Errorf("got %+v", m)
	}
}
