package approval

import (
	"time"

	"github.com/casys-ai/pml/core"
)

// MayResume refuses to let calls go on that were halted, unless a person does it: one
// who was asked on a terminal or has typed the PIN, which it takes where one is set; a PIN
// that nobody has proved to know shows no person (core.Guard.Unproved). An agent never may. Stores ask it within the transaction that resumes. Errors:
// core.CodeAwaitingHuman, core.CodeAuth.
func MayResume(g core.Guard, r core.Resumption) error {
	switch {
	case r.By.Via == core.ViaMCP || r.Presence == "" || r.Presence == core.PresenceNobody, r.Presence == core.PresencePin && g.Unproved:
		return core.Errorf(core.CodeAwaitingHuman, "calls stay halted: only a person lets them go on, on a terminal that asks or with the PIN (--pin-fd); nothing was changed").WithNext("pml", "resume")
	case g.Pin != "" && r.Proved != g.Pin:
		return core.Errorf(core.CodeAuth, "calls stay halted: to let them go on needs the PIN, which is set in the store; a person types it at the prompt").WithNext("pml", "resume")
	}
	return nil
}

// HaltedRow is the audit row of a halt.
func HaltedRow(h core.Halt) core.AuditRow {
	return core.AuditRow{At: h.At.UTC(), Outcome: core.ApprovalDenied, By: h.By, Reason: core.OneLine(core.HaltedAll+because(h.Reason), maxRowReason)}
}

// ResumedRow is the audit row of whoever lets calls go on after a halt.
func ResumedRow(h core.Halt, r core.Resumption) core.AuditRow {
	return core.AuditRow{At: r.At.UTC(), Outcome: core.ApprovalApproved, By: r.By, Asked: r.Presence, Reason: core.OneLine(core.LetGoOn+h.Text()+because(r.Reason), maxRowReason)}
}

const maxRowReason = 1000

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Hold stops the time of an open approval while calls are halted: what is left of it is
// kept.
func Hold(a *core.Approval, now time.Time) {
	if a.State == core.ApprovalOpen {
		a.ExpiresAt, a.HeldMS = held(a.ExpiresAt, a.HeldMS, now)
	}
}

// HoldRun is Hold of a run that can expire.
func HoldRun(r *core.Run, now time.Time) {
	if MayExpire(r.State) {
		r.ExpiresAt, r.HeldMS = held(r.ExpiresAt, r.HeldMS, now)
	}
}

// UnderHalt is what a run that is written comes to: while calls are halted (h) its time
// stands still, and that it waits for a halt which is over is taken back.
func UnderHalt(r *core.Run, h *core.Halt, now time.Time) {
	switch {
	case h != nil:
		HoldRun(r, now)
	case r.Halted != nil:
		ReleaseRun(r, *r.Halted, now)
	}
	if !MayExpire(r.State) {
		r.HeldMS, r.Halted = 0, nil
	}
}

func held(until *time.Time, was int64, now time.Time) (*time.Time, int64) {
	switch {
	case until == nil:
		return nil, was
	case !until.After(now):
		return until, 0 // it has expired
	}
	return nil, max(1, until.Sub(now).Milliseconds())
}

// Release lets the time of an approval go on after a halt.
func Release(a *core.Approval, h core.Halt, now time.Time) {
	if a.State == core.ApprovalOpen {
		a.ExpiresAt, a.HeldMS = released(a.ExpiresAt, a.HeldMS, h, now), 0
	}
}

// ReleaseRun lets a run go on after a halt. One that the halt has stopped waits for
// nobody any more: whoever has it, or finds it without a runner, goes on with it.
func ReleaseRun(r *core.Run, h core.Halt, now time.Time) {
	if r.Halted != nil && r.State == core.RunWaiting {
		r.State, r.ExpiresAt, r.HeldMS = core.RunInterrupted, nil, 0
	}
	r.Halted = nil
	if MayExpire(r.State) {
		r.ExpiresAt, r.HeldMS = released(r.ExpiresAt, r.HeldMS, h, now), 0
	}
}

// released is until when something lives that had so many milliseconds left. What was
// written in the moment of the halt still has a time: it is moved by as long as that
// lasted.
func released(until *time.Time, left int64, h core.Halt, now time.Time) *time.Time {
	switch {
	case until != nil && !until.After(h.At): // it had expired
		return until
	case until != nil:
		t := Bounded(until.Add(now.Sub(h.At)))
		return &t
	case left > 0:
		t := Bounded(now.Add(time.Duration(left) * time.Millisecond))
		return &t
	}
	return nil
}
