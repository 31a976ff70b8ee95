package storetest

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// testCommitRelies: a step that lets a call on by a permission of another run is refused as a
// whole unless a person has given that for the run of the agent that both are below.
func testCommitRelies(k *kit) {
	remembered := &core.Answer{Remember: core.RememberRun}
	given := func(how *core.Answer, by core.Actor, change ...func(*core.Approval)) core.ID {
		_, a := k.waiting(append(change, func(a *core.Approval) {
			if a.Agent == "" {
				a.Agent = "agent-1"
			}
		})...)
		if by.Who == "" {
			return a.ID
		}
		if _, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: by, At: k.now(), Answer: how}, store.Renewal{}); err != nil {
			k.t.Fatal(err)
		}
		return a.ID
	}
	for name, tt := range map[string]struct {
		permission core.ID
		under      core.ID
		tool       string
		ok         bool
	}{
		"Given":        {given(remembered, human), "agent-1", "fs:write", true},
		"OtherTree":    {given(remembered, human), "agent-2", "fs:write", false},
		"InNoTree":     {given(remembered, human), "", "fs:write", false},
		"OtherTool":    {given(remembered, human), "agent-1", "fs:remove", false},
		"ForTheCall":   {given(nil, human), "agent-1", "fs:write", false},
		"ByAnAgent":    {given(remembered, core.Actor{Who: "claude", Via: core.ViaMCP}), "agent-1", "fs:write", false},
		"Open":         {given(remembered, core.Actor{}), "agent-1", "fs:write", false},
		"OtherFolder":  {given(remembered, human, func(a *core.Approval) { a.Workspace = "/elsewhere" }), "agent-1", "fs:write", false},
		"NeverExisted": {k.id(), "agent-1", "fs:write", false},
	} {
		run := k.create(func(s *store.Step) { s.Run.UnderAgent = tt.under })
		was := k.get(run.ID)
		run.JournalSeq++
		err := k.Store.Commit(k.ctx(), store.Step{
			Run: run, Relies: []store.Reliance{{Approval: tt.permission, CallID: "c1", Tool: tt.tool}},
			Records: []core.Record{{Seq: run.JournalSeq, Kind: core.RecordStarted, CallID: "c1", Tool: tt.tool, At: k.now()}},
		})
		if tt.ok {
			if err != nil {
				k.t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if core.CodeOf(err) != core.CodeAlreadyDecided {
			k.t.Errorf("%s: %v", name, err)
		}
		if now := k.get(run.ID); now.JournalSeq != was.JournalSeq {
			k.t.Errorf("%s: a refused step changed the run: %+v", name, now)
		}
	}
}
