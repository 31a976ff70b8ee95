package postgres

import (
	"sync"

	"github.com/casys-ai/pml/core"
)

// stepQueue are the steps that wait to be committed, and what is known of their runs.
type stepQueue struct {
	mu      sync.Mutex
	waiting []*op
	busy    map[core.ID]bool   // runs with a step under way
	last    map[core.ID]string // the newest steps of runs, as far as they are known
	working bool               // somebody takes from the queue
}

func newStepQueue() stepQueue {
	return stepQueue{busy: map[core.ID]bool{}, last: map[core.ID]string{}}
}

// add puts a step at the end. It reports whether nobody takes from the queue: then the
// caller does from now on.
func (q *stepQueue) add(o *op) (lead bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, o)
	lead = !q.working
	q.working = true
	return lead
}

// led ends what a caller of add has taken, with the error of its commit. It reports
// whether a worker is needed for what failed and what waits.
func (q *stepQueue) led(err error) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working = err != nil || len(q.waiting) > 0
	return q.working
}

// ended notes the outcome of a step, so that the next step of its run can start. It
// reports whether a worker is needed for that.
func (q *stepQueue) ended(o *op, err error) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, o.Run.ID)
	if err == nil && !o.Run.State.Final() {
		q.note(o.Run.ID, o.mark)
	} else {
		delete(q.last, o.Run.ID)
	}
	again = len(q.waiting) > 0 && !q.working
	q.working = q.working || again
	return again
}

// abandon takes a step out of the queue; false when it is under way.
func (q *stepQueue) abandon(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == o {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take returns what can be begun: at most one step of a run is under way.
func (q *stepQueue) take() (short, long []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest, bytes := q.waiting[:0], 0
	for _, o := range q.waiting {
		id := o.Run.ID
		o.before = q.last[id]
		switch quick := o.short && o.size <= largeStep && (o.Create || o.before != ""); {
		case q.busy[id] || quick && (len(short) == mostAtOnce || bytes+o.size > mostBytes && len(short) > 0):
			rest = append(rest, o)
			continue
		case quick:
			short, bytes = append(short, o), bytes+o.size
		default:
			long = append(long, o)
		}
		q.busy[id] = true
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	q.working = len(short)+len(long) > 0
	return short, long
}

// mostKnown bounds for how many runs the newest step is known. The others' next
// step goes the long way, which reads it.
const mostKnown = 1 << 15

// remember notes the newest step of a run.
func (q *stepQueue) remember(id core.ID, mark string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.note(id, mark)
}

func (q *stepQueue) note(id core.ID, mark string) {
	if _, ok := q.last[id]; !ok && len(q.last) >= mostKnown {
		for some := range q.last {
			delete(q.last, some)
			break
		}
	}
	q.last[id] = mark
}
