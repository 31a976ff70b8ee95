package store

import (
	"cmp"
	"slices"

	"github.com/casys-ai/pml/core"
)

// Settlement is an approval that a step settles without a decision: as it was, and
// the store's own row of it, which Settle has changed.
type Settlement[Row any] struct {
	Row    Row
	Before core.Approval
	now    *core.Approval
}

// Changed reports whether the approval is in another state than before. The others
// were marked as used only.
func (s Settlement[Row]) Changed() bool { return s.now.State != s.Before.State }

// Settle does to the approvals of a run what a step says of them, the same in every
// store: it refuses the step if somebody has decided one of Undecided, marks those of
// Used, which it refuses for more calls than they were given for, and supersedes those of Supersede and of ends that are still open. ends are
// all approvals of a run that the step ends, none for another step: nobody waits for
// them any more.
//
// find reads an approval of the run within the transaction and returns its row and
// the approval in it, once for each id; what it returns is changed in place. The
// settlements come back in the order of their ids, so that two transactions that
// write the same rows lock them in the same order.
func Settle[Row any](s *Step, ends []core.ID, find func(core.ID) (Row, *core.Approval, error)) ([]Settlement[Row], error) {
	found := map[core.ID]Settlement[Row]{}
	get := func(id core.ID) (Settlement[Row], error) {
		if one, ok := found[id]; ok {
			return one, nil
		}
		row, a, err := find(id)
		if err != nil {
			return Settlement[Row]{}, err
		}
		found[id] = Settlement[Row]{row, *a, a}
		return found[id], nil
	}
	for _, id := range s.Undecided {
		one, err := get(id)
		if err == nil && IsDecided(one.Before) {
			err = Decided(one.Before)
		}
		if err != nil {
			return nil, err
		}
	}
	used := map[core.ID]*core.Approval{}
	for _, u := range s.Used {
		one, err := get(u.Approval)
		if err != nil {
			return nil, err
		}
		a, ok := used[u.Approval]
		if !ok {
			a = new(one.Before)
			used[u.Approval] = a
		}
		if err := s.use(u, a); err != nil {
			return nil, err // nothing was changed in place
		}
	}
	for id, a := range used {
		found[id].now.Used, found[id].now.CallIDs = a.Used, a.CallIDs
	}
	for _, id := range slices.Concat(s.Supersede, ends) {
		one, err := get(id)
		if err != nil {
			return nil, err
		}
		if one.now.State == core.ApprovalOpen {
			one.now.State = core.ApprovalSuperseded
		}
	}
	out := make([]Settlement[Row], 0, len(found))
	for _, one := range found {
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Settlement[Row]) int { return cmp.Compare(a.Before.ID, b.Before.ID) })
	return out, nil
}

// Audits reports whether the step brings the row of the audit log that says that an
// approval was superseded; the store writes one where it does not.
func (s *Step) Audits(id core.ID) bool {
	return slices.ContainsFunc(s.Audit, func(r core.AuditRow) bool {
		return r.ApprovalID == id && r.Outcome == core.ApprovalSuperseded
	})
}

// Announces reports whether the step brings the event that says that an approval was
// resolved; the store adds one where it does not.
func (s *Step) Announces(id core.ID) bool {
	return slices.ContainsFunc(s.Events, func(e core.Event) bool {
		return e.ApprovalID == id && e.Type == core.EventApprovalResolved
	})
}
