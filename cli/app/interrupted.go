package app

import (
	"context"
	"errors"
	"time"

	"github.com/casys-ai/pml/core"
)

// lookTime bounds the look at the run that a command had to do with when a signal came.
const lookTime = time.Second

// leftBehind says what becomes of the run that a command had to do with when a signal
// ended it; nil when none did. It asks the backend, which must still be open.
func leftBehind(ctx context.Context, a *App, err error) *core.Error {
	var sig Signal
	if err == nil || !errors.As(context.Cause(ctx), &sig) {
		return nil
	}
	id := a.Progress.Run()
	var e *core.Error
	if errors.As(err, &e) && e.RunID != "" {
		id = e.RunID
		if e.Code == core.CodeCancelled && len(e.Next) > 0 { // the command knows better
			return e
		}
	}
	if id == "" {
		return core.Errorf(core.CodeCancelled, "interrupted")
	}
	if run := lookAt(ctx, a, id); run.Side == core.SideServer {
		return leftAtServer(run)
	}
	return core.Errorf(core.CodeCancelled, "interrupted; the run %s is kept and not aborted", id.Short()).
		WithRun(id).WithNext("pml", "continue", id.Short())
}

// lookAt reads a run after the command has ended; empty where that cannot be done at once.
func lookAt(ctx context.Context, a *App, id core.ID) core.Run {
	if a.backend == nil {
		return core.Run{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	w, err := a.backend.Workflow(ctx, id)
	if err != nil {
		return core.Run{}
	}
	return w.Run
}

// leftAtServer says of a run of the server how it stands: it does not need this command.
func leftAtServer(run core.Run) *core.Error {
	id := run.ID.Short()
	e := core.Errorf(core.CodeCancelled, "interrupted; the run %s is the server's and goes on there", id).WithNext("pml", "workflows", "watch", id)
	switch {
	case run.State.Final():
		e = core.Errorf(core.CodeCancelled, "interrupted; the run %s of the server is %s already", id, run.State).WithNext("pml", "workflows", "show", id)
	case run.State == core.RunWaiting && run.Halted == nil:
		e = core.Errorf(core.CodeCancelled, "interrupted; the run %s is the server's, where it waits for a decision and goes on by itself after it", id).WithNext("pml", "approve", id)
	}
	return e.WithRun(run.ID)
}
