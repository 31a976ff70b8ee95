package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

func (k *kit) halt(s store.Store) core.Halt {
	k.t.Helper()
	h, err := s.Halt(k.ctx(), core.Halt{By: human, At: k.now(), Reason: "enough"})
	if err != nil {
		k.t.Fatal(err)
	}
	return h
}

func (k *kit) resume(s store.Store) *core.Halt {
	k.t.Helper()
	h, err := s.LetGo(k.ctx(), core.Resumption{By: human, At: k.now(), Presence: core.PresenceTerminal})
	if err != nil {
		k.t.Fatal(err)
	}
	return h
}

func (k *kit) wantHalted(s store.Store, want bool) {
	k.t.Helper()
	if h, err := s.Halted(k.ctx()); err != nil || (h != nil) != want {
		k.t.Fatalf("halted: %+v, %v; want %v", h, err, want)
	}
}

func started(run *core.Run, call string) core.Record {
	run.JournalSeq++
	return core.Record{Seq: run.JournalSeq, Kind: core.RecordStarted, CallID: call, Tool: "fs:write", At: start}
}

// testHalt: no step begins a call, whoever has halted them, and a halt outlives the
// process that made it.
func testHalt(k *kit) {
	run := k.create()
	k.wantHalted(k.Store, false)
	if was := k.resume(k.Store); was != nil || len(k.audit()) != 0 {
		k.t.Fatalf("nothing was halted: %+v", was)
	}
	h := k.halt(k.another())
	k.wantHalted(k.Store, true)
	k.Clock.Advance(time.Second)
	if again := k.halt(k.Store); !again.At.Equal(h.At) || again.Reason != "enough" || again.By.Who != "ann" {
		k.t.Errorf("an earlier halt stays: %+v", again)
	}
	// What begins a call is refused whole, also with the run itself.
	begun := run
	step := store.Step{Run: begun, Records: []core.Record{started(&begun, "c1")}}
	step.Run = begun
	k.wantCode(k.Store.Commit(k.ctx(), step), core.CodeHalted)
	fresh := k.run()
	create := store.Step{Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}, Records: []core.Record{started(&fresh, "c1")}}
	create.Run = fresh
	k.wantCode(k.Store.Commit(k.ctx(), create), core.CodeHalted)
	if got := k.get(run.ID); got.JournalSeq != 0 {
		k.t.Errorf("the refused step left %d records", got.JournalSeq)
	}
	// Outcomes are kept, and so is a call that the same step takes back.
	ended := run
	a, b := started(&ended, "c1"), started(&ended, "c1")
	b.Kind = core.RecordVoid
	ended.JournalSeq++
	outcome := record(ended.JournalSeq, "c0")
	k.commit(store.Step{Run: ended, Records: []core.Record{a, b, outcome}})
	k.create()
	k.wantHalted(k.fresh(), true)
	if was := k.resume(k.another()); was == nil || was.Reason != "enough" {
		k.t.Errorf("resumed %+v", was)
	}
	k.wantHalted(k.Store, false)
	go1 := k.get(run.ID)
	c := started(&go1, "c2")
	k.commit(store.Step{Run: go1, Records: []core.Record{c}})
	rows := k.audit()
	if len(rows) != 2 || rows[0].By.Who != "ann" || !strings.Contains(rows[0].Reason, "enough") || rows[1].Outcome != core.ApprovalApproved || rows[1].Asked != core.PresenceTerminal {
		k.t.Errorf("audit: %+v", rows)
	}
}

// testHaltPerson: only a person lets calls go on, with the PIN where one is set.
func testHaltPerson(k *kit) {
	k.halt(k.Store)
	k.setPin(k.Store, "hash")
	for _, c := range []struct {
		r    core.Resumption
		want core.Code
	}{
		{core.Resumption{By: human}, core.CodeAwaitingHuman},
		{core.Resumption{By: human, Presence: core.PresenceNobody}, core.CodeAwaitingHuman},
		{core.Resumption{By: core.Actor{Via: core.ViaMCP}, Presence: core.PresencePin, Proved: "hash"}, core.CodeAwaitingHuman},
		{core.Resumption{By: human, Presence: core.PresenceTerminal}, core.CodeAuth},
		{core.Resumption{By: human, Presence: core.PresencePin, Proved: "other"}, core.CodeAuth},
	} {
		_, err := k.Store.LetGo(k.ctx(), c.r)
		k.wantCode(err, c.want)
	}
	k.wantHalted(k.Store, true)
	unproved := func(is bool) {
		if err := k.Store.ChangeGuard(k.ctx(), func(g *core.Guard) error { g.Unproved = is; return nil }); err != nil {
			k.t.Fatal(err)
		}
	}
	unproved(true) // the PIN of somebody who has set it alone
	_, err := k.Store.LetGo(k.ctx(), core.Resumption{By: human, Presence: core.PresencePin, Proved: "hash"})
	k.wantCode(err, core.CodeAwaitingHuman)
	unproved(false)
	if was, err := k.Store.LetGo(k.ctx(), core.Resumption{By: human, At: k.now(), Presence: core.PresencePin, Proved: "hash"}); err != nil || was == nil {
		k.t.Errorf("with the PIN: %+v, %v", was, err)
	}
	if n := len(k.audit()); n != 2 {
		k.t.Errorf("%d audit rows", n)
	}
}

// testHaltTime: no time passes for what waits, neither for what was there nor for what
// came meanwhile.
func testHaltTime(k *kit) {
	run, a := k.waiting() // 5 minutes, the run a day
	_, gone := k.waiting()
	k.Clock.Advance(4 * time.Minute)
	k.halt(k.Store)
	late, b := k.waiting()
	k.Clock.Advance(48 * time.Hour)
	if n, err := k.Store.Expire(k.ctx(), k.now()); n != 0 || err != nil {
		k.t.Errorf("%d expired while calls were halted, %v", n, err)
	}
	for _, id := range []core.ID{a.ID, b.ID} {
		if got := k.getApproval(id); got.StateAt(k.now()) != core.ApprovalOpen || got.HeldMS == 0 {
			k.t.Errorf("%s while halted: %s, held %d", id, got.StateAt(k.now()), got.HeldMS)
		}
	}
	if got := k.get(run.ID); got.State != core.RunWaiting {
		k.t.Errorf("the run is %s", got.State)
	}
	if got, err := k.decide(gone.ID, true, human); err != nil || got.State != core.ApprovalApproved {
		k.t.Errorf("decided while halted: %v %s", err, got.State)
	}
	k.resume(k.another())
	for _, c := range []struct {
		id        core.ID
		left, run time.Duration
		of        core.ID
	}{{a.ID, time.Minute, 24*time.Hour - 4*time.Minute, run.ID}, {b.ID, 5 * time.Minute, 24 * time.Hour, late.ID}} {
		got, of := k.getApproval(c.id), k.get(c.of)
		if got.ExpiresAt == nil || got.ExpiresAt.Sub(k.now()) != c.left || got.HeldMS != 0 {
			k.t.Errorf("%s has until %v, want %v from %v on, held %d", c.id, got.ExpiresAt, c.left, k.now(), got.HeldMS)
		}
		if of.ExpiresAt == nil || of.ExpiresAt.Sub(k.now()) != c.run {
			k.t.Errorf("the run %s has until %v, want %v from %v on", c.of, of.ExpiresAt, c.run, k.now())
		}
	}
	k.Clock.Advance(2 * time.Minute)
	if n, err := k.Store.Expire(k.ctx(), k.now()); n != 1 || err != nil {
		k.t.Errorf("%d expired after it, %v; want 1", n, err)
	}
}

// testHaltExtend: what people give more time while calls are halted has that, and no less,
// when they go on; and so has its run.
func testHaltExtend(k *kit) {
	never, a := k.waiting() // 5 minutes, the run a day
	long, b := k.waiting()
	decided, c := k.waiting()
	k.halt(k.Store)
	for id, until := range map[core.ID]time.Time{a.ID: {}, b.ID: k.now().Add(48 * time.Hour)} {
		if _, err := k.Store.Extend(k.ctx(), id, until); err != nil {
			k.t.Fatal(err)
		}
	}
	if _, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: c.ID, Approved: true, By: human, At: k.now()}, store.Renewal{}); err != nil {
		k.t.Fatal(err)
	}
	k.Clock.Advance(72 * time.Hour)
	k.resume(k.Store)
	if got, run := k.getApproval(a.ID), k.get(never.ID); got.ExpiresAt != nil || run.ExpiresAt != nil {
		k.t.Errorf("what never expires has until %v, its run until %v", got.ExpiresAt, run.ExpiresAt)
	}
	got, run, end := k.getApproval(b.ID), k.get(long.ID), k.now().Add(48*time.Hour)
	if got.ExpiresAt == nil || !got.ExpiresAt.Equal(end) || run.ExpiresAt == nil || run.ExpiresAt.Before(end) {
		k.t.Errorf("extended to %v, its run to %v; want %v", got.ExpiresAt, run.ExpiresAt, end)
	}
	if run := k.get(decided.ID); run.ExpiresAt != nil {
		k.t.Errorf("a run that was given no end has until %v", run.ExpiresAt)
	}
}

// testHaltRun: a run that a halt has stopped has something to do when calls go on, and
// so has one whose runner learns of that too late.
func testHaltRun(k *kit) {
	run := k.create()
	late := k.create()
	h := k.halt(k.Store)
	waits := func(r core.Run) store.Step {
		r.State, r.Halted, r.ExpiresAt = core.RunWaiting, &h, k.in(time.Hour)
		return store.Step{Run: r}
	}
	k.commit(waits(run))
	if got := k.get(run.ID); got.State != core.RunWaiting || got.Halted == nil || got.ExpiresAt != nil {
		k.t.Errorf("halted: %+v", got)
	}
	if ids, err := k.Store.Orphans(k.ctx(), "r1", 0); err != nil || len(ids) != 1 || ids[0] != late.ID {
		k.t.Errorf("to do while halted: %v, %v", ids, err)
	}
	k.resume(k.Store)
	k.commit(waits(late))
	for _, id := range []core.ID{run.ID, late.ID} {
		if got := k.get(id); got.State != core.RunInterrupted || got.Halted != nil || got.ExpiresAt != nil {
			k.t.Errorf("after it %s is %s, %+v, until %v", id, got.State, got.Halted, got.ExpiresAt)
		}
	}
	if ids, err := k.Store.Orphans(k.ctx(), "r1", 0); err != nil || len(ids) != 2 {
		k.t.Errorf("to do after it: %v, %v", ids, err)
	}
}

// testHaltStorm: of steps that begin calls beside a halt none is kept once it is there.
func testHaltStorm(k *kit) {
	stores := []store.Store{k.Store, k.another()}
	var runs []core.Run
	for range 8 {
		runs = append(runs, k.create())
	}
	var all sync.WaitGroup
	done := make(chan struct{})
	for i, run := range runs {
		all.Go(func() {
			for {
				r := started(&run, "c")
				err := stores[i%2].Commit(k.ctx(), store.Step{Run: run, Records: []core.Record{r}})
				select {
				case <-done:
					if core.CodeOf(err) != core.CodeHalted {
						continue // it was sent before
					}
				default:
					if err == nil {
						continue
					}
				}
				if core.CodeOf(err) != core.CodeHalted {
					k.t.Errorf("%v", err)
				}
				return
			}
		})
	}
	k.halt(stores[1])
	seqs := map[core.ID]int64{}
	close(done)
	all.Wait()
	for _, r := range runs {
		seqs[r.ID] = k.get(r.ID).JournalSeq
		r = k.get(r.ID)
		k.wantCode(k.Store.Commit(k.ctx(), store.Step{Run: r, Records: []core.Record{started(&r, "d")}}), core.CodeHalted)
	}
}
