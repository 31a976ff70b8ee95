package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// change is something that is done to a run with the approvals a and b.
type change struct {
	name string
	do   func(k *kit, s store.Store, run core.Run, a, b core.Approval) error
}

// changes are all that may happen to a run while it waits. Some are refused after
// others: what counts is what is stored then.
var changes = []change{
	{"nothing", func(*kit, store.Store, core.Run, core.Approval, core.Approval) error { return nil }},
	{"yes to a", func(k *kit, s store.Store, _ core.Run, a, _ core.Approval) error { return k.ruleOn(s, a, true) }},
	{"no to b", func(k *kit, s store.Store, _ core.Run, _, b core.Approval) error { return k.ruleOn(s, b, false) }},
	{"more time for a", func(k *kit, s store.Store, _ core.Run, a, _ core.Approval) error {
		_, err := s.Extend(k.ctx(), a.ID, k.now().Add(3*time.Hour))
		return err
	}},
	{"more time for b", func(k *kit, s store.Store, _ core.Run, _, b core.Approval) error {
		_, err := s.Extend(k.ctx(), b.ID, k.now().Add(3*time.Hour))
		return err
	}},
	{"a little more time for a", func(k *kit, s store.Store, _ core.Run, a, _ core.Approval) error {
		_, err := s.Extend(k.ctx(), a.ID, k.now().Add(7*time.Minute))
		return err
	}},
	{"a step", func(k *kit, s store.Store, run core.Run, _, _ core.Approval) error {
		return s.Commit(k.ctx(), store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskLog, At: k.now()}}})
	}},
	{"a step that asks, answered at once", func(k *kit, s store.Store, run core.Run, _, _ core.Approval) error {
		c := k.approval(run.ID)
		if err := s.Commit(k.ctx(), store.Step{Run: run, Open: []core.Approval{c}}); err != nil {
			return err
		}
		return k.ruleOn(s, c, true)
	}},
	{"b asked again", func(k *kit, s store.Store, _ core.Run, _, b core.Approval) error {
		k.Clock.Advance(10 * time.Minute)
		_, err := s.Renew(k.ctx(), b.ID, k.id(), k.now(), k.in(time.Hour), human)
		return err
	}},
	{"abort", func(k *kit, s store.Store, run core.Run, _, _ core.Approval) error {
		_, err := s.RequestAbort(k.ctx(), run.ID, core.AbortRequest{By: human, At: k.now()})
		return err
	}},
	{"replan", func(k *kit, s store.Store, run core.Run, _, _ core.Approval) error {
		_, err := s.Replan(k.ctx(), run.ID, core.Program{Kind: core.KindDAG, Version: run.DAGVersion + 1}, human,
			core.Event{Type: core.EventReplanned})
		return err
	}},
	{"another's run", func(k *kit, s store.Store, _ core.Run, _, _ core.Approval) error {
		_, a := k.waiting()
		return k.ruleOn(s, a, true)
	}},
}

func (k *kit) ruleOn(s store.Store, a core.Approval, yes bool) error {
	_, err := s.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: yes, At: k.now(), By: human}, store.Renewal{RunUntil: k.in(2 * time.Hour)})
	return err
}

// testSeen is a runner that takes in what others have changed after each of two
// changes, and after both: it knows what one does that reads everything. It has
// looked before, or has created the run.
func testSeen(k *kit) {
	for _, first := range changes {
		for _, second := range changes {
			for _, between := range []bool{false, true} {
				for _, created := range []bool{false, true} {
					k.seen(first, second, between, created)
				}
			}
		}
	}
}

func (k *kit) seen(first, second change, between, created bool) {
	k.Clock.Advance(2 * time.Minute) // what a store has learnt of other writers is over
	var a, b core.Approval
	run := k.create(func(s *store.Step) {
		s.Run.State, s.Run.ExpiresAt = core.RunWaiting, k.in(time.Hour)
		a, b = k.approval(s.Run.ID), k.approval(s.Run.ID)
		a.ExpiresAt, b.ExpiresAt = k.in(5*time.Minute), k.in(5*time.Minute)
		s.Open = []core.Approval{a, b}
	})
	r := &lookingRunner{k: k, run: run}
	if created {
		r.looked, r.approvals = true, []core.Approval{a, b}
	} else {
		r.look()
	}
	_ = first.do(k, k.Store, run, a, b)
	if between {
		r.look()
	}
	_ = second.do(k, k.Store, run, a, b)
	for range 2 { // and nothing is lost when there is nothing new
		r.look()
		r.knowsAll(first.name + ", " + second.name)
	}
}

// lookingRunner is what a runner knows of its run.
type lookingRunner struct {
	k         *kit
	run       core.Run
	looked    bool
	header    core.Run
	approvals []core.Approval
}

func (r *lookingRunner) look() {
	list, err := r.k.Store.Approvals(r.k.ctx(), store.ApprovalFilter{RunID: r.run.ID, Into: &r.header, Seen: r.looked})
	if err != nil {
		r.k.t.Fatal(err)
	}
	if r.looked = true; len(r.approvals) == 0 {
		r.approvals = list
		return
	}
	for _, a := range list {
		r.approvals = slices.DeleteFunc(r.approvals, func(old core.Approval) bool { return old.ID == a.ID })
		r.approvals = append(r.approvals, a)
	}
}

// knowsAll compares with who reads everything.
func (r *lookingRunner) knowsAll(after string) {
	k := r.k
	want, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{RunID: r.run.ID})
	if err != nil {
		k.t.Fatal(err)
	}
	header := k.get(r.run.ID)
	header.Options.Input, header.Result = nil, nil
	byID := cmpopts.SortSlices(func(a, b core.Approval) bool { return a.ID < b.ID })
	if diff := cmp.Diff(want, r.approvals, byID) + cmp.Diff(header, r.header); diff != "" {
		k.t.Fatalf("after %s: %s", after, diff)
	}
}
