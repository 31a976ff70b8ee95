package postgres

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// Claim implements store.Runners. A failed run can be claimed too: a retry
// takes it up again. A runner from which a run was taken is dead for good.
func (s *Store) Claim(ctx context.Context, id core.ID, runner string) (core.Run, error) {
	fence, last := false, ""
	err := s.update(ctx, func(t *txn) error {
		fence = false
		run, err := t.mustRun(id)
		if err != nil {
			return err
		}
		if err := approval.Claimable(run.Run, t.now); err != nil {
			return err
		}
		// Nobody runs what has ended.
		if run.Runner != "" && run.Runner != runner && !run.State.Final() {
			if fence, err = t.bury(run.Runner); err != nil {
				return err
			}
			if fence {
				return core.Errorf(core.CodeFenced, "the run %s is being run by another process (runner %s)", id.Short(), run.Runner).
					WithRun(id).WithNext("pml", "workflows", "watch", string(id))
			}
		}
		if run.State.Final() { // what ended it is past
			run.Abort = nil
		}
		run.Runner = runner
		run.Epoch++
		// Commits that notify wait for each other, to the end of each: runs would be taken over
		// one by one, and their first steps behind them.
		t.quiet = true
		// Nothing is sent for the run before the commit of a step, which waits for the disk with
		// all that was committed before it: a claim that a crash of the database loses was of no
		// consequence.
		t.writes.Queue("SET LOCAL synchronous_commit TO off")
		last, t.own = run.lastStep, true
		return t.putRun(run)
	})
	if err != nil && !fence {
		return core.Run{}, err
	}
	if err == nil {
		s.queue.remember(id, last)
	}
	run, rerr := s.Run(ctx, id)
	if err == nil {
		err = rerr
	}
	return run, err
}

// bury removes the row of a dead runner; alive when it lives. The row is locked
// first, so that nobody comes back between the look and the removal.
func (t *txn) bury(runner string) (alive bool, err error) {
	found, err := rows(t, scanID, "SELECT id FROM runners WHERE id = $1 FOR UPDATE", runner)
	if err != nil || len(found) == 0 { // whose row is gone is dead
		return false, err
	}
	if alive, err = t.alive(runner); err == nil && !alive {
		t.writes.Queue("DELETE FROM runners WHERE id = $1", runner)
	}
	return alive, err
}

// Orphans implements store.Runners.
func (s *Store) Orphans(ctx context.Context, self string, limit int) ([]core.ID, error) {
	return list(ctx, s, scanID, `SELECT w.id FROM workflows w
		WHERE NOT w.remote
		  AND (w.state IN ('running', 'interrupted') OR w.state = 'waiting' AND (w.abort IS NOT NULL OR w.undone > 0 OR w.seen_version < w.dag_version))
		  AND (w.state = 'running' OR w.expires_at IS NULL OR w.expires_at > $1)
		  AND (w.runner IN ('', $2) OR w.runner NOT IN (SELECT id FROM living_runners))
		ORDER BY w.created_at, w.id LIMIT $3`, s.now().UnixNano(), clean(self), limitOf(limit))
}
