package storetest

import (
	"encoding/json"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// testUsedAsRead lets a runner act upon decisions that it has just read, one of
// them for two calls: what it has read may be used to write them faster.
func testUsedAsRead(k *kit) {
	run, yes := k.waiting()
	no, left := k.approval(run.ID), k.approval(run.ID)
	k.commit(store.Step{Run: run, Open: []core.Approval{no, left}})
	for _, a := range []core.Approval{yes, no} {
		d := core.Decision{ApprovalID: a.ID, Approved: a.ID == yes.ID, At: k.now(), By: human}
		if _, err := k.Store.Decide(k.ctx(), d, store.Renewal{}); err != nil {
			k.t.Fatal(err)
		}
	}
	if as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{RunID: run.ID}); err != nil || len(as) != 3 {
		k.t.Fatal(as, err)
	}
	step := store.Step{Run: run, Records: []core.Record{record(1, "c1")}, Events: []core.Event{{Type: core.EventTaskStart}},
		Used: []store.Use{{Approval: yes.ID, CallID: "c1"}, {Approval: no.ID}, {Approval: yes.ID, CallID: "c2"}, {Approval: yes.ID, CallID: "c1"}}}
	k.commit(step)
	for _, want := range []struct {
		id    core.ID
		state core.ApprovalState
		used  bool
		calls []string
	}{{yes.ID, core.ApprovalApproved, true, []string{"c1", "c2"}}, {no.ID, core.ApprovalDenied, true, nil}, {left.ID, core.ApprovalOpen, false, nil}} {
		a := k.getApproval(want.id)
		if diff := cmp.Diff(want.calls, a.CallIDs); diff != "" || a.State != want.state || a.Used != want.used || string(a.Context) != string(yes.Context) {
			k.t.Errorf("%s, used %v: %s", a.State, a.Used, diff)
		}
	}
	if ids, err := k.Store.Orphans(k.ctx(), "r1", 0); err != nil || len(ids) != 0 {
		k.t.Errorf("all was acted upon, and there is something to do: %v %v", ids, err)
	}
	step.Records, step.Used = nil, []store.Use{{Approval: yes.ID, CallID: "c3"}}
	k.commit(step) // once more, for a further call
	if a := k.getApproval(yes.ID); len(a.CallIDs) != 3 {
		k.t.Errorf("%v", a.CallIDs)
	}
	if ids, err := k.Store.Orphans(k.ctx(), "r1", 0); err != nil || len(ids) != 0 {
		k.t.Errorf("what was acted upon twice counts: %v %v", ids, err)
	}
}

// testApprovalsInto reads a run together with its approvals.
func testApprovalsInto(k *kit) {
	run, a := k.waiting()
	bare := k.create(func(s *store.Step) {
		s.Run.Owner, s.Run.Options.Input = "ann", json.RawMessage(`{"n":1}`)
	})
	for _, c := range []struct {
		run  core.Run
		want []core.ID
	}{{run, []core.ID{a.ID}}, {bare, nil}} {
		var got core.Run
		as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{RunID: c.run.ID, Into: &got})
		var ids []core.ID
		for _, a := range as {
			ids = append(ids, a.ID)
		}
		c.run.Options.Input = nil
		if diff := cmp.Diff(c.run, got) + cmp.Diff(c.want, ids); err != nil || diff != "" {
			k.t.Errorf("%v %s", err, diff)
		}
	}
	for _, f := range []store.ApprovalFilter{{RunID: k.id()}, {}, {RunID: bare.ID, Owner: "bob"}, {RunID: bare.ID, Workspace: "/other"}} {
		got := core.Run{}
		f.Into = &got
		_, err := k.Store.Approvals(k.ctx(), f)
		k.wantCode(err, core.CodeNotFound)
		if got.ID != "" {
			k.t.Errorf("%+v: it was told all the same", f)
		}
	}
	k.Clock.Advance(48 * time.Hour)
	var got core.Run
	as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{RunID: run.ID, Into: &got})
	if err != nil || len(as) != 1 || as[0].State != core.ApprovalExpired || got.State != core.RunExpired {
		k.t.Errorf("after its expiry: %s, %v %v", got.State, as, err)
	}
}
