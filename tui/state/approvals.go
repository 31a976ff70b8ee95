package state

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/casys-ai/pml/core"
)

// approvalRow is an approval and when an event said that it was settled.
type approvalRow struct {
	core.Approval
	settled time.Time
}

// approvalTable is the approvals by id, and what lists need of them, which is
// computed when it is asked for after a change.
type approvalTable struct {
	byID    map[core.ID]*approvalRow
	byRun   map[core.ID][]core.ID
	version int64

	listed   int64           // the version that the rest is of; -1: of none
	open     []core.Approval // nobody has decided them, soonest expiry first
	expires  int             // so many of them, at the front, expire
	ofRun    map[core.ID][]int
	resolved []*approvalRow // newest first, those that have only run out left out

	late   int // so many of open had run out when recent was made
	recent []core.Approval
}

func newApprovalTable() approvalTable {
	return approvalTable{byID: map[core.ID]*approvalRow{}, byRun: map[core.ID][]core.ID{}, listed: -1}
}

func (t *approvalTable) get(id core.ID) (core.Approval, bool) {
	if row := t.byID[id]; row != nil {
		return row.Approval, true
	}
	return core.Approval{}, false
}

// put takes an approval and reports whether it is news. settled may be zero. One
// that is settled is never open again: a list that says so was read before.
func (t *approvalTable) put(a core.Approval, settled time.Time) bool {
	row := t.byID[a.ID]
	switch {
	case row == nil:
		t.byID[a.ID] = &approvalRow{a, settled}
		t.byRun[a.RunID] = append(t.byRun[a.RunID], a.ID)
		t.version++
		return true
	case row.State != core.ApprovalOpen && a.State == core.ApprovalOpen:
		return false
	case settled.IsZero() && sameApproval(&row.Approval, &a):
		return false
	case settled.IsZero():
		settled = row.settled
	}
	*row = approvalRow{a, settled}
	t.version++
	return true
}

// renew notes of an expired approval which one asks the same again, and reports whether that is news.
func (t *approvalTable) renew(by *core.Approval) bool {
	row := t.byID[by.Renews]
	if row == nil || row.RenewedBy != "" {
		return false
	}
	row.RenewedBy = by.ID
	t.version++
	return true
}

// sameApproval reports whether two versions of an approval tell the same. What
// it asks for never changes.
func sameApproval(a, b *core.Approval) bool {
	return a.State == b.State && a.Digest == b.Digest && a.RunID == b.RunID && a.Used == b.Used && a.RenewedBy == b.RenewedBy &&
		a.Description == b.Description && a.Risk == b.Risk && (a.DecidedBy == nil) == (b.DecidedBy == nil) &&
		(a.Answer == nil) == (b.Answer == nil) && sameTime(a.ExpiresAt, b.ExpiresAt) && string(a.Context) == string(b.Context) &&
		slices.Equal(a.CallIDs, b.CallIDs)
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func (t *approvalTable) dropOf(run core.ID) bool {
	ids := t.byRun[run]
	for _, id := range ids {
		delete(t.byID, id)
	}
	delete(t.byRun, run)
	if len(ids) > 0 {
		t.version++
	}
	return len(ids) > 0
}

// refresh computes the lists anew after a change.
func (t *approvalTable) refresh() {
	if t.listed == t.version {
		return
	}
	// The old lists may still be looked at: new ones are made.
	t.resolved, t.late, t.listed = t.resolved[:0], -1, t.version
	open := make([]*approvalRow, 0, len(t.byID))
	for _, row := range t.byID {
		if row.State == core.ApprovalOpen {
			open = append(open, row)
		} else {
			t.resolved = append(t.resolved, row)
		}
	}
	slices.SortFunc(open, func(a, b *approvalRow) int { return core.BySoonest(a.Approval, b.Approval) })
	slices.SortFunc(t.resolved, func(a, b *approvalRow) int { return latest(&a.Approval, a.at(), &b.Approval, b.at()) })
	t.open = make([]core.Approval, len(open))
	for i, row := range open {
		t.open[i] = row.Approval
	}
	t.expires = sort.Search(len(t.open), func(i int) bool { return t.open[i].ExpiresAt == nil })
	t.ofRun = map[core.ID][]int{}
	for i := range t.open {
		id := t.open[i].RunID
		t.ofRun[id] = append(t.ofRun[id], i)
	}
}

// runOut is how many of the open approvals have run out at a time: the first.
func (t *approvalTable) runOut(now time.Time) int {
	t.refresh()
	return sort.Search(t.expires, func(i int) bool { return now.Before(*t.open[i].ExpiresAt) })
}

// at is when an approval stopped waiting.
func (r *approvalRow) at() time.Time {
	switch {
	case r.DecidedBy != nil:
		return r.DecidedBy.At
	case !r.settled.IsZero():
		return r.settled
	case r.State == core.ApprovalSuperseded || r.ExpiresAt == nil:
		return r.CreatedAt // nobody has said when
	}
	return *r.ExpiresAt
}

func latest(a *core.Approval, at time.Time, b *core.Approval, bt time.Time) int {
	if c := bt.Compare(at); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

// PutApprovals takes approvals as they are now; what is known of others stays.
// One that was settled stays so.
func (s *State) PutApprovals(list ...core.Approval) {
	changed := false
	for i := range list {
		changed = s.approvals.put(list[i], time.Time{}) || changed
		changed = s.approvals.renew(&list[i]) || changed
	}
	if changed {
		s.version++
	}
}

// Approval returns one approval.
func (s *State) Approval(id core.ID) (core.Approval, bool) { return s.approvals.get(id) }

// Waiting returns the approvals that can be decided at a time, soonest expiry
// first. The slice is the state's own and is not changed any more.
func (s *State) Waiting(now time.Time) []core.Approval {
	n := s.approvals.runOut(now)
	return s.approvals.open[n:len(s.approvals.open):len(s.approvals.open)]
}

// WaitingOf returns the approval of a run that can be decided at a time and
// expires first.
func (s *State) WaitingOf(run core.ID, now time.Time) (a core.Approval, ok bool) {
	n := s.approvals.runOut(now)
	list := s.approvals.ofRun[run]
	if i, _ := slices.BinarySearch(list, n); i < len(list) {
		return s.approvals.open[list[i]], true
	}
	return core.Approval{}, false
}

// ExpiredOf returns the approvals of a run that have run out at a time without
// being asked again, oldest first.
func (s *State) ExpiredOf(run core.ID, now time.Time) []core.Approval {
	var out []core.Approval
	for _, id := range s.approvals.byRun[run] {
		if row := s.approvals.byID[id]; row != nil && row.RenewedBy == "" && row.StateAt(now) == core.ApprovalExpired {
			out = append(out, row.Approval)
		}
	}
	slices.SortFunc(out, func(a, b core.Approval) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Undecided returns the approvals of a run that a decision can be about at a time: those that
// wait, and those that have run out without being asked again.
func (s *State) Undecided(run core.ID, now time.Time) []core.Approval {
	out := s.ExpiredOf(run, now)
	for _, a := range s.Waiting(now) {
		if a.RunID == run {
			out = append(out, a)
		}
	}
	return out
}

// LastDecided returns the approval of a run that was decided last.
func (s *State) LastDecided(run core.ID) (a core.Approval, ok bool) {
	var last *approvalRow
	for _, id := range s.approvals.byRun[run] {
		if row := s.approvals.byID[id]; row != nil && row.DecidedBy != nil && (last == nil || row.at().After(last.at())) {
			last = row
		}
	}
	if last == nil {
		return core.Approval{}, false
	}
	return last.Approval, true
}

// Resolved returns up to n approvals that were decided, taken back, or have
// expired at a time, newest first. The slice is the state's own and is not
// changed any more.
func (s *State) Resolved(now time.Time, n int) []core.Approval {
	t := &s.approvals
	if late := t.runOut(now); late != t.late {
		t.late, t.recent = late, t.merge(late)
	}
	n = max(0, min(n, len(t.recent)))
	return t.recent[:n:n]
}

// merge puts the open approvals that have run out among the resolved ones.
func (t *approvalTable) merge(late int) []core.Approval {
	out := make([]core.Approval, 0, late+len(t.resolved))
	i := late - 1 // the last to run out is the newest
	for _, row := range t.resolved {
		for ; i >= 0 && latest(&t.open[i], *t.open[i].ExpiresAt, &row.Approval, row.at()) < 0; i-- {
			out = append(out, t.open[i])
		}
		out = append(out, row.Approval)
	}
	for ; i >= 0; i-- {
		out = append(out, t.open[i])
	}
	return out
}

// ApprovalsVersion grows with every change of an approval.
func (s *State) ApprovalsVersion() int64 { return s.approvals.version }

// ExpiredRuns is how many runs wait for an approval that has expired, as far as the newest
// of what is resolved says.
func (s *State) ExpiredRuns(now time.Time) int {
	const newest = 50
	if s.CountRuns(core.RunWaiting) == 0 {
		return 0
	}
	seen := map[core.ID]bool{}
	for _, a := range s.Resolved(now, newest) {
		if a.RenewedBy == "" && a.StateAt(now) == core.ApprovalExpired {
			if r, ok := s.Run(a.RunID); ok && r.State == core.RunWaiting {
				seen[a.RunID] = true
			}
		}
	}
	return len(seen)
}
