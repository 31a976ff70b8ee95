package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Decide implements store.Decider. An approval of a run that has expired is
// core.CodeWorkflowExpired: it cannot be asked again.
func (s *Store) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error) {
	return s.onApproval(ctx, d.ApprovalID, func(t *txn, row *approvalRow, run *runRow) (*approvalRow, error) {
		g, err := t.guard(" FOR SHARE")
		if err != nil {
			return nil, err
		}
		if renew.Fresh != "" {
			if row, err = t.renewed(row, run, renew, d.By); err != nil {
				return nil, err
			}
		}
		return t.decide(g, row, run, d, renew)
	})
}

// Extend implements store.Decider. A zero time lets the approval never expire.
func (s *Store) Extend(ctx context.Context, id core.ID, until time.Time) (core.Approval, error) {
	return s.onApproval(ctx, id, func(t *txn, row *approvalRow, run *runRow) (*approvalRow, error) {
		before := row.Approval
		var err error
		if row.Approval, err = approval.Extend(before, until, t.now); err != nil {
			return nil, err
		}
		ends := row.ExpiresAt // while calls are halted the row has none
		if err := t.putApproval(run, &before, row); err != nil {
			return nil, err
		}
		approval.Outlast(&run.Run, ends, t.now)
		return row, t.putRun(run)
	})
}

// Renew implements store.Decider. It follows an approval to the one under
// which it was renewed; when that has expired too, that one is renewed.
func (s *Store) Renew(ctx context.Context, id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error) {
	if !store.ValidID(fresh) {
		return core.Approval{}, core.Errorf(core.CodeInvalidArguments, "%q cannot be an id", fresh)
	}
	return s.onApproval(ctx, id, func(t *txn, row *approvalRow, run *runRow) (*approvalRow, error) {
		return t.renew(row, run, fresh, now.UTC(), until, by)
	})
}

// onApproval runs f on an approval and its run, both locked, and returns the
// approval that it leaves. Unless the approval was decided, its run has not ended.
func (s *Store) onApproval(ctx context.Context, id core.ID, f func(*txn, *approvalRow, *runRow) (*approvalRow, error)) (core.Approval, error) {
	var out core.Approval
	err := s.update(ctx, func(t *txn) error {
		var run *runRow
		var row *approvalRow
		if err := t.read(readRun(&run, lockRunOf, id), readApproval(&row, id), t.readHalt(), t.readHead()); err != nil {
			return err
		}
		if row == nil {
			return approval.NotFound(id)
		}
		if run == nil {
			return store.NoRun(row.RunID)
		}
		if err := approval.Undecided(row.Approval, run.Run, t.now); err != nil {
			return err
		}
		left, err := f(t, row, run)
		if err == nil {
			out = left.Approval
		}
		return err
	})
	if err != nil {
		return core.Approval{}, err
	}
	return out, nil
}

func (t *txn) decide(g core.Guard, row *approvalRow, run *runRow, d core.Decision, renew store.Renewal) (*approvalRow, error) {
	res, write, err := approval.Rule(g, row.Approval, &run.Run, d, renew.RunUntil, t.now)
	if err != nil {
		return nil, err
	}
	if !write {
		return row, nil
	}
	if res.Changed {
		if err := t.settle(run, row, res); err != nil {
			return nil, err
		}
	}
	return row, t.putRun(run)
}

// newest follows an approval to the one under which it was asked again last.
func (t *txn) newest(row *approvalRow, run *runRow) (*approvalRow, error) {
	for row.RenewedBy != "" {
		next, err := t.approval(row.RenewedBy)
		if err == nil && next == nil {
			err = approval.NotFound(row.RenewedBy)
		}
		if err == nil {
			err = approval.Undecided(next.Approval, run.Run, t.now)
		}
		if err != nil {
			return nil, err
		}
		row = next
	}
	return row, nil
}

// renewed is what a decision about an approval decides: the newest that asks the
// same, asked again where that has expired, too.
func (t *txn) renewed(row *approvalRow, run *runRow, renew store.Renewal, by core.Actor) (*approvalRow, error) {
	row, err := t.newest(row, run)
	if err != nil || row.StateAt(t.now) != core.ApprovalExpired {
		return row, err
	}
	return t.renew(row, run, renew.Fresh, t.now, renew.Until, by)
}

func (t *txn) renew(row *approvalRow, run *runRow, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (*approvalRow, error) {
	renewed := row.RenewedBy != ""
	row, err := t.newest(row, run)
	if err != nil {
		return nil, err
	}
	state := row.StateAt(now)
	if state == core.ApprovalOpen || renewed && state != core.ApprovalExpired {
		return row, nil
	}
	again, err := approval.Renew(row.Approval, fresh, now, core.UTC(until), by)
	if err != nil {
		return nil, err
	}
	if run.State.Final() {
		return nil, approval.Ended(run.Run)
	}
	if other, err := t.approval(fresh); err != nil || other != nil {
		if err == nil {
			err = core.Errorf(core.CodeInternal, "the approval %s exists already", fresh)
		}
		return nil, err
	}
	return t.askAgain(row, run, again, now)
}

// askAgain writes the copy of an approval that has expired.
func (t *txn) askAgain(row *approvalRow, run *runRow, again core.Approval, now time.Time) (*approvalRow, error) {
	before := row.Approval
	row.RenewedBy = again.ID
	if before.State == core.ApprovalOpen { // nobody has recorded the expiry yet
		if err := t.settle(run, row, approval.Expire(row.Approval, now)); err != nil {
			return nil, err
		}
	} else if err := t.putApproval(run, &before, row); err != nil {
		return nil, err
	}
	next := &approvalRow{Approval: again}
	if err := t.putApproval(run, nil, next); err != nil {
		return nil, err
	}
	if err := t.addEvents(run, approval.Requested(again)); err != nil {
		return nil, err
	}
	approval.Outlast(&run.Run, again.ExpiresAt, t.now)
	return next, t.putRun(run)
}

// Record implements store.Decider.
func (s *Store) Record(ctx context.Context, rows ...core.AuditRow) error {
	if len(rows) == 0 {
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.inflight.Done()
	return s.patiently(ctx, briefly, func(ctx context.Context) error {
		err := s.transact(ctx, func(t *txn) error {
			t.record(rows)
			return nil
		})
		var lost *unknown
		if errors.As(err, &lost) && passing(err) { // rows have no name by which one could tell whether they were kept
			return core.Errorf(core.CodeStoreFailed,
				"the connection to PostgreSQL was lost while the audit log was written: %w; look whether the rows were kept before trying again", err)
		}
		return err
	})
}

// record queues rows about no run.
func (t *txn) record(rows []core.AuditRow) {
	for _, row := range rows {
		if row.At.IsZero() {
			row.At = t.now
		}
		row.At = row.At.UTC()
		t.audit = append(t.audit, row)
	}
}
