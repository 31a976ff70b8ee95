package route

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const (
	// liveReady is how long a decision waits until the events that it causes
	// can be shown, liveEnd how long an answer waits for the last of them.
	liveReady = time.Second
	liveEnd   = 200 * time.Millisecond
)

// lastEvents are those after which a run has ended or waits.
var lastEvents = []core.EventType{core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventApprovalRequested}

// fromNow asks for the events that are yet to come.
const fromNow = -1

// live shows what happens in a run of a server while somebody waits for it.
type live struct {
	b      *Backend
	r      Remote
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ended  chan struct{} // closed by an event that ends or pauses the run
	once   sync.Once
}

// watched does something with a run of a server and shows its events meanwhile.
// A caller that does not wait, and a half that tells of its events itself, sees
// none.
func (b *Backend) watched(ctx context.Context, h Half, wait time.Duration, do func(*live) (api.Result, error)) (api.Result, error) {
	r, remote := h.(Remote)
	if !remote || h == Half(b.o.Local) || b.o.Progress == nil || wait == 0 {
		return do(nil)
	}
	l := &live{b: b, r: r, ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(ctx)
	defer l.wg.Wait()
	defer l.cancel()
	res, err := do(l)
	if err == nil && res.Status != api.StatusRunning {
		late, cancel := context.WithTimeout(l.ctx, liveEnd)
		defer cancel()
		select {
		case <-l.ended:
		case <-late.Done():
		}
	}
	return res, err
}

// follow begins to show the events of a run after a number. It returns once
// none of those that are yet to come can be missed, if that does not take long.
// A stream that breaks off for good only shows nothing more.
func (l *live) follow(id core.ID, since int64) {
	if l == nil {
		return
	}
	listening, cancel := context.WithTimeout(l.ctx, liveReady)
	l.wg.Go(func() {
		defer cancel()
		_ = l.r.Live(l.ctx, id, since, cancel, func(e core.Event) error {
			l.b.o.Progress(e)
			if slices.Contains(lastEvents, e.Type) {
				l.once.Do(func() { close(l.ended) })
			}
			return nil
		})
	})
	<-listening.Done()
}
