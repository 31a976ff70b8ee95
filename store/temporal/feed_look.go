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

// others reads what has happened to the runs of which the index says something else than before, and to those that others
// run. grew is set when there was anything.
func (f *feed) others(ctx context.Context) (grew bool, err error) {
	f.order.Lock()
	defer f.order.Unlock()
	if err := f.learn(ctx); err != nil {
		return false, err
	}
	at := f.store.opts.Clock.Now().Add(-lookBack).UnixMicro()
	now, err := f.indexed(ctx)
	if err != nil {
		return f.grew(), err
	}
	for run, is := range now {
		was, seen := f.marks[run]
		if _, read := f.known[run]; !read || !seen || was != is || is.state == string(core.RunRunning) && !f.own(is.todo) {
			f.touch(run)
		}
	}
	for run := range f.marks {
		if _, open := now[run]; !open { // it has ended, or was removed
			f.touch(run)
		}
	}
	f.marks, f.since = now, at
	err = f.learn(ctx)
	return f.grew(), err
}

// grew reports whether the log has events of which those who watch may not have been told.
func (f *feed) grew() bool {
	told := f.told
	if len(f.log) > 0 {
		f.told = f.log[len(f.log)-1].Seq
	}
	return f.told > told
}

// indexed is what the index says of the runs that have not ended, and of those that were begun a short time ago.
func (f *feed) indexed(ctx context.Context) (map[core.ID]glimpse, error) {
	s := f.store
	var open []string
	for _, state := range store.Unended {
		open = append(open, "'"+string(state)+"'")
	}
	found, err := s.list(ctx, s.indexed()+" AND ("+stateName+" IN ("+strings.Join(open, ",")+") OR "+createdName+">="+strconv.FormatInt(f.since, 10)+")")
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
