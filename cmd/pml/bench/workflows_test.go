package bench_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/postgres"
)

// What a workflow costs: the engine of a server on its own store,
// beside a program that does nothing but run the tasks in goroutines and commit
// the same facts, grouped (the floor). Both take turns in the same run, in a process
// that collects its garbage as a server does:
//
//	go test -run '^$' -bench Workflows -benchtime 30x ./cmd/pml/bench

// noop is a workspace whose tools do nothing. n:read is read-only, n:ask asks.
type noop struct {
	called chan struct{}   // told of calls of n:read, when it is not nil
	result json.RawMessage // nil: the arguments
}

func (h noop) Try(c engine.Call) (engine.Verdict, bool) {
	return h.Check(context.Background(), c), true
}

func (noop) Check(_ context.Context, c engine.Call) engine.Verdict {
	v := engine.Verdict{Known: true, ReadOnly: c.Tool != "n:write", Repeatable: c.Tool != "n:write"}
	if c.Tool == "n:ask" {
		v.Ask = []engine.Ask{{Type: core.ApproveTool, Subject: c.Tool, Tool: c.Tool, Digest: c.Digest, Description: "allow it"}}
	}
	return v
}

func (noop) Apply(context.Context, core.Approval, func(string)) error { return nil }

func (h noop) Call(_ context.Context, c engine.Call, _ func(string)) (json.RawMessage, error) {
	if h.called != nil && c.Tool == "n:ask" {
		h.called <- struct{}{}
	}
	if h.result != nil {
		return h.result, nil
	}
	return c.Args, nil
}

// kept is where the facts of a benchmark go: the engine's store and a floor
// that commits rows to the same kind of database.
type kept struct {
	store store.Store
	floor func(rows [][]byte) error
}

var keptIn = []struct {
	name string
	open func(b *testing.B) kept
}{{"bbolt", keptInBolt}, {"postgres", keptInPostgres}}

func keptInBolt(b *testing.B) kept {
	b.Helper()
	st, err := bolt.Open(bolt.Options{Dir: b.TempDir(), Name: "server", Exclusive: true, Clock: benchClock{}, NewID: benchID, PID: os.Getpid(), Process: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "floor.db"), 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = st.Close(), db.Close() })
	n := uint64(0)
	return kept{st, func(rows [][]byte) error {
		return db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("rows"))
			if err != nil {
				return err
			}
			for _, row := range rows {
				n++
				if err := bucket.Put(binary.BigEndian.AppendUint64(nil, n), row); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}

// postgresURL is a database of the benchmark's own, dropped at its end.
func postgresURL(b *testing.B) string {
	b.Helper()
	base := os.Getenv("PML_TEST_POSTGRES")
	if base == "" {
		base = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	}
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, base)
	if err != nil {
		b.Skip("no PostgreSQL:", err)
	}
	name := fmt.Sprintf("pml_bench_%d_%d", os.Getpid(), time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "create database "+name); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if _, err := admin.Exec(ctx, "drop database "+name+" with (force)"); err != nil {
			b.Error(err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(base)
	if err != nil {
		b.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func keptInPostgres(b *testing.B) kept {
	b.Helper()
	at := postgresURL(b)
	st, err := postgres.Open(b.Context(), postgres.Options{URL: at, Clock: benchClock{}, NewID: benchID, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	pool, err := pgxpool.New(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { pool.Close(); _ = st.Close() })
	if _, err := pool.Exec(b.Context(), "create table floor (n bigserial primary key, body bytea)"); err != nil {
		b.Fatal(err)
	}
	return kept{st, func(rows [][]byte) error {
		_, err := pool.Exec(context.Background(), "insert into floor (body) select unnest($1::bytea[])", rows)
		return err
	}}
}

// bare is the floor: one goroutine commits what waits, together.
type bare struct {
	queue  chan bareCommit
	result json.RawMessage // of each task
}

type bareCommit struct {
	rows [][]byte
	done chan error
}

func newBare(b *testing.B, commit func([][]byte) error) *bare {
	f := &bare{queue: make(chan bareCommit, 1024), result: json.RawMessage(`{"id":"x"}`)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for first := range f.queue {
			batch := []bareCommit{first}
			rows := first.rows
			for more := true; more; {
				select {
				case c, ok := <-f.queue:
					if more = ok; ok {
						batch, rows = append(batch, c), append(rows, c.rows...)
					}
				default:
					more = false
				}
			}
			err := commit(rows)
			for _, c := range batch {
				c.done <- err
			}
		}
	})
	b.Cleanup(func() { close(f.queue); wg.Wait() })
	return f
}

func (f *bare) commit(rows ...any) error {
	c := bareCommit{done: make(chan error, 1)}
	for _, r := range rows {
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		c.rows = append(c.rows, raw)
	}
	f.queue <- c
	return <-c.done
}

// dag runs layers of tasks, every result durable before the next layer. The DAG
// itself is kept, too, once.
func (f *bare) dag(tasks []core.TaskSpec, widths []int) error {
	run := core.Run{ID: benchID()}
	args := json.RawMessage(`{"id":"x"}`)
	program := core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks}
	if err := f.commit(run, program, core.Event{Type: core.EventWorkflowStart, At: time.Now(), RunID: run.ID}); err != nil {
		return err
	}
	for l, width := range widths {
		rows, done := []any{run}, make(chan core.Record, width)
		for w := range width {
			id := strconv.Itoa(w)
			rows = append(rows, core.Event{Type: core.EventTaskStart, At: time.Now(), RunID: run.ID, TaskID: id, Tool: "n:read", Layer: &l})
			go func() {
				done <- core.Record{Kind: core.RecordSettled, CallID: id, Tool: "n:read", Layer: l, Args: args, ArgsDigest: strings.Repeat("x", 64), Result: f.result, StartedAt: time.Now()}
			}()
		}
		for left := width; left > 0; {
			for r := range done {
				runtime.Gosched() // who is about to end may share the commit
				rows = append(rows, r, core.Event{Type: core.EventTaskComplete, At: time.Now(), RunID: run.ID, TaskID: r.CallID, Tool: "n:read", Layer: &l})
				if left--; left == 0 || len(done) == 0 {
					break
				}
			}
			if err := f.commit(rows...); err != nil {
				return err
			}
			rows = []any{run}
		}
	}
	return nil
}

// workflows is an engine over a store, with its floor, and how often either has
// committed: the ratio of both times is mostly that of their commits, and it does not
// depend on the disk.
type workflows struct {
	*engine.Engine
	b                     *testing.B
	store                 store.Store
	floor                 *bare
	commits, floorCommits atomic.Int64
	name                  string // of its runs
}

// counted is a store whose commits are counted.
type counted struct {
	store.Store
	commits *atomic.Int64
}

func (c counted) Commit(ctx context.Context, s store.Step) error {
	c.commits.Add(1)
	return c.Store.Commit(ctx, s)
}

func newWorkflows(b *testing.B, k kept, host noop) *workflows {
	b.Helper()
	r, err := k.store.Register(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	limits := engine.Limits{
		Calls: 20000, Concurrency: 64, Timeout: time.Minute, CallTimeout: time.Minute, ApprovalTTL: time.Hour, ResumeTTL: time.Hour,
		StopGrace: time.Second, IdleChild: time.Hour,
	}
	w := &workflows{b: b, store: k.store}
	w.floor = newBare(b, func(rows [][]byte) error { w.floorCommits.Add(1); return k.floor(rows) })
	w.Engine = engine.New(engine.Options{
		Store: counted{k.store, &w.commits}, Runner: r.ID(), Clock: benchClock{}, NewID: benchID, Logger: slog.New(slog.DiscardHandler),
		Hosts:  func(string) (engine.Host, error) { return host, nil },
		Limits: func(string) (engine.Limits, error) { return limits, nil },
	})
	b.Cleanup(func() { _, _ = w.Close(), r.Close() })
	return w
}

// start runs a DAG whose layers depend wholly on one another.
func (w *workflows) start(tasks []core.TaskSpec, plan *core.Plan) (*engine.Handle, error) {
	now := time.Now().UTC()
	return w.Start(context.Background(), core.Run{
		ID: benchID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, CreatedAt: now, UpdatedAt: now,
		Name: w.name, RequestedBy: core.Actor{Who: "bench", Via: core.ViaHTTP},
	}, core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks, Plan: plan})
}

func (w *workflows) run(tasks []core.TaskSpec, plan *core.Plan) error {
	h, err := w.start(tasks, plan)
	if err != nil {
		return err
	}
	s, err := h.Wait(context.Background(), engine.Ended)
	if err == nil && s.Run.State != core.RunComplete {
		err = fmt.Errorf("%s: %w %w", s.Run.State, s.Run.Error, s.Err)
	}
	return err
}

// layered is a DAG in which each task of a layer depends on all of the one before.
func layered(b *testing.B, widths []int, tool string) ([]core.TaskSpec, *core.Plan) {
	b.Helper()
	var tasks []core.TaskSpec
	for l, width := range widths {
		for t := range width {
			spec := core.TaskSpec{ID: fmt.Sprintf("t%d_%d", l, t), Tool: tool, Arguments: json.RawMessage(`{"id":"x"}`)}
			if l > 0 {
				for d := range widths[l-1] {
					spec.DependsOn = append(spec.DependsOn, fmt.Sprintf("t%d_%d", l-1, d))
				}
			}
			tasks = append(tasks, spec)
		}
	}
	g, err := engine.Graph(core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks})
	if err != nil {
		b.Fatal(err)
	}
	return tasks, g.Plan()
}

func BenchmarkWorkflows(b *testing.B) {
	grid := slices.Repeat([]int{10}, 10)
	wide := []int{1, 998, 1}
	for _, in := range keptIn {
		b.Run(in.name, func(b *testing.B) {
			b.Run("W1", func(b *testing.B) { benchDAG(b, in.open(b), grid, "n:read", nil) })
			b.Run("W1_SideEffects", func(b *testing.B) { benchDAG(b, in.open(b), grid, "n:write", nil) })
			b.Run("W1_16KiB", func(b *testing.B) { benchDAG(b, in.open(b), grid, "n:read", large(16<<10)) })
			b.Run("W2", func(b *testing.B) { benchMany(b, in.open(b), grid, 200, 16) })
			b.Run("W3", func(b *testing.B) { benchDAG(b, in.open(b), wide, "n:read", nil) })
			b.Run("W4", func(b *testing.B) { benchApprovals(b, in.open(b)) })
		})
	}
}

// benchDAG is one DAG after the other (W1, W3).
func benchDAG(b *testing.B, k kept, widths []int, tool string, result json.RawMessage) {
	w := newWorkflows(b, k, noop{result: result})
	if result != nil {
		w.floor.result = result
	}
	tasks, plan := layered(b, widths, tool)
	var own, floors []time.Duration
	for b.Loop() {
		timed(&own, func() {
			if err := w.run(tasks, plan); err != nil {
				b.Fatal(err)
			}
		})
		timed(&floors, func() {
			if err := w.floor.dag(tasks, widths); err != nil {
				b.Fatal(err)
			}
		})
	}
	report(b, own, floors)
	b.ReportMetric(float64(w.commits.Load())/float64(b.N), "commits/op")
	b.ReportMetric(float64(w.floorCommits.Load())/float64(b.N), "floor-commits/op")
}

// large is a result of so many bytes, of words as they come.
func large(size int) json.RawMessage {
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(string(benchID()) + " ")
	}
	raw, err := json.Marshal(text.String()[:size])
	if err != nil {
		panic(err)
	}
	return raw
}

// BenchmarkKept is W1 in a store that keeps so many records of older runs, beside
// an empty one (x-floor is the ratio of both):
//
//	go test -run '^$' -bench '^BenchmarkKept$' -benchtime 60x ./cmd/pml/bench -args -records 1000000
func BenchmarkKept(b *testing.B) {
	widths := slices.Repeat([]int{10}, 10)
	for _, in := range keptIn {
		b.Run(in.name, func(b *testing.B) {
			full, empty := newWorkflows(b, in.open(b), noop{}), newWorkflows(b, in.open(b), noop{})
			keepOld(b, full.store, *keptRecords)
			tasks, plan := layered(b, widths, "n:read")
			var own, floors []time.Duration
			for b.Loop() {
				for w, into := range map[*workflows]*[]time.Duration{full: &own, empty: &floors} {
					timed(into, func() {
						if err := w.run(tasks, plan); err != nil {
							b.Fatal(err)
						}
					})
				}
			}
			report(b, own, floors)
		})
	}
}

var keptRecords = flag.Int("records", 100_000, "how many records of older runs BenchmarkKept keeps")

// keepOld keeps records of runs that have ended, a hundred each.
func keepOld(b *testing.B, s store.Store, records int) {
	b.Helper()
	var g errgroup.Group
	g.SetLimit(64)
	now := time.Now().UTC()
	for range records / 100 {
		g.Go(func() error {
			run := core.Run{ID: benchID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: core.RunComplete, CreatedAt: now, UpdatedAt: now, EndedAt: &now, DAGVersion: 1}
			step := store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1}}
			for i := range 100 {
				step.Records = append(step.Records, core.Record{
					Seq: int64(i + 1), Kind: core.RecordSettled, CallID: strconv.Itoa(i), Tool: "n:read", Args: json.RawMessage(`{"id":"x"}`),
					ArgsDigest: strings.Repeat("x", 64), Result: json.RawMessage(`{"id":"x"}`), Outcome: core.OutcomeSuccess, StartedAt: now, At: now,
				})
			}
			return s.Commit(context.Background(), step)
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// benchMany is so many DAGs from so many starters (W2), in tasks per second.
func benchMany(b *testing.B, k kept, widths []int, n, starters int) {
	w := newWorkflows(b, k, noop{})
	tasks, plan := layered(b, widths, "n:read")
	rate := func(f func() error) float64 {
		var g errgroup.Group
		g.SetLimit(starters)
		began := time.Now()
		for range n {
			g.Go(f)
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		return float64(n*len(tasks)) / time.Since(began).Seconds()
	}
	var own, floor float64
	rounds := 0
	for b.Loop() {
		own += rate(func() error { return w.run(tasks, plan) })
		floor += rate(func() error { return w.floor.dag(tasks, widths) })
		rounds++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(own/float64(rounds), "tasks/s")
	b.ReportMetric(floor/float64(rounds), "floor-tasks/s")
	b.ReportMetric(own/floor, "x-floor")
}

// benchApprovals is the time from a decision to the call that waited for it
// (W4). The floor commits a decision, wakes a goroutine, and that commits a start.
func benchApprovals(b *testing.B, k kept) {
	host := noop{called: make(chan struct{}, 1)}
	w := newWorkflows(b, k, host)
	tasks, plan := layered(b, []int{1}, "n:ask")
	wake, started := make(chan struct{}), make(chan error)
	go func() {
		for range wake {
			started <- w.floor.commit(core.Event{Type: core.EventTaskStart, At: time.Now()})
		}
	}()
	defer close(wake)
	var own, floors []time.Duration
	for b.Loop() {
		h, err := w.start(tasks, plan)
		if err != nil {
			b.Fatal(err)
		}
		s, err := h.Wait(b.Context(), engine.Paused)
		if err != nil || len(s.Pending) != 1 {
			b.Fatal(err, s.Pending)
		}
		timed(&own, func() {
			_, err = w.store.Decide(b.Context(), core.Decision{
				ApprovalID: s.Pending[0].ID, Approved: true, At: time.Now().UTC(), By: core.Actor{Who: "bench", Via: core.ViaHTTP},
			}, store.Renewal{})
			if err != nil {
				b.Fatal(err)
			}
			<-host.called
		})
		if _, err := h.Wait(b.Context(), engine.Ended); err != nil {
			b.Fatal(err)
		}
		timed(&floors, func() {
			if err := w.floor.commit(core.Event{Type: core.EventApprovalResolved, At: time.Now()}); err != nil {
				b.Fatal(err)
			}
			wake <- struct{}{}
			if err := <-started; err != nil {
				b.Fatal(err)
			}
		})
	}
	report(b, own, floors)
	b.ReportMetric(float64(own[len(own)*99/100].Microseconds())/1000, "p99-ms") // report has sorted it
}
