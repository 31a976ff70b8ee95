package runs

import (
	"context"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// untilDecided returns a context for a question about an approval. It ends as soon as
// somebody else has decided it, or what asked the same again after it had expired: who that
// was is the cause, core.CodeAlreadyDecided. It also ends when nobody waits for an answer
// any more, core.CodeNotWaiting. The function it returns ends the watch, and waits until
// nobody uses the backend any more.
func untilDecided(ctx context.Context, b app.Backend, p core.Approval) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() { // without events the store says at the end who was faster
		defer close(over)
		_ = b.Events(ctx, p.RunID, api.Since{}, true, func(e core.Event) error {
			if e.Type != core.EventApprovalResolved {
				return nil
			}
			got, err := asItIs(ctx, b, p.ID)
			switch {
			case err != nil:
			case got.State == core.ApprovalSuperseded:
				cancel(approval.NotWaiting(got))
			case got.DecidedBy != nil:
				cancel(approval.AlreadyDecided(got))
			}
			return nil
		})
	}()
	return ctx, func() {
		cancel(nil)
		<-over
	}
}

// settled reports whether an error says that a question is over, without the answer given here.
func settled(err error) bool {
	code := core.CodeOf(err)
	return code == core.CodeAlreadyDecided || code == core.CodeNotWaiting
}

// faster is what somebody else has decided while a question was on the screen, nil if
// that is not why the question ended.
func faster(ctx context.Context) *core.Error {
	if err := context.Cause(ctx); settled(err) {
		return core.AsError(err)
	}
	return nil
}

// changedSince reports whether an approval is not what was shown any more: what was decided about it
// does not count, and it is shown again.
func changedSince(err error) bool { return core.CodeOf(err) == core.CodeDigestMismatch }

// overtaken says who was faster, below the question that is over.
func overtaken(a *app.App, err error) {
	a.Progress.Clear()
	a.Say("note: %s", core.Visible(err.Error(), 2000, false))
}

// approvedAlready reports whether somebody faster has approved what a question was about:
// then a command that was to approve it goes on with the run.
func approvedAlready(ctx context.Context, b app.Backend, id core.ID) bool {
	p, err := asItIs(ctx, b, id)
	return err == nil && p.State == core.ApprovalApproved
}

// asItIs is an approval, or the last of those that asked the same again.
func asItIs(ctx context.Context, b app.Backend, id core.ID) (core.Approval, error) {
	for {
		p, err := b.Approval(ctx, id)
		if err != nil || p.RenewedBy == "" {
			return p, err
		}
		id = p.RenewedBy
	}
}
