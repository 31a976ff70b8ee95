package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const (
	idLocal  = core.ID("aaaa1111-0000-4000-8000-000000000001")
	idRemote = core.ID("bbbb2222-0000-4000-8000-000000000002")
	idTwin   = core.ID("aaaa1111-ffff-4000-8000-000000000003")
)

func TestResolve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		setup      func(*both)
		want       core.ID
		approval   core.ID
		code       core.Code
		ambiguous  int
		asked      bool // the server
	}{
		{name: "LocalFullID", text: string(idLocal), setup: func(b *both) { b.remote.down = errDown }, want: idLocal},
		{name: "LocalShortID", text: "AAAA1111", setup: func(b *both) { b.remote.down = errDown }, want: idLocal},
		{name: "RemoteID", text: "bbbb2222", want: idRemote},
		{name: "PrefixOfOne", text: "aaaa", want: idLocal},
		{name: "PrefixOfBoth", text: "aaaa", setup: func(b *both) { b.remote.add(core.Run{ID: idTwin}) }, code: core.CodeNotFound, ambiguous: 2},
		{name: "GivenAwayInBoth", text: "aaaa", setup: func(b *both) { b.remote.add(core.Run{ID: idLocal}) }, want: idLocal},
		{name: "AmbiguousHere", text: "aaaa", setup: func(b *both) { b.local.add(core.Run{ID: idTwin}) }, code: core.CodeNotFound, ambiguous: 2},
		{name: "AmbiguousHereServerDown", text: "aaaa", setup: func(b *both) { b.local.add(core.Run{ID: idTwin}); b.remote.down = errDown }, code: core.CodeNotFound, ambiguous: 2},
		{name: "AmbiguousThereOneHere", text: "aaaa", setup: func(b *both) { b.remote.add(core.Run{ID: idTwin}, core.Run{ID: idTwin + "x"}) }, code: core.CodeNotFound, ambiguous: 3},
		{name: "PrefixServerDown", text: "aaaa", setup: func(b *both) { b.remote.down = errDown }, want: idLocal},
		{name: "Nowhere", text: "cccc", code: core.CodeNotFound},
		{name: "NowhereServerDown", text: "cccc", setup: func(b *both) { b.remote.down = errDown }, code: core.CodeServerUnreachable},
		{name: "TooShort", text: "bb", code: core.CodeNotFound, setup: func(b *both) { b.remote.down = errDown }},
		{name: "LatestHere", text: "@latest", want: idLocal},
		{name: "LatestThere", text: "@latest", setup: func(b *both) { b.remote.add(core.Run{ID: idTwin, CreatedAt: after(99)}) }, want: idTwin},
		{name: "LatestOnlyThere", text: "@latest", setup: func(b *both) { b.local.runs = nil }, want: idRemote},
		{name: "LatestServerDown", text: "@latest", setup: func(b *both) { b.remote.down = errDown }, want: idLocal},
		{name: "LocalBroken", text: "bbbb", setup: func(b *both) { b.local.down = core.Errorf(core.CodeStoreBusy, "busy") }, code: core.CodeStoreBusy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBoth(t, false, false)
			b.local.add(core.Run{ID: idLocal, CreatedAt: after(10)})
			b.remote.add(core.Run{ID: idRemote, CreatedAt: after(5)})
			if tt.setup != nil {
				tt.setup(b)
			}
			id, approval, err := b.Resolve(t.Context(), tt.text)
			if id != tt.want || approval != tt.approval || core.CodeOf(err) != tt.code {
				t.Fatalf("%s, %s, %v; want %s, %s", id, approval, err, tt.want, tt.code)
			}
			if err != nil && len(core.AsError(err).Ambiguous) != tt.ambiguous {
				t.Errorf("%d ids, want %d: %v", len(core.AsError(err).Ambiguous), tt.ambiguous, err)
			}
			if b.started {
				t.Error("a server was started")
			}
		})
	}
}

// TestMove_GoesToItsHalf: what is here stays here, everything else goes to the
// server.
func TestMove_GoesToItsHalf(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	b.local.add(core.Run{ID: idLocal, State: core.RunExpired})
	b.remote.add(core.Run{ID: idRemote})
	for _, id := range []core.ID{idLocal, idRemote} {
		ctx, by := t.Context(), core.Actor{}
		_, e1 := b.Continue(ctx, api.ContinueRequest{ID: id})
		_, e2 := b.Retry(ctx, id, by, 0)
		_, e3 := b.Abort(ctx, id, by, "")
		_, e4 := b.Replan(ctx, id, nil, by, "")
		_, e5 := b.ReplanFor(ctx, id, "x", nil, by, "")
		_, e6 := b.Workflow(ctx, id)
		_, e7 := b.ExportRun(ctx, id)
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7); err != nil {
			t.Error(err)
		}
	}
	if err := b.RemoveWorkflows(t.Context(), idRemote, idLocal); err != nil {
		t.Error(err)
	}
	for h, id := range map[*half]core.ID{b.local: idLocal, b.remote: idRemote} {
		want := []string{"continue", "retry", "abort", "replan", "replan for", "export", "remove"}
		if len(h.calls) != len(want) {
			t.Fatalf("%s: %q", h.name, h.calls)
		}
		for i, c := range h.calls {
			if !strings.HasPrefix(c, want[i]) || !strings.Contains(c, string(id)) {
				t.Errorf("%s: %q, want %s %s", h.name, c, want[i], id)
			}
		}
	}
	b.remote.down = errDown
	if _, err := b.Continue(t.Context(), api.ContinueRequest{ID: idTwin}); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Errorf("unknown here, no server: %v", err)
	}
}

func TestExecute_Half(t *testing.T) {
	t.Parallel()
	plan := func(tools ...string) core.Plan {
		var p core.Plan
		for _, tool := range tools {
			p.Calls = append(p.Calls, core.PlanCall{Tool: tool})
		}
		return p
	}
	denied := plan("db:query")
	denied.Calls[0].Gates = []core.PlanGate{{Message: "permission_denied: a rule"}}
	looked := []core.PlanGate{{Type: core.ApproveHook, Message: "the flow f looks at it"}}
	flowed, unseen, unseenFlowed := plan("db:query"), plan("db:query"), plan("db:query")
	flowed.Calls[0].Gates = looked
	unseen.Unknown = []core.PlanNote{{Message: "mcp is handed on here; calls made through it are not seen"}}
	unseenFlowed.Unknown, unseenFlowed.Gates = unseen.Unknown, looked
	code, detached := api.ExecuteRequest{Code: "x"}, api.ExecuteRequest{Code: "x", Detach: true}
	tests := []struct {
		name    string
		named   bool
		plan    core.Plan
		req     api.ExecuteRequest
		want    string // the half
		code    core.Code
		started bool
	}{
		{name: "NoServer", req: code, plan: plan("db:query"), want: "local"},
		{name: "NoServerIntent", req: api.ExecuteRequest{Intent: "x"}, want: "local"},
		{name: "Detached", req: api.ExecuteRequest{Code: "x", Detach: true}, want: "remote", started: true},
		{name: "NamedIntent", named: true, req: api.ExecuteRequest{Intent: "x"}, want: "remote", started: true},
		{name: "NamedAccept", named: true, req: api.ExecuteRequest{Accept: &api.Acceptance{CallName: "x"}}, want: "remote", started: true},
		{name: "AllServer", named: true, req: code, plan: plan("db:query", "files:remote_x", "pml:code"), want: "remote", started: true},
		{name: "NoTool", named: true, req: code, want: "remote", started: true},
		{name: "NotKnownHere", named: true, req: code, plan: plan("elsewhere:x"), want: "remote", started: true},
		{name: "OneClient", named: true, req: code, plan: plan("db:query", "files:read"), want: "local"},
		{name: "KnownHere", named: true, req: code, plan: plan("here:x"), want: "local"},
		{name: "Builtin", named: true, req: code, plan: plan("workspace:read_file"), want: "local"},
		{name: "AnyTool", named: true, req: code, plan: plan("db:*"), want: "local"},
		{name: "AnyServer", named: true, req: code, plan: plan("*:*"), want: "local"},
		{name: "Denied", named: true, req: code, plan: denied, want: "local"},
		{name: "Flow", named: true, req: code, plan: flowed, want: "local"},
		{name: "Unseen", named: true, req: code, plan: unseen, want: "local"},
		{name: "DetachedFlow", named: true, req: detached, plan: flowed, code: core.CodePermissionDenied},
		{name: "DetachedUnseen", named: true, req: detached, plan: unseen, want: "remote", started: true},
		{name: "DetachedUnseenFlow", named: true, req: detached, plan: unseenFlowed, code: core.CodePermissionDenied},
		{name: "DetachedDenied", named: true, req: api.ExecuteRequest{Code: "x", Detach: true}, plan: denied, code: core.CodePermissionDenied},
		{name: "DetachedClient", named: true, req: api.ExecuteRequest{Code: "x", Detach: true}, plan: plan("files:read"), want: "remote", started: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBoth(t, tt.named, true)
			b.local.plan, b.local.servers = tt.plan, []api.ServerInfo{{Name: "here"}}
			_, err := b.Execute(t.Context(), tt.req)
			if core.CodeOf(err) != tt.code || b.started != tt.started {
				t.Fatalf("%v, started %v", err, b.started)
			}
			for _, h := range []*half{b.local, b.remote} {
				if n := len(h.executed); n != map[bool]int{true: 1, false: 0}[h.name == tt.want] {
					t.Errorf("%s executed %d", h.name, n)
				}
			}
		})
	}
}

// TestExecute_NoServerPossible: where none can be started it says so.
func TestExecute_NoServerPossible(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	b.remote.down = errDown
	if _, err := b.Execute(t.Context(), api.ExecuteRequest{Code: "x", Detach: true}); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Error(err)
	}
}

// TestExecute_GivenBack: what a server gives back runs here under its id, and
// its end is reported; a report that is lost is sent with the next look.
func TestExecute_GivenBack(t *testing.T) {
	t.Parallel()
	b := newBoth(t, true, false)
	tasks := []core.TaskSpec{{ID: "t", Tool: "db:q", Arguments: json.RawMessage(`{"a": 1}`)}}
	back := []core.TaskSpec{{ID: "t", Tool: "db:q", Arguments: json.RawMessage(`{"a":1}`)}}
	b.remote.answer = api.Result{Status: api.StatusExecuteLocally, WorkflowID: idTwin, Workflow: &api.WorkflowBody{Tasks: back}}
	b.local.answer = api.Result{Status: api.StatusSuccess, WorkflowID: idTwin, Totals: &api.Totals{}}
	b.remote.noTrace = errDown
	req := api.ExecuteRequest{Tasks: tasks, Intent: "do it", IdempotencyKey: "k", By: core.Actor{Who: "ann"}}
	res, err := b.Execute(t.Context(), req)
	if err != nil || res.Status != api.StatusSuccess {
		t.Fatalf("%+v, %v", res, err)
	}
	got := b.local.executed[0]
	if got.ID != idTwin || got.Origin != "https://remote" || len(got.Tasks) != 1 || got.IdempotencyKey != "" || got.By.Who != "ann" {
		t.Errorf("executed %+v", got)
	}
	if len(b.remote.traces) != 0 || len(b.warnings) != 1 {
		t.Fatalf("traces %v, warnings %q", b.remote.traces, b.warnings)
	}
	b.remote.noTrace = nil
	for range 2 {
		if _, err := b.Workflow(t.Context(), idTwin); err != nil {
			t.Fatal(err)
		}
	}
	if tr := b.remote.traces[idTwin]; tr.State != core.RunComplete || string(tr.Result) != `"`+string(idTwin)+`"` {
		t.Errorf("reported %+v", tr)
	}
	n := len(slices.DeleteFunc(slices.Clone(b.remote.calls), func(c string) bool { return !strings.HasPrefix(c, "trace") }))
	if n != 2 {
		t.Errorf("reported %d times, want once lost and once", n)
	}
	// The same request again is the same run.
	b.local.answer.Status = api.StatusComplete
	if res, err := b.Execute(t.Context(), req); err != nil || res.Status != api.StatusSuccess || b.local.executed[1].ID != idTwin {
		t.Errorf("%+v, %v, executed %d", res, err, len(b.local.executed))
	}
	req.Detach = true
	if _, err := b.Execute(t.Context(), req); core.CodeOf(err) != core.CodeInvalidConfig || !slices.Contains(b.remote.calls, "abort "+string(idTwin)) {
		t.Errorf("detached and given back: %v, %q", err, b.remote.calls)
	}
}

// TestExecute_GivenBackLarge: a report that is too large is made smaller, and
// one of a run that could not begin says that.
func TestExecute_GivenBackLarge(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 300, 70} {
		b := newBoth(t, true, false)
		b.remote.answer = api.Result{Status: api.StatusExecuteLocally, WorkflowID: idTwin, Code: "x"}
		b.local.answer = api.Result{Status: api.StatusSuccess, WorkflowID: idTwin, Totals: &api.Totals{}}
		b.remote.maxTrace = limit
		if _, err := b.Execute(t.Context(), api.ExecuteRequest{Code: "x"}); err != nil {
			t.Fatal(err)
		}
		tr := b.remote.traces[idTwin]
		if tr.State != core.RunComplete || (len(tr.Records) == 1) != (limit == 0) || (tr.Result != nil) != (limit != 70) || len(b.warnings) != 0 {
			t.Errorf("limit %d: %+v, %q", limit, tr, b.warnings)
		}
	}
	b := newBoth(t, true, false)
	b.remote.answer = api.Result{Status: api.StatusExecuteLocally, WorkflowID: idTwin, Code: "x"}
	b.local.refuse = core.Errorf(core.CodeNoSuchTool, "no such tool")
	_, err := b.Execute(t.Context(), api.ExecuteRequest{Code: "x"})
	if tr := b.remote.traces[idTwin]; core.CodeOf(err) != core.CodeNoSuchTool || tr.State != core.RunFailed || tr.Error == nil {
		t.Errorf("%v, reported %+v", err, tr)
	}
}

// TestExecute_GivenBackOther: a server makes this machine run what was sent to
// it, and nothing else.
func TestExecute_GivenBackOther(t *testing.T) {
	t.Parallel()
	dag := func(tool string) *api.WorkflowBody {
		return &api.WorkflowBody{Tasks: []core.TaskSpec{{ID: "t", Tool: tool}}}
	}
	accept := &api.Acceptance{CallName: "db:q"}
	for name, tt := range map[string]struct {
		req  api.ExecuteRequest
		code string
		dag  *api.WorkflowBody
		runs bool
		want core.Code
	}{
		"code":                 {req: api.ExecuteRequest{Code: "x"}, code: "x", runs: true},
		"other code":           {req: api.ExecuteRequest{Code: "x"}, code: "y", want: core.CodeDigestMismatch},
		"a DAG for code":       {req: api.ExecuteRequest{Code: "x"}, dag: dag("db:q"), want: core.CodeDigestMismatch},
		"code and a DAG":       {req: api.ExecuteRequest{Code: "x"}, code: "x", dag: dag("db:q"), want: core.CodeDigestMismatch},
		"another DAG":          {req: api.ExecuteRequest{Tasks: dag("db:q").Tasks}, dag: dag("db:drop"), want: core.CodeDigestMismatch},
		"code for a DAG":       {req: api.ExecuteRequest{Tasks: dag("db:q").Tasks}, code: "x", dag: dag("db:q"), want: core.CodeDigestMismatch},
		"accepted":             {req: api.ExecuteRequest{Accept: accept}, dag: dag("db:q"), runs: true},
		"code for an accepted": {req: api.ExecuteRequest{Accept: accept}, code: "x", want: core.CodeDigestMismatch},
		"code for an intent":   {req: api.ExecuteRequest{Intent: "i", RunOptions: core.RunOptions{PerLayer: true}}, code: "x", want: core.CodeInvalidConfig},
		"a DAG for an intent":  {req: api.ExecuteRequest{Intent: "i", RunOptions: core.RunOptions{PerLayer: true}}, dag: dag("db:q")},
	} {
		b := newBoth(t, true, false)
		b.remote.answer = api.Result{Status: api.StatusExecuteLocally, WorkflowID: idTwin, Code: tt.code, Workflow: tt.dag}
		b.local.answer = api.Result{Status: api.StatusSuccess, WorkflowID: idTwin, Totals: &api.Totals{}}
		res, err := b.Execute(t.Context(), tt.req)
		if core.CodeOf(err) != tt.want || (len(b.local.executed) == 1) != tt.runs {
			t.Errorf("%s: %v, executed %d", name, err, len(b.local.executed))
			continue
		}
		if tt.runs && (b.local.executed[0].Code != tt.req.Code || b.local.executed[0].Accept != tt.req.Accept) {
			t.Errorf("%s: executed %+v", name, b.local.executed[0])
		}
		if tt.req.Intent == "" {
			if tr := b.remote.traces[idTwin]; tt.want != "" && tr.State != core.RunFailed {
				t.Errorf("%s: the server was told %+v", name, tr)
			}
			continue
		}
		if !slices.Contains(b.remote.calls, "abort "+string(idTwin)) {
			t.Errorf("%s: the server was told %q", name, b.remote.calls)
		}
		if err == nil && (res.Status != api.StatusSuggestions || len(res.Suggestions.SuggestedDAG.Tasks) != 1) {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

// TestApprovals: of both halves, soonest expiry first; without the server those
// of this machine, and a warning.
func TestApprovals(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	at := func(s int) *time.Time { v := after(s); return &v }
	b.local.approvals = []core.Approval{{ID: "l1", ExpiresAt: at(10)}, {ID: "l2", ExpiresAt: at(30)}, {ID: "l3"}}
	b.remote.approvals = []core.Approval{{ID: "r1", ExpiresAt: at(5)}, {ID: "r2", ExpiresAt: at(20)}, {ID: "r3", CreatedAt: after(1)}}
	ids := func() string {
		t.Helper()
		list, err := b.Approvals(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, a := range list {
			out = append(out, string(a.ID))
		}
		return strings.Join(out, " ")
	}
	if got := ids(); got != "r1 l1 r2 l2 l3 r3" {
		t.Errorf("order %s", got)
	}
	for _, id := range []core.ID{"l2", "r2"} {
		ap, err := b.Approval(t.Context(), id)
		_, e1 := b.Extend(t.Context(), id, time.Minute)
		_, e2 := b.Renew(t.Context(), id, core.Actor{})
		if ap.ID != id || errors.Join(err, e1, e2) != nil {
			t.Errorf("%s: %v", id, errors.Join(err, e1, e2))
		}
	}
	if _, err := b.Approval(t.Context(), "x"); core.CodeOf(err) != core.CodeNotFound {
		t.Error(err)
	}
	b.remote.down = errDown
	if got := ids() + ids(); got != "l1 l2 l3l1 l2 l3" || len(b.warnings) != 1 {
		t.Errorf("%s, warnings %q", got, b.warnings)
	}
}

// TestKeysFound: this machine tells of its own approvals and of those of its own server,
// whose files are here; of those of a named server nobody does, and none is started.
func TestKeysFound(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	b.local.approvals = []core.Approval{{ID: "l1", Subject: "one"}}
	b.remote.approvals = []core.Approval{{ID: "r1", Subject: "two"}}
	if names, err := b.KeysFound(t.Context(), "l1"); err != nil || !slices.Equal(names, []string{"KEY_OF_one"}) {
		t.Errorf("%v %v", names, err)
	}
	if names, err := b.KeysFound(t.Context(), "r1"); err != nil || !slices.Equal(names, []string{b.local.name + "_KEY_OF_two"}) {
		t.Errorf("of the own server: %v %v", names, err)
	}
	if b.started {
		t.Error("a server was started")
	}
	named := newBoth(t, true, false)
	named.remote.approvals = b.remote.approvals
	if names, err := named.KeysFound(t.Context(), "r1"); err != nil || names != nil {
		t.Errorf("of a named server: %v %v", names, err)
	}
	b.local.down = errDown
	if _, err := b.KeysFound(t.Context(), "l1"); err == nil {
		t.Error("an error was kept back")
	}
}

// TestRuleFor: the rule for an approval of this machine's server is worked out here,
// where its file is; that of a named server, or of somebody's key, is not.
func TestRuleFor(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		b := newBoth(t, named, false)
		b.local.approvals = []core.Approval{{ID: "l1"}}
		b.remote.approvals = []core.Approval{{ID: "r1"}, {ID: "r2", Owner: "ana"}}
		for id, ok := range map[core.ID]bool{"l1": true, "r1": !named, "r2": false} {
			rule, err := b.RuleFor(t.Context(), id)
			if ok != (err == nil) || ok && (rule.Approval != id || rule.Pattern != "local") || !ok && core.CodeOf(err) != core.CodePermissionDenied {
				t.Errorf("%s, named %v: %+v %v", id, named, rule, err)
			}
		}
		if _, err := b.RuleFor(t.Context(), "x"); core.CodeOf(err) != core.CodeNotFound {
			t.Error(err)
		}
	}
	b := newBoth(t, false, true)
	if _, err := b.RuleFor(t.Context(), "x"); core.CodeOf(err) != core.CodeNotFound || b.started {
		t.Error(err, b.started)
	}
}

// TestReads_StartNothing: where no server has ever been, nothing is asked of one.
func TestReads_StartNothing(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, true)
	b.local.add(core.Run{ID: idLocal, State: core.RunComplete})
	ctx := t.Context()
	_, e1 := b.Approvals(ctx, true)
	_, e2 := b.Workflows(ctx, nil, 0, "")
	_, _, e3 := b.Resolve(ctx, "@latest")
	e4 := b.Events(ctx, "", api.Since{Any: 5}, false, func(core.Event) error { return nil })
	_, _, e5 := b.Tools(ctx)
	_, e6 := b.Prune(ctx, after(1))
	_, e7 := b.CallTool(ctx, "db:x", nil, core.Actor{}, 0)
	if err := errors.Join(e1, e2, e3, e4, e5, e6, e7); err != nil || b.started || len(b.remote.calls) != 0 {
		t.Errorf("%v, started %v, asked %q", err, b.started, b.remote.calls)
	}
	if _, err := b.Workflow(ctx, idRemote); core.CodeOf(err) != core.CodeNotFound {
		t.Error(err)
	}
}

func TestTools_Named(t *testing.T) {
	t.Parallel()
	b := newBoth(t, true, false)
	b.local.servers = []api.ServerInfo{{Name: "here"}}
	b.local.tools = []core.Tool{{Server: "here", Name: "a"}}
	b.remote.tools = []core.Tool{{Server: "here", Name: "other"}, {Server: "db", Name: "q"}}
	tools, problems, err := b.Tools(t.Context())
	if err != nil || len(problems) != 0 || len(tools) != 2 || tools[1].ID() != "db:q" {
		t.Errorf("%v, %v, %v", tools, problems, err)
	}
	for tool, h := range map[string]*half{"db:q": b.remote, "here:a": b.local} {
		b.local.plan = core.Plan{Calls: []core.PlanCall{{Tool: tool}}}
		if _, err := b.CallTool(t.Context(), tool, nil, core.Actor{}, 0); err != nil || !slices.Contains(h.calls, "call "+tool) {
			t.Errorf("%s: %v, %q", tool, err, h.calls)
		}
	}
	b.remote.down = errDown
	if tools, problems, err = b.Tools(t.Context()); err != nil || len(tools) != 1 || len(problems) != 1 {
		t.Errorf("%v, %v, %v", tools, problems, err)
	}
}

var errEnough = errors.New("enough")

// TestEvents_BothHalves: what was comes by time, what is as it arrives, each
// with its side.
func TestEvents_BothHalves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t, false, false)
		for i := range 6 {
			[]*half{b.local, b.remote}[i%2].emit(i)
		}
		var got []string
		err := b.Events(t.Context(), "", api.Since{}, true, func(e core.Event) error {
			if want := map[string]core.Side{"local": core.SideClient, "remote": core.SideServer}[e.Message]; e.Side != want {
				t.Errorf("%s says %s", e.Message, e.Side)
			}
			got = append(got, e.Message)
			switch len(got) {
			case 6:
				go func() {
					synctest.Wait()
					b.remote.emit(0)
					synctest.Wait()
					b.local.emit(0)
				}()
			case 8:
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) || strings.Join(got, " ") != "local remote local remote local remote remote local" {
			t.Errorf("%v, %v", got, err)
		}
		if err := b.Events(t.Context(), "", api.Since{Any: 3}, true, nil); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("a number of which half? %v", err)
		}
	})
}

// TestEvents_ServerDown: those of this machine go on, and a warning says so.
func TestEvents_ServerDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t, false, false)
		b.remote.down = errDown
		b.local.emit(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		err := b.Events(ctx, "", api.Since{}, true, func(core.Event) error {
			if n++; n == 1 {
				go func() {
					synctest.Wait()
					b.local.emit(2)
				}()
			}
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || n != 2 || len(b.warnings) != 1 {
			t.Errorf("%d events, %v, warnings %q", n, err, b.warnings)
		}
	})
}

// TestEvents_OfARun: one half numbers them, so a number to begin after counts.
func TestEvents_OfARun(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	b.remote.add(core.Run{ID: idRemote})
	b.remote.emit(1)
	b.remote.emit(2)
	n := 0
	err := b.Events(t.Context(), idRemote, api.Since{Any: 1}, false, func(e core.Event) error {
		if n++; e.Seq != 2 || e.Side != "" {
			t.Errorf("%+v", e)
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	b := newBoth(t, false, false)
	end := after(5)
	b.remote.add(core.Run{ID: idRemote, State: core.RunComplete, EndedAt: &end}, core.Run{ID: idTwin, State: core.RunRunning}, core.Run{ID: idLocal, State: core.RunFailed, UpdatedAt: after(50)})
	n, err := b.Prune(t.Context(), after(10))
	if err != nil || n != 2 || len(b.remote.calls) != 1 || !strings.Contains(b.remote.calls[0], string(idRemote)) {
		t.Errorf("%d, %v, %q", n, err, b.remote.calls)
	}
}
