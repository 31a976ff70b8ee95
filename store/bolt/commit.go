package bolt

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// prepared is a step with everything encoded and its blobs written, so that
// nothing of that happens while the lock is held.
type prepared struct {
	store.Step
	records     [][]byte
	open        []*approvalRow // new ones; those of a copy are settled
	program     []byte
	checkpoints []checkpointRow
	result      []byte // the row of the run's result, nil without one
	input       []byte // of its input, with Create
}

// checkpointRow is a checkpoint with its key.
type checkpointRow struct{ key, raw []byte }

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, step store.Step) error {
	if err := store.CheckStep(step); err != nil {
		return err
	}
	p, err := prepare(s.blobs, step)
	if err != nil {
		return err
	}
	return s.submit(ctx, &op{write: true, own: true, f: func(t *txn) error { return t.commit(p) }})
}

// prepare encodes a step before its turn in the database file comes: other writers wait
// while a transaction is open. Values too large for a row go to files (stager), which are
// durable when prepare returns. If pml is killed before the commit, they belong to a run
// or a record that is not there, and sweepBlobs removes them.
func prepare(large blobs, step store.Step) (*prepared, error) {
	p := &prepared{Step: step}
	st := &stager{blobs: large, run: step.Run.ID}
	for i := range step.Records {
		row, err := st.record(step.Records[i])
		if err != nil {
			return nil, err
		}
		p.records = append(p.records, row)
	}
	for _, a := range step.Open {
		a.State = core.ApprovalOpen
		if err := p.ask(st, a); err != nil {
			return nil, err
		}
	}
	var marks []core.Checkpoint
	if step.Checkpoint != nil {
		marks = append(marks, *step.Checkpoint)
	}
	if step.Past != nil {
		marks = append(marks, step.Past.Checkpoints...)
		for _, a := range step.Past.Approvals {
			if err := p.ask(st, a); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range marks {
		raw, err := store.Encode(&c)
		if err != nil {
			return nil, err
		}
		p.checkpoints = append(p.checkpoints, checkpointRow{append(seqKey(c.JournalSeq), c.ID...), raw})
	}
	var err error
	if step.Program != nil {
		if p.program, err = store.Encode(step.Program); err != nil {
			return nil, err
		}
	}
	if p.result, err = st.row(step.Run.Result); err != nil {
		return nil, err
	}
	if step.Create {
		if p.input, err = st.row(step.Run.Options.Input); err != nil {
			return nil, err
		}
	}
	return p, st.sync()
}

// ask adds a new approval of the run.
func (p *prepared) ask(st *stager, a core.Approval) error {
	a.RunID = p.Run.ID
	ctx, err := st.part(a.Context, inlineMax)
	if err == nil {
		p.open = append(p.open, &approvalRow{Approval: a, context: ctx})
	}
	return err
}

func (s *stager) record(r core.Record) ([]byte, error) {
	var parts [3]part
	for i, v := range []json.RawMessage{r.Args, r.Sent, r.Result} {
		p, err := s.part(v, inlineValue)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	r.Args, r.Sent, r.Result = nil, nil, nil
	return encodeRow(&r, parts[:]...)
}

func decodeRecord(raw []byte) (r core.Record, parts [3]part, err error) {
	err = decodeRow(raw, &r, &parts[0], &parts[1], &parts[2])
	return r, parts, err
}

// row encodes a value that has a row for itself; nil when there is no value.
func (s *stager) row(value json.RawMessage) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	p, err := s.part(value, inlineMax)
	if err != nil {
		return nil, err
	}
	return encodeRow(struct{}{}, p)
}

// commit writes a step. Everything that can refuse it is checked before
// anything is written.
func (t *txn) commit(p *prepared) error {
	before, err := t.admit(p)
	if err != nil {
		return err
	}
	settled, err := t.settlements(p, before)
	if err != nil {
		return err
	}
	row := t.header(p, before)
	b, err := t.ensureRun(p, row)
	if err != nil {
		return err
	}
	if err := t.putParts(b, p, row); err != nil {
		return err
	}
	if err := t.putApprovals(p, row, settled); err != nil {
		return err
	}
	if err := t.addEvents(row, p.Events...); err != nil {
		return err
	}
	if err := t.addAudit(p.AuditRows(row.Run)...); err != nil {
		return err
	}
	return t.putRun(before, row)
}

// admit checks that the step may be written and returns the run as it is
// stored, nil for a new one.
func (t *txn) admit(p *prepared) (*runRow, error) {
	stored, err := t.run(p.Run.ID)
	if err != nil {
		return nil, err
	}
	if err := t.mayStart(p); err != nil {
		return nil, err
	}
	if p.Create {
		if stored != nil {
			return nil, store.Duplicate(stored.ID, "there is a run %s already", stored.ID)
		}
		return nil, t.checkKey(p.Run)
	}
	if stored == nil {
		return nil, store.NoRun(p.Run.ID)
	}
	if err := store.Admit(&p.Step, stored.Run); err != nil {
		return nil, err
	}
	return stored, nil
}

// keyOf is what a run's idempotency key is kept under.
func keyOf(workspace, key string) []byte {
	sum := sha256.Sum256([]byte(workspace + "\x00" + key))
	return sum[:]
}

// checkKey refuses a run whose idempotency key another one has used.
func (t *txn) checkKey(r core.Run) error {
	if r.IdempotencyKey == "" {
		return nil
	}
	id := t.bucket(bucketKeys).Get(keyOf(r.Workspace, r.IdempotencyKey))
	if id == nil {
		return nil
	}
	other, err := t.run(core.ID(id))
	if err != nil || other == nil || t.now.Sub(other.CreatedAt) >= store.KeyLife {
		return err
	}
	return store.KeyUsed(r, other.Run)
}

// header is the run's row after the step. The runner's header replaces the stored one,
// except for what other processes write while the run executes: a requested abort, a
// replan that the runner has not seen, the expiry that a decider has moved; and what a
// run was created as.
func (t *txn) header(p *prepared, before *runRow) *runRow {
	row := &runRow{Run: p.Run, HasResult: p.result != nil}
	row.Result, row.Options.Input = nil, nil
	if before != nil {
		row.FirstEvent, row.LastEvent, row.HasInput = before.FirstEvent, before.LastEvent, before.HasInput
		row.Abort, row.JournalSeq, row.Undone = before.Abort, before.JournalSeq, before.Undone
		row.CreatedAt, row.Workspace, row.Owner, row.IdempotencyKey = before.CreatedAt, before.Workspace, before.Owner, before.IdempotencyKey
		row.Replanned = before.Replanned && row.DAGVersion < before.DAGVersion
		if row.DAGVersion < before.DAGVersion { // the runner has not seen a replan yet
			row.TotalLayers = before.TotalLayers
		}
		row.DAGVersion = before.DAGVersion
		if row.State == core.RunWaiting && before.State == core.RunWaiting { // deciders move it
			row.ExpiresAt, row.HeldMS = before.ExpiresAt, before.HeldMS
		}
	} else {
		row.JournalSeq, row.HasInput = 0, p.input != nil
	}
	row.JournalSeq += int64(len(p.records))
	row.CreatedAt, row.UpdatedAt = row.CreatedAt.UTC(), row.UpdatedAt.UTC()
	return row
}

// ensureRun returns the run's bucket, which it creates for a new run.
func (t *txn) ensureRun(p *prepared, row *runRow) (*bbolt.Bucket, error) {
	if !p.Create {
		b := t.runBucket(row.ID)
		if b == nil {
			return nil, &damage{reason: "the run " + string(row.ID) + " has no journal"}
		}
		return b, nil
	}
	b, err := t.createRun(row.ID)
	if err != nil {
		return nil, err
	}
	if row.IdempotencyKey != "" {
		if err := t.put(t.bucket(bucketKeys), keyOf(row.Workspace, row.IdempotencyKey), []byte(row.ID)); err != nil {
			return nil, err
		}
	}
	return b, t.put(t.bucket(bucketCreated), timeKey(&row.CreatedAt, row.ID), row.labels())
}

// putParts writes journal, program, checkpoints, result and input.
func (t *txn) putParts(b *bbolt.Bucket, p *prepared, row *runRow) error {
	journal := b.Bucket(bucketJournal)
	journal.FillPercent = 0.95 // keys only grow
	seq := row.JournalSeq - int64(len(p.records))
	for _, raw := range p.records {
		seq++
		if err := t.put(journal, seqKey(seq), raw); err != nil {
			return err
		}
	}
	if p.program != nil {
		if err := t.put(b.Bucket(bucketPrograms), seqKey(int64(p.Program.Version)), p.program); err != nil {
			return err
		}
	}
	if p.input != nil {
		if err := t.put(b, keyInput, p.input); err != nil {
			return err
		}
	}
	if p.result != nil {
		if err := t.put(b, keyResult, p.result); err != nil {
			return err
		}
	}
	return t.putCheckpoints(b.Bucket(bucketCheckpoints), p)
}

// keptCheckpoints is how many checkpoints of a run are kept.
const keptCheckpoints = 5

// putCheckpoints adds checkpoints and deletes the oldest beyond those that are kept: their
// keys begin with the journal's number, so the oldest is first.
func (t *txn) putCheckpoints(b *bbolt.Bucket, p *prepared) error {
	if len(p.checkpoints) == 0 {
		return nil
	}
	for _, c := range p.checkpoints {
		if err := t.put(b, c.key, c.raw); err != nil {
			return err
		}
	}
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		keys = append(keys, slices.Clone(k))
	}
	for len(keys) > keptCheckpoints {
		if err := t.del(b, keys[0]); err != nil {
			return err
		}
		keys = keys[1:]
	}
	return nil
}
