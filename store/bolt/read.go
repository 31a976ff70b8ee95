package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Run implements store.Reader.
func (s *Store) Run(ctx context.Context, id core.ID) (core.Run, error) {
	var run core.Run
	var result, input part
	err := s.read(ctx, func(t *txn) error {
		row, err := t.mustRun(id)
		if err != nil {
			return err
		}
		run = approval.RunAt(row.Run, t.now)
		result, input = part{}, part{}
		b := t.runBucket(id)
		if row.HasResult {
			if err := decodeRow(b.Get(keyResult), &struct{}{}, &result); err != nil {
				return err
			}
		}
		if row.HasInput {
			return decodeRow(b.Get(keyInput), &struct{}{}, &input)
		}
		return nil
	})
	if err != nil {
		return core.Run{}, err
	}
	if run.Result, err = s.blobs.load(id, result); err != nil {
		return core.Run{}, err
	}
	if input.blob != nil || input.data != nil {
		run.Options.Input, err = s.blobs.load(id, input)
	}
	return run, err
}

// Program implements store.Reader.
func (s *Store) Program(ctx context.Context, id core.ID) (core.Program, error) {
	var found copies
	err := s.read(ctx, func(t *txn) error {
		found = nil
		if _, err := t.mustRun(id); err != nil {
			return err
		}
		k, v := t.runBucket(id).Bucket(bucketPrograms).Cursor().Last()
		if k == nil {
			return core.Errorf(core.CodeNotFound, "the run %s has no program", id.Short()).WithRun(id)
		}
		found.add(v)
		return nil
	})
	var p core.Program
	if err == nil {
		err = s.failure("read", unmarshal(found[0], &p))
	}
	return p, err
}

// Find implements store.Reader.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (store.Found, error) {
	var found store.Found
	err := s.read(ctx, func(t *txn) error {
		found.Runs = idsWithPrefix(t.bucket(bucketRuns), []byte(prefix), limit, false)
		found.Approvals = idsWithPrefix(t.bucket(bucketApprovals), []byte(prefix), limit, false)
		return nil
	})
	return found, err
}

// Runs implements store.Reader. Results and inputs are left out; a commit of
// such a header does not lose the input.
func (s *Store) Runs(ctx context.Context, f store.RunFilter) ([]core.Run, error) {
	var runs []core.Run
	err := s.read(ctx, func(t *txn) error {
		runs = nil
		return t.list(f, func(r core.Run) { runs = append(runs, r) })
	})
	return runs, err
}

// Journal implements store.Reader.
func (s *Store) Journal(ctx context.Context, id core.ID, after int64) ([]core.Record, error) {
	var rows copies
	err := s.read(ctx, func(t *txn) error {
		rows = nil
		if _, err := t.mustRun(id); err != nil {
			return err
		}
		c := t.runBucket(id).Bucket(bucketJournal).Cursor()
		for k, v := c.Seek(seqKey(max(after, 0) + 1)); k != nil; k, v = c.Next() {
			rows.add(v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	records := make([]core.Record, len(rows))
	for i, raw := range rows {
		r, parts, err := decodeRecord(raw)
		if err != nil {
			return nil, s.failure("read", err)
		}
		for j, dst := range []*json.RawMessage{&r.Args, &r.Sent, &r.Result} {
			if *dst, err = s.blobs.load(id, parts[j]); err != nil {
				return nil, err
			}
		}
		records[i] = r
	}
	return records, nil
}

// Checkpoints implements store.Reader: the oldest first.
func (s *Store) Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error) {
	var out []core.Checkpoint
	err := s.read(ctx, func(t *txn) error {
		out = nil
		if _, err := t.mustRun(id); err != nil {
			return err
		}
		c := t.runBucket(id).Bucket(bucketCheckpoints).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			var cp core.Checkpoint
			if err := unmarshal(v, &cp); err != nil {
				return err
			}
			out = append(out, cp)
		}
		return nil
	})
	return out, err
}

// Approvals implements store.Reader.
func (s *Store) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if f.Now.IsZero() {
		f.Now = s.now()
	}
	var rows []storedApproval
	var gone map[core.ID]bool // runs whose expiry no writer has recorded yet
	err := s.read(ctx, func(t *txn) error {
		if f.Into != nil {
			if err := t.readInto(f); err != nil {
				return err
			}
		}
		var err error
		if rows, err = t.candidates(f); err != nil {
			return err
		}
		gone = map[core.ID]bool{}
		for _, id := range t.dueIn(bucketRunExpiry, f.Now, 0) {
			gone[id] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var found []*approvalRow
	for _, stored := range rows {
		r, err := decodeApproval(stored.raw)
		if err != nil {
			return nil, s.failure("read", err)
		}
		if r.State == core.ApprovalOpen && gone[r.RunID] {
			r.State = core.ApprovalExpired
		}
		if matchApproval(r.Approval, f) && !(f.Decidable && gone[r.RunID]) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *approvalRow) int { return compareApprovals(a.Approval, b.Approval) })
	if f.Limit > 0 && len(found) > f.Limit {
		found = found[:f.Limit]
	}
	out := make([]core.Approval, len(found))
	for i, r := range found {
		out[i] = r.Approval
		if out[i].Context, err = s.blobs.load(r.RunID, r.context); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readInto reads the run of a filter that asks for it.
func (t *txn) readInto(f store.ApprovalFilter) error {
	run, err := t.mustRun(f.RunID)
	if err != nil {
		return err
	}
	if f.Owner != "" && run.Owner != f.Owner || f.Workspace != "" && run.Workspace != f.Workspace {
		return store.NoRun(f.RunID)
	}
	*f.Into = approval.RunAt(run.Run, t.now)
	return nil
}

// candidates returns the rows among which the filter chooses, by the index
// that leaves the fewest.
func (t *txn) candidates(f store.ApprovalFilter) (rows []storedApproval, err error) {
	b := t.bucket(bucketApprovals)
	get := func(id core.ID) {
		if raw := b.Get([]byte(id)); raw != nil {
			rows = append(rows, storedApproval{id, bytes.Clone(raw)})
		}
	}
	switch {
	case f.Decidable:
		err = t.list(store.RunFilter{States: store.Unended}, func(r core.Run) {
			for _, id := range t.approvalsOf(r.ID) {
				get(id)
			}
		})
	case f.Agent != "" && f.RunID == "":
		err = t.createdSince(f.Agent, func(run core.ID) {
			for _, id := range t.approvalsOf(run) {
				get(id)
			}
		})
	case f.ID != "":
		get(f.ID)
	case f.RunID != "":
		for _, id := range t.approvalsOf(f.RunID) {
			get(id)
		}
	case len(f.States) == 1 && f.States[0] == core.ApprovalOpen:
		c := t.bucket(bucketOpen).Cursor()
		for k, _ := c.Seek(be64(timeNumber(f.Now))); k != nil; k, _ = c.Next() {
			get(timeKeyID(k))
		}
	default:
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if f.Digest == "" || bytes.Contains(v, []byte(f.Digest)) { // a row is text
				rows = append(rows, storedApproval{core.ID(k), bytes.Clone(v)})
			}
		}
	}
	return rows, err
}

// createdSince walks the runs that were created since a run was, which may be gone.
func (t *txn) createdSince(id core.ID, found func(core.ID)) error {
	run, err := t.run(id)
	if err != nil || run == nil {
		return err
	}
	c := t.bucket(bucketCreated).Cursor()
	for k, _ := c.Seek(timeKey(&run.CreatedAt, "")); k != nil; k, _ = c.Next() {
		found(timeKeyID(k))
	}
	return nil
}

// storedApproval is an approval to be decoded after the transaction.
type storedApproval struct {
	id  core.ID
	raw []byte
}

func matchApproval(a core.Approval, f store.ApprovalFilter) bool {
	return (f.ID == "" || a.ID == f.ID) && (f.RunID == "" || a.RunID == f.RunID) &&
		(f.Workspace == "" || a.Workspace == f.Workspace) && (f.Owner == "" || a.Owner == f.Owner) &&
		(f.Agent == "" || a.Agent == f.Agent) && (f.Digest == "" || a.Digest == f.Digest) && (!f.Decidable || approval.CanDecide(a, f.Now)) &&
		(len(f.States) == 0 || slices.Contains(f.States, a.StateAt(f.Now)))
}

// compareApprovals orders by expiry, those that never expire last, then by age.
func compareApprovals(a, b core.Approval) int {
	if c := cmp.Compare(expiryNumber(a.ExpiresAt), expiryNumber(b.ExpiresAt)); c != 0 {
		return c
	}
	if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

func expiryNumber(t *time.Time) uint64 {
	if t == nil {
		return ^uint64(0)
	}
	return timeNumber(*t)
}

// Events implements store.Reader.
func (s *Store) Events(ctx context.Context, f store.EventFilter) ([]core.Event, error) {
	var out []core.Event
	err := s.read(ctx, func(t *txn) (err error) {
		out = nil
		first, last := max(f.After, 0)+1, int64(-1)
		if f.RunID != "" {
			row, err := t.run(f.RunID)
			if err != nil || row == nil || row.FirstEvent == 0 {
				return err
			}
			first, last = max(first, row.FirstEvent), row.LastEvent
		}
		c := t.bucket(bucketEvents).Cursor()
		for k, v := c.Seek(seqKey(first)); k != nil && (last < 0 || keySeq(k) <= last); k, v = c.Next() {
			if out, err = addMatching(out, v, f); err != nil {
				return err
			}
			if f.Limit > 0 && len(out) >= f.Limit {
				out = out[:f.Limit]
				return nil
			}
		}
		return nil
	})
	return out, err
}

// Audit implements store.Reader.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]core.AuditRow, error) {
	out := []core.AuditRow{}
	err := s.read(ctx, func(t *txn) error {
		out = out[:0]
		for v := range auditRows(t, f) {
			var row core.AuditRow
			if err := unmarshal(v, &row); err != nil {
				return err
			}
			if !f.Match(row) {
				continue
			}
			if out = append(out, row); len(out) == f.Limit {
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// auditRows are the rows between the numbers of a filter, in its order.
func auditRows(t *txn, f store.AuditFilter) iter.Seq[[]byte] {
	first, last := seqKey(max(f.After, 0)+1), seqKey(math.MaxInt64)
	if f.Before > 0 {
		last = seqKey(f.Before - 1)
	}
	return func(yield func([]byte) bool) {
		c := t.bucket(bucketAudit).Cursor()
		k, v := c.Seek(first)
		step := c.Next
		if f.Newest {
			step = c.Prev
			if k, v = c.Seek(last); k == nil {
				k, v = c.Last()
			} else if bytes.Compare(k, last) > 0 {
				k, v = c.Prev()
			}
		}
		for ; k != nil && bytes.Compare(k, first) >= 0 && bytes.Compare(k, last) <= 0; k, v = step() {
			if !yield(v) {
				return
			}
		}
	}
}
