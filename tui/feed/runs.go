package feed

import (
	"context"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/state"
)

const (
	// maxReads is how many runs are read at once.
	maxReads = 4
	// fewRuns is how many runs that nobody looks at are read one by one; of more,
	// the headers are read as a list.
	fewRuns = 8
)

// runInfo is what the feed knows of a run.
type runInfo struct {
	state core.RunState // "" as long as nothing was read
	// header and layers are the generation in which they were known to be old, 0
	// while they are not. A read of a later generation has what was missing.
	header, layers int64
	last           int64 // generation of the newest read
	loaded         bool  // with its layers
	ended          int64 // generation in which an event told of its end
	reading        bool
	resting        bool // it was read a moment ago
	queued         bool
	alone          bool // the list of headers did not have it
	gone           bool
	below          bool // an agent has started it: no list has it
	failures       int
}

// runTable is all runs, and which are to be read.
type runTable struct {
	byID  map[core.ID]*runInfo
	want  []core.ID
	queue []core.ID // with old headers, oldest first
	reads int       // of single runs that go on
	list  struct{ reading, resting bool }
}

func newRunTable() runTable { return runTable{byID: map[core.ID]*runInfo{}} }

func (t *runTable) of(id core.ID) *runInfo {
	r := t.byID[id]
	if r == nil {
		r = &runInfo{}
		t.byID[id] = r
	}
	return r
}

// ids are all runs of which something was read.
func (t *runTable) ids() []core.ID {
	out := make([]core.ID, 0, len(t.byID))
	for id, r := range t.byID {
		if r.state != "" && !r.gone {
			out = append(out, id)
		}
	}
	return out
}

// oldRun notes that a run has to be read again.
func (l *loop) oldRun(id core.ID) {
	r := l.runs.of(id)
	r.layers, r.gone = l.gen, false
	l.oldHeader(id, r)
}

func (l *loop) oldHeader(id core.ID, r *runInfo) {
	r.header = l.gen
	if !r.queued {
		r.queued, r.alone = true, false
		l.runs.queue = append(l.runs.queue, id)
	}
}

// changedBy notes what an event has changed.
func (l *loop) changedBy(e *core.Event) {
	if e.RunID == "" {
		return
	}
	r := l.runs.of(e.RunID)
	r.gone = false
	if end := state.EndOf(e.Type); end != "" {
		r.state, r.ended = end, l.gen
	}
	switch e.Type {
	case core.EventTaskLog, core.EventTaskWarning:
	default:
		r.layers = l.gen
	}
	switch e.Type {
	case core.EventApprovalRequested, core.EventApprovalResolved, core.EventDecisionRequired:
		l.lists.approvals.old = true
	default:
	}
	if r.state != core.RunRunning || changesHeader(e.Type) {
		l.oldHeader(e.RunID, r)
	}
}

// changesHeader reports whether the header of a run is another one after an
// event.
func changesHeader(t core.EventType) bool {
	switch t {
	case core.EventTaskStart, core.EventTaskComplete, core.EventTaskError, core.EventTaskWarning, core.EventTaskLog,
		core.EventLayerStart, core.EventAgentIteration:
		return false
	default:
		return true
	}
}

// overtaken reports whether what was asked for in a generation is older than
// what was read or told since: it would show a run as it was.
func (r *runInfo) overtaken(st core.RunState, gen int64) bool {
	return gen < r.last || r.ended >= gen && !st.Final()
}

// putHeaders takes headers that were asked for in a generation.
func (l *loop) putHeaders(list []core.Run, gen int64) {
	keep := make([]core.Run, 0, len(list))
	for i := range list {
		run := &list[i]
		r := l.runs.of(run.ID)
		if r.overtaken(run.State, gen) {
			continue
		}
		r.state, r.gone, r.last, r.below = run.State, false, gen, run.Below()
		if r.header < gen {
			r.header = 0
		}
		keep = append(keep, *run)
	}
	if len(keep) > 0 {
		l.push(func(s *state.State) { s.PutRuns(keep...) })
	}
}

// schedule begins the reads that are due: of runs that are looked at first.
func (l *loop) schedule() {
	if l.full() {
		return
	}
	t := &l.runs
	for _, id := range t.want {
		if t.reads >= maxReads {
			return
		}
		r := t.of(id)
		if !r.reading && !r.resting && !r.gone && (!r.loaded || r.layers != 0 || r.header != 0) {
			l.readRun(id, r)
		}
	}
	l.readQueue()
}

// readQueue reads headers that are old: a few one by one, many as a list.
func (l *loop) readQueue() {
	t := &l.runs
	together := 0
	t.queue = slices.DeleteFunc(t.queue, func(id core.ID) bool {
		r := t.byID[id]
		if r == nil || r.header == 0 {
			if r != nil {
				r.queued = false
			}
			return true
		}
		if !r.alone {
			together++
		}
		return false
	})
	many := together > fewRuns
	if many && !t.list.reading && !t.list.resting {
		l.readNewest()
	}
	for _, id := range t.queue {
		if t.reads >= maxReads {
			return
		}
		r := t.byID[id]
		if !r.reading && !r.resting && (r.alone || !many && !t.list.reading) {
			l.readRun(id, r)
		}
	}
}

// readNewest reads the headers of the newest runs, in place of each.
func (l *loop) readNewest() {
	t := &l.runs
	t.list.reading = true
	gen := l.next()
	l.start(func(ctx context.Context) func() {
		var p api.Page[core.Run]
		var err error
		took := l.timed(func() { p, err = l.o.Backend.Workflows(ctx, nil, firstPage, "") })
		return func() {
			t.list.reading, t.list.resting = false, true
			rest := max(l.o.Every, min(share*took, l.o.Recheck))
			if err != nil {
				l.trouble(listing, err)
				rest = max(rest, pause(1))
			} else {
				l.listedRuns(listing, p, gen)
				l.remaining(gen)
			}
			l.after(rest, func() {
				t.list.resting = false
				l.schedule()
			})
			l.schedule()
		}
	})
}

// remaining marks the runs that a list should have had and did not: older ones.
func (l *loop) remaining(gen int64) {
	for _, id := range l.runs.queue {
		if r := l.runs.byID[id]; r != nil && r.header != 0 && r.header < gen {
			r.alone = true
		}
	}
}

func (l *loop) readRun(id core.ID, r *runInfo) {
	r.reading = true
	l.runs.reads++
	gen := l.next()
	l.start(func(ctx context.Context) func() {
		var w core.Workflow
		var err error
		took := l.timed(func() { w, err = l.o.Backend.Workflow(ctx, id) })
		return func() {
			l.runs.reads--
			r.reading = false
			rest := max(l.o.Every, min(share*took, l.o.Recheck))
			if err != nil {
				rest = max(rest, l.unread(id, r, err))
			} else {
				l.read(r, w, gen)
			}
			l.rest(r, rest)
			l.schedule()
		}
	})
}

// rest keeps a run from being read again for a while.
func (l *loop) rest(r *runInfo, d time.Duration) {
	r.resting = true
	l.after(d, func() {
		r.resting = false
		l.schedule()
	})
}

// read takes a run as it was in a generation.
func (l *loop) read(r *runInfo, w core.Workflow, gen int64) {
	r.failures = 0
	l.well(opening)
	if r.overtaken(w.State, gen) {
		return
	}
	r.state, r.gone, r.last, r.below = w.State, false, gen, w.Below()
	if r.header < gen {
		r.header = 0
	}
	want := l.runs.want
	if !slices.Contains(want, w.ID) { // its layers stay as old as they are
		l.push(func(s *state.State) {
			s.PutRuns(w.Run)
			s.PutApprovals(w.Approvals...)
		})
		return
	}
	if r.layers < gen {
		r.layers = 0
	}
	r.loaded = true
	f := l.f
	l.push(func(s *state.State) {
		s.PutWorkflow(w)
		if gone := s.PruneDetails(want); len(gone) > 0 {
			f.ask(func(a *asked) bool {
				a.pruned = append(a.pruned, gone...)
				return true
			})
		}
	})
}

// unread notes why a run could not be read, and returns how long to wait. One
// that its half does not have is gone.
func (l *loop) unread(id core.ID, r *runInfo, err error) time.Duration {
	lost := l.links.client.State == state.LinkLost || l.links.server.State == state.LinkLost
	if core.CodeOf(err) == core.CodeNotFound && !lost {
		r.header, r.layers, r.loaded, r.gone, r.state = 0, 0, false, true, ""
		l.push(func(s *state.State) { s.DropRun(id) })
		return 0
	}
	r.failures++
	l.trouble(opening, err)
	return pause(r.failures)
}
