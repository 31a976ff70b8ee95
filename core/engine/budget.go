package engine

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// budget is the time that a run has. It alone moves a run between running and
// waiting, as nothing that people take counts.
type budget struct {
	run    *core.Run // its ActiveMS, and State and ExpiresAt while it has not ended
	limits *Limits
	now    func() time.Time

	activeSince time.Time // zero while the run waits, and when it has ended
	// parkedSince is since when the run waits here; zero while it runs, and of one
	// that was taken up as it waited until it has had a turn.
	parkedSince time.Time
}

// timeout is how long the run may run; 0: for ever.
func (b *budget) timeout() time.Duration {
	if b.run.Options.TimeoutMS > 0 {
		return time.Duration(b.run.Options.TimeoutMS) * time.Millisecond
	}
	return b.limits.Timeout
}

// active is how long the run has run so far, waiting for people left out.
func (b *budget) active(now time.Time) time.Duration {
	d := time.Duration(b.run.ActiveMS * float64(time.Millisecond))
	if !b.activeSince.IsZero() {
		d += now.Sub(b.activeSince)
	}
	return d
}

// account moves the time spent running into the header.
func (b *budget) account() {
	if !b.activeSince.IsZero() {
		now := b.now()
		b.run.ActiveMS = float64(b.active(now).Microseconds()) / 1000
		b.activeSince = now
	}
}

// resumeUntil is until when a run that begins to wait now can be continued.
func (l *Limits) resumeUntil(now time.Time) *time.Time {
	if l.ResumeTTL <= 0 {
		return nil
	}
	t := approval.Bounded(now.Add(l.ResumeTTL))
	return &t
}

// left is what is left of the time; limited is false where there is no limit, or
// it does not run.
func (b *budget) left(now time.Time) (d time.Duration, limited bool) {
	limit := b.timeout()
	return limit - b.active(now), limit > 0 && !b.activeSince.IsZero()
}

// end stops the clock.
func (b *budget) end() {
	b.account()
	b.activeSince = time.Time{}
}

// resume says that the run runs.
func (b *budget) resume() {
	if b.activeSince.IsZero() {
		b.activeSince = b.now()
	}
	b.parkedSince = time.Time{}
	if b.run.State != core.RunRunning {
		b.run.State, b.run.ExpiresAt, b.run.HeldMS = core.RunRunning, nil, 0
	}
}

// wait says that the run waits for people.
func (b *budget) wait() {
	// A run that was taken over while it waited is in this state already.
	if b.run.State == core.RunWaiting && b.activeSince.IsZero() {
		return
	}
	b.end()
	b.parkedSince = b.now()
	if b.run.State != core.RunWaiting {
		b.run.State = core.RunWaiting
		b.run.ExpiresAt = b.limits.resumeUntil(b.parkedSince)
	}
}

// pause stops the clock of a run that only waits for runs of its own, which wait for
// people. Its state stays: nobody asks it anything, and whoever finds it without a
// runner goes on with it.
func (b *budget) pause() { b.end() }
