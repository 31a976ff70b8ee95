package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// RequestAbort implements store.Decider.
func (s *Store) RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error) {
	return s.onRun(ctx, id, func(t *txn, run *runRow) error {
		if run.Abort != nil {
			return nil
		}
		run.Abort, run.UpdatedAt = &req, t.now
		t.audit = append(t.audit, approval.AbortRows(run.Run, req)...)
		return t.putRun(run)
	})
}

// onRun runs f on a run that has not ended and returns it as f leaves it.
func (s *Store) onRun(ctx context.Context, id core.ID, f func(*txn, *runRow) error) (core.Run, error) {
	err := s.update(ctx, func(t *txn) error {
		run, err := t.mustRun(id)
		if err != nil {
			return err
		}
		if err := approval.NotEnded(run.Run, t.now); err != nil {
			return err
		}
		return f(t, run)
	})
	if err != nil {
		return core.Run{}, err
	}
	return s.Run(ctx, id)
}

// Replan implements store.Decider.
func (s *Store) Replan(ctx context.Context, id core.ID, program core.Program, by core.Actor, event core.Event) (core.Run, error) {
	raw, err := store.Encode(&program)
	if err != nil {
		return core.Run{}, err
	}
	tried := false
	return s.onRun(ctx, id, func(t *txn, run *runRow) error {
		if tried && run.DAGVersion == program.Version {
			if same, err := t.sameProgram(id, program.Version, raw); same || err != nil {
				return err // the try before was kept
			}
		}
		tried = true
		event, err := approval.ReplanEvent(event, program, by, t.now)
		if err != nil {
			return err
		}
		return t.replan(run, program, raw, event)
	})
}

func (t *txn) sameProgram(id core.ID, version int, raw []byte) (same bool, err error) {
	err = t.read(query{"SELECT program = $3 FROM workflow_dags WHERE workflow_id = $1 AND version = $2",
		[]any{string(id), version, raw}, func(row pgx.Row) error { return row.Scan(&same) }})
	return same, err
}

// replan adds a DAG version. Questions whether a layer may start that are open
// were about another list of calls: the runner asks anew.
func (t *txn) replan(run *runRow, program core.Program, raw []byte, event core.Event) error {
	state, err := t.standing(run)
	if err != nil {
		return err
	}
	if err := approval.Replan(&run.Run, state, program, t.now); err != nil {
		return err
	}
	t.putProgram(run, program.Version, raw)
	if err := t.addEvents(run, event); err != nil {
		return err
	}
	if err := t.supersedeLayers(run); err != nil {
		return err
	}
	return t.putRun(run)
}

// standing is the state of a run that is not past its expiry: one whose runner
// was killed has been interrupted, although nobody has recorded it yet.
func (t *txn) standing(run *runRow) (core.RunState, error) {
	if run.State != core.RunRunning {
		return run.State, nil
	}
	alive, err := t.alive(run.Runner)
	if err == nil && !alive {
		return core.RunInterrupted, nil
	}
	return run.State, err
}

// supersedeLayers takes the open questions whether a layer may start back.
func (t *txn) supersedeLayers(run *runRow) error {
	open, err := t.openOf(run.ID)
	if err != nil {
		return err
	}
	for _, row := range open {
		if row.Type != core.ApproveLayer {
			continue
		}
		if err := t.settle(run, row, approval.Supersede(row.Approval, t.now, "the run was planned anew")); err != nil {
			return err
		}
	}
	return nil
}

// Expire implements store.Decider.
func (s *Store) Expire(ctx context.Context, now time.Time) (n int, err error) {
	err = s.update(ctx, func(t *txn) (err error) {
		n, err = t.expireDue(now.UTC(), 0)
		return err
	})
	return n, err
}

// sweepAtOnce bounds what a commit does for others that expired.
const sweepAtOnce = 100

// sweep records what has expired, for the commit that has come across it.
func (s *Store) sweep(ctx context.Context) {
	err := s.patiently(ctx, briefly, func(ctx context.Context) error {
		return s.transact(ctx, func(t *txn) error {
			_, err := t.expireDue(t.now, sweepAtOnce)
			return err
		})
	})
	if err != nil && core.CodeOf(err) != core.CodeCancelled {
		s.opts.Logger.Warn("cannot record what has expired; the next writer does", "error", err)
	}
}

// dueRuns locks the runs that are due and those with an approval that is.
const dueRuns = "SELECT " + runColumns + ` FROM workflows w WHERE w.id IN (
	(SELECT id FROM workflows WHERE state IN ('waiting', 'interrupted') AND expires_at <= $1 LIMIT $2) UNION
	(SELECT workflow_id FROM approvals WHERE state = 'open' AND expires_at <= $1 LIMIT $2)) ORDER BY w.id FOR UPDATE`

// expireDue records what expired by a time, at most limit of each kind (0: all).
func (t *txn) expireDue(now time.Time, limit int) (int, error) {
	if h, err := t.halted(); err != nil || h != nil {
		return 0, err // time stands still
	}
	runs, err := rows(t, func(row pgx.Row) (*runRow, error) { return scanRun(row) }, dueRuns, now.UnixNano(), limitOf(limit))
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	ids := make([]core.ID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	open, err := t.openOf(ids...)
	if err != nil {
		return 0, err
	}
	of := map[core.ID][]*approvalRow{}
	for _, a := range open {
		of[a.RunID] = append(of[a.RunID], a)
	}
	n := 0
	for _, run := range runs {
		did, err := t.expire(run, of[run.ID], now)
		if err != nil {
			return 0, err
		}
		n += did
	}
	return n, nil
}

// expire records what is due of one run. One that has expired itself has ended
// for good: its runner, should there be one, is fenced off, and its open
// approvals expire with it.
func (t *txn) expire(run *runRow, open []*approvalRow, now time.Time) (n int, err error) {
	gone := approval.RunAt(run.Run, now).State == core.RunExpired && run.State != core.RunExpired
	for _, row := range open {
		if !gone && row.StateAt(now) != core.ApprovalExpired {
			continue
		}
		if err := t.settle(run, row, approval.Expire(row.Approval, now)); err != nil {
			return 0, err
		}
		if !gone {
			n++
		}
	}
	if gone {
		if err := t.addEvents(run, approval.ExpireRun(&run.Run, now)); err != nil {
			return 0, err
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, t.putRun(run)
}

// Remove implements store.Writer. Ids that no run has are core.CodeNotFound,
// and nothing is removed.
func (s *Store) Remove(ctx context.Context, ids ...core.ID) error {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	tried := false
	return s.update(ctx, func(t *txn) error {
		again := tried
		tried = true
		for _, id := range sorted {
			row, err := t.run(id)
			if err != nil {
				return err
			}
			if row == nil && again {
				return nil // the try before was kept
			}
			if row == nil {
				return store.NoRun(id)
			}
			if approval.RunAt(row.Run, t.now).State.Final() {
				continue
			}
			state, err := t.standing(row)
			if err != nil {
				return err
			}
			return core.Errorf(core.CodeNotWaiting, "the run %s has not ended: it is %s; abort it first, nothing was removed",
				id.Short(), state).WithRun(id).WithNext("pml", "abort", string(id))
		}
		if len(sorted) == 0 {
			return nil
		}
		for _, sql := range []string{
			"DELETE FROM steps WHERE workflow_id = ANY ($1)", "DELETE FROM workflow_dags WHERE workflow_id = ANY ($1)",
			"DELETE FROM approvals WHERE workflow_id = ANY ($1)", "DELETE FROM flow_runs WHERE workflow_id = ANY ($1)",
			"DELETE FROM workflows WHERE id = ANY ($1)",
		} {
			t.writes.Queue(sql, sorted)
		}
		return t.removeKeys(sorted)
	})
}

// removeKeys gives the idempotency keys of removed runs back.
func (t *txn) removeKeys(ids []core.ID) error {
	runs, err := rows(t, func(row pgx.Row) (*runRow, error) { return scanRun(row) },
		"SELECT "+runColumns+" FROM workflows w WHERE w.id = ANY ($1) AND w.key <> ''", ids)
	if err != nil {
		return err
	}
	for _, r := range runs {
		t.writes.Queue("DELETE FROM idempotency_keys WHERE hash = $1 AND workflow_id = $2",
			keyHash(r.Workspace, r.IdempotencyKey), string(r.ID))
	}
	return nil
}
