package storetest

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// dump is all that a store keeps, as it can be read.
type dump struct {
	Runs        []core.Run
	Programs    []core.Program
	Journals    [][]core.Record
	Checkpoints [][]core.Checkpoint
	Approvals   []core.Approval
	Events      []core.Event
	Audit       []core.AuditRow
	Orphans     []core.ID
}

func (k *kit) dump() dump {
	k.t.Helper()
	runs, err := k.Store.Runs(k.ctx(), store.RunFilter{})
	if err != nil {
		k.t.Fatalf("runs: %v", err)
	}
	d := dump{Events: k.events(store.EventFilter{}), Audit: k.audit()}
	for _, r := range runs {
		program, perr := k.Store.Program(k.ctx(), r.ID)
		journal, jerr := k.Store.Journal(k.ctx(), r.ID, 0)
		checkpoints, cerr := k.Store.Checkpoints(k.ctx(), r.ID)
		if perr != nil || jerr != nil || cerr != nil {
			k.t.Fatalf("the run %s: %v, %v, %v", r.ID, perr, jerr, cerr)
		}
		d.Runs = append(d.Runs, k.get(r.ID))
		d.Programs = append(d.Programs, program)
		d.Journals = append(d.Journals, journal)
		d.Checkpoints = append(d.Checkpoints, checkpoints)
	}
	if d.Approvals, err = k.Store.Approvals(k.ctx(), store.ApprovalFilter{}); err != nil {
		k.t.Fatalf("approvals: %v", err)
	}
	if d.Orphans, err = k.Store.Orphans(k.ctx(), "", 0); err != nil {
		k.t.Fatalf("orphans: %v", err)
	}
	return d
}

// same fails unless the store holds what it must.
func (k *kit) same(want dump, when string) {
	k.t.Helper()
	if diff := cmp.Diff(want, k.dump(), sameText); diff != "" {
		k.t.Errorf("%s:\n%s", when, diff)
	}
}

// sameText spares cmp a look at each byte of large values that are equal, which takes it a second for a MiB.
var sameText = cmp.FilterValues(func(a, b json.RawMessage) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }, cmp.Ignore())

// trial is an operation whose commit fails.
type trial struct {
	name string
	// prepare readies the store and returns the operation.
	prepare func(k *kit) func() error
	// again is the code of the operation when it is done already.
	again core.Code
	// adds is set when a repetition does the same once more.
	adds bool
}

// step is a trial of a Commit on a run that waits for an approval.
func step(name string, again core.Code, change func(k *kit, s *store.Step, a core.Approval)) trial {
	return trial{name: name, again: again, prepare: func(k *kit) func() error {
		run, a := k.waiting()
		s := store.Step{Run: run}
		change(k, &s, a)
		return func() error { return k.Store.Commit(k.ctx(), s) }
	}}
}

var trials = []trial{
	{name: "Commit_Create", again: core.CodeDuplicate, prepare: func(k *kit) func() error {
		run := k.run()
		run.IdempotencyKey = "key"
		s := store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1},
			Records: []core.Record{record(1, "c1")}, Open: []core.Approval{k.approval(run.ID)},
			Events: []core.Event{{Type: core.EventTaskStart}}}
		return func() error { return k.Store.Commit(k.ctx(), s) }
	}},
	{name: "Commit_Past", again: core.CodeDuplicate, prepare: func(k *kit) func() error {
		s := k.copied()
		return func() error { return k.Store.Commit(k.ctx(), s) }
	}},
	step("Commit_Records", core.CodeFenced, func(_ *kit, s *store.Step, _ core.Approval) {
		s.Records = []core.Record{record(1, "c1"), record(2, "c2")}
		s.Events = []core.Event{{Type: core.EventTaskStart}, {Type: core.EventTaskComplete}}
		s.Audit = []core.AuditRow{{At: start, Tool: "fs:write", Outcome: core.ApprovalDenied, By: other}}
	}),
	step("Commit_Open", core.CodeInternal, func(k *kit, s *store.Step, _ core.Approval) {
		s.Open = []core.Approval{k.approval(s.Run.ID), k.approval(s.Run.ID)}
	}),
	step("Commit_Supersede", "", func(_ *kit, s *store.Step, a core.Approval) { s.Supersede = []core.ID{a.ID} }),
	step("Commit_Used", "", func(_ *kit, s *store.Step, a core.Approval) {
		s.Used = []store.Use{{Approval: a.ID, CallID: "c1"}}
	}),
	step("Commit_Checkpoint", "", func(k *kit, s *store.Step, _ core.Approval) {
		s.Checkpoint = &core.Checkpoint{ID: k.id(), RunID: s.Run.ID, DAGVersion: 1, CreatedAt: k.now()}
	}),
	step("Commit_End", "", func(k *kit, s *store.Step, _ core.Approval) {
		s.Run.State, s.Run.EndedAt, s.Run.Result = core.RunComplete, k.in(0), []byte(`{"ok":true}`)
	}),
	onApproval("Decide", "", func(k *kit, _ core.Run, a core.Approval) error {
		_, err := k.decide(a.ID, true, human)
		return err
	}),
	onApproval("Decide_Abort", "", func(k *kit, _ core.Run, a core.Approval) error {
		_, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, By: human, At: k.now(), Abort: true}, store.Renewal{})
		return err
	}),
	onApproval("Extend", "", func(k *kit, _ core.Run, a core.Approval) error {
		_, err := k.Store.Extend(k.ctx(), a.ID, start.Add(48*time.Hour))
		return err
	}),
	onApproval("RequestAbort", "", func(k *kit, run core.Run, _ core.Approval) error {
		_, err := k.Store.RequestAbort(k.ctx(), run.ID, core.AbortRequest{By: human, At: k.now()})
		return err
	}),
	onApproval("Replan", core.CodeNotWaiting, func(k *kit, run core.Run, _ core.Approval) error {
		program := core.Program{Kind: core.KindDAG, Version: 2, Plan: &core.Plan{Layers: [][]string{{"a"}}}}
		_, err := k.Store.Replan(k.ctx(), run.ID, program, human, core.Event{Type: core.EventReplanned, At: k.now()})
		return err
	}),
	onApproval("Claim", "", func(k *kit, run core.Run, _ core.Approval) error {
		_, err := k.Store.Claim(k.ctx(), run.ID, "r9")
		return err
	}).adding(),
	onApproval("Record", "", func(k *kit, _ core.Run, _ core.Approval) error {
		return k.Store.Record(k.ctx(), core.AuditRow{Tool: "a", By: human}, core.AuditRow{Tool: "b", By: human})
	}).adding(),
	{name: "Renew", prepare: func(k *kit) func() error {
		_, a := k.waiting()
		fresh := k.id()
		k.Clock.Advance(time.Hour)
		k.create() // records the expiry
		return func() error {
			_, err := k.Store.Renew(k.ctx(), a.ID, fresh, k.now(), k.in(time.Hour), human)
			return err
		}
	}},
	{name: "Expire", prepare: func(k *kit) func() error {
		k.waiting()
		k.waiting(func(a *core.Approval) { a.ExpiresAt = nil })
		return func() error {
			_, err := k.Store.Expire(k.ctx(), start.Add(25*time.Hour))
			return err
		}
	}},
	{name: "Remove", again: core.CodeNotFound, prepare: func(k *kit) func() error {
		k.waiting()
		run, _ := k.waiting()
		run.State, run.EndedAt = core.RunComplete, k.in(0)
		k.commit(store.Step{Run: run, Records: []core.Record{record(1, "c1")}, Events: []core.Event{{Type: core.EventWorkflowComplete}}})
		return func() error { return k.Store.Remove(k.ctx(), run.ID) }
	}},
}

// onApproval is a trial on a run that waits for an approval.
func onApproval(name string, again core.Code, do func(*kit, core.Run, core.Approval) error) trial {
	return trial{name: name, again: again, prepare: func(k *kit) func() error {
		run, a := k.waiting()
		return func() error { return do(k, run, a) }
	}}
}

func (c trial) adding() trial {
	c.adds = true
	return c
}

// runTrials lets the commit of each operation fail: before it nothing of the
// operation is there and it can be repeated, after it all of it is there and
// repeating it does no harm.
func runTrials(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for i, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			skiptest.Share(t, i, 3)
			sound := &kit{Harness: open(t), t: t}
			if err := c.prepare(sound)(); err != nil {
				t.Fatalf("without a failure: %v", err)
			}
			want := sound.dump()
			t.Run("Before", func(t *testing.T) {
				t.Parallel()
				(&kit{Harness: open(t), t: t}).failBefore(c, want)
			})
			t.Run("After", func(t *testing.T) {
				t.Parallel()
				(&kit{Harness: open(t), t: t}).failAfter(c, want)
			})
		})
	}
}

func (k *kit) failBefore(c trial, want dump) {
	do := c.prepare(k)
	before := k.dump()
	k.failCommit(BeforeCommit)
	if err := do(); core.CodeOf(err) == "" {
		k.t.Fatalf("its commit failed, and it returned %v", err)
	}
	k.same(before, "after a failure before the commit")
	if err := do(); err != nil {
		k.t.Fatalf("repeated: %v", err)
	}
	k.same(want, "repeated")
	k.Store = k.fresh()
	k.same(want, "opened again")
}

func (k *kit) failAfter(c trial, want dump) {
	do := c.prepare(k)
	ch, err := k.Store.Watch(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	k.failCommit(AfterCommit)
	if err := do(); core.CodeOf(err) == "" {
		k.t.Fatalf("its commit failed, and it returned %v", err)
	}
	k.await(ch) // whoever watches has to look
	k.same(want, "after a failure behind the commit")
	k.wantCode(do(), c.again)
	if !c.adds {
		k.same(want, "repeated")
	}
}
