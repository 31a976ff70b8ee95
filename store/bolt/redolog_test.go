package bolt_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/bolt/redo"
)

// TestRedo_LogRemoved: a log that is removed while it is in use is not written any
// more, where nobody would find its records: the file is synced, and there is a
// new one.
func TestRedo_LogRemoved(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for name, exclusive := range map[string]bool{"Shared": false, "Exclusive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &disk{path: filepath.Join(t.TempDir(), "pending.db"), images: map[uint64][]byte{}}
			if exclusive {
				d.path = filepath.Join(filepath.Dir(d.path), "server.db")
			}
			p := &powered{}
			p.start(t, d, "boot", exclusive, 64<<10)
			defer p.leave(t)
			for _, large := range []int{0, 70 << 10} { // which is more than the log holds
				p.commits(t, 3)
				if err := os.Remove(d.path + ".redo"); err != nil {
					t.Fatal(err)
				}
				run := newRun("r")
				if err := p.stores[0].Commit(t.Context(), store.Step{Run: run, Create: true,
					Program: &core.Program{Kind: core.KindCode, Version: 1, Source: strings.Repeat("x", large)}}); err != nil {
					t.Fatal(err)
				}
				last, err := bolt.LastCommit(d.path)
				if err != nil {
					t.Fatal(err)
				}
				base, n, on := based(t, d.path)
				if on != (large == 0) || on && (!d.has(base) || base+uint64(n) < last) { // off: bbolt has synced it
					t.Errorf("commit %d is not durable: base %d (on: %v, synced: %v) with %d records", last, base, on, d.has(base), n)
				}
			}
		})
	}
}

// TestRedo_LogRemovedAtRest: a file that rests without its log is synced.
func TestRedo_LogRemovedAtRest(t *testing.T) {
	t.Parallel()
	needsLog(t)
	d := &disk{path: filepath.Join(t.TempDir(), "pending.db"), images: map[uint64][]byte{}}
	p := &powered{}
	p.start(t, d, "boot", false, 64<<10)
	p.commits(t, 3)
	if err := os.Remove(d.path + ".redo"); err != nil {
		t.Fatal(err)
	}
	p.leave(t)
	last, err := bolt.LastCommit(d.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, on := based(t, d.path); on || !d.has(last) {
		t.Errorf("commit %d is not synced", last)
	}
}

// TestRedo_OffUnsynced: a head that says that the log is off, and was not synced by
// who was killed, is made durable before the file is written without the log. Else
// the base before could count again, when its pages are gone.
func TestRedo_OffUnsynced(t *testing.T) {
	t.Parallel()
	needsLog(t)
	d := &disk{path: filepath.Join(t.TempDir(), "pending.db"), images: map[uint64][]byte{}}
	p := &powered{}
	p.start(t, d, "boot", false, 64<<10)
	p.commits(t, 3)
	p.leave(t)
	log, err := redo.Open(d.path+".redo", 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Load(); err != nil {
		t.Fatal(err)
	}
	if err := log.Begin(nil, []byte("off")); err != nil { // and not Sync
		t.Fatal(err)
	}
	p.start(t, d, "boot", false, 64<<10)
	defer p.leave(t)
	var flushed atomic.Bool
	p.stores[0].FlushedRedo(func() { flushed.Store(true) })
	run := newRun("r")
	if err := p.stores[0].Commit(t.Context(), store.Step{Run: run, Create: true,
		Program: &core.Program{Kind: core.KindCode, Version: 1, Source: strings.Repeat("x", 70<<10)}}); err != nil {
		t.Fatal(err)
	}
	if !flushed.Load() {
		t.Error("the file was written while the log may be on again after a loss of power")
	}
}

// TestRedo_MapTooSmall: a commit that writes much more again than it changes does not
// wait for ever for the base of the log to be let go.
func TestRedo_MapTooSmall(t *testing.T) {
	t.Parallel()
	needsLog(t)
	s := open(t, t.TempDir(), wall{})
	s.MapRedo(16 << 20)
	run := newRun("r")
	program := func(version, size int) *core.Program {
		return &core.Program{Kind: core.KindCode, Version: version, Source: strings.Repeat("x", size)}
	}
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Program: program(1, 9<<20)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), store.Step{Run: run, Program: program(2, 100)}) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(hung):
		panic("the commit waits for ever") // and so would the store when it is closed
	}
	if _, _, err := createWaiting(s, false); err != nil {
		t.Error(err)
	}
	checkPages(t, s.Path())
}

// TestRedo_RestLetsOthersIn: a store that has synced its file at rest does not keep
// others from opening it.
func TestRedo_RestLetsOthersIn(t *testing.T) {
	t.Parallel()
	needsLog(t)
	s := open(t, t.TempDir(), wall{})
	for tries := 0; ; tries++ {
		if _, _, err := createWaiting(s, false); err != nil {
			t.Fatal(err)
		}
		if s.Settle() {
			break
		}
		if tries == 100 {
			t.Fatal("the store never rests")
		}
	}
	db, err := bbolt.Open(s.Path(), 0o600, &bbolt.Options{Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// based reads what the log of a file says.
func based(t *testing.T, path string) (base uint64, records int, on bool) {
	t.Helper()
	base, records, on, err := bolt.Based(path + ".redo")
	if err != nil {
		t.Fatal(err)
	}
	return base, records, on
}

// TestRedo_HeldPages: the file is synced before the pages of the base that are not
// used again make it large, however much room the log has.
func TestRedo_HeldPages(t *testing.T) {
	t.Parallel()
	needsLog(t)
	d := &disk{path: filepath.Join(t.TempDir(), "server.db"), images: map[uint64][]byte{}}
	p := &powered{}
	p.start(t, d, "boot", true, 1<<30)
	defer p.leave(t)
	p.commits(t, 1)
	first, _, _ := based(t, d.path)
	p.commits(t, 500)
	if base, n, on := based(t, d.path); !on || base == first || !d.has(base) {
		t.Errorf("after %d commits the base is %d still", n, base)
	}
}

// TestRedo_HeadLost: power is lost after the records of a new head have been written
// over those of the one before, and before the new head has: the file, which was
// synced for it, is left as it is.
func TestRedo_HeadLost(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for n := range 4 { // records that are written over
		d := &disk{path: filepath.Join(t.TempDir(), "pending.db"), images: map[uint64][]byte{}}
		p := &powered{}
		read := func(path string) []byte {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		p.start(t, d, "before", false, 64<<10)
		p.commits(t, 4)
		old := read(d.path + ".redo")
		p.leave(t)
		want, synced := contents(t, d.path), read(d.path)
		p.start(t, d, "before", false, 64<<10)
		p.commits(t, 1+n)
		log := read(d.path + ".redo")
		p.leave(t)
		copy(log, old[:8192]) // the heads
		for path, raw := range map[string][]byte{d.path + ".redo": log, d.path: synced} {
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.start(t, d, "after", false, 64<<10)
		p.read(t)
		if diff := cmp.Diff(want, contents(t, d.path)); diff != "" {
			t.Errorf("%d records (-before +after):\n%.2000s", n, diff)
		}
		p.leave(t)
	}
}
