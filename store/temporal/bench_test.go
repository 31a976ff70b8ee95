package temporal_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// kept is a run in Temporal, whose runner commits steps of some records each.
type kept struct {
	st  *temporal.Store
	run core.Run
}

func newKept(b *testing.B, ks ...temporal.Key) *kept {
	b.Helper()
	opts := options(b)
	opts.Keys = ks
	st := open(b, opts)
	b.Cleanup(func() { _ = st.Close() })
	k := &kept{st: st}
	k.create(b)
	return k
}

func (k *kept) create(b *testing.B) {
	b.Helper()
	now := time.Now().UTC()
	k.run = core.Run{
		ID: enginetest.NewID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: now,
		UpdatedAt: now, Runner: "r1", Epoch: 1, DAGVersion: 1, RequestedBy: core.Actor{Who: "ann", Via: core.ViaHTTP},
	}
	program := core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{enginetest.Task("t", "fs:read")}}
	if err := k.st.Commit(b.Context(), store.Step{Run: k.run, Create: true, Program: &program}); err != nil {
		b.Fatal(err)
	}
}

func (k *kept) commit(b *testing.B, records int) {
	b.Helper()
	step := store.Step{Run: k.run}
	for range records {
		k.run.JournalSeq++
		step.Records = append(step.Records, core.Record{
			Seq: k.run.JournalSeq, Kind: core.RecordSettled, CallID: fmt.Sprint("t", k.run.JournalSeq), Tool: "fs:read",
			Outcome: core.OutcomeSuccess, Args: []byte(`{"n":1}`), Result: []byte(`"ok"`), At: time.Now().UTC(),
		})
	}
	if err := k.st.Commit(b.Context(), step); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCommit is a step of a run, with as many records as a layer has calls, in clear and with a key. The two
// take turns, so that what else the machine does is the same for both.
func BenchmarkCommit(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(strconv.Itoa(records), func(b *testing.B) {
			plain, encrypted := newKept(b), newKept(b, keys("1")...)
			var in, with time.Duration
			for b.Loop() {
				began := time.Now()
				plain.commit(b, records)
				turn := time.Now()
				encrypted.commit(b, records)
				in, with = in+turn.Sub(began), with+time.Since(turn)
			}
			b.ReportMetric(float64(in.Microseconds())/1000/float64(b.N), "ms/clear")
			b.ReportMetric(float64(with.Microseconds())/1000/float64(b.N), "ms/encrypted")
		})
	}
}

// BenchmarkCodec is what it takes to encrypt a payload and to read it again, beside which a step is some.
func BenchmarkCodec(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			c, in := temporal.NewCodec(b, keys("1"), "pml/run/a"), []*commonpb.Payload{{Data: make([]byte, size)}}
			for b.Loop() {
				sealed, err := c.Encode(in)
				if err == nil {
					_, err = c.Decode(sealed)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCreate is the start of a run.
func BenchmarkCreate(b *testing.B) {
	k := newKept(b)
	for b.Loop() {
		k.create(b)
	}
}

// BenchmarkFlowRuns is what a flow did, saved and listed among all that is kept of it.
func BenchmarkFlowRuns(b *testing.B) {
	k, key := newKept(b), core.FlowKey{Workspace: "/w", Flow: "ask"}
	save := func(n int) {
		var runs []core.FlowRun
		for i := range n {
			runs = append(runs, flowRun(key, enginetest.NewID(), i))
		}
		if err := k.st.SaveFlowRuns(b.Context(), runs...); err != nil {
			b.Fatal(err)
		}
	}
	save(core.KeptFlowRuns)
	b.Run("Save", func(b *testing.B) {
		for b.Loop() {
			save(1)
		}
	})
	b.Run("List", func(b *testing.B) {
		for b.Loop() {
			if list, err := k.st.FlowRuns(b.Context(), store.FlowRunFilter{Key: key}); err != nil || len(list) != core.KeptFlowRuns {
				b.Fatal(len(list), err)
			}
		}
	})
}

// BenchmarkHalted is what is asked before each call is sent.
func BenchmarkHalted(b *testing.B) {
	k := newKept(b)
	for b.Loop() {
		if _, err := k.st.Halted(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkActivity is what a call would cost as an activity: workflows of a hundred each, one
// after the other.
func BenchmarkActivity(b *testing.B) {
	const each = 100
	c, err := client.Dial(client.Options{HostPort: address(b), Logger: silent{}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	queue := fmt.Sprint("activities-", enginetest.NewID().Short())
	w := worker.New(c, queue, worker.Options{})
	call := func(context.Context) (string, error) { return "ok", nil }
	w.RegisterActivity(call)
	run := func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for range each {
			if err := workflow.ExecuteActivity(ctx, call).Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}
	w.RegisterWorkflow(run)
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for b.Loop() {
		h, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{TaskQueue: queue}, run)
		if err == nil {
			err = h.Get(b.Context(), nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N)/each, "ms/activity")
}

// BenchmarkCreateKeyed is the start of a run with an idempotency key.
func BenchmarkCreateKeyed(b *testing.B) {
	k := newKept(b)
	for b.Loop() {
		if err := k.st.Commit(b.Context(), begun(keyedRun(string(enginetest.NewID())))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRemove is the removal of a run that has ended; Temporal deletes its history later.
func BenchmarkRemove(b *testing.B) {
	k := newKept(b)
	for b.Loop() {
		b.StopTimer()
		run := newRun(time.Now(), func(r *core.Run) { r.State = core.RunComplete })
		if err := k.st.Commit(b.Context(), begun(run)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := k.st.Remove(b.Context(), run.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRuns is a page of 20 of 1,200 runs, which another process has begun: the index gives
// less at once than there is.
func BenchmarkRuns(b *testing.B) {
	opts := options(b)
	st, other := open(b, opts), open(b, opts)
	b.Cleanup(func() { _, _ = st.Close(), other.Close() })
	for range 1200 {
		if err := st.Commit(b.Context(), begun(newRun(time.Now()))); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		temporal.Forget(other)
		if runs, err := other.Runs(b.Context(), store.RunFilter{Limit: 20}); err != nil || len(runs) != 20 {
			b.Fatal(len(runs), err)
		}
	}
}

// BenchmarkListed is how long it takes until another process lists a run by the state to which
// one has just changed it.
func BenchmarkListed(b *testing.B) {
	opts := options(b)
	st, other := open(b, opts), open(b, opts)
	b.Cleanup(func() { _, _ = st.Close(), other.Close() })
	var all []time.Duration
	for b.Loop() {
		run := newRun(time.Now())
		if err := st.Commit(b.Context(), begun(run)); err != nil {
			b.Fatal(err)
		}
		run.State = core.RunWaiting
		if err := st.Commit(b.Context(), store.Step{Run: run}); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for found := false; !found; {
			temporal.Forget(other)
			runs, err := other.Runs(b.Context(), store.RunFilter{States: []core.RunState{core.RunWaiting}, Limit: 1})
			if err != nil {
				b.Fatal(err)
			}
			found = len(runs) > 0 && runs[0].ID == run.ID
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "ms/longest")
}
