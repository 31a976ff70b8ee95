package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// testApprovalsDecidable: what a decision can be about is what is open or has expired,
// also where nobody has recorded it, was not asked again, and belongs to a run that has
// not ended; in the order of all lists.
func testApprovalsDecidable(k *kit) {
	minute := func(a *core.Approval) { a.ExpiresAt = k.in(time.Minute) }
	_, recorded := k.waiting(minute)
	_, renewed := k.waiting(minute)
	ended, gone := k.waiting(minute)
	_, past := k.waiting(minute, func(a *core.Approval) { a.Workspace = "/w" })
	k.Clock.Advance(time.Minute)
	if _, err := k.Store.Expire(k.ctx(), k.now()); err != nil {
		k.t.Fatal(err)
	}
	fresh := k.id()
	if _, err := k.Store.Renew(k.ctx(), renewed.ID, fresh, k.now(), k.in(2*time.Hour), human); err != nil {
		k.t.Fatal(err)
	}
	ended = k.get(ended.ID)
	ended.State = core.RunFailed
	k.commit(store.Step{Run: ended})
	_, open := k.waiting(func(a *core.Approval) { a.ExpiresAt = k.in(time.Hour) })
	_, unrecorded := k.waiting(minute)
	approved := k.decided()
	k.Clock.Advance(2 * time.Minute)
	want := []core.ID{recorded.ID, past.ID}
	slices.Sort(want)
	want = append(want, unrecorded.ID, open.ID, fresh)
	k.wantDecidable(store.ApprovalFilter{}, want)
	k.wantDecidable(store.ApprovalFilter{Limit: 3}, want[:3])
	k.wantDecidable(store.ApprovalFilter{RunID: open.RunID}, []core.ID{open.ID})
	k.wantDecidable(store.ApprovalFilter{ID: gone.ID}, []core.ID{})
	k.wantDecidable(store.ApprovalFilter{ID: approved.ID}, []core.ID{})
	k.wantDecidable(store.ApprovalFilter{Workspace: "/other"}, []core.ID{})
	k.Clock.Advance(48 * time.Hour) // all the runs are past their expiry, and nobody has recorded it
	k.wantDecidable(store.ApprovalFilter{}, []core.ID{})
}

// decided commits a run that still waits after its one approval was given.
func (k *kit) decided() core.Approval {
	k.t.Helper()
	_, a := k.waiting()
	if _, err := k.decide(a.ID, true, human); err != nil {
		k.t.Fatal(err)
	}
	return a
}

func (k *kit) wantDecidable(f store.ApprovalFilter, want []core.ID) {
	k.t.Helper()
	f.Decidable = true
	list, err := k.Store.Approvals(k.ctx(), f)
	got := []core.ID{}
	for _, a := range list {
		got = append(got, a.ID)
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		k.t.Errorf("%+v: %v %s", f, err, diff)
	}
}

// FillApprovals puts 100,000 approvals of runs that have ended into a store, and 10 of
// an agent that waits, whose id it returns.
func FillApprovals(b *testing.B, s store.Store, newRun func(runner string) core.Run, newApproval func(run core.ID) core.Approval) (waiting core.ID) {
	b.Helper()
	for i := range 101 {
		step, n := store.Step{Run: newRun("r"), Create: true}, 1000
		if i == 100 {
			step.Run.State, step.Run.Kind, n = core.RunWaiting, core.KindAgent, 10
			waiting = step.Run.ID
		}
		for range n {
			a := newApproval(step.Run.ID)
			a.Agent = waiting
			step.Open = append(step.Open, a)
		}
		err := s.Commit(b.Context(), step)
		if i < 100 && err == nil {
			step.Run.State = core.RunFailed
			err = s.Commit(b.Context(), store.Step{Run: step.Run})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return waiting
}
