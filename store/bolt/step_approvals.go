package bolt

import (
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// settlement is an approval that the step supersedes or marks as used.
type settlement struct {
	row    *approvalRow
	before core.Approval
}

// settlements reads the approvals that the step settles. Those that are open
// when a run ends are superseded: nobody waits for them any more.
func (t *txn) settlements(p *prepared, stored *runRow) (map[core.ID]*settlement, error) {
	out := map[core.ID]*settlement{}
	get := func(id core.ID) (*settlement, error) {
		if s := out[id]; s != nil {
			return s, nil
		}
		r, err := t.mustApproval(id)
		if err != nil {
			return nil, err
		}
		if r.RunID != p.Run.ID {
			return nil, approval.NotFound(id)
		}
		out[id] = &settlement{row: r, before: r.Approval}
		return out[id], nil
	}
	for _, id := range p.Undecided {
		s, err := get(id)
		if err == nil && store.IsDecided(s.before) {
			err = store.Decided(s.before)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, u := range p.Used {
		s, err := get(u.Approval)
		if err != nil {
			return nil, err
		}
		s.row.Used = true
		if u.CallID != "" && !slices.Contains(s.row.CallIDs, u.CallID) {
			s.row.CallIDs = append(s.row.CallIDs, u.CallID)
		}
	}
	drop := p.Supersede
	if stored != nil && p.Run.State.Final() {
		drop = append(slices.Clone(drop), t.approvalsOf(p.Run.ID)...)
	}
	for _, id := range drop {
		s, err := get(id)
		if err != nil {
			return nil, err
		}
		if s.row.State == core.ApprovalOpen {
			s.row.State = core.ApprovalSuperseded
		}
	}
	for _, r := range p.open {
		if old, err := t.approval(r.ID); err != nil || old != nil {
			return nil, core.Errorf(core.CodeInternal, "the approval %s exists already", r.ID.Short()).WithRun(p.Run.ID)
		}
	}
	return out, nil
}

// putApprovals writes new approvals and the settled ones. An approval that is
// superseded gets its audit row and event here, unless the step brings them.
func (t *txn) putApprovals(p *prepared, row *runRow, settled map[core.ID]*settlement) error {
	ids := make([]core.ID, 0, len(settled))
	for id := range settled {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s := settled[id]
		if err := t.putApproval(row, &s.before, s.row); err != nil {
			return err
		}
		if s.row.State == s.before.State {
			continue
		}
		res := approval.Supersede(s.before, t.now, "the run went on without it")
		if !p.hasAudit(id) {
			if err := t.addAudit(res.Row); err != nil {
				return err
			}
		}
		if !p.hasEvent(id) {
			if err := t.addEvents(row, approval.Resolved(res.Approval, t.now)); err != nil {
				return err
			}
		}
	}
	for _, r := range p.open {
		r.Owner = row.Owner
		if err := t.putApproval(row, nil, r); err != nil {
			return err
		}
	}
	return nil
}

func (p *prepared) hasAudit(id core.ID) bool {
	return slices.ContainsFunc(p.Audit, func(r core.AuditRow) bool {
		return r.ApprovalID == id && r.Outcome == core.ApprovalSuperseded
	})
}

func (p *prepared) hasEvent(id core.ID) bool {
	return slices.ContainsFunc(p.Events, func(e core.Event) bool {
		return e.ApprovalID == id && e.Type == core.EventApprovalResolved
	})
}
