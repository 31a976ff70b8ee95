package temporal

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// feed is the events of all runs in one order, which is this process's own: Temporal has none. It learns at once
// of what this process changes and of what its runs are told, and within a second or two, by the index, of what others do.
//
// A run's workflow numbers its events by their time (state.announce). Here an event keeps its number unless it is
// learned of after a later one of another run: then it gets the next number that is free, wherever this process shows it. So
// the order is one without a gap for whoever reads in this process, and nearly that of another process.
type feed struct {
	store *Store
	stop  context.CancelFunc
	life  context.Context
	begin sync.Once

	mu      sync.Mutex
	begun   bool
	log     []core.Event
	known   map[core.ID]int64 // the last event of each run that is in the log or was passed over
	late    map[core.ID][]renumbered
	touched map[core.ID]bool // runs that may have events which are not in the log
	reading map[core.ID]*readingRun
	told    int64               // the newest event when those who watch were told last
	kept    int                 // how many events are remembered; a tenth more before some are forgotten
	floor   int64               // what is older comes from before this process, and not into the log
	marks   map[core.ID]glimpse // what the index said of the runs last
	since   int64               // runs that were created after this were looked for

	filling sync.Mutex
	places  chan struct{} // for runs that are read at the same time
}

// renumbered is an event whose number is not the one that its run's workflow gave it.
type renumbered struct{ was, is int64 }

// readingRun is a run whose new events are being read.
type readingRun struct {
	again bool // it was touched meanwhile
	done  chan struct{}
}

// glimpse is what the index says of a run that changes with what happens to it.
type glimpse struct {
	state, todo string
	asked       int
}

const (
	// keptEvents is how many events of all runs a process remembers.
	keptEvents = 50_000
	// pastRuns is how many ended runs begin the log with what they did; those that have not ended all do.
	pastRuns = 100
	// lookEvery is how often a process looks for what others do, lookShare which share of the time at most.
	lookEvery = time.Second
	lookShare = 10
	// lookBack is by how much the index may lag behind and the clocks of processes may differ.
	lookBack = time.Minute
	// feedPatience is how long who reads waits for runs whose workflow does not answer at once, as that of a process which has died; they
	// are told of later. fillPatience is the same for the beginning of the log.
	feedPatience = time.Second
	fillPatience = 5 * time.Second
	// readAtOnce is how many runs are read at the same time.
	readAtOnce = 32
)

func newFeed(s *Store) *feed {
	f := &feed{
		store: s, kept: keptEvents, touched: map[core.ID]bool{}, reading: map[core.ID]*readingRun{}, known: map[core.ID]int64{},
		late: map[core.ID][]renumbered{}, marks: map[core.ID]glimpse{}, places: make(chan struct{}, readAtOnce),
	}
	f.life, f.stop = context.WithCancel(context.Background())
	return f
}

// touch says that a run may have new events.
func (f *feed) touch(run core.ID) {
	if f == nil || run == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.touched[run] = true
}

// start begins to look for what other processes do, once somebody wants to hear of it.
func (f *feed) start() { f.begin.Do(func() { go f.look() }) }

// all are the events of all runs that a filter selects.
func (f *feed) all(ctx context.Context, of store.EventFilter) ([]core.Event, error) {
	f.start()
	if err := f.learn(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first, _ := slices.BinarySearchFunc(f.log, of.After+1, bySeq)
	var out []core.Event
	for _, e := range f.log[first:] {
		if of.Owner != "" && e.Owner != of.Owner || len(of.Types) > 0 && !slices.Contains(of.Types, e.Type) {
			continue
		}
		if out = append(out, e); len(out) == of.Limit {
			break
		}
	}
	return out, nil
}

func bySeq(e core.Event, seq int64) int { return cmp.Compare(e.Seq, seq) }

// ofRun are the events of one run after a number, with the numbers that they have in the log.
func (f *feed) ofRun(ctx context.Context, run core.ID, after int64) ([]core.Event, error) {
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	if !begun {
		return f.store.eventsOf(ctx, run, after)
	}
	select {
	case <-f.read(run):
	case <-ctx.Done():
		return nil, failure(ctx.Err(), run)
	}
	f.mu.Lock()
	last, late := f.known[run], slices.Clone(f.late[run])
	if f.touched[run] { // it was not read: what is not in the log has the numbers of its workflow
		last = math.MaxInt64
	}
	f.mu.Unlock()
	from := after
	for _, l := range late {
		if l.is > after {
			from = min(from, l.was-1)
		}
	}
	list, err := f.store.eventsOf(ctx, run, from)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if at, ok := slices.BinarySearchFunc(late, list[i].Seq, func(l renumbered, seq int64) int { return cmp.Compare(l.was, seq) }); ok {
			list[i].Seq = late[at].is
		} else if list[i].Seq > last { // it comes with the next look
			list = list[:i]
			break
		}
	}
	return slices.DeleteFunc(list, func(e core.Event) bool { return e.Seq <= after }), nil
}

// learn reads what has happened to the runs that were touched, as far as their workflows answer within feedPatience.
func (f *feed) learn(ctx context.Context) error {
	if err := f.fill(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	runs := slices.Collect(maps.Keys(f.touched))
	f.mu.Unlock()
	enough := time.NewTimer(feedPatience)
	defer enough.Stop()
	var read []<-chan struct{} // all are begun before one is waited for
	for _, run := range runs {
		read = append(read, f.read(run))
	}
	for _, done := range read {
		select {
		case <-done:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return failure(ctx.Err(), "")
		}
	}
	return nil
}

// append puts events into the log, each list those of a run. The caller has the lock.
func (f *feed) append(fresh [][]core.Event) {
	all := slices.Concat(fresh...)
	slices.SortStableFunc(all, func(a, b core.Event) int { return bySeq(a, b.Seq) })
	last := int64(0)
	if len(f.log) > 0 {
		last = f.log[len(f.log)-1].Seq
	}
	for _, e := range all {
		if e.Seq <= f.known[e.RunID] {
			continue
		}
		if f.known[e.RunID] = e.Seq; e.Seq < f.floor {
			continue
		}
		if e.Seq <= last {
			f.late[e.RunID] = append(f.late[e.RunID], renumbered{was: e.Seq, is: last + 1})
			e.Seq = last + 1
		}
		last = e.Seq
		f.log = append(f.log, e)
	}
	if over := len(f.log) - f.kept; over > f.kept/10 {
		f.log = slices.Clone(f.log[over:])
		f.forget(f.log[0].Seq)
	}
}

// forget drops what is known of runs that have done nothing since a number. Should they do something again, only that
// comes into the log.
func (f *feed) forget(before int64) {
	f.floor = before
	for run, last := range f.known {
		if _, open := f.marks[run]; !open && last < before {
			delete(f.known, run)
			delete(f.late, run)
		}
	}
}

// fill begins the log with what the runs did that have not ended, and the newest of the others.
func (f *feed) fill(ctx context.Context) error {
	f.filling.Lock()
	defer f.filling.Unlock()
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	if begun {
		return nil
	}
	since := f.store.opts.Clock.Now().Add(-lookBack).UnixMicro()
	open, runs, err := f.past(ctx, since)
	if err != nil {
		return err
	}
	fresh := f.readAll(ctx, runs)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.append(fresh)
	for _, run := range runs {
		if _, read := f.known[run]; !read { // its workflow has not answered
			f.touched[run] = true
		}
	}
	f.since, f.floor, f.marks, f.begun = since, since, open, true
	return nil
}

// past are the runs with which the log begins, and what the index says of those that have not ended.
func (f *feed) past(ctx context.Context, since int64) (open map[core.ID]glimpse, runs []core.ID, err error) {
	if open, err = f.indexed(ctx, since); err != nil {
		return nil, nil, err
	}
	var final []core.RunState
	for _, state := range core.RunStates {
		if state.Final() {
			final = append(final, state)
		}
	}
	w, err := f.store.window(ctx, store.RunFilter{States: final}, maxPlace, pastRuns)
	if err != nil {
		return nil, nil, err
	}
	runs = slices.Collect(maps.Keys(open))
	for _, p := range w.places[:w.atLeast(pastRuns)] {
		runs = append(runs, p.id)
	}
	slices.Sort(runs)
	return open, slices.Compact(runs), nil
}
