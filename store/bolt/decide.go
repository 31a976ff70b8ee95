package bolt

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Decide implements store.Decider. An approval of a run that has expired is
// core.CodeWorkflowExpired: it cannot be asked again.
func (s *Store) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error) {
	shown, err := boundsOf(ctx, s, d)
	if err != nil {
		return core.Approval{}, err
	}
	return s.onApproval(ctx, func(t *txn) (*approvalRow, error) { return t.decide(d, renew, shown) })
}

// boundsOf is the context of an approval that is decided with bounds, which are about it; nil
// for another decision. It never changes, and may be long: it is read before the transaction.
func boundsOf(ctx context.Context, s *Store, d core.Decision) (json.RawMessage, error) {
	if d.Answer == nil || d.Answer.Shape == nil {
		return nil, nil
	}
	list, err := s.Approvals(ctx, store.ApprovalFilter{ID: d.ApprovalID})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0].Context, nil
}

// Extend implements store.Decider. A zero time lets the approval never expire.
func (s *Store) Extend(ctx context.Context, id core.ID, until time.Time) (core.Approval, error) {
	return s.onApproval(ctx, func(t *txn) (*approvalRow, error) {
		row, run, err := t.undecided(id)
		if err != nil {
			return nil, err
		}
		before := row.Approval
		if row.Approval, err = approval.Extend(before, until, t.now); err != nil {
			return nil, err
		}
		if run == nil {
			return nil, store.NoRun(row.RunID)
		}
		ends := row.ExpiresAt // while calls are halted the row has none
		if err := t.putApproval(run, &before, row); err != nil {
			return nil, err
		}
		old := *run
		approval.Outlast(&run.Run, ends, t.now)
		return row, t.putRun(&old, run)
	})
}

// Renew implements store.Decider. It follows an approval to the one under
// which it was renewed; when that has expired too, that one is renewed.
func (s *Store) Renew(ctx context.Context, id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error) {
	if !store.ValidID(fresh) {
		return core.Approval{}, core.Errorf(core.CodeInvalidArguments, "%q cannot be an id", fresh)
	}
	return s.onApproval(ctx, func(t *txn) (*approvalRow, error) { return t.renew(id, fresh, now.UTC(), until, by) })
}

// onApproval runs f and returns the approval that it leaves, with its context.
func (s *Store) onApproval(ctx context.Context, f func(*txn) (*approvalRow, error)) (core.Approval, error) {
	var row *approvalRow
	err := s.update(ctx, func(t *txn) (err error) {
		row, err = f(t)
		return err
	})
	if err != nil {
		return core.Approval{}, err
	}
	a := row.Approval
	a.Context, err = s.blobs.load(a.RunID, row.context)
	return a, err
}

// undecided returns an approval and its run. Unless the approval was decided,
// the run must not have ended.
func (t *txn) undecided(id core.ID) (*approvalRow, *runRow, error) {
	row, err := t.mustApproval(id)
	if err != nil {
		return nil, nil, err
	}
	run, err := t.run(row.RunID)
	if err != nil {
		return nil, nil, err
	}
	if run == nil {
		if row.State == core.ApprovalApproved || row.State == core.ApprovalDenied {
			return row, nil, nil
		}
		return nil, nil, store.NoRun(row.RunID)
	}
	if err := approval.Undecided(row.Approval, run.Run, t.now); err != nil {
		return nil, nil, err
	}
	return row, run, nil
}

// decide decides an approval; shown is its context where the rule of approvals needs it.
func (t *txn) decide(d core.Decision, renew store.Renewal, shown json.RawMessage) (*approvalRow, error) {
	row, run, err := t.undecided(d.ApprovalID)
	if err == nil && renew.Fresh != "" {
		if row, err = t.renewed(row, renew, d.By); err == nil {
			row, run, err = t.undecided(row.ID) // renewing has changed the run
		}
	}
	if err != nil {
		return nil, err
	}
	before := row.Approval
	before.Context = shown
	if run == nil {
		_, err := approval.Decide(before, d, t.now)
		return row, err
	}
	g, err := t.guard()
	if err != nil {
		return nil, err
	}
	old := *run
	res, write, err := approval.Rule(g, before, &run.Run, d, renew.RunUntil, t.now)
	if err != nil || !write {
		return row, err
	}
	if res.Changed {
		if err := t.settle(run, before, row, res); err != nil {
			return nil, err
		}
	}
	return row, t.putRun(&old, run)
}

// renewed is what a decision about an approval decides: the newest that asks the
// same, asked again where that has expired, too.
func (t *txn) renewed(row *approvalRow, renew store.Renewal, by core.Actor) (*approvalRow, error) {
	for row.RenewedBy != "" {
		next, _, err := t.undecided(row.RenewedBy)
		if err != nil {
			return nil, err
		}
		row = next
	}
	if row.StateAt(t.now) != core.ApprovalExpired {
		return row, nil
	}
	return t.renew(row.ID, renew.Fresh, t.now, renew.Until, by)
}

func (t *txn) renew(id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (*approvalRow, error) {
	row, run, err := t.undecided(id)
	if err != nil {
		return nil, err
	}
	renewed := false
	for row.RenewedBy != "" {
		if row, run, err = t.undecided(row.RenewedBy); err != nil {
			return nil, err
		}
		renewed = true
	}
	state := row.StateAt(now)
	if state == core.ApprovalOpen || renewed && state != core.ApprovalExpired {
		return row, nil
	}
	again, err := approval.Renew(row.Approval, fresh, now, core.UTC(until), by)
	if err != nil {
		return nil, err
	}
	if run == nil || run.State.Final() {
		return nil, core.Errorf(core.CodeNotWaiting, "the run %s has ended", row.RunID.Short()).WithRun(row.RunID)
	}
	if other, err := t.approval(fresh); err != nil || other != nil {
		return nil, core.Errorf(core.CodeInternal, "the approval %s exists already", fresh)
	}
	old := *run
	before := row.Approval
	row.RenewedBy = fresh
	if before.State == core.ApprovalOpen { // nobody has recorded the expiry yet
		if err := t.settle(run, before, row, approval.Expire(row.Approval, now)); err != nil {
			return nil, err
		}
	} else if err := t.putApproval(run, &before, row); err != nil {
		return nil, err
	}
	next := &approvalRow{Approval: again, context: row.context}
	if err := t.putApproval(run, nil, next); err != nil {
		return nil, err
	}
	if err := t.addEvents(run, approval.Requested(again)); err != nil {
		return nil, err
	}
	approval.Outlast(&run.Run, again.ExpiresAt, t.now)
	return next, t.putRun(&old, run)
}

// RequestAbort implements store.Decider.
func (s *Store) RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error) {
	return s.onRun(ctx, id, func(t *txn, run *runRow) error {
		if run.Abort != nil {
			return nil
		}
		old := *run
		run.Abort = &req
		run.UpdatedAt = t.now
		if err := t.addAudit(approval.AbortRows(run.Run, req)...); err != nil {
			return err
		}
		return t.putRun(&old, run)
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
	return s.onRun(ctx, id, func(t *txn, run *runRow) error {
		event, err := approval.ReplanEvent(event, program, by, t.now)
		if err != nil {
			return err
		}
		return t.replan(run, program, raw, event)
	})
}

// replan adds a DAG version. Questions whether a layer may start that are open
// were about another list of calls: the runner asks anew.
func (t *txn) replan(run *runRow, program core.Program, raw []byte, event core.Event) error {
	state, err := t.standing(run)
	if err != nil {
		return err
	}
	old := *run
	if err := approval.Replan(&run.Run, state, program, t.now); err != nil {
		return err
	}
	run.Replanned = true
	if err := t.put(t.runBucket(run.ID).Bucket(bucketPrograms), seqKey(int64(program.Version)), raw); err != nil {
		return err
	}
	if err := t.addEvents(run, event); err != nil {
		return err
	}
	if err := t.supersedeLayers(run); err != nil {
		return err
	}
	return t.putRun(&old, run)
}

// standing is the state of a run that is not past its expiry: one whose runner
// was killed has been interrupted, although nobody has recorded it yet.
func (t *txn) standing(run *runRow) (core.RunState, error) {
	if run.State != core.RunRunning {
		return run.State, nil
	}
	alive, err := t.runners.alive(run.Runner)
	if err != nil {
		return "", fileFailure("read", t.runners.place(), err)
	}
	if !alive {
		return core.RunInterrupted, nil
	}
	return run.State, nil
}

// supersedeLayers takes the open questions whether a layer may start back.
func (t *txn) supersedeLayers(run *runRow) error {
	for _, id := range t.approvalsOf(run.ID) {
		row, err := t.mustApproval(id)
		if err != nil {
			return err
		}
		if row.Type != core.ApproveLayer || row.State != core.ApprovalOpen {
			continue
		}
		if err := t.settle(run, row.Approval, row, approval.Supersede(row.Approval, t.now, "the run was planned anew")); err != nil {
			return err
		}
	}
	return nil
}

// Expire implements store.Decider.
func (s *Store) Expire(ctx context.Context, now time.Time) (int, error) {
	n := 0
	err := s.submit(ctx, &op{write: true, sweeps: true, f: func(t *txn) (err error) {
		n, err = t.expireDue(now, 0)
		return err
	}})
	return n, err
}

// expireDue records what expired by a time, at most limit of each kind (0: all).
func (t *txn) expireDue(now time.Time, limit int) (int, error) {
	if h, err := t.halted(); err != nil || h != nil {
		return 0, err // time stands still
	}
	n := 0
	for _, id := range t.dueIn(bucketRunExpiry, now, limit) {
		if err := t.expireRun(id, now); err != nil {
			return n, err
		}
		n++
	}
	for _, id := range t.dueIn(bucketOpen, now, limit) {
		if err := t.expireApproval(id, now); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (t *txn) dueIn(index []byte, now time.Time, limit int) []core.ID {
	var ids []core.ID
	c := t.bucket(index).Cursor()
	for k, _ := c.First(); k != nil && due(k, now); k, _ = c.Next() {
		if ids = append(ids, timeKeyID(k)); len(ids) == limit {
			break
		}
	}
	return ids
}

func (t *txn) expireApproval(id core.ID, now time.Time) error {
	row, err := t.mustApproval(id)
	if err != nil {
		return err
	}
	run, err := t.mustRun(row.RunID)
	if err != nil {
		return err
	}
	old := *run
	if err := t.settle(run, row.Approval, row, approval.Expire(row.Approval, now)); err != nil {
		return err
	}
	return t.putRun(&old, run)
}

// expireRun ends a run for good. Its runner, should there be one, is fenced
// off; its open approvals expire with it.
func (t *txn) expireRun(id core.ID, now time.Time) error {
	run, err := t.mustRun(id)
	if err != nil {
		return err
	}
	old := *run
	for _, a := range t.approvalsOf(id) {
		row, err := t.mustApproval(a)
		if err != nil {
			return err
		}
		if row.State != core.ApprovalOpen {
			continue
		}
		if err := t.settle(run, row.Approval, row, approval.Expire(row.Approval, now)); err != nil {
			return err
		}
	}
	if err := t.addEvents(run, approval.ExpireRun(&run.Run, now)); err != nil {
		return err
	}
	return t.putRun(&old, run)
}
