package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Every command looks at the server's status first, so it must not cost what
// counting thousands of runs does.
const (
	cheapCount = 5 * time.Millisecond // such a count is made for each status
	countShare = 20                   // a dearer one is made at most this share of the time
	counted    = 10_000               // bounds what is counted
)

// counts are how many runs and approvals there are. While they are cheap to
// count they are counted when they are asked for; after that they are counted
// when something has changed, and asking gives the last.
type counts struct {
	store store.Store

	mu    sync.Mutex
	last  count
	cost  time.Duration
	known bool
}

type count struct{ running, waiting, approvals int }

// get returns the counts. With an error come the last that are known.
func (c *counts) get(ctx context.Context) (count, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.cost > cheapCount {
		return c.last, nil
	}
	return c.refresh(ctx)
}

// refresh counts, with the lock.
func (c *counts) refresh(ctx context.Context) (count, error) {
	began := time.Now()
	now, err := c.count(ctx, began)
	if err != nil {
		return c.last, err
	}
	c.last, c.known, c.cost = now, true, time.Since(began)
	return now, nil
}

func (c *counts) count(ctx context.Context, now time.Time) (count, error) {
	running, err := c.runs(ctx, core.RunRunning)
	waiting, werr := c.runs(ctx, core.RunWaiting)
	open, aerr := c.store.Approvals(ctx, store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}, Now: now, Limit: counted})
	return count{running, waiting, len(open)}, errors.Join(err, werr, aerr)
}

// runs counts the runs in a state that servers run themselves.
func (c *counts) runs(ctx context.Context, state core.RunState) (int, error) {
	list, err := c.store.Runs(ctx, store.RunFilter{States: []core.RunState{state}, Limit: counted})
	n := 0
	for _, r := range list {
		if !r.Remote {
			n++
		}
	}
	return n, err
}

// follow counts anew after changes, as long as that is dear.
func (c *counts) follow(ctx context.Context) error {
	changes, err := c.store.Watch(ctx)
	if err != nil {
		return err
	}
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		cost, dear := c.recount(ctx)
		if !dear {
			continue
		}
		select {
		case <-time.After(max(time.Second, countShare*cost)):
		case <-ctx.Done():
			return nil
		}
	}
}

// recount counts if that was dear the last time, without keeping those waiting
// who want the last count.
func (c *counts) recount(ctx context.Context) (cost time.Duration, dear bool) {
	c.mu.Lock()
	dear = c.known && c.cost > cheapCount
	c.mu.Unlock()
	if !dear {
		return 0, false
	}
	began := time.Now()
	now, err := c.count(ctx, began)
	cost = time.Since(began)
	if err != nil {
		return cost, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.cost = now, cost
	return cost, true
}
