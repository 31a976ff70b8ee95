package bolt_test

import (
	"context"
	"fmt"
	"os"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/storetest"
)

// A run is created and ends in two commits; a commit by a runner that does not have it is refused.
func ExampleStore_Commit() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := bolt.Open(bolt.Options{Dir: dir, Clock: storetest.NewClock(), NewID: newID, Exclusive: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	runner, err := s.Register(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runner.Close()

	run := core.Run{ID: newID(), Kind: core.KindDAG, State: core.RunRunning, Runner: runner.ID(), Epoch: 1}
	err = s.Commit(ctx, store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1}})
	fmt.Println("created:", err)

	stranger := run
	stranger.Runner = "another"
	err = s.Commit(ctx, store.Step{Run: stranger})
	fmt.Println("by another runner:", core.CodeOf(err))

	run.State = core.RunComplete
	err = s.Commit(ctx, store.Step{Run: run})
	fmt.Println("ended:", err)
	// Output:
	// created: <nil>
	// by another runner: fenced
	// ended: <nil>
}
