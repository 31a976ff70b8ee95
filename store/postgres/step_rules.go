package postgres

// The rules of a step, for the long way to write: a transaction that locks the run
// and the approvals that the step names, checks the rules, and then writes. admit
// decides whether the step may be written, header what it makes of the run's row,
// settlements what it makes of approvals. Everything that can refuse the step comes
// before the first write, so a refusal is a plain rollback. changeSQL (commit.go) has
// the rules of admit and store.Admit a second time, as a condition: change both.

import (
	"crypto/sha256"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// step commits a step the long way. Everything that can refuse it is checked
// before anything is written.
func (t *txn) step(p *prepared) error {
	before, known, err := t.admit(p)
	if err != nil || known {
		return err
	}
	row := t.header(p, before)
	if err := t.settlements(p, row, before != nil); err != nil {
		return err
	}
	t.putParts(p, row, before == nil)
	t.audit = append(t.audit, p.AuditRows(row.Run)...)
	t.own, t.large = true, p.size > largeStep
	return t.putRun(row, value(p.Run.Result))
}

// admit checks that the step may be written and returns the run as it is stored, nil
// for a new one. known is set when the run's last step is this one: a try before was
// committed although its answer was lost, and the step succeeds without a write.
func (t *txn) admit(p *prepared) (stored *runRow, known bool, err error) {
	if stored, err = t.subjects(p); err != nil {
		return nil, false, err
	}
	if stored != nil && stored.lastStep == p.mark {
		return nil, true, nil
	}
	if err := t.mayStart(p); err != nil {
		return nil, false, err
	}
	if p.Create {
		if stored != nil {
			return nil, false, store.Duplicate(stored.ID, "there is a run %s already", stored.ID)
		}
		return nil, false, t.takeKey(p.Run)
	}
	if stored == nil {
		return nil, false, store.NoRun(p.Run.ID)
	}
	if approval.RunAt(stored.Run, t.now).State == core.RunExpired && stored.State != core.RunExpired {
		return nil, false, store.Fenced(approval.RunAt(stored.Run, t.now))
	}
	return stored, false, store.Admit(&p.Step, stored.Run)
}

// subjects locks the run of a step and the approvals that it names, in one round
// trip. The run is nil when there is none.
func (t *txn) subjects(p *prepared) (run *runRow, err error) {
	ids := slices.Concat(p.Supersede, p.Undecided)
	for _, u := range p.Used {
		ids = append(ids, u.Approval)
	}
	for _, r := range p.Relies {
		ids = append(ids, r.Approval)
	}
	for _, a := range p.fresh() {
		ids = append(ids, a.ID)
	}
	found := make([]*approvalRow, len(ids))
	qs := []query{readRun(&run, lockRun, p.Run.ID), t.readHalt()}
	for i, id := range ids {
		qs = append(qs, readApproval(&found[i], id))
	}
	if err := t.read(qs...); err != nil {
		return nil, err
	}
	t.named = map[core.ID]*approvalRow{}
	for i, id := range ids {
		t.named[id] = found[i]
	}
	return run, nil
}

// keyHash is what a run's idempotency key is kept under.
func keyHash(workspace, key string) []byte {
	sum := sha256.Sum256([]byte(workspace + "\x00" + key))
	return sum[:]
}

// takeKey gives the run its idempotency key, unless another one has used it.
func (t *txn) takeKey(r core.Run) error {
	if r.IdempotencyKey == "" {
		return nil
	}
	hash := keyHash(r.Workspace, r.IdempotencyKey)
	var id string
	if err := t.read(query{`INSERT INTO idempotency_keys (hash, workflow_id) VALUES ($1, $2)
		ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash RETURNING workflow_id`, []any{hash, string(r.ID)},
		func(row pgx.Row) error { return row.Scan(&id) }}); err != nil {
		return err
	}
	if id == string(r.ID) {
		return nil
	}
	var other *runRow
	if err := t.read(readRun(&other, "SELECT "+runColumns+" FROM workflows w WHERE w.id = $1", core.ID(id))); err != nil {
		return err
	}
	if other == nil || t.now.Sub(other.CreatedAt) >= store.KeyLife {
		t.writes.Queue("UPDATE idempotency_keys SET workflow_id = $2 WHERE hash = $1", hash, string(r.ID))
		return nil
	}
	return store.KeyUsed(r, other.Run)
}

// header is the run's row after the step. The runner's header replaces the stored
// one, except for what other processes write while the run executes: owner, workspace,
// a requested abort, a replan it has not seen, the expiry that a decider has moved.
func (t *txn) header(p *prepared, before *runRow) *runRow {
	row := &runRow{Run: p.Run, lastStep: p.mark, seen: p.Run.DAGVersion}
	row.JournalSeq = 0
	if before != nil {
		row.open, row.undone = before.open, before.undone
		row.Owner, row.Workspace, row.Abort, row.JournalSeq = before.Owner, before.Workspace, before.Abort, before.JournalSeq
		if row.DAGVersion < before.DAGVersion { // the runner has not seen a replan yet
			row.TotalLayers = before.TotalLayers
		}
		row.DAGVersion = before.DAGVersion
		if row.State == core.RunWaiting && before.State == core.RunWaiting { // deciders move it
			row.ExpiresAt, row.HeldMS = before.ExpiresAt, before.HeldMS
		}
	}
	row.JournalSeq += int64(len(p.Records))
	return row
}

// putParts writes journal, program and checkpoint, and the row of a new run.
func (t *txn) putParts(p *prepared, row *runRow, create bool) {
	if create {
		t.writes.Queue(`INSERT INTO workflows (id, owner, workspace, remote, state, created_at, runner, epoch, dag_version,
			seen_version, total_layers, journal_seq, key, last_step, open, undone, data, input)
			VALUES ($1, $2, $3, $4, '', $5, '', 0, 0, 0, 0, 0, $6, '', 0, 0, '', $7)`,
			string(row.ID), clean(row.Owner), clean(row.Workspace), row.Remote, row.CreatedAt.UnixNano(),
			clean(row.IdempotencyKey), value(p.Run.Options.Input))
	}
	if p.program != nil {
		t.putProgram(row, p.Program.Version, p.program)
	}
	t.putEntry(p, row)
}

// putEntry adds the step's row, after the events of its approvals. The records of a
// large step are sent in a row of their own before the event counter is locked, so
// that other commits do not wait for the transfer.
func (t *txn) putEntry(p *prepared, row *runRow) {
	e := p.entry
	e.owner, e.record = row.Owner, row.JournalSeq
	if p.size > largeStep && len(e.records) > 0 {
		t.writes.Queue("INSERT INTO steps (workflow_id, owner, record, records, event, types) VALUES ($1, $2, $3, $4, 0, '')",
			string(row.ID), clean(row.Owner), e.record, pack(e.records))
		e.records = nil
	}
	t.added = append(t.added, &e)
	for _, c := range p.past {
		t.added = append(t.added, &entry{run: row.ID, owner: row.Owner, record: row.JournalSeq, checkpoint: c})
	}
}

func (t *txn) putProgram(row *runRow, version int, program []byte) {
	t.writes.Queue(`INSERT INTO workflow_dags (workflow_id, version, program, intent, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (workflow_id, version) DO UPDATE SET program = excluded.program`,
		string(row.ID), version, program, clean(row.Intent), t.now.UnixNano(), nanos(row.ExpiresAt))
}

// settlements opens the step's approvals and settles those that it supersedes
// or used. Those that are open when a run ends are superseded: nobody waits for
// them any more.
func (t *txn) settlements(p *prepared, run *runRow, stored bool) error {
	found, err := t.settled(p, stored)
	if err != nil {
		return err
	}
	for _, s := range found {
		if err := t.putApproval(run, &s.Before, s.Row); err != nil {
			return err
		}
		if !s.Changed() {
			continue
		}
		res := approval.Supersede(s.Before, t.now, approval.NotNeeded)
		if !p.Audits(s.Before.ID) {
			t.audit = append(t.audit, res.Row)
		}
		if !p.Announces(s.Before.ID) {
			if err := t.addEvents(run, approval.Resolved(res.Approval, t.now)); err != nil {
				return err
			}
		}
	}
	for _, a := range p.fresh() {
		if old, err := t.approval(a.ID); err != nil || old != nil {
			if err == nil {
				err = core.Errorf(core.CodeInternal, "the approval %s exists already", a.ID.Short()).WithRun(p.Run.ID)
			}
			return err
		}
		if a.State == "" {
			a.State = core.ApprovalOpen
		}
		a.RunID, a.Owner = p.Run.ID, run.Owner
		if err := t.putApproval(run, nil, &approvalRow{Approval: a}); err != nil {
			return err
		}
	}
	return nil
}

// settled settles the approvals that the step names, and all that are open of the run
// if the step ends it.
func (t *txn) settled(p *prepared, stored bool) ([]store.Settlement[*approvalRow], error) {
	var ends []core.ID
	if stored && p.Run.State.Final() {
		open, err := t.openOf(p.Run.ID)
		if err != nil {
			return nil, err
		}
		for _, r := range open {
			ends = append(ends, r.ID)
		}
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
	return store.Settle(&p.Step, ends, func(id core.ID) (*approvalRow, *core.Approval, error) {
		r, err := t.approval(id)
		if err == nil && (r == nil || r.RunID != p.Run.ID) {
			err = approval.NotFound(id)
		}
		if err != nil {
			return nil, nil, err
		}
		return r, &r.Approval, nil
	})
}
