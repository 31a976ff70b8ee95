package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// goesOn is a condition of SQL: calls are not halted. It is false where that cannot be
// known, as the row is gone.
const goesOn = "EXISTS (SELECT FROM guard WHERE halt IS NULL)"

const haltSQL = "SELECT halt FROM guard"

// stillHalted ends a transaction that has gone by a halt, and may have held what it wrote:
// it locks the halt until the commit, so that whoever ends that sees it. Where the halt is
// over meanwhile the transaction fails as one to be tried again (passing).
const stillHalted = `DO $$ BEGIN
	PERFORM FROM guard WHERE halt IS NOT NULL FOR SHARE;
	IF NOT FOUND THEN RAISE EXCEPTION 'calls go on meanwhile' USING ERRCODE = 'serialization_failure'; END IF;
END $$`

// Halted implements store.Halts.
func (s *Store) Halted(ctx context.Context) (h *core.Halt, err error) {
	err = s.read(ctx, func(ctx context.Context) (err error) {
		h, err = scanHalt(s.pool.QueryRow(ctx, haltSQL))
		return err
	})
	return h, err
}

// Halt implements store.Halts.
func (s *Store) Halt(ctx context.Context, h core.Halt) (core.Halt, error) {
	h.At = h.At.UTC()
	holds := h
	err := s.update(ctx, func(t *txn) error {
		runs, open, err := t.lockAlive()
		if err != nil {
			return err
		}
		was, err := t.lockHalt()
		if err != nil {
			return err
		}
		if holds = h; was != nil {
			holds = *was
			return nil
		}
		if err := t.setHalt(&h); err != nil {
			return err
		}
		t.audit = append(t.audit, approval.HaltedRow(h))
		return t.changeAlive(runs, open, func(a *core.Approval) { approval.Hold(a, t.now) }, func(r *core.Run) { approval.HoldRun(r, t.now) })
	})
	return holds, err
}

// LetGo implements store.Halts.
func (s *Store) LetGo(ctx context.Context, r core.Resumption) (was *core.Halt, err error) {
	err = s.update(ctx, func(t *txn) error {
		if _, _, err := t.lockAlive(); err != nil { // in the order of locks; once the halt is locked it is read
			return err
		}
		g, err := t.guard(" FOR UPDATE")
		if err != nil {
			return err
		}
		h, err := t.lockHalt()
		if err != nil || h == nil {
			return err // a try before may have been kept: was says so
		}
		if err := approval.MayResume(g, r); err != nil {
			return err
		}
		runs, open, err := t.lockAlive() // with those that were held until the halt was locked
		if err != nil {
			return err
		}
		was = h
		if err := t.setHalt(nil); err != nil {
			return err
		}
		t.audit = append(t.audit, approval.ResumedRow(*h, r))
		return t.changeAlive(runs, open, func(a *core.Approval) { approval.Release(a, *h, t.now) }, func(r *core.Run) { approval.ReleaseRun(r, *h, t.now) })
	})
	if err != nil {
		return nil, err
	}
	return was, nil
}

func scanHalt(row pgx.Row) (*core.Halt, error) {
	var raw []byte
	err := row.Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, core.Errorf(core.CodeStoreFailed, "the database does not say whether calls are halted, so none begins: the row of its table guard is gone; restore it from a backup")
	}
	if err != nil || raw == nil {
		return nil, err
	}
	h := &core.Halt{}
	return h, decode(raw, h)
}

// readHalt reads who has halted calls along with other rows.
func (t *txn) readHalt() query {
	return query{haltSQL, nil, func(row pgx.Row) error {
		h, err := scanHalt(row)
		t.halt = &h
		return err
	}}
}

// halted is who has halted calls, nil for nobody.
func (t *txn) halted() (*core.Halt, error) {
	if t.halt == nil {
		if err := t.read(t.readHalt()); err != nil {
			return nil, err
		}
	}
	return *t.halt, nil
}

// lockHalt is halted of who is about to change it.
func (t *txn) lockHalt() (h *core.Halt, err error) {
	err = t.read(query{haltSQL + " FOR UPDATE", nil, func(row pgx.Row) (err error) {
		h, err = scanHalt(row)
		return err
	}})
	return h, err
}

func (t *txn) setHalt(h *core.Halt) error {
	t.halt = &h
	var raw []byte
	if h != nil {
		var err error
		if raw, err = store.Encode(h); err != nil {
			return err
		}
	}
	t.writes.Queue("UPDATE guard SET halt = $1", raw)
	return nil
}

// mayStart refuses a step that begins a call while calls are halted, and one that gives an
// agent more where the guard does not permit that.
func (t *txn) mayStart(p *prepared) error {
	if given := p.Given; given != nil {
		g, err := t.guard(" FOR SHARE")
		if err == nil {
			err = approval.Permits(g, core.Approval{RunID: p.Run.ID, Human: given.Human}, given.Decision)
		}
		if err != nil {
			return err
		}
	}
	return store.MayStart(&p.Step, t.halted)
}

// holdRun is approval.UnderHalt of a run that is about to be written. It asks for the halt
// only where that makes a difference.
func (t *txn) holdRun(r *runRow) (err error) {
	var h *core.Halt
	if r.Halted != nil || r.ExpiresAt != nil && approval.MayExpire(r.State) {
		h, err = t.halted()
	}
	if err == nil {
		approval.UnderHalt(&r.Run, h, t.now)
	}
	return err
}

// hold is holdRun of an approval.
func (t *txn) hold(a *core.Approval) error {
	if a.State != core.ApprovalOpen {
		a.HeldMS = 0
	}
	if a.State != core.ApprovalOpen || a.ExpiresAt == nil {
		return nil
	}
	h, err := t.halted()
	if err == nil && h != nil {
		approval.Hold(a, t.now)
	}
	return err
}

// lockAlive locks all runs whose time can stand still, and all approvals that are open.
func (t *txn) lockAlive() (runs []*runRow, open []*approvalRow, err error) {
	runs, err = rows(t, func(row pgx.Row) (*runRow, error) { return scanRun(row) },
		"SELECT "+runColumns+" FROM workflows w WHERE w.state IN ('waiting', 'interrupted') OR w.open > 0 ORDER BY w.id FOR UPDATE")
	if err != nil {
		return nil, nil, err
	}
	ids := make([]core.ID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	open, err = t.openOf(ids...)
	if err == nil {
		err = t.read(t.readHead())
	}
	return runs, open, err
}

// changeAlive changes what lockAlive has locked.
func (t *txn) changeAlive(runs []*runRow, open []*approvalRow, change func(*core.Approval), changeRun func(*core.Run)) error {
	of := map[core.ID]*runRow{}
	for _, r := range runs {
		of[r.ID] = r
	}
	for _, a := range open {
		before := a.Approval
		change(&a.Approval)
		if err := t.putApproval(of[a.RunID], &before, a); err != nil {
			return err
		}
	}
	for _, r := range runs {
		changeRun(&r.Run)
		if err := t.putRun(r); err != nil {
			return err
		}
	}
	return nil
}
