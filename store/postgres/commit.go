package postgres

import (
	"strconv"
	"strings"
)

// The statements that commit steps of several runs, at most one of each: those
// that change nothing but header, journal, programs, checkpoints and events, and
// that nothing stands against. Each step names the one before it, so that one that
// arrives twice, however late, is taken once. They return the runs whose step is
// committed, and whether anything has expired that nobody has recorded.
//
// These are statements and no function of the database: a function would unfold
// each of its arrays first, and start its parts one by one. Rows are locked in the
// order of the parts, since each looks at what the one before has done.
var (
	commitCreates = commitSQL(true, false)
	commitChanges = commitSQL(false, true)
	commitBoth    = commitSQL(true, true)
)

func commitSQL(create, change bool) string {
	const common, ofCreate = 10, 18
	var parts, kept []string
	first := common
	if create {
		parts, kept = append(parts, numbered(createSQL, first)), append(kept, "SELECT id FROM created")
		first += ofCreate
	}
	if change {
		parts, kept = append(parts, numbered(changeSQL, first)), append(kept, "SELECT id FROM changed")
	}
	parts = append(parts, "kept AS ("+strings.Join(kept, " UNION ALL ")+")", addSQL)
	return "WITH " + strings.Join(parts, ", ") + keptSQL
}

// numbered makes parameters of @1, @2 and so on, after so many others.
func numbered(sql string, others int) string {
	for n := strings.Count(sql, "@"); n > 0; n-- {
		sql = strings.ReplaceAll(sql, "@"+strconv.Itoa(n)+":", "$"+strconv.Itoa(others+n)+":")
	}
	return sql
}

const createSQL = `created AS (
		INSERT INTO workflows (id, last_step, owner, workspace, remote, state, created_at, expires_at, runner, epoch,
			dag_version, total_layers, journal_seq, data, input, result, seen_version, key, open, undone)
		SELECT n.*, '', 0, 0
		FROM unnest(@1::text[], @2::text[], @3::text[], @4::text[], @5::boolean[], @6::text[], @7::bigint[], @8::bigint[], @9::text[],
			@10::bigint[], @11::integer[], @12::integer[], @13::bigint[], @14::bytea[], @15::bytea[], @16::bytea[], @11::integer[]) AS n
		ON CONFLICT (id) DO NOTHING RETURNING id),
	planned AS (
		INSERT INTO workflow_dags (workflow_id, version, program, intent, created_at, expires_at)
		SELECT n.id, n.version, n.program, n.intent, n.created, n.expires
		FROM unnest(@1::text[], @11::integer[], @17::bytea[], @18::text[], @7::bigint[], @8::bigint[])
			AS n(id, version, program, intent, created, expires)
		WHERE n.program IS NOT NULL AND n.id IN (SELECT id FROM created))`

const changeSQL = `changed AS (
		UPDATE workflows w SET state = u.state, last_step = u.step, data = u.data, result = u.result,
			journal_seq = w.journal_seq + u.count, seen_version = u.version,
			expires_at = CASE WHEN w.state = 'waiting' AND u.state = 'waiting' THEN w.expires_at ELSE u.expires END,
			total_layers = CASE WHEN u.version < w.dag_version THEN w.total_layers ELSE u.layers END
		FROM unnest(@1::text[], @2::text[], @3::text[], @4::text[], @5::text[], @6::bigint[], @7::text[], @8::bigint[],
				@9::integer[], @10::integer[], @11::bigint[], @12::bigint[], @13::bytea[], @14::bytea[])
			AS u(id, before, step, owner, state, expires, runner, epoch, version, layers, first, count, data, result)
		WHERE w.id = u.id AND w.runner = u.runner AND w.epoch = u.epoch AND w.owner = u.owner AND w.last_step = u.before
			AND (u.count = 0 OR w.journal_seq = u.first - 1)
			AND (w.state = 'running' OR w.state IN ('waiting', 'interrupted') AND (w.expires_at IS NULL OR w.expires_at > $2))
			AND (u.state IN ('running', 'waiting', 'interrupted')
				OR w.open = 0 AND (u.state = 'aborted' OR u.version >= w.dag_version))
		RETURNING w.id)`

// addSQL numbers the events of what is kept and adds its rows, in the order given.
const addSQL = `added AS (
		SELECT s.*, sum(s.count) OVER (ORDER BY s.n) AS upto
		FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::integer[], $8::text[], $9::bytea[], $10::bytea[])
			WITH ORDINALITY AS s(id, owner, record, records, count, types, events, checkpoint, n)
		WHERE s.id IN (SELECT id FROM kept)),
	counted AS (
		UPDATE counters SET value = value + (SELECT max(upto) FROM added) WHERE name = 'events' AND EXISTS (SELECT FROM kept)
		RETURNING value - (SELECT max(upto) FROM added) AS last),
	written AS (
		INSERT INTO steps (workflow_id, owner, record, records, event, types, events, checkpoint)
		SELECT a.id, a.owner, a.record, a.records, c.last + a.upto, a.types, a.events, a.checkpoint FROM counted c, added a)`

// dueSQL says whether anything has expired at $2 that nobody has recorded.
const dueSQL = ` EXISTS (SELECT FROM approvals WHERE state = 'open' AND expires_at <= $2)
			OR EXISTS (SELECT FROM workflows WHERE state IN ('waiting', 'interrupted') AND expires_at <= $2)`

const keptSQL = ` SELECT ARRAY (SELECT id FROM kept),` + dueSQL + `,
		CASE WHEN EXISTS (SELECT FROM kept) THEN pg_notify('pml', $1)::text END`
