package postgres_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/storetest"
)

// TestHalt_OverMeanwhile: what a step opens while a person lets calls go on has its time. It
// is neither held by the halt that the step has read nor missed by who ends that.
func TestHalt_OverMeanwhile(t *testing.T) {
	t.Parallel()
	address, clock := database(t), storetest.NewClock()
	s, other := open(t, address, clock), open(t, address, clock)
	run := newRun("r1")
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	h, err := s.Halt(t.Context(), core.Halt{By: core.Actor{Who: "ann", Via: core.ViaCLI}, At: clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	until := clock.Now().Add(time.Hour)
	ask := newApproval(run.ID)
	ask.ExpiresAt = &until
	run.State, run.ExpiresAt, run.Halted = core.RunWaiting, &until, &h
	err = s.StepBeside(t.Context(), store.Step{Run: run, Open: []core.Approval{ask}}, func() {
		if was, err := other.LetGo(t.Context(), core.Resumption{By: h.By, At: clock.Now(), Presence: core.PresenceTerminal}); err != nil || was == nil {
			t.Errorf("let go: %+v, %v", was, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Approvals(t.Context(), store.ApprovalFilter{ID: ask.ID})
	if err != nil || len(list) != 1 || list[0].ExpiresAt == nil || list[0].HeldMS != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if got, err := s.Run(t.Context(), run.ID); err != nil || got.State != core.RunInterrupted || got.Halted != nil {
		t.Errorf("%s, %+v, %v", got.State, got.Halted, err)
	}
}
