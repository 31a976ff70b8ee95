package mcp

import (
	"context"
	"log/slog"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// A run costs most while it begins: its sandbox starts, its code is read, its
// first records are written. A thousand that begin at once starve one another,
// so they take turns.

const (
	// settling is how long a run that has begun is left alone before its events
	// are looked at: most are over by then.
	settling = 20 * time.Millisecond
	// beginning is the longest that a run counts as one that begins. One that
	// computes must not keep others from it.
	beginning = 2 * time.Second
)

// turns holds one for each run that begins.
type turns chan struct{}

// take waits until one more run may begin, first come first served. ended gives
// the place back: at once when the call knows that the run needs it no more,
// else when the run, told by begun, has done something.
func (t turns) take(ctx context.Context, b Backend, log *slog.Logger) (begun func(core.ID), ended func(*api.Result, error), err error) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, core.Errorf(core.CodeCancelled, "the call was given up before its run began; nothing was run: %w", context.Cause(ctx))
	}
	ids, over := make(chan core.ID, 1), make(chan struct{})
	go func() {
		defer func() { <-t }()
		defer core.Recover(log, "a run began", nil)
		hasBegun(context.WithoutCancel(ctx), b, ids, over)
	}()
	begun = func(id core.ID) {
		select {
		case ids <- id:
		default: // it has the signal already
		}
	}
	ended = func(r *api.Result, err error) {
		if err == nil && r.Status == api.StatusRunning && r.WorkflowID != "" {
			begun(r.WorkflowID) // the call is over, and the run begins
			return
		}
		close(over)
	}
	return begun, ended, nil
}

// hasBegun returns when the run that ids names has made a call, waits for
// somebody or has ended; when it has had its time to begin; or when over is
// closed.
func hasBegun(ctx context.Context, b Backend, ids <-chan core.ID, over <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, beginning)
	defer cancel()
	go func() { // over ends everything below
		select {
		case <-over:
			cancel()
		case <-ctx.Done():
		}
	}()
	var id core.ID
	select {
	case id = <-ids:
	case <-ctx.Done():
		return
	}
	settled := time.NewTimer(settling)
	defer settled.Stop()
	select {
	case <-settled.C:
	case <-ctx.Done():
		return
	}
	moved := false
	_ = b.Events(ctx, id, api.Since{}, true, func(ev core.Event) error {
		if ev.Type == core.EventWorkflowStart || ev.Type == core.EventLayerStart {
			return nil
		}
		moved = true
		return errOver
	})
	if !moved {
		<-ctx.Done() // without events its time decides
	}
}
