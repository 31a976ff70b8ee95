package storetest

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// testCommitUndecided: a step that wants an approval to be undecided is refused as a
// whole once somebody has decided it, also where that has asked again.
func testCommitUndecided(k *kit) {
	try := func(run core.Run, a core.Approval) error {
		run.State, run.JournalSeq = core.RunRunning, run.JournalSeq+1
		return k.Store.Commit(k.ctx(), store.Step{
			Run: run, Supersede: []core.ID{a.ID}, Undecided: []core.ID{a.ID},
			Records: []core.Record{{Seq: run.JournalSeq, Kind: core.RecordStarted, CallID: "c1", Tool: "a:b", At: k.now()}},
		})
	}
	run, a := k.waiting()
	if err := try(run, a); err != nil || k.getApproval(a.ID).State != core.ApprovalSuperseded {
		k.t.Errorf("%v: it is %s", err, k.getApproval(a.ID).State)
	}
	for name, decide := range map[string]func(a core.Approval) error{
		"approved": func(a core.Approval) error { _, err := k.decide(a.ID, true, human); return err },
		"denied":   func(a core.Approval) error { _, err := k.decide(a.ID, false, human); return err },
		"renewed": func(a core.Approval) error {
			k.Clock.Advance(time.Hour)
			_, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now()}, store.Renewal{Fresh: k.id(), Until: k.in(time.Minute)})
			return err
		},
	} {
		run, a := k.waiting()
		if err := decide(a); err != nil {
			k.t.Fatalf("%s: %v", name, err)
		}
		was := k.get(run.ID)
		k.wantCode(try(was, a), core.CodeAlreadyDecided)
		if now := k.get(run.ID); now.JournalSeq != was.JournalSeq || now.State != was.State {
			k.t.Errorf("%s: a refused step changed the run: %+v", name, now)
		}
	}
}
