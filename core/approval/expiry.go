package approval

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

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
		switch {
		case !CanDecide(a, now):
		case a.StateAt(now) == core.ApprovalOpen:
			open = append(open, a)
		default:
			expired = append(expired, a)
		}
	}
	slices.SortFunc(open, core.BySoonest)
	slices.SortFunc(expired, core.BySoonest)
	return append(open, expired...)
}

// CanDecide reports whether a decision can be about an approval, if its run has not
// ended: it is open, or has expired and was not asked again.
func CanDecide(a core.Approval, now time.Time) bool {
	state := a.StateAt(now)
	return state == core.ApprovalOpen || state == core.ApprovalExpired && a.RenewedBy == ""
}

// TimeSetting is the setting that says how long an approval can be decided.
func TimeSetting(a core.Approval) string {
	if a.Type == core.ApproveLayer { // it ends with its run
		return "approvals.resume_ttl"
	}
	if a.Type == core.ApproveHost {
		return "hooks.wait"
	}
	return "approvals.ttl"
}
