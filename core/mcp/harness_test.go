package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
	"github.com/casys-ai/pml/core/upstream"
)

// Ids of the fake's runs and approvals.
const (
	runID      = core.ID("0b9d2a4e-1111-4aaa-8aaa-000000000001")
	approvalID = core.ID("5c3f77aa-2222-4bbb-8bbb-000000000002")
)

// fake is a Backend whose calls are functions; one without a function fails the
// test.
type fake struct {
	mcp.Backend // for what is not asked

	t        *testing.T
	execute  func(context.Context, api.ExecuteRequest) (api.Result, error)
	proceed  func(context.Context, api.ContinueRequest) (api.Result, error)
	workflow func(core.ID) (core.Workflow, error)
	events   func(context.Context, func(core.Event) error) error
	tools    []core.Tool
	runs     []core.Run
	open     []core.Approval

	mu   sync.Mutex
	seen []any // what Abort, Replan and the rest were called with
}

func (f *fake) note(v any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, v)
}

func (f *fake) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	if f.execute == nil {
		f.t.Error("Execute was called")
		return api.Result{}, nil
	}
	return f.execute(ctx, req)
}

func (f *fake) Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
	if f.proceed == nil {
		f.t.Error("Continue was called")
		return api.Result{}, nil
	}
	return f.proceed(ctx, req)
}

func (f *fake) Abort(_ context.Context, id core.ID, by core.Actor, reason string) (api.Result, error) {
	f.note([]any{"abort", id, by, reason})
	return api.Result{Status: api.StatusAborted, WorkflowID: id, Reason: reason}, nil
}

func (f *fake) Replan(_ context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error) {
	f.note([]any{"replan", id, tasks, by, reason})
	return api.Result{Status: api.StatusReplanned, WorkflowID: id, NewTasksCount: len(tasks)}, nil
}

func (f *fake) ReplanFor(_ context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error) {
	f.note([]any{"replan for", id, requirement, string(available), by, reason})
	return api.Result{Status: api.StatusReplanned, WorkflowID: id, NewTasksCount: 1}, nil
}

func (f *fake) Workflows(_ context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	f.note([]any{"list", states, limit, cursor})
	return api.Page[core.Run]{Items: f.runs}, nil
}

func (f *fake) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	if f.workflow == nil {
		return core.Workflow{Run: core.Run{ID: id, State: core.RunRunning}}, nil
	}
	return f.workflow(id)
}

func (f *fake) Events(ctx context.Context, _ core.ID, _ api.Since, follow bool, each func(core.Event) error) error {
	if !follow {
		return nil
	}
	if f.events != nil {
		return f.events(ctx, each)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Resolve(_ context.Context, text string) (id, approval core.ID, err error) {
	switch {
	case len(text) >= 4 && strings.HasPrefix(string(runID), text):
		return runID, "", nil
	case len(text) >= 4 && strings.HasPrefix(string(approvalID), text):
		return runID, approvalID, nil
	}
	return "", "", core.Errorf(core.CodeNotFound, "there is no run or approval %q", text)
}

func (f *fake) Approvals(context.Context, bool) ([]core.Approval, error) { return f.open, nil }

func (f *fake) Tools(context.Context) ([]core.Tool, []core.Fault, error) { return f.tools, nil, nil }

// clock is a clock that is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newEdge makes an edge on a backend, as seen by one user on the socket. change
// may change the options.
func newEdge(t *testing.T, b mcp.Backend, change func(*mcp.Options)) *mcp.Edge {
	t.Helper()
	o := mcp.Options{
		Backend:  func(api.Scope) (mcp.Backend, error) { return b, nil },
		Scope:    mcp.Fixed(api.Scope{Workspace: "/w"}),
		Validate: new(upstream.Validator).Faults,
		Clock:    newClock(),
		Version:  "1.2.3",
		// The fake begins nothing: only tests of turns take any.
		Beginning: 10_000,
	}
	if change != nil {
		change(&o)
	}
	e, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// wire is a client over stdio that sees every line.
type wire struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan msg
	done  chan error
}

// msg is a message from the server.
type msg struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// toolResult is the result of tools/call.
type toolResult struct {
	Content    []struct{ Type, Text string } `json:"content"`
	Structured json.RawMessage               `json:"structuredContent"`
	IsError    bool                          `json:"isError"`
}

// dial starts an edge on pipes.
func dial(t *testing.T, e *mcp.Edge) *wire {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	w := &wire{t: t, in: inW, lines: make(chan msg, 10_000), done: make(chan error, 1)}
	go func() {
		w.done <- e.ServeStdio(t.Context(), inR, outW)
		_ = outW.Close()
	}()
	go func() {
		defer close(w.lines)
		s := bufio.NewScanner(outR)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			var m msg
			dec := json.NewDecoder(bytes.NewReader(s.Bytes()))
			if err := dec.Decode(&m); err != nil {
				t.Errorf("not JSON on stdout: %q", s.Bytes())
				continue
			}
			w.lines <- m
		}
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		<-w.done
	})
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

// next is the next message that the server sends.
func (w *wire) next() msg {
	w.t.Helper()
	select {
	case m, ok := <-w.lines:
		if !ok {
			w.t.Fatal("the server has closed its output")
		}
		return m
	case <-time.After(2 * time.Minute):
		w.t.Fatal("no message within two minutes")
		return msg{}
	}
}

// call is a tools/call; meta may be empty.
func callLine(id, tool, args, meta string) string {
	if meta != "" {
		meta = `,"_meta":` + meta
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + meta + `}}`
}

// result reads a tool's result.
func (m msg) result(t *testing.T) (toolResult, api.Result) {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("an error came: %+v", *m.Error)
	}
	var tr toolResult
	if err := json.Unmarshal(m.Result, &tr); err != nil {
		t.Fatal(err)
	}
	if len(tr.Content) != 1 || tr.Content[0].Type != "text" || !sameJSON(t, tr.Content[0].Text, string(tr.Structured)) {
		t.Errorf("content and structuredContent differ:\n%+v\n%s", tr.Content, tr.Structured)
	}
	var r api.Result
	if err := json.Unmarshal(tr.Structured, &r); err != nil {
		t.Fatal(err)
	}
	return tr, r
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y bytes.Buffer
	if json.Compact(&x, []byte(a)) != nil || json.Compact(&y, []byte(b)) != nil {
		return false
	}
	return bytes.Equal(unescaped(x.Bytes()), unescaped(y.Bytes()))
}

// unescaped undoes what json.Marshal escapes for HTML.
func unescaped(raw []byte) []byte {
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(raw)))
}

// serveHTTP starts an edge on a real connection. The header X-Who names the
// owner that calls; without it one user is on the socket.
func serveHTTP(t *testing.T, b mcp.Backend, change func(*mcp.Options)) (*httptest.Server, *mcp.Edge) {
	t.Helper()
	type key struct{}
	e := newEdge(t, b, func(o *mcp.Options) {
		o.Scope = func(ctx context.Context) (api.Scope, bool) {
			s, ok := ctx.Value(key{}).(api.Scope)
			return s, ok
		}
		if change != nil {
			change(o)
		}
	})
	h := e.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("X-Who"); who != "nobody" {
			r = r.WithContext(context.WithValue(r.Context(), key{}, api.Scope{Owner: who, Workspace: r.Header.Get(api.HeaderWorkspace)}))
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, e
}

// answer is an HTTP response that was read whole.
type answer struct {
	code   int
	header http.Header
	body   string
}

// post sends a message with headers in pairs.
func post(t *testing.T, url, body string, headers ...string) answer {
	t.Helper()
	headers = append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, headers...)
	return request(t, http.MethodPost, url, body, headers...)
}

// request may be used by other goroutines than the test's.
func request(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return answer{}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{code: res.StatusCode, header: res.Header, body: string(got)}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{}}}`
