package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// latest names the newest run of a workspace.
const latest = "@latest"

// minPrefix is the shortest prefix of an id that is accepted.
const minPrefix = 4

// Resolve turns what a person typed into a run and, when it names an approval,
// that approval.
func (c *history) Resolve(ctx context.Context, text string) (id, approvalID core.ID, err error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == latest {
		id, err := c.newest(ctx)
		return id, "", err
	}
	if len(text) < minPrefix {
		return "", "", core.Errorf(core.CodeNotFound, "%q is too short: give at least %d characters of the id", core.Visible(text, 40, false), minPrefix).
			WithNext("pml", "workflows", "ls")
	}
	found, err := c.o.Store.Find(ctx, text, 20)
	if err != nil {
		return "", "", err
	}
	switch {
	case len(found.Runs) == 1 && len(found.Approvals) == 0:
		return found.Runs[0], "", nil
	case len(found.Runs) == 0 && len(found.Approvals) == 1:
		ap, err := c.decisions.Approval(ctx, found.Approvals[0])
		return ap.RunID, ap.ID, err
	case len(found.Runs)+len(found.Approvals) == 0:
		return "", "", core.Errorf(core.CodeNotFound, "there is no run or approval %q", core.Visible(text, 60, false)).
			WithNext("pml", "workflows", "ls")
	}
	ids := append(slices.Clone(found.Runs), found.Approvals...)
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	e := core.Errorf(core.CodeNotFound, "%q is the beginning of %d ids; give more of it: %s", text, len(all), strings.Join(all, ", ")).
		WithNext("pml", "workflows", "ls")
	e.Ambiguous = ids
	return "", "", e
}

// newestPage is how many runs are looked at at once for the newest.
const newestPage = 20

// newest is the newest run of this workspace. What runs in another one is not meant
// by whoever stands in this one.
func (c *history) newest(ctx context.Context) (core.ID, error) {
	filter := store.RunFilter{Workspace: c.o.Workspace.Dir, Limit: newestPage}
	for {
		runs, err := c.o.Store.Runs(ctx, filter)
		if err != nil {
			return "", err
		}
		for _, run := range runs {
			if run.Kind != core.KindReads && !run.Below() {
				return run.ID, nil
			}
		}
		if len(runs) < newestPage {
			return "", core.Errorf(core.CodeNotFound, "there is no run yet in the workspace %s", core.Visible(c.o.Workspace.Dir, 200, false)).
				WithNext("pml", "workflows", "ls")
		}
		filter.Before = runs[len(runs)-1].ID
	}
}

// Workflows lists runs, newest first. Runs that agents have started are left out: their
// agents name them. So are lists of calls that only read, unless complete runs are asked
// for: they would bury all others.
func (c *history) Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	filter := store.RunFilter{Before: core.ID(cursor), States: storedAs(states)}
	if limit > 0 {
		filter.Limit = limit + 1
	}
	page := api.Page[core.Run]{Items: []core.Run{}, Notices: c.notices()}
	for {
		runs, err := c.o.Store.Runs(ctx, filter)
		if err != nil {
			return page, err
		}
		for _, run := range runs {
			if run.Below() {
				continue
			}
			run = c.present(ctx, run)
			if len(states) == 0 && run.Kind != core.KindReads || slices.Contains(states, run.State) {
				page.Items = append(page.Items, c.shownOf(run.Workspace).Run(c.withSpent(ctx, run)))
			}
		}
		if limit > 0 && len(page.Items) > limit {
			page.Items = page.Items[:limit]
			page.Next = string(page.Items[limit-1].ID)
			return page, nil
		}
		if limit <= 0 || len(runs) <= limit {
			return page, nil
		}
		filter.Before = runs[len(runs)-1].ID
	}
}

// storedAs are the states in which runs may be kept that are shown in some
// states: nobody may have recorded yet that one was interrupted or has expired.
func storedAs(shown []core.RunState) []core.RunState {
	out := slices.Clone(shown)
	if slices.Contains(shown, core.RunInterrupted) {
		out = append(out, core.RunRunning)
	}
	if slices.Contains(shown, core.RunExpired) {
		// One that runs may have been interrupted, and never expires before that.
		out = append(out, core.RunWaiting, core.RunInterrupted)
	}
	return out
}

// present shows a run as it stands now: one whose process is gone is
// interrupted, one past its time is expired, though nobody has recorded it.
func (c *history) present(ctx context.Context, run core.Run) core.Run {
	if run.State == core.RunRunning {
		if alive, err := c.alive(ctx, run); err == nil && !alive {
			run.State = core.RunInterrupted
			// Its process may have ended it since it was read.
			if now, err := c.o.Store.Run(ctx, run.ID); err == nil && (now.State != core.RunRunning || now.Runner != run.Runner) {
				run = now
			}
		}
	}
	if run.Starts && (run.State == core.RunRunning || run.State == core.RunInterrupted) {
		if waits, err := c.waitingBelow(ctx, run); err == nil && len(waits) > 0 {
			run.State = core.RunWaiting
		}
	}
	if !run.State.Final() && run.State != core.RunRunning && run.ExpiresAt != nil && !c.now().Before(*run.ExpiresAt) {
		run.State = core.RunExpired
	}
	run.IdempotencyKey = givenKey(run)
	if run.Name == "" && run.Intent == "" { // an older pml has started it
		if p, err := c.o.Store.Program(ctx, run.ID); err == nil {
			run.Name = nameOf(api.ExecuteRequest{}, p, c.shownOf(run.Workspace).Text)
		}
	}
	return run
}

// Workflow is a run with its layers, tasks and approvals.
func (c *history) Workflow(ctx context.Context, id core.ID) (core.Workflow, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return core.Workflow{}, err
	}
	run = c.present(ctx, run) // before its records: they are no older than its end
	program, err := c.o.Store.Program(ctx, id)
	if err != nil {
		return core.Workflow{}, err
	}
	records, err := c.o.Store.Journal(ctx, id, 0)
	if err != nil {
		return core.Workflow{}, err
	}
	approvals, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: id, Now: c.now()})
	if err != nil {
		return core.Workflow{}, err
	}
	waits, err := c.waitingBelow(ctx, run)
	if err != nil {
		return core.Workflow{}, err
	}
	approvals = append(approvals, waits...)
	now := c.now()
	paths := pathFinder{view: c.view, known: map[core.ID][]string{}}
	for i := range approvals {
		approvals[i].State = approvals[i].StateAt(now)
		approvals[i].Path = paths.of(ctx, approvals[i])
		approvals[i], _ = c.asOfNow(approvals[i])
	}
	w := engine.View(run, program, records, approvals)
	if program.Agent != nil {
		spent := core.SpentBy(*program.Agent, w)
		w.Agent = &spent
	}
	return c.shownOf(run.Workspace).Workflow(w), nil
}

// RemoveWorkflows removes ended runs; of agents with the runs that they have started.
func (c *history) RemoveWorkflows(ctx context.Context, ids ...core.ID) error {
	all := slices.Clone(ids)
	for _, id := range ids {
		run, err := c.o.Store.Run(ctx, id)
		if err != nil {
			return err
		}
		children, err := c.endedBelow(ctx, run)
		if err != nil {
			return err
		}
		for _, child := range children {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return c.o.Store.Remove(ctx, all...)
}

// prunePage is how many headers are looked at at once.
const prunePage = 1000

// Prune records what has expired, ends handed-over runs of which no sign of life came
// since, and removes runs that ended before a time.
func (c *history) Prune(ctx context.Context, before time.Time) (int, error) {
	if _, err := c.o.Store.Expire(ctx, c.now()); err != nil {
		return 0, err
	}
	if err := c.handover.abandonGiven(ctx); err != nil {
		return 0, err
	}
	final := slices.DeleteFunc(slices.Clone(core.RunStates), func(s core.RunState) bool { return !s.Final() })
	filter := store.RunFilter{States: final, Limit: prunePage}
	var old []core.ID
	for {
		runs, err := c.o.Store.Runs(ctx, filter)
		if err != nil {
			return 0, err
		}
		for _, run := range runs {
			ended := run.UpdatedAt
			if run.EndedAt != nil {
				ended = *run.EndedAt
			}
			if run.Imported != nil { // it is kept as long as what ended then
				ended = run.Imported.At
			}
			if ended.Before(before) {
				old = append(old, run.ID)
			}
		}
		if len(runs) < prunePage {
			break
		}
		filter.Before = runs[len(runs)-1].ID
	}
	removed := 0
	for list := range slices.Chunk(old, prunePage) {
		if err := c.o.Store.Remove(ctx, list...); err != nil {
			return removed, err
		}
		removed += len(list)
	}
	return removed, nil
}

// eventPage is how many events are read at once.
const eventPage = 1000

// Events calls f for events after a sequence number, in order; with follow it
// goes on until the context ends or f returns an error.
func (c *history) Events(ctx context.Context, id core.ID, from api.Since, follow bool, f func(core.Event) error) error {
	since := from.Of(c.o.Side)
	var changes <-chan struct{}
	if follow {
		var err error
		if changes, err = c.o.Store.Watch(ctx); err != nil {
			return err
		}
	}
	show := c.shownEvents(ctx)
	for {
		events, err := c.o.Store.Events(ctx, store.EventFilter{After: since, RunID: id, Limit: eventPage})
		if err != nil {
			return err
		}
		for _, e := range events {
			if e, err = show(e); err != nil {
				return err
			}
			since = e.Seq
			if err := f(e); err != nil {
				return err
			}
		}
		if len(events) == eventPage {
			continue
		}
		if !follow {
			return nil
		}
		select {
		case _, ok := <-changes:
			if !ok {
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
