// Package enginetest is the suite of what keeps runs, as far as the engine goes: whole runs of
// the engine upon any surroundings (Run, EveryCommit), and the world of fake tools that they
// need, which the engine's own tests use too. What else a store must do is store/storetest's.
package enginetest

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// Surroundings is what a run needs around it: what its engine asks of them, and what those do
// who own the engine, decide, or halt calls.
type Surroundings interface {
	engine.Store
	// Register makes this process one that runs.
	Register(ctx context.Context) (store.Runner, error)
	Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error)
	Halt(ctx context.Context, h core.Halt) (core.Halt, error)
	LetGo(ctx context.Context, r core.Resumption) (*core.Halt, error)
	// Watch is WatchOthers that tells of the commits of this process, too.
	Watch(ctx context.Context) (<-chan struct{}, error)
	Close() error
}

// Opener makes empty surroundings for a test, and returns what opens them as one more process.
type Opener func(t *testing.T) func() Surroundings

// Run runs the suite, EveryCommit left out.
func Run(t *testing.T, open Opener) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*World)
	}{
		{"TakeOver", testTakeOver},
		{"TakeOver_One", testTakeOverOne},
		{"TakeOver_Live", testTakeOverLive},
		{"Decide_Elsewhere", testDecideElsewhere},
		{"Decide_Nobody", testDecideNobody},
		{"Abort_Elsewhere", testAbortElsewhere},
		{"Halt", testHalt},
		{"Halt_BeforeSend", testHaltBeforeSend},
		{"Large", testLarge},
		{"Faulty", testFaulty},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(NewWorld(t, open(t)))
		})
	}
}
