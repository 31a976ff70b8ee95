package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/route"
)

// half is one half of pml in memory; it is a Local and a Remote.
type half struct {
	name  string
	halts []core.Halt

	mu        sync.Mutex
	runs      []core.Run // newest first
	approvals []core.Approval
	events    []core.Event
	more      chan struct{}
	cut       chan struct{} // closed: streams break off
	calls     []string
	executed  []api.ExecuteRequest
	traces    map[core.ID]api.Trace
	down      error // of everything
	noTrace   error
	refuse    error // of execute
	maxTrace  int   // in bytes; 0: any
	plan      core.Plan
	answer    api.Result // of execute and the moves
	during    func()     // what happens while execute, continue and retry wait
	servers   []api.ServerInfo
	audit     []core.AuditRow
	report    api.AuditReport
	tools     []core.Tool
}

func newHalf(name string) *half {
	return &half{name: name, more: make(chan struct{}), cut: make(chan struct{}), traces: map[core.ID]api.Trace{}}
}

// side is what the rows and events of this half count as.
func (h *half) side() core.Side {
	if h.name == "remote" {
		return core.SideServer
	}
	return core.SideClient
}

func (h *half) call(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, fmt.Sprintf(format, args...))
	return h.down
}

// add keeps runs, newest first.
func (h *half) add(runs ...core.Run) {
	h.runs = append(h.runs, runs...)
	slices.SortFunc(h.runs, func(a, b core.Run) int {
		if n := b.CreatedAt.Compare(a.CreatedAt); n != 0 {
			return n
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
}

func (h *half) Resolve(_ context.Context, text string) (id, approval core.ID, err error) {
	if h.down != nil {
		return "", "", h.down
	}
	if text == "@latest" && len(h.runs) > 0 {
		return h.runs[0].ID, "", nil
	}
	var runs, aps []core.ID
	for _, r := range h.runs {
		if strings.HasPrefix(string(r.ID), text) {
			runs = append(runs, r.ID)
		}
	}
	for _, a := range h.approvals {
		if strings.HasPrefix(string(a.ID), text) {
			aps = append(aps, a.ID)
		}
	}
	switch {
	case len(runs) == 1 && len(aps) == 0:
		return runs[0], "", nil
	case len(runs) == 0 && len(aps) == 1:
		return "run-of-" + aps[0], aps[0], nil
	}
	e := core.Errorf(core.CodeNotFound, "%s has %d of %q", h.name, len(runs)+len(aps), text)
	e.Ambiguous = append(runs, aps...)
	return "", "", e
}

func (h *half) Workflows(_ context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	if h.down != nil {
		return api.Page[core.Run]{}, h.down
	}
	page := api.Page[core.Run]{Items: []core.Run{}}
	begun := cursor == ""
	for _, r := range h.runs {
		if !begun {
			begun = string(r.ID) == cursor
			continue
		}
		if len(states) > 0 && !slices.Contains(states, r.State) {
			continue
		}
		if limit > 0 && len(page.Items) == limit {
			page.Next = string(page.Items[limit-1].ID)
			break
		}
		page.Items = append(page.Items, r)
	}
	return page, nil
}

func (h *half) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	for _, r := range h.runs {
		if r.ID == id {
			return core.Workflow{Run: r}, h.down
		}
	}
	return core.Workflow{}, core.Errorf(core.CodeNotFound, "%s has no %s", h.name, id)
}

func (h *half) ExportRun(_ context.Context, id core.ID) (api.RunFile, error) {
	return api.RunFile{}, h.call("export %s", id)
}

func (h *half) Said(context.Context, core.ID, func(core.Event) error) error { return nil }

func (h *half) RemoveWorkflows(_ context.Context, ids ...core.ID) error {
	return h.call("remove %v", ids)
}

func (h *half) Execute(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
	err := h.call("execute")
	h.executed = append(h.executed, req)
	if h.refuse != nil {
		return api.Result{}, h.refuse
	}
	if _, e := h.Workflow(context.Background(), req.ID); req.ID != "" && err == nil && e != nil {
		h.add(core.Run{ID: req.ID, Origin: req.Origin, State: core.RunComplete})
	}
	if req.Started != nil && err == nil {
		req.Started(idRemote)
	}
	h.wait()
	return h.answer, err
}

func (h *half) Continue(_ context.Context, req api.ContinueRequest) (api.Result, error) {
	h.wait()
	return h.answer, h.call("continue %s", req.ID)
}

func (h *half) Retry(_ context.Context, id core.ID, _ core.Actor, _ time.Duration) (api.Result, error) {
	h.wait()
	return h.answer, h.call("retry %s", id)
}

func (h *half) Abort(_ context.Context, id core.ID, _ core.Actor, _ string) (api.Result, error) {
	return h.answer, h.call("abort %s", id)
}

func (h *half) Replan(_ context.Context, id core.ID, _ []core.TaskSpec, _ core.Actor, _ string) (api.Result, error) {
	return h.answer, h.call("replan %s", id)
}

func (h *half) ReplanFor(_ context.Context, id core.ID, _ string, _ json.RawMessage, _ core.Actor, _ string) (api.Result, error) {
	return h.answer, h.call("replan for %s", id)
}

func (h *half) Decidable(ctx context.Context) ([]core.Approval, error) { return h.Approvals(ctx, true) }

func (h *half) Approvals(context.Context, bool) ([]core.Approval, error) {
	return slices.Clone(h.approvals), h.down
}

func (h *half) Approval(_ context.Context, id core.ID) (core.Approval, error) {
	if h.down != nil {
		return core.Approval{}, h.down
	}
	for _, a := range h.approvals {
		if a.ID == id {
			return a, nil
		}
	}
	return core.Approval{}, core.Errorf(core.CodeNotFound, "%s has no approval %s", h.name, id)
}

func (h *half) KeysFound(ctx context.Context, id core.ID) ([]string, error) {
	a, err := h.Approval(ctx, id)
	if err != nil {
		return nil, err
	}
	return []string{"KEY_OF_" + a.Subject}, nil
}

func (h *half) KeysOf(_ context.Context, a core.Approval) ([]string, error) {
	return []string{h.name + "_KEY_OF_" + a.Subject}, nil
}

func (h *half) Extend(ctx context.Context, id core.ID, _ time.Duration) (core.Approval, error) {
	return h.Approval(ctx, id)
}

func (h *half) Renew(ctx context.Context, id core.ID, _ core.Actor) (core.Approval, error) {
	return h.Approval(ctx, id)
}

func (h *half) Tools(context.Context) ([]core.Tool, []core.Fault, error) { return h.tools, nil, h.down }

func (h *half) CallTool(_ context.Context, tool string, _ json.RawMessage, _ core.Actor, _ time.Duration) (api.Result, error) {
	return h.answer, h.call("call %s", tool)
}

func (h *half) Plan(context.Context, api.ExecuteRequest) (core.Plan, error) { return h.plan, nil }

func (h *half) Servers(context.Context) ([]api.ServerInfo, error) { return h.servers, nil }

func (h *half) ParseDAG([]byte) ([]core.TaskSpec, json.RawMessage, error) {
	return nil, nil, h.call("parse")
}

func (h *half) RuleFor(ctx context.Context, id core.ID) (api.Rule, error) {
	a, err := h.Approval(ctx, id)
	if err != nil {
		return api.Rule{}, err
	}
	return h.RuleOf(ctx, a)
}

func (h *half) RuleOf(_ context.Context, a core.Approval) (api.Rule, error) {
	return api.Rule{Approval: a.ID, Pattern: h.name}, h.call("rule %s", a.ID)
}

func (h *half) ImportRun(context.Context, []byte) (api.ImportedRun, error) {
	return api.ImportedRun{}, h.call("import")
}

func (h *half) Prune(context.Context, time.Time) (int, error) { return 1, nil }

func (h *half) TraceOf(_ context.Context, id core.ID) (api.Trace, error) {
	return api.Trace{State: core.RunComplete, Result: json.RawMessage(`"` + string(id) + `"`), Records: []core.Record{{Seq: 1, Result: json.RawMessage(`"` + strings.Repeat("x", 500) + `"`)}}}, nil
}

func (h *half) Audit(_ context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	after, before := q.Since.Of(h.side()), q.Before.Of(h.side())
	out := []core.AuditRow{}
	rows := slices.Clone(h.audit)
	if q.Newest {
		slices.Reverse(rows)
	}
	for _, r := range rows {
		if r.Seq > after && (before == 0 || r.Seq < before) && q.Match(r) && (q.Limit == 0 || len(out) < q.Limit) {
			out = append(out, r)
		}
	}
	return out, h.down
}

func (h *half) VerifyAudit(context.Context) (api.AuditReport, error) { return h.report, h.down }

func (h *half) Visited(_ context.Context, _ core.Actor, _, what string) error {
	return h.call("visited %s", what)
}

func (h *half) RefusedVisit(_ context.Context, _ core.Actor, _, why string) error {
	return h.call("refused visit %s", why)
}

func (h *half) Refused(_ context.Context, run core.ID, _ core.Actor, reason string) error {
	return h.call("refused %s %s", run, reason)
}

func (h *half) Name() string { return "https://" + h.name }

func (h *half) Trace(_ context.Context, id core.ID, t api.Trace) error {
	if err := h.call("trace %s", id); err != nil || h.noTrace != nil {
		return errors.Join(err, h.noTrace)
	}
	if raw, _ := json.Marshal(t); h.maxTrace > 0 && len(raw) > h.maxTrace {
		return core.Errorf(core.CodeTooLarge, "%d bytes", len(raw))
	}
	h.traces[id] = t
	return nil
}

// wait is what a caller waits for.
func (h *half) wait() {
	if h.during != nil {
		h.during()
	}
}

// end commits the event that ends a run.
func (h *half) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, core.Event{Seq: int64(len(h.events) + 1), Type: core.EventWorkflowComplete})
	close(h.more)
	h.more = make(chan struct{})
}

// emit commits an event at a second.
func (h *half) emit(second int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, core.Event{Seq: int64(len(h.events) + 1), At: time.Unix(int64(second), 0), Message: h.name})
	close(h.more)
	h.more = make(chan struct{})
}

func (h *half) Events(ctx context.Context, id core.ID, from api.Since, follow bool, f func(core.Event) error) error {
	since := from.Of(h.side())
	if err := h.call("events %s after %d", id, since); err != nil {
		return err
	}
	for {
		h.mu.Lock()
		list, more, cut := slices.Clone(h.events[min(int(since), len(h.events)):]), h.more, h.cut
		h.mu.Unlock()
		for _, e := range list {
			since = e.Seq
			if err := f(e); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-more:
		case <-cut:
			return errDown
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fall takes the half away, or brings it back.
func (h *half) fall(down error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down = down; down != nil {
		close(h.cut)
		h.cut = make(chan struct{})
	}
}

func (h *half) Live(ctx context.Context, id core.ID, since int64, ready func(), f func(core.Event) error) error {
	h.mu.Lock()
	if since < 0 {
		since = int64(len(h.events))
	}
	h.mu.Unlock()
	ready()
	return h.Events(ctx, id, api.Since{Any: since}, true, f)
}

// both is a backend of two halves, and what was said and asked of it.
type both struct {
	*route.Backend
	local, remote *half
	mu            sync.Mutex
	warnings      []string
	noServer      atomic.Bool
	started       bool
	shown         []int64 // the numbers of the events that were shown live
	links         []error // why there is no server
}

// newBoth makes a backend. noServer leaves the server out until one is started.
func newBoth(t *testing.T, named bool, noServer bool) *both {
	t.Helper()
	return newBothWith(named, noServer, func(*both, *route.Options) {})
}

// newWatching is newBoth for who looks on, with a named server.
func newWatching(t *testing.T) *both {
	t.Helper()
	return newBothWith(true, false, func(b *both, o *route.Options) {
		o.Partial = true
		o.Link = func(err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.links = append(b.links, err)
		}
	})
}

func newBothWith(named, noServer bool, more func(*both, *route.Options)) *both {
	b := &both{local: newHalf("local"), remote: newHalf("remote")}
	b.noServer.Store(noServer)
	o := route.Options{
		Local: b.local, Servers: b.local.Servers,
		Connect: func(_ context.Context, start bool) (route.Remote, error) {
			b.started = b.started || start
			if b.noServer.Load() && !start {
				return nil, nil
			}
			return b.remote, nil
		},
		Routing: func() (route.Routing, error) {
			return route.Routing{Client: []string{"files"}, Server: []string{"db", "files:remote_*"}, Default: core.SideClient}, nil
		},
		Progress: func(e core.Event) { b.shown = append(b.shown, e.Seq) },
		Warn: func(text string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.warnings = append(b.warnings, text)
		},
	}
	if named {
		o.Server = "https://remote"
	}
	more(b, &o)
	b.Backend = route.New(o)
	return b
}

var errDown = core.Errorf(core.CodeServerUnreachable, "nobody answers")

// after is a time.
func after(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func (*half) Edited(_ context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	return core.Approval{ID: id, Type: core.ApproveTool, Context: json.RawMessage(`{"arguments":` + string(args) + `}`), Digest: "edited"}, nil
}

func (h *half) Halts(context.Context) ([]core.Halt, error) { return h.halts, h.down }

func (h *half) HaltCalls(_ context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	if h.down != nil {
		return nil, h.down
	}
	h.halts = []core.Halt{{By: by, Reason: h.name + " " + reason}}
	return h.halts, nil
}

func (h *half) ResumeCalls(context.Context, api.ResumeRequest) ([]core.Halt, error) {
	was := h.halts
	h.halts = nil
	return was, h.down
}
