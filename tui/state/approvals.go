package state

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// approvalTable is the approvals by id.
type approvalTable struct{ byID map[core.ID]core.Approval }

func newApprovalTable() approvalTable {
	return approvalTable{byID: map[core.ID]core.Approval{}}
}

// PutApprovals takes approvals; what is known of others stays.
func (s *State) PutApprovals(list ...core.Approval) {
	for _, a := range list {
		s.approvals.byID[a.ID] = a
	}
	s.version++
}

// Approval returns one approval.
func (s *State) Approval(id core.ID) (core.Approval, bool) {
	a, ok := s.approvals.byID[id]
	return a, ok
}

// Waiting returns the approvals that can be decided at a time, soonest expiry
// first.
func (s *State) Waiting(now time.Time) []core.Approval {
	var out []core.Approval
	for _, a := range s.approvals.byID {
		if a.StateAt(now) == core.ApprovalOpen {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, core.BySoonest)
	return out
}

// Resolved returns up to n approvals that were decided or have expired, newest
// first.
func (s *State) Resolved(now time.Time, n int) []core.Approval {
	var out []core.Approval
	for _, a := range s.approvals.byID {
		if a.StateAt(now) != core.ApprovalOpen {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b core.Approval) int { return resolvedAt(b).Compare(resolvedAt(a)) })
	return out[:min(n, len(out))]
}

// resolvedAt is when an approval stopped waiting.
func resolvedAt(a core.Approval) time.Time {
	switch {
	case a.DecidedBy != nil:
		return a.DecidedBy.At
	case a.ExpiresAt != nil:
		return *a.ExpiresAt
	}
	return a.CreatedAt
}
