package trace_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/trace"
)

const (
	run    = core.ID("019a0000-0000-4000-8000-000000000001")
	secret = "hunter2-the-secret"
)

var begun = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func at(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }

func event(t core.EventType, ms int, more func(*core.Event)) core.Event {
	e := core.Event{Type: t, At: at(ms), RunID: run}
	if more != nil {
		more(&e)
	}
	return e
}

func task(t core.EventType, ms int, id, tool string, n int, more func(*core.Event)) core.Event {
	return event(t, ms, func(e *core.Event) {
		e.TaskID, e.Tool, e.Layer = id, tool, new(n)
		if more != nil {
			more(e)
		}
	})
}

// script is a run of two layers whose last call fails, with a secret wherever one
// could be.
func script() []core.Event {
	return []core.Event{
		event(core.EventWorkflowStart, 0, nil),
		task(core.EventTaskStart, 10, "a", "fs:read", 0, nil),
		task(core.EventTaskStart, 11, "b", "fs:stat", 0, nil),
		task(core.EventTaskLog, 12, "a", "fs:read", 0, func(e *core.Event) { e.Message = secret }),
		task(core.EventTaskComplete, 30, "a", "fs:read", 0, func(e *core.Event) { e.DurationMS = 20; e.Data = json.RawMessage(`"` + secret + `"`) }),
		task(core.EventTaskComplete, 41, "b", "fs:stat", 0, func(e *core.Event) { e.DurationMS = 30; e.Message = "skipped" }),
		event(core.EventCheckpoint, 42, func(e *core.Event) { e.Layer = new(0) }),
		event(core.EventApprovalRequested, 50, func(e *core.Event) { e.ApprovalID, e.Message = "ap", secret }),
		event(core.EventApprovalResolved, 2050, func(e *core.Event) {
			e.ApprovalID, e.Data = "ap", json.RawMessage(`{"state":"approved","decided_by":{"who":"`+secret+`"}}`)
		}),
		task(core.EventTaskStart, 2060, "c", "net:get", 1, nil),
		task(core.EventTaskError, 2160, "c", "net:get", 1, func(e *core.Event) {
			e.DurationMS, e.Message, e.Error = 100, "error", core.Errorf(core.CodeToolFailed, "%s", secret)
		}),
		event(core.EventWorkflowFailed, 2170, func(e *core.Event) { e.Message, e.Error = secret, core.Errorf(core.CodeToolFailed, "%s", secret) }),
	}
}

func scrape(t *testing.T, m *trace.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := trace.NewMetrics(trace.Sources{
		Kind: func(core.ID) core.Kind { return core.KindDAG },
		Approval: func(id core.ID) (core.Approval, bool) {
			return core.Approval{ID: id, Type: core.ApproveTool, CreatedAt: at(50), DecidedBy: &core.DecidedBy{At: at(2050)}}, true
		},
		Standing: func(context.Context) (trace.Standing, error) {
			return trace.Stand([]core.Run{
				{Kind: core.KindDAG, State: core.RunWaiting}, {Kind: core.KindDAG, State: core.RunWaiting},
				{Kind: core.KindCode, State: core.RunRunning}, {Kind: core.KindCode, State: core.RunComplete},
			}, []core.Approval{{Type: core.ApproveLayer, State: core.ApprovalOpen}, {Type: core.ApproveLayer, State: core.ApprovalDenied}}), nil
		},
	})
	m.Observe("", script())
	m.Observe(core.KindCode, script()[:1])
	m.ObserveStore("commit", 2*time.Millisecond, false)
	m.ObserveStore("commit", time.Millisecond, true)
	m.ObserveEventLag(3 * time.Millisecond)
	m.AddReaders(2)
	m.AddReaders(-1)
	text := scrape(t, m)
	for _, line := range []string{
		`pml_runs_started_total{kind="dag"} 1`,
		`pml_runs_started_total{kind="code"} 1`,
		`pml_runs_ended_total{kind="dag",state="failed"} 1`,
		`pml_layers_completed_total 1`,
		`pml_calls_total{outcome="success",server="fs"} 1`,
		`pml_calls_total{outcome="skipped",server="fs"} 1`,
		`pml_calls_total{outcome="error",server="net"} 1`,
		`pml_call_duration_seconds_count{server="fs"} 1`,
		`pml_call_duration_seconds_sum{server="net"} 0.1`,
		`pml_approval_decision_seconds_sum{decision="approved",type="tool_permission"} 2`,
		`pml_store_operation_seconds_count{operation="commit",outcome="ok"} 1`,
		`pml_store_operation_seconds_count{operation="commit",outcome="failed"} 1`,
		`pml_event_lag_seconds_sum 0.003`,
		`pml_event_readers 1`,
		`pml_runs{kind="dag",state="waiting"} 2`,
		`pml_runs{kind="code",state="running"} 1`,
		`pml_approvals_waiting{type="layer"} 1`,
		`pml_approvals_waiting{type="integrity"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, secret) || strings.Contains(text, string(run)) || strings.Contains(text, "fs:read") {
		t.Error("values, ids or tools in the labels")
	}
	if t.Failed() {
		t.Log(regexp.MustCompile(`(?m)^(#|go_|process_|.*_bucket).*\n`).ReplaceAllString(text, ""))
	}
}

func TestMetrics_LabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := trace.NewMetrics(trace.Sources{})
	for n := range 1000 {
		m.Observe("", []core.Event{
			task(core.EventTaskComplete, n, "t", strings.Repeat("s", 1+n%90)+string(rune('a'+n%26))+strings.Repeat("x", n/90)+":t", 0, nil),
			task(core.EventTaskError, n, "t", "fs:t", 0, func(e *core.Event) { e.Message = strings.Repeat("m", n) }),
		})
	}
	m.Observe("", []core.Event{task(core.EventTaskComplete, 0, "t", "no server", 0, nil), task(core.EventTaskComplete, 0, "t", "\xff:t", 0, nil)})
	text := scrape(t, m)
	if n := strings.Count(text, "\npml_calls_total{"); n > 210 {
		t.Errorf("%d series", n)
	}
	if !strings.Contains(text, `server="other"`) || !strings.Contains(text, `pml_calls_total{outcome="error",server="fs"} 1000`) {
		t.Error("what is not told apart is not counted")
	}
}

// A store that does not answer costs the gauges, not the scrape.
func TestMetrics_WithoutStore(t *testing.T) {
	t.Parallel()
	m := trace.NewMetrics(trace.Sources{Standing: func(context.Context) (trace.Standing, error) { return trace.Standing{}, errors.New("away") }})
	if text := scrape(t, m); strings.Contains(text, "pml_runs{") || !strings.Contains(text, "pml_layers_completed_total 0") {
		t.Error(text)
	}
}

func TestNil(t *testing.T) {
	t.Parallel()
	var m *trace.Metrics
	m.Observe("", script())
	m.ObserveStore("x", 0, false)
	m.ObserveEventLag(0)
	m.AddReaders(1)
	tr, err := trace.NewTracer(t.Context(), trace.Options{Environ: environ(nil)})
	if err != nil || tr != nil {
		t.Fatalf("%v %v", tr, err)
	}
	tr.Observe(script())
	if err := errors.Join(tr.Parent(run, "x"), tr.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

func environ(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// spans are what a tracer makes of events.
func spans(t *testing.T, do func(*trace.Tracer)) tracetest.SpanStubs {
	t.Helper()
	kept := &keeper{InMemoryExporter: tracetest.NewInMemoryExporter()}
	tr, err := trace.NewTracer(t.Context(), trace.Options{Exporter: kept, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	do(tr)
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kept.GetSpans()
}

// keeper keeps the spans after the end, which the exporter it is made of does not.
type keeper struct{ *tracetest.InMemoryExporter }

func (*keeper) Shutdown(context.Context) error { return nil }

var _ sdk.SpanExporter = &keeper{}

func find(t *testing.T, list tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(list, func(s tracetest.SpanStub) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %q in %d", name, len(list))
	}
	return list[i]
}

func TestTracer_Tree(t *testing.T) {
	t.Parallel()
	list := spans(t, func(tr *trace.Tracer) { tr.Observe(script()) })
	if len(list) != 6 {
		t.Fatalf("%d spans", len(list))
	}
	root := find(t, list, "run")
	if root.Parent.IsValid() || !root.StartTime.Equal(at(0)) || !root.EndTime.Equal(at(2170)) || root.Status.Code != codes.Error || root.Status.Description != "tool_failed" {
		t.Errorf("%+v", root)
	}
	for name, want := range map[string]struct {
		parent     string
		begun, end int
		status     codes.Code
	}{
		"layer 0": {"run", 10, 42, codes.Unset}, "layer 1": {"run", 2060, 2160, codes.Error},
		"call fs:read": {"layer 0", 10, 30, codes.Unset}, "call fs:stat": {"layer 0", 11, 41, codes.Unset},
		"call net:get": {"layer 1", 2060, 2160, codes.Error},
	} {
		s := find(t, list, name)
		if s.Parent.SpanID() != find(t, list, want.parent).SpanContext.SpanID() || s.SpanContext.TraceID() != root.SpanContext.TraceID() {
			t.Errorf("%s is not below %s", name, want.parent)
		}
		if !s.StartTime.Equal(at(want.begun)) || !s.EndTime.Equal(at(want.end)) || s.Status.Code != want.status {
			t.Errorf("%s: %s to %s, %v", name, s.StartTime, s.EndTime, s.Status)
		}
	}
}

// Nothing of what a run says or works on gets into a span.
func TestTracer_NoValues(t *testing.T) {
	t.Parallel()
	list := spans(t, func(tr *trace.Tracer) { tr.Observe(script()) })
	raw, err := json.Marshal(list)
	if err != nil || strings.Contains(string(raw), secret) {
		t.Errorf("%v %s", err, raw)
	}
	allowed := []string{"pml.run.id", "pml.task.id", "pml.tool", "pml.server", "pml.layer", "pml.outcome", "pml.state", "pml.error_code",
		"error.type", "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id", "mcp.method.name"}
	for _, s := range list {
		for _, a := range s.Attributes {
			if !slices.Contains(allowed, string(a.Key)) {
				t.Errorf("%s has %s", s.Name, a.Key)
			}
		}
	}
}

// TestTracer_GenAI: calls have the names of the conventions for generative AI and for MCP,
// of an answer what it has used, and nothing of what was said.
func TestTracer_GenAI(t *testing.T) {
	t.Parallel()
	list := spans(t, func(tr *trace.Tracer) {
		tr.Observe([]core.Event{event(core.EventWorkflowStart, 0, nil), task(core.EventTaskStart, 1, "m1", core.ModelTool, 0, nil)})
		tr.Observe([]core.Event{
			task(core.EventTaskComplete, 9, "m1", core.ModelTool, 0, nil),
			task(core.EventAgentIteration, 9, "m1", core.ModelTool, 0, func(e *core.Event) {
				e.Message = secret
				e.Data = json.RawMessage(`{"model":"claude","stop":"tool_use","usage":{"input":90,"output":20,"cache_read":10,"cache_write":1}}`)
			}),
			task(core.EventTaskComplete, 19, "m1.t1", core.RunTool, 1, nil), task(core.EventTaskComplete, 20, "c1", "fs:read", 1, nil), task(core.EventTaskComplete, 21, "c2", core.SleepTool, 1, nil),
			task(core.EventTaskComplete, 22, "m2", core.ModelTool, 2, nil), event(core.EventWorkflowComplete, 30, nil),
		})
	})
	for name, want := range map[string]string{
		"run":                    `gen_ai.operation.name=invoke_agent`,
		"call pml:model":         `gen_ai.operation.name=chat gen_ai.request.model=claude gen_ai.response.finish_reasons=["tool_use"] gen_ai.usage.cache_creation.input_tokens=1 gen_ai.usage.cache_read.input_tokens=10 gen_ai.usage.input_tokens=101 gen_ai.usage.output_tokens=20`,
		"call pml:run":           `gen_ai.operation.name=execute_tool gen_ai.tool.call.id=m1.t1 gen_ai.tool.name=pml_execute`,
		"call fs:read":           `gen_ai.operation.name=execute_tool gen_ai.tool.call.id=c1 gen_ai.tool.name=read mcp.method.name=tools/call`,
		"call " + core.SleepTool: ``,
	} {
		var got []string
		for _, a := range find(t, list, name).Attributes {
			if key := string(a.Key); !strings.HasPrefix(key, "pml.") {
				got = append(got, key+"="+a.Value.String())
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s has %s, want %s", name, text, want)
		}
	}
	if raw, err := json.Marshal(list); err != nil || strings.Contains(string(raw), secret) {
		t.Errorf("%v %s", err, raw)
	}
}

// A run that another process goes on with stays one trace, and its spans keep
// their parents.
func TestTracer_TakenOver(t *testing.T) {
	t.Parallel()
	all := script()
	whole := spans(t, func(tr *trace.Tracer) { tr.Observe(all) })
	first := spans(t, func(tr *trace.Tracer) { tr.Observe(all[:7]) })
	second := spans(t, func(tr *trace.Tracer) { tr.Observe(all[7:]) })
	type key struct{ Name, Trace, Span, Parent string }
	keys := func(list tracetest.SpanStubs) (out []key) {
		for _, s := range list {
			out = append(out, key{s.Name, s.SpanContext.TraceID().String(), s.SpanContext.SpanID().String(), s.Parent.SpanID().String()})
		}
		slices.SortFunc(out, func(a, b key) int { return strings.Compare(a.Name, b.Name) })
		return out
	}
	if diff := cmp.Diff(keys(whole), keys(append(first, second...))); diff != "" {
		t.Error(diff)
	}
}

// The runs below an agent are in its trace, each below the call that has started it, also
// where another process goes on with one.
func TestTracer_Below(t *testing.T) {
	t.Parallel()
	child := core.ChildID(run, "m1.t1")
	inner := core.ChildID(child, "c1")
	of := func(id core.ID, list ...core.Event) []core.Event {
		for i := range list {
			list[i].RunID = id
		}
		return list
	}
	ends := of(inner, task(core.EventTaskComplete, 9, "m1", core.ModelTool, 0, nil), event(core.EventWorkflowComplete, 10, nil))
	all := slices.Concat(
		of(run, event(core.EventWorkflowStart, 0, nil), task(core.EventTaskStart, 1, "m1.t1", core.RunTool, 0, nil), task(core.EventTaskStart, 1, "m1.t2", core.RunTool, 0, nil)),
		of(child, event(core.EventWorkflowStart, 2, nil), task(core.EventTaskStart, 3, "c1", core.DelegateTool, 0, nil)),
		of(inner, event(core.EventWorkflowStart, 4, nil)), ends,
		of(child, task(core.EventTaskComplete, 11, "c1", core.DelegateTool, 0, nil), event(core.EventWorkflowComplete, 12, nil)),
		of(run, task(core.EventTaskComplete, 13, "m1.t1", core.RunTool, 0, nil), task(core.EventTaskComplete, 13, "m1.t2", core.RunTool, 0, nil), event(core.EventWorkflowComplete, 14, nil)),
	)
	list := spans(t, func(tr *trace.Tracer) { tr.Observe(all) })
	up := map[string]string{}
	for _, s := range list {
		if s.SpanContext.TraceID() != list[0].SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		for _, a := range s.Attributes {
			if string(a.Key) == "pml.run.id" && s.Name == "run" {
				up[a.Value.AsString()] = s.Parent.SpanID().String()
			}
		}
	}
	if got, want := up[string(child)], find(t, list, "call "+core.RunTool).SpanContext.SpanID().String(); got != want {
		t.Errorf("the script is below %s, want the call %s", got, want)
	}
	if got, want := up[string(inner)], find(t, list, "call "+core.DelegateTool).SpanContext.SpanID().String(); got != want {
		t.Errorf("the agent inside is below %s, want the call %s", got, want)
	}
	headers := map[core.ID]core.Run{run: {ID: run, Kind: core.KindAgent}, child: {ID: child, Kind: core.KindCode, ParentID: run, UnderAgent: run}, inner: {ID: inner, Kind: core.KindAgent, ParentID: child, UnderAgent: run}}
	kept := &keeper{tracetest.NewInMemoryExporter()}
	tr, err := trace.NewTracer(t.Context(), trace.Options{Exporter: kept, Look: func(id core.ID) core.Run { return headers[id] }})
	if err != nil {
		t.Fatal(err)
	}
	tr.Observe(ends)
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range kept.GetSpans() {
		if s.SpanContext.TraceID() != list[0].SpanContext.TraceID() {
			t.Errorf("in another process %s is in another trace", s.Name)
		}
	}
}

func TestTracer_Begun(t *testing.T) {
	t.Parallel()
	kept := &keeper{tracetest.NewInMemoryExporter()}
	tr, err := trace.NewTracer(t.Context(), trace.Options{Exporter: kept, Look: func(core.ID) core.Run { return core.Run{CreatedAt: at(-5000)} }})
	if err != nil {
		t.Fatal(err)
	}
	tr.Observe(script()[7:])
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := find(t, kept.GetSpans(), "run"); !s.StartTime.Equal(at(-5000)) {
		t.Error(s.StartTime)
	}
}

func TestTracer_Retry(t *testing.T) {
	t.Parallel()
	list := spans(t, func(tr *trace.Tracer) {
		tr.Observe(script())
		tr.Observe([]core.Event{
			event(core.EventWorkflowStart, 5000, func(e *core.Event) { e.Message = "retry" }),
			task(core.EventTaskStart, 5010, "c", "net:get", 1, nil),
			task(core.EventTaskComplete, 5020, "c", "net:get", 1, nil),
			event(core.EventWorkflowComplete, 5030, nil),
		})
	})
	seen := map[string]string{}
	for _, s := range list {
		id := s.SpanContext.SpanID().String()
		if old, twice := seen[id]; twice {
			t.Errorf("%s and %s have one id", old, s.Name)
		}
		seen[id] = s.Name
	}
	if len(list) != 9 {
		t.Errorf("%d spans", len(list))
	}
}

func TestTracer_Parent(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	list := spans(t, func(tr *trace.Tracer) {
		for _, bad := range []string{"x", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "\x1b[31m"} {
			if err := tr.Parent(run, bad); core.CodeOf(err) != core.CodeInvalidArguments || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%q: %v", bad, err)
			}
		}
		if err := tr.Parent(run, parent+"01"); err != nil {
			t.Error(err)
		}
		tr.Observe(script())
	})
	root := find(t, list, "run")
	if root.Parent.SpanID().String() != "b7ad6b7169203331" || len(list) != 6 {
		t.Errorf("%+v", root.Parent)
	}
	for _, s := range list {
		if s.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	// A caller that keeps no trace keeps none of the run.
	none := spans(t, func(tr *trace.Tracer) {
		if err := tr.Parent(run, parent+"00"); err != nil {
			t.Error(err)
		}
		tr.Observe(script())
	})
	if len(none) != 0 {
		t.Errorf("%d spans of a trace that is not sampled", len(none))
	}
}

func TestNewTracer_Environment(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, tt := range map[string]struct {
		vars map[string]string
		on   bool
		code core.Code
	}{
		"Nothing":  {nil, false, ""},
		"Empty":    {map[string]string{endpoint: " "}, false, ""},
		"Disabled": {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, ""},
		"None":     {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		"GRPC":     {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, core.CodeInvalidConfig},
		"On":       {map[string]string{endpoint: "http://127.0.0.1:1"}, true, ""},
		"Traces":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
	} {
		tr, err := trace.NewTracer(t.Context(), trace.Options{Environ: environ(tt.vars)})
		if core.CodeOf(err) != tt.code || (tr != nil) != tt.on {
			t.Errorf("%s: %v %v", name, tr, err)
		}
		if err := tr.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a collector gets over HTTP: spans, no values. It is not parallel because the
// library reads the endpoint from the process environment.
func TestTracer_OTLP(t *testing.T) {
	got := make(chan []byte, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "k" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v %s %v", err, r.URL, r.Header)
		}
		got <- body
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=k")
	tr, err := trace.NewTracer(t.Context(), trace.Options{Environ: environ(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}), Version: "test"})
	if err != nil || tr == nil {
		t.Fatalf("%v %v", tr, err)
	}
	tr.Observe(script())
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for len(got) > 0 {
		all = append(all, <-got...)
	}
	for _, want := range []string{"call fs:read", "layer 1", string(run), "tool_failed", "service.name"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("the collector did not get %q", want)
		}
	}
	if strings.Contains(string(all), secret) {
		t.Error("the collector got a value")
	}
}

func BenchmarkObserve(b *testing.B) {
	events := script()
	m := trace.NewMetrics(trace.Sources{})
	var off *trace.Tracer
	b.ReportAllocs()
	for b.Loop() {
		m.Observe("", events)
		off.Observe(events)
	}
}
