package approval

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// TTL says how long approvals and waiting runs live; 0 means for ever.
type TTL struct {
	Approval time.Duration // approvals.ttl
	Resume   time.Duration // approvals.resume_ttl
}

// Until returns when an approval that is opened now expires; nil means never.
// One of type layer lives as long as its run, which expires at runUntil.
func (t TTL) Until(kind core.ApprovalType, now time.Time, runUntil *time.Time) *time.Time {
	if kind == core.ApproveLayer {
		return runUntil
	}
	return after(now, t.Approval)
}

// RunUntil returns until when a run that waits can be continued after
// activity or a decision at now; nil means for ever.
func (t TTL) RunUntil(now time.Time) *time.Time {
	return after(now, t.Resume)
}

func after(now time.Time, d time.Duration) *time.Time {
	if d == 0 {
		return nil
	}
	return deadline(now.Add(d))
}

// Expire records that an open approval's time has run out, at the time at
// which it did.
func Expire(a core.Approval, now time.Time) Result {
	at := now
	if a.ExpiresAt != nil && a.ExpiresAt.Before(now) {
		at = *a.ExpiresAt
	}
	return settle(a, core.ApprovalExpired, at, "nobody decided in time")
}

// Decidable are those of the approvals of runs that have not ended which a decision
// can be about: the open ones by expiry, then those that have expired and were not
// asked again. A decision about one of these asks again first.
func Decidable(list []core.Approval, now time.Time) []core.Approval {
	var open, expired []core.Approval
	for _, a := range list {
		switch state := a.StateAt(now); {
		case state == core.ApprovalOpen:
			open = append(open, a)
		case state == core.ApprovalExpired && a.RenewedBy == "":
			expired = append(expired, a)
		}
	}
	slices.SortFunc(open, core.BySoonest)
	slices.SortFunc(expired, core.BySoonest)
	return append(open, expired...)
}
