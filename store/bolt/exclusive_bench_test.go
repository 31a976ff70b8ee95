package bolt_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// many are the runs that a store keeps in the benchmarks of large ones.
const many = 100_000

// kept returns an exclusive store that keeps so many runs that have ended, each
// with a program, four records and six events, and some that wait.
func kept(b *testing.B, ended, waiting int) (*bolt.Store, string) {
	b.Helper()
	dir := b.TempDir()
	s := openExclusive(b, dir, wall{})
	program := &core.Program{Kind: core.KindCode, Version: 1, Source: "const a = await tools.fs.read({path: 'a'}); return a"}
	create := func(i int) error {
		run := newRun("r")
		run.Owner = fmt.Sprintf("owner-%d", i%100)
		step := store.Step{Run: run, Create: true, Program: program}
		for n := range int64(4) {
			step.Records = append(step.Records, newRecord(n+1))
		}
		for range 6 {
			step.Events = append(step.Events, core.Event{Type: core.EventTaskComplete, TaskID: "t", Tool: "fs:read", At: run.CreatedAt})
		}
		if i >= ended {
			step.Open = []core.Approval{newApproval(run.ID)}
		} else {
			step.Run.State, step.Run.Result = core.RunComplete, json.RawMessage(`{"ok":true}`)
		}
		return s.Commit(b.Context(), step)
	}
	var wg sync.WaitGroup
	const workers = 64
	for w := range workers {
		wg.Go(func() {
			for i := w; i < ended+waiting; i += workers {
				if err := create(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return s, dir
}

// floorDB is a bare bbolt file that is kept open, with what a commit of one
// step writes at the least: a record, an event and a header.
type floorDB struct {
	db *bbolt.DB

	mu    sync.Mutex
	queue []chan error
	puts  []func(*bbolt.Tx) error
	busy  bool
	n     uint64
}

func newFloor(b *testing.B) *floorDB {
	b.Helper()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "floor.db"), 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"runs", "journal", "events"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return &floorDB{db: db}
}

// commit writes a step; those that come meanwhile share the next transaction.
func (f *floorDB) commit(run core.Run, r core.Record, e core.Event) error {
	var rows [3][]byte
	for i, v := range []any{run, r, e} {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		rows[i] = raw
	}
	done := make(chan error, 1)
	f.mu.Lock()
	f.queue = append(f.queue, done)
	f.puts = append(f.puts, func(tx *bbolt.Tx) error {
		f.n++
		key := binary.BigEndian.AppendUint64(nil, f.n)
		if err := tx.Bucket([]byte("runs")).Put([]byte(run.ID), rows[0]); err != nil {
			return err
		}
		if err := tx.Bucket([]byte("journal")).Put(append([]byte(run.ID), key...), rows[1]); err != nil {
			return err
		}
		return tx.Bucket([]byte("events")).Put(key, rows[2])
	})
	lead := !f.busy
	f.busy = true
	f.mu.Unlock()
	if lead {
		f.drain()
	}
	return <-done
}

func (f *floorDB) drain() {
	for {
		f.mu.Lock()
		queue, puts := f.queue, f.puts
		f.queue, f.puts = nil, nil
		f.busy = len(queue) > 0
		f.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		err := f.db.Update(func(tx *bbolt.Tx) error {
			for _, put := range puts {
				if err := put(tx); err != nil {
					return err
				}
			}
			return nil
		})
		for _, done := range queue {
			done <- err
		}
	}
}

func benchFloor(b *testing.B, writers int) {
	f := newFloor(b)
	inParallel(b, writers, func() func() error {
		run, seq := newRun("r"), int64(0)
		return func() error {
			seq++
			r := newRecord(seq)
			return f.commit(run, r, core.Event{Type: core.EventTaskComplete, At: r.At, TaskID: r.CallID, Tool: r.Tool})
		}
	})
}

func benchSteps(b *testing.B, s *bolt.Store, writers int) {
	inParallel(b, writers, func() func() error {
		run, seq := newRun("r"), int64(0)
		if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
			b.Error(err)
		}
		return func() error {
			seq++
			r := newRecord(seq)
			return s.Commit(b.Context(), store.Step{Run: run, Records: []core.Record{r},
				Events: []core.Event{{Type: core.EventTaskComplete, At: r.At, TaskID: r.CallID, Tool: r.Tool}}})
		}
	})
}

// inParallel runs b.N commits from so many writers.
func inParallel(b *testing.B, writers int, writer func() func() error) {
	b.Helper()
	commits := make([]func() error, writers)
	for i := range commits {
		commits[i] = writer()
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for w, commit := range commits {
		wg.Go(func() {
			for i := w; i < b.N; i += writers {
				if err := commit(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkExclusive_Commit commits steps of one record and one event, from one
// writer and from 16, beside the floor and with many old runs.
func BenchmarkExclusive_Commit(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("Floor/%d", writers), func(b *testing.B) { benchFloor(b, writers) })
		b.Run(fmt.Sprintf("Empty/%d", writers), func(b *testing.B) {
			benchSteps(b, openExclusive(b, b.TempDir(), wall{}), writers)
		})
	}
}

// BenchmarkExclusive_Kept does that, and lists, with many old runs; sizes take
// turns, so that they can be compared.
func BenchmarkExclusive_Kept(b *testing.B) {
	sizes := []int{100, 10_000, many}
	stores, dirs := map[int]*bolt.Store{}, map[int]string{}
	for _, n := range sizes {
		stores[n], dirs[n] = kept(b, n, 50)
	}
	for _, writers := range []int{1, 16} {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("Commit/%d/%d", writers, n), func(b *testing.B) { benchSteps(b, stores[n], writers) })
		}
	}
	for _, n := range sizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			benchLists(b, stores[n])
			b.Run("Open/AfterCrash", func(b *testing.B) { benchCrashed(b, dirs[n]) })
		})
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("Open/AfterClose/%d", n), func(b *testing.B) { benchOpen(b, stores[n], dirs[n]) })
	}
}

func benchLists(b *testing.B, s *bolt.Store) {
	for name, f := range map[string]store.RunFilter{
		"All":     {Limit: 50},
		"Waiting": {Limit: 50, States: []core.RunState{core.RunWaiting}},
		"Failed":  {Limit: 50, States: []core.RunState{core.RunFailed}},
		"Owner":   {Limit: 50, Owner: "owner-7"},
		"Nobody":  {Limit: 50, Owner: "nobody"},
	} {
		b.Run("Runs/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Runs(b.Context(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Orphans", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Orphans(b.Context(), "me", 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchCrashed opens what a process would leave behind that is killed now: a
// file without a list of its free pages.
func benchCrashed(b *testing.B, dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "server.db"))
	if err != nil {
		b.Fatal(err)
	}
	to := b.TempDir()
	if err := os.WriteFile(filepath.Join(to, "server.db"), raw, 0o600); err != nil {
		b.Fatal(err)
	}
	s := openExclusive(b, to, wall{}) // nothing is committed, so each open finds the same
	benchOpen(b, s, to)
	b.ReportMetric(float64(len(raw)>>20), "MB")
}

// benchOpen closes the store and opens it again.
func benchOpen(b *testing.B, s *bolt.Store, dir string) {
	for b.Loop() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		var err error
		if s, err = bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, Exclusive: true}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
