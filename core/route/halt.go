package route

import (
	"context"
	"errors"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Halts are those of both halves. When the server does not answer, it says so as a warning.
func (b *Backend) Halts(ctx context.Context) ([]core.Halt, error) {
	ours, err := b.o.Local.Halts(ctx)
	if err != nil {
		return nil, err
	}
	r, away := b.server(ctx, false)
	if r != nil {
		var theirs []core.Halt
		if theirs, away = r.Halts(ctx); away == nil {
			return append(ours, theirs...), nil
		}
	}
	if away != nil && !b.absent(ctx, away) {
		return nil, away
	}
	if away != nil {
		b.warn(missing(away))
	}
	return ours, nil
}

// HaltCalls halts the calls of both halves at once. That one cannot be halted is an error,
// and keeps the other one from nothing.
func (b *Backend) HaltCalls(ctx context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	return b.bothHalves(ctx, "halted", func(h Half) ([]core.Halt, error) { return h.HaltCalls(ctx, by, reason) })
}

// ResumeCalls lets the calls of both halves go on.
func (b *Backend) ResumeCalls(ctx context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	return b.bothHalves(ctx, "resumed", func(h Half) ([]core.Halt, error) { return h.ResumeCalls(ctx, req) })
}

// bothHalves does something in both halves, at the same time, and says of which it is
// done where it is not done of both.
func (b *Backend) bothHalves(ctx context.Context, done string, f func(Half) ([]core.Halt, error)) ([]core.Halt, error) {
	type outcome struct {
		halts []core.Halt
		err   error
	}
	remote := make(chan outcome, 1)
	go func() {
		r, err := b.server(ctx, false)
		if err != nil || r == nil {
			remote <- outcome{nil, err}
			return
		}
		halts, err := f(r)
		remote <- outcome{halts, err}
	}()
	ours, err := f(b.o.Local)
	theirs := <-remote
	all := append(ours, theirs.halts...)
	switch {
	case err != nil && theirs.err != nil:
		return all, errors.Join(err, theirs.err)
	case err != nil && len(theirs.halts) > 0:
		return all, core.Errorf(core.CodeOf(err), "the calls of the server are %s, those of this machine are not: %w", done, err)
	case err != nil:
		return all, err
	case theirs.err != nil:
		return all, core.Errorf(core.CodeOf(theirs.err), "the calls of this machine are %s, those of the server are not: %w", done, theirs.err)
	}
	return all, nil
}
