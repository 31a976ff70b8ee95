package temporal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Runs implements store.RunReader. The index of the service says which runs may match, and the
// workflow of each what it is: so nothing is listed that does not match by now. What another
// process has changed a moment ago may be missing; what this one has met is not (recent).
func (s *Store) Runs(ctx context.Context, f store.RunFilter) ([]core.Run, error) {
	before, below := core.Run{}, int64(math.MaxInt64)
	if f.Before != "" {
		var err error
		if before, err = s.header(ctx, f.Before); err != nil {
			return nil, err
		}
		below = before.CreatedAt.UnixMicro() + 1
	}
	if err := s.meetHolder(ctx, f); err != nil {
		return nil, err
	}
	var out []core.Run
	for {
		w, err := s.window(ctx, f, below, f.Limit-len(out))
		if err != nil {
			return nil, err
		}
		for len(w.places) > 0 {
			n := w.atLeast(f.Limit - len(out))
			runs, err := s.headers(ctx, w.places[:n], f)
			if err != nil {
				return nil, err
			}
			w.places = w.places[n:]
			for _, run := range runs {
				if before.ID == "" || newestFirst(before, run) < 0 {
					out = append(out, run)
				}
			}
			if f.Limit > 0 && len(out) >= f.Limit {
				return out[:f.Limit], nil
			}
		}
		if w.last {
			return out, nil
		}
		below = w.low
	}
}

// newestFirst orders runs as lists have them.
func newestFirst(a, b core.Run) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// place is about where a run stands among all others: when it was created, in microseconds.
type place struct {
	at int64
	id core.ID
}

// window is a stretch of the list of runs: all that may match, newest first, down to low, or to
// the end.
type window struct {
	places []place
	low    int64
	last   bool
}

// atLeast is how many places are to be read for so many runs (0 or less: all): those of one
// microsecond are ordered only when all of them were read.
func (w window) atLeast(runs int) int {
	n := len(w.places)
	if runs > 0 {
		n = min(n, runs)
	}
	for n < len(w.places) && w.places[n].at == w.places[n-1].at {
		n++
	}
	return n
}

// window is the stretch below a time that has at least want runs (0 or less: all) of those that the
// index knows. Temporal gives them in no order that counts: it gives the newest histories first,
// and a run may go on in a new one. So the first page only says how far back the stretch must go.
func (s *Store) window(ctx context.Context, f store.RunFilter, below int64, want int) (w window, err error) {
	query := s.selecting(f)
	if below != math.MaxInt64 {
		query += " AND " + createdName + "<" + strconv.FormatInt(below, 10)
	}
	size := s.page
	if want > 0 { // what it gives is mostly what is wanted, in about that order
		size = int32(min(int(size), 2*want))
	}
	page, err := s.listPage(ctx, query, size, nil)
	if err != nil {
		return w, err
	}
	found := page.GetExecutions()
	w.last, w.low = true, math.MinInt64
	if len(page.GetNextPageToken()) > 0 {
		if want > 0 {
			var ats []int64
			for _, e := range found {
				ats = append(ats, shown[int64](e, createdName))
			}
			slices.Sort(ats)
			w.last, w.low = false, ats[max(0, len(ats)-want)]
			query += " AND " + createdName + ">=" + strconv.FormatInt(w.low, 10)
		}
		if found, err = s.list(ctx, query); err != nil {
			return w, err
		}
	}
	for _, e := range found {
		if id, ok := s.runOf(e); ok {
			w.places = append(w.places, place{shown[int64](e, createdName), id})
		}
	}
	for _, run := range s.recent.runs() {
		run = approval.RunAt(run, s.opts.Clock.Now())
		if at := run.CreatedAt.UnixMicro(); at >= w.low && at < below && matches(run, f) {
			w.places = append(w.places, place{at, run.ID})
		}
	}
	slices.SortFunc(w.places, func(a, b place) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.id, b.id)) })
	w.places = slices.Compact(w.places)
	return w, nil
}

// selecting is the query for the runs that a filter selects.
func (s *service) selecting(f store.RunFilter) string {
	query := s.indexed()
	if len(f.States) > 0 {
		var states []string
		for _, state := range f.States {
			states = append(states, "'"+label(string(state))+"'")
		}
		query += " AND " + stateName + " IN (" + strings.Join(states, ",") + ")"
	}
	for _, by := range []struct{ name, text string }{{workspaceName, f.Workspace}, {ownerName, f.Owner}, {keyName, f.IdempotencyKey}} {
		if by.text != "" {
			query += fmt.Sprintf(" AND %s='%s'", by.name, label(by.text))
		}
	}
	return query
}

func matches(run core.Run, f store.RunFilter) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, run.State)) && (f.Workspace == "" || run.Workspace == f.Workspace) &&
		(f.Owner == "" || run.Owner == f.Owner) && (f.IdempotencyKey == "" || run.IdempotencyKey == f.IdempotencyKey)
}

// headers are the runs at some places that match a filter, as their workflows have them, newest
// first; those that were removed are left out.
func (s *Store) headers(ctx context.Context, places []place, f store.RunFilter) ([]core.Run, error) {
	runs := make([]core.Run, len(places))
	err := each(len(places), func(i int) error {
		run, err := s.header(ctx, places[i].id)
		if core.CodeOf(err) == core.CodeNotFound {
			return nil
		}
		runs[i] = run
		return err
	})
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(run core.Run) bool { return run.ID == "" || !matches(run, f) })
	slices.SortFunc(runs, newestFirst)
	return runs, nil
}

// header is a run without what is large.
func (s *Store) header(ctx context.Context, id core.ID) (core.Run, error) {
	var run core.Run
	if !store.ValidID(id) {
		return run, store.NoRun(id)
	}
	if err := s.query(ctx, s.workflowOf(id), queryHeader, id, &run); err != nil {
		return core.Run{}, err
	}
	return approval.RunAt(run, s.opts.Clock.Now()), nil
}

// atOnce is how many workflows are asked at once.
const atOnce = 16

// each calls f with 0 to n-1, some at once, and returns the first error in that order.
func each(n int, f func(int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Find implements store.RunReader. A whole id of a run is asked for at its workflow, and so is
// found at once; what only begins an id, and an approval, is found in the index and in what this
// process has met. Of a run with more than askedLimit approvals the index knows that many.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (store.Found, error) {
	var found store.Found
	if prefix != "" && !store.ValidID(core.ID(prefix)) {
		return found, nil
	}
	begins := func(id core.ID) bool { return strings.HasPrefix(string(id), prefix) }
	if prefix != "" {
		if _, err := s.Run(ctx, core.ID(prefix)); err == nil {
			found.Runs = append(found.Runs, core.ID(prefix))
		} else if core.CodeOf(err) != core.CodeNotFound {
			return store.Found{}, err
		}
	}
	list, err := s.list(ctx, s.indexed()+" AND WorkflowId STARTS_WITH '"+s.workflowOf(core.ID(prefix))+"'")
	if err != nil {
		return store.Found{}, err
	}
	found.Runs = append(found.Runs, s.runIDs(list)...)
	if list, err = s.list(ctx, s.indexed()+" AND "+askedName+" IS NOT NULL"); err != nil {
		return store.Found{}, err
	}
	for _, e := range list {
		found.Approvals = append(found.Approvals, shown[[]core.ID](e, askedName)...)
	}
	for id := range s.recent.runs() {
		found.Runs = append(found.Runs, id)
	}
	for id := range s.recent.asked() {
		found.Approvals = append(found.Approvals, id)
	}
	for _, ids := range []*[]core.ID{&found.Runs, &found.Approvals} {
		*ids = slices.DeleteFunc(*ids, func(id core.ID) bool { return !begins(id) })
		slices.Sort(*ids)
		*ids = slices.Compact(*ids)
		if limit > 0 {
			*ids = (*ids)[:min(limit, len(*ids))]
		}
		if len(*ids) == 0 {
			*ids = nil
		}
	}
	return found, nil
}
