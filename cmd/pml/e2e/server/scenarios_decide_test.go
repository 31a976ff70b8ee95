//go:build unix

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// continues is execute's older spelling of an approval.
func continues(id any) map[string]any {
	return map[string]any{"continue_workflow": map[string]any{"workflow_id": id, "approved": true}}
}

// TestServerScenario01_NoSuchRun: an approval without an id, of an id that
// nobody has, and of another user's run is an error over HTTP, at /mcp and on
// the command line, the same for the last two, and nothing runs.
//
// Scenario 1.
func TestServerScenario01_NoSuchRun(t *testing.T) {
	t.Parallel()
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		keys := map[string]string{"ann": newKey(m, "ann"), "bob": newKey(m, "bob")}
		m.Serving("--listen", "127.0.0.1:0")
		ann, bob := callerWithKey(m, keys["ann"]), callerWithKey(m, keys["bob"])
		r := ann.Execute(api.ExecuteBody{Code: pmltest.AsksOnce})
		if r.Status != api.StatusApprovalRequired {
			t.Fatalf("%+v", r)
		}
		run, cp := string(r.WorkflowID), string(r.CheckpointID)

		for _, c := range []*pmltest.Caller{ann, bob} {
			for _, body := range []any{
				map[string]any{"continue_workflow": map[string]any{"approved": true}}, continues(""), continues(nil),
				map[string]any{"continue_workflow": map[string]any{"workflow_id": run}},
				map[string]any{"continue_workflow": map[string]any{"workflow_id": run, "approved": "true"}},
			} {
				c.Post("/workflows", body).Problem(http.StatusBadRequest, core.CodeInvalidArguments)
				ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
				// At /mcp the schema has the empty id too; both are refused before anything is looked for.
				if got, failed, code := c.Tool(ctx, "execute", body); code != -32602 && (!failed || got.Status != api.StatusError) {
					t.Errorf("%v at /mcp: %d %+v", body, code, got)
				}
				cancel()
			}
		}
		// What is another's is answered as what is nobody's.
		for _, id := range []string{uuid.NewString(), run, run[:8], cp, "@latest"} {
			bob.Post("/workflows", continues(id)).Problem(http.StatusNotFound, core.CodeNotFound)
			bob.Post("/workflows/"+id+"/continue", yes()).Problem(http.StatusNotFound, core.CodeNotFound)
			bob.Post("/workflows/"+id+"/approvals/"+cp, map[string]any{"approved": true}).Problem(http.StatusNotFound, core.CodeNotFound)
			for tool, args := range map[string]any{
				"execute": continues(id), "approval_response": map[string]any{"workflow_id": id, "checkpoint_id": cp, "approved": true},
				"continue": map[string]any{"workflow_id": id}, "abort": map[string]any{"workflow_id": id},
			} {
				if got := bob.Agent(tool, args); got.ErrorCode != core.CodeNotFound {
					t.Errorf("%s of %s: %+v", tool, id, got)
				}
			}
		}
		as := *m
		as.Env = append(slices.Clone(m.Env), "PML_API_KEY="+keys["bob"])
		for _, id := range []string{uuid.NewString(), run, cp} {
			f := as.Exit(3, "continue", id, "--approve", "--server", bob.Base, "--json").Fault()
			if f.Code != core.CodeNotFound {
				t.Errorf("%s on the command line: %+v", id, f)
			}
		}
		if n, w := m.Count("danger"), ann.Workflow(r.WorkflowID); n != 0 || w.State != core.RunWaiting {
			t.Errorf("danger ran %d times, the run is %s", n, w.State)
		}

		as.Env[len(as.Env)-1] = "PML_API_KEY=" + keys["ann"]
		if r = as.JSON(0, "continue", run, "--approve", "--server", ann.Base); string(r.Result) != `"n1"` {
			t.Errorf("the owner's approval: %+v", r)
		}
		if got := strings.Join(m.Calls(), " "); got != `inc {"key":"a"} danger {"x":"n1"}` {
			t.Errorf("calls %s", got)
		}
	})
}

// TestServerScenario02_ThreeErrors: unknown, expired and used ids are three
// problems over HTTP, three results at /mcp and three exit codes.
//
// Scenario 2.
func TestServerScenario02_ThreeErrors(t *testing.T) {
	t.Parallel()
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		c := m.Caller("")
		used := c.Execute(api.ExecuteBody{Code: `return await mcp.rec.danger({x: "used"})`})
		if r := c.Post("/workflows/"+string(used.WorkflowID)+"/continue", yes()).Want(200).Result(); r.Status != api.StatusComplete {
			t.Errorf("%+v", r)
		}
		short := pmltest.AllowRec()
		short.Approvals = map[string]any{"ttl": "5s", "resume_ttl": "5s"}
		m.Configure(short)
		over := c.Execute(api.ExecuteBody{Code: `return await mcp.rec.danger({x: "over"})`})
		pmltest.WaitFor(t, "the run is over", func() bool { return c.Workflow(over.WorkflowID).State == core.RunExpired })

		for _, tt := range []struct {
			name   string
			id     core.ID
			status int
			exit   int
			code   core.Code
		}{
			{"unknown", core.ID(uuid.NewString()), 404, 3, core.CodeNotFound},
			{"over", over.WorkflowID, 410, 11, core.CodeWorkflowExpired},
			{"used", used.WorkflowID, 409, 12, core.CodeAlreadyDecided},
			{"used by approval", used.CheckpointID, 409, 12, core.CodeAlreadyDecided},
		} {
			p := c.Post("/workflows/"+string(tt.id)+"/continue", no()).Problem(tt.status, tt.code)
			if p.Detail == "" || len(p.Error.Next) == 0 {
				t.Errorf("%s: it does not say what to do: %+v", tt.name, p)
			}
			refuse := map[string]any{"continue_workflow": map[string]any{"workflow_id": tt.id, "approved": false}}
			if r := c.Agent("execute", refuse); r.ErrorCode != tt.code || r.Status != api.StatusError {
				t.Errorf("%s at /mcp: %+v", tt.name, r)
			}
			o := m.Exit(tt.exit, "continue", string(tt.id), "--deny", "--json")
			if f := o.Fault(); f.Code != tt.code || o.Stdout != "" {
				t.Errorf("%s on the command line: %+v, stdout %q", tt.name, f, o.Stdout)
			}
		}
		if diff := cmp.Diff([]string{`danger {"x":"used"}`}, m.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// gathering stands before a machine's server and holds decisions back until
// there are as many as it waits for; then it lets them all go at once.
type gathering struct {
	mu    sync.Mutex
	left  int
	full  chan struct{}
	proxy *httputil.ReverseProxy
}

// gather returns the address of a gathering of n deciders.
func gather(m *pmltest.Machine, n int) string {
	m.T.Helper()
	g := &gathering{left: n, full: make(chan struct{})}
	g.proxy = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "pml" },
		Transport: m.Caller("").Conn.Transport,
	}
	path := filepath.Join(m.Dir, "many.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		m.T.Fatal(err)
	}
	srv := &http.Server{Handler: g, ReadHeaderTimeout: pmltest.Patience}
	go func() { _ = srv.Serve(ln) }() // it ends with the listener
	m.T.Cleanup(func() { _ = srv.Close() })
	return path
}

func (g *gathering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(`"approved":true`)) {
		g.mu.Lock()
		if g.left--; g.left == 0 {
			close(g.full)
		}
		g.mu.Unlock()
		select {
		case <-g.full:
		case <-r.Context().Done():
		}
	}
	g.proxy.ServeHTTP(w, r)
}

// TestServerScenario03_FiftyAtOnce: of fifty deciders at the same instant,
// processes and callers of HTTP and /mcp, one decides and gets the result; the
// others learn who did and when, and the call runs once.
//
// Scenario 3.
func TestServerScenario03_FiftyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 50
	processes := 16
	if skiptest.Race {
		processes = 5
	}
	onStores(t, pmltest.AllowRec().AgentsDecide(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		r := m.Caller("").Execute(api.ExecuteBody{Code: `return (await mcp.rec.danger({x: "once"})).done`})
		at := gather(m, n)
		c := m.Caller("")
		c.Conn.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", at)
		}}
		type told struct {
			how    string
			won    bool
			result string
			code   core.Code
			by     *core.DecidedBy
		}
		all := make([]told, n)
		var wg sync.WaitGroup
		for i := range all {
			if i < processes {
				p := m.Start("continue", string(r.WorkflowID), "--approve", "--json", "--server", "unix://"+at)
				wg.Go(func() {
					o := p.Wait()
					if all[i] = (told{how: "process", won: o.Exit == 0}); o.Exit == 0 {
						all[i].result = string(o.Result().Result)
					} else {
						f := o.Want(12).Fault()
						all[i].code, all[i].by = f.Code, f.DecidedBy
					}
				})
				continue
			}
			wg.Go(func() {
				if i%2 == 0 {
					got := c.Agent("execute", continues(r.WorkflowID))
					all[i] = told{"/mcp", got.Status == api.StatusComplete, string(got.Result), got.ErrorCode, got.Decided}
					return
				}
				a := c.Post("/workflows/"+string(r.WorkflowID)+"/continue", yes())
				if a.Status == http.StatusOK {
					all[i] = told{how: "HTTP", won: true, result: string(a.Result().Result)}
					return
				}
				p := a.Problem(http.StatusConflict, core.CodeAlreadyDecided)
				if all[i] = (told{how: "HTTP", code: p.Code}); p.Error != nil {
					all[i].by = p.Error.Decided
				}
			})
		}
		wg.Wait()
		var winner []told
		var when *time.Time
		for i, got := range all {
			if got.won {
				winner = append(winner, got)
				continue
			}
			if got.code != core.CodeAlreadyDecided || got.by == nil || got.by.Who == "" || got.by.Via == "" || got.by.At.IsZero() {
				t.Errorf("%d, %s, was told %+v by %+v", i, got.how, got, got.by)
				continue
			}
			if when == nil {
				when = &got.by.At
			}
			if !when.Equal(got.by.At) {
				t.Errorf("decided at %s and at %s", when, got.by.At)
			}
		}
		if len(winner) != 1 || winner[0].result != `"once"` {
			t.Errorf("winners %+v", winner)
		}
		if got := m.Count("danger"); got != 1 {
			t.Errorf("danger ran %d times", got)
		}
		var state []core.ApprovalState
		for _, ap := range c.Approvals("?all=true") {
			state = append(state, ap.State)
		}
		if diff := cmp.Diff([]core.ApprovalState{core.ApprovalApproved}, state); diff != "" {
			t.Errorf("approvals (-want +got):\n%s", diff)
		}
	})
}

// TestServerScenario06_AllKilled: what waits for a decision is there after
// every process was killed, and a new one finishes it from any folder.
//
// Scenario 6. Scenario 35: the runner is dead, whoever decides has it taken over.
func TestServerScenario06_AllKilled(t *testing.T) {
	t.Parallel()
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.StopAtEnd()
		code := strings.TrimSpace(m.OK("execute", "--code", pmltest.AsksOnce, "--detach").Stdout)
		dag := strings.TrimSpace(m.OK("execute", "--detach", m.DAG("dag.json", pmltest.Task("b", "rec:inc", `{"key":"b"}`, nil),
			pmltest.Task("d", "rec:danger", `{"x":"m${b.count}"}`, nil), pmltest.Task("c", "rec:inc", `{"key":"c"}`, pmltest.After("d")))).Stdout)
		pmltest.WaitFor(t, "both wait", func() bool { return len(m.Approvals()) == 2 && m.Count("inc") == 2 })
		ids := map[core.ID]bool{}
		for _, ap := range m.Approvals() {
			ids[ap.ID] = true
		}
		pid := m.Status(0).Server.PID
		killAll(t, pid)

		list := m.Approvals()
		for _, ap := range list {
			if !ids[ap.ID] || ap.State != core.ApprovalOpen || ap.Side != core.SideServer {
				t.Errorf("after the kill: %+v", ap)
			}
		}
		if now := m.Status(0).Server; len(list) != 2 || now.PID == pid {
			t.Errorf("%d approvals, server %d", len(list), now.PID)
		}
		m.Env = slices.DeleteFunc(m.Env, func(v string) bool { return strings.HasPrefix(v, "PML_WORKSPACE=") })
		begin := time.Now()
		for id, want := range map[string]string{code: `"n1"`, dag: `"count":1`} {
			r := m.StartIn(m.Dir, "continue", id[:8], "--approve", "--json").Wait().Want(0).Result()
			if r.Status != api.StatusComplete || !strings.Contains(pmltest.Compact(t, r.Result), want) {
				t.Errorf("%s: %s", r.Status, r.Result)
			}
		}
		t.Logf("both were finished %s after the kill", time.Since(begin).Round(time.Millisecond))
		got := m.Calls()
		slices.Sort(got)
		if diff := cmp.Diff([]string{`danger {"x":"m1"}`, `danger {"x":"n1"}`, `inc {"key":"a"}`, `inc {"key":"b"}`, `inc {"key":"c"}`}, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// killAll kills a process and everything below it with -9, and waits until it
// is gone.
func killAll(t *testing.T, pid int) {
	t.Helper()
	self, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range pmltest.Descendants(t, pid) {
		if p, err := os.FindProcess(child); err == nil {
			_ = p.Kill() // it may have ended with its parent
		}
	}
	if err := self.Kill(); err != nil {
		t.Fatal(err)
	}
	pmltest.WaitGone(t, pid)
}

// TestServerScenario12_Expiry: an approval that times out is expired, over HTTP
// and in the events, not denied; asked again it can be approved, and nothing
// that ran runs twice.
//
// Scenario 12.
func TestServerScenario12_Expiry(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "5s"}
	onStores(t, c, func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		web := m.Caller("")
		ways := map[string]func(id core.ID) (again core.ID){
			"http": func(id core.ID) core.ID {
				return web.Post("/workflows/"+string(id)+"/continue", map[string]any{"wait": pmltest.Patience.Milliseconds()}).Want(200).Result().CheckpointID
			},
			"renew": func(id core.ID) core.ID {
				var ap core.Approval
				web.Post("/workflows/"+string(id)+"/approvals/"+string(web.Workflow(id).Approvals[0].ID)+"/renew", nil).Want(200).Decode(&ap)
				return ap.ID
			},
			"mcp": func(id core.ID) core.ID {
				return web.Agent("continue", map[string]any{"workflow_id": id}).CheckpointID
			},
			"cli": func(id core.ID) core.ID { return m.JSON(8, "continue", string(id)).CheckpointID },
			// What has expired is decided, and asked again with it.
			"decided": func(id core.ID) core.ID { return web.Workflow(id).Approvals[0].ID },
		}
		first := map[string]api.Result{}
		for how := range ways {
			first[how] = web.Execute(api.ExecuteBody{Code: strings.ReplaceAll(pmltest.AsksOnce, `"a"`, pmltest.Quote(t, how))})
		}
		for how, r := range first {
			pmltest.WaitFor(t, "the approval has expired", func() bool {
				return web.Workflow(r.WorkflowID).Approvals[0].StateAt(time.Now()) == core.ApprovalExpired
			})
			if w := web.Workflow(r.WorkflowID); w.State != core.RunWaiting {
				t.Errorf("%s: the run is %s", how, w.State)
			}
		}
		longer := pmltest.AllowRec()
		longer.Approvals = map[string]any{"ttl": "5m"}
		m.Configure(longer)
		for how, again := range ways {
			id := first[how].WorkflowID
			cp := again(id)
			if cp == "" || (cp == first[how].CheckpointID) != (how == "decided") {
				t.Errorf("%s: asked again as %q after %q", how, cp, first[how].CheckpointID)
			}
			r := web.Post("/workflows/"+string(id)+"/approvals/"+string(cp), map[string]any{"approved": true, "wait": pmltest.Patience.Milliseconds()}).Want(200).Result()
			if r.Status != api.StatusComplete || string(r.Result) != `"n1"` {
				t.Errorf("%s: %+v", how, r)
			}
			states := map[core.ApprovalState]int{}
			for _, ap := range web.Workflow(id).Approvals {
				states[ap.State]++
			}
			if diff := cmp.Diff(map[core.ApprovalState]int{core.ApprovalExpired: 1, core.ApprovalApproved: 1}, states); diff != "" {
				t.Errorf("%s: approvals (-want +got):\n%s", how, diff)
			}
		}
		if inc, danger := m.Count("inc"), m.Count("danger"); inc != len(ways) || danger != len(ways) {
			t.Errorf("inc ran %d times, danger %d, want %d each", inc, danger, len(ways))
		}
	})
}

// TestServerScenario13_Human: where a person decides an agent's approval gets
// awaiting_human, and a person's, in the terminal or by the command line, lets
// the agent's call that is still open return the result.
//
// Scenario 13.
func TestServerScenario13_Human(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"decider": "human"}
	onStores(t, c, func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		agent := m.Caller("")
		for i, person := range []struct {
			name   string
			decide func(ap core.Approval)
		}{
			{"cli", func(ap core.Approval) {
				if o := m.PML("continue", string(ap.RunID), "--approve"); o.Exit != 8 {
					t.Errorf("without a terminal: exit %d: %s%s", o.Exit, o.Stdout, o.Stderr)
				}
				for _, via := range []string{"", "cli", "tui"} { // whoever it says it is
					a := m.Caller(via).Post("/workflows/"+string(ap.RunID)+"/approvals/"+string(ap.ID),
						map[string]any{"approved": true, "expect_digest": ap.Digest, "presence": "terminal"})
					if a.Status < 400 || !strings.Contains(string(a.Body), string(core.CodeAwaitingHuman)) || m.Count("danger") != 0 {
						t.Errorf("a POST by %q: %d %s", via, a.Status, a.Body)
					}
				}
				if s := m.ApproveOnTerminal(ap); s.Exit != 0 {
					t.Errorf("on a terminal: exit %d: %q", s.Exit, s.Text)
				}
			}},
		} {
			open := make(chan api.Result, 1)
			go func() {
				r, _, _ := agent.Tool(t.Context(), "execute", map[string]any{
					"code": fmt.Sprintf(`return (await mcp.rec.danger({x: %q})).done`, person.name), "options": map[string]any{"wait": 2 * pmltest.Patience.Milliseconds()},
				})
				open <- r
			}()
			var list []core.Approval
			pmltest.WaitFor(t, "an approval waits", func() bool { list = agent.Approvals(""); return len(list) == 1 })
			ap := list[0]
			for tool, args := range map[string]any{
				"execute":           continues(ap.RunID),
				"approval_response": map[string]any{"workflow_id": ap.RunID, "checkpoint_id": ap.ID, "approved": true},
			} {
				r, _, code := agent.Tool(t.Context(), tool, args)
				if r.Status != api.StatusAwaitingHuman && r.ErrorCode != core.CodeAwaitingHuman || code != 0 {
					t.Errorf("%s: the agent's %s: %+v", person.name, tool, r)
				}
			}
			select {
			case r := <-open:
				t.Fatalf("the agent's call did not stay open: %+v", r)
			default:
			}
			if got := m.Count("danger"); got != i {
				t.Errorf("danger ran %d times", got)
			}
			person.decide(ap)
			select {
			case r := <-open:
				if r.Status != api.StatusSuccess || string(r.Result) != pmltest.Quote(t, person.name) || r.WorkflowID != ap.RunID {
					t.Errorf("%s: the agent got %+v", person.name, r)
				}
			case <-time.After(pmltest.Patience):
				t.Fatalf("%s: the agent's call never ended", person.name)
			}
			if w := agent.Workflow(ap.RunID); len(w.Approvals) != 1 || w.Approvals[0].DecidedBy == nil || string(w.Approvals[0].DecidedBy.Via) != person.name {
				t.Errorf("%s: decided by %+v", person.name, w.Approvals)
			}
		}
	})
}

// TestServerScenario35_Latency: how long after a decision in another process
// or over HTTP the call starts in the server that runs it.
//
// Scenario 35.
func TestServerScenario35_Latency(t *testing.T) {
	t.Parallel()
	const n = 21
	onStores(t, pmltest.AllowRec(), func(t *testing.T, m *pmltest.Machine) {
		m.Serving()
		c := m.Caller("")
		r := c.Execute(api.ExecuteBody{Code: fmt.Sprintf(`
			const r = await mcp.rec.list({n: %d});
			return (await Promise.all(r.map(i => mcp.rec.danger({x: String(i)})))).length`, n)})
		list := c.Approvals("")
		if len(list) != n {
			t.Fatalf("%d approvals: %+v", len(list), r)
		}
		waits := map[string][]time.Duration{}
		for i, ap := range list {
			var decided *core.DecidedBy
			how := "HTTP"
			if i%5 == 4 {
				how = "process"
				decided = m.JSON(8, "continue", string(ap.RunID), "--approve", "--checkpoint", string(ap.ID)).Decided
			} else {
				decided = c.Post("/workflows/"+string(ap.RunID)+"/approvals/"+string(ap.ID), map[string]any{"approved": true}).Result().Decided
			}
			if decided == nil {
				t.Fatal("nobody decided")
			}
			pmltest.WaitFor(t, "the call runs", func() bool { return m.Count("danger") == i+1 })
			last := slices.IndexFunc(m.Entries(), func(e pmltest.LogEntry) bool {
				return e.Event == "start" && strings.Contains(string(ap.Context), string(e.Args))
			})
			if last < 0 {
				t.Fatalf("no call of %s", ap.Context)
			}
			waits[how] = append(waits[how], m.Entries()[last].At.Sub(decided.At))
		}
		for how, w := range waits {
			slices.Sort(w)
			t.Logf("decision committed to call started, %s: p50 %s, max %s of %d", how, w[len(w)/2], w[len(w)-1], len(w))
		}
		pmltest.WaitFor(t, "the run is complete", func() bool { return c.Workflow(r.WorkflowID).State == core.RunComplete })
		var result json.RawMessage
		c.Get("/workflows/" + string(r.WorkflowID) + "/result").Want(200).Decode(&result)
		if !strings.Contains(string(result), strconv.Itoa(n)) || m.Count("danger") != n {
			t.Errorf("result %s, danger ran %d times", result, m.Count("danger"))
		}
	})
}
