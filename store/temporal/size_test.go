package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// TestSize measures what a run leaves in Temporal, for docs/scale.md: events and bytes of its
// history, and what Temporal Cloud counts as actions. With PML_TEST_TEMPORAL_SIZE=1 it prints them;
// without, it holds a run to what that page calculates with, and some more: a slow machine makes more steps.
func TestSize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program func(*enginetest.World) core.Program
		asks    int
		most    counted
	}{
		"DAG of 10 tasks in 4 layers": {program: dagOfTen, most: counted{Events: 45, Bytes: 25_000, Actions: 10, Queries: 6}},
		"script of 40 calls": {program: func(w *enginetest.World) core.Program {
			return w.Compile(`let n = 0; for (let i = 0; i < 20; i++) { n = (await mcp.a.read({n: i})).n; await mcp.a.write({n}); } return n;`)
		}, most: counted{Events: 250, Bytes: 120_000, Actions: 50, Queries: 45}},
		"script with 3 approvals": {program: func(w *enginetest.World) core.Program {
			return w.Compile(`let n = 0; for (let i = 0; i < 3; i++) n = (await mcp.a.ask({n: i})).n; return n;`)
		}, asks: 3, most: counted{Events: 120, Bytes: 40_000, Actions: 40, Queries: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sizeOf(t, c.program, c.asks)
			if os.Getenv("PML_TEST_TEMPORAL_SIZE") != "" {
				t.Logf("%+v", got)
			}
			if got.Events > c.most.Events || got.Bytes > c.most.Bytes || got.Actions > c.most.Actions || got.Queries > c.most.Queries {
				t.Errorf("%+v, at most %+v", got, c.most)
			}
		})
	}
}

func dagOfTen(*enginetest.World) core.Program {
	p := core.Program{Kind: core.KindDAG, Version: 1, Plan: &core.Plan{}}
	for layer, n := range []int{1, 4, 4, 1} {
		var ids, before []string
		if layer > 0 {
			before = p.Plan.Layers[layer-1]
		}
		for i := range n {
			id := fmt.Sprintf("t%d%d", layer, i)
			ids = append(ids, id)
			p.Tasks = append(p.Tasks, enginetest.Task(id, []string{"a:read", "a:write"}[i%2], before...))
		}
		p.Plan.Layers = append(p.Plan.Layers, ids)
	}
	return p
}

// counted is what a run leaves in Temporal: of its history, and queries, which no history has.
type counted struct {
	Events, Bytes, Actions, Queries int
	Of                              map[string]int
}

// sizeOf runs a program on Temporal, approves what it asks, and counts.
func sizeOf(t *testing.T, program func(*enginetest.World) core.Program, asks int) counted {
	t.Helper()
	opts := options(t)
	queries := new(atomic.Int64)
	opts.Metrics = meter{queries: queries}
	w := enginetest.NewWorld(t, func() enginetest.Surroundings { return open(t, opts) })
	for name, tool := range w.Host.Tools { // as a server somewhere else: what was read of a halt is old at each call
		tool.Run = func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			pause(250 * time.Millisecond)
			return args, nil
		}
		w.Host.Tools[name] = tool
	}
	p := w.Process()
	w.Complete(w.Code(p, `return 1`), "1") // the first one asks what later ones know
	before := queries.Load()
	h := w.Start(p, program(w), core.RunOptions{})
	var last core.ID
	for range asks {
		s := w.Wait(h, func(s engine.Status) bool { return enginetest.Pending(1)(s) && s.Pending[0].ID != last })
		last = s.Pending[0].ID
		w.Decide(p.Store, h.ID, core.ApproveTool, true, nil)
	}
	if s := w.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
		t.Fatalf("it is %s: %v", s.Run.State, s.Run.Error)
	}
	asked := int(queries.Load() - before)
	c, err := client.Dial(client.Options{HostPort: opts.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := count(t, c, opts.Name+"/run/"+string(h.ID))
	got.Queries = asked
	return got
}

// count counts a history that has come to rest.
func count(t *testing.T, c client.Client, id string) counted {
	t.Helper()
	var got counted
	for still := 0; still < 3; pause(200 * time.Millisecond) { // the rows of the end are still on their way to the shared workflow
		next := counted{Of: map[string]int{}}
		for events := c.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
			e, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			next.Events++
			if kind := e.GetEventType().String(); slices.Contains(billed, kind) {
				next.Actions++
				next.Of[kind]++
			}
		}
		d, err := c.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		next.Bytes = int(d.GetWorkflowExecutionInfo().GetHistorySizeBytes())
		if still++; next.Events != got.Events {
			still = 0
		}
		got = next
	}
	return got
}

// billed are the events that Temporal Cloud counts as actions (https://docs.temporal.io/cloud/actions).
var billed = strings.Fields("WorkflowExecutionStarted WorkflowExecutionUpdateAccepted UpsertWorkflowSearchAttributes TimerStarted " +
	"SignalExternalWorkflowExecutionInitiated WorkflowExecutionSignaled ActivityTaskScheduled")

// meter counts the queries of a process.
type meter struct {
	query   bool
	queries *atomic.Int64
}

func (m meter) WithTags(tags map[string]string) client.MetricsHandler {
	m.query = m.query || tags["operation"] == "QueryWorkflow"
	return m
}

func (m meter) Counter(name string) client.MetricsCounter {
	if m.query && name == "temporal_request" {
		return m
	}
	return client.MetricsNopHandler.Counter(name)
}

func (m meter) Gauge(name string) client.MetricsGauge { return client.MetricsNopHandler.Gauge(name) }

func (m meter) Timer(name string) client.MetricsTimer { return client.MetricsNopHandler.Timer(name) }

func (m meter) Inc(n int64) { m.queries.Add(n) }
