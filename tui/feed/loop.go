package feed

import (
	"context"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

const (
	// maxHeld is how many events wait for the state before their sender waits.
	maxHeld = 4096
	// queued is how many events their sender is ahead of the loop.
	queued = 256
	// maxPending is how many changes wait, while another one is being applied,
	// until no more lists are read: another program may have the terminal for
	// hours.
	maxPending = 64
)

// loop is one Run of a Feed. One goroutine owns it; whatever can take time runs
// in another one and comes back through done.
type loop struct {
	f     *Feed
	o     Options
	ctx   context.Context
	apply func(Change)

	wg     sync.WaitGroup
	done   chan func()
	events chan core.Event
	linked chan Link

	// What is to be handed over, in its order. batch are the events at its end.
	pending  []Change
	batch    *[]core.Event
	held     int // events in pending
	resting  bool
	applying bool

	listens core.ID // whose model is followed
	unhear  context.CancelFunc

	gen   int64 // grows with every read that is begun
	links linkTable
	marks marks
	lists lists
	runs  runTable
	// problems are what goes wrong, by what was tried.
	problems map[attempt]problem
	warned   []string // as told last
}

func newLoop(ctx context.Context, f *Feed, apply func(Change)) *loop {
	l := &loop{
		f: f, o: f.o, ctx: ctx, apply: apply,
		done: make(chan func()), events: make(chan core.Event, queued), linked: make(chan Link),
		runs: newRunTable(), problems: map[attempt]problem{}, unhear: func() {},
	}
	l.links.begin(f.o)
	return l
}

// begin starts all that goes on until the end.
func (l *loop) begin() {
	if l.o.Links != nil {
		l.wg.Go(func() {
			l.o.Links(l.ctx, func(k Link) {
				select {
				case l.linked <- k:
				case <-l.ctx.Done():
				}
			})
		})
	}
	l.tellLinks()
	l.first()
	l.locate()
	l.after(l.o.Recheck, l.recheck)
	l.answer()
	l.handOver()
}

// start runs something that takes time; what it returns runs in the loop.
func (l *loop) start(read func(ctx context.Context) func()) {
	l.wg.Go(func() {
		do := read(l.ctx)
		select {
		case l.done <- do:
		case <-l.ctx.Done():
		}
	})
}

// after does something in the loop after a time.
func (l *loop) after(d time.Duration, do func()) {
	l.start(func(ctx context.Context) func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return do
	})
}

// timed runs something and says how long it took.
func (l *loop) timed(do func()) time.Duration {
	begin := l.o.Clock.Now()
	do()
	return l.o.Clock.Now().Sub(begin)
}

// next is the generation of a read that begins now: it knows of all that was
// told in earlier ones.
func (l *loop) next() int64 {
	l.gen++
	return l.gen
}

// push adds a change to the next batch.
func (l *loop) push(c Change) {
	l.pending, l.batch = append(l.pending, c), nil
}

// hold adds an event to the next batch.
func (l *loop) hold(e core.Event) {
	l.held++
	if l.batch != nil {
		*l.batch = append(*l.batch, e)
		return
	}
	list := []core.Event{e}
	l.push(func(s *state.State) { s.AddEvents(list...) })
	l.batch = &list
}

// handOver hands the next batch over, unless one was a moment ago or is being
// applied.
func (l *loop) handOver() {
	if l.resting || l.applying || len(l.pending) == 0 {
		return
	}
	changes := l.pending
	l.pending, l.batch, l.held = nil, nil, 0
	l.resting, l.applying = true, true
	l.after(l.o.Every, func() { l.resting = false })
	l.start(func(context.Context) func() {
		l.apply(func(s *state.State) {
			for _, c := range changes {
				c(s)
			}
		})
		return func() {
			l.applying = false
			l.goOn()
		}
	})
}

// full reports whether so much waits to be handed over that nothing more is read
// until it is.
func (l *loop) full() bool { return l.applying && len(l.pending) >= maxPending }

// goOn reads what was put off.
func (l *loop) goOn() {
	if t := &l.lists; t.postponed {
		t.postponed = false
		l.reload()
	}
	l.readApprovals()
	l.schedule()
}

// answer does what was asked for.
func (l *loop) answer() {
	a := l.f.taken()
	for _, id := range a.pruned {
		if r := l.runs.byID[id]; r != nil {
			r.loaded = false
		}
	}
	if a.wanted {
		l.runs.want = a.want
	}
	l.hear(a.listen)
	if a.refresh {
		for _, id := range l.runs.want {
			l.runs.of(id).layers = l.gen
		}
		l.reload()
	}
	for _, id := range a.touched {
		l.oldRun(id)
		l.runs.of(id).resting = false
		l.lists.approvals.old = true
	}
	l.readApprovals()
	l.schedule()
}
