package postgres

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// decideSQL writes a decision if approval, run and audit log are what it was made
// from: each is locked in the order of all others, and nothing is written unless
// all of them are.
const decideSQL = `WITH run AS (
		SELECT FROM workflows WHERE id = $1 AND last_step = $2 AND data = $3 AND state = $4 AND expires_at IS NOT DISTINCT FROM $5::bigint
			AND runner = $6 AND epoch = $7 AND dag_version = $8 AND open = $9::integer AND undone = $10::integer AND abort IS NULL FOR UPDATE),
	asked AS (SELECT FROM approvals WHERE id = $11 AND data = $12 AND EXISTS (SELECT FROM run) FOR UPDATE),
	head AS (
		UPDATE counters SET value = $13::bigint + 1, head = $14 WHERE name = 'audit' AND value = $13 AND head = $15 AND EXISTS (SELECT FROM asked)
		RETURNING value),
	waiting AS (
		UPDATE workflows SET expires_at = $16::bigint, open = open - 1, undone = undone + 1, data = $17 WHERE id = $1 AND EXISTS (SELECT FROM head)),
	decided AS (UPDATE approvals SET state = $18, data = $19 WHERE id = $11 AND EXISTS (SELECT FROM head)),
	audited AS (INSERT INTO audit (seq, data) SELECT h.value, $20::bytea FROM head h),
	counted AS (
		UPDATE counters SET value = value + $21::bigint WHERE name = 'events' AND EXISTS (SELECT FROM head) RETURNING value AS last),
	written AS (
		INSERT INTO steps (workflow_id, owner, record, event, types, events)
		SELECT $1, $22::text, $23::bigint, c.last, $24::text, $25::bytea FROM counted c)
	SELECT EXISTS (SELECT FROM head), CASE WHEN EXISTS (SELECT FROM head) THEN pg_notify('` + commitChannel + `', $26)::text END`

// standing is what a decision is made from, as it is stored.
type standing struct {
	run    *runRow
	row    *approvalRow
	header []byte // what data holds of the run
	head   core.AuditRow
}

// stand reads what a decision is made from, without any lock.
func (s *Store) stand(ctx context.Context, id core.ID) (*standing, error) {
	var at standing
	var data, context []byte
	var err error
	at.run, err = scanRun(s.pool.QueryRow(ctx, "SELECT "+runColumns+`, w.data, a.data, a.context, c.value, c.head
		FROM approvals a, workflows w, counters c WHERE a.id = $1 AND w.id = a.workflow_id AND c.name = 'audit'`, clean(string(id))),
		&at.header, &data, &context, &at.head.Seq, &at.head.Hash)
	if err != nil || at.run == nil {
		return nil, err
	}
	at.row = &approvalRow{raw: data}
	if err := decode(data, &at.row.Approval); err != nil {
		return nil, err
	}
	at.row.Context = context
	return &at, nil
}

// quickly is how long the quick way of a decision may take. The long one has what is
// left of the time that both have.
const quickly = briefly / 2

// decideQuickly decides without holding a lock while it thinks; false when
// that cannot be done, or somebody else was faster: then it is done the long way.
// So is what is unknown: the same decision can be made twice.
func (s *Store) decideQuickly(ctx context.Context, d core.Decision, renew store.Renewal) (out core.Approval, done bool, err error) {
	if d.Abort || !s.deciding.TryLock() { // those that decide at once would be in each other's way
		return out, false, nil
	}
	defer s.deciding.Unlock()
	if err := s.enter(ctx); err != nil {
		return out, false, err
	}
	defer s.inflight.Done()
	at, read := s.known.standing(d.ApprovalID, s.now()), false
	if at == nil {
		if at, err = s.stand(ctx, d.ApprovalID); err != nil || at == nil {
			return out, false, nil
		}
		read = true
	}
	left := s.rulingOn(at, d, renew)
	if left == nil {
		return out, false, nil
	}
	if err := s.fault.before(); err != nil {
		return out, true, err
	}
	turn, upToDate := s.known.upToDate(left.run.ID)
	done, err = s.rule(ctx, left.args)
	if err != nil || !done {
		s.known.decided(left.run.ID, nil, turn, upToDate)
		s.watch.committed(false) // what is unknown may have been kept
		if !read {
			s.known.outdated(s.now())
		}
		return out, false, nil
	}
	s.known.audited(left.head)
	s.decided(left.row)
	s.known.decided(left.run.ID, left, turn, upToDate)
	s.watch.wake(false)
	if err := s.fault.after(); err != nil {
		return out, true, err
	}
	return left.row.Approval, true, nil
}

// rule sends a ruling; false when what it was made from has changed.
func (s *Store) rule(ctx context.Context, args []any) (kept bool, err error) {
	var notified *string
	err = s.pool.QueryRow(ctx, decideSQL, args...).Scan(&kept, &notified)
	return kept, err
}

// ruling is what a decision makes of where a run stands: its run and its approval as
// it leaves them, the newest row of the audit log, and the arguments of decideSQL.
type ruling struct {
	run  core.Run
	row  *approvalRow
	head core.AuditRow
	args []any
}

// rulingOn makes a ruling; nil when there is more to it than a plain yes or no.
func (s *Store) rulingOn(at *standing, d core.Decision, renew store.Renewal) *ruling {
	t := &txn{now: s.now()}
	run := *at.run
	if approval.Undecided(at.row.Approval, run.Run, t.now) != nil || run.Abort != nil {
		return nil
	}
	raw := at.row.raw
	left, err := t.decide(at.row, &run, d, renew)
	if err != nil || len(t.audit) != 1 || len(t.added) != 1 {
		return nil
	}
	row, err := approval.Chain(at.head, t.audit[0])
	if err != nil {
		return nil
	}
	audited, err := encode(&row)
	if err != nil {
		return nil
	}
	was, e := at.run, t.added[0]
	return &ruling{run.Run, left, core.AuditRow{Seq: row.Seq, Hash: row.Hash}, []any{
		string(was.ID), was.lastStep, at.header, string(was.State), nanos(was.ExpiresAt), was.Runner, was.Epoch, was.DAGVersion, was.open, was.undone,
		string(left.ID), raw, at.head.Seq, row.Hash, at.head.Hash,
		nanos(run.ExpiresAt), t.data, string(left.State), left.raw, audited,
		int64(len(e.events)), clean(run.Owner), e.record, typesOf(e.types), pack(e.events), s.origin,
	}}
}
