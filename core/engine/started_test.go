package engine_test

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// created tells of the commit that makes a run.
type created struct {
	store.Store
	then func()
}

func (c *created) Commit(ctx context.Context, s store.Step) error {
	err := c.Store.Commit(ctx, s)
	if s.Create && err == nil {
		c.then()
	}
	return err
}

// TestStart_StopsAfterTheCommit: a run that was committed is not refused because
// the engine stops: whoever started it would start it once more.
func TestStart_StopsAfterTheCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := &created{}
	b.wrap = func(st store.Store) store.Store {
		c.Store = st
		return c
	}
	p := b.process()
	c.then = func() {
		if err := p.Engine.Close(); err != nil {
			t.Error(err)
		}
	}
	h := b.dag(p, []core.TaskSpec{task("w", "a:write")}, core.RunOptions{})
	s := b.wait(h, engine.Ended)
	if !s.Stopped || s.Run.ID != h.ID || s.Run.State != core.RunRunning {
		t.Fatalf("%+v", s)
	}
	if called := b.host.called(); len(called) != 0 || p.Handle(h.ID) != nil {
		t.Fatalf("the engine that stops runs it: %v", called)
	}
	p.close()
	b.wrap = nil
	next := b.process()
	h2, err := next.Resume(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s := b.wait(h2, engine.Ended); s.Run.State != core.RunComplete || len(b.host.called()) != 1 {
		t.Errorf("%s, called %v", s.Run.State, b.host.called())
	}
}
