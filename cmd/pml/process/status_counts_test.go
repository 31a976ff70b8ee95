package process

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// slowStore takes a while to list what it has.
type slowStore struct {
	store.Store
	takes   atomic.Int64
	waiting atomic.Int64
	lists   atomic.Int64
	changes chan struct{}
}

func (s *slowStore) Runs(_ context.Context, f store.RunFilter) ([]core.Run, error) {
	s.lists.Add(1)
	time.Sleep(time.Duration(s.takes.Load()))
	if !slices.Contains(f.States, core.RunWaiting) {
		return []core.Run{{Remote: true}}, nil // its client runs it
	}
	return make([]core.Run, s.waiting.Load()), nil
}

func (s *slowStore) Approvals(context.Context, store.ApprovalFilter) ([]core.Approval, error) {
	return make([]core.Approval, s.waiting.Load()), nil
}

func (s *slowStore) Watch(context.Context) (<-chan struct{}, error) { return s.changes, nil }

// TestCounts: few runs are counted when somebody asks; many are counted in the
// background after changes, and nobody waits for that.
func TestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{changes: make(chan struct{}, 1)}
		c := &counts{store: s}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.follow(ctx)
		is := func(want count, took time.Duration) {
			t.Helper()
			began := time.Now()
			got, err := c.get(ctx)
			if err != nil || got != want || time.Since(began) != took {
				t.Errorf("%+v after %s (%v), want %+v after %s", got, time.Since(began), err, want, took)
			}
		}
		s.waiting.Store(3)
		is(count{0, 3, 3}, 0)
		s.waiting.Store(4)
		is(count{0, 4, 4}, 0)
		s.takes.Store(int64(50 * time.Millisecond))
		is(count{0, 4, 4}, 100*time.Millisecond) // now it is known to be dear
		s.waiting.Store(5)
		is(count{0, 4, 4}, 0)
		s.changes <- struct{}{}
		synctest.Wait()
		is(count{0, 4, 4}, 0) // it is being counted
		time.Sleep(time.Second)
		is(count{0, 5, 5}, 0)
		// A store that changes all the time is not counted all the time.
		before := s.lists.Load()
		for range 100 {
			select {
			case s.changes <- struct{}{}:
			default:
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := (s.lists.Load() - before) / 2; n > 6 {
			t.Errorf("counted %d times in 10 s", n)
		}
	})
}
