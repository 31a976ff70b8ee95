package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// fakeServer is a server from outside.
type fakeServer struct {
	state *app.ServerState
	keys  []app.ServerKey
	asked app.OpenOptions
}

func (f *fakeServer) Status(context.Context) (*app.ServerState, error) { return f.state, nil }

func (f *fakeServer) Stop(context.Context) (*app.ServerState, error) {
	st := f.state
	f.state = nil
	return st, nil
}

func (f *fakeServer) AddKey(_ context.Context, name string) (string, error) {
	f.keys = append(f.keys, app.ServerKey{Name: name, CreatedAt: at})
	return "pml_secret", nil
}

func (f *fakeServer) Keys(context.Context) ([]app.ServerKey, error) { return f.keys, nil }

func (f *fakeServer) RemoveKey(_ context.Context, name string) error {
	if len(f.keys) == 0 || f.keys[0].Name != name {
		return core.Errorf(core.CodeNotFound, "no key is named %s", name)
	}
	f.keys = f.keys[1:]
	return nil
}

func (s *shell) localServer(o app.OpenOptions) (app.LocalServer, error) {
	if s.server == nil {
		s.server = &fakeServer{}
	}
	s.server.asked = o
	return s.server, nil
}

func (s *shell) serve(_ context.Context, o app.ServeOptions) error {
	if o.Ready != nil {
		o.Ready([]string{"unix:///h/pml.sock"})
	}
	o.Ready = nil
	s.served = o
	return nil
}

func runningState() *app.ServerState {
	return &app.ServerState{ServerStatus: api.ServerStatus{
		Version: "v1.2.3", Protocol: 1, PID: 4711, StartedAt: at.Add(-90 * time.Second), Socket: "/h/pml.sock", Store: "bbolt",
		Background: true, Running: 2, Waiting: 3, Approvals: 4,
	}, Warning: "older than\x1b[2J this"}
}

func TestServer_Status(t *testing.T) {
	t.Parallel()
	s := (&shell{}).run("server", "status", "--home", "/h").want(t, 5).has(t, "out", "no server runs")
	if s.server.asked.Home != "/h" || s.opened != 0 {
		t.Errorf("asked %+v, opened %d times", s.server.asked, s.opened)
	}
	(&shell{}).run("server", "status", "--json").want(t, 5).has(t, "out", `"running": false`)
	s = (&shell{server: &fakeServer{state: runningState()}}).run("server", "status").want(t, 0)
	want := `server     process 4711, in the background
version    v1.2.3
started    2026-03-01T11:58:30Z (1m30s ago)
socket     /h/pml.sock
store      bbolt
runs       2 running, 3 waiting
approvals  4 waiting
readers    0 (programs that read its events now, such as pml tui)
warning    older than\x1b[2J this
`
	if diff := cmp.Diff(want, s.out); diff != "" {
		t.Error(diff)
	}
	s = (&shell{server: &fakeServer{state: runningState()}}).run("server", "status", "--json").want(t, 0)
	want = `{
  "running": true,
  "server": {
    "version": "v1.2.3",
    "protocol": 1,
    "pid": 4711,
    "started_at": "2026-03-01T11:58:30Z",
    "socket": "/h/pml.sock",
    "store": "bbolt",
    "background": true,
    "running": 2,
    "waiting": 3,
    "approvals": 4,
    "readers": 0,
    "warning": "older than\u001b[2J this"
  }
}
`
	if diff := cmp.Diff(want, s.out); diff != "" {
		t.Error(diff)
	}
}

func TestServer_Stop(t *testing.T) {
	t.Parallel()
	s := &shell{server: &fakeServer{state: runningState()}}
	s.run("server", "stop").want(t, 0).has(t, "out", "stopped (process 4711)", "2 running and 3 waiting runs are kept")
	s.run("server", "stop").want(t, 0).has(t, "out", "no server runs")
	s.run("server", "stop", "--json").want(t, 0).has(t, "out", `"stopped": false`)
}

func TestServer_Keys(t *testing.T) {
	t.Parallel()
	s := &shell{server: &fakeServer{}}
	s.run("server", "key", "ls").want(t, 0).has(t, "err", "no keys")
	s.run("server", "key", "add", "ci").want(t, 0)
	if s.out != "pml_secret\n" {
		t.Errorf("the key alone belongs on stdout: %q", s.out)
	}
	s.run("server", "key", "ls").want(t, 0).has(t, "out", "ci", "2026-03-01T12:00:00Z")
	if strings.Contains(s.out, "pml_secret") {
		t.Error("the list shows a key")
	}
	s.run("server", "key", "rm", "other").want(t, 3).has(t, "err", "next: pml server key ls")
	s.run("server", "key").want(t, 0).has(t, "out", "ci", "2026-03-01T12:00:00Z") // a group lists by itself
	s.run("__complete", "server", "key", "rm", "").want(t, 0).has(t, "out", "ci\n")
	s.run("server", "key", "rm", "ci").want(t, 0).has(t, "out", "removed ci")
}

func TestServe_Options(t *testing.T) {
	t.Parallel()
	s := &shell{env: map[string]string{"PML_LOG": "debug", "PML_STORE": "postgres://env"}}
	s.run("serve", "--home", "/h", "--listen", "unix:///run/pml.sock", "--listen", "127.0.0.1:7465", "--idle", "10m",
		"--allow-host", "a,b", "--allow-origin", "https://c", "--allow-metrics", "prom", "--log-format", "json", "--ready-fd", "3").
		want(t, 0)
	if s.err != "" {
		t.Errorf("in the background nobody reads %q", s.err)
	}
	want := app.ServeOptions{
		Home: "/h", Log: "debug", Socket: "/run/pml.sock", TCP: "127.0.0.1:7465", Store: "postgres://env", Idle: 10 * time.Minute,
		Hosts: []string{"a", "b"}, Origins: []string{"https://c"}, Metrics: []string{"prom"}, JSONLog: true, ReadyFD: 3,
	}
	if diff := cmp.Diff(want, s.served); diff != "" {
		t.Error(diff)
	}
	s.run("serve", "--store", "postgres://flag").want(t, 0).has(t, "err", "listening on unix:///h/pml.sock")
	if s.served.Store != "postgres://flag" {
		t.Errorf("the flag does not beat the environment: %q", s.served.Store)
	}
}

// TestFlags_Empty: an unset variable of a shell is no choice.
func TestFlags_Empty(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"wf", "ls", "--server", ""}, {"server", "status", "--server="}, {"serve", "--listen", ""}, {"serve", "--listen=,127.0.0.1:1"},
		{"serve", "--allow-host", ""}, {"serve", "--allow-metrics", ""}, {"events", "--since", ""},
	} {
		if s := (&shell{}).run(args...).want(t, 2).has(t, "err", " is empty"); s.opened != 0 || s.served.TCP != "" {
			t.Errorf("%q opened something", args)
		}
	}
}

// TestWarnings_ForPrograms: each reaches standard error once, where no list has it.
func TestWarnings_ForPrograms(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"events", "--json"}, {"events", "-o", "jsonl"}, {"wf", "watch", "@latest", "--json"}, {"execute", "--code", "x", "--json"},
		{"wf", "show", "@latest", "--json"}, {"approvals", "show", "41d2", "--json"}, {"wf", "prune", "--older-than", "1h", "--json"},
	} {
		s := (&shell{fake: &fake{workflow: core.Workflow{Run: core.Run{ID: runA, State: core.RunComplete}}, pending: []core.Approval{dependency()}}, gap: "it does not\nanswer"}).run(args...)
		if strings.Count(s.err, `{"warning":"it does not\nanswer"}`+"\n") != 1 {
			t.Errorf("%q: exit %d, stderr %q", args, s.code, s.err)
		}
	}
	s := (&shell{gap: "it does not answer"}).run("wf", "ls", "--json").want(t, 0).has(t, "out", "it does not answer")
	if s.err != "" {
		t.Errorf("said twice: %q", s.err)
	}
	(&shell{gap: "it does not answer"}).run("wf", "show", "@latest", "-o", "yaml").want(t, 0).has(t, "err", "warning: it does not answer\n")
	// Who follows reads it while it happens.
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s = &shell{ctx: ctx, gap: "it is away", heard: func(stderr string) {
		if stderr != `{"warning":"it is away"}`+"\n" {
			t.Errorf("stderr by then: %q", stderr)
		}
		cancel(app.Signal{Code: 130})
	}}
	s.run("events", "--follow", "--json").want(t, 130)
}

func TestEvents_Since(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]api.Since{
		"7": {Any: 7}, "client:12,server:340": {Client: 12, Server: 340}, "server:5": {Server: 5}, "0": {},
	} {
		f := &fake{}
		(&shell{fake: f}).run("events", "--since", text).want(t, 0)
		if f.since != want {
			t.Errorf("%s is %+v", text, f.since)
		}
	}
	for _, text := range []string{"-1", "x", "client", "client:", "client:x", "client:-1", "home:1", "client:1,client:2", "1,2", "client:1,2", "client:1,"} {
		(&shell{}).run("events", "--since", text).want(t, 2).has(t, "err", "client:N,server:N")
	}
}

// TestExecute_DetachAgain: with the key of a run that was started before, its id
// is printed, whatever has become of it.
func TestExecute_DetachAgain(t *testing.T) {
	t.Parallel()
	for _, r := range []api.Result{
		{Status: api.StatusComplete, WorkflowID: runA, Result: json.RawMessage(`"done"`)},
		{Status: api.StatusError, WorkflowID: runA, Error: "broken", ErrorCode: core.CodeScript},
		{Status: api.StatusAborted, WorkflowID: runA},
	} {
		args := []string{"execute", "--code", "x", "--detach", "--idempotency-key", "k"}
		s := (&shell{fake: &fake{results: []api.Result{r}}}).run(args...).want(t, 0).has(t, "err", "pml workflows show 7f3a91c2")
		if s.out != string(runA)+"\n" {
			t.Errorf("%s: stdout %q", r.Status, s.out)
		}
		(&shell{fake: &fake{results: []api.Result{r}}}).run(append(args, "--json")...).want(t, 0).has(t, "out", `"workflow_id": "`+string(runA))
	}
	s := (&shell{}).run("execute", "--code", "x", "--detach", "--wait", "5s").want(t, 0)
	if s.out != "done\n" {
		t.Errorf("with --wait the result is wanted: %q", s.out)
	}
	s = (&shell{fake: &fake{results: []api.Result{waiting(permission(core.RiskLow))}}}).run("execute", "--code", "x", "--detach").want(t, 8)
	if s.out != string(runA)+"\n" {
		t.Errorf("stdout %q", s.out)
	}
	(&shell{fake: &fake{results: []api.Result{{Status: api.StatusError, Error: "no", ErrorCode: core.CodeDAGInvalid}}}}).
		run("execute", "--code", "x", "--detach").want(t, 13)
}

func TestExecute_Detach(t *testing.T) {
	t.Parallel()
	running := api.Result{Status: api.StatusRunning, WorkflowID: runA}
	s := (&shell{tty: true, fake: &fake{results: []api.Result{running}}}).run("execute", "--code", "x", "--detach").want(t, 0)
	if s.out != string(runA)+"\n" {
		t.Errorf("stdout %q", s.out)
	}
	s.has(t, "err", "pml workflows watch 7f3a91c2")
	if r := s.fake.executed[0]; !r.Detach || r.Wait != 0 || r.HoldApprovals {
		t.Errorf("request %+v", r)
	}
	(&shell{fake: &fake{results: []api.Result{running}}}).run("execute", "--code", "x", "--detach", "--json").want(t, 0).has(t, "out", `"status": "running"`)
	// With --wait the result is waited for, and a wait that is over says so.
	s = (&shell{fake: &fake{results: []api.Result{running}}}).run("execute", "--code", "x", "--detach", "--wait", "5s").want(t, 124)
	if s.fake.executed[0].Wait != 5*time.Second {
		t.Errorf("wait %s", s.fake.executed[0].Wait)
	}
	s = (&shell{fake: &fake{results: []api.Result{waiting(permission(core.RiskLow))}}}).run("execute", "--code", "x", "--detach").want(t, 8)
	s.has(t, "err", "pml continue 7f3a91c2 --approve")
}

func suggestions(missing ...api.MissingArgument) api.Result {
	return api.Result{Status: api.StatusSuggestions, Suggestions: &api.Suggestions{
		Confidence: 0.82,
		SuggestedDAG: &api.SuggestedDAG{Tasks: []core.TaskSpec{
			{ID: "t1", Tool: "fs:list", Arguments: json.RawMessage(`{"path": "."}`)},
			{ID: "t2", Tool: "fs:read", Arguments: json.RawMessage(`{"path":"$t1[0]"}`), DependsOn: []string{"t1"}},
		}, Missing: missing},
		Tools: []api.SuggestedTool{
			{CallName: "fs:list", Score: 0.82, Description: "List\x1b[2J files\nmore"}, {CallName: "fs:read", Score: 0.5, Description: "Read a file"},
		},
	}}
}

func TestExecute_Intent(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: &fake{results: []api.Result{suggestions(api.MissingArgument{TaskID: "t2", Argument: "encoding"})}}}).
		run("execute", "--intent", "list files").want(t, 0)
	want := `confidence 0.82
  0.82  fs:list  List\x1b[2J files
  0.50  fs:read  Read a file
DAG
  t1  fs:list  {"path":"."}
  t2  fs:read  {"path":"$t1[0]"}  after t1
missing: encoding of t2
`
	if diff := cmp.Diff(want, s.out); diff != "" {
		t.Error(diff)
	}
	s.has(t, "err", "--accept fs:list --args JSON")
	if r := s.fake.executed[0]; r.Intent != "list files" || r.Code != "" || r.Accept != nil {
		t.Errorf("request %+v", r)
	}
	(&shell{fake: &fake{results: []api.Result{suggestions()}}}).run("execute", "--intent", "x").want(t, 0).has(t, "err", "adding --accept")
	(&shell{fake: &fake{results: []api.Result{{Status: api.StatusSuggestions}}}}).run("execute", "--intent", "x").want(t, 0).has(t, "err", "no tool fits")
}

func TestExecute_Accept(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: &fake{results: []api.Result{suggestions()}}}).run("execute", "--intent", "x", "--accept", "--input", "7").want(t, 0)
	if n := len(s.fake.executed); n != 2 {
		t.Fatalf("%d requests", n)
	}
	got := s.fake.executed[1]
	if got.Accept == nil || got.Accept.Workflow == nil || len(got.Accept.Workflow.Tasks) != 2 || got.Intent != "x" || string(got.Input) != "7" {
		t.Errorf("request %+v", got)
	}
	for _, args := range [][]string{{"--accept", "fs:read"}, {"--accept=fs:read"}} {
		s = (&shell{}).run(append([]string{"execute", "--intent", "x", "--args", `{"path":"a"}`}, args...)...).want(t, 0)
		want := &api.Acceptance{CallName: "fs:read", Args: json.RawMessage(`{"path":"a"}`)}
		if diff := cmp.Diff(want, s.fake.executed[0].Accept); diff != "" {
			t.Error(diff)
		}
	}
	s = (&shell{fake: &fake{results: []api.Result{suggestions(api.MissingArgument{TaskID: "t2", Argument: "path"})}}}).
		run("execute", "--intent", "x", "--accept").want(t, 2).has(t, "err", "lacks t2.path")
	if len(s.fake.executed) != 1 {
		t.Error("an incomplete DAG was run")
	}
	(&shell{fake: &fake{results: []api.Result{{Status: api.StatusSuggestions}}}}).run("execute", "--intent", "x", "--accept").
		want(t, 2).has(t, "err", "no DAG is suggested")
}

func TestReplan_Requirement(t *testing.T) {
	t.Parallel()
	s := (&shell{}).run("replan", "7f3a91c2", "--requirement", "read the log too").want(t, 0).has(t, "err", "1 new task")
	if s.fake.required != "read the log too" {
		t.Errorf("required %q", s.fake.required)
	}
}

func TestLists_BothSides(t *testing.T) {
	t.Parallel()
	f := &fake{warnings: []string{"the server does not answer"}, runs: []core.Run{{ID: runA, Side: core.SideServer, State: core.RunRunning}}}
	s := (&shell{fake: f}).run("wf", "ls", "-o", "wide").want(t, 0).has(t, "out", "SIDE", "server")
	s.has(t, "err", "warning: the server does not answer")
	if s = (&shell{fake: f}).run("wf", "ls", "--json").want(t, 0).has(t, "out", `"warnings"`); s.err != "" {
		t.Errorf("stderr %q", s.err)
	}
	(&shell{fake: f}).run("wf", "ls", "-o", "jsonl").want(t, 0).has(t, "err", `{"warning":"the server does not answer"}`)
	f.events = []core.Event{{Seq: 7, At: at, Type: core.EventWorkflowStart, RunID: runA, Side: core.SideServer, Message: "m"}}
	(&shell{fake: f}).run("events").want(t, 0).has(t, "out", "server  m")
}

// keys is key, as the help of pml server calls what it keeps.
func TestServer_KeysIsKey(t *testing.T) {
	t.Parallel()
	(&shell{}).run("server", "keys", "--help").want(t, 0).has(t, "out", "pml server key add ci", "Only hashes are kept")
}
