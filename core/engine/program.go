package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// program is what a run executes. It is not safe for concurrent use; the run's
// actor is its only user.
type program interface {
	// start begins anew and returns the first calls.
	start(ctx context.Context) (turn, error)
	// deliver hands over outcomes in order and returns the calls that they led
	// to.
	deliver(ctx context.Context, list []delivery) (turn, error)
	// rest frees memory while there is nothing to deliver; the next delivery costs more.
	rest()
	// close frees what the program holds; it can be started again.
	close()
}

// makeProgram makes the program of a run as it is now, with its replans.
func (a *actor) makeProgram() error {
	switch a.run.Kind {
	case core.KindCode:
		a.driver.program = newCodeProgram(a.o.Sandbox, *a.run, a.program, a.limits)
	case core.KindDAG:
		p, err := newDAGProgram(a.program)
		if err != nil {
			return err
		}
		a.driver.program = p
		a.run.TotalLayers = len(p.graph.Layers())
	default:
		return core.Errorf(core.CodeInvalidArguments, "a run of kind %q is not known to this pml; use a newer one", core.Visible(string(a.run.Kind), 60, false))
	}
	return nil
}

// turn is what a program did since it was last asked.
type turn struct {
	calls []issued
	logs  []sandbox.Log
	// cancelled are the ids of sleeps that the script took back.
	cancelled []string
	done      bool
	// result and err are set once done: err is why the program itself failed.
	result json.RawMessage
	err    *core.Error
	// unhandled is a rejection that nothing has handled so far.
	unhandled *core.Error
}

// issued is a call as the program makes it.
type issued struct {
	id    string
	tool  string
	args  json.RawMessage
	layer int
	spec  *core.TaskSpec // of a DAG, else nil
	at    core.Position  // in the user's source
	// after is, of a script, the sequence number of the delivery that led to it.
	after int64
	// due is set for a sleep.
	due time.Time
	// skip settles the call as skipped, with an error when a dependency failed;
	// fail settles it as failed. Neither is sent.
	skip   bool
	reason *core.Error
}

// delivery is an outcome on its way to the program.
type delivery struct {
	seq     int64
	call    *call
	outcome core.Outcome
	value   json.RawMessage
	err     *core.Error
	at      time.Time
}
