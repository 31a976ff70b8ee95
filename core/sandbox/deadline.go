package sandbox

import "time"

// maxStretch bounds to how many limits the wall time of a turn is stretched that
// got too little of a processor. The child and its parent keep to the same.
const maxStretch = 10

// clocks tell how time goes on. Tests have others.
type clocks struct {
	now func() time.Time
	// used is the processor time of this process so far; false where the system
	// does not tell.
	used func() (time.Duration, bool)
}

// systemClocks are those of this machine.
func systemClocks() clocks { return clocks{now: time.Now, used: processorTime} }

// deadline ends a turn. The limit is one of processor time, and as much wall
// time passes in any case, so that the processor is asked late only: a busy
// machine is no fault of the script. What is stuck without a processor ends at
// maxStretch limits. The zero value never ends.
type deadline struct {
	clocks clocks
	limit  time.Duration
	start  time.Time
	used   time.Duration // when it started
	known  bool          // the system tells the processor time
}

// after is the deadline of what starts now.
func (c clocks) after(limit time.Duration) deadline {
	d := deadline{clocks: c, limit: limit, start: c.now()}
	d.used, d.known = c.used()
	return d
}

// state says whether the time is over and, if it is not, whether the wall clock
// alone would have it so.
func (d *deadline) state() (over, late bool) {
	if d.limit == 0 {
		return false, false
	}
	wall := d.clocks.now().Sub(d.start)
	switch {
	case wall < d.limit:
		return false, false
	case !d.known, wall >= maxStretch*d.limit:
		return true, false
	}
	used, ok := d.clocks.used()
	over = !ok || used-d.used >= d.limit
	return over, !over
}
