package service

import (
	"context"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// scoped is the part of a store that belongs to an owner or to a workspace. All
// that a view reads and moves goes through it, so that nothing can be forgotten:
// what is not the scope's does not exist. The engine has the whole store.
type scoped struct {
	store.Store
	scope api.Scope
}

func (s *scoped) sees(run core.Run) bool {
	return (s.scope.Owner == "" || run.Owner == s.scope.Owner) && (!s.scope.Confined || run.Workspace == s.scope.Workspace)
}

func noRun(id core.ID) error {
	return core.Errorf(core.CodeNotFound, "there is no run %s", core.Visible(string(id), 60, false)).WithNext("pml", "workflows", "ls")
}

func noApproval(id core.ID) error {
	return core.Errorf(core.CodeNotFound, "there is no approval %s", core.Visible(id.Short(), 60, false)).WithNext("pml", "approvals", "ls")
}

// Run implements store.Reader.
func (s *scoped) Run(ctx context.Context, id core.ID) (core.Run, error) {
	run, err := s.Store.Run(ctx, id)
	if core.CodeOf(err) == core.CodeNotFound || err == nil && !s.sees(run) {
		return core.Run{}, noRun(id)
	}
	return run, err
}

// Program implements store.Reader.
func (s *scoped) Program(ctx context.Context, id core.ID) (core.Program, error) {
	if _, err := s.Run(ctx, id); err != nil {
		return core.Program{}, err
	}
	return s.Store.Program(ctx, id)
}

// Journal implements store.Reader.
func (s *scoped) Journal(ctx context.Context, id core.ID, after int64) ([]core.Record, error) {
	if _, err := s.Run(ctx, id); err != nil {
		return nil, err
	}
	return s.Store.Journal(ctx, id, after)
}

// Checkpoints implements store.Reader.
func (s *scoped) Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error) {
	if _, err := s.Run(ctx, id); err != nil {
		return nil, err
	}
	return s.Store.Checkpoints(ctx, id)
}

// findAtOnce bounds how many ids of others a prefix is looked for among.
const findAtOnce = 1000

// Find implements store.Reader.
func (s *scoped) Find(ctx context.Context, prefix string, limit int) (store.Found, error) {
	all, err := s.Store.Find(ctx, prefix, findAtOnce)
	if err != nil {
		return store.Found{}, err
	}
	var out store.Found
	for _, id := range all.Runs {
		switch _, err := s.Run(ctx, id); core.CodeOf(err) {
		case "":
			out.Runs = append(out.Runs, id)
		case core.CodeNotFound:
		default:
			return store.Found{}, err
		}
	}
	for _, id := range all.Approvals {
		switch err := s.approval(ctx, id); core.CodeOf(err) {
		case "":
			out.Approvals = append(out.Approvals, id)
		case core.CodeNotFound:
		default:
			return store.Found{}, err
		}
	}
	if limit > 0 {
		out.Runs, out.Approvals = out.Runs[:min(limit, len(out.Runs))], out.Approvals[:min(limit, len(out.Approvals))]
	}
	return out, nil
}

// Runs implements store.Reader.
func (s *scoped) Runs(ctx context.Context, f store.RunFilter) ([]core.Run, error) {
	if f.Before != "" {
		if run, err := s.Store.Run(ctx, f.Before); err == nil && !s.sees(run) {
			return nil, noRun(f.Before)
		}
	}
	if s.scope.Owner != "" {
		f.Owner = s.scope.Owner
	}
	if s.scope.Confined {
		f.Workspace = s.scope.Workspace
	}
	list, err := s.Store.Runs(ctx, f)
	return slices.DeleteFunc(list, func(r core.Run) bool { return !s.sees(r) }), err
}

// Approvals implements store.Reader.
func (s *scoped) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if s.scope.Owner != "" {
		f.Owner = s.scope.Owner
	}
	if s.scope.Confined {
		f.Workspace = s.scope.Workspace
	}
	return s.Store.Approvals(ctx, f)
}

// FlowRuns implements store.Flows: those of the calls of runs that the scope sees.
func (s *scoped) FlowRuns(ctx context.Context, f store.FlowRunFilter) ([]core.FlowRun, error) {
	if s.scope.Owner != "" {
		f.Owner = s.scope.Owner
	}
	limit := f.Limit
	if s.scope.Confined {
		f.Limit = 0
	}
	list, err := s.Store.FlowRuns(ctx, f)
	if err != nil || !s.scope.Confined {
		return list, err
	}
	seen := map[core.ID]bool{}
	list = slices.DeleteFunc(list, func(r core.FlowRun) bool {
		if r.Workspace != "" {
			return r.Workspace != s.scope.Workspace
		}
		// A flow of the home has runs in all workspaces.
		sees, known := seen[r.RunID]
		if !known && err == nil {
			_, missing := s.Run(ctx, r.RunID)
			if sees = missing == nil; !sees && core.CodeOf(missing) != core.CodeNotFound {
				err = missing
			}
			seen[r.RunID] = sees
		}
		return !sees
	})
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, err
}

// Events implements store.Reader.
func (s *scoped) Events(ctx context.Context, f store.EventFilter) ([]core.Event, error) {
	if s.scope.Owner != "" {
		f.Owner = s.scope.Owner
	}
	if f.RunID != "" {
		if _, err := s.Run(ctx, f.RunID); err != nil {
			return nil, err
		}
		return s.Store.Events(ctx, f)
	}
	if !s.scope.Confined {
		return s.Store.Events(ctx, f)
	}
	seen := map[core.ID]bool{}
	var out []core.Event
	for { // a page of which little is left is not the last one
		list, err := s.Store.Events(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			f.After = e.Seq
			mine, known := seen[e.RunID]
			if !known {
				_, err := s.Run(ctx, e.RunID)
				mine = err == nil
				seen[e.RunID] = mine
			}
			if mine {
				out = append(out, e)
			}
			if f.Limit > 0 && len(out) == f.Limit {
				return out, nil
			}
		}
		if f.Limit <= 0 || len(list) < f.Limit {
			return out, nil
		}
	}
}

// auditAtOnce bounds how many rows of others are looked through at once.
const auditAtOnce = 1000

// Audit implements store.Reader: the rows of the scope's runs.
func (s *scoped) Audit(ctx context.Context, f store.AuditFilter) ([]core.AuditRow, error) {
	mine := map[core.ID]bool{"": false}
	var out []core.AuditRow
	limit := f.Limit
	for f.Limit = auditAtOnce; ; {
		rows, err := s.Store.Audit(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if f.Newest {
				f.Before = r.Seq
			} else {
				f.After = r.Seq
			}
			sees, known := mine[r.RunID]
			if !known {
				_, err := s.Run(ctx, r.RunID)
				if err != nil && core.CodeOf(err) != core.CodeNotFound {
					return nil, err
				}
				sees = err == nil
				mine[r.RunID] = sees
			}
			if sees {
				out = append(out, r)
			}
			if limit > 0 && len(out) == limit {
				return out, nil
			}
		}
		if len(rows) < auditAtOnce {
			return out, nil
		}
	}
}

// approval finds out whether an approval is the scope's.
func (s *scoped) approval(ctx context.Context, id core.ID) error {
	list, err := s.Approvals(ctx, store.ApprovalFilter{ID: id, Limit: 1})
	if err == nil && len(list) == 0 {
		err = noApproval(id)
	}
	return err
}

// Decide implements store.Decider.
func (s *scoped) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error) {
	if err := s.approval(ctx, d.ApprovalID); err != nil {
		return core.Approval{}, err
	}
	return s.Store.Decide(ctx, d, renew)
}

// Extend implements store.Decider.
func (s *scoped) Extend(ctx context.Context, id core.ID, until time.Time) (core.Approval, error) {
	if err := s.approval(ctx, id); err != nil {
		return core.Approval{}, err
	}
	return s.Store.Extend(ctx, id, until)
}

// Renew implements store.Decider.
func (s *scoped) Renew(ctx context.Context, id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error) {
	if err := s.approval(ctx, id); err != nil {
		return core.Approval{}, err
	}
	return s.Store.Renew(ctx, id, fresh, now, until, by)
}

// RequestAbort implements store.Decider.
func (s *scoped) RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error) {
	if _, err := s.Run(ctx, id); err != nil {
		return core.Run{}, err
	}
	return s.Store.RequestAbort(ctx, id, req)
}

// Replan implements store.Decider.
func (s *scoped) Replan(ctx context.Context, id core.ID, p core.Program, by core.Actor, e core.Event) (core.Run, error) {
	if _, err := s.Run(ctx, id); err != nil {
		return core.Run{}, err
	}
	return s.Store.Replan(ctx, id, p, by, e)
}

// Remove implements store.Writer.
func (s *scoped) Remove(ctx context.Context, ids ...core.ID) error {
	for _, id := range ids {
		if _, err := s.Run(ctx, id); err != nil {
			return err
		}
	}
	return s.Store.Remove(ctx, ids...)
}
