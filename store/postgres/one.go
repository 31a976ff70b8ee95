package postgres

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
)

// The statements that commit the step of one run, as most are when few runs are
// under way. They do what those of commit.go do for many, without lists, which
// cost the database more than the rows. A step that acts upon decisions goes this
// way too, if it is known how they are stored: that is compared before anything is
// written, and the lock of the run keeps everybody else from changing them.
const (
	changeOne  = oneSet + oneWhere + oneAdd + oneKept
	changeUsed = oneSet + usedSet + oneWhere + usedWhere + oneAdd + usedPut + oneKept

	oneSet = `WITH changed AS (
		UPDATE workflows w SET state = $3::text, last_step = $4, data = $5, result = $6::bytea,
			journal_seq = w.journal_seq + $7::bigint, seen_version = $8::integer,
			expires_at = CASE WHEN w.state = 'waiting' AND $3 = 'waiting' THEN w.expires_at ELSE $9::bigint END,
			total_layers = CASE WHEN $8 < w.dag_version THEN w.total_layers ELSE $10::integer END`
	usedSet  = `, undone = w.undone - cardinality($23::text[])`
	oneWhere = `
		WHERE w.id = $1 AND w.runner = $11 AND w.epoch = $12 AND w.owner = $13 AND w.last_step = $14
			AND ($7 = 0 OR w.journal_seq = $15::bigint - 1)
			AND (w.state = 'running' OR w.state IN ('waiting', 'interrupted') AND (w.expires_at IS NULL OR w.expires_at > $2::bigint))
			AND ($3 IN ('running', 'waiting', 'interrupted') OR w.open = 0 AND ($3 = 'aborted' OR $8 >= w.dag_version))`
	usedWhere = `
			AND cardinality($23::text[]) = (SELECT count(*) FROM approvals a, unnest($23::text[], $24::bytea[]) AS u(id, before)
				WHERE a.id = u.id AND a.workflow_id = $1 AND a.data = u.before AND a.state IN ('approved', 'denied') AND NOT a.used)`
	oneAdd = `
		RETURNING w.id),
	counted AS (
		UPDATE counters SET value = value + $16::bigint WHERE name = 'events' AND EXISTS (SELECT FROM changed) RETURNING value AS last),
	written AS (
		INSERT INTO steps (workflow_id, owner, record, records, event, types, events, checkpoint)
		SELECT $1, $13, $17::bigint, $18::bytea, c.last, $19::text, $20::bytea, $21::bytea FROM counted c)`
	usedPut = `,
	used AS (
		UPDATE approvals a SET used = true, data = u.data FROM unnest($23::text[], $25::bytea[]) AS u(id, data)
		WHERE a.id = u.id AND EXISTS (SELECT FROM changed))`
	oneKept = ` SELECT EXISTS (SELECT FROM changed),` + dueSQL + `,
		CASE WHEN EXISTS (SELECT FROM changed) THEN pg_notify('` + commitChannel + `', $22)::text END`
)

// sendOne is send for the step of a run that is there.
func (s *Store) sendOne(ctx context.Context, o *op) (kept, due bool, err error) {
	r, e := o.Run, &o.entry
	first := int64(0)
	if len(o.Records) > 0 {
		first = o.Records[0].Seq
	}
	sql := changeOne
	args := []any{
		string(r.ID), s.now().UnixNano(), string(r.State), o.mark, o.header, value(r.Result), int64(len(o.Records)), r.DAGVersion,
		nanos(r.ExpiresAt), r.TotalLayers, r.Runner, r.Epoch, clean(r.Owner), o.before, first,
		int64(len(e.events)), e.record, pack(e.records), typesOf(e.types), pack(e.events), e.checkpoint, s.origin,
	}
	if len(o.uses.id) > 0 {
		sql, args = changeUsed, append(args, o.uses.id, o.uses.before, o.uses.after)
	}
	var notified *string
	if err := s.fault.before(); err != nil {
		return false, false, err
	}
	err = s.pool.QueryRow(ctx, sql, args...).Scan(&kept, &due, &notified)
	if err == nil && kept {
		err = s.fault.after()
	}
	return kept && err == nil, due && err == nil, err
}

// uses are the decisions that a step acts upon: as they are stored, and as they
// are afterwards.
type uses struct {
	id            []string
	before, after [][]byte
}

// mostDecided bounds of how many decisions it is known how they are stored.
const mostDecided = 1 << 12

// decided notes how a decision is stored that its runner has not acted upon yet.
func (s *Store) decided(r *approvalRow) {
	if r.Used || len(r.raw) > largeWaiting || r.State != core.ApprovalApproved && r.State != core.ApprovalDenied {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ruled[r.ID]; !ok && len(s.ruled) >= mostDecided {
		for some := range s.ruled {
			delete(s.ruled, some)
			break
		}
	}
	s.ruled[r.ID] = r.raw
}

// takeDecided returns how a decision is stored, and forgets it; nil when that is not
// known.
func (s *Store) takeDecided(id core.ID) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw := s.ruled[id]
	delete(s.ruled, id)
	return raw
}

// prepareUses encodes what a step makes of decisions; false when it is not known
// how they are stored, and they have to be read.
func (s *Store) prepareUses(p *prepared) (bool, error) {
	of := map[core.ID]int{}
	var rows []*approvalRow
	for _, use := range p.Used {
		i, ok := of[use.Approval]
		if !ok {
			raw := s.takeDecided(use.Approval)
			if raw == nil {
				return false, nil
			}
			row := &approvalRow{raw: raw}
			if err := decode(raw, &row.Approval); err != nil {
				return false, err
			}
			row.Used = true
			i, of[use.Approval] = len(rows), len(rows)
			rows = append(rows, row)
		}
		if row := rows[i]; use.CallID != "" && !slices.Contains(row.CallIDs, use.CallID) {
			row.CallIDs = append(row.CallIDs, use.CallID)
		}
	}
	for _, row := range rows {
		after, err := row.encode()
		if err != nil {
			return false, err
		}
		p.uses.id, p.uses.before, p.uses.after = append(p.uses.id, string(row.ID)), append(p.uses.before, row.raw), append(p.uses.after, after)
	}
	return true, nil
}
