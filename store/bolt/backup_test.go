package bolt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// TestSnapshot_UnderLoad: while runs with large values are made, go on and are removed,
// each snapshot is whole and has all that was acknowledged before it began.
func TestSnapshot_UnderLoad(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"Shared": false, "Exclusive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := logOptions(t.TempDir(), exclusive)
			s := openOptions(t, opts)
			others := []*bolt.Store{s}
			if !exclusive {
				others = append(others, openOptions(t, opts)) // as another process
			}
			var acknowledged sync.Map
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() { busy(t, ctx, others[i%len(others)], &acknowledged) })
			}
			for range 6 {
				var before []core.ID
				acknowledged.Range(func(id, _ any) bool {
					before = append(before, id.(core.ID))
					return true
				})
				to := opts
				to.Dir = t.TempDir()
				if err := s.Snapshot(t.Context(), to.Dir); err != nil {
					t.Fatal(err)
				}
				c, err := bolt.Verify(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range before {
					if !slices.Contains(c.Runs, id) {
						t.Errorf("the run %s was there before the snapshot and is not in it", id)
					}
				}
			}
			stop()
			wg.Wait()
		})
	}
}

func openOptions(t *testing.T, opts bolt.Options) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// busy makes runs with large values, and removes every second one that it has made.
func busy(t *testing.T, ctx context.Context, s *bolt.Store, acknowledged *sync.Map) {
	for i := 0; ctx.Err() == nil; i++ {
		run := newRun("r")
		program := &core.Program{Kind: core.KindCode, Version: 1, Source: strings.Repeat("x", 8<<10)}
		record := newRecord(1)
		record.Result = []byte(`"` + strings.Repeat(strconv.Itoa(i), 70<<10) + `"`)
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Program: program, Records: []core.Record{record}}); err != nil {
			t.Error(err)
			return
		}
		if i%2 == 0 {
			acknowledged.Store(run.ID, true)
			continue
		}
		run.State = core.RunComplete
		if err := errors.Join(s.Commit(t.Context(), store.Step{Run: run}), s.Remove(t.Context(), run.ID)); err != nil {
			t.Error(err)
			return
		}
	}
}

// backedUp is a store with a large value, and a verified snapshot of it.
func backedUp(t *testing.T, exclusive bool) (opts, staged bolt.Options, run core.ID) {
	t.Helper()
	opts = logOptions(t.TempDir(), exclusive)
	s, err := bolt.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := createWaiting(s, true)
	staged = opts
	staged.Dir = filepath.Join(opts.Dir, ".stage")
	if err := errors.Join(err, s.Snapshot(t.Context(), staged.Dir), s.Close()); err != nil {
		t.Fatal(err)
	}
	if c, err := bolt.Verify(t.Context(), staged); err != nil || !slices.Equal(c.Runs, []core.ID{r.ID}) {
		t.Fatalf("%+v, %v", c, err)
	}
	return opts, staged, r.ID
}

// TestReplace: a staged store takes the place of another one with its large values,
// and whoever had that one open sees it.
func TestReplace(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"Shared": false, "Exclusive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, staged, run := backedUp(t, exclusive)
			s, err := bolt.Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			run2 := newRun("r")
			run2.State = core.RunComplete
			if err := s.Commit(t.Context(), store.Step{Run: run2, Create: true}); err != nil {
				t.Fatal(err)
			}
			if exclusive {
				if _, err := bolt.Hold(opts); core.CodeOf(err) != core.CodeStoreBusy {
					t.Errorf("a store that is in use: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			held, err := bolt.Hold(opts)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := held.Contents(); err != nil || len(c.Runs) != 2 {
				t.Errorf("%+v, %v", c, err)
			}
			if err := os.RemoveAll(filepath.Join(opts.Dir, map[bool]string{true: "server.blobs", false: "blobs"}[exclusive])); err != nil {
				t.Fatal(err)
			}
			if err := held.Replace(staged); err != nil {
				t.Fatal(err)
			}
			held.Release()
			if exclusive {
				s = openOptions(t, opts)
			} else {
				defer s.Close()
			}
			runs, err := s.Runs(t.Context(), store.RunFilter{})
			if err != nil || len(runs) != 1 || runs[0].ID != run {
				t.Fatalf("%v, %v", runs, err)
			}
			if _, err := s.Journal(t.Context(), run, 0); err != nil {
				t.Error(err)
			}
			if _, err := s.Run(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplace_Guard: a backup of a time when decisions needed less does not take away
// what they need now.
func TestReplace_Guard(t *testing.T) {
	t.Parallel()
	opts, staged, _ := backedUp(t, false)
	path := filepath.Join(opts.Dir, "pending.db")
	guard := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte("meta")) }
	raw(t, path, func(tx *bbolt.Tx) error { return guard(tx).Put([]byte("guard"), []byte(`{"pin":"x"}`)) })
	held, err := bolt.Hold(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Replace(staged); err != nil {
		t.Fatal(err)
	}
	held.Release()
	raw(t, path, func(tx *bbolt.Tx) error {
		if got := guard(tx).Get([]byte("guard")); string(got) != `{"pin":"x"}` {
			t.Errorf("decisions need %q", got)
		}
		return nil
	})
}

// TestReplace_EventNumbers: whoever follows the events of a store that is replaced by an
// older one misses none that comes afterwards.
func TestReplace_EventNumbers(t *testing.T) {
	t.Parallel()
	opts, staged, _ := backedUp(t, false)
	s := openOptions(t, opts)
	happen := func() core.ID {
		run := newRun("r")
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Events: []core.Event{{Type: core.EventWorkflowStart}, {Type: core.EventTaskStart}}}); err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	last := func() (e core.Event) {
		list, err := s.Events(t.Context(), store.EventFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			e = list[len(list)-1]
		}
		return e
	}
	happen()
	seen := last().Seq
	held, err := bolt.Hold(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Replace(staged); err != nil {
		t.Fatal(err)
	}
	held.Release()
	if now := last().Seq; now >= seen {
		t.Fatalf("the store is not the older one: its last event is %d", now)
	}
	if run := happen(); last().Seq != seen+2 || last().RunID != run {
		t.Errorf("after %d comes %d", seen, last().Seq)
	}
}

// TestReplace_UnderLoad: while processes come, execute runs and go, a store is replaced
// again and again. Either the replacing is refused, or it comes between two of them: nobody
// who executes a run loses it, or any step of it.
func TestReplace_UnderLoad(t *testing.T) {
	t.Parallel()
	opts, staged, kept := backedUp(t, false)
	aside := staged
	aside.Dir = t.TempDir()
	copyTree(t, staged.Dir, aside.Dir)
	var wg sync.WaitGroup
	var runs sync.RWMutex // held while nobody executes
	ctx, stop := context.WithCancel(t.Context())
	for range 3 {
		s := openOptions(t, opts) // as another process
		wg.Go(func() {
			for ctx.Err() == nil {
				runs.RLock()
				err := executesOne(ctx, s)
				runs.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	replaced, refused := 0, 0
	for until := time.Now().Add(hung); replaced < 5 || refused < 5; {
		held, err := bolt.Hold(opts)
		if core.CodeOf(err) == core.CodeStoreBusy {
			refused++
			runs.Lock()   // all are between two runs, and begin the next together with the next try
			runs.Unlock() //nolint:staticcheck // waiting for that is all that the lock is for
		} else if err != nil {
			t.Error(err)
		} else {
			if err := held.Replace(staged); err != nil {
				t.Error(err)
			}
			held.Release()
			copyTree(t, aside.Dir, staged.Dir)
			replaced++
		}
		if t.Failed() || time.Now().After(until) {
			t.Errorf("%d times replaced, %d times refused", replaced, refused)
			break
		}
	}
	stop()
	wg.Wait()
	c, err := bolt.Verify(t.Context(), opts)
	if err != nil || !slices.Contains(c.Runs, kept) {
		t.Errorf("%+v, %v", c, err)
	}
}

// executesOne is a process that executes one run with a large value, and looks at it.
func executesOne(ctx context.Context, s *bolt.Store) error {
	ctx = context.WithoutCancel(ctx)
	r, err := s.Register(ctx)
	if err != nil {
		return err
	}
	run := newRun(r.ID())
	record := newRecord(1)
	record.Result = []byte(`"` + strings.Repeat("x", 70<<10) + `"`)
	err = s.Commit(ctx, store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}})
	if err == nil {
		err = s.Commit(ctx, store.Step{Run: run, Records: []core.Record{record}})
	}
	if err == nil {
		run.State = core.RunComplete
		err = s.Commit(ctx, store.Step{Run: run})
	}
	if err == nil {
		_, err = s.Journal(ctx, run.ID, 0)
	}
	return errors.Join(err, r.Close())
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestHold_Runner: a store of which a process executes runs is not given away.
func TestHold_Runner(t *testing.T) {
	t.Parallel()
	opts := logOptions(t.TempDir(), false)
	s := openOptions(t, opts)
	r, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Hold(opts); core.CodeOf(err) != core.CodeStoreBusy || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("while a runner lives: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	held, err := bolt.Hold(opts)
	if err != nil {
		t.Fatal(err)
	}
	held.Release()
}

// TestVerify_Damaged: a store with a large value that is missing or another one, or
// with a damaged page, is not whole.
func TestVerify_Damaged(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(db, blob string) error{
		"BlobMissing": func(_, blob string) error { return os.Remove(blob) },
		"BlobChanged": func(_, blob string) error { return os.WriteFile(blob, []byte("x"), 0o600) },
		"Page": func(db, _ string) error {
			f, err := os.OpenFile(db, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 8192), 3*4096)
			return errors.Join(err, f.Close())
		},
		"None": func(db, _ string) error { return os.Remove(db) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, staged, run := backedUp(t, false)
			blobs, err := filepath.Glob(filepath.Join(staged.Dir, "blobs", string(run), "*"))
			if err != nil || len(blobs) == 0 {
				t.Fatalf("%v, %v", blobs, err)
			}
			if err := spoil(filepath.Join(staged.Dir, "pending.db"), blobs[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := bolt.Verify(t.Context(), staged); core.CodeOf(err) != core.CodeStoreFailed {
				t.Error(err)
			}
		})
	}
}
