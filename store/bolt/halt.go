package bolt

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Halted implements store.Halts.
func (s *Store) Halted(ctx context.Context) (h *core.Halt, err error) {
	err = s.read(ctx, func(t *txn) (err error) {
		h, err = t.halted()
		return err
	})
	return h, err
}

// Halt implements store.Halts.
func (s *Store) Halt(ctx context.Context, h core.Halt) (core.Halt, error) {
	h.At = h.At.UTC()
	holds := h
	err := s.update(ctx, func(t *txn) error {
		was, err := t.halted()
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
		if err := t.addAudit(approval.HaltedRow(h)); err != nil {
			return err
		}
		return t.alive(func(a *core.Approval) { approval.Hold(a, t.now) }, func(r *core.Run) { approval.HoldRun(r, t.now) })
	})
	return holds, err
}

// LetGo implements store.Halts.
func (s *Store) LetGo(ctx context.Context, r core.Resumption) (was *core.Halt, err error) {
	err = s.update(ctx, func(t *txn) error {
		if was, err = t.halted(); err != nil || was == nil {
			return err
		}
		g, err := t.guard()
		if err == nil {
			err = approval.MayResume(g, r)
		}
		if err == nil {
			err = t.setHalt(nil)
		}
		if err == nil {
			err = t.addAudit(approval.ResumedRow(*was, r))
		}
		if err != nil {
			return err
		}
		return t.alive(func(a *core.Approval) { approval.Release(a, *was, t.now) }, func(r *core.Run) { approval.ReleaseRun(r, *was, t.now) })
	})
	if err != nil {
		return nil, err
	}
	return was, nil
}

// halted is who has halted calls, nil for nobody. One that cannot be read is an error:
// then no call begins.
func (t *txn) halted() (*core.Halt, error) {
	if t.halt != nil {
		return *t.halt, nil
	}
	var h *core.Halt
	if raw := t.bucket(bucketMeta).Get(keyHalt); raw != nil {
		h = &core.Halt{}
		if err := unmarshal(raw, h); err != nil {
			return nil, err
		}
	}
	t.halt = &h
	return h, nil
}

// setHalt writes who has halted calls, nil for nobody.
func (t *txn) setHalt(h *core.Halt) error {
	t.halt = &h
	if h == nil {
		return t.del(t.bucket(bucketMeta), keyHalt)
	}
	raw, err := store.Encode(h)
	if err != nil {
		return err
	}
	return t.put(t.bucket(bucketMeta), keyHalt, raw)
}

// mayStart refuses a step that begins a call while calls are halted, and one that gives an
// agent more where the guard does not permit that.
func (t *txn) mayStart(p *prepared) error {
	if given := p.Given; given != nil {
		g, err := t.guard()
		if err == nil {
			err = approval.Permits(g, core.Approval{RunID: p.Run.ID, Human: given.Human}, given.Decision)
		}
		if err != nil {
			return err
		}
	}
	return store.MayStart(&p.Step, t.halted)
}

// holdRun is approval.UnderHalt of a run that is about to be written.
func (t *txn) holdRun(r *runRow) error {
	h, err := t.halted()
	if err == nil {
		approval.UnderHalt(&r.Run, h, t.now)
	}
	return err
}

// alive changes all approvals that are open, and all runs that have not ended.
func (t *txn) alive(change func(*core.Approval), changeRun func(*core.Run)) error {
	var open, runs []core.ID
	c := t.bucket(bucketOpen).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		open = append(open, timeKeyID(k))
	}
	for _, id := range open {
		row, err := t.mustApproval(id)
		if err != nil {
			return err
		}
		run, err := t.mustRun(row.RunID)
		if err != nil {
			return err
		}
		before := row.Approval
		change(&row.Approval)
		if err := t.putApproval(run, &before, row); err != nil {
			return err
		}
	}
	for _, state := range core.RunStates {
		if !approval.MayExpire(state) {
			continue
		}
		for w := newBack(t.bucket(bucketState), statePrefix(state), nil); w.k != nil; w.next() {
			runs = append(runs, timeKeyID(w.k))
		}
	}
	for _, id := range runs {
		run, err := t.mustRun(id)
		if err != nil {
			return err
		}
		old := *run
		changeRun(&run.Run)
		if err := t.putRun(&old, run); err != nil {
			return err
		}
	}
	return nil
}
