package storetest

import (
	"slices"
	"sync"
	"time"

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

// testCommitReliesTogether: of steps that are committed at the same moment, and so perhaps in
// one transaction, those are refused whose permission does not count, and no others.
func testCommitReliesTogether(k *kit) {
	const agent = core.ID("agent-1")
	_, a := k.waiting(func(a *core.Approval) { a.Agent = agent })
	if _, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(), Answer: &core.Answer{Remember: core.RememberRun}}, store.Renewal{}); err != nil {
		k.t.Fatal(err)
	}
	runs, errs := make([]core.Run, 20), make([]error, 20)
	var all sync.WaitGroup
	for i := range runs {
		runs[i] = k.create(func(s *store.Step) { s.Run.UnderAgent = []core.ID{agent, "agent-2"}[i%2] })
	}
	for i, run := range runs {
		run.JournalSeq++
		step := store.Step{
			Run: run, Relies: []store.Reliance{{Approval: a.ID, CallID: "c1", Tool: a.Tool}},
			Records: []core.Record{{Seq: run.JournalSeq, Kind: core.RecordStarted, CallID: "c1", Tool: a.Tool, At: k.now()}},
		}
		all.Go(func() { errs[i] = k.Store.Commit(k.ctx(), step) })
	}
	all.Wait()
	for i, err := range errs {
		want, kept := core.Code(""), int64(1)
		if i%2 == 1 {
			want, kept = core.CodeAlreadyDecided, 0
		}
		if now := k.get(runs[i].ID); core.CodeOf(err) != want || now.JournalSeq != runs[i].JournalSeq+kept {
			k.t.Errorf("%d: %v, %d records after %d", i, err, now.JournalSeq, runs[i].JournalSeq)
		}
	}
}

// testApprovalsAgent: what was asked below an agent is found by it, as the store lets calls
// rely on it, and what was asked about something by its digest; each among others.
func testApprovalsAgent(k *kit) {
	_, before := k.waiting(func(a *core.Approval) { a.Digest = "sha256:bb" })
	k.Clock.Advance(time.Second)
	agent := k.create(func(s *store.Step) { s.Run.Kind, s.Run.Owner = core.KindAgent, "ann" })
	other := k.create(func(s *store.Step) { s.Run.Kind = core.KindAgent })
	k.Clock.Advance(time.Second)
	run := k.create(func(s *store.Step) {
		s.Run.State, s.Run.Owner, s.Run.UnderAgent = core.RunWaiting, "ann", agent.ID
		for range 2 {
			a := k.approval(s.Run.ID)
			a.Agent = agent.ID
			s.Open = append(s.Open, a)
		}
	})
	var others core.Approval
	k.create(func(s *store.Step) {
		others = k.approval(s.Run.ID)
		others.Agent, others.Description, others.Digest = other.ID, "about sha256:bb", "sha256:bbb"
		s.Run.State, s.Run.UnderAgent, s.Open = core.RunWaiting, other.ID, []core.Approval{others}
	})
	given, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: k.openOf(run.ID)[0], Approved: true, By: human, At: k.now(), Answer: &core.Answer{Remember: core.RememberRun}}, store.Renewal{})
	if err != nil {
		k.t.Fatal(err)
	}
	approved := []core.ApprovalState{core.ApprovalApproved}
	want := func(name string, f store.ApprovalFilter, want ...core.ID) []core.Approval {
		list, err := k.Store.Approvals(k.ctx(), f)
		got := []core.ID{}
		for _, a := range list {
			got = append(got, a.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			k.t.Errorf("%s: %v %v, want %v", name, err, got, want)
		}
		return list
	}
	all := append(k.openOf(run.ID), given.ID)
	want("Agent", store.ApprovalFilter{Agent: agent.ID}, all...)
	want("AgentOfRun", store.ApprovalFilter{Agent: agent.ID, RunID: run.ID}, all...)
	want("OtherRun", store.ApprovalFilter{Agent: agent.ID, RunID: others.RunID})
	want("Other", store.ApprovalFilter{Agent: other.ID, Workspace: "/w"}, others.ID)
	want("OtherOwner", store.ApprovalFilter{Agent: agent.ID, Owner: "bob"})
	want("Unknown", store.ApprovalFilter{Agent: k.id()})
	want("Digest", store.ApprovalFilter{Digest: "sha256:bb"}, before.ID)
	want("NoDigest", store.ApprovalFilter{Digest: "sha256:b"})
	if one, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{Agent: agent.ID, Limit: 1}); err != nil || len(one) != 1 || one[0].Agent != agent.ID {
		k.t.Errorf("the first: %v %+v", err, one)
	}
	list := want("Approved", store.ApprovalFilter{Agent: agent.ID, States: approved}, given.ID)
	below := core.Run{ID: k.id(), UnderAgent: agent.ID, Workspace: agent.Workspace, Owner: "ann"}
	if len(list) == 1 && !list[0].ForTree(below, given.Tool) {
		k.t.Errorf("what is listed does not count in the tree: %+v", list[0])
	}
}

// openOf are the open approvals of a run.
func (k *kit) openOf(run core.ID) (ids []core.ID) {
	k.t.Helper()
	list, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{RunID: run, States: []core.ApprovalState{core.ApprovalOpen}, Now: k.now()})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}
