package mcp

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// past is a backend with events of some times.
type past struct {
	Backend
	at []time.Time
}

func (past) Resolve(context.Context, string) (id, approval core.ID, err error) { return "r", "", nil }

func (p past) Events(_ context.Context, _ core.ID, _ api.Since, _ bool, each func(core.Event) error) error {
	for _, at := range p.at {
		if err := each(core.Event{At: at, ApprovalID: "a"}); err != nil {
			return err
		}
	}
	return nil
}

// What has happened before somebody watches is no news.
func TestWatcher_Past(t *testing.T) {
	t.Parallel()
	now := fixedClock{}.Now()
	for _, uri := range []string{uriApprovals, uriRuns + "r"} {
		w := &watcher{b: past{at: []time.Time{now.Add(-time.Hour), now.Add(-1), now, now.Add(1)}}, uri: uri, since: now, moved: make(chan struct{}, 1)}
		w.events(t.Context())
		if got := w.moves.Load(); got != 2 {
			t.Errorf("%s: %d of 2 events are news", uri, got)
		}
	}
}

// inbox is a backend whose approvals a test sets.
type inbox struct {
	Backend
	list []core.Approval
}

func (i *inbox) Approvals(context.Context, bool) ([]core.Approval, error) { return i.list, nil }

// An event that changes nothing of what waits is not told; expiry is, without
// any event.
func TestWatcher_Inbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &inbox{}
		w := &watcher{b: b, uri: uriApprovals, clock: realClock{}, moved: make(chan struct{}, 1)}
		var told atomic.Int64
		go w.run(ctx, func() { told.Add(1) })
		step := func(want int64, what string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := told.Load(); got != want {
				t.Errorf("%s: told %d times, want %d", what, got, want)
			}
		}
		w.moved <- struct{}{}
		step(0, "nothing waits")
		expires := realClock{}.Now().Add(150 * time.Second)
		b.list = []core.Approval{{ID: "a", State: core.ApprovalOpen, ExpiresAt: &expires}}
		w.moved <- struct{}{}
		step(1, "one waits")
		w.moved <- struct{}{}
		step(1, "the same waits")
		step(2, "it has expired")
		cancel()
		synctest.Wait()
	})
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }
