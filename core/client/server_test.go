//go:build unix

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/server"
)

const (
	aRun      = core.ID("11111111-0000-4000-8000-000000000001")
	anAppr    = core.ID("22222222-0000-4000-8000-000000000002")
	aDecision = "decided"
)

// behind is what stands behind a real server: a store in memory that outlives
// the server, and a record of what reached it.
type behind struct {
	server.Backend // no method is left to it

	mu     sync.Mutex
	scope  api.Scope
	asked  []any
	events []core.Event
	waits  []core.Approval // nil: one
	more   chan struct{}
}

func newBehind() *behind { return &behind{more: make(chan struct{})} }

func (b *behind) half(scope api.Scope) (server.Backend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if scope.By.Who != "" {
		b.scope = scope
	}
	return b, nil
}

func (b *behind) note(v any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, v)
}

func (b *behind) last() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[len(b.asked)-1]
}

var done = api.Result{Status: api.StatusComplete, WorkflowID: aRun, Result: json.RawMessage(`{"call":1}`), Totals: &api.Totals{SuccessfulTasks: 1}}

func (b *behind) Execute(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
	b.note(req)
	return done, nil
}

func (b *behind) Continue(_ context.Context, req api.ContinueRequest) (api.Result, error) {
	b.note(req)
	return done, nil
}

func (b *behind) Retry(_ context.Context, id core.ID, _ core.Actor, _ time.Duration) (api.Result, error) {
	b.note("retry " + id)
	return done, nil
}

func (b *behind) Abort(_ context.Context, id core.ID, _ core.Actor, reason string) (api.Result, error) {
	b.note("abort " + string(id) + reason)
	return done, nil
}

func (b *behind) Replan(_ context.Context, _ core.ID, tasks []core.TaskSpec, _ core.Actor, _ string) (api.Result, error) {
	b.note(tasks)
	return done, nil
}

func (b *behind) ReplanFor(_ context.Context, _ core.ID, requirement string, _ json.RawMessage, _ core.Actor, _ string) (api.Result, error) {
	b.note(requirement)
	return done, nil
}

func (b *behind) Trace(_ context.Context, _ core.ID, t api.Trace) error {
	b.note(t)
	return nil
}

func (b *behind) Workflows(_ context.Context, states []core.RunState, _ int, cursor string) (api.Page[core.Run], error) {
	b.note(states)
	if cursor == "" {
		return api.Page[core.Run]{Items: []core.Run{{ID: aRun}}, Next: string(aRun)}, nil
	}
	return api.Page[core.Run]{Items: []core.Run{{ID: "second"}}}, nil
}

func (b *behind) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	return core.Workflow{Run: core.Run{ID: id, Kind: core.KindDAG}, Layers: []core.Layer{{Tasks: []core.Task{{ID: "t"}}}}}, nil
}

func (b *behind) Program(context.Context, core.ID) (core.Program, error) {
	return core.Program{Kind: core.KindCode, Source: "return 1"}, nil
}

func (b *behind) ExportRun(_ context.Context, id core.ID) (api.RunFile, error) {
	return api.NewRunFile(api.ExportedRun{Run: core.Run{ID: id}}, time.Unix(1, 0), "test")
}

func (b *behind) Checkpoints(_ context.Context, id core.ID) ([]core.Checkpoint, error) {
	return []core.Checkpoint{{ID: "c", RunID: id}}, nil
}

func (b *behind) Checkpoint(_ context.Context, id core.ID, text string) (core.CheckpointView, error) {
	b.note(text)
	return core.CheckpointView{Checkpoint: core.Checkpoint{ID: "c", RunID: id}, Tasks: []core.Task{{ID: "t"}}}, nil
}

func (b *behind) Records(_ context.Context, _ core.ID, after int64) ([]core.Record, error) {
	var out []core.Record
	for seq := after + 1; seq <= 2500; seq++ {
		out = append(out, core.Record{Seq: seq, Kind: core.RecordSettled})
	}
	return out, nil
}

func (b *behind) Audit(_ context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	after, limit := q.Since.Any, q.Limit
	if q.AuditFilter != (core.AuditFilter{}) || q.Newest {
		b.note([]any{"audit", q})
		return b.newest(q), nil
	}
	b.note([]any{"audit", after, limit})
	var out []core.AuditRow
	for seq := after + 1; seq <= 2500 && (limit == 0 || len(out) < limit); seq++ {
		out = append(out, core.AuditRow{Seq: seq, Outcome: core.OutcomeRefused})
	}
	return out, nil
}

// newest are rows before a number, newest first.
func (b *behind) newest(q api.AuditQuery) (out []core.AuditRow) {
	seq := int64(2500)
	if q.Before.Any > 0 {
		seq = q.Before.Any - 1
	}
	for ; seq > q.Since.Any && (q.Limit == 0 || len(out) < q.Limit); seq-- {
		out = append(out, core.AuditRow{Seq: seq, Outcome: core.OutcomeRefused})
	}
	return out
}

func (b *behind) VerifyAudit(context.Context) (api.AuditReport, error) {
	return api.AuditReport{Rows: 2500, Bad: 7, Reason: "changed"}, nil
}

func (b *behind) Said(_ context.Context, id core.ID, f func(core.Event) error) error {
	return errors.Join(f(core.Event{Type: core.EventAgentText, RunID: id, Message: "one "}), f(core.Event{Type: core.EventAgentText, RunID: id, Message: "two"}))
}

func (b *behind) RemoveWorkflows(_ context.Context, ids ...core.ID) error {
	b.note(ids)
	return nil
}

func (b *behind) Resolve(_ context.Context, text string) (id, approval core.ID, err error) {
	switch {
	case len(text) >= 4 && text == string(aRun[:len(text)]):
		return aRun, "", nil
	case len(text) >= 4 && text == string(anAppr[:len(text)]):
		return aRun, anAppr, nil
	}
	return "", "", core.Errorf(core.CodeNotFound, "there is no run or approval %q", text).WithNext("pml", "workflows", "ls")
}

func (b *behind) Decidable(ctx context.Context) ([]core.Approval, error) {
	return b.Approvals(ctx, false)
}

func (b *behind) Approvals(context.Context, bool) ([]core.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits != nil {
		return b.waits, nil
	}
	return []core.Approval{{ID: anAppr, RunID: aRun}}, nil
}

func (b *behind) Approval(_ context.Context, id core.ID) (core.Approval, error) {
	return core.Approval{ID: id, RunID: aRun}, nil
}

func (b *behind) Extend(_ context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	b.note(by)
	return core.Approval{ID: id, RunID: aRun}, nil
}

func (b *behind) Renew(_ context.Context, id core.ID, _ core.Actor) (core.Approval, error) {
	b.note("renew " + id)
	return core.Approval{ID: id, RunID: aRun}, nil
}

func (b *behind) Tools(context.Context) ([]core.Tool, []core.Fault, error) {
	return []core.Tool{{Server: "a", Name: "b"}}, []core.Fault{{Message: "x is down"}}, nil
}

func (b *behind) Plan(context.Context, api.ExecuteRequest) (core.Plan, error) {
	return core.Plan{Kind: core.KindCode, Tools: []string{"a:b"}}, nil
}

func (b *behind) Snapshot(context.Context) (api.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return api.Snapshot{Seq: int64(len(b.events)), Workflows: []core.Run{{ID: aRun}}}, nil
}

func (b *behind) emit(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range n {
		b.events = append(b.events, core.Event{Seq: int64(len(b.events) + 1), Type: core.EventTaskLog, RunID: aRun, At: time.Now()})
	}
	close(b.more)
	b.more = make(chan struct{})
}

func (b *behind) Events(ctx context.Context, id core.ID, from api.Since, follow bool, f func(core.Event) error) error {
	since := from.Any
	for {
		b.mu.Lock()
		list, more := slices.Clone(b.events[min(int(since), len(b.events)):]), b.more
		b.mu.Unlock()
		for _, e := range list {
			since = e.Seq
			if id != "" && e.RunID != id {
				continue
			}
			if err := f(e); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve runs a real server on a socket until the function that it returns is
// called.
func serve(t testing.TB, b *behind, socket string) (stop func()) {
	t.Helper()
	ln, err := server.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{
		Half: b.half, Clock: clock{}, User: "ann", Limits: server.Limits{Grace: time.Second},
		Status: func(context.Context) api.ServerStatus { return api.ServerStatus{Version: "1", PID: 7} },
	})
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.Serve(ctx, ln)
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-gone
		s.Close()
	})
}

// TestSaid: what a model writes comes through a server, though it has no numbers.
func TestSaid(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	t.Cleanup(serve(t, newBehind(), socket))
	c, err := open(t, client.Options{Socket: socket, Workspace: "/w", Via: core.ViaCLI})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text := ""
	err = c.Said(ctx, aRun, func(e core.Event) error {
		if text += e.Message; text == "one two" {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || text != "one two" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestServer_EveryMethod: what is asked arrives, and what is answered comes back.
func TestServer_EveryMethod(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	b := newBehind()
	t.Cleanup(serve(t, b, socket))
	c, err := open(t, client.Options{Socket: socket, Workspace: "/w", Via: core.ViaCLI})
	if err != nil {
		t.Fatal(err)
	}
	ctx, by := t.Context(), core.Actor{}
	equal := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	req := api.ExecuteRequest{
		Code: "return 1", File: "a.ts", Intent: "label", IdempotencyKey: "k", Wait: time.Minute, HoldApprovals: true, Detach: true,
		RunOptions: core.RunOptions{TimeoutMS: 5, PerLayer: true, HIL: core.HILAlways, Input: json.RawMessage(`{"x":1}`)},
	}
	r, err := c.Execute(ctx, req)
	ok("execute", err)
	equal("result", r.Status, api.StatusSuccess)
	req.Wait, req.By = 25*time.Second, core.Actor{Who: "ann", Via: core.ViaCLI}
	equal("execute", b.last(), req)
	equal("workspace", b.scope.Workspace, "/w")
	_, err = c.Execute(ctx, api.ExecuteRequest{Accept: &api.Acceptance{CallName: "a:b", Args: json.RawMessage(`{}`)}})
	ok("accept", err)
	equal("accept", b.last().(api.ExecuteRequest).Accept.CallName, "a:b")
	d := &api.Decision{Approve: true, Checkpoint: anAppr, ExpectDigest: "sha256:x", Reason: aDecision, Pin: "1234", Answer: &core.Answer{Remember: core.RememberRun}}
	_, err = c.Continue(ctx, api.ContinueRequest{ID: aRun, Decision: d, Wait: -1})
	ok("continue", err)
	equal("decision", b.last().(api.ContinueRequest).Decision, d)
	_, err = c.Continue(ctx, api.ContinueRequest{ID: aRun, Decision: &api.Decision{AllOfType: core.ApproveTool, Abort: true}})
	ok("deny all", err)
	equal("deny all", b.last().(api.ContinueRequest).Decision, &api.Decision{AllOfType: core.ApproveTool, Abort: true})
	_, err = c.Retry(ctx, aRun, by, -1)
	ok("retry", err)
	_, err = c.Abort(ctx, aRun, by, "!")
	ok("abort", err)
	equal("abort", b.last(), "abort "+string(aRun)+"!")
	tasks := []core.TaskSpec{{ID: "t", Tool: "a:b", Arguments: json.RawMessage(`{"a":1}`)}}
	_, err = c.Replan(ctx, aRun, tasks, by, "")
	ok("replan", err)
	equal("replan", b.last(), tasks)
	_, err = c.ReplanFor(ctx, aRun, "more", json.RawMessage(`{}`), by, "")
	ok("replan for", err)
	equal("replan for", b.last(), "more")
	tr := api.Trace{State: core.RunComplete, Result: json.RawMessage(`1`), Records: []core.Record{{Seq: 1, Kind: core.RecordSettled, CallID: "c1"}}, ActiveMS: 2.5}
	ok("trace", c.Trace(ctx, aRun, tr))
	equal("trace", b.last(), tr)
	page, err := c.Workflows(ctx, []core.RunState{core.RunFailed, core.RunWaiting}, 0, "")
	ok("list", err)
	equal("states", b.last(), []core.RunState{core.RunFailed, core.RunWaiting})
	equal("list", len(page.Items), 2)
	w, err := c.Workflow(ctx, aRun)
	ok("show", err)
	equal("layers", len(w.Layers), 1)
	p, err := c.Program(ctx, aRun)
	ok("program", err)
	equal("program", p.Source, "return 1")
	f, err := c.ExportRun(ctx, aRun)
	ok("export", err)
	want, err := b.ExportRun(ctx, aRun)
	ok("export", err)
	equal("export", f, want)
	cps, err := c.Checkpoints(ctx, aRun)
	ok("checkpoints", err)
	equal("checkpoints", cps[0].RunID, aRun)
	at, err := c.Checkpoint(ctx, aRun, "c0ffee")
	ok("checkpoint", err)
	equal("checkpoint", b.last(), "c0ffee")
	equal("checkpoint's run", at.RunID, aRun)
	equal("checkpoint's tasks", at.Tasks, []core.Task{{ID: "t"}})
	recs, err := c.Records(ctx, aRun, 10)
	ok("records", err)
	equal("records", len(recs), 2490)
	rows, err := c.Audit(ctx, api.AuditQuery{Since: api.Since{Any: 10}})
	ok("audit", err)
	equal("audit", []int64{int64(len(rows)), rows[0].Seq, rows[2489].Seq}, []int64{2490, 11, 2500})
	rows, err = c.Audit(ctx, api.AuditQuery{Limit: 1200})
	ok("audit of a length", err)
	equal("audit of a length", []int64{int64(len(rows)), rows[1199].Seq}, []int64{1200, 1200})
	rows, err = c.Audit(ctx, api.AuditQuery{Since: api.Since{Any: 2500}, Limit: 5})
	ok("no rows", err)
	equal("no rows", rows, []core.AuditRow{})
	rows, err = c.Audit(ctx, api.AuditQuery{Newest: true, Before: api.Since{Server: 2400}, Limit: 1100})
	ok("newest rows", err)
	equal("newest rows", []int64{int64(len(rows)), rows[0].Seq, rows[1099].Seq}, []int64{1100, 2399, 1300})
	asked := core.AuditFilter{
		From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 2, 0, 0, 0, 1, time.UTC), By: "ann", Tool: "fs:", Outcome: core.OutcomeRefused,
		Type: core.ApproveTool, Workspace: "/w", Approval: "ab12",
	}
	_, err = c.Audit(ctx, api.AuditQuery{AuditFilter: asked, Args: true, Limit: 1})
	ok("filtered rows", err)
	equal("filtered rows", b.last(), []any{"audit", api.AuditQuery{AuditFilter: asked, Args: true, Limit: 2}})
	_, err = c.Audit(ctx, api.AuditQuery{AuditFilter: core.AuditFilter{Outcome: "perhaps"}})
	equal("no such outcome", core.CodeOf(err), core.CodeInvalidArguments)
	report, err := c.VerifyAudit(ctx)
	ok("verify", err)
	equal("verify", report, api.AuditReport{Rows: 2500, Bad: 7, Reason: "changed"})
	ok("remove", c.RemoveWorkflows(ctx, aRun))
	aps, err := c.Approvals(ctx, true)
	ok("approvals", err)
	equal("approvals", aps[0].ID, anAppr)
	ap, err := c.Extend(ctx, anAppr, 90*time.Second)
	ok("extend", err)
	equal("extend", []any{ap.ID, b.last()}, []any{anAppr, 90 * time.Second})
	_, err = c.Renew(ctx, anAppr, by)
	ok("renew", err)
	equal("renew", b.last(), "renew "+anAppr)
	tools, problems, err := c.Tools(ctx)
	ok("tools", err)
	equal("tools", []any{tools[0].ID(), problems[0].Message}, []any{"a:b", "x is down"})
	plan, err := c.Plan(ctx, api.ExecuteRequest{Code: "x"})
	ok("plan", err)
	equal("plan", plan.Tools, []string{"a:b"})
	st, err := c.Status(ctx)
	ok("status", err)
	equal("status", []int{st.PID, st.Protocol}, []int{7, api.Protocol})
	snap, err := c.Snapshot(ctx)
	ok("snapshot", err)
	equal("snapshot", snap.Workflows[0].ID, aRun)
	out, err := c.CallToolOnce(ctx, "a:b", json.RawMessage(`{"q":1}`), "run/c1/1", aRun)
	ok("call", err)
	equal("call", string(out), "1")
	for text, want := range map[string][2]core.ID{string(aRun): {aRun}, "1111": {aRun}, "22222222": {aRun, anAppr}, "@latest": {aRun}} {
		id, approval, err := c.Resolve(ctx, text)
		ok("resolve", err)
		equal("resolve "+text, [2]core.ID{id, approval}, want)
	}
	_, _, err = c.Resolve(ctx, "3333")
	wantCode(t, err, core.CodeNotFound)
	_, err = c.Execute(ctx, api.ExecuteRequest{})
	wantCode(t, err, core.CodeInvalidArguments)
}

// TestServer_TwentyRestarts: a reader that follows a real server through 20
// restarts sees every event once and in order.
func TestServer_TwentyRestarts(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	b := newBehind()
	stop := serve(t, b, socket)
	c, err := open(t, client.Options{Socket: socket, Rand: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	const restarts, each = 20, 50
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	finished := make(chan struct{})
	seen := make(chan int64, restarts*each)
	go func() {
		defer close(finished)
		for i := range restarts {
			b.emit(each / 2)
			for n := int64(0); n < int64(i*each+1); { // it reads from this server
				select {
				case n = <-seen:
				case <-ctx.Done():
					return
				}
			}
			stop()
			b.emit(each / 2) // while nobody serves
			stop = serve(t, b, socket)
		}
	}()
	next := int64(1)
	err = c.Events(ctx, aRun, api.Since{}, true, func(e core.Event) error {
		if e.Seq != next {
			t.Errorf("event %d, want %d", e.Seq, next)
		}
		seen <- e.Seq
		if next++; next > restarts*each {
			return errEnough
		}
		return nil
	})
	<-finished
	stop()
	if !errors.Is(err, errEnough) {
		t.Errorf("after %d events: %v", next-1, err)
	}
}

func (*behind) Edited(_ context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	return core.Approval{ID: id, Type: core.ApproveTool, Context: json.RawMessage(`{"arguments":` + string(args) + `}`), Digest: "edited"}, nil
}

var aHalt = core.Halt{Side: core.SideServer, By: core.Actor{Who: "ann", Via: core.ViaHTTP}, Reason: "enough"}

func (b *behind) Halts(context.Context) ([]core.Halt, error) { return []core.Halt{aHalt}, nil }

func (b *behind) HaltCalls(_ context.Context, _ core.Actor, reason string) ([]core.Halt, error) {
	b.note("halt " + reason)
	return []core.Halt{aHalt}, nil
}

func (b *behind) ResumeCalls(_ context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	b.note("resume " + req.Pin)
	return nil, nil
}
