package tui

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// began is when the clocks of the tests begin.
var began = time.Date(2026, 11, 22, 14, 2, 31, 0, time.UTC)

const (
	runA core.ID = "7f3a91c2-0000-4000-8000-00000000000a"
	runB core.ID = "7f3a80f0-0000-4000-8000-00000000000b"
	askA core.ID = "a1000001-0000-4000-8000-00000000000a"
	askB core.ID = "a1000002-0000-4000-8000-00000000000b"
)

// fakeClock stands still until it is moved.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fakeClock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *fakeClock) move(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// fakeBackend answers as it is told and remembers what it was asked.
type fakeBackend struct {
	halts        []core.Halt
	feed.Backend // for what is not asked

	mu        sync.Mutex
	runs      []core.Run
	approvals []core.Approval
	events    chan core.Event // nil: none ever
	audit     []core.AuditRow
	continued []api.ContinueRequest
	written   []api.ChangeSet
	replanned [][]core.TaskSpec
	calls     []string

	onContinue func(api.ContinueRequest) (api.Result, error)
	onWrite    func(pin string) (bool, error)
	onReplan   func([]core.TaskSpec) (api.Result, error)
	err        error // of the calls that have no function
	rule       api.Rule
	needPin    bool
	keys       []string // that are found
}

func (b *fakeBackend) called(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, strings.Join(parts, " "))
}

func (b *fakeBackend) Workflows(context.Context, []core.RunState, int, string) (api.Page[core.Run], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return api.Page[core.Run]{Items: slices.Clone(b.runs)}, nil
}

func (b *fakeBackend) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		if r.ID == id {
			return core.Workflow{Run: r, Layers: []core.Layer{{Tasks: []core.Task{{ID: "draft", Tool: "gh:draft\x1b[2J", State: core.TaskSuccess}}}}}, nil
		}
	}
	return core.Workflow{}, core.Errorf(core.CodeNotFound, "there is no run %s", id)
}

func (b *fakeBackend) Approvals(context.Context, bool) ([]core.Approval, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.approvals), nil
}

func (b *fakeBackend) Events(ctx context.Context, _ core.ID, _ api.Since, _ bool, f func(core.Event) error) error {
	for {
		select {
		case e := <-b.events:
			if err := f(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *fakeBackend) Audit(_ context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []core.AuditRow
	for _, r := range b.audit {
		if r.Seq > q.Since.Of(r.Side) && len(out) < q.Limit {
			out = append(out, r)
		}
	}
	return out, b.err
}

func (b *fakeBackend) Continue(_ context.Context, req api.ContinueRequest) (api.Result, error) {
	b.mu.Lock()
	b.continued = append(b.continued, req)
	on, err := b.onContinue, b.err
	b.mu.Unlock()
	if on != nil {
		return on(req)
	}
	return api.Result{WorkflowID: req.ID, Status: api.StatusRunning}, err
}

func (b *fakeBackend) Retry(_ context.Context, id core.ID, by core.Actor, _ time.Duration) (api.Result, error) {
	b.called("retry", id.Short(), by.Who, string(by.Via))
	return api.Result{WorkflowID: id, Status: api.StatusRunning}, b.err
}

func (b *fakeBackend) Abort(_ context.Context, id core.ID, by core.Actor, reason string) (api.Result, error) {
	b.called("abort", id.Short(), by.Who, string(by.Via), reason)
	return api.Result{WorkflowID: id, Status: api.StatusAborted}, b.err
}

func (b *fakeBackend) Extend(_ context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	b.called("extend", id.Short(), by.String())
	until := began.Add(10 * time.Minute)
	return core.Approval{ID: id, RunID: runA, Tool: "std:fetch", State: core.ApprovalOpen, ExpiresAt: &until}, b.err
}

func (b *fakeBackend) Renew(_ context.Context, id core.ID, by core.Actor) (core.Approval, error) {
	b.called("renew", id.Short(), by.Who)
	return core.Approval{ID: askB, RunID: runA, Tool: "std:fetch", State: core.ApprovalOpen}, b.err
}

func (b *fakeBackend) ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error) {
	var doc struct {
		Tasks []core.TaskSpec
		Input json.RawMessage
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, core.Errorf(core.CodeDAGInvalid, "no JSON: %w", err)
	}
	return doc.Tasks, doc.Input, nil
}

func (b *fakeBackend) Replan(_ context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, _ string) (api.Result, error) {
	b.called("replan", id.Short(), string(by.Via))
	b.mu.Lock()
	b.replanned = append(b.replanned, tasks)
	on := b.onReplan
	b.mu.Unlock()
	if on != nil {
		return on(tasks)
	}
	return api.Result{WorkflowID: id, Status: api.StatusReplanned, NewTasksCount: len(tasks)}, nil
}

func (b *fakeBackend) RuleFor(_ context.Context, id core.ID) (api.Rule, error) {
	b.called("rule", id.Short())
	return b.rule, b.err
}

func (b *fakeBackend) Write(_ context.Context, set api.ChangeSet, keepTrust bool, pin string) (bool, error) {
	b.mu.Lock()
	b.written = append(b.written, set)
	on := b.onWrite
	b.mu.Unlock()
	if !keepTrust {
		return false, nil
	}
	if on != nil {
		return on(pin)
	}
	return true, nil
}

func (b *fakeBackend) KeysFound(_ context.Context, id core.ID) ([]string, error) {
	b.called("keys", id.Short())
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.keys), b.err
}

func (b *fakeBackend) ShowsPerson(context.Context) (bool, error) { return b.needPin, nil }

func (b *fakeBackend) NeedsPin(context.Context) (bool, error) { return b.needPin, nil }

// fakeFeed remembers what it was asked to read.
type fakeFeed struct {
	listens   core.ID
	touched   []core.ID
	wanted    [][]core.ID
	refreshed int
}

func (f *fakeFeed) Want(ids []core.ID) { f.wanted = append(f.wanted, ids) }
func (f *fakeFeed) Refresh()           { f.refreshed++ }
func (f *fakeFeed) Touch(id core.ID)   { f.touched = append(f.touched, id) }
func (f *fakeFeed) Listen(id core.ID)  { f.listens = id }

// harness drives a model without a terminal: commands run at once, ticks wait
// until they are let go.
type harness struct {
	t       *testing.T
	m       *model
	clock   *fakeClock
	backend *fakeBackend
	feed    *fakeFeed
	vars    map[string]string
	sent    []string // sequences
	ticks   []time.Duration
	quit    bool
	crashes []crash
	other   []tea.Msg // what is for the library
	edits   []string  // files that were edited, before they were
	hold    bool      // commands wait in held
	held    []tea.Cmd
}

func newHarness(t *testing.T, change func(*Options)) *harness {
	t.Helper()
	bindings, err := keys.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{
		t: t, clock: &fakeClock{now: began}, backend: &fakeBackend{}, feed: &fakeFeed{},
		vars: map[string]string{"TERM": "xterm-ghostty"},
	}
	o := Options{
		Backend: h.backend, Clock: h.clock, User: "ada", Version: "1.0.0", Workspace: "~/src/shop", Keys: bindings,
		Environ: func(name string) (string, bool) { v, ok := h.vars[name]; return v, ok },
		Palette: paint.Ansi, Profile: paint.Ansi16, Notify: NotifyOSC,
	}
	if change != nil {
		change(&o)
	}
	h.m = newModel(o, state.New(1000), h.feed)
	h.m.send = func(s string) {
		if s != "" {
			h.sent = append(h.sent, s)
		}
	}
	h.m.crashed = func(c crash) { h.crashes = append(h.crashes, c) }
	h.m.dir = t.TempDir()
	h.m.after = func(d time.Duration, _ tea.Msg) tea.Cmd { h.ticks = append(h.ticks, d); return nil }
	h.m.exec = func(c *exec.Cmd, done tea.ExecCallback) tea.Cmd {
		h.edits = append(h.edits, c.Args[len(c.Args)-1])
		return func() tea.Msg { return done(c.Run()) }
	}
	h.send(tea.WindowSizeMsg{Width: 160, Height: 45})
	return h
}

// send gives a message to the model, and what follows from it.
func (h *harness) send(msg tea.Msg) {
	h.t.Helper()
	queue := []tea.Msg{msg}
	for n := 0; len(queue) > 0; n++ {
		if n > 1000 {
			h.t.Fatal("the model does not come to rest")
		}
		_, cmd := h.m.Update(queue[0])
		queue = queue[1:]
		if h.hold && cmd != nil {
			h.held = append(h.held, cmd)
			continue
		}
		queue = append(queue, h.run(cmd)...)
	}
	h.m.View()
}

// release runs the commands that were held back.
func (h *harness) release() {
	h.t.Helper()
	h.hold = false
	held := h.held
	h.held = nil
	for _, cmd := range held {
		for _, msg := range h.run(cmd) {
			h.send(msg)
		}
	}
}

// run runs a command and returns the messages for the model.
func (h *harness) run(cmd tea.Cmd) []tea.Msg {
	if cmd == nil {
		return nil
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		var out []tea.Msg
		for _, c := range msg {
			out = append(out, h.run(c)...)
		}
		return out
	case tea.QuitMsg:
		h.quit = true
	case doneMsg, changeMsg, warningMsg, tickMsg:
		return []tea.Msg{msg}
	default:
		h.other = append(h.other, msg)
	}
	return nil
}

// want has the model carry an intent out.
func (h *harness) want(intents ...screen.Intent) {
	h.t.Helper()
	cmds := h.m.carryOut(intents, h.clock.Now())
	for _, cmd := range cmds {
		if h.hold {
			h.held = append(h.held, cmd)
			continue
		}
		for _, msg := range h.run(cmd) {
			h.send(msg)
		}
	}
}

// learn changes the state as the feed does.
func (h *harness) learn(f func(*state.State)) {
	h.t.Helper()
	h.send(changeMsg{f})
}

// tick lets time go on, with the tick that belongs to it.
func (h *harness) tick(d time.Duration) {
	h.t.Helper()
	h.clock.move(d)
	h.send(tickMsg{})
}

// shows fails unless a text is on the screen.
func (h *harness) shows(text string) {
	h.t.Helper()
	if got := h.m.screen.Plain(h.clock.Now()); !strings.Contains(got, text) {
		h.t.Errorf("%q is not on the screen:\n%s", text, got)
	}
}

// hides fails where a text is on the screen.
func (h *harness) hides(text string) {
	h.t.Helper()
	if got := h.m.screen.Plain(h.clock.Now()); strings.Contains(got, text) {
		h.t.Errorf("%q is on the screen:\n%s", text, got)
	}
}

func (h *harness) approval(ttl time.Duration) core.Approval {
	a := core.Approval{
		ID: askA, RunID: runA, Side: core.SideClient, Type: core.ApproveTool, Tool: "std:fetch", Subject: "c1", Risk: core.RiskLow,
		Digest: "sha256:77de90", State: core.ApprovalOpen, CreatedAt: h.clock.Now(), Context: json.RawMessage(`{"arguments":{}}`),
	}
	if ttl > 0 {
		until := h.clock.Now().Add(ttl)
		a.ExpiresAt = &until
	}
	return a
}

func (h *harness) run1(state core.RunState) core.Run {
	return core.Run{ID: runA, Side: core.SideClient, Kind: core.KindDAG, State: state, Intent: "checkout-sync", CreatedAt: began, UpdatedAt: began, Epoch: 1}
}

func (*fakeBackend) Edited(_ context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	return core.Approval{ID: id, Type: core.ApproveTool, Context: json.RawMessage(`{"arguments":` + string(args) + `}`), Digest: "edited"}, nil
}

func (b *fakeBackend) Halts(context.Context) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.halts), nil
}

func (b *fakeBackend) HaltCalls(_ context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halts = []core.Halt{{Side: core.SideClient, By: by, At: began, Reason: reason}}
	return slices.Clone(b.halts), nil
}

func (b *fakeBackend) ResumeCalls(_ context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if req.Presence == "" {
		return nil, core.Errorf(core.CodeAwaitingHuman, "only a person lets calls go on")
	}
	was := b.halts
	b.halts = nil
	return was, nil
}
