package mcp

import (
	"context"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// past is a backend with events of some times.
type past struct {
	Backend
	at []time.Time
}

func (past) Resolve(context.Context, string) (id, approval core.ID, err error) { return "r", "", nil }

func (p past) Events(_ context.Context, _ core.ID, _ int64, _ bool, each func(core.Event) error) error {
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
