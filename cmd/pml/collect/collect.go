// Package collect is how the processes of pml collect their garbage, unless GOGC
// says what a person wants.
package collect

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// commandGC is GOGC for a command, and the most that a process has that stays.
const commandGC = 400

// Later lets a command that ends soon allocate its first 16 MB without a
// collection, which would cost a third of its start.
func Later() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(commandGC)
	}
}

// How far the heap of a process that stays grows before it is collected: by
// roomToGrow if little of it lives, so that one that forwards many calls and keeps
// nothing does not spend an eighth of its time on collections, and by half if that
// is more, so that one that knows 10,000 runs, or in which 1,000 calls wait for
// people, holds little garbage beside them.
const (
	roomToGrow = 16 << 20
	leastGC    = 50
)

// AsUsual is for a process that stays.
func AsUsual() {
	if os.Getenv("GOGC") == "" {
		c := &collections{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
		c.tune()
	}
}

// collections tunes the collector after each collection.
type collections struct {
	live    []metrics.Sample
	percent int
}

// tune is called again after the next collection: nothing refers to c but its
// finalizer.
func (c *collections) tune() {
	metrics.Read(c.live)
	if p := percentFor(c.live[0].Value.Uint64()); p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
	runtime.SetFinalizer(c, (*collections).tune)
}

// percentFor is GOGC for a heap of which so many bytes live, in steps: to set it
// stops the process for a moment.
func percentFor(live uint64) int {
	const step = 50
	percent := min(roomToGrow*100/max(live, 1), commandGC)
	return max(int(percent)/step*step, leastGC)
}
