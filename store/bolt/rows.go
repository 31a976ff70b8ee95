package bolt

import (
	"bytes"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// runRow is a run's header as it is kept: small, because every commit writes
// it again. Input and result lie beside it.
type runRow struct {
	core.Run
	FirstEvent int64 `json:"first_event,omitempty"`
	LastEvent  int64 `json:"last_event,omitempty"`
	HasInput   bool  `json:"has_input,omitempty"`
	HasResult  bool  `json:"has_result,omitempty"`
	// Undone counts decisions, Replanned marks a replan, that no runner has acted
	// upon.
	Undone    int  `json:"undone,omitempty"`
	Replanned bool `json:"replanned,omitempty"`
}

// run returns a run's row, nil when there is none.
func (t *txn) run(id core.ID) (*runRow, error) {
	raw := t.bucket(bucketRuns).Get([]byte(id))
	if raw == nil {
		return nil, nil
	}
	var r runRow
	return &r, unmarshal(raw, &r)
}

// mustRun is run with an error when there is none.
func (t *txn) mustRun(id core.ID) (*runRow, error) {
	r, err := t.run(id)
	if err == nil && r == nil {
		return nil, store.NoRun(id)
	}
	return r, err
}

// putRun writes a run's row and keeps its indexes; before is the row
// as it was, nil for a new one.
func (t *txn) putRun(before, r *runRow) error {
	if err := t.holdRun(r); err != nil {
		return err
	}
	if before != nil {
		if err := t.indexExpiry(before, false); err != nil {
			return err
		}
	}
	if err := t.indexExpiry(r, true); err != nil {
		return err
	}
	if err := t.indexRun(before, r); err != nil {
		return err
	}
	raw, err := store.Encode(r)
	if err != nil {
		return err
	}
	return t.put(t.bucket(bucketRuns), []byte(r.ID), raw)
}

// indexExpiry lists the run among those that can expire.
func (t *txn) indexExpiry(r *runRow, add bool) error {
	if r.ExpiresAt == nil || !approval.MayExpire(r.State) {
		return nil
	}
	where, key := t.bucket(bucketRunExpiry), timeKey(r.ExpiresAt, r.ID)
	if add {
		return t.put(where, key, []byte{})
	}
	return t.del(where, key)
}

// approvalRow is an approval as it is kept.
type approvalRow struct {
	core.Approval

	context part
}

func (r *approvalRow) encode() ([]byte, error) {
	c := *r
	c.Context = nil
	return encodeRow(&c, r.context)
}

func decodeApproval(raw []byte) (*approvalRow, error) {
	var r approvalRow
	err := decodeRow(raw, &r, &r.context)
	r.Context = nil // "null" in the header; the part has it
	return &r, err
}

// approval returns an approval's row, nil when there is none.
func (t *txn) approval(id core.ID) (*approvalRow, error) {
	raw := t.bucket(bucketApprovals).Get([]byte(id))
	if raw == nil {
		return nil, nil
	}
	return decodeApproval(raw)
}

func (t *txn) mustApproval(id core.ID) (*approvalRow, error) {
	r, err := t.approval(id)
	if err == nil && r == nil {
		return nil, approval.NotFound(id)
	}
	return r, err
}

// putApproval writes an approval's row, keeps its indexes and counts in the row
// of its run, which the caller writes, what is not acted upon; before is the
// approval as it was, nil for a new one.
func (t *txn) putApproval(run *runRow, before *core.Approval, r *approvalRow) error {
	if h, err := t.halted(); err != nil {
		return err
	} else if h != nil {
		approval.Hold(&r.Approval, t.now)
	}
	if r.State != core.ApprovalOpen {
		r.HeldMS = 0
	}
	run.Undone += undone(&r.Approval)
	if before != nil {
		run.Undone -= undone(before)
	}
	open := t.bucket(bucketOpen)
	if before == nil {
		if err := t.put(t.bucket(bucketByRun), byRunKey(r.RunID, r.ID), []byte{}); err != nil {
			return err
		}
	} else if before.State == core.ApprovalOpen {
		if err := t.del(open, timeKey(before.ExpiresAt, before.ID)); err != nil {
			return err
		}
	}
	if r.State == core.ApprovalOpen {
		if err := t.put(open, timeKey(r.ExpiresAt, r.ID), []byte{}); err != nil {
			return err
		}
	}
	raw, err := r.encode()
	if err != nil {
		return err
	}
	return t.put(t.bucket(bucketApprovals), []byte(r.ID), raw)
}

func byRunKey(run, id core.ID) []byte {
	return append(append([]byte(run), 0), id...)
}

// approvalsOf lists the ids of a run's approvals.
func (t *txn) approvalsOf(run core.ID) []core.ID {
	return idsWithPrefix(t.bucket(bucketByRun), byRunKey(run, ""), 0, true)
}

// idsWithPrefix lists up to limit keys (0: all) that begin with a prefix;
// cut leaves the prefix out of what is returned.
func idsWithPrefix(b *bbolt.Bucket, prefix []byte, limit int, cut bool) []core.ID {
	var ids []core.ID
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if cut {
			k = k[len(prefix):]
		}
		if ids = append(ids, core.ID(k)); len(ids) == limit {
			break
		}
	}
	return ids
}

// addAudit chains rows to the audit log.
func (t *txn) addAudit(rows ...core.AuditRow) error {
	b := t.bucket(bucketAudit)
	for _, row := range rows {
		var prev core.AuditRow
		if k, v := b.Cursor().Last(); k != nil {
			if err := unmarshal(v, &prev); err != nil {
				return err
			}
		}
		row, err := approval.Chain(prev, row)
		if err != nil {
			return err
		}
		raw, err := store.Encode(&row)
		if err != nil {
			return err
		}
		b.FillPercent = 0.95
		if err := t.put(b, seqKey(row.Seq), raw); err != nil {
			return err
		}
	}
	return nil
}

// settle writes what a rule made of an approval: row, audit and event.
func (t *txn) settle(run *runRow, before core.Approval, r *approvalRow, res approval.Result) error {
	r.Approval = res.Approval
	if err := t.putApproval(run, &before, r); err != nil {
		return err
	}
	if err := t.addAudit(res.Row); err != nil {
		return err
	}
	return t.addEvents(run, approval.Resolved(res.Approval, res.Row.At))
}
