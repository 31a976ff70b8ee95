package bolt

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// Remove implements store.Writer. Ids that no run has are core.CodeNotFound,
// and nothing is removed.
func (s *Store) Remove(ctx context.Context, ids ...core.ID) error {
	err := s.update(ctx, func(t *txn) error {
		rows := make([]*runRow, 0, len(ids))
		seen := map[core.ID]bool{}
		for _, id := range ids {
			row, err := t.mustRun(id)
			if err != nil {
				return err
			}
			if !approval.RunAt(row.Run, t.now).State.Final() {
				state, err := t.standing(row)
				if err != nil {
					return err
				}
				return core.Errorf(core.CodeNotWaiting, "the run %s has not ended: it is %s; abort it first, nothing was removed",
					id.Short(), state).WithRun(id).WithNext("pml", "abort", string(id))
			}
			if !seen[id] {
				rows = append(rows, row)
			}
			seen[id] = true
		}
		for _, row := range rows {
			if err := t.remove(row); err != nil {
				return err
			}
		}
		return t.removeFlowRuns(seen)
	})
	if err != nil {
		return err
	}
	if err := s.blobs.remove(ids); err != nil {
		s.opts.Logger.Warn("cannot remove the large values of removed runs", "error", err)
	}
	s.sweepBlobs(ctx)
	return nil
}

// remove deletes a run with all that names it: approvals with their indexes, events, its
// idempotency key unless another run has taken that over, the indexes of runs, and its
// own bucket. The audit log keeps its rows. Large values are files, which Remove deletes
// after the commit: what is left of them when pml is killed in between, sweepBlobs finds.
func (t *txn) remove(row *runRow) error {
	id := row.ID
	for _, a := range t.approvalsOf(id) {
		r, err := t.mustApproval(a)
		if err != nil {
			return err
		}
		if r.State == core.ApprovalOpen {
			if err := t.del(t.bucket(bucketOpen), timeKey(r.ExpiresAt, a)); err != nil {
				return err
			}
		}
		if err := t.del(t.bucket(bucketByRun), byRunKey(id, a)); err != nil {
			return err
		}
		if err := t.del(t.bucket(bucketApprovals), []byte(a)); err != nil {
			return err
		}
	}
	if err := t.removeEvents(row); err != nil {
		return err
	}
	if row.IdempotencyKey != "" {
		key := keyOf(row.Workspace, row.IdempotencyKey)
		if core.ID(t.bucket(bucketKeys).Get(key)) == id {
			if err := t.del(t.bucket(bucketKeys), key); err != nil {
				return err
			}
		}
	}
	if err := t.indexExpiry(row, false); err != nil {
		return err
	}
	if err := t.indexRun(row, nil); err != nil {
		return err
	}
	if err := t.del(t.bucket(bucketCreated), timeKey(&row.CreatedAt, id)); err != nil {
		return err
	}
	if err := t.del(t.bucket(bucketRuns), []byte(id)); err != nil {
		return err
	}
	return t.bucket(bucketRun).DeleteBucket([]byte(id))
}

// removeEvents deletes the events of a run, which stand among those of all runs between
// its first and its last.
func (t *txn) removeEvents(row *runRow) error {
	if row.FirstEvent == 0 {
		return nil
	}
	var keys []int64
	c := t.bucket(bucketEvents).Cursor()
	for k, v := c.Seek(seqKey(row.FirstEvent)); k != nil && keySeq(k) <= row.LastEvent; k, v = c.Next() {
		run, _, err := cutEvents(v)
		if err != nil {
			return err
		}
		if run == row.ID {
			keys = append(keys, keySeq(k))
		}
	}
	for _, k := range keys {
		if err := t.del(t.bucket(bucketEvents), seqKey(k)); err != nil {
			return err
		}
	}
	return nil
}

// sweepBlobs removes the blobs of runs that do not exist: what a process left
// behind that was killed between writing blobs and committing their run.
func (s *Store) sweepBlobs(ctx context.Context) {
	ids, err := s.blobs.old(s.now())
	if err != nil || len(ids) == 0 {
		return
	}
	var gone []core.ID
	err = s.read(ctx, func(t *txn) error {
		gone = gone[:0]
		for _, id := range ids {
			if t.bucket(bucketRuns).Get([]byte(id)) == nil {
				gone = append(gone, id)
			}
		}
		return nil
	})
	if err == nil {
		err = s.blobs.remove(gone)
	}
	if err != nil {
		s.opts.Logger.Warn("cannot remove large values that no run has", "error", err)
	}
}
