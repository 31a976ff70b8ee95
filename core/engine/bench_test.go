package engine_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

func grid(layers, width int) []core.TaskSpec {
	var tasks []core.TaskSpec
	for l := range layers {
		for w := range width {
			t := task(fmt.Sprintf("t%d_%d", l, w), "a:read")
			if l > 0 {
				for d := range width {
					t.DependsOn = append(t.DependsOn, fmt.Sprintf("t%d_%d", l-1, d))
				}
			}
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// counting counts the transactions of an engine.
type counting struct {
	store.Store
	commits, reads atomic.Int64
}

func (c *counting) Commit(ctx context.Context, s store.Step) error {
	c.commits.Add(1)
	return c.Store.Commit(ctx, s)
}

func (c *counting) Run(ctx context.Context, id core.ID) (core.Run, error) {
	c.reads.Add(1)
	return c.Store.Run(ctx, id)
}

func (c *counting) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	c.reads.Add(1)
	return c.Store.Approvals(ctx, f)
}

// floor is a program that holds its file open and does nothing but run the
// tasks of a grid in goroutines and commit what pml would, grouped.
type floor struct {
	db      *bbolt.DB
	n       uint64
	commits int
}

func newFloor(b *testing.B) *floor {
	b.Helper()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "floor.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	f := &floor{db: db}
	if err := f.commit([]any{"begin"}); err != nil {
		b.Fatal(err)
	}
	return f
}

func (f *floor) commit(rows []any) error {
	f.commits++
	return f.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("rows"))
		if err != nil {
			return err
		}
		for _, row := range rows {
			raw, err := json.Marshal(row)
			if err != nil {
				return err
			}
			f.n++
			if err := bucket.Put(binary.BigEndian.AppendUint64(nil, f.n), raw); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *floor) grid(layers, width int) error {
	run := core.Run{ID: newID()}
	rows := []any{run, core.Event{Type: core.EventWorkflowStart, At: time.Now(), RunID: run.ID}}
	if err := f.commit(rows); err != nil {
		return err
	}
	for l := range layers {
		rows, done := []any{run}, make(chan core.Record, width)
		for w := range width {
			rows = append(rows, core.Event{Type: core.EventTaskStart, At: time.Now(), RunID: run.ID, TaskID: strconv.Itoa(w), Tool: "a:read", Layer: &l})
			go func() {
				args := json.RawMessage(`{"id":"x"}`)
				done <- core.Record{Kind: core.RecordSettled, CallID: strconv.Itoa(w), Tool: "a:read", Layer: l, Args: args, ArgsDigest: strings.Repeat("x", 64), Result: args, StartedAt: time.Now()}
			}()
		}
		for left := width; left > 0; {
			for r := range done {
				runtime.Gosched() // who is about to end may share the commit
				rows = append(rows, r, core.Event{Type: core.EventTaskComplete, At: time.Now(), RunID: run.ID, TaskID: r.CallID, Tool: "a:read", Layer: &l})
				if left--; left == 0 || len(done) == 0 {
					break
				}
			}
			if err := f.commit(rows); err != nil {
				return err
			}
			rows = []any{run}
		}
	}
	return nil
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fill gives the store finished runs of about so many megabytes.
func (b *bench) fill(mb int) {
	b.T.Helper()
	st := b.store()
	defer st.Close()
	filler := json.RawMessage(`"` + strings.Repeat("x", 3<<10) + `"`)
	for range mb * 4 {
		now := time.Now().UTC()
		step := store.Step{Create: true, Run: core.Run{ID: newID(), Kind: core.KindCode, State: core.RunComplete, CreatedAt: now, UpdatedAt: now}}
		for n := range int64(64) {
			step.Records = append(step.Records, core.Record{Seq: n + 1, Kind: core.RecordSettled, CallID: strconv.FormatInt(n, 10), Tool: "a:read", Result: filler, At: now})
		}
		if err := st.Commit(b.T.Context(), step); err != nil {
			b.T.Fatal(err)
		}
	}
}

// BenchmarkDAG10x10 is one DAG of 10 layers of 10 no-op tasks, every result
// durable before its dependants start, on the shared store: empty, and one of
// 100 MB. The floor is measured in turn with it.
func BenchmarkDAG10x10(b *testing.B) {
	b.Run("Empty", func(b *testing.B) { benchGrid(b, 0) })
	b.Run("100MB", func(b *testing.B) { benchGrid(b, 100) })
}

func benchGrid(b *testing.B, mb int) {
	bench := newBench(b)
	if mb > 0 {
		bench.fill(mb)
	}
	count := &counting{}
	bench.wrap = func(s store.Store) store.Store { count.Store = s; return count }
	p := bench.process()
	f := newFloor(b)
	tasks := grid(10, 10)
	var own, floors []time.Duration
	for b.Loop() {
		began := time.Now()
		s := bench.Wait(bench.dag(p, tasks, core.RunOptions{}), engine.Ended)
		own = append(own, time.Since(began))
		if s.Run.State != core.RunComplete {
			b.Fatal(s.Run.Error)
		}
		began = time.Now()
		if err := f.grid(10, 10); err != nil {
			b.Fatal(err)
		}
		floors = append(floors, time.Since(began))
	}
	n := float64(len(own))
	m, fl := median(own), median(floors)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(m), "ms")
	b.ReportMetric(ms(fl), "floor-ms")
	b.ReportMetric(float64(m)/float64(fl), "x-floor")
	b.ReportMetric(float64(count.commits.Load())/n, "commits")
	b.ReportMetric(float64(f.commits)/n, "floor-commits")
	b.ReportMetric(float64(count.reads.Load())/n, "reads")
}

// BenchmarkAgent_Iteration is what pml adds to one iteration of an agent: a model that
// answers at once, and a script that calls nothing.
func BenchmarkAgent_Iteration(b *testing.B) {
	bench := newBench(b)
	scripts := make([][]string, 5)
	for i := range scripts {
		scripts[i] = []string{fmt.Sprintf("return %d", i)}
	}
	var m fakeModel
	bench.Ask = m.Answer(scripts)
	p := bench.process()
	var own []time.Duration
	for b.Loop() {
		began := time.Now()
		s := bench.Wait(bench.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{}), engine.Ended)
		own = append(own, time.Since(began)/time.Duration(len(scripts)+1))
		if s.Run.State != core.RunComplete {
			b.Fatal(s.Run.Error)
		}
	}
	slices.Sort(own)
	b.ReportMetric(float64(own[len(own)/2].Microseconds())/1000, "ms/iteration")
}
