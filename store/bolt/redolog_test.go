package bolt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
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
				p.stores[0].Written()
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

// TestRedo_TurnedOff: who has the file open with a log that somebody else has turned
// off since does not go on with it.
func TestRedo_TurnedOff(t *testing.T) {
	t.Parallel()
	needsLog(t)
	d := &disk{path: filepath.Join(t.TempDir(), "pending.db"), images: map[uint64][]byte{}}
	p := &powered{}
	p.start(t, d, "boot", false, 64<<10)
	defer p.leave(t)
	log, err := redo.Open(d.path+".redo", 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for n := range 5 {
		p.commits(t, 3)
		if _, err := log.Load(); err != nil {
			t.Fatal(err)
		}
		if err := log.End([]byte{byte(n)}); err != nil {
			t.Fatal(err)
		}
		p.commits(t, 1)
		last, err := bolt.LastCommit(d.path)
		if err != nil {
			t.Fatal(err)
		}
		if base, n, on := based(t, d.path); !on || !d.has(base) || base+uint64(n) != last {
			t.Fatalf("commit %d is not durable: base %d (on: %v, synced: %v) with %d records", last, base, on, d.has(base), n)
		}
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
		p.start(t, d, "before", false, 64<<10)
		p.commits(t, 4)
		old := read(t, d.path+".redo")
		p.leave(t)
		want, synced := contents(t, d.path), read(t, d.path)
		p.start(t, d, "before", false, 64<<10)
		p.commits(t, 1+n)
		log := read(t, d.path+".redo")
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

// TestRedo_FinishedByOthers: a commit that counts, and of which the file has nothing
// because who made it died or failed, is in the file before anybody uses it again:
// also for one who has the file open from before.
func TestRedo_FinishedByOthers(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for name, leave := range map[string]func(*bolt.Store){
		"Died":        (*bolt.Store).DieInWrite,
		"FailedFirst": func(s *bolt.Store) { s.FailWrite(false) },
		"FailedAfter": func(s *bolt.Store) { s.FailWrite(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d := &powered{}, &disk{path: filepath.Join(t.TempDir(), "pending.db")}
			p.start(t, d, "boot", false, 64<<10)
			defer p.leave(t)
			a, b := p.stores[0], p.stores[1]
			runs := 0
			for n := range 24 {
				switch n % 4 { // b has read, or written, or was refused, or it has none of them
				case 0:
					if _, err := b.Runs(t.Context(), store.RunFilter{}); err != nil {
						t.Fatal(err)
					}
				case 1:
					if _, _, err := createWaiting(b, false); err != nil {
						t.Fatal(err)
					}
					runs++
				case 2:
					if err := b.Commit(t.Context(), store.Step{Run: newRun("nobody")}); err == nil {
						t.Fatal("there was no such run")
					}
				}
				b.Written()
				leave(a)
				run, _, err := createWaiting(a, false)
				if err != nil {
					t.Fatalf("a commit that counts is said to have failed: %v", err)
				}
				runs++
				a.Written()
				who := b
				if n/4%2 == 1 {
					who = a
				}
				if _, err := who.Run(t.Context(), run.ID); err != nil {
					t.Fatalf("round %d: %v", n, err)
				}
			}
			list, err := b.Runs(t.Context(), store.RunFilter{})
			if err != nil || len(list) != runs {
				t.Errorf("%d of %d runs, %v", len(list), runs, err)
			}
			checkPages(t, d.path)
		})
	}
}

// TestRedo_FinishedInExclusive: a store that has the file for itself, too, finishes
// what failed before it goes on.
func TestRedo_FinishedInExclusive(t *testing.T) {
	t.Parallel()
	needsLog(t)
	dir := t.TempDir()
	s := openExclusive(t, dir, wall{})
	for n := range 8 {
		switch n % 4 {
		case 0:
			s.DieInWrite()
		case 1, 2:
			s.FailWrite(n%4 == 2)
		}
		run, a, err := createWaiting(s, false)
		if err != nil {
			t.Fatal(err)
		}
		if n < 4 {
			if _, err := s.Run(t.Context(), run.ID); err != nil {
				t.Fatalf("round %d: %v", n, err)
			}
			continue
		}
		if _, err := s.Decide(t.Context(), core.Decision{ApprovalID: a.ID, Approved: true, At: time.Now(), By: core.Actor{Who: "x"}}, store.Renewal{}); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
	}
	s.DieInWrite() // and is closed as it is
	run, _, err := createWaiting(s, false)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openExclusive(t, dir, wall{})
	if _, err := s.Run(t.Context(), run.ID); err != nil {
		t.Error(err)
	}
	if runs, err := s.Runs(t.Context(), store.RunFilter{}); err != nil || len(runs) != 9 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// TestRedo_CloseWaits: a store is closed when the file has what counts.
func TestRedo_CloseWaits(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), wall{})
			held, release, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			s.HoldWrite(held, release)
			if _, _, err := createWaiting(s, false); err != nil {
				t.Fatal(err)
			}
			<-held
			go func() { closed <- s.Close() }()
			for range 10_000 { // who does not wait has the time to come to an end
				runtime.Gosched()
			}
			if len(closed) > 0 {
				t.Error("it was closed before")
			}
			close(release)
			if err := <-closed; err != nil {
				t.Error(err)
			}
			checkPages(t, s.Path()) // and nobody has it open
		})
	}
}

// TestRedo_LogReplaced: who has the file open with a log that was removed, and that
// somebody else has made anew, finds what counts there.
func TestRedo_LogReplaced(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for name, use := range map[string]func(t *testing.T, s *bolt.Store, id core.ID){
		"Read": func(t *testing.T, s *bolt.Store, id core.ID) {
			if _, err := s.Run(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"Write": func(t *testing.T, s *bolt.Store, _ core.ID) {
			if _, _, err := createWaiting(s, false); err != nil {
				t.Error(err)
			}
		},
		"Rest": func(_ *testing.T, s *bolt.Store, _ core.ID) { s.Settle() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d := &powered{}, &disk{path: filepath.Join(t.TempDir(), "pending.db")}
			p.start(t, d, "boot", false, 64<<10)
			a, b := p.stores[0], p.stores[1]
			p.commits(t, 3)
			if err := os.Remove(d.path + ".redo"); err != nil {
				t.Fatal(err)
			}
			b.DieInWrite()
			run, _, err := createWaiting(b, false)
			if err != nil {
				t.Fatal(err)
			}
			b.Written()
			use(t, a, run.ID)
			p.leave(t)
			if _, err := open(t, filepath.Dir(d.path), wall{}).Run(t.Context(), run.ID); err != nil {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// TestRedo_CloseLocked: a store does not wait for the lock of another process, which
// may keep it for ever, to be closed.
func TestRedo_CloseLocked(t *testing.T) {
	t.Parallel()
	needsLog(t)
	dir := t.TempDir()
	open := func(wait time.Duration) *bolt.Store {
		s, err := bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: wait})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, other := open(time.Nanosecond), open(hung)
	if _, _, err := createWaiting(s, false); err != nil {
		t.Fatal(err)
	}
	s.Written()
	held, release := make(chan struct{}), make(chan struct{})
	other.HoldWrite(held, release)
	if _, _, err := createWaiting(other, false); err != nil {
		t.Fatal(err)
	}
	<-held
	if _, err := s.Runs(t.Context(), store.RunFilter{}); core.CodeOf(err) != core.CodeStoreBusy {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(release)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestRedo_OthersTold: other processes are told of a commit when it counts, also if
// it then fails on its way into the file.
func TestRedo_OthersTold(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for name, leave := range map[string]func(*bolt.Store){"Died": (*bolt.Store).DieInWrite, "Failed": func(s *bolt.Store) { s.FailWrite(false) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d := &powered{}, &disk{path: filepath.Join(t.TempDir(), "pending.db")}
			p.start(t, d, "boot", false, 64<<10)
			defer p.leave(t)
			a, b := p.stores[0], p.stores[1]
			changes, err := b.WatchOthers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leave(a)
			run, _, err := createWaiting(a, false)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-changes:
			case <-time.After(hung):
				t.Fatal("the other one was not told")
			}
			if _, err := b.Run(t.Context(), run.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRedo_ReadCancelled: who reads while the file does not have what counts waits no
// longer than it wants to.
func TestRedo_ReadCancelled(t *testing.T) {
	t.Parallel()
	needsLog(t)
	s := openExclusive(t, t.TempDir(), wall{})
	held, release := make(chan struct{}), make(chan struct{})
	s.HoldWrite(held, release)
	if _, _, err := createWaiting(s, false); err != nil {
		t.Fatal(err)
	}
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() {
		_, err := s.Runs(ctx, store.RunFilter{})
		read <- err
	}()
	cancel()
	if err := <-read; core.CodeOf(err) != core.CodeCancelled {
		t.Error(err)
	}
	close(release)
}

// TestRedo_TwoEras: the commits of a log are made once, also by processes that do not
// take the same losses of power for such, of which one is killed in between.
func TestRedo_TwoEras(t *testing.T) {
	t.Parallel()
	needsLog(t)
	for n := 1; n <= 3; n++ {
		d := &disk{path: filepath.Join(t.TempDir(), "pending.db")}
		put := func(path string, raw []byte) {
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p := &powered{}
		for _, commits := range []int{1, n} {
			p.start(t, d, "x", false, 64<<10)
			p.commits(t, commits)
			if commits == n {
				break
			}
			p.leave(t)
		}
		log, file := read(t, d.path+".redo"), read(t, d.path)
		p.leave(t)
		put(d.path+".redo", log)
		put(d.path, file)
		want := contents(t, d.path)
		p.start(t, d, "y", false, 64<<10) // another mount
		p.read(t)
		p.leave(t)
		put(d.path+".redo", log) // it was killed before the log was off
		p.start(t, d, "x", false, 64<<10)
		p.read(t)
		if diff := cmp.Diff(want, contents(t, d.path)); diff != "" {
			t.Errorf("%d commits (-before +after):\n%.800s", n, diff)
		}
		p.leave(t)
	}
}
