package engine

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// mayPark reports whether the run can leave memory: it only waits for people,
// and nothing of it runs.
func (a *actor) mayPark() bool {
	return a.limits.ParkAfter > 0 && a.run.State == core.RunWaiting && !a.budget.parkedSince.IsZero() && a.background.busy == 0 &&
		!a.stop.stopping && !a.stop.ending() && !a.driver.lost && !a.behind
}

// mayDoze reports whether the run holds a child that it does not need while
// people decide.
func (a *actor) mayDoze() bool {
	return a.run.Kind == core.KindCode && a.driver.started && !a.driver.asleep && !a.stop.stopping && !a.budget.parkedSince.IsZero()
}

// goAway ends the actor of a waiting run; the run stays with its runner.
func (a *actor) goAway() error {
	if len(a.batch.step.Events) == 0 {
		return nil
	}
	return a.flush()
}

// rehome takes the run over to the runner that this process is now: its former
// standing was lost. Somebody else may have been faster: core.CodeFenced.
func (a *actor) rehome(ctx context.Context) error {
	runner := a.eng.Runner()
	if a.run.Runner == runner {
		return nil
	}
	var claimed core.Run
	err := a.store.try(ctx, func() (err error) {
		claimed, err = a.o.Store.Claim(ctx, a.run.ID, runner)
		return err
	})
	if err != nil {
		return err
	}
	a.run.Runner, a.run.Epoch = claimed.Runner, claimed.Epoch
	return nil
}
