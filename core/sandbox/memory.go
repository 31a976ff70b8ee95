package sandbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// defaultMemory is Options.Memory unless it is set.
const defaultMemory = 2 << 30

// childOverhead is what a child needs in addition to the memory of its VM.
const childOverhead = 32 << 20

// evictAfter is how long a script must have waited before its VM is evicted for want of
// memory: one that resumes sooner than a new VM can be made keeps its own.
const evictAfter = 200 * time.Millisecond

// room is the memory budget of all children that have a script, and admits turns by it.
// A script in its turn counts with its maximum, one that waits with what its child uses.
// When another turn does not fit, room evicts VMs of scripts that wait; if that is not
// enough the turn waits. So no script ends for the memory of others. One turn is always
// admitted, however small the budget.
type room struct {
	mu      sync.Mutex
	limit   int64
	each    int64 // what a script in its turn may take
	held    int64 // the sum of bytes of all places
	places  map[*place]bool
	waiting []*place
	again   *time.Timer // looks for VMs that can be evicted by now
	drop    func(*process)
	size    func(*process) (own int64, ok bool)
}

// place is the share of a session, or of a request without one, in the budget.
type place struct {
	owner string
	proc  *process // nil: it has no VM, or that was evicted
	bytes int64
	// turning says that it is in its turn; measured that bytes was looked up since.
	turning, measured bool
	since             time.Time     // when its turn ended
	ready             chan struct{} // closed when its turn may begin; nil: it does not wait
	left              bool
}

func newRoom(o Options, drop func(*process)) *room {
	r := &room{limit: o.Memory, each: o.Limits.MemoryBytes + childOverhead, places: map[*place]bool{}, drop: drop}
	r.size = func(c *process) (int64, bool) { _, own, ok := processMemory(c); return own, ok }
	if r.limit <= 0 {
		r.limit = defaultMemory
	}
	return r
}

// enter begins a turn once it fits. The caller of enter calls leave even after an error:
// the turn may have been admitted all the same.
func (r *room) enter(ctx context.Context, pl *place) error {
	r.mu.Lock()
	if pl.left {
		r.mu.Unlock()
		return core.Errorf(core.CodeCancelled, "the script was stopped")
	}
	r.places[pl] = true
	pl.ready = make(chan struct{})
	ready := pl.ready
	r.waiting = append(r.waiting, pl)
	r.grant()
	r.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if pl.ready != nil {
		pl.ready = nil
		r.waiting = slices.DeleteFunc(r.waiting, func(w *place) bool { return w == pl })
		r.grant()
	}
	return core.Errorf(core.CodeCancelled, "the script was stopped while it waited for memory: %w", context.Cause(ctx))
}

// hold notes the child of a place in its turn. It reports false when the place
// was left meanwhile.
func (r *room) hold(pl *place, c *process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !pl.left {
		pl.proc = c
	}
	return !pl.left
}

// child is the child of a place, nil of one that has none.
func (r *room) child(pl *place) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return pl.proc
}

// rest ends a turn; the script waits, and keeps its VM until that is evicted.
func (r *room) rest(pl *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !pl.left {
		pl.turning, pl.measured, pl.since = false, false, time.Now()
	}
	r.grant()
}

// leave removes a place for good and returns its child, if it has one.
func (r *room) leave(pl *place) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := pl.proc
	r.held -= pl.bytes
	*pl = place{owner: pl.owner, left: true, ready: pl.ready}
	delete(r.places, pl)
	r.grant()
	return c
}

// giveBack evicts the VM of a script that waits: its child ends.
func (r *room) giveBack(pl *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !pl.turning && pl.ready == nil {
		r.empty(pl)
		r.grant()
	}
}

func (r *room) empty(pl *place) {
	if pl.proc != nil {
		r.drop(pl.proc)
	}
	r.held -= pl.bytes
	pl.proc, pl.bytes = nil, 0
}

// bound sets the limit.
func (r *room) bound(limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit = limit; r.limit <= 0 {
		r.limit = defaultMemory
	}
	r.grant()
}

// grant admits the turns that fit. r.mu is held.
func (r *room) grant() {
	for len(r.waiting) > 0 {
		i := r.next()
		pl := r.waiting[i]
		if !pl.left && !r.fits(pl) {
			r.lookAgain()
			return
		}
		r.waiting = slices.Delete(r.waiting, i, i+1)
		if !pl.left {
			r.held += r.each - pl.bytes
			pl.bytes, pl.turning = r.each, true
		}
		close(pl.ready)
		pl.ready = nil
	}
}

// next is the index of the turn to admit first: of the owner that uses least, and of its
// places one that still has its VM. No other turn overtakes it. r.mu is held.
func (r *room) next() int {
	if len(r.waiting) == 1 {
		return 0
	}
	owners, best := r.owners(), 0
	for i, pl := range r.waiting {
		first := r.waiting[best]
		if a, b := owners[pl.owner], owners[first.owner]; a < b || a == b && pl.proc != nil && first.proc == nil {
			best = i
		}
	}
	return best
}

// owners is what each owner uses. r.mu is held.
func (r *room) owners() map[string]int64 {
	out := map[string]int64{}
	for pl := range r.places {
		out[pl.owner] += pl.bytes
	}
	return out
}

// fits reports whether a turn may begin, after it has evicted VMs for it. r.mu is held.
func (r *room) fits(pl *place) bool {
	over := func() bool { return r.held-pl.bytes+r.each > r.limit }
	if !over() {
		return true
	}
	for other := range r.places {
		if !other.turning && !other.measured && other.proc != nil {
			r.measure(other)
		}
	}
	for over() {
		victim, alone := r.victim(pl)
		if victim == nil {
			return alone
		}
		r.empty(victim)
	}
	return true
}

// measure looks up what the child of a script that waits uses. r.mu is held.
func (r *room) measure(pl *place) {
	pl.measured = true
	if n, ok := r.size(pl.proc); ok {
		n = min(n, r.each)
		r.held += n - pl.bytes
		pl.bytes = n
	}
}

// victim is the place to evict for another one: of the owner that uses most, the one that
// has waited longest; nil if none can be evicted yet. alone is set when no other place
// uses any memory. r.mu is held.
func (r *room) victim(pl *place) (victim *place, alone bool) {
	owners, now := r.owners(), time.Now()
	alone = true
	for other := range r.places {
		if other == pl || other.bytes == 0 {
			continue
		}
		alone = false
		if other.turning || now.Sub(other.since) < evictAfter {
			continue
		}
		if victim == nil {
			victim = other
		} else if a, b := owners[other.owner], owners[victim.owner]; a > b || a == b && other.since.Before(victim.since) {
			victim = other
		}
	}
	return victim, alone
}

// lookAgain tries again once the next VM can be evicted. r.mu is held.
func (r *room) lookAgain() {
	var soonest time.Time
	for pl := range r.places {
		if !pl.turning && pl.bytes > 0 && (soonest.IsZero() || pl.since.Before(soonest)) {
			soonest = pl.since
		}
	}
	if soonest.IsZero() {
		return // a turn that ends looks
	}
	wait := max(time.Until(soonest.Add(evictAfter)), time.Millisecond)
	if r.again != nil {
		r.again.Reset(wait)
		return
	}
	r.again = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.grant()
	})
}
