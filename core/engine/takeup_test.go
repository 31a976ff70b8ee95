package engine_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// What was read of a run before it was taken up is used while nothing has happened to
// the run; after a replan its program is read again.
func TestTakeUp_WhatWasRead(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"AsItWas":   {`a:ask{"id":"one"}`, `a:read{"id":"as it was read"}`},
		"Replanned": {`a:ask{"id":"one"}`, `a:read{"id":"three"}`, `a:read{"id":"two"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("one", "a:ask"), task("two", "a:read", "one")}, core.RunOptions{})
			b.Wait(h, engine.Paused)
			p.close()
			p = b.process()
			run, err := p.st.Run(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			program, err := p.st.Program(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			program.Tasks[1].Arguments = json.RawMessage(`{"id":"as it was read"}`) // tells it from what is stored
			if name == "Replanned" {
				if err := addTask(t.Context(), p.st, h.ID, task("three", "a:read", "one")); err != nil {
					t.Fatal(err)
				}
			}
			if h, err = p.TakeUp(t.Context(), run, program); err != nil {
				t.Fatal(err)
			}
			b.Wait(h, engine.Paused)
			b.decide(p, h, core.ApproveTool, true, nil)
			b.Wait(h, engine.Ended)
			got := b.Host.Called()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
