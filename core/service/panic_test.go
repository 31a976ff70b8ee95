package service_test

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/store"
)

// frail is a store that panics when reads are kept, and when it is asked to say
// what others change.
type frail struct {
	store.Store

	asked chan string
}

func (f frail) Commit(ctx context.Context, step store.Step) error {
	if step.Run.Kind == "reads" {
		defer func() { f.asked <- "reads" }()
		panic("the store")
	}
	return f.Store.Commit(ctx, step)
}

func (f frail) WatchOthers(context.Context) (<-chan struct{}, error) {
	defer func() { f.asked <- "others" }()
	panic("the store")
}

// What a call through leaves to be done by a timer may panic: the process lives,
// and the call is answered.
func TestPanic_BesideCallsThrough(t *testing.T) {
	t.Parallel()
	m, u := exposing(t, exposeAll)
	p := m.server()
	p.trusting()
	f := frail{p.m.Store, make(chan string, 10)}
	p.m.Store = f
	if out, err := p.through("up:read", `{}`); err != nil {
		t.Fatalf("%s %v", out.Raw, err)
	}
	if what := <-f.asked; what != "reads" {
		t.Fatal(what)
	}
	watched := func() {
		if what := <-f.asked; what != "others" {
			t.Error(what)
		}
	}
	u.during.Store(&watched)
	if out, err := p.through("up:write", `{}`); err != nil {
		t.Errorf("%s %v", out.Raw, err)
	}
}
