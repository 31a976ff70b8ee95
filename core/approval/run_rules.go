package approval

import (
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// MayExpire reports whether a run in a state can expire.
func MayExpire(s core.RunState) bool { return !s.Final() && core.CanMove(s, core.RunExpired) }

// RunAt is a run as readers see it at a time: one that is past its expiry has
// expired, although no writer has recorded it yet.
func RunAt(r core.Run, now time.Time) core.Run {
	if r.ExpiresAt != nil && MayExpire(r.State) && !now.Before(*r.ExpiresAt) {
		r.State = core.RunExpired
		at := *r.ExpiresAt
		r.EndedAt = &at
	}
	return r
}

// Outlast lets a run that waits live at least until a time, for ever without
// one: nobody could answer a question of a run that has expired. While calls are
// halted its time stands still, and what is left of it is compared.
func Outlast(r *core.Run, until *time.Time, now time.Time) {
	ends := r.ExpiresAt
	if ends == nil && r.HeldMS > 0 {
		t := now.Add(time.Duration(r.HeldMS) * time.Millisecond)
		ends = &t
	}
	if MayExpire(r.State) && ends != nil && (until == nil || ends.Before(*until)) {
		r.ExpiresAt, r.HeldMS = core.UTC(until), 0
	}
}

// Undecided refuses to have an approval decided at now because its run has ended:
// core.CodeWorkflowExpired or core.CodeNotWaiting. One that was decided is not
// refused.
func Undecided(a core.Approval, r core.Run, now time.Time) error {
	if decided(a) {
		return nil
	}
	switch state := RunAt(r, now).State; {
	case state == core.RunExpired:
		return Expired(r)
	case state.Final() && a.State == core.ApprovalOpen:
		return core.Errorf(core.CodeNotWaiting, "the run %s of the approval %s has ended: it is %s",
			r.ID.Short(), a.ID.Short(), state).WithRun(r.ID).WithNext("pml", "workflows", "show", string(r.ID))
	}
	return nil
}

// Expired is the error of what is asked of a run that has expired.
func Expired(r core.Run) *core.Error {
	return core.Errorf(core.CodeWorkflowExpired, "the run %s has expired: it waited too long for a decision and cannot be continued",
		r.ID.Short()).WithRun(r.ID).WithNext("pml", "workflows", "show", string(r.ID))
}

// Claimable refuses to have a run taken up at now that has ended for good, or that is
// a copy of a run of another store: that one goes on where it is, and nowhere else.
func Claimable(r core.Run, now time.Time) error {
	switch state := RunAt(r, now).State; {
	case r.Imported != nil:
		return Ended(r)
	case state == core.RunExpired:
		return Expired(r)
	case state.Final() && !core.CanMove(state, core.RunRunning), state == core.RunComplete && r.Kind != core.KindAgent:
		return Ended(r)
	}
	return nil
}

// Ended is the error of what is asked of a run that has ended otherwise.
func Ended(r core.Run) *core.Error {
	if r.Imported != nil {
		return core.Errorf(core.CodeNotWaiting, "the run %s is a copy that was imported from a file: it can be looked at, and goes on only where it was exported", r.ID.Short()).
			WithRun(r.ID).WithNext("pml", "workflows", "show", string(r.ID))
	}
	return core.Errorf(core.CodeNotWaiting, "the run %s has ended: it is %s", r.ID.Short(), r.State).
		WithRun(r.ID).WithNext("pml", "workflows", "show", string(r.ID))
}

// Rule is Decide of an approval together with its run, which it changes, as far as
// the guard of the store lets the decision through (Permits; a pause is none): the first
// request to abort stays, and a run that waits lives until a time, nil for ever. One
// that runs sets its expiry when it pauses, an interrupted one has none. It reports
// whether anything of the two has to be written.
func Rule(g core.Guard, a core.Approval, r *core.Run, d core.Decision, until *time.Time, now time.Time) (res Result, write bool, err error) {
	if res, err = Decide(a, d, now); err == nil && res.Changed && !IsPause(r.Options, a) {
		err = Permits(g, a, d)
	}
	if err != nil {
		return Result{}, false, err
	}
	at := now
	if !d.At.IsZero() {
		at = d.At.UTC()
	}
	abort := d.Abort && r.Abort == nil && !r.State.Final()
	if !res.Changed && !abort {
		return res, false, nil
	}
	if abort {
		r.Abort = &core.AbortRequest{By: d.By, At: at, Reason: d.Reason}
		res.Row.Aborted = res.Changed
	}
	if res.Changed && r.State == core.RunWaiting {
		r.ExpiresAt, r.HeldMS = core.UTC(until), 0
	}
	r.UpdatedAt = at
	return res, true, nil
}

// Requested returns the event that tells of a new approval.
func Requested(a core.Approval) core.Event {
	data, err := json.Marshal(struct {
		Type core.ApprovalType `json:"approval_type"`
		Risk core.Risk         `json:"risk"`
		By   core.Actor        `json:"requested_by"`
	}{a.Type, a.Risk, a.RequestedBy})
	if err != nil {
		data = core.Null
	}
	return core.Event{Type: core.EventApprovalRequested, At: a.CreatedAt, Tool: a.Tool, ApprovalID: a.ID,
		Message: a.Description, Data: data}
}
