package storetest

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// await fails when nothing comes. The limit is for a store that tells nothing,
// not a measure of speed.
func (k *kit) await(ch <-chan struct{}) bool {
	k.t.Helper()
	select {
	case _, ok := <-ch:
		return ok
	case <-time.After(2 * time.Minute):
		k.t.Fatal("nothing came")
		return false
	}
}

func testWatch(k *kit) {
	ctx, cancel := context.WithCancel(k.ctx())
	ch, err := k.Store.Watch(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	run := k.create()
	k.await(ch)
	for range 5 { // nobody looks: they become one
		k.commit(store.Step{Run: run})
	}
	k.await(ch)
	select {
	case <-ch:
		k.t.Error("wake-ups must coalesce")
	default:
	}
	cancel()
	for k.await(ch) {
	}
	k.commit(store.Step{Run: run})
}

// A runner is notified of what others do, whether here or in another process, and
// not of its own steps and claims.
func testWatchOthers(k *kit) {
	run, a := k.waiting()
	ch, err := k.Store.WatchOthers(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	all, err := k.Store.Watch(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	quiet := func(when string) {
		k.t.Helper()
		select {
		case <-ch:
			k.t.Errorf("it was woken %s", when)
		default:
		}
	}
	for range 20 {
		k.commit(store.Step{Run: run})
	}
	k.await(all)
	quiet("by its own commits")
	if _, err := k.Store.Claim(k.ctx(), k.create().ID, run.Runner); err != nil {
		k.t.Fatal(err)
	}
	k.await(all)
	quiet("by its own claim")
	if _, err := k.decide(a.ID, true, human); err != nil {
		k.t.Fatal(err)
	}
	k.await(ch)
	if k.Single {
		return
	}
	other := k.another()
	for range 20 {
		if err := other.Commit(k.ctx(), store.Step{Run: run}); err != nil {
			k.t.Fatal(err)
		}
		k.commit(store.Step{Run: run})
		k.await(ch)
	}
}

func testWatchReopened(k *kit) {
	run, a := k.waiting()
	ch, err := k.another().Watch(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.decide(a.ID, true, human); err != nil {
		k.t.Fatal(err)
	}
	k.await(ch)
	if got := k.get(run.ID); got.State != core.RunWaiting {
		k.t.Errorf("the run is %s", got.State)
	}
}

func testClose(k *kit) {
	run := k.create()
	ch, err := k.Store.Watch(k.ctx())
	if err != nil {
		k.t.Fatal(err)
	}
	for range 2 {
		if err := k.Store.Close(); err != nil {
			k.t.Fatal(err)
		}
	}
	for k.await(ch) {
	}
	k.wantCode(k.Store.Commit(k.ctx(), store.Step{Run: run}), core.CodeStoreFailed)
	again := k.fresh()
	if _, err := again.Run(k.ctx(), run.ID); err != nil {
		k.t.Error(err)
	}
	ctx, cancel := context.WithCancel(k.ctx())
	cancel()
	_, err = again.Run(ctx, run.ID)
	k.wantCode(err, core.CodeCancelled)
}
