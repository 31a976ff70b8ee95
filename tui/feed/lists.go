package feed

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/state"
)

const (
	// firstPage is how many runs are read for the first frame, page how many at
	// once behind it.
	firstPage = 200
	page      = 500
	// share is how much longer than a read the pause behind it is at least, so
	// that a slow backend has little to do for the terminal.
	share = 10
)

// unsettled are the states that a run does not stay in.
var unsettled = []core.RunState{core.RunRunning, core.RunWaiting, core.RunInterrupted}

// lists are the lists of runs and approvals, as far as reading them goes.
type lists struct {
	loading  bool // all runs are being read
	again    bool // and once more behind that
	anew     bool // the reading was begun anew already
	retrying bool // all runs will be read after a pause
	// postponed: all runs will be read once what was read is handed over.
	postponed bool
	failures  int
	warnings  []string // of the last list of runs
	listed    map[core.ID]bool
	known     []core.ID // before the reading began
	first     struct{ runs, approvals, said, all bool }

	approvals struct {
		old, reading, resting bool
		failures              int
		open                  map[core.ID]core.ID // the run of each that is open
	}
}

// first reads what the first frame shows.
func (l *loop) first() {
	gen := l.next()
	l.start(func(ctx context.Context) func() {
		p, err := l.o.Backend.Workflows(ctx, nil, firstPage, "")
		return func() {
			if err == nil { // else the reading of all runs says so
				l.listedRuns(listing, p, gen)
			}
		}
	})
	l.lists.approvals.old = true
	l.readApprovals()
}

// loaded says that the first lists are here, once they are.
func (l *loop) loaded() {
	if f := &l.lists.first; f.runs && f.approvals && !f.said {
		f.said = true
		l.push(func(s *state.State) { s.SetLoaded() })
	}
}

// reload reads all runs and approvals. While that goes on, once more is enough
// for all who ask.
func (l *loop) reload() {
	t := &l.lists
	t.approvals.old = true
	l.readApprovals()
	if l.full() {
		t.postponed = true
		return
	}
	if t.loading {
		t.again = true
		return
	}
	t.loading, t.again, t.anew = true, false, false
	t.listed, t.known = map[core.ID]bool{}, l.runs.ids()
	l.readPage("", firstPage)
}

func (l *loop) readPage(cursor string, size int) {
	gen := l.next()
	l.start(func(ctx context.Context) func() {
		p, err := l.o.Backend.Workflows(ctx, nil, size, cursor)
		return func() { l.havePage(p, err, cursor, gen) }
	})
}

func (l *loop) havePage(p api.Page[core.Run], err error, cursor string, gen int64) {
	t := &l.lists
	if err != nil {
		t.loading = false
		l.trouble(listing, err)
		l.reloadLater()
		return
	}
	t.failures = 0
	l.listedRuns(listing, p, gen)
	for i := range p.Items {
		t.listed[p.Items[i].ID] = true
	}
	if t.again && !t.anew { // what is left would be read twice: a server was found meanwhile, say
		t.again, t.anew, t.listed = false, true, map[core.ID]bool{}
		l.readPage("", firstPage)
		return
	}
	if p.Next != "" && p.Next != cursor && len(t.listed) < l.o.MaxRuns {
		l.readPage(p.Next, page)
		return
	}
	t.loading = false
	if p.Next == "" && len(p.Warnings) == 0 {
		for _, id := range t.known {
			if r := l.runs.byID[id]; !t.listed[id] && !(r.below && r.state.Final()) {
				l.oldRun(id) // it may be gone
			}
		}
	}
	t.listed, t.known = nil, nil
	l.all()
	if t.again {
		l.reload()
	}
	l.schedule()
}

// all says that all runs were read, the first time, once that is handed over.
func (l *loop) all() {
	if l.lists.first.all || l.o.Listed == nil {
		return
	}
	l.lists.first.all = true
	l.after(time.Second, l.o.Listed)
}

// reloadLater reloads after a failure, later each time.
func (l *loop) reloadLater() {
	t := &l.lists
	if t.loading || t.retrying {
		return
	}
	t.retrying = true
	t.failures++
	l.after(pause(t.failures), func() {
		t.retrying = false
		l.reload()
	})
}

// listedRuns takes a list of runs that was asked for in a generation, and for
// what.
func (l *loop) listedRuns(what attempt, p api.Page[core.Run], gen int64) {
	l.lists.warnings = l.lists.warnings[:0:0]
	for _, w := range p.Warnings {
		l.lists.warnings = append(l.lists.warnings, core.Visible(w, errRunes, false))
	}
	notices := make([]string, len(p.Notices))
	for i, n := range p.Notices {
		notices[i] = core.Visible(n, 1000, false)
	}
	l.push(func(s *state.State) { s.SetNotices(notices) })
	l.well(what)
	l.warn()
	l.heard(core.SideClient)
	if len(p.Warnings) == 0 && l.links.server.State == state.LinkLive {
		l.heard(core.SideServer)
	}
	l.putHeaders(p.Items, gen)
	l.lists.first.runs = true
	l.loaded()
}

// readApprovals reads the approvals, if they are old and it is time to.
func (l *loop) readApprovals() {
	a := &l.lists.approvals
	if !a.old || a.reading || a.resting || l.full() {
		return
	}
	a.old, a.reading = false, true
	l.start(func(ctx context.Context) func() {
		var list []core.Approval
		var halts []core.Halt
		var err, unsaid error
		took := l.timed(func() {
			list, err = l.o.Backend.Approvals(ctx, true)
			halts, unsaid = l.o.Backend.Halts(ctx)
		})
		return func() {
			if unsaid == nil { // else what was known stays
				l.push(func(s *state.State) { s.SetHalts(halts) })
			}
			l.haveApprovals(list, err, took)
		}
	})
}

func (l *loop) haveApprovals(list []core.Approval, err error, took time.Duration) {
	a := &l.lists.approvals
	a.reading, a.resting = false, true
	rest := max(l.o.Every, min(share*took, l.o.Recheck))
	if err != nil {
		a.failures++
		a.old = true
		rest = pause(a.failures)
		l.trouble(asking, err)
	} else {
		a.failures = 0
		l.well(asking)
		l.openNow(list)
		l.push(func(s *state.State) { s.PutApprovals(list...) })
		l.lists.first.approvals = true
		l.loaded()
	}
	l.after(rest, func() {
		a.resting = false
		l.readApprovals()
	})
}

// openNow notes which approvals are open. Where one is not listed any more, its
// run may be gone.
func (l *loop) openNow(list []core.Approval) {
	a := &l.lists.approvals
	before := a.open
	a.open = make(map[core.ID]core.ID, len(before))
	for i := range list {
		delete(before, list[i].ID)
		if list[i].State == core.ApprovalOpen {
			a.open[list[i].ID] = list[i].RunID
		}
	}
	for _, run := range before {
		l.oldRun(run)
	}
	l.schedule()
}

// recheck reads what can change without an event: who runs and waits, what is
// asked for, and the run that is looked at.
func (l *loop) recheck() {
	if l.full() {
		l.after(l.o.Recheck, l.recheck)
		return
	}
	l.lists.approvals.old = true
	l.readApprovals()
	if len(l.runs.want) > 0 {
		if r := l.runs.byID[l.runs.want[0]]; r != nil && !r.state.Final() {
			r.layers = l.gen
		}
	}
	l.schedule()
	gen, look := l.next(), l.marks.far && !l.marks.locating
	l.start(func(ctx context.Context) func() {
		var p api.Page[core.Run]
		var err error
		took := l.timed(func() { p, err = l.o.Backend.Workflows(ctx, unsettled, page, "") })
		var server int64
		if look {
			server, _ = firstAfter(ctx, l.o.Backend, core.SideServer, 0) // an error: not there yet
		}
		return func() {
			l.rechecked(p, err, gen)
			if server > 0 {
				l.locate()
			}
			l.after(max(l.o.Recheck, 2*share*took), l.recheck)
		}
	})
}

func (l *loop) rechecked(p api.Page[core.Run], err error, gen int64) {
	if err != nil {
		l.trouble(looking, err)
		return
	}
	l.listedRuns(looking, p, gen)
	if p.Next == "" && len(p.Warnings) == 0 {
		listed := make(map[core.ID]bool, len(p.Items))
		for i := range p.Items {
			listed[p.Items[i].ID] = true
		}
		for id, r := range l.runs.byID {
			if r.state != "" && !r.state.Final() && !listed[id] {
				l.oldRun(id)
			}
		}
	}
	l.schedule()
}
