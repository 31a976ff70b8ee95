package storetest

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

func (k *kit) decide(id core.ID, approved bool, by core.Actor) (core.Approval, error) {
	return k.Store.Decide(k.ctx(), core.Decision{ApprovalID: id, Approved: approved, By: by, At: k.now()}, store.Renewal{})
}

func testDecide(k *kit) {
	run, a := k.waiting()
	d := core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(), Reason: "fine", ExpectDigest: a.Digest,
		Answer: &core.Answer{Remember: core.RememberRun}}
	got, err := k.Store.Decide(k.ctx(), d, store.Renewal{RunUntil: k.in(48 * time.Hour)})
	want := a
	want.State, want.Answer = core.ApprovalApproved, d.Answer
	want.DecidedBy = &core.DecidedBy{Actor: human, At: k.now(), Reason: "fine"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		k.t.Fatalf("%v %s", err, diff)
	}
	if diff := cmp.Diff(want, k.getApproval(a.ID)); diff != "" {
		k.t.Errorf("stored: %s", diff)
	}
	if at := k.get(run.ID).ExpiresAt; at == nil || !at.Equal(k.now().Add(48*time.Hour)) {
		k.t.Errorf("the run expires at %v", at)
	}
	es := k.events(store.EventFilter{RunID: run.ID})
	if len(es) != 1 || es[0].Type != core.EventApprovalResolved || es[0].ApprovalID != a.ID {
		k.t.Fatalf("events: %+v", es)
	}
	var data struct {
		State     core.ApprovalState `json:"state"`
		DecidedBy core.DecidedBy     `json:"decided_by"`
	}
	if err := json.Unmarshal(es[0].Data, &data); err != nil || data.State != core.ApprovalApproved || data.DecidedBy.Who != "ann" {
		k.t.Errorf("event data %s: %v", es[0].Data, err)
	}
	rows := k.audit()
	if len(rows) != 1 || rows[0].Outcome != core.ApprovalApproved || rows[0].By != human || rows[0].Digest != a.Digest || rows[0].Reason != "fine" {
		k.t.Errorf("audit: %+v", rows)
	}
}

// testDecideEdited: arguments that are changed with a yes are kept with it, as they were
// given, and the audit log says that they were.
func testDecideEdited(k *kit) {
	_, a := k.waiting()
	args := json.RawMessage(`{"z":"\u0000 <&>","a":1.50,"big":12345678901234567890,"n":{"b":[],"a":null}}`)
	d := core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(), ExpectDigest: a.Digest, Answer: &core.Answer{Arguments: args}}
	_, err := k.Store.Decide(k.ctx(), d, store.Renewal{})
	k.wantCode(err, core.CodeInvalidArguments) // nobody has checked them
	d.Answer.Digest, d.Answer.Remember = "sha256:edited", core.RememberRun
	_, err = k.Store.Decide(k.ctx(), d, store.Renewal{})
	k.wantCode(err, core.CodeInvalidArguments)
	d.Answer.Remember = ""
	if _, err := k.Store.Decide(k.ctx(), d, store.Renewal{}); err != nil {
		k.t.Fatal(err)
	}
	want, _ := core.Digest(args)
	got := k.getApproval(a.ID)
	if digest, err := core.Digest(got.Answer.Arguments); err != nil || digest != want || got.Digest != a.Digest || got.Answer.Digest != "sha256:edited" {
		k.t.Errorf("%v: %+v %s", err, got, got.Answer.Arguments)
	}
	again, err := k.Store.Decide(k.ctx(), d, store.Renewal{})
	if err != nil || again.State != core.ApprovalApproved {
		k.t.Errorf("the same again: %v", err)
	}
	other := d
	other.Answer = &core.Answer{Arguments: json.RawMessage(`{}`), Digest: "sha256:other"}
	_, err = k.Store.Decide(k.ctx(), other, store.Renewal{})
	k.wantCode(err, core.CodeAlreadyDecided)
	if rows := k.audit(); len(rows) != 1 || rows[0].SentDigest != "sha256:edited" || rows[0].Digest != a.Digest {
		k.t.Errorf("audit: %+v", rows)
	}
}

func testDecideErrors(k *kit) {
	_, a := k.waiting()
	_, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: human, ExpectDigest: "sha256:bb"}, store.Renewal{})
	k.wantCode(err, core.CodeDigestMismatch)
	if got := k.getApproval(a.ID); got.State != core.ApprovalOpen || len(k.audit()) != 0 {
		k.t.Errorf("a refused decision changed something: %s", got.State)
	}
	k.Clock.Advance(5 * time.Minute)
	_, err = k.decide(a.ID, true, human)
	k.wantCode(err, core.CodeApprovalExpired)

	run, b := k.waiting()
	k.commit(store.Step{Run: run, Supersede: []core.ID{b.ID}})
	_, err = k.decide(b.ID, true, human)
	k.wantCode(err, core.CodeNotWaiting)

	long, c := k.waiting(func(a *core.Approval) { a.ExpiresAt = nil })
	k.Clock.Advance(25 * time.Hour)
	_, err = k.decide(c.ID, true, human)
	k.wantCode(err, core.CodeWorkflowExpired)
	if got := k.get(long.ID); got.State != core.RunExpired {
		k.t.Errorf("the run is %s", got.State)
	}
}

func testDecideAgain(k *kit) {
	_, a := k.waiting()
	first, err := k.decide(a.ID, true, human)
	if err != nil {
		k.t.Fatal(err)
	}
	k.Clock.Advance(time.Hour)
	again, err := k.decide(a.ID, true, other)
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
	_, err = k.decide(a.ID, false, other)
	k.wantCode(err, core.CodeAlreadyDecided)
	if e := core.AsError(err); e == nil || e.Decided == nil || e.Decided.Who != "ann" || e.Decided.Via != core.ViaCLI {
		k.t.Errorf("the error must say who decided: %+v", e)
	}
	if n := len(k.audit()); n != 1 {
		k.t.Errorf("%d audit rows", n)
	}
}

func testDecideOneOfMany(k *kit) {
	_, a := k.waiting()
	stores := []store.Store{k.Store, k.another(), k.another()}
	var wins, losses atomic.Int32
	var wg sync.WaitGroup
	for i := range 48 {
		wg.Go(func() {
			// Each decides differently, so that the same decision never counts twice.
			d := core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(),
				Answer: &core.Answer{Result: json.RawMessage(strconv.Itoa(i))}}
			switch _, err := stores[i%3].Decide(k.ctx(), d, store.Renewal{}); core.CodeOf(err) {
			case "":
				wins.Add(1)
			case core.CodeAlreadyDecided:
				losses.Add(1)
			default:
				k.t.Error(err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 || losses.Load() != 47 || len(k.audit()) != 1 {
		k.t.Errorf("%d won, %d lost, %d audit rows", wins.Load(), losses.Load(), len(k.audit()))
	}
}

func testDecideAbort(k *kit) {
	run, a := k.waiting()
	d := core.Decision{ApprovalID: a.ID, By: human, At: k.now(), Reason: "no", Abort: true}
	if _, err := k.Store.Decide(k.ctx(), d, store.Renewal{}); err != nil {
		k.t.Fatal(err)
	}
	if rows := k.audit(); len(rows) != 1 || !rows[0].Aborted {
		k.t.Errorf("the row of a no that aborts says so: %+v", rows)
	}
	want := &core.AbortRequest{By: human, At: k.now(), Reason: "no"}
	if diff := cmp.Diff(want, k.get(run.ID).Abort); diff != "" {
		k.t.Error(diff)
	}
}

func testExtend(k *kit) {
	_, a := k.waiting()
	got, err := k.Store.Extend(k.ctx(), a.ID, k.now().Add(time.Hour))
	if err != nil || got.ExpiresAt == nil || !got.ExpiresAt.Equal(k.now().Add(time.Hour)) {
		k.t.Fatalf("%v, %v", got.ExpiresAt, err)
	}
	k.Clock.Advance(30 * time.Minute)
	if as, err := k.Store.Approvals(k.ctx(), store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}}); err != nil || len(as) != 1 {
		k.t.Errorf("%d open, %v", len(as), err)
	}
	k.Clock.Advance(time.Hour)
	_, err = k.Store.Extend(k.ctx(), a.ID, k.now().Add(time.Hour))
	k.wantCode(err, core.CodeApprovalExpired)
}

// testExtendRun: a run lives as long as a question of it that was extended.
func testExtendRun(k *kit) {
	run, a := k.waiting()
	if _, err := k.Store.Extend(k.ctx(), a.ID, k.now().Add(time.Hour)); err != nil {
		k.t.Fatal(err)
	}
	if got := k.get(run.ID); !got.ExpiresAt.Equal(*run.ExpiresAt) {
		k.t.Errorf("a run that lives longer anyway now expires at %v", got.ExpiresAt)
	}
	long := k.now().Add(72 * time.Hour)
	if _, err := k.Store.Extend(k.ctx(), a.ID, long); err != nil {
		k.t.Fatal(err)
	}
	k.commit(store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskLog}}}) // the runner has not seen it
	k.Clock.Advance(71 * time.Hour)
	if got := k.get(run.ID); got.State != core.RunWaiting || got.ExpiresAt == nil || !got.ExpiresAt.Equal(long) {
		k.t.Errorf("the run is %s until %v, want %v", got.State, got.ExpiresAt, long)
	}
	if _, err := k.decide(a.ID, true, human); err != nil {
		k.t.Error(err)
	}

	run, a = k.waiting()
	if _, err := k.Store.Extend(k.ctx(), a.ID, time.Time{}); err != nil {
		k.t.Fatal(err)
	}
	if got := k.get(run.ID); got.ExpiresAt != nil {
		k.t.Errorf("a run with a question that never expires does at %v", got.ExpiresAt)
	}
}

// testExpiredRunsApprovals: what a run asked that has expired waits no more,
// though nobody has recorded it.
func testExpiredRunsApprovals(k *kit) {
	run, a := k.waiting(func(a *core.Approval) { a.ExpiresAt = nil })
	k.Clock.Advance(25 * time.Hour)
	for _, f := range []store.ApprovalFilter{{}, {RunID: run.ID}, {ID: a.ID}} {
		f.Now = k.now()
		all, err := k.Store.Approvals(k.ctx(), f)
		if err != nil || len(all) != 1 || all[0].State != core.ApprovalExpired {
			k.t.Errorf("%+v: %+v, %v", f, all, err)
		}
		f.States = []core.ApprovalState{core.ApprovalOpen}
		if open, err := k.Store.Approvals(k.ctx(), f); err != nil || len(open) != 0 {
			k.t.Errorf("%+v: %d open, %v", f, len(open), err)
		}
	}
}

func testRenew(k *kit) {
	run, a := k.waiting()
	renew := func(id, fresh core.ID) (core.Approval, error) {
		return k.Store.Renew(k.ctx(), id, fresh, k.now(), k.in(5*time.Minute), other)
	}
	if got, err := renew(a.ID, k.id()); err != nil || got.ID != a.ID {
		k.t.Fatalf("an open one is returned as it is: %s, %v", got.ID, err)
	}
	k.Clock.Advance(time.Hour)
	fresh := k.id()
	got, err := renew(a.ID, fresh)
	want := a
	want.ID, want.CreatedAt, want.ExpiresAt, want.RequestedBy, want.Renews = fresh, k.now(), k.in(5*time.Minute), other, a.ID
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		k.t.Fatalf("%v %s", err, diff)
	}
	if again, err := renew(a.ID, k.id()); err != nil || again.ID != fresh {
		k.t.Errorf("renewed twice: %s, %v", again.ID, err)
	}
	if old := k.getApproval(a.ID); old.State != core.ApprovalExpired || old.RenewedBy != fresh {
		k.t.Errorf("the old one is %s, renewed by %q", old.State, old.RenewedBy)
	}
	var types []core.EventType
	for _, e := range k.events(store.EventFilter{RunID: run.ID}) {
		types = append(types, e.Type)
	}
	if diff := cmp.Diff([]core.EventType{core.EventApprovalResolved, core.EventApprovalRequested}, types); diff != "" {
		k.t.Error(diff)
	}
	if _, err := k.decide(fresh, true, human); err != nil {
		k.t.Error(err)
	}
	_, err = renew(fresh, k.id())
	k.wantCode(err, core.CodeAlreadyDecided)
}

// testRenewRun: a run lives as long as a question of it that was asked again.
func testRenewRun(k *kit) {
	for _, recorded := range []bool{false, true} {
		for _, until := range []*time.Time{k.in(72 * time.Hour), k.in(10 * time.Hour), nil} {
			run, a := k.waiting()
			k.Clock.Advance(time.Hour)
			if recorded {
				if _, err := k.Store.Expire(k.ctx(), k.now()); err != nil {
					k.t.Fatal(err)
				}
			}
			if _, err := k.Store.Renew(k.ctx(), a.ID, k.id(), k.now(), until, human); err != nil {
				k.t.Fatal(err)
			}
			want := run.ExpiresAt
			if until == nil || until.After(*want) {
				want = until
			}
			if diff := cmp.Diff(want, k.get(run.ID).ExpiresAt); diff != "" {
				k.t.Errorf("recorded %v, until %v: %s", recorded, until, diff)
			}
		}
	}
}

func testRequestAbort(k *kit) {
	run := k.create()
	first := core.AbortRequest{By: human, At: k.now(), Reason: "one"}
	for _, req := range []core.AbortRequest{first, {By: other, At: k.now(), Reason: "two"}} {
		got, err := k.Store.RequestAbort(k.ctx(), run.ID, req)
		if diff := cmp.Diff(&first, got.Abort); err != nil || diff != "" {
			k.t.Errorf("%v %s", err, diff)
		}
	}
	done := k.create(func(s *store.Step) { s.Run.State = core.RunComplete })
	_, err := k.Store.RequestAbort(k.ctx(), done.ID, first)
	k.wantCode(err, core.CodeNotWaiting)
	// The audit log has who asked first, once; of a run that only follows another nobody has.
	below := k.create()
	if _, err := k.Store.RequestAbort(k.ctx(), below.ID, core.AbortRequest{By: other, At: k.now(), Follows: true}); err != nil {
		k.t.Fatal(err)
	}
	rows := k.audit()
	if len(rows) != 1 || rows[0].RunID != run.ID || rows[0].By.Who != human.Who || rows[0].Reason != "aborted the run: one" {
		k.t.Errorf("audit: %+v", rows)
	}
}

func testReplan(k *kit) {
	run, _ := k.waiting()
	program := core.Program{Kind: core.KindDAG, Version: 2, Tasks: []core.TaskSpec{{ID: "t1"}}, Plan: &core.Plan{Layers: [][]string{{"t1"}}}}
	got, err := k.Store.Replan(k.ctx(), run.ID, program, human, core.Event{Type: core.EventReplanned})
	if err != nil || got.DAGVersion != 2 || got.TotalLayers != 1 {
		k.t.Fatalf("%+v %v", got, err)
	}
	_, err = k.Store.Replan(k.ctx(), run.ID, program, human, core.Event{Type: core.EventReplanned})
	k.wantCode(err, core.CodeNotWaiting)
	stored, err := k.Store.Program(k.ctx(), run.ID)
	if diff := cmp.Diff(program, stored); err != nil || diff != "" {
		k.t.Errorf("%v %s", err, diff)
	}
	if es := k.events(store.EventFilter{RunID: run.ID}); len(es) != 1 || es[0].Type != core.EventReplanned {
		k.t.Errorf("events: %+v", es)
	}
	me, err := k.Store.Register(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	live := k.create(func(s *store.Step) { s.Run.Runner = me.ID() })
	_, err = k.Store.Replan(k.ctx(), live.ID, program, human, core.Event{Type: core.EventReplanned})
	k.wantCode(err, core.CodeNotWaiting)
	if err := me.Close(); err != nil {
		k.t.Fatal(err)
	}
	got, err = k.Store.Replan(k.ctx(), live.ID, program, human, core.Event{Type: core.EventReplanned})
	if err != nil || got.State != core.RunInterrupted || got.DAGVersion != 2 {
		k.t.Errorf("its runner is dead: %s, version %d, %v", got.State, got.DAGVersion, err)
	}
}

// testReplanLayers: a decision about a layer that was asked for before a replan
// counts no more.
func testReplanLayers(k *kit) {
	run, a := k.waiting(func(a *core.Approval) { a.Type, a.Subject, a.Tool = core.ApproveLayer, "layer:1", "" })
	b := k.approval(run.ID)
	k.commit(store.Step{Run: run, Open: []core.Approval{b}})
	if _, err := k.Store.Replan(k.ctx(), run.ID, core.Program{Kind: core.KindDAG, Version: 2}, human, core.Event{Type: core.EventReplanned}); err != nil {
		k.t.Fatal(err)
	}
	_, err := k.decide(a.ID, true, human)
	k.wantCode(err, core.CodeNotWaiting)
	if got := k.getApproval(a.ID); got.State != core.ApprovalSuperseded {
		k.t.Errorf("the question about the layer is %s", got.State)
	}
	if got := k.getApproval(b.ID); got.State != core.ApprovalOpen {
		k.t.Errorf("the question about a call is %s", got.State)
	}
	if rows := k.audit(); len(rows) != 1 || rows[0].ApprovalID != a.ID || rows[0].Outcome != core.ApprovalSuperseded {
		k.t.Errorf("audit: %+v", rows)
	}
}

// testReplanBeforeEnd: a runner that has not seen a replan cannot end the run
// over it; it can still journal, and abort.
func testReplanBeforeEnd(k *kit) {
	run, _ := k.waiting()
	if _, err := k.Store.Replan(k.ctx(), run.ID, core.Program{Kind: core.KindDAG, Version: 2}, human, core.Event{Type: core.EventReplanned}); err != nil {
		k.t.Fatal(err)
	}
	for _, state := range []core.RunState{core.RunComplete, core.RunFailed} {
		ending := run
		ending.State, ending.EndedAt = state, k.in(0)
		k.wantCode(k.Store.Commit(k.ctx(), store.Step{Run: ending, Records: []core.Record{record(1, "c1")}}), core.CodeNotWaiting)
	}
	k.commit(store.Step{Run: run, Records: []core.Record{record(1, "c1")}})
	run.State = core.RunAborted
	k.commit(store.Step{Run: run})
	if got := k.get(run.ID); got.State != core.RunAborted || got.JournalSeq != 1 {
		k.t.Errorf("%s, journal at %d", got.State, got.JournalSeq)
	}
}

func testExpire(k *kit) {
	run, a := k.waiting()
	k.waiting(func(a *core.Approval) { a.ExpiresAt = nil })
	if n, err := k.Store.Expire(k.ctx(), k.now()); n != 0 || err != nil {
		k.t.Errorf("%d, %v", n, err)
	}
	k.Clock.Advance(5 * time.Minute)
	if n, err := k.Store.Expire(k.ctx(), k.now()); n != 1 || err != nil {
		k.t.Errorf("%d, %v", n, err)
	}
	if got := k.getApproval(a.ID); got.State != core.ApprovalExpired || got.DecidedBy != nil {
		k.t.Errorf("%+v", got)
	}
	if got := k.get(run.ID); got.State != core.RunWaiting {
		k.t.Errorf("the run is %s", got.State)
	}
	k.Clock.Advance(24 * time.Hour)
	if got := k.get(run.ID); got.State != core.RunExpired || got.EndedAt == nil {
		k.t.Errorf("read from the clock, the run is %s", got.State)
	}
	if n, err := k.Store.Expire(k.ctx(), k.now()); n != 2 || err != nil {
		k.t.Errorf("%d, %v", n, err)
	}
	_, err := k.Store.Claim(k.ctx(), run.ID, "r9")
	k.wantCode(err, core.CodeWorkflowExpired)
	k.wantCode(k.Store.Commit(k.ctx(), store.Step{Run: run}), core.CodeFenced)
	if es := k.events(store.EventFilter{Types: []core.EventType{core.EventWorkflowExpired}}); len(es) != 2 {
		k.t.Errorf("%d events", len(es))
	}
}

func testExpireByWriter(k *kit) {
	_, a := k.waiting()
	k.Clock.Advance(5 * time.Minute)
	k.create()
	if got := k.getApproval(a.ID); got.State != core.ApprovalExpired {
		k.t.Errorf("the next writer left it %s", got.State)
	}
	if rows := k.audit(); len(rows) != 1 || rows[0].Outcome != core.ApprovalExpired {
		k.t.Errorf("audit: %+v", rows)
	}
}

func testClaim(k *kit) {
	me, err := k.Store.Register(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	run := k.create(func(s *store.Step) { s.Run.State = core.RunInterrupted })
	got, err := k.Store.Claim(k.ctx(), run.ID, me.ID())
	if err != nil || got.Runner != me.ID() || got.Epoch != 2 || got.State != core.RunInterrupted {
		k.t.Fatalf("%+v %v", got, err)
	}
	if got, err = k.Store.Claim(k.ctx(), run.ID, me.ID()); err != nil || got.Epoch != 3 {
		k.t.Errorf("claiming one's own: epoch %d, %v", got.Epoch, err)
	}
	rival := k.another()
	got, err = rival.Claim(k.ctx(), run.ID, "rival")
	k.wantCode(err, core.CodeFenced)
	if got.Runner != me.ID() || got.Epoch != 3 {
		k.t.Errorf("the run as it is: %+v", got)
	}
	if err := me.Close(); err != nil {
		k.t.Fatal(err)
	}
	if got, err = rival.Claim(k.ctx(), run.ID, "rival"); err != nil || got.Runner != "rival" || got.Epoch != 4 {
		k.t.Errorf("after its death: %+v %v", got, err)
	}
	done := k.create(func(s *store.Step) { s.Run.State = core.RunComplete })
	_, err = k.Store.Claim(k.ctx(), done.ID, "x")
	k.wantCode(err, core.CodeNotWaiting)
	failed := k.create(func(s *store.Step) { s.Run.State = core.RunFailed })
	if _, err = k.Store.Claim(k.ctx(), failed.ID, "x"); err != nil {
		k.t.Errorf("a failed run is claimed for a retry: %v", err)
	}
	ran := k.register()
	failed = k.create(func(s *store.Step) { s.Run.State, s.Run.Runner = core.RunFailed, ran.ID() })
	if got, err = rival.Claim(k.ctx(), failed.ID, "x"); err != nil || got.Runner != "x" || got.Epoch != 2 {
		k.t.Errorf("a failed run whose runner lives is claimed for a retry: %+v, %v", got, err)
	}
	if alive, err := rival.Alive(k.ctx(), ran.ID()); !alive || err != nil {
		k.t.Errorf("who ran it lives on: %v, %v", alive, err)
	}
}

func testClaimFences(k *kit) {
	old := k.create()
	taken, err := k.another().Claim(k.ctx(), old.ID, "r2")
	if err != nil {
		k.t.Fatal(err)
	}
	k.wantCode(k.Store.Commit(k.ctx(), store.Step{Run: old, Records: []core.Record{record(1, "c1")}}), core.CodeFenced)
	k.commit(store.Step{Run: taken, Records: []core.Record{record(1, "c1")}})
}

func testRunners(k *kit) {
	a, err := k.Store.Register(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	alive := func(s store.Store, id string, want bool) {
		k.t.Helper()
		if got, err := s.Alive(k.ctx(), id); got != want || err != nil {
			k.t.Errorf("alive: %v, %v", got, err)
		}
	}
	rival := k.another()
	alive(k.Store, a.ID(), true)
	alive(rival, a.ID(), true)
	alive(rival, "never-was", false)
	alive(rival, "../../etc/passwd", false)
	if err := a.Close(); err != nil {
		k.t.Error(err)
	}
	if err := a.Close(); err != nil {
		k.t.Errorf("closing twice: %v", err)
	}
	alive(k.Store, a.ID(), false)
	alive(rival, a.ID(), false)
}

// testDecideInterrupted: a run that was interrupted never expires, also after
// somebody has decided about it.
func testDecideInterrupted(k *kit) {
	var ap core.Approval
	run := k.create(func(s *store.Step) {
		s.Run.State = core.RunInterrupted
		ap = k.approval(s.Run.ID)
		s.Open = []core.Approval{ap}
	})
	d := core.Decision{ApprovalID: ap.ID, Approved: true, At: k.now(), By: core.Actor{Who: "me", Via: core.ViaCLI}}
	if _, err := k.Store.Decide(k.ctx(), d, store.Renewal{RunUntil: k.in(time.Hour)}); err != nil {
		k.t.Fatal(err)
	}
	if got := k.get(run.ID); got.ExpiresAt != nil {
		k.t.Errorf("it expires at %v", got.ExpiresAt)
	}
}
