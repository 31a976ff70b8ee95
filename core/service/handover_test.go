package service_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/service"
)

const reads = `const v = await mcp.workspace.read_file({path: "a.txt"}); return v.content;`

// routed is a server whose configuration gives the files to the client.
func routed(t *testing.T) *process {
	t.Helper()
	m := newMachine(t)
	m.writeHome("config.json", `{"routing":{"client":["workspace:*"]}}`)
	return m.server()
}

// Code that needs the client's tools goes to the client, is run there, and is
// reported under the same id.
func TestRemote_ThereAndBack(t *testing.T) {
	t.Parallel()
	p := routed(t)
	p.supervise()
	alice := p.in(api.Scope{Owner: "alice"})
	given := alice.execute(reads, api.StatusExecuteLocally)
	if given.Code != reads || !cmp.Equal(given.ClientTools, []string{"workspace:read_file"}) || !cmp.Equal(given.ToolsUsed, given.ClientTools) || given.Plan == nil {
		t.Errorf("%+v", given)
	}
	w, err := alice.Workflow(alice.ctx(), given.WorkflowID)
	if err != nil || w.State != core.RunRunning || !w.Remote {
		t.Errorf("%v %+v", err, w.Run)
	}
	// The client's half.
	c := newMachine(t).client()
	_, err = c.TraceOf(c.ctx(), given.WorkflowID)
	code(t, err, core.CodeNotFound)
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{ID: given.WorkflowID, Origin: "unix:/s", Code: given.Code, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusSuccess || r.WorkflowID != given.WorkflowID {
		t.Fatalf("%v %+v", err, r)
	}
	// Given again, it does not run again.
	r, err = c.Execute(c.ctx(), api.ExecuteRequest{ID: given.WorkflowID, Origin: "unix:/s", Code: given.Code, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusComplete || string(r.Result) != `"hello"` {
		t.Fatalf("%v %+v", err, r)
	}
	trace, err := c.TraceOf(c.ctx(), given.WorkflowID)
	if err != nil || len(trace.Records) == 0 {
		t.Fatalf("%v %+v", err, trace)
	}
	raw, err := json.Marshal(trace) // as it is sent
	if err != nil {
		t.Fatal(err)
	}
	var sent api.Trace
	if err := json.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	bob := p.in(api.Scope{Owner: "bob"})
	code(t, bob.Trace(bob.ctx(), given.WorkflowID, sent), core.CodeNotFound)
	for range 2 { // again is no error
		if err := alice.Trace(alice.ctx(), given.WorkflowID, sent); err != nil {
			t.Fatal(err)
		}
	}
	sent.Result = json.RawMessage(`"other"`)
	code(t, alice.Trace(alice.ctx(), given.WorkflowID, sent), core.CodeAlreadyDecided)
	w, err = alice.Workflow(alice.ctx(), given.WorkflowID)
	if err != nil || w.State != core.RunComplete || string(w.Result) != `"hello"` || len(w.Layers) != 1 {
		t.Errorf("%v %+v", err, w)
	}
	var types []core.EventType
	if err := alice.Events(alice.ctx(), given.WorkflowID, api.Since{}, false, func(e core.Event) error { types = append(types, e.Type); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]core.EventType{core.EventWorkflowStart, core.EventTaskComplete, core.EventWorkflowComplete}, types); diff != "" {
		t.Error(diff)
	}
	if n := service.Held(p.Service); n != 0 {
		t.Errorf("the server holds %d runs", n)
	}
}

// A server names the run that it gives away. It gets none of this machine's own
// runs that way.
func TestRemote_IDsOfOthers(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	own := c.execute(`return 1`, api.StatusSuccess)
	given := core.ID("0f0f0f0f-1111-4222-8333-444444444444")
	execute := func(id core.ID, origin, code string) error {
		_, err := c.Execute(c.ctx(), api.ExecuteRequest{ID: id, Origin: origin, Code: code, By: me, Wait: -1})
		return err
	}
	code(t, execute(given, "https://a", `return 2`), "")
	code(t, execute(given, "https://a", `return 2`), "")
	for id, want := range map[core.ID]core.Code{
		own.WorkflowID: core.CodeDigestMismatch, given: core.CodeDigestMismatch, "@latest": core.CodeInvalidArguments,
		own.WorkflowID[:8]: core.CodeInvalidArguments, "../x": core.CodeInvalidArguments,
	} {
		code(t, execute(id, "https://b", `return 2`), want)
	}
	code(t, execute(own.WorkflowID, "", `return 1`), core.CodeDigestMismatch)
	code(t, execute(given, "https://a", `return 3`), core.CodeDigestMismatch)
}

func TestRemote_WhatTheServerDoesNotDo(t *testing.T) {
	t.Parallel()
	p := routed(t)
	r := p.execute(reads, api.StatusExecuteLocally)
	_, err := p.Retry(p.ctx(), r.WorkflowID, me, 0)
	code(t, err, core.CodeNotWaiting)
	_, err = p.Replan(p.ctx(), r.WorkflowID, []core.TaskSpec{{ID: "x", Tool: "a:b"}}, me, "")
	code(t, err, core.CodeNotWaiting)
	_, err = p.decide(r.WorkflowID, api.Decision{Approve: true})
	code(t, err, core.CodeNotWaiting)
	if got, err := p.Continue(p.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me}); err != nil || got.Status != api.StatusRunning {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := p.Abort(p.ctx(), r.WorkflowID, me, "enough"); err != nil || got.Status != api.StatusAborted || got.Reason != "enough" {
		t.Errorf("%v %+v", err, got)
	}
	code(t, p.Trace(p.ctx(), r.WorkflowID, api.Trace{State: core.RunComplete}), core.CodeAlreadyDecided)
	// A run of the server's own cannot be reported.
	own := p.execute(`return 1`, api.StatusSuccess)
	code(t, p.Trace(p.ctx(), own.WorkflowID, api.Trace{State: core.RunComplete}), core.CodeNotWaiting)
	// What must outlive its caller runs here whatever routing says.
	if got, err := p.Execute(p.ctx(), api.ExecuteRequest{Code: reads, Detach: true, By: me, Wait: -1}); err != nil || got.Status != api.StatusSuccess {
		t.Errorf("%v %+v", err, got)
	}
}

func TestRemote_DAGAndKey(t *testing.T) {
	t.Parallel()
	p := routed(t)
	req := api.ExecuteRequest{
		Tasks: []core.TaskSpec{{ID: "t1", Tool: "workspace:read_file", Arguments: json.RawMessage(`{"path":"a.txt"}`)}}, IdempotencyKey: "k", By: me, Wait: -1,
	}
	r, err := p.Execute(p.ctx(), req)
	if err != nil || r.Status != api.StatusExecuteLocally || r.Workflow == nil || len(r.Workflow.Tasks) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	again, err := p.Execute(p.ctx(), req)
	if err != nil || again.Status != api.StatusExecuteLocally || again.WorkflowID != r.WorkflowID || again.Workflow == nil {
		t.Errorf("%v %+v", err, again)
	}
}

func TestRemote_Nothing(t *testing.T) {
	t.Parallel()
	newMachine(t).server().execute(reads, api.StatusSuccess) // a server that was told nothing runs all
}

// A run that was given away and is not heard of any more does not run for ever.
func TestRemote_Abandoned(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.writeHome("config.json", `{"routing":{"client":["workspace:*"]}}`)
	p := m.server()
	prune := func() {
		t.Helper()
		if _, err := p.Prune(p.ctx(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	old := p.execute(reads, api.StatusExecuteLocally).WorkflowID
	m.clock.forward(23 * time.Hour)
	young := p.execute(reads, api.StatusExecuteLocally).WorkflowID
	prune()
	p.until(old, is(core.RunRunning))
	m.clock.forward(2 * time.Hour)
	prune()
	if run := p.until(old, is(core.RunAborted)); run.Error == nil || run.Error.Code != core.CodeWorkflowExpired {
		t.Errorf("%+v", run.Error)
	}
	p.until(young, is(core.RunRunning))
	code(t, p.Trace(p.ctx(), old, api.Trace{State: core.RunComplete}), core.CodeAlreadyDecided)
	if err := p.Trace(p.ctx(), young, api.Trace{State: core.RunComplete}); err != nil {
		t.Error(err)
	}
}

// Times that cannot be are those of the report, whose events happen when it comes;
// what it says was called is measured nowhere.
func TestTrace_Times(t *testing.T) {
	t.Parallel()
	p := routed(t)
	r := p.execute(reads, api.StatusExecuteLocally)
	before := p.until(r.WorkflowID, is(core.RunRunning)).CreatedAt
	rec := func(id string, started, at time.Time) core.Record {
		return core.Record{Kind: core.RecordSettled, CallID: id, Tool: "x:y", Outcome: core.OutcomeSuccess, StartedAt: started, At: at}
	}
	far := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
	trace := api.Trace{State: core.RunComplete, ActiveMS: 1e300, Records: []core.Record{
		rec("a", far, far), rec("b", time.Time{}, time.Time{}.Add(time.Hour)), rec("c", before, before.Add(time.Second)), rec("d", far.AddDate(-8000, 0, 0), before),
	}}
	if err := p.Trace(p.ctx(), r.WorkflowID, trace); err != nil {
		t.Fatal(err)
	}
	run := p.until(r.WorkflowID, is(core.RunComplete))
	records, err := p.Records(p.ctx(), r.WorkflowID, 0)
	if err != nil || len(records) != 4 || run.ActiveMS > float64(time.Hour.Milliseconds()) {
		t.Fatalf("%v: %d records, ran %v ms", err, len(records), run.ActiveMS)
	}
	for _, got := range records {
		if got.At.Before(before) || got.At.After(run.UpdatedAt.Add(time.Minute)) || got.DurationMS() < 0 || got.DurationMS() > 1000 {
			t.Errorf("%s: %v, %v ms", got.CallID, got.At, got.DurationMS())
		}
	}
	if got := records[2]; !got.At.Equal(before.Add(time.Second)) || got.DurationMS() != 1000 {
		t.Errorf("a time that can be: %+v", got)
	}
	events := 0
	if err := p.Events(p.ctx(), r.WorkflowID, api.Since{}, false, func(e core.Event) error {
		events++
		if e.At.Before(before) || e.At.After(run.UpdatedAt) {
			t.Errorf("%s at %v", e.Type, e.At)
		}
		return nil
	}); err != nil || events != 6 {
		t.Errorf("%v: %d events", err, events)
	}
	for _, e := range p.published() {
		if e.Tool != "" {
			t.Errorf("measured: %+v", e)
		}
	}
	if len(p.published()) != 2 {
		t.Errorf("published %+v", p.published())
	}
}

func TestTrace_NotValid(t *testing.T) {
	t.Parallel()
	p := routed(t)
	r := p.execute(reads, api.StatusExecuteLocally)
	many := make([]core.Record, 50_000)
	for i := range many {
		many[i].Kind = core.RecordSettled
	}
	one := func(change func(*core.Record)) api.Trace {
		rec := core.Record{Kind: core.RecordSettled, CallID: "c1", Tool: "workspace:read_file", Outcome: core.OutcomeSuccess}
		change(&rec)
		return api.Trace{State: core.RunComplete, Records: []core.Record{rec}}
	}
	deep := json.RawMessage(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))
	for name, trace := range map[string]api.Trace{
		"Outcome":   one(func(r *core.Record) { r.Outcome = "good" }),
		"None":      one(func(r *core.Record) { r.Outcome = "" }),
		"TooEarly":  one(func(r *core.Record) { r.Kind = core.RecordStarted }),
		"Tool":      one(func(r *core.Record) { r.Tool = "a:\x1b[31mred" }),
		"LongTool":  one(func(r *core.Record) { r.Tool = strings.Repeat("x", 201) }),
		"NoCall":    one(func(r *core.Record) { r.CallID = "" }),
		"Call":      one(func(r *core.Record) { r.CallID = "c\u202e1" }),
		"DeepArgs":  one(func(r *core.Record) { r.Args = deep }),
		"DeepSent":  one(func(r *core.Record) { r.Sent = deep }),
		"Deep":      one(func(r *core.Record) { r.Result = deep }),
		"FarLayer":  one(func(r *core.Record) { r.Layer = 5 }),
		"Attempt":   one(func(r *core.Record) { r.Attempt = -1 }),
		"ActiveMS":  {State: core.RunComplete, ActiveMS: -1},
		"Infinite":  {State: core.RunComplete, ActiveMS: math.Inf(1)},
		"NotNumber": {State: core.RunComplete, ActiveMS: math.NaN()},
		"DeepEnd":   {State: core.RunComplete, Result: deep},
		"Running":   {State: core.RunRunning}, "NoState": {}, "Unknown": {State: "done"}, "NoError": {State: core.RunFailed},
		"Error":   {State: core.RunComplete, Error: core.Errorf(core.CodeToolFailed, "x")},
		"Kind":    {State: core.RunComplete, Records: []core.Record{{Kind: "x"}}},
		"Layer":   {State: core.RunComplete, Records: []core.Record{{Kind: core.RecordSettled, Layer: -1}}},
		"TooMany": {State: core.RunComplete, Records: many},
		"JSON":    {State: core.RunComplete, Result: json.RawMessage(`{`)},
	} {
		if err := p.Trace(p.ctx(), r.WorkflowID, trace); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%s: %v", name, err)
		}
	}
}
