package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// shapeOf is an approval of the call c1 of a loop, and bounds of so many calls about it.
func (k *kit) shapeOf(most int) (core.Run, core.Approval, core.Shape) {
	k.t.Helper()
	run, a := k.waiting(func(a *core.Approval) {
		a.Place, a.CallIDs, a.Risk = core.Position{Line: 3, Column: 5}, []string{"c1"}, core.RiskMedium
		a.Context = json.RawMessage(`{"arguments":{"n":1,"team":"ENG"}}`)
	})
	return run, a, core.Shape{Tool: a.Tool, Place: a.Place, Max: most, Risk: a.Risk, Fields: []core.Bound{
		{Name: "n", Types: []string{"number"}, Size: 4000}, {Name: "team", Is: json.RawMessage(`"ENG"`)},
	}}
}

// testDecideShape: the bounds of several calls are kept with the decision and named by its row
// of the audit log, and refused where they are wider than the question, or an agent's.
func testDecideShape(k *kit) {
	_, a, s := k.shapeOf(3)
	decide := func(by core.Actor, change func(*core.Shape)) (core.Approval, error) {
		with := s
		change(&with)
		return k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: by, At: k.now(), ExpectDigest: a.Digest, Answer: &core.Answer{Shape: &with}}, store.Renewal{})
	}
	none := func(*core.Shape) {}
	_, err := decide(core.Actor{Who: "claude", Via: core.ViaMCP}, none)
	k.wantCode(err, core.CodePermissionDenied)
	for _, change := range []func(*core.Shape){
		func(s *core.Shape) { s.Place.Line = 4 }, func(s *core.Shape) { s.Max = 0 }, func(s *core.Shape) { s.Risk = core.RiskHigh },
		func(s *core.Shape) { s.Fields = s.Fields[:1] }, func(s *core.Shape) { s.Leaves = true },
	} {
		_, err := decide(human, change)
		k.wantCode(err, core.CodeInvalidArguments)
	}
	if got := k.getApproval(a.ID); got.State != core.ApprovalOpen {
		k.t.Fatalf("a refused decision left it %s", got.State)
	}
	for range 2 { // the same again is no other
		if _, err := decide(human, none); err != nil {
			k.t.Fatal(err)
		}
	}
	_, err = decide(human, func(s *core.Shape) { s.Max = 4 })
	k.wantCode(err, core.CodeAlreadyDecided)
	got := k.getApproval(a.ID)
	if diff := cmp.Diff(&s, got.Shape()); diff != "" {
		k.t.Error(diff)
	}
	want, err := s.Digest()
	if err != nil {
		k.t.Fatal(err)
	}
	rows, err := k.Store.Audit(k.ctx(), store.AuditFilter{})
	if err != nil || len(rows) == 0 || rows[len(rows)-1].Shape != want || rows[len(rows)-1].CallID != "c1" {
		k.t.Errorf("%v %+v", err, rows)
	}
}

// testUsedWithin: a runner lets no more calls on than the bounds are for, none by other
// bounds, and none after their end; a call counts once. A refused step changes nothing.
func testUsedWithin(k *kit) {
	run, a, s := k.shapeOf(3)
	until := k.now().Add(time.Minute)
	s.Until = &until
	digest, err := s.Digest()
	if err != nil {
		k.t.Fatal(err)
	}
	use := func(want core.Code, uses ...store.Use) {
		k.t.Helper()
		run.UpdatedAt = k.now()
		k.wantCode(k.Store.Commit(k.ctx(), store.Step{Run: run, Used: uses}), want)
	}
	within := func(n int) store.Use {
		return store.Use{Approval: a.ID, CallID: fmt.Sprintf("c%d", n), Shape: digest}
	}
	use(core.CodeAlreadyDecided, within(2)) // nobody has said yes
	if _, err := k.Store.Decide(k.ctx(), core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: k.now(), Answer: &core.Answer{Shape: &s}}, store.Renewal{}); err != nil {
		k.t.Fatal(err)
	}
	use("", store.Use{Approval: a.ID, CallID: "c1"}, within(2), within(2), within(1))
	use(core.CodeAlreadyDecided, store.Use{Approval: a.ID, CallID: "c3", Shape: "sha256:other"})
	use(core.CodeAlreadyDecided, within(3), within(4))
	if got := k.getApproval(a.ID).CallIDs; !cmp.Equal(got, []string{"c1", "c2"}) {
		k.t.Errorf("a refused step permitted %v", got)
	}
	k.Clock.Advance(time.Minute)
	use(core.CodeAlreadyDecided, within(3))
	use("", within(2)) // permitted before
	k.Clock.Advance(-time.Second)
	use("", within(3))
	use(core.CodeAlreadyDecided, within(4))
	use(core.CodeAlreadyDecided, store.Use{Approval: a.ID, CallID: "c4"})
	if got := k.getApproval(a.ID).CallIDs; !cmp.Equal(got, []string{"c1", "c2", "c3"}) {
		k.t.Errorf("permitted %v", got)
	}
}
