package engine

import (
	"context"
	"log/slog"

	"github.com/casys-ai/pml/core"
)

// maxLost is how often in a row a program is started over because its child was
// killed, when nothing was journaled in between.
const maxLost = 3

// driver holds the program of a run, and the sandbox child in which a script runs.
type driver struct {
	run    *core.Run
	calls  *callTable
	stop   *stopper
	logger *slog.Logger

	program program
	started bool // the program has begun
	last    turn // its newest turn
	asleep  bool // the child was put away while the run waits, until it is needed
	// lost is set when the child is gone: the program is to start over. losses counts
	// how often that was in a row, without a record in between; lostAt is where the
	// journal ended then.
	lost   bool
	losses int
	lostAt int64
}

// reset forgets what the program did, so that it can start over.
func (d *driver) reset() { d.started, d.asleep, d.last = false, false, turn{} }

// rest puts the child away.
func (d *driver) rest() {
	d.program.rest()
	d.asleep = true
}

// lose takes up that the program's child was killed, or could not be started,
// through no fault of the program: it starts over in another child as soon as
// nothing is under way. After too many times in a row the run is left
// interrupted.
func (d *driver) lose(err *core.Error) {
	if d.run.JournalSeq > d.lostAt {
		d.losses = 0
	}
	d.lostAt = d.run.JournalSeq
	d.losses++
	d.logger.Warn("the child of a run was lost", "workflow_id", d.run.ID, "times", d.losses, "error", err)
	d.program.close()
	if d.losses > maxLost {
		d.stop.gaveUp = core.Errorf(core.CodeSandboxCrashed, "%w, %d times in a row; the run %s was interrupted, nothing is lost", err, d.losses, d.run.ID.Short()).
			WithRun(d.run.ID).WithNext("pml", "continue", d.run.ID.Short())
		d.stop.begin()
		return
	}
	d.lost = true
	for _, c := range d.calls.order { // a sleep goes on when the program has made it again
		if c.state == callSleeping {
			close(c.dropped)
		}
	}
}

// mustStartOver reports whether the program is to start over now.
func (a *actor) mustStartOver() bool {
	return (a.behind || a.driver.lost) && a.background.busy == 0 && !a.stop.ending() && !a.stop.stopping
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
	if a.driver.lost {
		err = a.restart(ctx)
	}
	if err == nil {
		a.behind, a.driver.lost = false, false
		err = a.look(ctx)
	}
	if err != nil && ctx.Err() != nil {
		a.stop.begin() // it knows only half of where it stands
		return nil
	}
	return err
}
