package bolt_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// disk remembers what a database file held after each commit, so that it can be
// made what a loss of power may leave of it.
type disk struct {
	path   string
	mu     sync.Mutex        // guards what follows: a store syncs also when it rests
	images map[uint64][]byte // by commit
	synced map[uint64]bool   // the commits that were the last when the file was synced
	last   uint64
}

// look remembers the file as it is now.
func (d *disk) look(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.keep(); err != nil {
		t.Fatal(err)
	}
}

// keep needs d.mu.
func (d *disk) keep() (commit uint64, err error) {
	raw, err := os.ReadFile(d.path)
	if err != nil {
		return 0, err
	}
	commit, err = bolt.LastCommit(d.path)
	if err != nil {
		return 0, err
	}
	if _, ok := d.images[commit]; !ok && d.images != nil {
		d.images[commit], d.last = raw, max(commit, d.last)
	}
	return commit, nil
}

// sync notes that what is in the file has reached the disk.
func (d *disk) sync() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if commit, err := d.keep(); err == nil {
		d.synced[commit] = true
	}
}

func (d *disk) has(commit uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.synced[commit]
}

// loses cuts the power: of what was written since the file was synced some
// sectors have arrived and others not. The log was synced with each commit. It
// returns how many commits are in the log.
func (d *disk) loses(t *testing.T, rng *rand.Rand) int {
	t.Helper()
	base, records, on, err := bolt.Based(d.path + ".redo")
	if err != nil {
		t.Fatal(err)
	}
	if !on {
		base = d.last
	}
	synced, ok := d.images[base]
	if !ok || on && !d.has(base) || base > d.last || on && base+uint64(records) < d.last {
		t.Fatalf("the base %d (synced: %v) with %d records does not lead to commit %d", base, d.has(base), records, d.last)
	}
	left := make([]byte, len(d.images[d.last]))
	copy(left, synced)
	unit := 512
	if rng.IntN(2) == 0 {
		unit = os.Getpagesize()
	}
	for at := 0; at < len(left); at += unit {
		from, end := d.images[base+rng.Uint64N(d.last-base+1)], min(at+unit, len(left))
		if from != nil && at < len(from) {
			copy(left[at:end], from[at:min(end, len(from))])
		}
	}
	if err := os.WriteFile(d.path, left, 0o600); err != nil { // it stays the same file
		t.Fatal(err)
	}
	return records
}

// contents lists all that a database holds, but for the stamp of the indexes.
func contents(t *testing.T, path string) []string {
	t.Helper()
	raw := read(t, path)
	file := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	checkPages(t, file)
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var all []string
	var walk func(at string, b *bbolt.Bucket) error
	walk = func(at string, b *bbolt.Bucket) error {
		all = append(all, fmt.Sprintf("%s #%d", at, b.Sequence()))
		return b.ForEach(func(k, v []byte) error {
			name := at + "/" + hex.EncodeToString(k)
			if v == nil {
				return walk(name, b.Bucket(k))
			}
			if string(k) != "indexed" {
				all = append(all, name+" = "+hex.EncodeToString(v))
			}
			return nil
		})
	}
	if err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return walk(string(name), b) })
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// waiting is a run with an approval that nobody has decided.
type waiting struct {
	run      core.Run
	approval core.Approval
}

// powered are some stores on one folder, as they are between two losses of power.
type powered struct {
	stores []*bolt.Store
	open   []waiting
}

func (p *powered) start(t *testing.T, d *disk, boot string, exclusive bool, logs int64) {
	t.Helper()
	d.synced = map[uint64]bool{}
	n := 2
	if exclusive {
		n = 1
	}
	p.stores = nil
	for range n {
		s, err := bolt.Open(bolt.Options{Dir: filepath.Dir(d.path), Clock: wall{}, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung,
			Exclusive: exclusive, Boot: boot})
		if err != nil {
			t.Fatal(err)
		}
		s.LimitRedo(logs, d.sync)
		p.stores = append(p.stores, s)
	}
}

func (p *powered) read(t *testing.T) {
	t.Helper()
	if _, err := p.stores[0].Runs(t.Context(), store.RunFilter{}); err != nil {
		t.Fatal(err)
	}
}

// work commits something through one of the stores.
func (p *powered) work(t *testing.T, d *disk, rng *rand.Rand) {
	t.Helper()
	s, ctx := p.stores[rng.IntN(len(p.stores))], t.Context()
	var err error
	switch n := rng.IntN(13); {
	case len(p.open) == 0 || n < 5:
		err = p.waits(s)
	case n < 8:
		a := p.open[len(p.open)-1].approval
		p.open = p.open[:len(p.open)-1]
		_, err = s.Decide(ctx, core.Decision{ApprovalID: a.ID, Approved: n == 5, At: time.Now(), By: core.Actor{Who: "x"}}, store.Renewal{})
	case n == 8:
		run := p.open[0].run
		p.open = p.open[1:]
		run.State = core.RunComplete
		if err = s.Commit(ctx, store.Step{Run: run}); err == nil {
			s.Written()
			d.look(t)
			err = s.Remove(ctx, run.ID)
		}
	case n == 9: // fails before it counts, or after
		s.FailCommit(rng.IntN(2) == 0)
		if _, _, failed := createWaiting(s, false); failed == nil {
			t.Fatal("a commit that failed is said to be there")
		}
	case n == 10: // counts, and fails before it is in the file, or after
		s.FailWrite(rng.IntN(2) == 0)
		err = p.waits(s)
	case n == 11: // dies with the record in the log
		s.DieInWrite()
		err = p.waits(s)
	default: // too much for the log
		run := newRun("r")
		err = s.Commit(ctx, store.Step{Run: run, Create: true, Records: []core.Record{newRecord(1)},
			Program: &core.Program{Kind: core.KindCode, Version: 1, Source: strings.Repeat("x", 40<<10)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Written()
	d.look(t)
}

// waits makes a run that waits.
func (p *powered) waits(s *bolt.Store) (err error) {
	var w waiting
	if w.run, w.approval, err = createWaiting(s, len(p.open)%5 == 0); err == nil {
		p.open = append(p.open, w)
	}
	return err
}

// commits makes some runs.
func (p *powered) commits(t *testing.T, n int) {
	t.Helper()
	for range n {
		if _, _, err := createWaiting(p.stores[0], false); err != nil {
			t.Fatal(err)
		}
		p.stores[0].Written()
	}
}

// leave ends the stores as a loss of power does: nothing is written any more.
func (p *powered) leave(t *testing.T) {
	t.Helper()
	for _, s := range p.stores {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPower loses power again and again, also while the file is made whole: all
// that was committed is there afterwards, whatever of the file has arrived.
func TestPower(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for seed := range uint64(24) {
		exclusive := seed%2 == 1
		t.Run(fmt.Sprintf("%d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			dir := t.TempDir()
			d := &disk{path: filepath.Join(dir, "pending.db"), images: map[uint64][]byte{}}
			if exclusive {
				d.path = filepath.Join(dir, "server.db")
			}
			p := &powered{}
			replayed := 0
			for boot := range 5 {
				p.start(t, d, fmt.Sprint("boot", boot), exclusive, int64(20<<10+rng.IntN(40<<10)))
				p.read(t)
				d.look(t)
				for range 1 + rng.IntN(25) {
					p.work(t, d, rng)
				}
				logged := read(t, d.path+".redo")
				p.read(t)             // which brings what counts into the file
				if rng.IntN(2) == 0 { // power is lost only then
					logged = read(t, d.path+".redo")
					d.look(t)
				}
				want := contents(t, d.path)
				replayed += p.lose(t, d, logged, rng)
				p.start(t, &disk{path: d.path}, fmt.Sprint("between", boot), exclusive, 64<<10)
				p.read(t)
				if diff := cmp.Diff(want, contents(t, d.path)); diff != "" {
					t.Fatalf("boot %d: after the loss of power (-before +after):\n%.2000s", boot, diff)
				}
				p.leave(t)
				d.images, d.last = map[uint64][]byte{}, 0
				d.look(t)
			}
			if replayed == 0 {
				t.Error("no commit was made again")
			}
		})
	}
}

// lose leaves of the file and the log what a loss of power may leave. In half of
// the cases power is lost again while the file is made whole.
func (p *powered) lose(t *testing.T, d *disk, logged []byte, rng *rand.Rand) int {
	t.Helper()
	p.leave(t) // which syncs: so the log is put back as it was
	put := func() int {
		if err := os.WriteFile(d.path+".redo", logged, 0o600); err != nil {
			t.Fatal(err)
		}
		return d.loses(t, rng)
	}
	n := put()
	if exclusive := len(p.stores) == 1; exclusive || rng.IntN(2) == 0 { // an exclusive one writes more when it is closed
		return n
	}
	base, _, on, err := bolt.Based(d.path + ".redo")
	if err != nil || !on {
		return n
	}
	// Power is lost after the records were made again and before the log says so:
	// of what that has written anything may have arrived.
	before := read(t, d.path)
	p.start(t, &disk{path: d.path}, "whole", false, 64<<10)
	p.read(t)
	p.leave(t)
	after := read(t, d.path)
	torn := &disk{path: d.path, images: map[uint64][]byte{base: before, base + 1: after}, last: base + 1, synced: map[uint64]bool{base: true}}
	if len(after) < len(before) {
		torn.images[base+1] = append(after, before[len(after):]...)
	}
	if err := os.WriteFile(d.path+".redo", logged, 0o600); err != nil {
		t.Fatal(err)
	}
	return torn.loses(t, rng)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// needsLog skips a test where stores have no redo log.
func needsLog(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		skip(t, "only Linux tells whether it was started anew", nil)
	}
}

// TestPower_OtherFile: a file that the log does not belong to is left alone.
func TestPower_OtherFile(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for name, put := range map[string]func(t *testing.T, path string, backup []byte){
		"OlderInPlace": func(t *testing.T, path string, backup []byte) {
			if err := os.WriteFile(path, backup, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"WrittenByOthers": func(t *testing.T, path string, _ []byte) { raw(t, path, forget) },
		"FreshFile": func(t *testing.T, path string, _ []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			s := open(t, dir, wall{})
			if _, _, err := createWaiting(s, false); err != nil {
				t.Fatal(err)
			}
			s.Written()
			if err := os.Rename(filepath.Join(dir, "pending.db"), path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &disk{path: filepath.Join(t.TempDir(), "pending.db"), images: map[uint64][]byte{}}
			p := &powered{}
			p.start(t, d, "before", false, 64<<10)
			p.commits(t, 1)
			backup := read(t, d.path)
			p.commits(t, 3)
			p.leave(t) // the log begins anew here
			p.start(t, d, "before", false, 64<<10)
			p.commits(t, 3)
			logged := read(t, d.path+".redo")
			p.leave(t)
			if err := os.WriteFile(d.path+".redo", logged, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, n, on, err := bolt.Based(d.path + ".redo"); !on || n != 3 || err != nil {
				t.Fatalf("%d records, %v", n, err)
			}
			put(t, d.path, backup)
			want := contents(t, d.path)
			p.start(t, d, "after", false, 64<<10)
			defer p.leave(t)
			p.read(t)
			if diff := cmp.Diff(want, contents(t, d.path)); diff != "" {
				t.Errorf("the log was put into it (-before +after):\n%.2000s", diff)
			}
		})
	}
}

// forget removes an index entry, as a program that does not know the log may.
func forget(tx *bbolt.Tx) error {
	k, _ := tx.Bucket([]byte("runs_by_created")).Cursor().First()
	return tx.Bucket([]byte("runs_by_created")).Delete(k)
}
