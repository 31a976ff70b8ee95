package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// sized notes how many outcomes each commit holds. One run commits.
type sized struct {
	store.Store
	outcomes []int
}

func (s *sized) Commit(ctx context.Context, step store.Step) error {
	n := 0
	for _, r := range step.Records {
		if r.Kind == core.RecordSettled {
			n++
		}
	}
	s.outcomes = append(s.outcomes, n)
	return s.Store.Commit(ctx, step)
}

// Calls that have ended when the outcomes of others are committed share the next
// commit; calls that take their places are in a later one.
func TestRefill_SharesCommits(t *testing.T) {
	t.Parallel()
	const places, wide = 4, 1500
	b := newBench(t)
	b.Limits.Concurrency = places
	s := &sized{}
	b.wrap = func(st store.Store) store.Store { s.Store = st; return s }
	var tasks []core.TaskSpec
	for i := range wide {
		tasks = append(tasks, task(fmt.Sprint("t", i), "a:read"))
	}
	p := b.process()
	if got := b.Wait(b.dag(p, tasks, core.RunOptions{}), engine.Ended); got.Run.State != core.RunComplete {
		t.Fatal(got.Run.Error)
	}
	p.close()
	most, sum := 0, 0
	for _, n := range s.outcomes {
		most, sum = max(most, n), sum+n
	}
	if sum != wide {
		t.Errorf("%d outcomes, want %d", sum, wide)
	}
	if most < 2 {
		t.Error("no two outcomes share a commit")
	}
	if most > 2*places {
		t.Errorf("%d outcomes wait for one commit of a run with %d places", most, places)
	}
}
