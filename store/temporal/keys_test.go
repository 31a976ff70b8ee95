package temporal_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/temporal"
)

// keyedRun is a run with an idempotency key.
func keyedRun(key string) core.Run {
	return newRun(time.Now(), func(r *core.Run) { r.IdempotencyKey, r.IdempotencyDigest = key, "sha256:aa" })
}

// Of many processes that begin a run with one key at the same time one does, and the others learn which.
func TestKey_OneOfMany(t *testing.T) {
	t.Parallel()
	opts := options(t)
	stores := []*temporal.Store{open(t, opts), open(t, opts), open(t, opts)}
	for _, s := range stores {
		t.Cleanup(func() { _ = s.Close() })
	}
	for round := range 5 {
		key := fmt.Sprint("key ", round)
		runs, errs := make([]core.Run, 9), make([]error, 9)
		var wg sync.WaitGroup
		for i := range runs {
			runs[i] = keyedRun(key)
			wg.Go(func() { errs[i] = stores[i%3].Commit(t.Context(), begun(runs[i])) })
		}
		wg.Wait()
		var won []core.ID
		for i, err := range errs {
			if err == nil {
				won = append(won, runs[i].ID)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d runs have the key: %v", len(won), errs)
		}
		for i, err := range errs {
			if err != nil && (core.CodeOf(err) != core.CodeDuplicate || core.AsError(err).RunID != won[0]) {
				t.Errorf("%v; the key is that of %s", err, won[0])
			}
			if _, err := stores[0].Run(t.Context(), runs[i].ID); (err == nil) != (errs[i] == nil) {
				t.Errorf("began with %v, and is there: %v", errs[i], err)
			}
		}
		// By its key the run is found at once, by a process that has not met it.
		if list, err := stores[round%3].Runs(t.Context(), store.RunFilter{IdempotencyKey: key, Workspace: "/w", Limit: 1}); err != nil || len(list) != 1 || list[0].ID != won[0] {
			t.Errorf("by the key: %v %v", list, err)
		}
	}
}

// A process that is killed between taking a key and beginning its run keeps nobody from it, and
// one that was only stopped there does not begin a second run.
func TestKey_Killed(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	t.Cleanup(func() { _, _ = s.Close(), other.Close() })
	first, second, third := keyedRun("k"), keyedRun("k"), keyedRun("k")
	if err := temporal.TakeKey(t.Context(), s, first); err != nil {
		t.Fatal(err)
	}
	if err := other.Commit(t.Context(), begun(second)); err != nil {
		t.Fatalf("after one that was killed: %v", err)
	}
	err := temporal.Begin(t.Context(), s, begun(first))
	if core.CodeOf(err) != core.CodeDuplicate || core.AsError(err).RunID != second.ID {
		t.Errorf("one that goes on late: %v", err)
	}
	err = s.Commit(t.Context(), begun(third))
	if core.CodeOf(err) != core.CodeDuplicate || core.AsError(err).RunID != second.ID {
		t.Errorf("a third: %v", err)
	}
	if _, err := s.Run(t.Context(), first.ID); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("the first is there: %v", err)
	}
	if list := awaitRuns(t, s, store.RunFilter{}, 1); list[0].ID != second.ID {
		t.Errorf("%v", list)
	}
	again := keyedRun("once more") // the one that took it begins, as a process does whose answer was lost
	if err := temporal.TakeKey(t.Context(), s, again); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), begun(again)); err != nil {
		t.Errorf("one that has its key already: %v", err)
	}
}

// The key of a run that was removed is free.
func TestKey_Removed(t *testing.T) {
	t.Parallel()
	s := open(t, options(t))
	t.Cleanup(func() { _ = s.Close() })
	first, second := keyedRun("k"), keyedRun("k")
	first.State = core.RunComplete
	if err := s.Commit(t.Context(), begun(first)); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), begun(second)); core.CodeOf(err) != core.CodeDuplicate {
		t.Errorf("before: %v", err)
	}
	if err := s.Remove(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), begun(second)); err != nil {
		t.Error(err)
	}
}
