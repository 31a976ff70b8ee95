package bolt

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// settlements reads and settles the approvals that the step names, all of the run's if
// the step ends it, and refuses new ones whose id is taken.
func (t *txn) settlements(p *prepared, stored *runRow) ([]store.Settlement[*approvalRow], error) {
	var ends []core.ID
	if stored != nil && p.Run.State.Final() {
		ends = t.approvalsOf(p.Run.ID)
	}
	if err := store.Rely(&p.Step, func(id core.ID) (*core.Approval, error) {
		r, err := t.approval(id)
		if r == nil {
			return nil, err
		}
		return &r.Approval, err
	}); err != nil {
		return nil, err
	}
	settled, err := store.Settle(&p.Step, ends, func(id core.ID) (*approvalRow, *core.Approval, error) {
		r, err := t.mustApproval(id)
		if err == nil && r.RunID != p.Run.ID {
			err = approval.NotFound(id)
		}
		if err != nil {
			return nil, nil, err
		}
		return r, &r.Approval, nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range p.open {
		if old, err := t.approval(r.ID); err != nil || old != nil {
			return nil, core.Errorf(core.CodeInternal, "the approval %s exists already", r.ID.Short()).WithRun(p.Run.ID)
		}
	}
	return settled, nil
}

// putApprovals writes new approvals and the settled ones. An approval that is
// superseded gets its audit row and event here, unless the step brings them.
func (t *txn) putApprovals(p *prepared, row *runRow, settled []store.Settlement[*approvalRow]) error {
	for _, s := range settled {
		if err := t.putApproval(row, &s.Before, s.Row); err != nil {
			return err
		}
		if !s.Changed() {
			continue
		}
		res := approval.Supersede(s.Before, t.now, approval.NotNeeded)
		if !p.Audits(s.Before.ID) {
			if err := t.addAudit(res.Row); err != nil {
				return err
			}
		}
		if !p.Announces(s.Before.ID) {
			if err := t.addEvents(row, approval.Resolved(res.Approval, t.now)); err != nil {
				return err
			}
		}
	}
	for _, r := range p.open {
		fresh := *r // the step may be written again, when its batch is spoilt
		fresh.Owner = row.Owner
		if err := t.putApproval(row, nil, &fresh); err != nil {
			return err
		}
	}
	return nil
}
