package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

// What is mounted comes behind the same checks, and knows who calls.
func TestMCP_HasTheScope(t *testing.T) {
	t.Parallel()
	var seen api.Scope
	e := newEdge(t, func(o *server.Options) {
		o.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen, _ = server.ScopeFrom(r.Context())
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		})
	})
	if r := e.as(t, "ben", "POST", "/mcp", `{"jsonrpc":"2.0"}`); r.status != 200 || r.body != `{"jsonrpc":"2.0"}` || seen.Owner != "ben" {
		t.Errorf("%d %s %+v", r.status, r.body, seen)
	}
	if r := send(t, e.client, "POST", e.tcp+"/mcp", `{}`); r.status != 401 {
		t.Errorf("without a key: %d", r.status)
	}
	if r := e.as(t, "ben", "POST", "/mcp", `{}`, "Origin", "https://evil.example"); r.status != 403 {
		t.Errorf("from a foreign page: %d", r.status)
	}
	if r := e.do(t, "POST", "/mcp", `{}`, "Pml-Workspace", "/w"); r.status != 200 || seen.Workspace != "/w" || seen.Owner != "" {
		t.Errorf("%d %+v", r.status, seen)
	}
	if r := e.do(t, "PUT", "/mcp", `{}`); r.status != 405 || r.header.Get("Allow") != "GET, POST, DELETE" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

func TestPanics_AreAnswered(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(o *server.Options) {
		o.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hunter2") })
	})
	r := e.do(t, "GET", "/metrics", "")
	if r.status != 500 || r.problem(t).Code != core.CodeInternal || strings.Contains(r.body, "hunter2") {
		t.Errorf("%d %s", r.status, r.body)
	}
	half := newEdge(t, func(o *server.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 10_000))
			panic("in the middle")
		})
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://pml/metrics", nil)
	if res, err := half.socket.Do(req); err == nil {
		if _, err = io.ReadAll(res.Body); err == nil {
			t.Error("half an answer looks like a whole one")
		}
		_ = res.Body.Close()
	}
	if r := e.do(t, "GET", "/healthz", ""); r.status != 200 || r.body != "{\"status\":\"ok\"}\n" {
		t.Errorf("%d %q", r.status, r.body)
	}
}

func TestReady_SaysWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	e.b.fail = core.Errorf(core.CodeStoreFailed, "the disk is full")
	r := e.do(t, "GET", "/readyz", "")
	if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.problem(t).Detail, "the disk is full") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := e.do(t, "GET", "/healthz", ""); r.status != 200 {
		t.Errorf("%d", r.status)
	}
}

func TestWorkflows_Pages(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	e.b.mu.Lock()
	for n := range 7 {
		e.b.runs = append(e.b.runs, core.Run{ID: id(0x33330000 + n), State: core.RunFailed})
	}
	e.b.mu.Unlock()
	var seen []core.ID
	next := ""
	for range 10 {
		var page api.Page[core.Run]
		if err := json.Unmarshal([]byte(e.do(t, "GET", "/api/v1/workflows?limit=4&status=failed,waiting&status=aborted&cursor="+next, "").body), &page); err != nil {
			t.Fatal(err)
		}
		for _, run := range page.Items {
			seen = append(seen, run.ID)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(seen) != 8 {
		t.Errorf("%v", seen)
	}
	if r := e.do(t, "GET", "/api/v1/workflows?status=expired", ""); r.body != "{\"items\":[]}\n" {
		t.Errorf("%q", r.body)
	}
}

// Whatever bytes come in, the answer is a result or a problem, and nothing runs
// that the body did not ask for in so many words.
func FuzzExecute(f *testing.F) {
	for _, seed := range []string{
		`{"code":"1"}`, `{"workflow":{"tasks":[{"id":"a","dependsOn":["b"]}]}}`, `{"continue_workflow":{"workflow_id":"11110001","approved":true}}`,
		`{"accept_suggestion":{"callName":"a:b","args":[]}}`, `{"code":null,"options":null}`, `[`, `"x"`, `{"a.b[0]":{"c~/d":1}}`, `{"options":{"wait":1e308}}`, "\xff", `{"code":"\ud800"}`,
		`{"workflow":{"tasks":[{"id":"a","dependsOn":{"x":1}}]}}`, `{"continue_workflow":{"workflow_id":"11110001","approved":null}}`,
	} {
		f.Add([]byte(seed))
	}
	b := newBackend()
	b.runs = []core.Run{{ID: id(0x11110001)}}
	keys := server.NewKeys(f.TempDir(), &clock{now: start})
	token, err := keys.Create("fuzz")
	if err != nil {
		f.Fatal(err)
	}
	b.runs[0].Owner = "fuzz"
	s := server.New(server.Options{Half: b.half, Clock: &clock{now: start}, Keys: keys, Limits: server.Limits{Rate: 1e9, Burst: 1 << 30}})
	f.Fuzz(func(t *testing.T, body []byte) {
		b.mu.Lock()
		b.asked = nil
		b.mu.Unlock()
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/api/v1/workflows", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", token)
		w := &answer{header: http.Header{}}
		s.Handler().ServeHTTP(w, req)
		var out struct {
			Status json.RawMessage `json:"status"`
			Code   core.Code       `json:"code"`
		}
		if err := json.Unmarshal([]byte(w.text.String()), &out); err != nil || w.status >= 500 {
			t.Fatalf("%d %q: %v", w.status, w.text.String(), err)
		}
		if w.status != 200 && (len(last[api.ExecuteRequest](b).Code) > 0 || last[api.ContinueRequest](b).ID != "") {
			t.Fatalf("%d, and something was done", w.status)
		}
		if w.status != 200 && w.header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%d %v", w.status, w.header)
		}
		if c := last[api.ContinueRequest](b); c.Decision != nil && c.Decision.Approve && !strings.Contains(string(body), "true") {
			t.Fatalf("approved by %q", body)
		}
	})
}

type answer struct {
	header http.Header
	status int
	text   strings.Builder
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.text.Write(p) }

// The Error field of a problem is all that a client needs to make the same
// error again.
func TestProblem_RoundTrip(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	want := core.Errorf(core.CodeDAGInvalid, "the DAG is not valid").WithNext("pml", "plan", "x.json")
	want.Faults = []core.Fault{{Path: "/tasks/0", Message: "no"}}
	e.b.fail = want
	p := e.do(t, "POST", "/api/v1/workflows", `{"code":"1"}`).problem(t)
	if fmt.Sprint(p.Error) != fmt.Sprint(want) || p.Error.Code != want.Code || len(p.Error.Next) != 3 {
		t.Errorf("%+v", p.Error)
	}
}

// A backup is of everybody's runs: the user whose server it is gets it on the socket,
// neither a key nor an agent's host does.
func TestBackup_OnTheSocketOnly(t *testing.T) {
	t.Parallel()
	asked := 0
	e := newEdge(t, func(o *server.Options) {
		o.Backup = func(_ context.Context, w io.Writer) error {
			asked++
			_, err := io.WriteString(w, "the archive")
			return err
		}
	})
	if r := e.as(t, "ben", "GET", "/api/v1/backup", ""); r.status != 403 || r.problem(t).Code != core.CodePermissionDenied {
		t.Errorf("with a key: %d %s", r.status, r.body)
	}
	if r := e.do(t, "GET", "/api/v1/backup", "", "Pml-Via", "mcp"); r.status != 403 {
		t.Errorf("a host: %d %s", r.status, r.body)
	}
	if r := e.do(t, "HEAD", "/api/v1/backup", ""); r.status != 200 || asked != 0 {
		t.Errorf("HEAD: %d, asked %d times", r.status, asked)
	}
	if r := e.do(t, "GET", "/api/v1/backup", ""); r.status != 200 || r.body != "the archive" || r.header.Get("Content-Type") != "application/x-tar" {
		t.Errorf("%d %q %v", r.status, r.body, r.header)
	}
}

// A backup that fails is an error, or, once it has begun, no whole answer.
func TestBackup_Fails(t *testing.T) {
	t.Parallel()
	begun := false
	e := newEdge(t, func(o *server.Options) {
		o.Backup = func(_ context.Context, w io.Writer) error {
			if begun {
				_, _ = w.Write(make([]byte, 100_000))
			}
			return core.Errorf(core.CodeUsage, "use pg_dump")
		}
	})
	if r := e.do(t, "GET", "/api/v1/backup", ""); r.status != 400 || r.problem(t).Code != core.CodeUsage {
		t.Errorf("%d %s", r.status, r.body)
	}
	begun = true
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://pml/api/v1/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := e.socket.Do(req); err == nil {
		if _, err = io.ReadAll(res.Body); err == nil {
			t.Error("half a backup looks like a whole one")
		}
		_ = res.Body.Close()
	}
}
