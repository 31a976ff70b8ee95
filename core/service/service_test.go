package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

func TestMain(m *testing.M) {
	enginetest.Child()
	if len(os.Args) >= 2 && os.Args[1] == mcpArg {
		os.Exit(mcpMain(os.Args[2:]))
	}
	skiptest.Overlap()
	skiptest.InMemory()
	os.Exit(m.Run())
}

// hung is longer than anything takes on the busiest machine with the slowest disk.
const hung = 5 * time.Minute

// clock goes with the world until it is told to stand, and can be put forward.
type clock struct {
	mu    sync.Mutex
	more  time.Duration
	since time.Time // when it began to stand
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		return c.since.Add(c.more)
	}
	return time.Now().Add(c.more)
}

// stand stops the clock: from then on nothing but forward moves it.
func (c *clock) stand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Now()
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more += d
}

func newID() core.ID { return core.ID(uuid.NewString()) }

var me = core.Actor{Who: "me", Via: core.ViaCLI}

// machine is a home and a workspace; clients come and go upon it.
type machine struct {
	t        *testing.T
	ws, home string
	clock    *clock
	environ  map[string]string
	models   service.Models
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, ws: filepath.Join(root, "ws"), home: filepath.Join(root, "home"), clock: &clock{}, environ: map[string]string{}}
	for _, dir := range []string{m.ws, m.home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.write("a.txt", "hello")
	return m
}

// shortHome gives the machine a home whose path leaves room for that of a socket.
func (m *machine) shortHome() {
	m.t.Helper()
	dir, err := os.MkdirTemp("", "pml")
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m.home = dir
}

func (m *machine) write(name, content string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.ws, name), []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// What a client has beside runs.
type (
	servers   = api.Servers
	packages  = api.Packages
	folder    = api.Workspace
	changes   = api.Changes
	pins      = api.PinSetup
	hostFiles = api.Hosts
	doctor    = api.Doctor

	permissions = api.Permissions
	models      = api.Models
)

// client is one process of pml.
type client struct {
	*service.Service
	servers
	packages
	folder
	changes
	pins
	hostFiles
	doctor
	permissions
	models
	t     *testing.T
	store store.Store
	close func()
}

// newClient is a process, or what a scope sees of one.
func newClient(t *testing.T, s *service.Service, st store.Store) *client {
	set := s.Setup
	return &client{
		Service: s, servers: set.Servers, packages: set.Servers, folder: set.Workspace, changes: set.Workspace, pins: set.Pin,
		hostFiles: set.Hosts, doctor: set.Doctor, permissions: set.Permissions, models: set.Models, t: t, store: st,
	}
}

func (m *machine) client() *client {
	m.t.Helper()
	return m.clientOn(func(s store.Store) store.Store { return s })
}

// clientOn is a client with something between it and its store.
func (m *machine) clientOn(wrap func(store.Store) store.Store) *client {
	m.t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: m.home, Clock: m.clock, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		m.t.Fatal(err)
	}
	environ := func(name string) (string, bool) { v, ok := m.environ[name]; return v, ok }
	st := wrap(s)
	c := newClient(m.t, service.Open(service.Options{
		Home: env.Home{Dir: m.home}, Workspace: env.Workspace{Dir: m.ws, Source: "cwd"}, Environ: environ, Store: st,
		Sandbox: sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand(), Warm: -1, Reuse: true, Limits: sandbox.Limits{CPU: hung}}), Clock: m.clock, NewID: newID,
		Hooks:    sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand(), Warm: 1, Limits: hook.Limits()}),
		LookPath: func(name string) (string, error) { return "", errors.New("no " + name) },
		Logger:   slog.New(slog.DiscardHandler), Version: "test", By: me, Models: m.models,
	}), st)
	var once sync.Once
	c.close = func() {
		once.Do(func() {
			if err := c.Close(); err != nil {
				m.t.Error(err)
			}
		})
	}
	m.t.Cleanup(c.close)
	return c
}

func (c *client) ctx() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), hung)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *client) execute(code string, want api.Status) api.Result {
	c.t.Helper()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: code, By: me, Wait: -1})
	if err != nil || r.Status != want {
		c.t.Fatalf("%v %+v, want %s", err, r, want)
	}
	return r
}

func (c *client) decide(id core.ID, d api.Decision) (api.Result, error) {
	return c.Continue(c.ctx(), api.ContinueRequest{ID: id, Decision: &d, By: me, Wait: -1})
}

func code(t *testing.T, err error, want core.Code) *core.Error {
	t.Helper()
	if core.CodeOf(err) != want {
		t.Fatalf("%s %v, want %s", core.CodeOf(err), err, want)
	}
	return core.AsError(err)
}

const writes = `const v = await mcp.workspace.read_file({path: "a.txt"}); await mcp.workspace.write_file({path: "b.txt", content: v.content}); return "done";`

func TestResolve(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	_, _, err := c.Resolve(c.ctx(), "@latest")
	code(t, err, core.CodeNotFound)
	a := c.execute(`return 1`, api.StatusSuccess)
	b := c.execute(writes, api.StatusApprovalRequired)
	for text, want := range map[string][2]core.ID{
		"@latest": {b.WorkflowID, ""}, string(a.WorkflowID): {a.WorkflowID, ""}, string(a.WorkflowID[:6]): {a.WorkflowID, ""},
		strings.ToUpper(string(a.WorkflowID[:9])): {a.WorkflowID, ""}, string(b.CheckpointID[:8]): {b.WorkflowID, b.CheckpointID},
	} {
		id, ap, err := c.Resolve(c.ctx(), text)
		if err != nil || id != want[0] || ap != want[1] {
			t.Errorf("%s: %s %s %v", text, id, ap, err)
		}
	}
	// What runs in another workspace is not the newest of this one.
	there, err := c.In(api.Scope{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = there.Resolve(c.ctx(), "@latest")
	code(t, err, core.CodeNotFound)
	x, err := there.Execute(c.ctx(), api.ExecuteRequest{Code: "return 1", By: me, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[interface {
		Resolve(ctx context.Context, text string) (core.ID, core.ID, error)
	}]core.ID{c: b.WorkflowID, there: x.WorkflowID} {
		if id, _, err := at.Resolve(c.ctx(), "@latest"); err != nil || id != want {
			t.Errorf("@latest: %s %v, want %s", id, err, want)
		}
	}
	for _, text := range []string{"", "abc", "ffffffff-0000", "../../etc/passwd", "\x1b[31m red"} {
		_, _, err := c.Resolve(c.ctx(), text)
		if e := code(t, err, core.CodeNotFound); strings.Contains(e.Message, "\x1b") {
			t.Errorf("%q", e.Message)
		}
	}
	now := time.Now()
	for _, id := range []core.ID{"abcd0000-0000-4000-8000-000000000001", "abcd0000-0000-4000-8000-000000000002"} {
		run := core.Run{ID: id, Kind: core.KindCode, State: core.RunRunning, CreatedAt: now, UpdatedAt: now}
		if err := c.store.Commit(c.ctx(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = c.Resolve(c.ctx(), "abcd")
	if e := code(t, err, core.CodeNotFound); !strings.Contains(e.Message, "2 ids") {
		t.Error(e.Message)
	}
}

// Scenarios 1 and 2: unknown, expired and used ids, and approvals of another
// run, are different errors; nothing runs.
func TestContinue_Errors(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	other := c.execute(writes, api.StatusApprovalRequired)
	done := c.execute(`return 1`, api.StatusSuccess)
	yes := api.Decision{Approve: true}

	_, err := c.decide(newID(), yes)
	code(t, err, core.CodeNotFound)
	_, err = c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: other.CheckpointID})
	code(t, err, core.CodeNotFound)
	_, err = c.decide(r.WorkflowID, api.Decision{Approve: true, ExpectDigest: "sha256:other"})
	code(t, err, core.CodeDigestMismatch)
	_, err = c.decide(r.WorkflowID, api.Decision{Approve: true, AllOfType: core.ApproveDependency})
	code(t, err, core.CodeNotWaiting)
	_, err = c.decide(r.WorkflowID, api.Decision{Approve: true, AllOfType: core.ApproveIntegrity})
	code(t, err, core.CodeInvalidArguments)
	_, err = c.decide(done.WorkflowID, yes)
	code(t, err, core.CodeNotWaiting)
	if _, err := os.Stat(filepath.Join(m.ws, "b.txt")); err == nil {
		t.Fatal("it was written")
	}

	m.clock.forward(10 * time.Minute)
	// Scenario 12: continue without a decision asks again.
	again, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1})
	if err != nil || again.Status != api.StatusApprovalRequired || again.CheckpointID == r.CheckpointID || again.Digest != r.Digest {
		t.Fatalf("%v %+v", err, again)
	}
	got, err := c.decide(r.WorkflowID, yes)
	if err != nil || got.Status != api.StatusComplete || string(got.Result) != `"done"` {
		t.Fatalf("%v %+v", err, got)
	}
	_, err = c.decide(r.WorkflowID, yes)
	if e := code(t, err, core.CodeAlreadyDecided); e.Decided == nil || e.Decided.Who != "me" {
		t.Errorf("%+v", e)
	}
	m.clock.forward(48 * time.Hour)
	_, err = c.decide(other.WorkflowID, yes)
	code(t, err, core.CodeWorkflowExpired)
}

// Scenario 6: the process that asked is gone; another one lists, decides and
// goes on. Scenario 34: without a decision it asks the same question.
func TestContinue_InAnotherProcess(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.client()
	r := first.execute(writes, api.StatusApprovalRequired)
	first.close()
	second := m.client()
	list, err := second.Approvals(second.ctx(), false)
	if err != nil || len(list) != 1 || list[0].ID != r.CheckpointID {
		t.Fatalf("%v %+v", err, list)
	}
	same, err := second.Continue(second.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1})
	if err != nil || same.CheckpointID != r.CheckpointID {
		t.Fatalf("%v %+v", err, same)
	}
	got, err := second.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || got.Status != api.StatusComplete || got.ReplayedCalls != 1 {
		t.Fatalf("%v %+v", err, got)
	}
}

// Scenario 35: the process that asked lives and goes on; who decides gets the
// result too.
func TestContinue_WhileItsProcessLives(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first, second := m.client(), m.client()
	r := first.execute(writes, api.StatusApprovalRequired)
	got, err := second.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || got.Status != api.StatusComplete || string(got.Result) != `"done"` {
		t.Fatalf("%v %+v", err, got)
	}
}

func TestDeny(t *testing.T) {
	t.Parallel()
	for name, abort := range map[string]bool{"Rejects": false, "Aborts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newMachine(t).client()
			r := c.execute(`try { await mcp.workspace.write_file({path: "b", content: ""}) } catch (e) { return e.code }`, api.StatusApprovalRequired)
			got, err := c.decide(r.WorkflowID, api.Decision{Abort: abort, Reason: "no"})
			want := map[bool]api.Status{false: api.StatusComplete, true: api.StatusAborted}[abort]
			if err != nil || got.Status != want || !abort && string(got.Result) != `"denied"` {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
}

func TestWorkflows_PagesAndStates(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	var want []core.ID
	for range 5 {
		want = append([]core.ID{c.execute(`return 1`, api.StatusSuccess).WorkflowID}, want...)
	}
	var got []core.ID
	for cursor, pages := "", 0; ; pages++ {
		page, err := c.Workflows(c.ctx(), nil, 2, cursor)
		if err != nil || pages > 3 {
			t.Fatal(pages, err)
		}
		for _, run := range page.Items {
			got = append(got, run.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	waiting := c.execute(writes, api.StatusApprovalRequired).WorkflowID
	gone := core.Run{ID: newID(), Kind: core.KindCode, State: core.RunRunning, Runner: "dead", CreatedAt: m.clock.Now(), UpdatedAt: m.clock.Now()}
	if err := c.store.Commit(c.ctx(), store.Step{Run: gone, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	c.states(core.RunInterrupted, gone.ID)
	c.states(core.RunWaiting, waiting)
	c.states(core.RunRunning)
	m.clock.forward(25 * time.Hour)
	c.states(core.RunExpired, waiting)
	if n, err := c.Prune(c.ctx(), m.clock.Now().Add(-time.Hour)); err != nil || n < 5 {
		t.Errorf("pruned %d, %v", n, err)
	}
	if err := c.RemoveWorkflows(c.ctx(), gone.ID); core.CodeOf(err) != core.CodeNotWaiting {
		t.Errorf("a run that has not ended was removed: %v", err)
	}
}

func (c *client) states(state core.RunState, want ...core.ID) {
	c.t.Helper()
	page, err := c.Workflows(c.ctx(), []core.RunState{state}, 1, "")
	var got []core.ID
	for _, run := range page.Items {
		got = append(got, run.ID)
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		c.t.Errorf("%s: %v %s", state, err, diff)
	}
}

func TestExtendAndRenew(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	_, err := c.Extend(c.ctx(), r.CheckpointID, -time.Second)
	code(t, err, core.CodeInvalidArguments)
	ap, err := c.Extend(c.ctx(), r.CheckpointID, time.Hour)
	if err != nil || ap.ExpiresAt == nil || ap.ExpiresAt.Sub(*r.ExpiresAt) != time.Hour {
		t.Errorf("%v %+v", err, ap)
	}
	m.clock.forward(2 * time.Hour)
	ap, err = c.Renew(c.ctx(), r.CheckpointID, me)
	if err != nil || ap.ID == r.CheckpointID || ap.Digest != r.Digest {
		t.Errorf("%v %+v", err, ap)
	}
	if old, err := c.Approval(c.ctx(), r.CheckpointID); err != nil || old.State != core.ApprovalExpired || old.RenewedBy != ap.ID {
		t.Errorf("%v %+v", err, old)
	}
}

func TestEvents_Follow(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	enough := errors.New("enough")
	types := make(chan core.EventType, 64)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Events(c.ctx(), "", api.Since{}, true, func(e core.Event) error {
			types <- e.Type
			if e.Type == core.EventWorkflowComplete {
				return enough
			}
			return nil
		})
	}()
	c.execute(`await mcp.workspace.stat({path: "a.txt"}); console.log("hi"); return 1`, api.StatusSuccess)
	if err := <-ended; !errors.Is(err, enough) {
		t.Fatal(err)
	}
	close(types)
	var got []core.EventType
	for e := range types {
		got = append(got, e)
	}
	if got[0] != core.EventWorkflowStart || got[len(got)-1] != core.EventWorkflowComplete || len(got) < 5 {
		t.Errorf("%v", got)
	}
}

func TestCallTool(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	r, err := c.CallTool(c.ctx(), "workspace:read_file", json.RawMessage(`{"path":"a.txt"}`), me, -1)
	if err != nil || r.Status != api.StatusSuccess || !strings.Contains(string(r.Result), "hello") {
		t.Fatalf("%v %+v", err, r)
	}
	// What looks like a reference is text: a single task has nothing to refer to.
	r, err = c.CallTool(c.ctx(), "workspace:search", json.RawMessage(`{"query":"$call ${call}"}`), me, -1)
	if err != nil || r.Status != api.StatusSuccess {
		t.Errorf("%v %+v", err, r)
	}
	r, err = c.CallTool(c.ctx(), "workspace:raed_file", nil, me, -1)
	if err == nil && r.Status != api.StatusError {
		t.Errorf("%+v", r)
	}
	r, err = c.CallTool(c.ctx(), "workspace:write_file", json.RawMessage(`{"path":"x","content":""}`), me, -1)
	if err != nil || r.Status != api.StatusApprovalRequired {
		t.Errorf("%v %+v", err, r)
	}
}

// One idempotency key is one run.
func TestExecute_IdempotencyKey(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	var ids []core.ID
	for range 2 {
		r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: `return await mcp.workspace.stat({path: "a.txt"})`, By: me, Wait: -1, IdempotencyKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.WorkflowID)
	}
	if ids[0] != ids[1] {
		t.Error(ids)
	}
}

// Wait ends the waiting, never the run.
func TestExecute_Wait(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: `await new Promise((r) => setTimeout(r, 100)); return 7`, By: me})
	if err != nil || r.Status != api.StatusRunning {
		t.Fatalf("%v %+v", err, r)
	}
	r, err = c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusComplete || string(r.Result) != "7" {
		t.Errorf("%v %+v", err, r)
	}
}
