package temporal

import (
	"context"
	"maps"
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
	touched map[core.ID]bool // runs that may have events which are not in the log

	order sync.Mutex // held while the log grows; what follows is under it
	begun bool
	log   []core.Event
	known map[core.ID]int64 // the last event of each run that is in the log or was passed over
	late  map[core.ID][]renumbered
	told  int64               // the newest event when those who watch were told last
	kept  int                 // how many events are remembered; a tenth more before some are forgotten
	floor int64               // what is older comes from before this process, and not into the log
	marks map[core.ID]glimpse // what the index said of the runs last
	since int64               // runs that were created after this were looked for
}

// renumbered is an event whose number is not the one that its run's workflow gave it.
type renumbered struct{ was, is int64 }

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
)

func newFeed(s *Store) *feed {
	f := &feed{store: s, kept: keptEvents, touched: map[core.ID]bool{}, known: map[core.ID]int64{}, late: map[core.ID][]renumbered{}, marks: map[core.ID]glimpse{}}
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
	f.order.Lock()
	defer f.order.Unlock()
	if err := f.learn(ctx); err != nil {
		return nil, err
	}
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

func bySeq(e core.Event, seq int64) int { return int(e.Seq - seq) }

// ofRun are the events of one run after a number, with the numbers that they have in the log.
func (f *feed) ofRun(ctx context.Context, run core.ID, after int64) ([]core.Event, error) {
	f.order.Lock()
	defer f.order.Unlock()
	if !f.begun {
		return f.store.eventsOf(ctx, run, after)
	}
	if err := f.take(ctx, run); err != nil {
		return nil, err
	}
	from, late := after, f.late[run]
	for _, l := range late {
		if l.is > after {
			from = min(from, l.was-1)
		}
	}
	list, err := f.store.eventsOf(ctx, run, from)
	if err != nil {
		return nil, err
	}
	last := f.known[run]
	list = slices.DeleteFunc(list, func(e core.Event) bool { return e.Seq > last }) // it comes with the next look
	for i := range list {
		if at, ok := slices.BinarySearchFunc(late, list[i].Seq, func(l renumbered, seq int64) int { return int(l.was - seq) }); ok {
			list[i].Seq = late[at].is
		}
	}
	return slices.DeleteFunc(list, func(e core.Event) bool { return e.Seq <= after }), nil
}

// learn reads what has happened to the runs that were touched. The caller has the order.
func (f *feed) learn(ctx context.Context) error {
	if !f.begun {
		if err := f.fill(ctx); err != nil {
			return err
		}
	}
	f.mu.Lock()
	runs := slices.Sorted(maps.Keys(f.touched))
	f.mu.Unlock()
	return f.take(ctx, runs...)
}

// take reads the new events of runs into the log.
func (f *feed) take(ctx context.Context, runs ...core.ID) error {
	f.mu.Lock()
	for _, run := range runs {
		delete(f.touched, run)
	}
	f.mu.Unlock()
	fresh := make([][]core.Event, len(runs))
	err := each(len(runs), func(i int) (err error) {
		fresh[i], err = f.store.eventsOf(ctx, runs[i], f.known[runs[i]])
		if core.CodeOf(err) == core.CodeNotFound { // it was removed, or has not begun
			return nil
		}
		return err
	})
	if err != nil {
		for _, run := range runs {
			f.touch(run)
		}
		return err
	}
	f.append(fresh)
	return nil
}

// append puts events into the log, each list those of a run.
func (f *feed) append(fresh [][]core.Event) {
	all := slices.Concat(fresh...)
	slices.SortStableFunc(all, func(a, b core.Event) int { return bySeq(a, b.Seq) })
	last := int64(0)
	if len(f.log) > 0 {
		last = f.log[len(f.log)-1].Seq
	}
	for _, e := range all {
		f.known[e.RunID] = e.Seq
		if e.Seq < f.floor {
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
	s := f.store
	f.since = s.opts.Clock.Now().Add(-lookBack).UnixMicro()
	f.mu.Lock()
	clear(f.touched)
	f.mu.Unlock()
	open, err := f.indexed(ctx)
	if err != nil {
		return err
	}
	var final []core.RunState
	for _, state := range core.RunStates {
		if state.Final() {
			final = append(final, state)
		}
	}
	w, err := s.window(ctx, store.RunFilter{States: final}, maxPlace, pastRuns)
	if err != nil {
		return err
	}
	runs := slices.Collect(maps.Keys(open))
	for _, p := range w.places[:w.atLeast(pastRuns)] {
		runs = append(runs, p.id)
	}
	slices.Sort(runs)
	if err := f.take(ctx, slices.Compact(runs)...); err != nil {
		return err
	}
	if f.floor = f.since; len(f.log) > 0 { // what is older has been passed over
		f.floor = min(f.floor, f.log[0].Seq)
	}
	f.marks, f.begun = open, true
	return nil
}
