package storetest

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// testOrigin: the name of a run and what asked for it are kept with the run, its
// approvals, its events and the rows of the audit log, for whoever opens the store.
func testOrigin(k *kit) {
	agent := core.Actor{Who: "ann", Via: core.ViaMCP, Client: core.Client{Name: "claude-code", Version: "2.1", Title: "Claude Code"}}
	var a core.Approval
	run := k.create(func(s *store.Step) {
		s.Run.Name, s.Run.RequestedBy, s.Run.State = "write_file src/日本.ts", agent, core.RunWaiting
		a = k.approval(s.Run.ID)
		a.RunName, a.RequestedBy = s.Run.Name, agent
		s.Open = []core.Approval{a}
		s.Events = []core.Event{{Type: core.EventWorkflowStart, RunName: s.Run.Name}}
	})
	if _, err := k.decide(a.ID, true, agent); err != nil {
		k.t.Fatal(err)
	}
	k.fresh()
	kept := k.get(run.ID)
	list, err := k.Store.Runs(k.ctx(), store.RunFilter{})
	if err != nil || len(list) != 1 {
		k.t.Fatalf("%d runs, %v", len(list), err)
	}
	for _, r := range []core.Run{kept, list[0]} {
		if r.Name != run.Name || r.Name == "" || r.RequestedBy != agent {
			k.t.Errorf("the run is %q by %+v", r.Name, r.RequestedBy)
		}
	}
	if got := k.getApproval(a.ID); got.RunName != run.Name || got.RequestedBy != agent || got.DecidedBy == nil || got.DecidedBy.Actor != agent {
		k.t.Errorf("the approval: %+v", got)
	}
	for _, e := range k.events(store.EventFilter{RunID: run.ID}) {
		if e.RunName != run.Name {
			k.t.Errorf("the event %s is of %q", e.Type, e.RunName)
		}
	}
	if rows := k.audit(); len(rows) != 1 || rows[0].RunName != run.Name || rows[0].By != agent {
		k.t.Errorf("audit: %+v", rows)
	}
}
