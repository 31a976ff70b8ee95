package local

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
)

// abortAfter is how long a call of an offered tool is under way before it is
// looked whether somebody aborts its run: most are over by then.
const abortAfter = 200 * time.Millisecond

// errCallAborted is the cause with which calls end whose run somebody aborts.
var errCallAborted = errors.New("its run was aborted")

// abortable is a context for a call that ends when somebody, in this process or
// in another one, aborts its run. over has to be called when the call has ended;
// it returns the request if that is what has ended it.
func (t *throughCall) abortable(ctx context.Context) (_ context.Context, over func() *core.AbortRequest) {
	var asked atomic.Pointer[core.AbortRequest]
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(abortAfter, func() {
		defer close(done)
		defer core.Recover(t.c.o.Logger, "it was watched whether a run is aborted", nil, "workflow_id", t.call.RunID)
		if req := t.c.awaitAbort(ctx, t.call.RunID); req != nil {
			asked.Store(req)
			cancel(errCallAborted)
		}
	})
	return ctx, func() *core.AbortRequest {
		ended := errors.Is(context.Cause(ctx), errCallAborted)
		cancel(nil)
		if !timer.Stop() {
			<-done
		}
		if !ended {
			return nil
		}
		return asked.Load()
	}
}

// awaitAbort waits until somebody wants a run to be aborted; nil once the context
// has ended, or when that cannot be learned.
func (c *Client) awaitAbort(ctx context.Context, id core.ID) *core.AbortRequest {
	changes, err := c.base.Store.WatchOthers(ctx)
	for err == nil {
		var run core.Run
		if run, err = c.base.Store.Run(ctx, id); err == nil && run.Abort != nil {
			return run.Abort
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	if ctx.Err() == nil {
		c.o.Logger.Warn("a call cannot be aborted while it is under way", "run", id.Short(), "error", core.AsError(err))
	}
	return nil
}
