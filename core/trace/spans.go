package trace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/casys-ai/pml/core"
)

// maxRuns bounds the runs whose beginnings are remembered. Spans of others begin
// with the first that is seen of them.
const maxRuns = 10_000

// Options are what a Tracer is made of.
type Options struct {
	// Environ reads the variables that decide whether there are traces at all:
	// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
	// OTEL_EXPORTER_OTLP[_TRACES]_PROTOCOL, OTEL_TRACES_EXPORTER and
	// OTEL_SDK_DISABLED. What else the standard names (headers, certificates,
	// time-outs, sampling, resource attributes) the OpenTelemetry library reads
	// from the process environment by itself.
	Environ func(name string) (string, bool)
	Version string
	Logger  *slog.Logger
	// Look is the header of a run that another process started, which says when it began
	// and what it is below; nil, or a zero one: its spans begin with what is first seen of it.
	Look func(id core.ID) core.Run
	// Exporter replaces the one over HTTP, for tests.
	Exporter sdk.SpanExporter
}

// Tracer makes spans of committed events: a run, its layers, their calls. The ids
// of trace and run come from the run's id, so that a run that another process goes
// on with stays one trace. No argument, result, message or label of a run gets
// into a span: names of tools, ids, layers, outcomes and error codes only.
//
// A nil Tracer does nothing. One that is not is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	look     func(core.ID) core.Run

	mu   sync.Mutex
	runs map[core.ID]*runTrace
}

// runTrace is what must be remembered of a run until its spans are made.
type runTrace struct {
	begun  time.Time
	parent trace.SpanContext // of the caller, if it said one
	// sampled is whether the run's trace is kept: one decision for all its spans.
	decided, sampled bool
	// again tells the spans of a retry from those of the run that failed.
	again  string
	layers map[int]*layerTrace
	calls  map[string]time.Time // when they started
	agent  bool                 // it has asked a model
}

type layerTrace struct {
	begun, last time.Time
	failed      bool
}

// NewTracer returns a tracer when the environment names a collector, and nil when
// it does not. The collector is not asked before the first span.
func NewTracer(ctx context.Context, o Options) (*Tracer, error) {
	exporter := o.Exporter
	if exporter == nil {
		on, err := enabled(o.Environ)
		if !on || err != nil {
			return nil, err
		}
		if exporter, err = otlptracehttp.New(ctx); err != nil {
			return nil, core.Errorf(core.CodeInvalidConfig, "cannot send traces as the OTEL_ variables say: %w", err)
		}
		if o.Logger != nil {
			// The library has one handler for the process; without it, it writes to stderr.
			otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Warn("cannot send traces", "error", err) }))
		}
	}
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "pml"), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "OTEL_RESOURCE_ATTRIBUTES cannot be read: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(res), sdk.WithIDGenerator(ids{}))
	if o.Look == nil {
		o.Look = func(core.ID) core.Run { return core.Run{} }
	}
	return &Tracer{
		provider: provider, tracer: provider.Tracer("github.com/casys-ai/pml"), look: o.Look, runs: map[core.ID]*runTrace{},
	}, nil
}

// enabled reports whether the environment asks for traces over HTTP.
func enabled(environ func(string) (string, bool)) (bool, error) {
	get := func(names ...string) string {
		for _, name := range names {
			if v, ok := environ(name); ok && strings.TrimSpace(v) != "" {
				return strings.ToLower(strings.TrimSpace(v))
			}
		}
		return ""
	}
	if environ == nil || get("OTEL_SDK_DISABLED") == "true" || get("OTEL_TRACES_EXPORTER") == "none" ||
		get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
		return false, nil
	}
	if p := get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p == "grpc" {
		return false, core.Errorf(core.CodeInvalidConfig, "traces are sent over HTTP, not over gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf and the endpoint to the collector's HTTP port")
	}
	return true, nil
}

// Close sends what is left, as long as the context lasts.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return core.Errorf(core.CodeInternal, "cannot send the last traces: %w", err)
	}
	return nil
}

// Parent makes a run a child of the span that a caller names (W3C traceparent), if
// it is told before the run's first span ends. Another process that goes on with
// the run does not know it: what that one adds has the run's own trace id.
func (t *Tracer) Parent(id core.ID, traceparent string) error {
	if t == nil || traceparent == "" {
		return nil
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	parent := trace.SpanContextFromContext(ctx)
	if !parent.IsValid() {
		return core.Errorf(core.CodeInvalidArguments, "%q is no W3C traceparent", core.Visible(traceparent, 60, false))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run(id, true).parent = parent
	return nil
}

// Observe makes spans of committed events of runs that this process runs.
func (t *Tracer) Observe(events []core.Event) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range events {
		t.observe(e, events[i+1:])
	}
}

// retry is what the start of a retry says.
const retry = "retry"

// run returns what is remembered of a run. Where there is no place for more it is
// forgotten at once. A run that does not begin now is asked for when it did.
func (t *Tracer) run(id core.ID, begins bool) *runTrace {
	r := t.runs[id]
	if r != nil {
		return r
	}
	r = &runTrace{layers: map[int]*layerTrace{}, calls: map[string]time.Time{}}
	if !begins {
		header := t.look(id)
		r.begun = header.CreatedAt
		if header.Below() { // whoever started it knows the call
			up := trace.SpanContextConfig{TraceID: t.traceOf(header.ParentID), SpanID: (&runTrace{}).rootID(header.ParentID), Remote: true}
			if t.sampled(&runTrace{}, up.TraceID) {
				up.TraceFlags = trace.FlagsSampled
			}
			r.parent = trace.NewSpanContext(up)
		}
	}
	if len(t.runs) < maxRuns {
		t.runs[id] = r
	}
	return r
}

// observe makes spans of an event; next are those that were committed with it, behind it.
func (t *Tracer) observe(e core.Event, next []core.Event) {
	switch e.Type {
	case core.EventWorkflowStart, core.EventTaskStart, core.EventTaskComplete, core.EventTaskError, core.EventCheckpoint,
		core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
	default:
		return // nothing is remembered for the sake of the others
	}
	r := t.run(e.RunID, e.Type == core.EventWorkflowStart)
	if r.begun.IsZero() {
		r.begun = e.At
	}
	switch e.Type {
	case core.EventWorkflowStart:
		r.begun = e.At
		if e.Message == retry {
			r.again = e.At.UTC().Format(time.RFC3339Nano)
		}
	case core.EventTaskStart:
		r.calls[e.TaskID] = e.At
		r.layer(e, e.At)
		t.below(r, e)
	case core.EventTaskComplete, core.EventTaskError:
		t.call(r, e, next)
		if child := core.ChildID(e.RunID, e.TaskID); t.runs[child] != nil && t.runs[child].begun.IsZero() {
			delete(t.runs, child) // no run was made of it
		}
	case core.EventCheckpoint:
		if e.Layer != nil {
			t.layer(r, e.RunID, *e.Layer, e.At)
		}
	case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
		for _, n := range slices.Sorted(maps.Keys(r.layers)) {
			t.layer(r, e.RunID, n, r.layers[n].last)
		}
		t.end(r, e)
		delete(t.runs, e.RunID)
	default:
		// The others say more of the same, for people.
	}
}

// below makes the run that a call starts, if it does, a child of the call's span.
func (t *Tracer) below(r *runTrace, e core.Event) {
	if e.Tool != core.RunTool && !core.StartsAgent(e.Tool) {
		return
	}
	tid := traceID(e.RunID)
	if r.parent.IsValid() {
		tid = r.parent.TraceID()
	}
	up := trace.SpanContextConfig{TraceID: tid, SpanID: callID(e, e.At), Remote: true}
	if t.sampled(r, tid) {
		up.TraceFlags = trace.FlagsSampled
	}
	t.run(core.ChildID(e.RunID, e.TaskID), true).parent = trace.NewSpanContext(up)
}

// traceOf is the trace of a run, which is that of the run at the top of its tree.
func (t *Tracer) traceOf(id core.ID) trace.TraceID {
	if r := t.runs[id]; r != nil && r.parent.IsValid() {
		return r.parent.TraceID()
	}
	if header := t.look(id); header.Below() {
		return t.traceOf(header.ParentID)
	}
	return traceID(id)
}

// layer notes that a layer was at work at a time.
func (r *runTrace) layer(e core.Event, begun time.Time) *layerTrace {
	n := 0
	if e.Layer != nil {
		n = *e.Layer
	}
	l := r.layers[n]
	if l == nil {
		l = &layerTrace{begun: begun}
		r.layers[n] = l
	}
	if e.At.After(l.last) {
		l.last = e.At
	}
	return l
}

// call makes the span of a call that has ended.
func (t *Tracer) call(r *runTrace, e core.Event, next []core.Event) {
	begun, known := r.calls[e.TaskID]
	if !known {
		begun = e.At.Add(-time.Duration(e.DurationMS * float64(time.Millisecond)))
	}
	delete(r.calls, e.TaskID)
	l := r.layer(e, begun)
	out := outcome(e)
	failed := out == core.OutcomeError || out == core.OutcomeDenied || out == core.OutcomeCancelled
	l.failed = l.failed || failed
	n := 0
	if e.Layer != nil {
		n = *e.Layer
	}
	server, _, _ := core.SplitTool(e.Tool)
	attrs := []attribute.KeyValue{
		attribute.String("pml.run.id", string(e.RunID)), attribute.String("pml.task.id", e.TaskID),
		attribute.String("pml.tool", e.Tool), attribute.String("pml.server", server),
		attribute.Int("pml.layer", n), attribute.String("pml.outcome", string(out)),
	}
	attrs = append(attrs, genAI(e, next)...)
	r.agent = r.agent || e.Tool == core.ModelTool
	t.span(r, e.RunID, callID(e, begun), r.layerID(e.RunID, n), "call "+e.Tool, begun, e.At, attrs, e.Error, failed)
}

// layer makes the span of a layer that is complete, or whose run has ended.
func (t *Tracer) layer(r *runTrace, id core.ID, n int, end time.Time) {
	l := r.layers[n]
	if l == nil {
		return // nothing was called in it
	}
	delete(r.layers, n)
	attrs := []attribute.KeyValue{attribute.String("pml.run.id", string(id)), attribute.Int("pml.layer", n)}
	t.span(r, id, r.layerID(id, n), r.rootID(id), fmt.Sprintf("layer %d", n), l.begun, end, attrs, nil, l.failed)
}

// end makes the span of a run that has ended.
func (t *Tracer) end(r *runTrace, e core.Event) {
	state := lastState(e.Type)
	attrs := []attribute.KeyValue{attribute.String("pml.run.id", string(e.RunID)), attribute.String("pml.state", string(state))}
	if e.RunName != "" {
		attrs = append(attrs, attribute.String("pml.run.name", e.RunName))
	}
	if r.agent {
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "invoke_agent"))
	}
	t.span(r, e.RunID, r.rootID(e.RunID), trace.SpanID{}, "run", r.begun, e.At, attrs, e.Error, state != core.RunComplete)
}

// span makes one span that has begun and ended. up is its parent; without one it is
// that of the run's caller.
func (t *Tracer) span(r *runTrace, run core.ID, id, up trace.SpanID, name string, begun, end time.Time, attrs []attribute.KeyValue, why *core.Error, failed bool) {
	tid := traceID(run)
	if r.parent.IsValid() {
		tid = r.parent.TraceID()
	}
	ctx := context.WithValue(context.Background(), idKey{}, pair{tid, id})
	if up.IsValid() {
		above := trace.SpanContextConfig{TraceID: tid, SpanID: up, Remote: true}
		if t.sampled(r, tid) {
			above.TraceFlags = trace.FlagsSampled
		}
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(above))
	} else if r.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, r.parent)
	}
	_, s := t.tracer.Start(ctx, name, trace.WithTimestamp(begun), trace.WithAttributes(attrs...))
	if failed {
		code := ""
		if why != nil {
			code = string(why.Code)
			s.SetAttributes(attribute.String("pml.error_code", code), attribute.String("error.type", code))
		}
		s.SetStatus(codes.Error, code)
	}
	if end.Before(begun) {
		end = begun
	}
	s.End(trace.WithTimestamp(end))
}

// sampled decides once for a run whether its trace is kept: its first spans are made
// before that of the run, by whose parent and trace the sampler decides.
func (t *Tracer) sampled(r *runTrace, tid trace.TraceID) bool {
	if !r.decided {
		ctx := context.WithValue(context.Background(), idKey{}, pair{tid, spanID("probe")})
		if r.parent.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, r.parent)
		}
		_, probe := t.tracer.Start(ctx, "run") // never ended, so never sent
		r.decided, r.sampled = true, probe.SpanContext().IsSampled()
	}
	return r.sampled
}

// ids gives a span the ids that its context names: they come from the run, not from
// chance.
type ids struct{}

type (
	idKey struct{}
	pair  struct {
		trace trace.TraceID
		span  trace.SpanID
	}
)

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, ok := ctx.Value(idKey{}).(pair)
	if !ok {
		return traceID(""), spanID("")
	}
	return p.trace, p.span
}

// NewSpanID implements sdk.IDGenerator.
func (g ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := g.NewIDs(ctx)
	return span
}

// traceID is the trace of a run.
func traceID(run core.ID) trace.TraceID {
	sum := sha256.Sum256([]byte("pml trace " + string(run)))
	return trace.TraceID(sum[:16])
}

func (r *runTrace) rootID(run core.ID) trace.SpanID { return spanID("run", run, r.again) }

func (r *runTrace) layerID(run core.ID, n int) trace.SpanID {
	return spanID("layer", run, r.again, strconv.Itoa(n))
}

// callID is the span of a call that began at a time.
func callID(e core.Event, begun time.Time) trace.SpanID {
	return spanID("call", e.RunID, e.TaskID, begun.UTC().Format(time.RFC3339Nano))
}

func spanID(what string, parts ...any) trace.SpanID {
	sum := sha256.Sum256([]byte("pml " + what + " " + fmt.Sprint(parts...)))
	return trace.SpanID(sum[:8])
}
