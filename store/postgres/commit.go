package postgres

import "strings"

// The short way to write: one statement commits the steps of several runs, at most
// one of each run, that change only header, journal, programs, checkpoints and
// events (see prepared.short). It returns the runs whose step it committed, and
// whether anything has expired that nobody has recorded.
//
// The WHERE of changeSQL is store.Admit as one condition: same runner,
// epoch and owner, no gap in the journal, no abort requested before a call begins, a
// run that has not ended or expired, nothing but what goes on while calls are halted, and no end of a run that has open approvals or a
// replan that its runner has not seen. The statement does not say why it left a step
// out; that step is committed again the long way, which gives the error or succeeds.
//
// A step sets last_step to its own mark, and a change requires there the mark of the
// step before it. That makes the statement idempotent: sent again after a lost
// connection, or delivered late, it matches no row. The long way then finds the
// step's mark and reports success.
//
// These are statements and no function of the database: a function would unfold each
// of its arrays first and start its parts one by one. Each part reads what the part
// before returned, so rows are locked in one order: runs, then the event counter.
var (
	commitCreates = commitSQL(true, false)
	commitChanges = commitSQL(false, true)
	commitBoth    = commitSQL(true, true)
)

func commitSQL(create, change bool) string {
	var parts, kept []string
	if create {
		parts, kept = append(parts, createSQL), append(kept, "SELECT id FROM created")
	}
	if change {
		parts, kept = append(parts, changeSQL), append(kept, "SELECT id FROM changed")
	}
	parts = append(parts, "kept AS ("+strings.Join(kept, " UNION ALL ")+")", addSQL)
	return "WITH " + strings.Join(parts, ", ") + keptSQL
}

// createSQL inserts new runs and their programs. An id that exists is left out.
const createSQL = `created AS (
		INSERT INTO workflows (id, last_step, owner, workspace, remote, state, created_at, expires_at, runner, epoch,
			dag_version, total_layers, journal_seq, data, input, result, seen_version, key, open, undone)
		SELECT n.*, '', 0, 0
		FROM unnest(@new_id::text[], @new_step::text[], @new_owner::text[], @new_workspace::text[], @new_remote::boolean[], @new_state::text[], @new_created::bigint[], @new_expires::bigint[], @new_runner::text[],
			@new_epoch::bigint[], @new_version::integer[], @new_layers::integer[], @new_seq::bigint[], @new_data::bytea[], @new_input::bytea[], @new_result::bytea[], @new_version::integer[]) AS n
		WHERE ` + goesOn + `
		ON CONFLICT (id) DO NOTHING RETURNING id),
	planned AS (
		INSERT INTO workflow_dags (workflow_id, version, program, intent, created_at, expires_at)
		SELECT n.id, n.version, n.program, n.intent, n.created, n.expires
		FROM unnest(@new_id::text[], @new_version::integer[], @new_program::bytea[], @new_intent::text[], @new_created::bigint[], @new_expires::bigint[])
			AS n(id, version, program, intent, created, expires)
		WHERE n.program IS NOT NULL AND n.id IN (SELECT id FROM created))`

// changeSQL updates the headers of runs. An expiry that a decider has moved while the
// run waits, and the layers of a replan that the runner has not seen, stay.
const changeSQL = `changed AS (
		UPDATE workflows w SET state = u.state, last_step = u.step, data = u.data, result = u.result,
			journal_seq = w.journal_seq + u.count, seen_version = u.version,
			expires_at = CASE WHEN w.state = 'waiting' AND u.state = 'waiting' THEN w.expires_at ELSE u.expires END,
			total_layers = CASE WHEN u.version < w.dag_version THEN w.total_layers ELSE u.layers END
		FROM unnest(@set_id::text[], @set_before::text[], @set_step::text[], @set_owner::text[], @set_state::text[], @set_expires::bigint[], @set_runner::text[], @set_epoch::bigint[],
				@set_version::integer[], @set_layers::integer[], @set_first::bigint[], @set_count::bigint[], @set_data::bytea[], @set_result::bytea[], @set_begins::boolean[])
			AS u(id, before, step, owner, state, expires, runner, epoch, version, layers, first, count, data, result, begins)
		WHERE w.id = u.id AND w.runner = u.runner AND w.epoch = u.epoch AND w.owner = u.owner AND w.last_step = u.before
			AND (u.state = 'running' AND NOT u.begins OR ` + goesOn + `)
			AND (u.count = 0 OR w.journal_seq = u.first - 1) AND (w.abort IS NULL OR NOT u.begins)
			AND (w.state = 'running' OR w.state IN ('waiting', 'interrupted') AND (w.expires_at IS NULL OR w.expires_at > @now))
			AND (u.state IN ('running', 'waiting', 'interrupted')
				OR w.open = 0 AND (u.state = 'aborted' OR u.version >= w.dag_version))
		RETURNING w.id)`

// addSQL numbers the events of the committed steps and inserts one row for each, in
// the order given. The update of the counter locks it until the commit, so events are
// numbered in the order of commits and without gaps.
const addSQL = `added AS (
		SELECT s.*, sum(s.count) OVER (ORDER BY s.n) AS upto
		FROM unnest(@entry_id::text[], @entry_owner::text[], @entry_record::bigint[], @entry_records::bytea[], @entry_count::integer[], @entry_types::text[], @entry_events::bytea[], @entry_checkpoint::bytea[])
			WITH ORDINALITY AS s(id, owner, record, records, count, types, events, checkpoint, n)
		WHERE s.id IN (SELECT id FROM kept)),
	counted AS (
		UPDATE counters SET value = value + (SELECT max(upto) FROM added) WHERE name = 'events' AND EXISTS (SELECT FROM kept)
		RETURNING value - (SELECT max(upto) FROM added) AS last),
	written AS (
		INSERT INTO steps (workflow_id, owner, record, records, event, types, events, checkpoint)
		SELECT a.id, a.owner, a.record, a.records, c.last + a.upto, a.types, a.events, a.checkpoint FROM counted c, added a)`

// dueSQL says whether anything has expired at @now that nobody has recorded.
const dueSQL = ` EXISTS (SELECT FROM approvals WHERE state = 'open' AND expires_at <= @now)
			OR EXISTS (SELECT FROM workflows WHERE state IN ('waiting', 'interrupted') AND expires_at <= @now)`

// keptSQL returns the outcome, and notifies other servers if anything was committed.
const keptSQL = ` SELECT ARRAY (SELECT id FROM kept),` + dueSQL + `,
		CASE WHEN EXISTS (SELECT FROM kept) THEN pg_notify('pml', @origin)::text END`
