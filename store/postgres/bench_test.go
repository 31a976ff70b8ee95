package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/storetest"
)

// layerStep is what a layer of n calls commits.
func layerStep(run core.Run, seq int64, n int) store.Step {
	step := store.Step{Run: run}
	for i := range int64(n) {
		r := newRecord(seq + i + 1)
		step.Records = append(step.Records, r)
		step.Events = append(step.Events, core.Event{Type: core.EventTaskComplete, At: r.At, TaskID: r.CallID, Tool: r.Tool})
	}
	return step
}

// floor writes the same facts with nothing around them: records, events and
// the run's position.
type floor struct{ pool *pgxpool.Pool }

func newFloor(b *testing.B) floor {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), database(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), `CREATE TABLE run (id text PRIMARY KEY, seq bigint) WITH (fillfactor = 50);
		CREATE TABLE rec (id text, seq bigint, data bytea, PRIMARY KEY (id, seq));
		CREATE TABLE ev (seq bigserial PRIMARY KEY, id text, data bytea)`); err != nil {
		b.Fatal(err)
	}
	return floor{pool}
}

func (f floor) commit(ctx context.Context, steps ...store.Step) error {
	var ids, eids []string
	var seqs []int64
	var recs, evs [][]byte
	var runs []string
	for _, step := range steps {
		runs = append(runs, string(step.Run.ID))
		for _, r := range step.Records {
			raw, err := json.Marshal(r)
			if err != nil {
				return err
			}
			ids, seqs, recs = append(ids, string(step.Run.ID)), append(seqs, r.Seq), append(recs, raw)
		}
		for _, e := range step.Events {
			raw, err := json.Marshal(e)
			if err != nil {
				return err
			}
			eids, evs = append(eids, string(step.Run.ID)), append(evs, raw)
		}
	}
	_, err := f.pool.Exec(ctx, `WITH a AS (INSERT INTO rec SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])),
		b AS (INSERT INTO ev (id, data) SELECT * FROM unnest($4::text[], $5::bytea[]))
		INSERT INTO run SELECT id, 1 FROM unnest($6::text[]) AS id ON CONFLICT (id) DO UPDATE SET seq = run.seq + 1`,
		ids, seqs, recs, eids, evs, runs)
	return err
}

// group commits what waits together, as the store does.
func (f floor) group(ctx context.Context) (commit func(store.Step) error, stop func()) {
	type waiter struct {
		step store.Step
		done chan error
	}
	in := make(chan waiter, 256)
	var wg sync.WaitGroup
	wg.Go(func() {
		for w := range in {
			batch := []waiter{w}
			for len(in) > 0 {
				batch = append(batch, <-in)
			}
			steps := make([]store.Step, len(batch))
			for i, w := range batch {
				steps[i] = w.step
			}
			err := f.commit(ctx, steps...)
			for _, w := range batch {
				w.done <- err
			}
		}
	})
	return func(s store.Step) error {
		w := waiter{s, make(chan error, 1)}
		in <- w
		return <-w.done
	}, func() { close(in); wg.Wait() }
}

// BenchmarkCommit commits steps one after the other: of one record, and of a
// layer of 10.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d/Floor", n), func(b *testing.B) {
			f, run, seq := newFloor(b), newRun("r"), int64(0)
			for b.Loop() {
				if err := f.commit(b.Context(), layerStep(run, seq, n)); err != nil {
					b.Fatal(err)
				}
				seq += int64(n)
			}
		})
		b.Run(fmt.Sprintf("%d/Store", n), func(b *testing.B) {
			s, run, seq := open(b, database(b), wall{}), newRun("r"), int64(0)
			if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := s.Commit(b.Context(), layerStep(run, seq, n)); err != nil {
					b.Fatal(err)
				}
				seq += int64(n)
			}
		})
	}
}

const committers = 16

// each lets 16 goroutines commit a share of b.N steps of 10 records.
func each(b *testing.B, create, commit func(store.Step) error) {
	b.Helper()
	var wg sync.WaitGroup
	runs := make([]core.Run, committers)
	for i := range runs {
		runs[i] = newRun("r")
		if err := create(store.Step{Run: runs[i], Create: true}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for i, run := range runs {
		wg.Go(func() {
			for n := i; n < b.N; n += committers {
				if err := commit(layerStep(run, int64(n/committers*10), 10)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)*10/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkCommit_Concurrent commits from 16 goroutines, which share
// transactions.
func BenchmarkCommit_Concurrent(b *testing.B) {
	b.Run("Floor", func(b *testing.B) {
		commit, stop := newFloor(b).group(b.Context())
		defer stop()
		each(b, func(store.Step) error { return nil }, commit)
	})
	b.Run("Store", func(b *testing.B) {
		s := open(b, database(b), wall{})
		commit := func(step store.Step) error { return s.Commit(b.Context(), step) }
		each(b, commit, commit)
	})
}

// BenchmarkDecide decides approvals, one after the other; Floor is a
// transaction that reads, locks and writes two rows.
func BenchmarkDecide(b *testing.B) {
	b.Run("Floor", func(b *testing.B) {
		f := newFloor(b)
		if err := f.commit(b.Context(), layerStep(newRun("r"), 0, 1)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := pgx.BeginFunc(b.Context(), f.pool, func(tx pgx.Tx) error {
				var id string
				if err := tx.QueryRow(b.Context(), "SELECT id FROM run LIMIT 1 FOR UPDATE").Scan(&id); err != nil {
					return err
				}
				batch := &pgx.Batch{}
				batch.Queue("UPDATE run SET seq = seq + 1 WHERE id = $1", id)
				batch.Queue("INSERT INTO ev (id, data) VALUES ($1, 'x')", id)
				return tx.SendBatch(b.Context(), batch).Close()
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Store", func(b *testing.B) {
		s, run := open(b, database(b), wall{}), newRun("r")
		if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			b.StopTimer()
			a := newApproval(run.ID)
			if err := s.Commit(b.Context(), store.Step{Run: run, Open: []core.Approval{a}}); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if _, err := s.Decide(b.Context(), core.Decision{ApprovalID: a.ID, Approved: true, By: run.RequestedBy}, store.Renewal{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRuns lists a page of 10,000 runs: the newest, and those that wait.
// Commit is a step of one more run beside them.
func BenchmarkRuns(b *testing.B) {
	s := open(b, database(b), wall{})
	var wg sync.WaitGroup
	for i := range committers {
		wg.Go(func() {
			for n := i; n < 10_000; n += committers {
				run := newRun("r")
				if run.State = core.RunComplete; n%100 == 0 {
					run.State = core.RunWaiting
				}
				if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for name, f := range map[string]store.RunFilter{
		"Newest":  {Limit: 50},
		"Waiting": {Limit: 50, States: []core.RunState{core.RunWaiting}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if runs, err := s.Runs(b.Context(), f); err != nil || len(runs) != 50 {
					b.Fatal(len(runs), err)
				}
			}
		})
	}
	b.Run("Orphans", func(b *testing.B) {
		for b.Loop() {
			if ids, err := s.Orphans(b.Context(), "me", 100); err != nil || len(ids) != 0 {
				b.Fatal(len(ids), err)
			}
		}
	})
	b.Run("Commit", func(b *testing.B) {
		run, seq := newRun("r"), int64(0)
		if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := s.Commit(b.Context(), layerStep(run, seq, 10)); err != nil {
				b.Fatal(err)
			}
			seq += 10
		}
	})
}

// BenchmarkApprovals_History lists what a decision can be about, and what an agent's tree was
// asked, 10 approvals, where 100,000 belong to runs that have ended; those with a digest that
// none has; and all of them, as a comparison.
func BenchmarkApprovals_History(b *testing.B) {
	s := open(b, database(b), wall{})
	agent := storetest.FillApprovals(b, s, newRun, newApproval)
	for name, f := range map[string]store.ApprovalFilter{"Decidable": {Decidable: true}, "Agent": {Agent: agent}, "Digest": {Digest: "sha256:of-none"}, "All": {}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if as, err := s.Approvals(b.Context(), f); err != nil || len(as) != 10 && (f.Decidable || f.Agent != "") {
					b.Fatal(len(as), err)
				}
			}
		})
	}
}

// BenchmarkClaim takes twenty runs over, eight at a time, as a server does after another
// one has died, while a run that goes on commits. Reported are the time for all of them
// and the longest commit meanwhile, both at the median.
func BenchmarkClaim(b *testing.B) {
	s := open(b, database(b), wall{})
	me, err := s.Register(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = me.Close() })
	var ids []core.ID
	for range 20 {
		run := newRun(me.ID())
		if err := s.Commit(b.Context(), store.Step{Create: true, Run: run, Program: &core.Program{Kind: core.KindDAG}}); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	going, seq := newRun(me.ID()), int64(0)
	if err := s.Commit(b.Context(), store.Step{Create: true, Run: going, Program: &core.Program{Kind: core.KindDAG}}); err != nil {
		b.Fatal(err)
	}
	var all, commits []time.Duration
	for b.Loop() {
		began := time.Now()
		var wg sync.WaitGroup
		places, done := make(chan struct{}, 8), make(chan struct{})
		for _, id := range ids {
			wg.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				if _, err := s.Claim(b.Context(), id, me.ID()); err != nil {
					b.Error(err)
				}
			})
		}
		go func() { wg.Wait(); close(done) }()
		longest := time.Duration(0)
		for claiming := true; claiming; {
			from := time.Now()
			if err := s.Commit(b.Context(), layerStep(going, seq, 1)); err != nil {
				b.Fatal(err)
			}
			seq++
			longest = max(longest, time.Since(from))
			select {
			case <-done:
				claiming = false
			default:
			}
		}
		all, commits = append(all, time.Since(began)), append(commits, longest)
	}
	slices.Sort(all)
	slices.Sort(commits)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms")
	b.ReportMetric(float64(commits[len(commits)/2].Microseconds())/1000, "longest-commit-ms")
}
