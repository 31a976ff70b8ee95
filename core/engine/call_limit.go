package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
)

// lateError is the cause with which a call ends that takes too long: what it has
// not done.
type lateError struct{ text string }

// Error implements error.
func (e *lateError) Error() string { return e.text }

// limit ends a call that takes too long: a task by its own limit, others when
// nothing was heard of them for a while, or in all.
type limit struct {
	silence, total time.Duration
	quiet, whole   *time.Timer // nil for none
	cancel         context.CancelCauseFunc
}

// bounded is a context for a call with its limit, which has begun.
func bounded(ctx context.Context, limits *Limits, spec *core.TaskSpec) (context.Context, *limit) {
	l, late := &limit{silence: limits.CallTimeout, total: limits.CallTotal}, "took longer than %s in all (limits.call_total)"
	if spec != nil && spec.TimeoutMS > 0 {
		l.silence, l.total, late = 0, time.Duration(spec.TimeoutMS)*time.Millisecond, "did not answer within %s (timeout_ms of the task)"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	after := func(d time.Duration, text string) *time.Timer {
		if d <= 0 {
			return nil
		}
		return time.AfterFunc(d, func() { cancel(&lateError{text}) })
	}
	l.whole = after(l.total, fmt.Sprintf(late, l.total))
	l.quiet = after(l.silence, fmt.Sprintf("did not answer within %s, nor tell of progress (limits.call_timeout)", l.silence))
	return ctx, l
}

// begin begins the limit anew.
func (l *limit) begin() {
	if l.whole != nil {
		l.whole.Reset(l.total)
	}
	l.alive()
}

// alive notes that something was heard of the call.
func (l *limit) alive() {
	if l.quiet != nil {
		l.quiet.Reset(l.silence)
	}
}

// suspend stops the limit until it begins anew: the call waits for others.
func (l *limit) suspend() {
	for _, t := range []*time.Timer{l.quiet, l.whole} {
		if t != nil {
			t.Stop()
		}
	}
}

// stop ends the limit and its context.
func (l *limit) stop() {
	l.suspend()
	l.cancel(nil)
}
