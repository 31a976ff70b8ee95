package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

type note struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Total    float64         `json:"total"`
	Message  string          `json:"message"`
}

// stepping is a fake whose runs have n tasks, each of which is done at an event.
func stepping(t *testing.T, n int) *fake {
	t.Helper()
	var done atomic.Int64
	moved := make(chan int64)
	f := &fake{t: t}
	f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
		req.Started(runID)
		for range n {
			select {
			case moved <- done.Add(1):
			case <-time.After(time.Millisecond):
			}
		}
		return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
	}
	f.events = func(ctx context.Context, each func(core.Event) error) error {
		for {
			select {
			case i := <-moved:
				if err := each(core.Event{Type: core.EventTaskComplete, TaskID: "t" + strconv.Itoa(int(i)%n)}); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	f.workflow = func(id core.ID) (core.Workflow, error) {
		tasks := make([]core.Task, n)
		for i := range tasks {
			tasks[i].ID = "t" + strconv.Itoa(i)
			if tasks[i].State = core.TaskQueued; i < int(done.Load()%int64(n+1)) {
				tasks[i].State = core.TaskSuccess
			}
		}
		return core.Workflow{Run: core.Run{ID: id, State: core.RunRunning, TotalLayers: 1}, Layers: []core.Layer{{Tasks: tasks}}}, nil
	}
	return f
}

// Progress never comes after the answer that it belongs to, over many fast
// calls at the same time.
func TestProgress_BeforeResult(t *testing.T) {
	t.Parallel()
	const calls = 200
	f := stepping(t, 3)
	execute, told := f.execute, make(chan struct{})
	f.execute = func(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
		r, err := execute(ctx, req)
		if req.Code == "last" {
			<-told // the others may all have ended before a sign of life was due
		}
		return r, err
	}
	w := dial(t, newEdge(t, f, func(o *mcp.Options) { o.Beat = 100 * time.Microsecond }))
	for i := range calls {
		id, code := strconv.Itoa(i), "1"
		if i == calls-1 {
			code = "last"
		}
		w.send(callLine(id, "execute", `{"code":"`+code+`"}`, `{"progressToken":"p`+id+`"}`))
	}
	answered := map[string]bool{}
	last := map[string]float64{}
	notes := 0
	for len(answered) < calls {
		m := w.next()
		if m.Method == "" {
			answered["p"+string(m.ID)] = true
			continue
		}
		var n note
		if err := json.Unmarshal(m.Params, &n); err != nil {
			t.Fatal(err)
		}
		if notes++; notes == 1 {
			close(told)
		}
		token := strings.Trim(string(n.Token), `"`)
		if answered[token] {
			t.Fatalf("progress of %s after its answer", token)
		}
		if n.Progress <= last[token] {
			t.Errorf("progress of %s went from %v to %v", token, last[token], n.Progress)
		}
		last[token] = n.Progress
	}
}

// The same over HTTP: what comes on the stream of a call is its own progress,
// and the last event is the answer.
func TestProgress_HTTP(t *testing.T) {
	t.Parallel()
	f := stepping(t, 3)
	step, told := f.execute, make(chan struct{})
	f.execute = func(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
		r, err := step(ctx, req)
		<-told // the head of the answer comes with the first of its progress
		return r, err
	}
	srv, _ := serveHTTP(t, f, func(o *mcp.Options) { o.Beat = time.Millisecond })
	session := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	for i := range 50 {
		id := strconv.Itoa(i)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader(callLine(id, "execute", `{"code":"1"}`, `{"progressToken":`+id+`}`)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			t.Fatalf("the answer is %s", kind)
		}
		told <- struct{}{}
		var last msg
		s := bufio.NewScanner(res.Body)
		for s.Scan() {
			data, ok := strings.CutPrefix(s.Text(), "data: ")
			if !ok {
				continue
			}
			if last.ID != nil {
				t.Fatalf("an event after the answer: %s", data)
			}
			if err := json.Unmarshal([]byte(data), &last); err != nil {
				t.Fatal(err)
			}
			if last.Method != "" && !strings.Contains(string(last.Params), `"progressToken":`+id+`,`) {
				t.Errorf("progress of another call: %s", data)
			}
		}
		if string(last.ID) != id {
			t.Errorf("the last event is %+v", last)
		}
		_ = res.Body.Close()
	}
}

// Without a token there is no progress; with one there is a sign of life at
// least every 20 s, always past the one before, and what a person must do is in
// it.
func TestProgress_Beat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
			req.Started(runID)
			time.Sleep(61 * time.Second) // of the bubble
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}
		f.workflow = func(id core.ID) (core.Workflow, error) {
			return core.Workflow{
				Run:       core.Run{ID: id, State: core.RunWaiting, TotalLayers: 2, CurrentLayer: 1},
				Layers:    []core.Layer{{Tasks: []core.Task{{ID: "a", State: core.TaskSuccess}}}, {Tasks: []core.Task{{ID: "b", State: core.TaskWaiting}}}},
				Approvals: []core.Approval{{State: core.ApprovalOpen}},
			}, nil
		}
		w := dial(t, newEdge(t, f, nil))
		w.send(callLine("1", "execute", `{"code":"1"}`, `{"progressToken":"x"}`))
		last := 0.0
		var notes int
		for {
			m := w.next()
			if m.Method == "" {
				break
			}
			var n note
			if err := json.Unmarshal(m.Params, &n); err != nil {
				t.Fatal(err)
			}
			notes++
			if n.Progress <= last || n.Total != 2 || n.Message != "layer 2 of 2, 1 of 2 tasks done; waiting for a person to decide (1)" {
				t.Errorf("got %+v after %v", n, last)
			}
			last = n.Progress
		}
		if notes != 5 {
			t.Errorf("%d notifications in 61 s, want one at first and 4 signs of life", notes)
		}
		w.send(callLine("2", "execute", `{"code":"1"}`, ""))
		if m := w.next(); m.Method != "" {
			t.Errorf("progress without a token: %+v", m)
		}
		_ = w.in.Close()
		w.done <- <-w.done
	})
}

// A look at the run that takes longer than the call itself does not put its
// progress behind the answer.
func TestProgress_LateLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looked := make(chan struct{}, 100)
		f := &fake{t: t}
		f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
			req.Started(runID)
			<-looked
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}
		f.workflow = func(id core.ID) (core.Workflow, error) {
			looked <- struct{}{}
			time.Sleep(time.Second) // of the bubble
			return core.Workflow{Run: core.Run{ID: id, State: core.RunRunning}}, nil
		}
		w := dial(t, newEdge(t, f, nil))
		w.send(callLine("1", "execute", `{"code":"1"}`, `{"progressToken":"x"}`))
		for m := w.next(); m.Method != ""; m = w.next() {
			t.Logf("before the answer: %s", m.Params)
		}
		time.Sleep(time.Minute)
		w.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if m := w.next(); string(m.ID) != "2" {
			t.Errorf("after the answer came %+v", m)
		}
		_ = w.in.Close()
		w.done <- <-w.done
	})
}

// A run is looked at once, however much happens in it, and a look that takes its
// time does not keep the answer.
func TestProgress_LooksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		begun, release := make(chan struct{}), make(chan struct{})
		layer := 1
		f := &fake{t: t}
		f.events = func(ctx context.Context, each func(core.Event) error) error {
			for _, e := range []core.Event{
				{Type: core.EventTaskStart, TaskID: "a"},
				{Type: core.EventTaskComplete, TaskID: "a"},
				{Type: core.EventTaskStart, TaskID: "b", Layer: &layer},
				{Type: core.EventApprovalRequested, ApprovalID: approvalID},
				{Type: core.EventTaskLog, TaskID: "b"},
				{Type: core.EventApprovalResolved, ApprovalID: approvalID},
				{Type: core.EventTaskError, TaskID: "b", Layer: &layer},
			} {
				time.Sleep(time.Second) // of the bubble
				if err := each(e); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return ctx.Err()
		}
		f.workflow = func(id core.ID) (core.Workflow, error) {
			looks.Add(1)
			return core.Workflow{
				Run:    core.Run{ID: id, State: core.RunRunning, TotalLayers: 2},
				Layers: []core.Layer{{Tasks: []core.Task{{ID: "a"}}}, {Tasks: []core.Task{{ID: "b"}}}},
			}, nil
		}
		f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
			req.Started(runID)
			time.Sleep(14 * time.Second) // of the bubble
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}
		w := dial(t, newEdge(t, f, nil))
		w.send(callLine("1", "execute", `{"code":"1"}`, `{"progressToken":"x"}`))
		var said []string
		for m := w.next(); m.Method != ""; m = w.next() {
			var n note
			if err := json.Unmarshal(m.Params, &n); err != nil {
				t.Fatal(err)
			}
			said = append(said, n.Message)
		}
		want := []string{
			"layer 1 of 2, 0 of 2 tasks done", "layer 1 of 2, 1 of 2 tasks done", "layer 2 of 2, 1 of 2 tasks done",
			"layer 2 of 2, 1 of 2 tasks done; waiting for a person to decide (1)", "layer 2 of 2, 1 of 2 tasks done", "layer 2 of 2, 2 of 2 tasks done",
		}
		if !slices.Equal(said, want) || looks.Load() != 1 {
			t.Errorf("%d looks; %q", looks.Load(), said)
		}
		// A look that does not come back.
		synctest.Wait() // nothing reads any more what is changed
		f.events = nil
		f.workflow = func(core.ID) (core.Workflow, error) {
			close(begun)
			<-release
			return core.Workflow{}, nil
		}
		f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
			req.Started(runID)
			<-begun
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}
		before := time.Now()
		w.send(callLine("2", "execute", `{"code":"1"}`, `{"progressToken":"y"}`))
		if m := w.next(); string(m.ID) != "2" || time.Since(before) > 0 {
			t.Errorf("after %s came %+v", time.Since(before), m)
		}
		close(release)
		_ = w.in.Close()
		w.done <- <-w.done
	})
}
