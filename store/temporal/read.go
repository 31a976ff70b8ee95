package temporal

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Run implements engine.Runs.
func (s *Store) Run(ctx context.Context, id core.ID) (core.Run, error) {
	var f found
	if err := s.query(ctx, s.workflowOf(id), queryRun, id, &f); err != nil {
		return core.Run{}, err
	}
	run := approval.RunAt(f.Run, s.opts.Clock.Now())
	s.recent.meet(run)
	var err error
	if run.Result, err = load(s.blobsOf(id), f.Result); err == nil {
		run.Options.Input, err = load(s.blobsOf(id), f.Input)
	}
	return run, err
}

// Program implements engine.Runs.
func (s *Store) Program(ctx context.Context, id core.ID) (core.Program, error) {
	var p program
	if err := s.query(ctx, s.workflowOf(id), queryProgram, id, &p); err != nil {
		return core.Program{}, err
	}
	return loadJSON[core.Program](s.blobsOf(id), p.Program)
}

// Checkpoints implements store.RunReader.
func (s *Store) Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error) {
	var list []core.Checkpoint
	err := s.query(ctx, s.workflowOf(id), queryMarks, id, &list)
	return list, err
}

// Journal implements engine.Runs.
func (s *Store) Journal(ctx context.Context, id core.ID, after int64) ([]core.Record, error) {
	var rows []record
	last := after
	for more := true; more; {
		var part listed
		if err := s.query(ctx, s.workflowOf(id), queryJournal, id, &part, last); err != nil {
			return nil, err
		}
		for _, p := range part.Pages {
			body, err := loadJSON[pageBody](s.blobsOf(id), value{Blob: p.Blob})
			if err != nil {
				return nil, err
			}
			rows = append(rows, body.Records...)
		}
		rows = append(rows, part.Records...)
		if more = part.More; more {
			last = part.Records[len(part.Records)-1].Seq
		}
	}
	var list []core.Record
	for _, row := range rows {
		if row.Seq <= after { // of a page that begins before
			continue
		}
		r, err := loadJSON[core.Record](s.blobsOf(id), row.Record)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Events implements store.Reader. Those of all runs are the ones that this process remembers, in an order of its own (feed).
func (s *Store) Events(ctx context.Context, f store.EventFilter) ([]core.Event, error) {
	if f.RunID == "" {
		return s.feed.all(ctx, f)
	}
	all, err := s.feed.ofRun(ctx, f.RunID, f.After)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e core.Event) bool {
		return f.Owner != "" && e.Owner != f.Owner || len(f.Types) > 0 && !slices.Contains(f.Types, e.Type)
	})
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return all, nil
}

// eventsOf are the events of a run after a number, as its workflow numbers them.
func (s *service) eventsOf(ctx context.Context, run core.ID, after int64) (all []core.Event, err error) {
	last := after
	for more := true; more; {
		var part listed
		if err := s.query(ctx, s.workflowOf(run), queryEvents, run, &part, last); err != nil {
			return nil, err
		}
		for _, p := range part.Pages {
			body, err := loadJSON[pageBody](s.blobsOf(run), value{Blob: p.Blob})
			if err != nil {
				return nil, err
			}
			all = append(all, body.Events...)
		}
		all = append(all, part.Events...)
		if more = part.More; more {
			last = part.Events[len(part.Events)-1].Seq
		}
	}
	return slices.DeleteFunc(all, func(e core.Event) bool { return e.Seq <= after }), nil
}

// Approvals implements engine.Runs. Those of a run, and those below an agent, are as of all
// that was kept before; those of all runs are of the runs that this process has met, and of
// those that the index of the service knows by now.
func (s *Store) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if f.Into != nil && f.RunID == "" {
		return nil, store.NoRun(f.RunID)
	}
	if f.Now.IsZero() {
		f.Now = s.opts.Clock.Now()
	}
	runs, err := s.runsOf(ctx, f)
	if err != nil {
		return nil, err
	}
	var list []core.Approval
	for _, id := range runs {
		var at found
		err := s.query(ctx, s.workflowOf(id), queryApprovals, id, &at)
		if core.CodeOf(err) == core.CodeNotFound && f.Into == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		run := approval.RunAt(at.Run, s.opts.Clock.Now())
		if f.Into != nil {
			if f.Owner != "" && run.Owner != f.Owner || f.Workspace != "" && run.Workspace != f.Workspace {
				return nil, store.NoRun(id)
			}
			*f.Into = run
		}
		s.recent.meet(run, at.Approvals...)
		for _, q := range at.Approvals {
			a := q.Approval
			if a.State == core.ApprovalOpen && run.State == core.RunExpired {
				a.State = core.ApprovalExpired
			}
			if !selected(a, run, f) {
				continue
			}
			if a.Context, err = load(s.blobsOf(id), q.Context); err != nil {
				return nil, err
			}
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, core.BySoonest)
	if f.Limit > 0 {
		list = list[:min(f.Limit, len(list))]
	}
	return list, nil
}

// runsOf are the runs whose approvals a filter can select.
func (s *Store) runsOf(ctx context.Context, f store.ApprovalFilter) ([]core.ID, error) {
	switch {
	case f.RunID != "":
		return []core.ID{f.RunID}, nil
	case f.Agent != "":
		var below []core.ID
		err := s.query(ctx, s.workflowOf(f.Agent), queryBelow, f.Agent, &below)
		if core.CodeOf(err) == core.CodeNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return append(below, f.Agent), nil
	}
	if f.ID != "" {
		if run, ok := s.recent.asking(f.ID); ok {
			return []core.ID{run}, nil
		}
		if runs, err := s.asking(ctx, f.ID); err != nil || len(runs) > 0 {
			return runs, err
		}
	}
	return s.asked(ctx)
}

func selected(a core.Approval, run core.Run, f store.ApprovalFilter) bool {
	switch {
	case f.ID != "" && a.ID != f.ID, f.Workspace != "" && a.Workspace != f.Workspace, f.Owner != "" && a.Owner != f.Owner,
		f.Agent != "" && a.Agent != f.Agent, f.Digest != "" && a.Digest != f.Digest:
		return false
	case f.Decidable && (run.State.Final() || !approval.CanDecide(a, f.Now)):
		return false
	}
	return len(f.States) == 0 || slices.Contains(f.States, a.StateAt(f.Now))
}

// approval is one approval, nil where there is none. One that this process has not met is looked
// for again, because the index of the service lags behind.
func (s *Store) approval(ctx context.Context, id core.ID) (*core.Approval, error) {
	for try := 0; ; try++ {
		list, err := s.Approvals(ctx, store.ApprovalFilter{ID: id})
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			return &list[0], nil
		}
		if try == indexTries {
			return nil, nil
		}
		again := time.NewTimer(indexLag / indexTries)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// indexLag is for how long a run may be missing in the index of the service.
const (
	indexLag   = 2 * time.Second
	indexTries = 10
)

// asked are the runs that have approvals, as far as the index knows, and those that this process
// has met.
func (s *Store) asked(ctx context.Context) ([]core.ID, error) {
	found, err := s.list(ctx, s.indexed()+" AND "+askedName+" IS NOT NULL")
	if err != nil {
		return nil, err
	}
	ids := slices.AppendSeq(s.runIDs(found), maps.Keys(s.recent.runs()))
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
