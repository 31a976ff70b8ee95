package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

func (k *kit) wantOrphans(self string, limit int, want ...core.ID) {
	k.t.Helper()
	got, err := k.Store.Orphans(k.ctx(), self, limit)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		k.t.Errorf("orphans: %v %s", err, diff)
	}
}

// register returns a runner that lives until the test has ended.
func (k *kit) register() store.Runner {
	k.t.Helper()
	r, err := k.Store.Register(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = r.Close() })
	return r
}

// testOrphans: what there is to do is found, whoever has died, and what waits,
// has ended or is somebody's is not.
func testOrphans(k *kit) {
	self, rival := k.register(), k.register()
	with := func(state core.RunState, runner string) core.Run {
		k.Clock.Advance(time.Second)
		return k.create(func(s *store.Step) { s.Run.State, s.Run.Runner = state, runner })
	}
	running := with(core.RunRunning, "dead")
	interrupted := with(core.RunInterrupted, "")
	own := with(core.RunRunning, self.ID())
	with(core.RunWaiting, "dead")
	taken := with(core.RunRunning, rival.ID())
	for _, s := range []core.RunState{core.RunComplete, core.RunFailed, core.RunAborted, core.RunExpired} {
		with(s, "dead")
	}
	k.create(func(s *store.Step) { s.Run.Remote = true })

	k.wantOrphans(self.ID(), 0, running.ID, interrupted.ID, own.ID)
	k.wantOrphans(self.ID(), 2, running.ID, interrupted.ID)
	k.wantOrphans("somebody", 0, running.ID, interrupted.ID)
	if err := rival.Close(); err != nil {
		k.t.Fatal(err)
	}
	k.wantOrphans(self.ID(), 0, running.ID, interrupted.ID, own.ID, taken.ID)

	running.State = core.RunWaiting // it waits now: nothing to do
	k.commit(store.Step{Run: running})
	interrupted.State, interrupted.EndedAt = core.RunAborted, k.in(0)
	k.commit(store.Step{Run: interrupted})
	k.wantOrphans(self.ID(), 0, own.ID, taken.ID)
	own.State = core.RunComplete
	k.commit(store.Step{Run: own})
	if err := k.Store.Remove(k.ctx(), own.ID); err != nil {
		k.t.Fatal(err)
	}
	k.wantOrphans(self.ID(), 0, taken.ID)
}

// testOrphansWaiting: a run that waits has something to do once somebody has
// decided, until its runner has acted upon it.
func testOrphansWaiting(k *kit) {
	abort := func(r core.Run, _ core.Approval) error {
		_, err := k.Store.RequestAbort(k.ctx(), r.ID, core.AbortRequest{By: human, At: k.now()})
		return err
	}
	decide := func(approved bool) func(core.Run, core.Approval) error {
		return func(_ core.Run, a core.Approval) error {
			_, err := k.decide(a.ID, approved, human)
			return err
		}
	}
	replan := func(r core.Run, _ core.Approval) error {
		_, err := k.Store.Replan(k.ctx(), r.ID, core.Program{Kind: core.KindDAG, Version: 2}, human, core.Event{Type: core.EventReplanned})
		return err
	}
	for name, c := range map[string]struct {
		do    func(core.Run, core.Approval) error
		acted func(core.Run, core.Approval) store.Step
	}{
		"Approved": {decide(true), func(r core.Run, a core.Approval) store.Step {
			return store.Step{Run: r, Used: []store.Use{{Approval: a.ID}}}
		}},
		"Denied": {decide(false), func(r core.Run, a core.Approval) store.Step {
			return store.Step{Run: r, Used: []store.Use{{Approval: a.ID}}}
		}},
		"Abort": {abort, func(r core.Run, _ core.Approval) store.Step {
			r.State = core.RunAborted
			return store.Step{Run: r}
		}},
		"Replanned": {replan, func(r core.Run, _ core.Approval) store.Step {
			r.DAGVersion = 2
			return store.Step{Run: r}
		}},
	} {
		run, a := k.waiting()
		k.wantOrphans("me", 0)
		if err := c.do(run, a); err != nil {
			k.t.Fatalf("%s: %v", name, err)
		}
		k.wantOrphans("me", 0, run.ID)
		k.commit(store.Step{Run: run}) // something else of the runner
		k.wantOrphans("me", 0, run.ID)
		k.commit(c.acted(run, a))
		k.wantOrphans("me", 0)
		if k.t.Failed() {
			k.t.Fatalf("in %s", name)
		}
	}
}

// testOrphansExpired: what nobody decided in time has nothing to do.
func testOrphansExpired(k *kit) {
	run, a := k.waiting()
	k.Clock.Advance(time.Hour)
	k.create(func(s *store.Step) { s.Run.State = core.RunComplete }) // records the approval's expiry
	k.wantOrphans("me", 0)
	if got := k.getApproval(a.ID); got.State != core.ApprovalExpired {
		k.t.Errorf("the approval is %s", got.State)
	}
	fresh, err := k.Store.Renew(k.ctx(), a.ID, k.id(), k.now(), nil, human)
	if err != nil {
		k.t.Fatal(err)
	}
	k.wantOrphans("me", 0)
	if _, err := k.decide(fresh.ID, true, human); err != nil {
		k.t.Fatal(err)
	}
	k.wantOrphans("me", 0, run.ID)

	k.Clock.Advance(48 * time.Hour)
	gone := k.create(func(s *store.Step) { s.Run.State, s.Run.ExpiresAt = core.RunInterrupted, k.in(time.Minute) })
	k.wantOrphans("me", 1, run.ID)
	k.Clock.Advance(time.Hour)
	for range 2 { // not recorded, recorded
		got, err := k.Store.Orphans(k.ctx(), "me", 0)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, id := range got {
			if id == gone.ID {
				k.t.Error("a run that has expired has nothing to do")
			}
		}
		if _, err := k.Store.Expire(k.ctx(), k.now()); err != nil {
			k.t.Fatal(err)
		}
	}
}

// testOwner: approvals and events have the owner of their run, and lists of one
// owner leave out those of others.
func testOwner(k *kit) {
	mk := func(owner string) (core.Run, core.Approval) {
		var a core.Approval
		run := k.create(func(s *store.Step) {
			a = k.approval(s.Run.ID)
			s.Run.Owner, s.Run.State, s.Run.ExpiresAt = owner, core.RunWaiting, k.in(time.Hour)
			s.Open, s.Events = []core.Approval{a}, []core.Event{{Type: core.EventTaskStart}}
		})
		return run, a
	}
	mk("")
	ann, a := mk("ann")
	mk("bob")
	if _, err := k.decide(a.ID, true, human); err != nil {
		k.t.Fatal(err)
	}
	k.commit(store.Step{Run: ann, Events: []core.Event{{Type: core.EventTaskComplete, Owner: "somebody"}}})

	if got := k.get(ann.ID); got.Owner != "ann" {
		k.t.Errorf("the run is %q's", got.Owner)
	}
	runs, err := k.Store.Runs(k.ctx(), store.RunFilter{Owner: "ann"})
	if err != nil || len(runs) != 1 || runs[0].ID != ann.ID {
		k.t.Errorf("runs: %+v, %v", runs, err)
	}
	if runs, err = k.Store.Runs(k.ctx(), store.RunFilter{Owner: "ann", States: []core.RunState{core.RunComplete}}); err != nil || len(runs) != 0 {
		k.t.Errorf("complete runs: %+v, %v", runs, err)
	}
	as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{Owner: "ann"})
	if err != nil || len(as) != 1 || as[0].ID != a.ID || as[0].Owner != "ann" {
		k.t.Errorf("approvals: %+v, %v", as, err)
	}
	es := k.events(store.EventFilter{Owner: "ann"})
	for _, e := range es {
		if e.RunID != ann.ID || e.Owner != "ann" {
			k.t.Errorf("event: %+v", e)
		}
	}
	if len(es) != 3 {
		k.t.Errorf("%d events of ann", len(es))
	}
	if all := k.events(store.EventFilter{}); len(all) != 5 {
		k.t.Errorf("%d events", len(all))
	}
}

// testOwnerRenewed: an approval that is asked again is the same owner's.
func testOwnerRenewed(k *kit) {
	var a core.Approval
	run := k.create(func(s *store.Step) {
		a = k.approval(s.Run.ID)
		s.Run.Owner, s.Run.State, s.Open = "ann", core.RunWaiting, []core.Approval{a}
	})
	k.Clock.Advance(time.Hour)
	got, err := k.Store.Renew(k.ctx(), a.ID, k.id(), k.now(), nil, human)
	if err != nil || got.Owner != "ann" {
		k.t.Errorf("%q, %v", got.Owner, err)
	}
	run.Owner, run.Workspace, run.CreatedAt = "eve", "/eve", k.now()
	k.commit(store.Step{Run: run})
	if now := k.get(run.ID); now.Owner != "ann" || now.Workspace != "/w" || !now.CreatedAt.Equal(start) {
		k.t.Errorf("a step changed what the run was created as: %+v", now)
	}
}

// testRunsByState follows a run through its states: each list has it when it
// must, in the order of creation, page by page.
func testRunsByState(k *kit) {
	waiting := func() []core.Run {
		runs := make([]core.Run, 6)
		for i := range runs {
			k.Clock.Advance(time.Second)
			runs[len(runs)-1-i], _ = k.waiting()
		}
		return runs
	}
	runs := waiting()
	list := func(f store.RunFilter) (ids []core.ID) {
		k.t.Helper()
		found, err := k.Store.Runs(k.ctx(), f)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, r := range found {
			ids = append(ids, r.ID)
		}
		return ids
	}
	want := func(f store.RunFilter, of ...int) {
		k.t.Helper()
		var ids []core.ID
		for _, i := range of {
			ids = append(ids, runs[i].ID)
		}
		if diff := cmp.Diff(ids, list(f)); diff != "" {
			k.t.Errorf("%+v: %s", f, diff)
		}
	}
	in := func(s ...core.RunState) store.RunFilter { return store.RunFilter{States: s} }
	move := func(i int, s core.RunState) {
		runs[i].State = s
		k.commit(store.Step{Run: runs[i]})
	}
	move(1, core.RunRunning)
	move(2, core.RunComplete)
	move(3, core.RunRunning)
	move(3, core.RunFailed)
	want(in(core.RunWaiting), 0, 4, 5)
	want(in(core.RunRunning, core.RunComplete, core.RunRunning), 1, 2)
	want(in(core.RunFailed, core.RunWaiting, core.RunRunning), 0, 1, 3, 4, 5)
	f := in(core.RunWaiting, core.RunFailed)
	f.Limit, f.Before = 2, runs[0].ID
	want(f, 3, 4)
	f.Before = runs[2].ID // not itself in the list
	want(f, 3, 4)
	f.Before = runs[5].ID
	want(f)
	want(in(core.RunExpired))
	k.Clock.Advance(24 * time.Hour)
	want(in(core.RunExpired), 0, 4, 5)
	want(in(core.RunWaiting))
	if _, err := k.Store.Expire(k.ctx(), k.now()); err != nil {
		k.t.Fatal(err)
	}
	want(in(core.RunExpired), 0, 4, 5)
	want(in(core.RunWaiting, core.RunInterrupted))
	if err := k.Store.Remove(k.ctx(), runs[4].ID, runs[2].ID); err != nil {
		k.t.Fatal(err)
	}
	want(in(core.RunExpired, core.RunComplete), 0, 5)
	want(store.RunFilter{}, 0, 1, 3, 5)
}
