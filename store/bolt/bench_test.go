package bolt_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/storetest"
)

// bigStore returns a folder whose database has about so many megabytes.
func bigStore(b *testing.B, mb int) (string, *bolt.Store) {
	b.Helper()
	dir := b.TempDir()
	s := open(b, dir, wall{})
	filler := json.RawMessage(`"` + strings.Repeat("x", 3<<10) + `"`)
	for range mb * 4 { // a run with 64 records of 3 KiB is about 256 KiB
		run := newRun("r")
		step := store.Step{Run: run, Create: true}
		for n := range 64 {
			r := newRecord(int64(n + 1))
			r.Result = filler
			step.Records = append(step.Records, r)
		}
		if err := s.Commit(b.Context(), step); err != nil {
			b.Fatal(err)
		}
	}
	return dir, s
}

// step is what a layer of 10 calls commits.
func layerStep(run core.Run, seq int64) store.Step {
	step := store.Step{Run: run}
	for i := range int64(10) {
		r := newRecord(seq + i + 1)
		step.Records = append(step.Records, r)
		for _, typ := range []core.EventType{core.EventTaskStart, core.EventTaskComplete} {
			step.Events = append(step.Events, core.Event{Type: typ, At: r.At, TaskID: r.CallID, Tool: r.Tool})
		}
	}
	return step
}

func benchCommit(b *testing.B, s *bolt.Store) {
	run := newRun("r")
	if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
		b.Fatal(err)
	}
	seq := int64(0)
	for b.Loop() {
		if err := s.Commit(b.Context(), layerStep(run, seq)); err != nil {
			b.Fatal(err)
		}
		seq += 10
	}
}

// BenchmarkCommit commits a layer of 10 results; Floor holds its file open and
// writes the same records and events as they are.
func BenchmarkCommit(b *testing.B) {
	b.Run("Floor", func(b *testing.B) {
		db, err := bbolt.Open(filepath.Join(b.TempDir(), "floor.db"), 0o600, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("b"))
			return err
		}); err != nil {
			b.Fatal(err)
		}
		n := uint64(0)
		for b.Loop() {
			step := layerStep(core.Run{}, 0)
			if err := db.Update(func(tx *bbolt.Tx) error {
				bucket := tx.Bucket([]byte("b"))
				put := func(v any) error {
					raw, err := json.Marshal(v)
					if err != nil {
						return err
					}
					n++
					return bucket.Put(binary.BigEndian.AppendUint64(nil, n), raw)
				}
				for _, r := range step.Records {
					if err := put(r); err != nil {
						return err
					}
				}
				for _, e := range step.Events {
					if err := put(e); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Empty", func(b *testing.B) { benchCommit(b, open(b, b.TempDir(), wall{})) })
	b.Run("100MB", func(b *testing.B) {
		_, s := bigStore(b, 100)
		benchCommit(b, s)
	})
}

// BenchmarkRead is what one operation costs that reads next to nothing: lock,
// open, look, close.
func BenchmarkRead(b *testing.B) {
	s := open(b, b.TempDir(), wall{})
	run, _, err := createWaiting(s, false)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Run(b.Context(), run.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommit_Concurrent commits from 16 goroutines, which share
// transactions.
func BenchmarkCommit_Concurrent(b *testing.B) {
	s := open(b, b.TempDir(), wall{})
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		run := newRun("r")
		if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
			b.Error(err)
		}
		for seq := int64(1); pb.Next(); seq++ {
			if err := s.Commit(b.Context(), store.Step{Run: run, Records: []core.Record{newRecord(seq)}}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkCommit_LargeResult commits results of 16 KiB, which lie in the
// database, and of 100 KiB, which become blobs.
func BenchmarkCommit_LargeResult(b *testing.B) {
	for _, kib := range []int{16, 100} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) { benchLarge(b, kib<<10) })
	}
}

func benchLarge(b *testing.B, size int) {
	s := open(b, b.TempDir(), wall{})
	run := newRun("r")
	if err := s.Commit(b.Context(), store.Step{Run: run, Create: true}); err != nil {
		b.Fatal(err)
	}
	seq := int64(0)
	for b.Loop() {
		seq++
		r := newRecord(seq)
		r.Result, _ = json.Marshal(strings.Repeat(string(newID()), size/36))
		if err := s.Commit(b.Context(), store.Step{Run: run, Records: []core.Record{r}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApprovals lists 1,000 open approvals.
func BenchmarkApprovals(b *testing.B) {
	s := open(b, b.TempDir(), wall{})
	run := newRun("r")
	step := store.Step{Run: run, Create: true}
	for range 1000 {
		step.Open = append(step.Open, newApproval(run.ID))
	}
	if err := s.Commit(b.Context(), step); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		as, err := s.Approvals(b.Context(), store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}})
		if err != nil || len(as) != 1000 {
			b.Fatal(len(as), err)
		}
	}
}

// BenchmarkApprovals_History lists what a decision can be about, and what an agent's tree was
// asked, 10 approvals, where 100,000 belong to runs that have ended; those with a digest that
// none has; and all of them, as a comparison.
func BenchmarkApprovals_History(b *testing.B) {
	s := open(b, b.TempDir(), wall{})
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

// BenchmarkJournal reads 1,000 records.
func BenchmarkJournal(b *testing.B) {
	s := open(b, b.TempDir(), wall{})
	run := newRun("r")
	step := store.Step{Run: run, Create: true}
	for n := range int64(1000) {
		step.Records = append(step.Records, newRecord(n+1))
	}
	if err := s.Commit(b.Context(), step); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if rs, err := s.Journal(b.Context(), run.ID, 0); err != nil || len(rs) != 1000 {
			b.Fatal(len(rs), err)
		}
	}
}
