package trace

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// maxServers bounds the values of the label "server"; those that come later are
// counted as "other".
const maxServers = 200

// other stands for values of labels that are not told apart.
const other = "other"

// Sources are where metrics look up what events do not say. Each may be nil.
type Sources struct {
	// Standing says what runs and waits now. It is asked at each scrape, so that
	// the figures are right after a restart and beside other servers too.
	Standing func(ctx context.Context) (Standing, error)
	// Kind is of a run of which nobody has said it, when that starts and ends.
	Kind func(id core.ID) core.Kind
	// Approval is asked when one is resolved.
	Approval func(id core.ID) (core.Approval, bool)
}

// Standing is what runs and waits at a time.
type Standing struct {
	Runs      map[RunKind]int
	Approvals map[core.ApprovalType]int // open ones
}

// RunKind is a label of runs.
type RunKind struct {
	State core.RunState
	Kind  core.Kind
}

// Stand counts runs and open approvals, of which a caller has lists.
func Stand(runs []core.Run, approvals []core.Approval) Standing {
	s := Standing{Runs: map[RunKind]int{}, Approvals: map[core.ApprovalType]int{}}
	for _, r := range runs {
		if !r.State.Final() {
			s.Runs[RunKind{r.State, r.Kind}]++
		}
	}
	for _, a := range approvals {
		if a.State == core.ApprovalOpen {
			s.Approvals[a.Type]++
		}
	}
	return s
}

// Metrics counts what happens, for Prometheus. It is safe for concurrent use; a nil
// one counts nothing.
type Metrics struct {
	registry *prometheus.Registry
	src      Sources

	started, ended  *prometheus.CounterVec
	layers          prometheus.Counter
	calls           *prometheus.CounterVec
	callTime        *prometheus.HistogramVec
	decisions       *prometheus.HistogramVec
	storeTime       *prometheus.HistogramVec
	lag             prometheus.Histogram
	readers         prometheus.Gauge
	running, asking *prometheus.Desc

	mu      sync.Mutex
	servers map[string]bool
}

// The buckets of the histograms, in seconds: calls take milliseconds to minutes,
// people take seconds to days, stores and events less than a second.
var (
	callBuckets     = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	decisionBuckets = []float64{1, 5, 15, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}
	storeBuckets    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
)

// NewMetrics returns metrics with a registry of their own.
func NewMetrics(src Sources) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), src: src, servers: map[string]bool{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m.started = counter("pml_runs_started_total", "Runs that were started; a retry counts again.", "kind")
	m.ended = counter("pml_runs_ended_total", "Runs that ended, by their last state.", "kind", "state")
	m.layers = prometheus.NewCounter(prometheus.CounterOpts{Name: "pml_layers_completed_total", Help: "Layers that were completed."})
	m.calls = counter("pml_calls_total", "Calls of tools that ended, by how.", "server", "outcome")
	m.callTime = histogram("pml_call_duration_seconds", "How long calls of tools took.", callBuckets, "server")
	m.decisions = histogram("pml_approval_decision_seconds", "From the question to the decision.", decisionBuckets, "type", "decision")
	m.storeTime = histogram("pml_store_operation_seconds", "How long operations of the store took.", storeBuckets, "operation", "outcome")
	m.lag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pml_event_lag_seconds", Help: "From the commit of an event to its reader.", Buckets: storeBuckets,
	})
	m.readers = prometheus.NewGauge(prometheus.GaugeOpts{Name: "pml_event_readers", Help: "Readers of events that are connected."})
	m.running = prometheus.NewDesc("pml_runs", "Runs that have not ended.", []string{"kind", "state"}, nil)
	m.asking = prometheus.NewDesc("pml_approvals_waiting", "Approvals that wait for a decision.", []string{"type"}, nil)
	m.registry.MustRegister(m.started, m.ended, m.layers, m.calls, m.callTime, m.decisions, m.storeTime, m.lag, m.readers,
		standing{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics in the format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Observe counts committed events of runs of a kind; where that is empty it is asked
// for. Each event must be given once: those of its own runs
// as the engine publishes them, and of those that the store writes by itself
// (approval_resolved, workflow_expired) what is read from it. Of the latter each
// server of a database counts all.
func (m *Metrics) Observe(kind core.Kind, events []core.Event) {
	if m == nil {
		return
	}
	for _, e := range events {
		m.observe(kind, e)
	}
}

func (m *Metrics) observe(kind core.Kind, e core.Event) {
	switch e.Type {
	case core.EventWorkflowStart:
		m.started.WithLabelValues(m.kind(kind, e.RunID)).Inc()
	case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
		m.ended.WithLabelValues(m.kind(kind, e.RunID), string(lastState(e.Type))).Inc()
	case core.EventCheckpoint:
		m.layers.Inc()
	case core.EventTaskComplete, core.EventTaskError:
		server, out := m.server(e.Tool), outcome(e)
		m.calls.WithLabelValues(server, string(out)).Inc()
		if out != core.OutcomeSkipped && out != core.OutcomeDenied { // those never ran
			m.callTime.WithLabelValues(server).Observe(e.DurationMS / 1000)
		}
	case core.EventApprovalResolved:
		m.resolved(e)
	default:
		// The others say more of the same, for people.
	}
}

// lastState is the state in which an event leaves a run.
func lastState(t core.EventType) core.RunState {
	switch t {
	case core.EventWorkflowFailed:
		return core.RunFailed
	case core.EventWorkflowAbort:
		return core.RunAborted
	case core.EventWorkflowExpired:
		return core.RunExpired
	default:
		return core.RunComplete
	}
}

// outcome is how the call of an event ended. What a message says is taken only if
// it is one of the outcomes: it is no place for other words.
func outcome(e core.Event) core.Outcome {
	o := core.Outcome(e.Message)
	switch o {
	case core.OutcomeError, core.OutcomeFailedSafe, core.OutcomeSkipped, core.OutcomeDenied, core.OutcomeCancelled:
		return o
	case core.OutcomeSuccess:
	}
	if e.Type == core.EventTaskError {
		return core.OutcomeError
	}
	return core.OutcomeSuccess
}

func (m *Metrics) kind(known core.Kind, id core.ID) string {
	if known == "" && m.src.Kind != nil {
		known = m.src.Kind(id)
	}
	if known == "" {
		return other
	}
	return string(known)
}

// server is the label of a tool's server. Names of tools make no labels: there are
// too many, and they come from others.
func (m *Metrics) server(tool string) string {
	name, _, ok := core.SplitTool(tool)
	if !ok || len(name) > 100 {
		return other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.servers[name] {
		if len(m.servers) == maxServers {
			return other
		}
		name = strings.ToValidUTF8(name, "?")
		m.servers[name] = true
	}
	return name
}

// resolved measures how long a person took. What expired or was taken back is no
// decision.
func (m *Metrics) resolved(e core.Event) {
	var data struct {
		State core.ApprovalState `json:"state"`
	}
	if m.src.Approval == nil || json.Unmarshal(e.Data, &data) != nil ||
		data.State != core.ApprovalApproved && data.State != core.ApprovalDenied {
		return
	}
	a, ok := m.src.Approval(e.ApprovalID)
	if !ok {
		return
	}
	at := e.At
	if a.DecidedBy != nil {
		at = a.DecidedBy.At
	}
	m.decisions.WithLabelValues(string(a.Type), string(data.State)).Observe(max(0, at.Sub(a.CreatedAt).Seconds()))
}

// ObserveStore measures an operation of the store. op is one of few fixed names.
func (m *Metrics) ObserveStore(op string, d time.Duration, failed bool) {
	if m == nil {
		return
	}
	out := "ok"
	if failed {
		out = "failed"
	}
	m.storeTime.WithLabelValues(op, out).Observe(d.Seconds())
}

// ObserveEventLag measures how long an event took from its commit to a reader.
func (m *Metrics) ObserveEventLag(d time.Duration) {
	if m != nil {
		m.lag.Observe(max(0, d.Seconds()))
	}
}

// AddReaders counts readers of events: 1 for one that comes, -1 for one that goes.
func (m *Metrics) AddReaders(n int) {
	if m != nil {
		m.readers.Add(float64(n))
	}
}

// scrapeTime bounds how long a scrape waits for what runs and waits.
const scrapeTime = 5 * time.Second

// standing collects the gauges that are asked for at each scrape.
type standing struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (s standing) Describe(ch chan<- *prometheus.Desc) { ch <- s.m.running; ch <- s.m.asking }

// states are those of runs that have not ended; the ones without runs are said too.
var states = []core.RunState{core.RunRunning, core.RunWaiting, core.RunInterrupted}

// Collect implements prometheus.Collector. When the store does not answer, the
// gauges are missing from the scrape, and the rest of it is there.
func (s standing) Collect(ch chan<- prometheus.Metric) {
	if s.m.src.Standing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	now, err := s.m.src.Standing(ctx)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, kind := range []core.Kind{core.KindCode, core.KindDAG} {
		for _, state := range states {
			gauge(s.m.running, now.Runs[RunKind{state, kind}], string(kind), string(state))
		}
	}
	for _, d := range approval.Types { // those that nothing waits for are said too
		gauge(s.m.asking, now.Approvals[d.Type], string(d.Type))
	}
}
