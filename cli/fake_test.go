package cli_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// at is the time of every fake clock.
var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type clock struct{}

func (clock) Now() time.Time { return at }

const (
	runA  core.ID = "7f3a91c2-0000-4000-8000-000000000001"
	runB  core.ID = "7f3a80aa-0000-4000-8000-000000000002"
	appA  core.ID = "41d2e07b-0000-4000-8000-00000000000a"
	appB  core.ID = "52e3f18c-0000-4000-8000-00000000000b"
	hashA         = "sha256:9f04e77b00112233445566778899aabbccddeeff00112233445566778899aabb"
)

// fake is a backend in memory. A script of results answers Execute, then each
// Continue; it records what it was asked.
type fake struct {
	halts      []core.Halt
	mu         sync.Mutex
	results    []api.Result
	errs       []error
	executed   []api.ExecuteRequest
	went       []api.ContinueRequest
	events     []core.Event
	wentOn     []core.Event // of a run that is continued or retried
	progress   func(core.Event)
	config     string // what Config answers; empty: something
	settles    bool   // what is decided waits no more
	block      bool   // Execute waits for the context to end
	failWith   error
	trusted    string
	trust      api.TrustState
	runs       []core.Run
	workflow   core.Workflow
	program    core.Program // that is kept with the run
	pending    []core.Approval
	tools      []core.Tool
	audit      []core.AuditRow
	auditQuery api.AuditQuery   // the last one
	report     *api.AuditReport // of audit verify
	checks     []api.Check
	closed     int
	visited    []string
	world      world
	trustPin   string
	since      api.Since
	gap        func()   // warns of something, once
	required   string   // what ReplanFor was asked for
	warnings   []string // of lists
	// look, when set, is what Workflow answers, one after the other; the last stays.
	look []look
	// faster is what others have decided about an approval while it was asked about.
	faster map[core.ID]core.Approval
	// renewed is what asks the same again once something was decided, under another id.
	renewed core.ID
	// release, if set, holds events back for who follows them until it is closed.
	release chan struct{}
	// below are the runs that agents have started.
	below map[core.ID]core.Workflow
}

// look is a run at one moment, and what has happened since the look before.
type look struct {
	state core.RunState
	then  []core.Event
}

// warn says once that something is missing.
func (f *fake) warn() {
	f.mu.Lock()
	gap := f.gap
	f.gap = nil
	f.mu.Unlock()
	if gap != nil {
		gap()
	}
}

func (f *fake) next() (api.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		if err != nil {
			return api.Result{}, err
		}
	}
	if len(f.results) == 0 {
		return api.Result{Status: api.StatusComplete, WorkflowID: runA, Result: json.RawMessage(`"done"`)}, nil
	}
	r := f.results[0]
	f.results = f.results[1:]
	return r, nil
}

func (f *fake) Resolve(_ context.Context, text string) (core.ID, core.ID, error) {
	var found []core.ID
	for _, id := range []core.ID{runA, runB} {
		if text == string(id) || len(text) >= 4 && strings.HasPrefix(string(id), text) {
			found = append(found, id)
		}
	}
	switch {
	case text == "@latest" || len(found) == 1 && found[0] == runA:
		return runA, "", nil
	case len(found) == 1:
		return found[0], "", nil
	case len(found) > 1:
		return "", "", core.Errorf(core.CodeNotFound, "%s is the beginning of 2 ids", text)
	}
	for _, id := range []core.ID{appA, appB} {
		if len(text) >= 4 && strings.HasPrefix(string(id), text) {
			return runA, id, nil
		}
	}
	return "", "", core.Errorf(core.CodeNotFound, "no workflow has the id %s", text)
}

func (f *fake) Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	f.warn()
	f.executed = append(f.executed, req)
	for _, e := range f.events {
		f.progress(e)
	}
	if f.block {
		<-ctx.Done()
		return api.Result{}, context.Cause(ctx)
	}
	return f.next()
}

func (f *fake) Continue(_ context.Context, req api.ContinueRequest) (api.Result, error) {
	f.went = append(f.went, req)
	f.goOn()
	r, err := f.next()
	if f.settles && req.Decision != nil && err == nil {
		f.pending = slices.DeleteFunc(slices.Clone(f.pending), func(p core.Approval) bool { return p.ID == req.Decision.Checkpoint })
	}
	return r, err
}

func (f *fake) Retry(context.Context, core.ID, core.Actor, time.Duration) (api.Result, error) {
	f.goOn()
	return f.next()
}

// goOn sends the events of a run that goes on, if there are to be some.
func (f *fake) goOn() {
	for _, e := range f.wentOn {
		f.progress(e)
	}
}

func (f *fake) Abort(_ context.Context, id core.ID, _ core.Actor, reason string) (api.Result, error) {
	return api.Result{Status: api.StatusAborted, WorkflowID: id, Reason: reason}, nil
}

func (f *fake) Replan(_ context.Context, id core.ID, tasks []core.TaskSpec, _ core.Actor, _ string) (api.Result, error) {
	return api.Result{Status: api.StatusReplanned, WorkflowID: id, NewTasksCount: len(tasks), TotalTasks: len(tasks) + 2}, nil
}

func (f *fake) ReplanFor(_ context.Context, id core.ID, requirement string, _ json.RawMessage, _ core.Actor, _ string) (api.Result, error) {
	f.required = requirement
	return api.Result{Status: api.StatusReplanned, WorkflowID: id, NewTasksCount: 1, TotalTasks: 3}, nil
}

func (f *fake) Plan(_ context.Context, req api.ExecuteRequest) (core.Plan, error) {
	if f.failWith != nil {
		return core.Plan{}, f.failWith
	}
	return core.Plan{
		Kind: core.KindCode,
		Calls: []core.PlanCall{
			{ID: "c1", Tool: "fs:read", At: core.Position{Line: 2, Column: 7}},
			{ID: "c2", Tool: "fs:write", Layer: 1, Conditional: true, Gates: []core.PlanGate{{Type: core.ApproveTool, Message: "not in permissions.allow"}}},
		},
		Edges:   []core.PlanEdge{{From: "c1", To: "c2", Kind: core.EdgeData}},
		Layers:  [][]string{{"c1"}, {"c2"}},
		Tools:   []string{"fs:read", "fs:write"},
		Unknown: []core.PlanNote{{Message: "how often the loop runs", At: core.Position{Line: 4, Column: 1}}},
	}, nil
}

// ParseDAG is as strict as the tests need it: it names what is wrong by
// pointer and leaves positions to the command line.
func (f *fake) ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error) {
	var doc struct {
		Tasks []core.TaskSpec `json:"tasks"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, core.Errorf(core.CodeDAGInvalid, "the DAG is not JSON: %w", err)
	}
	e := core.Errorf(core.CodeDAGInvalid, "the DAG has mistakes")
	for i, t := range doc.Tasks {
		for j, d := range t.DependsOn {
			if !slices.ContainsFunc(doc.Tasks, func(o core.TaskSpec) bool { return o.ID == d }) {
				e.Faults = append(e.Faults, core.Fault{Path: "/tasks/" + itoa(i) + "/depends_on/" + itoa(j), Message: "no task has the id " + d})
			}
		}
		if t.Tool == "" {
			e.Faults = append(e.Faults, core.Fault{Path: "/tasks/" + itoa(i) + "/tool", Message: "a tool is missing"})
		}
	}
	if len(e.Faults) > 0 {
		return nil, nil, e
	}
	return doc.Tasks, doc.Input, nil
}

func itoa(i int) string { raw, _ := json.Marshal(i); return string(raw) }

func (f *fake) Workflows(_ context.Context, states []core.RunState, _ int, _ string) (api.Page[core.Run], error) {
	f.warn()
	page := api.Page[core.Run]{Warnings: f.warnings}
	for _, r := range f.runs {
		if len(states) == 0 || slices.Contains(states, r.State) {
			page.Items = append(page.Items, r)
		}
	}
	return page, nil
}

func (f *fake) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	f.warn()
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workflow
	if child, ok := f.below[id]; ok {
		return child, nil
	}
	if len(f.pending) > 0 {
		w.Approvals = slices.DeleteFunc(slices.Clone(f.pending), func(p core.Approval) bool { return p.RunID != id })
	}
	if len(f.look) > 0 {
		w.State = f.look[0].state
		f.events = append(f.events, f.look[0].then...)
		f.look[0].then = nil
		if len(f.look) > 1 {
			f.look = f.look[1:]
		}
	}
	return w, nil
}

func (f *fake) ExportRun(_ context.Context, id core.ID) (api.RunFile, error) {
	if f.failWith != nil {
		return api.RunFile{}, f.failWith
	}
	return api.NewRunFile(api.ExportedRun{Run: core.Run{ID: id, State: core.RunComplete}, Program: f.program}, at, "1.2.3")
}

func (f *fake) ImportRun(_ context.Context, data []byte) (api.ImportedRun, error) {
	var file api.RunFile
	if err := json.Unmarshal(data, &file); err != nil {
		return api.ImportedRun{}, err
	}
	return api.ImportedRun{WorkflowID: runA, State: core.RunAborted, Was: core.RunWaiting, Digest: file.Digest}, f.failWith
}

func (f *fake) Said(context.Context, core.ID, func(core.Event) error) error { return nil }

func (f *fake) RemoveWorkflows(context.Context, ...core.ID) error { return f.failWith }

func (f *fake) Prune(_ context.Context, before time.Time) (int, error) {
	f.warn()
	return int(at.Sub(before).Hours()), nil
}

func (f *fake) Events(ctx context.Context, _ core.ID, since api.Since, follow bool, do func(core.Event) error) error {
	f.warn()
	f.mu.Lock()
	f.since = since
	events := slices.Clone(f.events)
	f.mu.Unlock()
	if f.release != nil && follow {
		select {
		case <-f.release:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, e := range events {
		if e.Seq > since.Of(e.Side) {
			if err := do(e); err != nil {
				return err
			}
		}
	}
	if follow {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (f *fake) Audit(_ context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	f.mu.Lock()
	f.since, f.auditQuery = q.Since, q
	f.mu.Unlock()
	var out []core.AuditRow
	rows := slices.Clone(f.audit)
	if q.Newest {
		slices.Reverse(rows)
	}
	for _, r := range rows {
		before := q.Before.Of(r.Side)
		if r.Seq > q.Since.Of(r.Side) && (before == 0 || r.Seq < before) && q.Match(r) && len(out) < q.Limit {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *fake) VerifyAudit(context.Context) (api.AuditReport, error) {
	if f.report != nil {
		return *f.report, nil
	}
	return api.AuditReport{Rows: len(f.audit), OK: f.failWith == nil, Bad: 2, Reason: "the hash does not match"}, nil
}

func (f *fake) Approvals(context.Context, bool) ([]core.Approval, error) { return f.pending, nil }

func (f *fake) Decidable(context.Context) ([]core.Approval, error) { return f.pending, nil }

func (f *fake) Approval(_ context.Context, id core.ID) (core.Approval, error) {
	f.warn()
	if p, ok := f.faster[id]; ok {
		return p, nil
	}
	if f.renewed != "" && len(f.went) > 0 {
		next := core.Approval{ID: f.renewed, State: core.ApprovalApproved}
		if id != f.renewed {
			next = core.Approval{ID: id, State: core.ApprovalExpired, RenewedBy: f.renewed}
		}
		return next, nil
	}
	for _, p := range f.pending {
		if p.ID == id {
			return p, nil
		}
	}
	return core.Approval{}, core.Errorf(core.CodeNotFound, "no approval has the id %s", id)
}

func (f *fake) Extend(_ context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	t := at.Add(by)
	return core.Approval{ID: id, ExpiresAt: &t, State: core.ApprovalOpen}, nil
}

func (f *fake) Renew(_ context.Context, id core.ID, _ core.Actor) (core.Approval, error) {
	fresh := core.Approval{ID: appB, RunID: runA, State: core.ApprovalOpen, Type: core.ApproveTool}
	for _, p := range f.pending { // one that is open is returned as it is
		if p.ID == id && p.StateAt(at) == core.ApprovalOpen {
			return p, nil
		}
	}
	return fresh, nil
}

func (f *fake) Tools(context.Context) ([]core.Tool, []core.Fault, error) {
	return f.tools, []core.Fault{{Path: "web", Message: "not trusted; it last said:\nFATAL"}}, nil
}

func (f *fake) CallTool(context.Context, string, json.RawMessage, core.Actor, time.Duration) (api.Result, error) {
	return f.next()
}

func (f *fake) Trust(context.Context) (api.TrustState, error) { return f.trust, nil }

func (f *fake) SetTrust(_ context.Context, digest, pin string) error {
	f.trusted, f.trustPin = digest, pin
	for i, s := range f.world.list {
		if s.State == api.ServerNotTrusted {
			f.world.list[i].State = api.ServerReady
		}
	}
	return nil
}

func (f *fake) Init(_ context.Context, who api.Deciders, trust bool) (string, error) {
	f.world.deciders = append(f.world.deciders, who)
	f.trust.Trusted = f.trust.Trusted || trust
	if f.world.kept {
		return "/w/.pml.json", core.Errorf(core.CodeInvalidArguments, "/w/.pml.json is there already; it was left as it is")
	}
	return "/w/.pml.json", f.failWith
}

func (f *fake) DecidersChange(_ context.Context, who api.Deciders) (api.ChangeSet, error) {
	if f.world.chosen {
		return api.ChangeSet{}, nil
	}
	f.world.deciders = append(f.world.deciders, who)
	return api.ChangeSet{Changes: []api.Change{{File: "/w/.pml.json", Diff: "@@ line 2 @@\n+  \"approvals\": {}\n"}}}, nil
}

func (f *fake) Doctor(context.Context) ([]api.Check, error) { return f.checks, nil }

func (f *fake) Config(context.Context) (json.RawMessage, error) {
	if f.config != "" {
		return json.RawMessage(f.config), nil
	}
	return json.RawMessage(`{"version":1,"permissions":{"allow":["a:b"]},"n":12345678901234567890}`), nil
}

func (f *fake) Paths(context.Context) (api.Paths, error) {
	if f.world.paths != nil {
		return *f.world.paths, nil
	}
	return api.Paths{Home: "/h", HomeConfig: "/h/config.json", Workspace: "/w", Config: "/w/.pml.json", Lock: "/w/pml.lock"}, nil
}

func (f *fake) Visited(_ context.Context, _ core.Actor, _, what string) error {
	f.visited = append(f.visited, what)
	return f.failWith
}

func (f *fake) RefusedVisit(_ context.Context, _ core.Actor, _, why string) error {
	return f.Visited(context.Background(), core.Actor{}, "", why)
}

func (f *fake) KeysFound(context.Context, core.ID) ([]string, error) { return nil, nil }

func (f *fake) Close() error {
	f.closed++
	return nil
}

var _ app.Backend = (*fake)(nil)

// approvals for tests.
func dependency() core.Approval {
	t := at.Add(5 * time.Minute)
	return core.Approval{
		ID: appA, RunID: runA, Type: core.ApproveDependency, Tool: "filesystem:read_file", Risk: core.RiskMedium,
		Description: "install @scope/server 2026.8.31",
		Context: json.RawMessage(`{"tool":"filesystem:read_file","dependency":{"name":"@scope/server","version":"2026.8.31","integrity":"` + hashA +
			`","size_bytes":2097152,"packages":97,"scripts":["postinstall: node x.js"]}}`),
		Digest: hashA, State: core.ApprovalOpen, ExpiresAt: &t, CreatedAt: at,
	}
}

func permission(risk core.Risk) core.Approval {
	t := at.Add(59 * time.Second)
	return core.Approval{
		ID: appB, RunID: runA, RunName: "nightly.ts", Type: core.ApproveTool, Tool: "fs:write", Risk: risk,
		Context: json.RawMessage("{\"tool\":\"fs:write\",\"arguments\":{\"path\":\"a\\u001b[31m\u202etxt\"}}"),
		Digest:  hashA, State: core.ApprovalOpen, ExpiresAt: &t, CreatedAt: at,
	}
}

func waiting(ps ...core.Approval) api.Result {
	return api.Result{Status: api.StatusApprovalRequired, WorkflowID: runA, CheckpointID: ps[0].ID, Pending: ps}
}

func (f *fake) Edited(_ context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	for _, p := range f.pending {
		if p.ID == id {
			p.Context, p.Digest = json.RawMessage(`{"arguments":`+string(args)+`}`), "edited"
			return p, nil
		}
	}
	return core.Approval{}, core.Errorf(core.CodeNotFound, "there is no approval %s", id)
}

func (f *fake) Halts(context.Context) ([]core.Halt, error) { return f.halts, nil }

func (f *fake) HaltCalls(_ context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	f.halts = []core.Halt{{Side: core.SideClient, By: by, At: at, Reason: reason}}
	return f.halts, nil
}

func (f *fake) ResumeCalls(_ context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	if req.Presence == "" && req.Pin == "" {
		return nil, core.Errorf(core.CodeAwaitingHuman, "only a person lets calls go on")
	}
	was := f.halts
	f.halts = nil
	return was, nil
}
