package engine

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// maxLost is how often in a row a program is started over because its child was
// killed, when nothing was journaled in between.
const maxLost = 3

// lose takes up that the program's child was killed, or could not be started,
// through no fault of the program: it starts over in another child as soon as
// nothing is under way. After too many times in a row the run is left
// interrupted.
func (a *actor) lose(err *core.Error) error {
	if a.run.JournalSeq > a.lostAt {
		a.losses = 0
	}
	a.lostAt = a.run.JournalSeq
	a.losses++
	a.o.Logger.Warn("the child of a run was lost", "workflow_id", a.run.ID, "times", a.losses, "error", err)
	a.prog.close()
	if a.losses > maxLost {
		a.gaveUp = core.Errorf(core.CodeSandboxCrashed, "%w, %d times in a row; the run %s was interrupted, nothing is lost", err, a.losses, a.run.ID.Short()).
			WithRun(a.run.ID).WithNext("pml", "continue", a.run.ID.Short())
		a.beginStop()
		return nil
	}
	a.lost = true
	for _, c := range a.order { // a sleep goes on when the program has made it again
		if c.state == callSleeping {
			close(c.dropped)
		}
	}
	return nil
}

// mustStartOver reports whether the program is to start over now.
func (a *actor) mustStartOver() bool {
	return (a.behind || a.lost) && a.busy == 0 && !a.ending() && !a.stopping
}

// catchUp makes the program start over once nothing is under way: because its
// child was lost, or for a replan that was seen too late.
func (a *actor) catchUp(ctx context.Context) error {
	if !a.mustStartOver() {
		return nil
	}
	if err := a.commit(); err != nil {
		return err
	}
	var err error
	if a.lost {
		err = a.restart(ctx)
	}
	if err == nil {
		a.behind, a.lost = false, false
		err = a.look(ctx)
	}
	if err != nil && ctx.Err() != nil {
		a.beginStop() // it knows only half of where it stands
		return nil
	}
	return err
}
