package temporal

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// maxPlace is behind all runs in a list.
const maxPlace = math.MaxInt64

// look looks for what other processes do until the store is closed, and tells those who watch.
func (f *feed) look() {
	for wait := time.Duration(0); ; {
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-f.life.Done():
			next.Stop()
			return
		}
		began := time.Now() //nolint:forbidigo // how long it takes, whatever an injected clock says
		grew, err := f.others(f.life)
		if err != nil && f.life.Err() == nil {
			f.store.opts.Logger.Debug("cannot look for what other processes do; trying again", "error", err)
		}
		if grew {
			f.store.watchers.tell(true) // a runner is told by its runs
		}
		wait = max(lookEvery, lookShare*time.Since(began)) //nolint:forbidigo // as above
	}
}

// read reads the new events of a run into the log, and closes what it returns when all are there that were kept before it was called,
// or cannot be read now.
func (f *feed) read(run core.ID) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.touched, run)
	if r := f.reading[run]; r != nil {
		r.again = true
		return r.done
	}
	r := &readingRun{done: make(chan struct{})}
	f.reading[run] = r
	go f.readOn(run, r)
	return r.done
}

// readOn reads the new events of a run until nobody has touched it meanwhile.
func (f *feed) readOn(run core.ID, r *readingRun) {
	f.places <- struct{}{}
	defer func() { <-f.places }()
	defer close(r.done)
	began := time.Now() //nolint:forbidigo // how long it takes, whatever an injected clock says
	for more := true; more; {
		f.mu.Lock()
		after := f.known[run]
		f.mu.Unlock()
		list, err := f.store.eventsOf(f.life, run, after)
		f.mu.Lock()
		if more = err == nil && r.again; err == nil {
			f.append([][]core.Event{list})
			f.known[run] = max(f.known[run], after) // also of one without any
		} else if core.CodeOf(err) != core.CodeNotFound { // it was not removed, and has begun
			f.touched[run] = true
		}
		if r.again = false; !more {
			delete(f.reading, run)
		}
		f.mu.Unlock()
	}
	if time.Since(began) > feedPatience { //nolint:forbidigo // nobody has waited for it
		f.store.watchers.tell(true)
	}
}

// readAll are the events of runs, as far as their workflows answer within fillPatience.
func (f *feed) readAll(ctx context.Context, runs []core.ID) [][]core.Event {
	ctx, cancel := context.WithTimeout(ctx, fillPatience)
	defer cancel()
	fresh := make([][]core.Event, len(runs))
	_ = each(len(runs), func(i int) (err error) { // what fails is read later
		fresh[i], err = f.store.eventsOf(ctx, runs[i], 0)
		return err
	})
	return fresh
}

// others reads what has happened to the runs of which the index says something else than before, and to those that others
// run. grew is set when there was anything.
func (f *feed) others(ctx context.Context) (grew bool, err error) {
	if err := f.learn(ctx); err != nil {
		return false, err
	}
	f.mu.Lock()
	since := f.since
	f.mu.Unlock()
	at := f.store.opts.Clock.Now().Add(-lookBack).UnixMicro()
	now, err := f.indexed(ctx, since)
	if err != nil {
		return f.grew(), err
	}
	f.compare(now, at)
	err = f.learn(ctx)
	return f.grew(), err
}

// compare touches the runs of which the index says something else than before, and those that others run.
func (f *feed) compare(now map[core.ID]glimpse, since int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for run, is := range now {
		was, seen := f.marks[run]
		if _, read := f.known[run]; !read || !seen || was != is || is.state == string(core.RunRunning) && !f.own(is.todo) {
			f.touched[run] = true
		}
	}
	for run := range f.marks {
		if _, open := now[run]; !open { // it has ended, or was removed
			f.touched[run] = true
		}
	}
	f.marks, f.since = now, since
}

// grew reports whether the log has events of which those who watch may not have been told.
func (f *feed) grew() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	told := f.told
	if len(f.log) > 0 {
		f.told = f.log[len(f.log)-1].Seq
	}
	return f.told > told
}

// indexed is what the index says of the runs that have not ended, and of those that were begun a short time ago.
func (f *feed) indexed(ctx context.Context, since int64) (map[core.ID]glimpse, error) {
	s := f.store
	var open []string
	for _, state := range store.Unended {
		open = append(open, "'"+string(state)+"'")
	}
	found, err := s.list(ctx, s.indexed()+" AND ("+stateName+" IN ("+strings.Join(open, ",")+") OR "+createdName+">="+strconv.FormatInt(since, 10)+")")
	if err != nil {
		return nil, err
	}
	marks := map[core.ID]glimpse{}
	for _, e := range found {
		if id, ok := s.runOf(e); ok {
			marks[id] = glimpse{shown[string](e, stateName), shown[string](e, todoName), len(shown[[]string](e, askedName))}
		}
	}
	return marks, nil
}

// own reports whether a runner is this process.
func (f *feed) own(id string) bool {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return slices.ContainsFunc(f.store.runners, func(r *runner) bool { return r.id == id })
}
