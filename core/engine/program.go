package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
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
		p := newCodeProgram(a.o.Sandbox, *a.run, a.program, a.limits)
		if len(a.program.Results) > 0 {
			p.results = a.earlierResults
		}
		a.driver.program = p
	case core.KindDAG:
		p, err := newDAGProgram(a.program)
		if err != nil {
			return err
		}
		a.driver.program = p
		a.run.TotalLayers = len(p.graph.Layers())
	case core.KindAgent:
		p, err := newAgentProgram(a.run.ID, a.program, a.o.Faults)
		if err != nil {
			return err
		}
		a.driver.program = p
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
	// computed are the arguments that the script computes there, as far as analysis knows.
	computed []string
	// after is, of a script, the sequence number of the delivery that led to it.
	after int64
	// due is set for a sleep.
	due time.Time
	// prompt is what a model is asked; the arguments say only which one, and how long
	// that is.
	prompt *prompt
	// question is what a person is asked before the call is made; nil for nothing.
	question *Ask
	// skip settles the call as skipped, with an error when a dependency failed;
	// fail settles it as failed. Neither is sent.
	skip   bool
	reason *core.Error
}

// prompt is a request to a model.
type prompt struct {
	name string // its name in the configuration
	model.Request
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

// The plan of a DAG says nothing that its tasks do not: it is computed when it is
// needed, and not kept a second time with each run.

// kept is a program as the store gets it.
func kept(p core.Program) core.Program {
	if p.Kind == core.KindDAG && len(p.Tasks) > 0 {
		p.Plan = nil
	}
	return p
}

// Planned is a program that was read from a store, with its plan. The error is
// that of a DAG that cannot be built any more, a *core.Error.
func Planned(p core.Program) (core.Program, error) {
	if p.Plan != nil || p.Kind != core.KindDAG || len(p.Tasks) == 0 {
		return p, nil
	}
	g, err := Graph(p)
	if err != nil {
		return p, err
	}
	p.Plan = g.Plan()
	return p, nil
}
