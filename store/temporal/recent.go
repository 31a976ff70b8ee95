package temporal

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// recent are the runs that this process has met a short time ago: it finds them at once, while
// the index of the service lags behind. What was met is remembered for recentLife at least and for
// twice that at most, so that a process does not grow with the runs that it has had.
type recent struct {
	mu         sync.Mutex
	young, old sight
	turned     time.Time // when young was begun
}

// sight is what was met in one stretch of time.
type sight struct {
	runs  map[core.ID]core.Run
	asked map[core.ID]core.ID // the run of an approval
}

// recentLife is longer than the index of a service lags behind that is not in trouble.
const recentLife = time.Minute

// turn begins a new stretch when the last one is over. The caller has the lock.
func (r *recent) turn() {
	now := time.Now() //nolint:forbidigo // an injected clock may leap, and what was met would be forgotten
	if r.young.runs != nil && now.Sub(r.turned) < recentLife {
		return
	}
	r.old, r.turned = r.young, now
	r.young = sight{runs: map[core.ID]core.Run{}, asked: map[core.ID]core.ID{}}
}

// meet remembers a run as it is now.
func (r *recent) meet(run core.Run, asked ...*question) {
	run.Result, run.Options.Input = nil, json.RawMessage(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	r.young.runs[run.ID] = run
	for _, q := range asked {
		r.young.asked[q.ID] = run.ID
	}
}

// meetAsked remembers an approval.
func (r *recent) meetAsked(q *question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	r.young.asked[q.ID] = q.RunID
}

// forget forgets a run that was removed.
func (r *recent) forget(run core.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range []sight{r.young, r.old} {
		delete(of.runs, run)
		maps.DeleteFunc(of.asked, func(_, of core.ID) bool { return of == run })
	}
}

// runs are the runs as this process has met them last.
func (r *recent) runs() map[core.ID]core.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	all := maps.Clone(r.young.runs)
	for id, run := range r.old.runs {
		if _, newer := all[id]; !newer {
			all[id] = run
		}
	}
	return all
}

// asked are the approvals that this process has met, and of which run each is.
func (r *recent) asked() map[core.ID]core.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	all := maps.Clone(r.young.asked)
	maps.Copy(all, r.old.asked)
	return all
}

// asking is the run of an approval that this process has met.
func (r *recent) asking(approval core.ID) (core.ID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range []sight{r.young, r.old} {
		if run, ok := of.asked[approval]; ok {
			return run, true
		}
	}
	return "", false
}
