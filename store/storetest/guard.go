package storetest

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// setPin makes approvals need a PIN.
func (k *kit) setPin(s store.Store, hash string) {
	k.t.Helper()
	if err := s.ChangeGuard(k.ctx(), func(g *core.Guard) error { g.Pin = hash; return nil }); err != nil {
		k.t.Fatal(err)
	}
}

// testGuard sets a PIN in one process: what another one has read before does not
// matter, and neither does what that one believes of the PIN.
func testGuard(k *kit) {
	run, a := k.waiting()
	_, second := k.waiting()
	_, third := k.waiting()
	if g, err := k.Store.Guard(k.ctx()); err != nil || !cmp.Equal(g, core.Guard{}) {
		k.t.Fatalf("%+v, %v", g, err)
	}
	decider := k.Store
	k.setPin(k.another(), "hash")
	for _, proved := range []string{"", "other"} {
		_, err := decider.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(), Proved: proved, Presence: core.PresenceTerminal}, store.Renewal{})
		k.wantCode(err, core.CodeAuth)
	}
	list, err := decider.Approvals(k.ctx(), store.ApprovalFilter{RunID: run.ID, Now: k.now()})
	rows, err2 := decider.Audit(k.ctx(), store.AuditFilter{})
	if err != nil || err2 != nil || list[0].State != core.ApprovalOpen || len(rows) != 0 {
		k.t.Fatalf("%v %v: a refused decision left %s and %d rows", err, err2, list[0].State, len(rows))
	}
	yes := core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(), Proved: "hash"}
	if got, err := decider.Decide(k.ctx(), yes, store.Renewal{}); err != nil || got.State != core.ApprovalApproved {
		k.t.Fatalf("with the PIN: %v %s", err, got.State)
	}
	yes.Proved = ""
	if _, err := decider.Decide(k.ctx(), yes, store.Renewal{}); err != nil {
		k.t.Errorf("what was decided already needs none: %v", err)
	}
	if got, err := decider.Decide(k.ctx(), core.Decision{ApprovalID: second.ID, By: human, At: k.now()}, store.Renewal{}); err != nil || got.State != core.ApprovalDenied {
		k.t.Errorf("to deny needs none: %v %s", err, got.State)
	}
	// A PIN that nobody has typed at a terminal shows no person.
	if err := decider.ChangeGuard(k.ctx(), func(g *core.Guard) error { g.Unproved = true; return nil }); err != nil {
		k.t.Fatal(err)
	}
	if g, err := decider.Guard(k.ctx()); err != nil || !g.Unproved || g.Pin != "hash" {
		k.t.Errorf("%v %+v", err, g)
	}
	// One that was proved before it was taken away, or given another, is the old one.
	k.setPin(decider, "")
	if _, err := decider.Decide(k.ctx(), core.Decision{ApprovalID: third.ID, Approved: true, By: human, At: k.now(), Proved: "hash"}, store.Renewal{}); err != nil {
		k.t.Errorf("none is needed any more: %v", err)
	}
}

// testGuardHuman: a question that was asked where people decide stays one.
func testGuardHuman(k *kit) {
	run, a := k.waiting(func(a *core.Approval) { a.Human = true })
	if got := k.getApproval(a.ID); !got.Human {
		k.t.Fatal("it is not kept that people decide")
	}
	for _, approved := range []bool{true, false} {
		_, err := k.decide(a.ID, approved, human)
		k.wantCode(err, core.CodeAwaitingHuman)
	}
	if len(k.audit()) != 0 || k.getApproval(a.ID).State != core.ApprovalOpen {
		k.t.Fatal("a refused decision changed something")
	}
	k.Clock.Advance(2 * time.Hour)
	again, err := k.Store.Renew(k.ctx(), a.ID, k.id(), k.now(), k.in(time.Hour), human)
	if err != nil || !again.Human {
		k.t.Fatalf("asked again: %v %+v", err, again)
	}
	unproved := func(is bool) {
		if err := k.Store.ChangeGuard(k.ctx(), func(g *core.Guard) error { g.Pin, g.Unproved = "", is; return nil }); err != nil {
			k.t.Fatal(err)
		}
	}
	unproved(true)
	d := core.Decision{ApprovalID: again.ID, Approved: true, By: human, At: k.now(), Presence: core.PresencePin}
	_, err = k.Store.Decide(k.ctx(), d, store.Renewal{})
	k.wantCode(err, core.CodeAwaitingHuman)
	unproved(false)
	d.Presence = core.PresenceTerminal
	if got, err := k.Store.Decide(k.ctx(), d, store.Renewal{}); err != nil || got.State != core.ApprovalApproved {
		k.t.Errorf("a person: %v %s of %s", err, got.State, run.ID)
	}
}

// testGuardOneOfMany counts from two processes at once: nothing gets lost, and an
// error changes nothing.
func testGuardOneOfMany(k *kit) {
	stores := []store.Store{k.Store, k.another()}
	var all sync.WaitGroup
	const each = 10
	for i := range 2 * each {
		all.Go(func() {
			err := stores[i%len(stores)].ChangeGuard(k.ctx(), func(g *core.Guard) error {
				t := g.Tries["ann"]
				g.Tries = map[string]core.PinTries{"ann": {Wrong: t.Wrong + 1, Last: k.now()}, strconv.Itoa(i): {}}
				return nil
			})
			if err != nil {
				k.t.Error(err)
			}
		})
	}
	all.Wait()
	no := errors.New("no")
	if err := k.Store.ChangeGuard(k.ctx(), func(g *core.Guard) error { g.Pin = "x"; return no }); err == nil {
		k.t.Error("no error")
	}
	g, err := stores[len(stores)-1].Guard(k.ctx())
	if err != nil || g.Pin != "" || g.Tries["ann"].Wrong != 2*each || !g.Tries["ann"].Last.Equal(k.now()) {
		k.t.Errorf("%v %+v", err, g)
	}
}

// testGuardPause: to pass a pause between two layers decides nothing, so that it needs
// neither a PIN nor a person; a layer that the hil option asks about is a decision.
func testGuardPause(k *kit) {
	k.setPin(k.Store, "hash")
	for name, c := range map[string]struct {
		options core.RunOptions
		change  func(*core.Approval)
		want    core.Code
	}{
		"Pause":       {core.RunOptions{PerLayer: true}, func(*core.Approval) {}, ""},
		"PauseHuman":  {core.RunOptions{PerLayer: true}, func(a *core.Approval) { a.Human = true }, ""},
		"OnlyReads":   {core.RunOptions{PerLayer: true, HIL: core.HILSideEffects}, func(a *core.Approval) { a.Risk = core.RiskLow }, ""},
		"SideEffects": {core.RunOptions{PerLayer: true, HIL: core.HILSideEffects}, func(*core.Approval) {}, core.CodeAuth},
		"Always":      {core.RunOptions{PerLayer: true, HIL: core.HILAlways}, func(*core.Approval) {}, core.CodeAuth},
		"NoPause":     {core.RunOptions{}, func(*core.Approval) {}, core.CodeAuth},
		"Tool":        {core.RunOptions{PerLayer: true}, func(a *core.Approval) { a.Type = core.ApproveTool }, core.CodeAuth},
	} {
		var a core.Approval
		k.create(func(s *store.Step) {
			a = k.approval(s.Run.ID)
			a.Type, a.ExpiresAt = core.ApproveLayer, k.in(24*time.Hour)
			c.change(&a)
			s.Run.State, s.Run.ExpiresAt, s.Run.Options = core.RunWaiting, k.in(24*time.Hour), c.options
			s.Open = []core.Approval{a}
		})
		_, err := k.decide(a.ID, true, human)
		if got := core.CodeOf(err); got != c.want {
			k.t.Errorf("%s: code %q, want %q (%v)", name, got, c.want, err)
		}
	}
}
