package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/server"
)

// hung is longer than anything takes on the busiest machine.
const hung = 3 * time.Minute

// backend is a server half without engine or store: it keeps runs and events in
// memory, and remembers what it was asked.
type backend struct {
	mu      sync.Mutex
	runs    []core.Run
	events  []core.Event
	changed chan struct{}
	asked   []any
	fail    error
	wait    chan struct{} // Execute waits for it when it is set
	begun   func()        // called when Execute begins to, when it is set
	answer  api.Result
	pages   int // of stored events that were read without following
	said    func()
	below   []core.Approval // that runs below others ask
	asks    *core.Approval  // what Approval answers, when it is set
	loop    []core.Approval // that Approvals lists besides
}

func newBackend() *backend {
	return &backend{changed: make(chan struct{}), answer: api.Result{Status: api.StatusSuccess, WorkflowID: id(1)}}
}

func id(n int) core.ID { return core.ID(fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n)) }

// emit commits an event.
func (b *backend) emit(e core.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Seq = int64(len(b.events)) + 1
	if e.Type == "" {
		e.Type = core.EventTaskLog
	}
	b.events = append(b.events, e)
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *backend) half(scope api.Scope) (server.Backend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, scope)
	return &scoped{b, scope}, nil
}

// last returns the newest of what the backend was asked that is a T.
func last[T any](b *backend) (out T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.asked {
		if t, ok := v.(T); ok {
			out = t
		}
	}
	return out
}

type scoped struct {
	*backend
	scope api.Scope
}

func (s *scoped) ask(v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, v)
	return s.fail
}

func (s *scoped) sees(owner string) bool { return s.scope.Owner == "" || s.scope.Owner == owner }

func (s *scoped) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	if s.wait != nil {
		s.mu.Lock()
		begun := s.begun
		s.mu.Unlock()
		if begun != nil {
			begun()
		}
		select {
		case <-s.wait:
		case <-ctx.Done():
			return api.Result{}, ctx.Err()
		}
	}
	return s.answer, s.ask(req)
}

func (s *scoped) Continue(_ context.Context, req api.ContinueRequest) (api.Result, error) {
	return s.answer, s.ask(req)
}

func (s *scoped) Retry(_ context.Context, id core.ID, by core.Actor, wait time.Duration) (api.Result, error) {
	return s.answer, s.ask([]any{"retry", id, by, wait})
}

func (s *scoped) Abort(_ context.Context, id core.ID, by core.Actor, reason string) (api.Result, error) {
	return s.answer, s.ask([]any{"abort", id, by, reason})
}

func (s *scoped) Replan(_ context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error) {
	return s.answer, s.ask([]any{"replan", id, tasks, by, reason})
}

func (s *scoped) ReplanFor(_ context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error) {
	return s.answer, s.ask([]any{"replanFor", id, requirement, string(available), by, reason})
}

func (s *scoped) Trace(_ context.Context, _ core.ID, t api.Trace) error { return s.ask(t) }

func (s *scoped) Workflows(_ context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	if err := s.ask(states); err != nil {
		return api.Page[core.Run]{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	page := api.Page[core.Run]{}
	for _, run := range s.runs {
		if string(run.ID) <= cursor || !s.sees(run.Owner) || len(states) > 0 && !slices.Contains(states, run.State) {
			continue
		}
		if len(page.Items) == limit {
			page.Next = string(page.Items[limit-1].ID)
			break
		}
		page.Items = append(page.Items, run)
	}
	return page, nil
}

func (s *scoped) find(id core.ID) (core.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.runs {
		if run.ID == id && s.sees(run.Owner) {
			return run, nil
		}
	}
	return core.Run{}, core.Errorf(core.CodeNotFound, "there is no run or approval %q", id)
}

func (s *scoped) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	run, err := s.find(id)
	layer := core.Layer{Tasks: []core.Task{{ID: "t1", Tool: "a:b", State: core.TaskSuccess, Output: json.RawMessage(`{"n":1}`)}}}
	return core.Workflow{Run: run, Layers: []core.Layer{layer}, Approvals: append([]core.Approval{sampleApproval(id)}, s.below...)}, err
}

func sampleApproval(run core.ID) core.Approval {
	return core.Approval{
		ID: "ffff" + run[4:], RunID: run, Type: core.ApproveTool, Risk: core.RiskLow, Context: json.RawMessage(`{}`),
		Digest: "sha256:0", State: core.ApprovalOpen, CreatedAt: start, ExpiresAt: &start,
	}
}

func (s *scoped) Program(_ context.Context, id core.ID) (core.Program, error) {
	_, err := s.find(id)
	return core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{{ID: "t1", Tool: "a:b", Arguments: json.RawMessage(`{}`)}}}, err
}

// sampleFlow is a flow with every member.
func sampleFlow() api.Flow {
	return api.Flow{
		ID: "docs", Name: "Ask outside docs", Description: "asks", Type: "tools/call", File: "sub/docs.json", Home: true, Enabled: true, Mode: "audit", State: "audit",
		Priority: 3, Match: json.RawMessage(`{"tool":"write*"}`), Digest: "sha256:0", Faults: []core.Fault{{Path: "p", Message: "m"}},
		Nodes: []api.FlowNode{{ID: "h", Type: "hook", Label: "Look", Beside: true}}, Edges: []api.FlowEdge{{Source: "s", Target: "h", Label: "true"}},
	}
}

func (s *scoped) Flows(context.Context) ([]api.Flow, error) {
	return []api.Flow{sampleFlow()}, s.fail
}

func (s *scoped) Flow(_ context.Context, name string) (api.Flow, error) {
	f := sampleFlow()
	if name != f.ID && name != f.File {
		return api.Flow{}, core.Errorf(core.CodeNotFound, "there is no flow %s", name)
	}
	f.Text, f.Files = "the text", map[string]string{"modules/m.json": "a module"}
	return f, s.fail
}

func (s *scoped) FlowHistory(ctx context.Context, name string, limit int) (api.FlowHistory, error) {
	if _, err := s.Flow(ctx, name); err != nil {
		return api.FlowHistory{}, err
	}
	run := core.FlowRun{
		ID: id(5), Flow: "docs", Name: "Ask outside docs", Digest: "sha256:0", Workspace: "/w", Audit: true, Owner: "ada", RunID: id(1), CallID: "c", Tool: "fs:write", Client: "cli",
		State: core.FlowDenied, Node: "h", Reason: "no", StartedAt: start, DurationUS: 7,
		Nodes: []core.FlowNodeRun{{Node: "h", Type: "hook", Response: true, State: core.FlowOK, StartedAt: start, DurationUS: 7, Change: &core.FlowChange{Before: "a", After: "b", Diff: "-"}, Console: []string{"x"}, Reason: "r"}},
	}
	return api.FlowHistory{Runs: []core.FlowRun{run}, Nodes: []api.FlowNodeStats{{Node: "h", Type: "hook", Count: limit, Slowest: true}}}, nil
}

func (s *scoped) Checkpoints(_ context.Context, run core.ID) ([]core.Checkpoint, error) {
	return []core.Checkpoint{{ID: id(77), RunID: run, CreatedAt: start}}, nil
}

func (s *scoped) Checkpoint(_ context.Context, run core.ID, text string) (core.CheckpointView, error) {
	if text != "0000004d" {
		return core.CheckpointView{}, core.Errorf(core.CodeNotFound, "no checkpoint %s", text)
	}
	return core.CheckpointView{
		Checkpoint: core.Checkpoint{ID: id(77), RunID: run, CreatedAt: start},
		Tasks:      []core.Task{{ID: "t1", Tool: "a:b", State: core.TaskSuccess, Output: json.RawMessage(`{"n":1}`)}},
		Decisions:  []core.Approval{sampleApproval(run)},
		Messages:   []core.Event{{Seq: 3, Type: core.EventTaskLog, At: start, RunID: run, Message: "hello"}},
	}, nil
}

func (s *scoped) Records(_ context.Context, _ core.ID, after int64) ([]core.Record, error) {
	var out []core.Record
	for seq := after + 1; seq <= 5; seq++ {
		out = append(out, core.Record{Seq: seq, Kind: core.RecordSettled, At: start})
	}
	return out, nil
}

// Audit has a row of each run, and one of none.
func (s *scoped) Audit(_ context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	after, limit := q.Since.Any, q.Limit
	if err := s.ask([]any{"audit", after, limit, q.AuditFilter, q.Before.Any, q.Newest, q.Args}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []core.AuditRow
	for i, run := range append(slices.Clone(s.runs), core.Run{}) {
		row := core.AuditRow{Seq: int64(i + 1), At: start, RunID: run.ID, Outcome: core.OutcomeRefused, Reason: "because", Count: 3, By: core.Actor{Who: "me", Via: core.ViaCLI}, PrevHash: "p", Hash: "h"}
		if row.Seq > after && s.sees(run.Owner) && (limit == 0 || len(out) < limit) {
			out = append(out, row)
		}
	}
	return out, nil
}

func (s *scoped) VerifyAudit(context.Context) (api.AuditReport, error) {
	return api.AuditReport{Rows: 3, Bad: 2, Reason: "changed"}, s.ask("verify")
}

// refusal is an attempt that Refused was told of.
type refusal struct {
	owner  string
	run    core.ID
	reason string
}

func (s *scoped) Refused(_ context.Context, run core.ID, _ core.Actor, reason string) error {
	return s.ask(refusal{s.scope.Owner, run, reason})
}

// visit is what Visited, or RefusedVisit, was told of.
type visit struct {
	by      core.Actor
	code    string
	text    string
	refused bool
}

func (s *scoped) Visited(_ context.Context, by core.Actor, code, what string) error {
	return s.ask(visit{by, code, what, false})
}

func (s *scoped) RefusedVisit(_ context.Context, by core.Actor, code, why string) error {
	return s.ask(visit{by, code, why, true})
}

func (s *scoped) Paired(_ context.Context, device string) error { return s.ask("paired " + device) }

func (s *scoped) ExportRun(_ context.Context, id core.ID) (api.RunFile, error) {
	run, err := s.find(id)
	if err != nil {
		return api.RunFile{}, err
	}
	return api.NewRunFile(api.ExportedRun{Run: run}, start, "test")
}

func (s *scoped) Said(_ context.Context, id core.ID, f func(core.Event) error) error {
	if s.said != nil {
		s.said()
	}
	return f(core.Event{Type: core.EventAgentText, RunID: id, TaskID: "m1", Message: "one\ntwo"})
}

func (s *scoped) RemoveWorkflows(_ context.Context, ids ...core.ID) error { return s.ask(ids) }

func (s *scoped) Events(ctx context.Context, run core.ID, from api.Since, follow bool, f func(core.Event) error) error {
	since := from.Any
	for {
		s.mu.Lock()
		list, changed := s.events[min(int(since), len(s.events)):], s.changed
		if !follow {
			s.pages++
		}
		s.mu.Unlock()
		for _, e := range list {
			since = e.Seq
			if run != "" && e.RunID != run || !s.sees(e.Owner) {
				continue
			}
			if err := f(e); err != nil {
				return err
			}
		}
		if len(list) > 0 && follow {
			continue
		}
		if !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *scoped) Snapshot(context.Context) (api.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := api.Snapshot{Seq: int64(len(s.events)), ServerTime: start}
	for _, run := range s.runs {
		if s.sees(run.Owner) {
			snap.Workflows = append(snap.Workflows, run)
		}
	}
	snap.Approvals = slices.Clone(s.below)
	return snap, s.fail
}

func (s *scoped) Resolve(_ context.Context, text string) (run, approval core.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.runs {
		if !s.sees(run.Owner) || len(text) < 4 {
			continue
		}
		if strings.HasPrefix(string(run.ID), text) {
			return run.ID, "", nil
		}
		if ap := sampleApproval(run.ID).ID; strings.HasPrefix(string(ap), text) {
			return run.ID, ap, nil
		}
	}
	return "", "", core.Errorf(core.CodeNotFound, "there is no run or approval %q", text)
}

func (s *scoped) Decidable(ctx context.Context) ([]core.Approval, error) {
	all, err := s.Approvals(ctx, true)
	return approval.Decidable(all, start), err
}

func (s *scoped) Approvals(_ context.Context, all bool) ([]core.Approval, error) {
	if err := s.ask(all); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []core.Approval
	for _, run := range s.runs {
		if s.sees(run.Owner) {
			out = append(out, sampleApproval(run.ID))
		}
	}
	return append(out, s.loop...), nil
}

func (s *scoped) Approval(_ context.Context, id core.ID) (core.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks != nil {
		return *s.asks, nil
	}
	ap := sampleApproval(id)
	ap.ID = id
	return ap, nil
}

func (s *scoped) Extend(_ context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	return sampleApproval(id), s.ask([]any{"extend", id, by})
}

func (s *scoped) Renew(_ context.Context, id core.ID, by core.Actor) (core.Approval, error) {
	return sampleApproval(id), s.ask([]any{"renew", id, by})
}

func (s *scoped) Tools(context.Context) ([]core.Tool, []core.Fault, error) {
	return []core.Tool{{Server: "a", Name: "b", InputSchema: json.RawMessage(`{"type":"object"}`)}}, []core.Fault{{Message: "c is not there"}}, nil
}

func (s *scoped) CallTool(context.Context, string, json.RawMessage, core.Actor, time.Duration) (api.Result, error) {
	return s.answer, nil
}

func (s *scoped) Plan(_ context.Context, req api.ExecuteRequest) (core.Plan, error) {
	return core.Plan{Kind: core.KindCode, Calls: []core.PlanCall{}, Edges: []core.PlanEdge{}, Layers: [][]string{}, Tools: []string{}}, s.ask(req)
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

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

// edge is a server on a unix socket and on TCP, with a client for each.
type edge struct {
	*server.Server
	b      *backend
	clock  *clock
	keys   *server.Keys
	logs   *bytes.Buffer
	socket *http.Client
	client *http.Client // of TCP; not the default one, whose idle connections every httptest.Server closes
	tcp    string       // http://127.0.0.1:port
	token  map[string]string
	dir    string
	sock   string
	stop   context.CancelFunc
	ended  chan error
}

// newEdge starts a server with two runs, of ana and of ben, and their keys.
func newEdge(t testing.TB, change func(*server.Options)) *edge {
	t.Helper()
	e := &edge{b: newBackend(), clock: &clock{now: start}, logs: &bytes.Buffer{}, token: map[string]string{}, ended: make(chan error, 2)}
	e.b.runs = []core.Run{
		{ID: id(0x11110001), Owner: "ana", State: core.RunWaiting, CreatedAt: start, UpdatedAt: start, Side: core.SideServer},
		{ID: id(0x22220002), Owner: "ben", State: core.RunComplete, CreatedAt: start, UpdatedAt: start, Side: core.SideServer, Result: json.RawMessage(`42`)},
	}
	dir := shortDir(t)
	e.dir, e.sock = dir, filepath.Join(dir, "pml.sock")
	e.keys = server.NewKeys(filepath.Join(dir, "keys"), e.clock)
	for _, name := range []string{"ana", "ben"} {
		token, err := e.keys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		e.token[name] = token
	}
	o := server.Options{
		Half: e.b.half, Clock: e.clock, Keys: e.keys, User: "me", Version: "1.2.3",
		Logger: slog.New(slog.NewTextHandler(&locked{w: e.logs}, nil)),
	}
	if change != nil {
		change(&o)
	}
	e.Server = server.New(o)
	unix, err := server.ListenUnix(filepath.Join(dir, "pml.sock"))
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := server.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.tcp = "http://" + tcp.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	for _, ln := range []net.Listener{unix, tcp} {
		go func() { e.ended <- e.Serve(ctx, ln) }()
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", unix.Addr().String())
	}}
	e.socket = &http.Client{Transport: transport}
	e.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		e.client.CloseIdleConnections()
		for range 2 {
			<-e.ended
		}
		e.Close()
	})
	return e
}

func (e *edge) keysDir() string { return filepath.Join(e.dir, "keys") }

// shortDir is a folder whose path leaves room for a socket's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pml")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) problem(t testing.TB) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("no problem: %d %s %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	return p
}

// do sends a request on the socket; headers come in pairs.
func (e *edge) do(t testing.TB, method, path, body string, headers ...string) reply {
	t.Helper()
	return send(t, e.socket, method, "http://pml"+path, body, headers...)
}

// as sends a request over TCP with somebody's key.
func (e *edge) as(t testing.TB, who, method, path, body string, headers ...string) reply {
	t.Helper()
	return send(t, e.client, method, e.tcp+path, body, append(headers, "Authorization", "Bearer "+e.token[who])...)
}

func send(t testing.TB, c *http.Client, method, url, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(data)}
}

func (*scoped) Edited(_ context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	return core.Approval{ID: id, Type: core.ApproveTool, Context: json.RawMessage(`{"arguments":` + string(args) + `}`), Digest: "edited"}, nil
}

var aHalt = core.Halt{Side: core.SideServer, By: core.Actor{Who: "ann", Via: core.ViaHTTP}, Reason: "enough"}

func (s *scoped) Halts(context.Context) ([]core.Halt, error) {
	return []core.Halt{aHalt}, s.ask("halts")
}

func (s *scoped) HaltCalls(_ context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	return []core.Halt{aHalt}, s.ask([]any{"halt", by.Via, reason})
}

func (s *scoped) ResumeCalls(_ context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	return []core.Halt{aHalt}, s.ask([]any{"resume", req.Reason, req.Pin, req.Presence})
}
