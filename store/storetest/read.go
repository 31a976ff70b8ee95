package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

func testRemove(k *kit) {
	keep, _ := k.waiting()
	run, a := k.waiting()
	run.State = core.RunComplete
	k.commit(store.Step{Run: run, Events: []core.Event{{Type: core.EventWorkflowComplete}}})
	k.commit(store.Step{Run: keep, Events: []core.Event{{Type: core.EventTaskStart}}})
	removed, kept := flowRun(core.FlowKey{Flow: "ask"}, "f1", 1), flowRun(core.FlowKey{Flow: "ask"}, "f2", 2)
	removed.RunID, kept.RunID = run.ID, keep.ID
	if err := k.Store.SaveFlowRuns(k.ctx(), removed, kept); err != nil {
		k.t.Fatal(err)
	}
	rows := len(k.audit())
	if err := k.Store.Remove(k.ctx(), run.ID, run.ID); err != nil {
		k.t.Fatal(err)
	}
	_, err := k.Store.Run(k.ctx(), run.ID)
	k.wantCode(err, core.CodeNotFound)
	as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{ID: a.ID})
	if err != nil || len(as) != 0 {
		k.t.Errorf("its approval is still there, %v", err)
	}
	if es := k.events(store.EventFilter{}); len(es) != 1 || es[0].RunID != keep.ID {
		k.t.Errorf("events left: %+v", es)
	}
	if len(k.audit()) != rows || rows == 0 {
		k.t.Errorf("audit rows must stay: %d of %d", len(k.audit()), rows)
	}
	if left, err := k.Store.FlowRuns(k.ctx(), store.FlowRunFilter{}); err != nil || len(left) != 1 || left[0].ID != kept.ID {
		k.t.Errorf("flow runs left: %+v %v", left, err)
	}
	runs, err := k.Store.Runs(k.ctx(), store.RunFilter{})
	if err != nil || len(runs) != 1 {
		k.t.Errorf("%d runs, %v", len(runs), err)
	}
}

func testRemoveRefused(k *kit) {
	done := k.create(func(s *store.Step) { s.Run.State = core.RunComplete })
	live := k.create()
	k.wantCode(k.Store.Remove(k.ctx(), done.ID, live.ID), core.CodeNotWaiting)
	k.wantCode(k.Store.Remove(k.ctx(), done.ID, k.id()), core.CodeNotFound)
	k.get(done.ID)
}

func testRunsPages(k *kit) {
	var want []core.ID
	for i := range 7 {
		run := k.create()
		want = append([]core.ID{run.ID}, want...)
		if i%2 == 1 { // pairs share a time and are told apart by id
			k.Clock.Advance(time.Second)
		}
	}
	var got []core.ID
	f := store.RunFilter{Limit: 3}
	for {
		page, err := k.Store.Runs(k.ctx(), f)
		if err != nil {
			k.t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		f.Before = got[len(got)-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Error(diff)
	}
}

func testRunsFilter(k *kit) {
	a := k.create()
	b := k.create(func(s *store.Step) { s.Run.State, s.Run.Workspace = core.RunComplete, "/v" })
	for name, c := range map[string]struct {
		f    store.RunFilter
		want []core.ID
	}{
		"All":       {store.RunFilter{}, []core.ID{b.ID, a.ID}},
		"State":     {store.RunFilter{States: []core.RunState{core.RunRunning}}, []core.ID{a.ID}},
		"Workspace": {store.RunFilter{Workspace: "/v"}, []core.ID{b.ID}},
		"None":      {store.RunFilter{Workspace: "/v", States: []core.RunState{core.RunRunning}}, nil},
		"Limit":     {store.RunFilter{Limit: 1}, []core.ID{b.ID}},
	} {
		runs, err := k.Store.Runs(k.ctx(), c.f)
		var got []core.ID
		for _, r := range runs {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			k.t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func testFind(k *kit) {
	run, a := k.waiting()
	second, _ := k.waiting()
	found, err := k.Store.Find(k.ctx(), string(run.ID[:8]), 2)
	if diff := cmp.Diff(store.Found{Runs: []core.ID{run.ID}}, found); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
	found, err = k.Store.Find(k.ctx(), string(a.ID), 2)
	if diff := cmp.Diff(store.Found{Approvals: []core.ID{a.ID}}, found); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
	found, err = k.Store.Find(k.ctx(), "", 5)
	if diff := cmp.Diff([]core.ID{run.ID, second.ID}, found.Runs); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
}

func testEvents(k *kit) {
	a, b := k.create(), k.create()
	for i := range 4 {
		run := []core.Run{a, b}[i%2]
		k.commit(store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskStart}, {Type: core.EventTaskComplete}}})
	}
	for name, c := range map[string]struct {
		f    store.EventFilter
		want []int64
	}{
		"All":   {store.EventFilter{}, []int64{1, 2, 3, 4, 5, 6, 7, 8}},
		"After": {store.EventFilter{After: 6}, []int64{7, 8}},
		"Run":   {store.EventFilter{RunID: b.ID}, []int64{3, 4, 7, 8}},
		"Mixed": {store.EventFilter{RunID: b.ID, After: 3, Types: []core.EventType{core.EventTaskComplete}}, []int64{4, 8}},
		"Limit": {store.EventFilter{Limit: 2, After: 1}, []int64{2, 3}},
		"None":  {store.EventFilter{RunID: k.id()}, nil},
	} {
		var got []int64
		for _, e := range k.events(c.f) {
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			k.t.Errorf("%s: %s", name, diff)
		}
	}
}

func testApprovalsOrder(k *kit) {
	run := k.create(func(s *store.Step) { s.Run.State = core.RunWaiting })
	mk := func(at *time.Time) core.Approval {
		a := k.approval(run.ID)
		a.ExpiresAt = at
		return a
	}
	never, late, soon, gone := mk(nil), mk(k.in(time.Hour)), mk(k.in(time.Minute)), mk(k.in(time.Second))
	k.commit(store.Step{Run: run, Open: []core.Approval{never, late, soon, gone}})
	k.Clock.Advance(time.Second)
	for name, c := range map[string]struct {
		f    store.ApprovalFilter
		want []core.ID
	}{
		"Open":    {store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}}, []core.ID{soon.ID, late.ID, never.ID}},
		"Expired": {store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalExpired}}, []core.ID{gone.ID}},
		"Run":     {store.ApprovalFilter{RunID: run.ID}, []core.ID{gone.ID, soon.ID, late.ID, never.ID}},
		"Limit":   {store.ApprovalFilter{Limit: 2}, []core.ID{gone.ID, soon.ID}},
		"Now":     {store.ApprovalFilter{Now: start, States: []core.ApprovalState{core.ApprovalOpen}, Limit: 1}, []core.ID{gone.ID}},
		"None":    {store.ApprovalFilter{Workspace: "/other"}, []core.ID{}},
	} {
		as, err := k.Store.Approvals(k.ctx(), c.f)
		got := []core.ID{}
		for _, a := range as {
			got = append(got, a.ID)
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			k.t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if diff := cmp.Diff(never, k.getApproval(never.ID)); diff != "" {
		k.t.Error(diff)
	}
}

func testUnknown(k *kit) {
	id := k.id()
	_, err := k.Store.Run(k.ctx(), id)
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Program(k.ctx(), id)
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Journal(k.ctx(), id, 0)
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Checkpoints(k.ctx(), id)
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Claim(k.ctx(), id, "r")
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Decide(k.ctx(), core.Decision{ApprovalID: id}, store.Renewal{})
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Extend(k.ctx(), id, k.now())
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.Renew(k.ctx(), id, k.id(), k.now(), nil, human)
	k.wantCode(err, core.CodeNotFound)
	_, err = k.Store.RequestAbort(k.ctx(), id, core.AbortRequest{})
	k.wantCode(err, core.CodeNotFound)
}
