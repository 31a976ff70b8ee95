package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/server"
	"github.com/google/go-cmp/cmp"
)

// A client in another process is as good as the backend itself.
var _ server.Backend = (*client.Client)(nil)

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func newClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	o.Clock, o.Version = wallClock{}, "1.2.3"
	o.NewKey = func() string { return "key-1" }
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Each method of the client arrives at the backend as it was called, and what
// the backend says comes back.
func TestClient_OverTheSocket(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	c := newClient(t, client.Options{Socket: e.sock, Workspace: e.dir, Via: core.ViaCLI})
	ctx := t.Context()
	me := core.Actor{Who: "me", Via: core.ViaCLI}
	run, ap := id(0x11110001), sampleApproval(id(0x11110001)).ID
	check := func(what string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	req := api.ExecuteRequest{
		Tasks: []core.TaskSpec{{ID: "a", Tool: "x:y", Arguments: json.RawMessage(`{"a":1}`)}}, File: "x.json", Intent: "label", IdempotencyKey: "k", By: me,
		RunOptions: core.RunOptions{TimeoutMS: 5, PerLayer: true, HIL: core.HILSideEffects, Input: json.RawMessage(`[1]`)},
	}
	r, err := c.Execute(ctx, req)
	check("the result of Execute", api.Result{Status: api.StatusSuccess, WorkflowID: id(1)}, r, err)
	check("Execute", req, last[api.ExecuteRequest](e.b), err)
	if s := last[api.Scope](e.b); s.Workspace != e.dir || s.By != me {
		t.Errorf("%+v", s)
	}
	cont := api.ContinueRequest{ID: run, By: me, Decision: &api.Decision{Approve: true, Checkpoint: ap, Reason: "r", Pin: "1", Answer: &core.Answer{Scripts: true}}}
	_, err = c.Continue(ctx, cont)
	check("Continue", cont, last[api.ContinueRequest](e.b), err)
	_, err = c.Abort(ctx, run, me, "why")
	check("Abort", []any{"abort", run, me, "why"}, last[[]any](e.b), err)
	_, err = c.Retry(ctx, run, me, 0)
	check("Retry", []any{"retry", run, me, time.Duration(0)}, last[[]any](e.b), err)
	_, err = c.Replan(ctx, run, req.Tasks, me, "why")
	check("Replan", []any{"replan", run, req.Tasks, me, "why"}, last[[]any](e.b), err)
	_, err = c.ReplanFor(ctx, run, "more", json.RawMessage(`{"a":1}`), me, "why")
	check("ReplanFor", []any{"replanFor", run, "more", `{"a":1}`, me, "why"}, last[[]any](e.b), err)
	_, err = c.Extend(ctx, ap, time.Minute)
	check("Extend", []any{"extend", ap, time.Minute}, last[[]any](e.b), err)
	_, err = c.Renew(ctx, ap, me)
	check("Renew", []any{"renew", ap, me}, last[[]any](e.b), err)
	tr := api.Trace{State: core.RunFailed, Records: []core.Record{{Seq: 1, Kind: core.RecordSettled, At: start}}}
	check("Trace", tr, func() api.Trace { err = c.Trace(ctx, run, tr); return last[api.Trace](e.b) }(), err)
	got, _, err := c.Resolve(ctx, "2222")
	check("Resolve", id(0x22220002), got, err)
	_, gotAp, err := c.Resolve(ctx, "ffff0001")
	if err == nil && gotAp == "" {
		t.Error("Resolve of an approval names none")
	}
	page, err := c.Workflows(ctx, []core.RunState{core.RunWaiting}, 0, "")
	check("Workflows", 1, len(page.Items), err)
	records, err := c.Records(ctx, run, 2)
	check("Records", 3, len(records), err)
	tools, problems, err := c.Tools(ctx)
	check("Tools", []int{1, 1}, []int{len(tools), len(problems)}, err)
	flows, err := c.Flows(ctx)
	check("Flows", []api.Flow{sampleFlow()}, flows, err)
	for _, name := range []string{"docs", "sub/docs.json"} { // without the texts of its files
		one, err := c.Flow(ctx, name)
		check("Flow", sampleFlow(), one, err)
	}
	h, err := c.FlowHistory(ctx, "docs", 3)
	want, _ := (&scoped{backend: e.b}).FlowHistory(ctx, "docs", 1)
	check("FlowHistory", want, h, err)
	if _, err := c.Flow(ctx, "other"); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("an unknown flow: %v", err)
	}
	st, err := c.Status(ctx)
	check("Status", api.ServerStatus{Version: "1.2.3", Protocol: api.Protocol}, st, err)
	_, err = c.Workflow(ctx, "99999999")
	if core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("an unknown run: %v", err)
	}
}

// A reader of events comes through restarts of the server with every event, in
// order and once.
func TestClient_FollowsThroughRestarts(t *testing.T) {
	t.Parallel()
	b := newBackend()
	sock := shortDir(t) + "/s"
	serve := func() (stop func()) {
		s := server.New(server.Options{Half: b.half, Clock: wallClock{}, User: "me", Limits: server.Limits{Grace: time.Second}})
		ln, err := server.ListenUnix(sock)
		if err != nil {
			t.Error(err)
			return func() {}
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := s.Serve(ctx, ln); err != nil {
				t.Error(err)
			}
		}()
		return func() {
			cancel()
			<-ended
			s.Close()
		}
	}
	const restarts, each = 20, 25
	stop := serve()
	c := newClient(t, client.Options{Socket: sock})
	read := make(chan int64, restarts*each)
	enough := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		n := 0
		done <- c.Events(t.Context(), "", api.Since{}, true, func(ev core.Event) error {
			read <- ev.Seq
			if n++; n == restarts*each {
				return enough
			}
			return nil
		})
	}()
	want := int64(0)
	for range restarts {
		for range each {
			b.emit(core.Event{RunID: id(1)})
		}
		for range each / 2 { // some are read before, some after
			if want++; want != <-read {
				t.Fatalf("not %d", want)
			}
		}
		stop()
		b.emit(core.Event{RunID: id(1)}) // while nobody serves
		stop = serve()
	}
	for want < restarts*each {
		if got := <-read; got != want+1 {
			t.Fatalf("%d after %d", got, want)
		}
		want++
	}
	if err := <-done; !errors.Is(err, enough) {
		t.Error(err)
	}
	stop()
}

// A folder arrives whatever its name is: headers carry less than file names may.
func TestClient_Folders(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for _, dir := range []string{"/w/ a b ", "/ w", "/w/a\nb", "/w/a\r\nPml-Via: tui", "/w/é\t", "/w/a%20b%", "/w/?#&;=+", "/w/\x01\x7f\xff"} {
		c := newClient(t, client.Options{Socket: e.sock, Workspace: dir})
		_, err := c.Approvals(t.Context(), false)
		if got := last[api.Scope](e.b); err != nil || got.Workspace != dir || got.By.Via != core.ViaHTTP {
			t.Errorf("%q: %+v, %v", dir, got, err)
		}
	}
}
