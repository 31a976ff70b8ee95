package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
)

// runner is a server with one run that takes a time.
type runner struct {
	*fakeServer
	ends    time.Time
	started map[string]int // by idempotency key
	// mangle may break an answer: true leaves the request without one.
	mangle func(path string, n int) bool
	final  api.Result
	n      int
}

func newRunner(takes time.Duration) *runner {
	s := &runner{fakeServer: newServer(), ends: time.Now().Add(takes), started: map[string]int{}}
	s.final = api.Result{Status: api.StatusComplete, WorkflowID: "r1", Result: json.RawMessage(`{"call":42}`)}
	s.handle = s.serve
	return s
}

func (s *runner) serve(w http.ResponseWriter, r *http.Request, body []byte) bool {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	if r.Method != http.MethodPost {
		return false
	}
	var b struct {
		Wait    int64               `json:"wait"`
		Options *api.ExecuteOptions `json:"options"`
	}
	json.Unmarshal(body, &b)
	wait := time.Duration(b.Wait) * time.Millisecond
	if b.Options != nil {
		wait = time.Duration(b.Options.Wait) * time.Millisecond
	}
	s.mu.Lock()
	if b.Options != nil {
		s.started[r.Header.Get("Idempotency-Key")]++
	}
	s.n++
	n, ends := s.n, s.ends
	s.mu.Unlock()
	if s.mangle != nil && s.mangle(path, n) {
		panic(http.ErrAbortHandler)
	}
	left := time.Until(ends)
	t := time.NewTimer(min(wait, max(0, left)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
		return true
	}
	if time.Now().Before(ends) {
		answer(w, 202, api.Result{Status: api.StatusRunning, WorkflowID: "r1"})
		return true
	}
	answer(w, 200, s.final)
	return true
}

// keys are the idempotency keys that runs were asked for with, and how often.
func (s *runner) keys() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.started)
}

// TestExecute_WaitsInPieces: an unbounded wait is many short ones, and the word
// for the end is that of a first execution.
func TestExecute_WaitsInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(70*time.Second), &wire{}
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		begin := time.Now()
		var started time.Duration
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1, Started: func(id core.ID) {
			if started = time.Since(begin); id != "r1" {
				t.Errorf("the run %q was started", id)
			}
		}})
		if err != nil || r.Status != api.StatusSuccess || r.WorkflowID != "r1" {
			t.Fatalf("%+v, %v", r, err)
		}
		if started != time.Second {
			t.Errorf("its id was known after %s", started)
		}
		if d := time.Since(begin); d != 70*time.Second {
			t.Errorf("took %s", d)
		}
		log := s.log()
		if len(log) != 4 {
			t.Errorf("%d requests, want 4", len(log))
		}
		for _, a := range log[1:] {
			if strings.Contains(string(a.body), `"wait":-1`) || !strings.Contains(string(a.body), `"wait":25000`) {
				t.Errorf("asked for %s", a.body)
			}
		}
	})
}

// TestExecute_WaitsBesideMany: a server where too many wait already has the run
// that it has begun; it is asked again until there is room.
func TestExecute_WaitsBesideMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(5*time.Minute), &wire{}
		refused := 0
		s.handle = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if refused < 20 && strings.HasSuffix(r.URL.Path, "/continue") {
				refused++
				w.Header().Set("Retry-After", "5")
				problem(w, http.StatusTooManyRequests, core.Errorf(core.CodeRateLimited, "too many wait"))
				return true
			}
			return s.serve(w, r, body)
		}
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		if err != nil || r.Status != api.StatusSuccess || refused != 20 {
			t.Errorf("after %d refusals: %+v, %v", refused, r, err)
		}
	})
}

// TestExecute_BoundedWait: the caller's wait holds, whatever the pieces are.
func TestExecute_BoundedWait(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s, net := newRunner(time.Hour), &wire{}
			net.up(s)
			c, stop := newClient(t, net, client.Options{})
			defer stop()
			begin := time.Now()
			r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: wait})
			if err != nil || r.Status != api.StatusRunning || time.Since(begin) != wait {
				t.Errorf("after %s: %+v, %v", time.Since(begin), r, err)
			}
		})
	}
}

// TestExecute_LostAnswer: the answer to a start gets lost three times; all
// attempts carry one key, so that it is one run.
func TestExecute_LostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Second), &wire{}
		s.mangle = func(_ string, n int) bool { return n <= 3 }
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		if err != nil || r.Status != api.StatusSuccess {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(s.keys()) != 1 {
			t.Errorf("keys %v, want one", s.keys())
		}
		for key, n := range s.keys() {
			if key == "" || n < 4 {
				t.Errorf("key %q was used %d times", key, n)
			}
		}
	})
}

// TestExecute_ServerRestarts: the server goes away in the middle of a wait.
func TestExecute_ServerRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Minute), &wire{}
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 5 {
				time.Sleep(5 * time.Second)
				net.down()
				time.Sleep(3 * time.Second)
				net.up(s)
			}
		}()
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		<-done
		if err != nil || r.Status != api.StatusSuccess || len(s.keys()) != 1 {
			t.Errorf("%+v, %v, started %v", r, err, s.keys())
		}
	})
}

// TestContinue_FollowsOnly: what is sent to wait on, or sent again, passes no pause that nobody has seen; what somebody
// asks for once does.
func TestContinue_FollowsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(3*time.Second), &wire{}
		var passes []string
		serve := s.handle
		s.handle = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if strings.HasSuffix(r.URL.Path, "/continue") {
				passes = append(passes, r.URL.Query().Get("follow"))
			}
			return serve(w, r, body)
		}
		s.mangle = func(_ string, n int) bool { return n == 4 } // the answer to the request below is lost
		net.up(s)
		c, stop := newClient(t, net, client.Options{Limits: client.Limits{Chunk: time.Second}})
		defer stop()
		if _, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Continue(t.Context(), api.ContinueRequest{ID: "r1", Wait: -1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Continue(t.Context(), api.ContinueRequest{ID: "r1", Wait: -1, Follow: true}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(passes, ","); got != "true,true,,true,true" {
			t.Errorf("follow is %q", got)
		}
	})
}

// TestExecute_StoppingServer: one that is about to stop answers at once that
// the run was interrupted, or runs; it is not asked again in a tight loop.
func TestExecute_StoppingServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Minute), &wire{}
		interrupted := core.Errorf(core.CodeCancelled, "the run was interrupted").WithRun("r1")
		serve, stopping := s.handle, time.Now().Add(10*time.Second)
		s.handle = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/continue") && time.Now().Before(stopping) {
				problem(w, 503, interrupted)
				return true
			}
			return serve(w, r, body)
		}
		net.up(s)
		c, stop := newClient(t, net, client.Options{Limits: client.Limits{Chunk: time.Second}})
		defer stop()
		r, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		if err != nil || r.Status != api.StatusSuccess {
			t.Fatalf("%+v, %v", r, err)
		}
		if n := len(s.log()); n > 80 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestExecute_Unreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, stop := newClient(t, &wire{}, client.Options{Checked: true})
		defer stop()
		begin := time.Now()
		_, err := c.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Wait: -1})
		e := wantCode(t, err, core.CodeServerUnreachable)
		if time.Since(begin) != 0 || len(e.Next) == 0 {
			t.Errorf("after %s: %v, next %q", time.Since(begin), e, e.Next)
		}
	})
}

// TestContinue_LostDecision: one that names its approval is sent again; one
// about whatever waits is not, for what waits now may be another question.
func TestContinue_LostDecision(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		checkpoint core.ID
		decisions  int
	}{{"a1", 2}, {"", 1}} {
		synctest.Test(t, func(t *testing.T) {
			s, net := newRunner(time.Second), &wire{}
			s.mangle = func(_ string, n int) bool { return n == 1 }
			net.up(s)
			c, stop := newClient(t, net, client.Options{})
			defer stop()
			r, err := c.Continue(t.Context(), api.ContinueRequest{ID: "r1", Wait: -1, Decision: &api.Decision{Approve: true, Checkpoint: tt.checkpoint}})
			if err != nil || r.Status != api.StatusComplete {
				t.Fatalf("%+v, %v", r, err)
			}
			n := 0
			for _, a := range s.log() {
				if strings.Contains(string(a.body), `"decision"`) {
					n++
				}
			}
			if n != tt.decisions {
				t.Errorf("checkpoint %q: decided %d times, want %d", tt.checkpoint, n, tt.decisions)
			}
		})
	}
}

// TestRetry_Lost: what cannot be sent twice is not, and the error says so.
func TestRetry_Lost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Second), &wire{}
		s.mangle = func(string, int) bool { return true }
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		_, err := c.Retry(t.Context(), "r1", core.Actor{}, -1)
		if e := wantCode(t, err, core.CodeServerUnreachable); e.RunID != "r1" || len(e.Next) == 0 {
			t.Errorf("%+v", e)
		}
		if n := len(s.log()); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

// TestCallToolOnce: through a restart, an approval that expires, and one that
// is granted; the call is made under the given key.
func TestCallToolOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Minute), &wire{}
		serve := s.handle
		var renewed atomic.Bool
		asked := make(chan struct{}, 1)
		s.handle = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			switch {
			case strings.HasSuffix(r.URL.Path, "/workflows/r1") && r.Method == http.MethodGet:
				answer(w, 200, core.Workflow{Run: core.Run{ID: "r1", State: core.RunWaiting}})
				asked <- struct{}{}
				return true
			case strings.HasSuffix(r.URL.Path, "/continue") && !renewed.Load():
				answer(w, 200, api.Result{Status: api.StatusError, ErrorCode: core.CodeApprovalExpired, WorkflowID: "r1"})
				return true
			}
			return serve(w, r, body)
		}
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		go func() {
			time.Sleep(10 * time.Second)
			net.up(s) // it was not there
			<-asked
			time.Sleep(time.Hour)
			renewed.Store(true)
			s.mu.Lock()
			s.ends = time.Now().Add(time.Minute)
			s.mu.Unlock()
			s.emit(1) // somebody asked again
		}()
		out, err := c.CallToolOnce(t.Context(), "a:b", json.RawMessage(`{"x":1}`), "run/c1/1", "parent")
		if err != nil || string(out) != "42" {
			t.Fatalf("%s, %v", out, err)
		}
		if len(s.keys()) != 1 || s.keys()["run/c1/1"] == 0 {
			t.Errorf("started %v", s.keys())
		}
	})
}

func TestCallToolOnce_Fails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		r    api.Result
		code core.Code
	}{
		{api.Result{Status: api.StatusError, ErrorCode: core.CodeToolFailed, Failures: []core.Failure{{TaskID: "call", Code: core.CodePermissionDenied, Error: "no"}}}, core.CodePermissionDenied},
		{api.Result{Status: api.StatusError, ErrorCode: core.CodeTimeout, Error: "late"}, core.CodeTimeout},
		{api.Result{Status: api.StatusAborted}, core.CodeAborted},
		{api.Result{Status: api.StatusSuggestions}, core.CodeToolFailed},
		{api.Result{Status: api.StatusExecuteLocally, WorkflowID: "r1"}, core.CodeInvalidConfig},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s, net := newRunner(0), &wire{}
			s.final = tt.r
			net.up(s)
			c, stop := newClient(t, net, client.Options{})
			defer stop()
			_, err := c.CallToolOnce(t.Context(), "a:b", nil, "k", "")
			wantCode(t, err, tt.code)
			log := s.log()
			if aborted := strings.HasSuffix(log[len(log)-1].path, "/r1/abort"); aborted != (tt.r.Status == api.StatusExecuteLocally) {
				t.Errorf("%s: aborted %v", tt.r.Status, aborted)
			}
		})
	}
}

// TestExecute_Cancelled: the caller stops waiting, the run goes on.
func TestExecute_Cancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, net := newRunner(time.Hour), &wire{}
		net.up(s)
		c, stop := newClient(t, net, client.Options{})
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := c.Execute(ctx, api.ExecuteRequest{Code: "return 1", Wait: -1})
		if e := wantCode(t, err, core.CodeCancelled); e.RunID != "r1" {
			t.Errorf("of the run %q", e.RunID)
		}
		if r.WorkflowID != "r1" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
