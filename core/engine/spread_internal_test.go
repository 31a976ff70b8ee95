package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// TestSpread: agents that are refused together come back apart, none before it was told to,
// and none much later.
func TestSpread(t *testing.T) {
	t.Parallel()
	const wait = 4 * time.Second
	slots := map[time.Duration]bool{}
	for n := range 100 {
		run := core.ID(fmt.Sprint("run-", n))
		got := spread(wait, run, "m1", 1)
		if got < wait || got > wait+wait/4 || got != spread(wait, run, "m1", 1) {
			t.Errorf("%s waits %s", run, got)
		}
		slots[got.Truncate(wait/40)] = true
	}
	if len(slots) < 8 { // of 10
		t.Errorf("100 runs come back at %d times", len(slots))
	}
}
