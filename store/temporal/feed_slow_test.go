package temporal_test

import (
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// TestFeed_Slow: a run whose workflow nobody answers for, as when the process has died that had it, keeps nobody from the events of
// the others.
func TestFeed_Slow(t *testing.T) {
	t.Parallel()
	opts := options(t)
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	run := newRun(time.Now())
	if err := s.Commit(t.Context(), begun(run)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Events(t.Context(), store.EventFilter{}); err != nil {
		t.Fatal(err)
	}
	c, err := client.DialContext(t.Context(), client.Options{HostPort: opts.Address, Namespace: opts.Namespace, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mute := enginetest.NewID()
	w := client.StartWorkflowOptions{ID: opts.Name + "/run/" + string(mute), TaskQueue: "nobody-" + opts.Name}
	if _, err := c.ExecuteWorkflow(t.Context(), w, "pml-run"); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		s.TouchEvents(mute)
		if err := s.Commit(t.Context(), logged(run, "told", time.Now())); err != nil {
			t.Fatal(err)
		}
		list, err := s.Events(t.Context(), store.EventFilter{})
		if err != nil || len(list) != n+1 {
			t.Fatalf("%v %+v", err, list)
		}
		if !s.ReadsEvents(mute) {
			t.Fatal("somebody has answered for the run after all, so that this shows nothing")
		}
	}
}
