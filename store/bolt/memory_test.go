package bolt_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// TestExclusive_Memory: runs lie in the file and not in memory, those that wait
// included. It measures the whole process, so it runs alone.
func TestExclusive_Memory(t *testing.T) {
	skiptest.Short(t, "writes 11,000 runs")
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s := openExclusive(t, t.TempDir(), wall{})
	before := heap()
	const ended, waiting, workers = 10_000, 1_000, 64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < ended+waiting; i += workers {
				run := newRun("r")
				step := store.Step{Run: run, Create: true, Records: []core.Record{newRecord(1)},
					Program: &core.Program{Kind: core.KindCode, Version: 1, Source: "return 1"}}
				if i < ended {
					step.Run.State = core.RunComplete
				} else {
					step.Open = []core.Approval{newApproval(run.ID)}
				}
				if err := s.Commit(t.Context(), step); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	grown := int64(heap()) - int64(before)
	t.Logf("the heap grew by %d KiB", grown>>10)
	if grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB with %d runs kept", grown>>10, ended+waiting)
	}
	runs, err := s.Runs(t.Context(), store.RunFilter{States: []core.RunState{core.RunWaiting}})
	if err != nil || len(runs) != waiting {
		t.Errorf("%d wait, %v", len(runs), err)
	}
}
