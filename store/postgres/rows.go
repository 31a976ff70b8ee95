package postgres

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// runRow is a run's header as it is kept, without input and result.
type runRow struct {
	core.Run

	lastStep     string
	seen         int // the DAG version that the runner goes by
	open, undone int // approvals that are open, decisions that nobody acted upon
}

// runColumns are the columns that scanRun reads, of workflows as w.
const runColumns = `w.data, w.owner, w.workspace, w.remote, w.created_at, w.state, w.expires_at, w.runner, w.epoch, w.dag_version, w.total_layers, w.abort,
	w.journal_seq, w.last_step, w.seen_version, w.open, w.undone`

// scanRun reads a run; nil without an error when there is no row.
func scanRun(row pgx.Row, more ...any) (*runRow, error) {
	var r runRow
	var c core.Run
	var data, abort []byte
	var created int64
	var expires *int64
	into := []any{&data, &c.Owner, &c.Workspace, &c.Remote, &created, &c.State, &expires, &c.Runner, &c.Epoch, &c.DAGVersion, &c.TotalLayers, &abort,
		&c.JournalSeq, &r.lastStep, &r.seen, &r.open, &r.undone}
	switch err := row.Scan(append(into, more...)...); {
	case err == pgx.ErrNoRows: //nolint:errorlint // pgx returns it as it is
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decode(data, &r.Run); err != nil {
		return nil, err
	}
	r.Owner, r.Workspace, r.Remote, r.CreatedAt = c.Owner, c.Workspace, c.Remote, time.Unix(0, created).UTC()
	r.State, r.ExpiresAt, r.Runner, r.Epoch = c.State, timeOf(expires), c.Runner, c.Epoch
	if r.ExpiresAt != nil {
		r.HeldMS = 0 // of before a halt that is over
	}
	r.DAGVersion, r.TotalLayers, r.JournalSeq, r.Abort = c.DAGVersion, c.TotalLayers, c.JournalSeq, nil
	if abort != nil {
		r.Abort = &core.AbortRequest{}
		return &r, decode(abort, r.Abort)
	}
	return &r, nil
}

// header encodes what data holds of a run.
func header(r core.Run) ([]byte, error) {
	r.Result, r.Options.Input = nil, nil
	r.CreatedAt, r.UpdatedAt = r.CreatedAt.UTC(), r.UpdatedAt.UTC()
	return store.Encode(&r)
}

// approvalRow is an approval as it is kept.
type approvalRow struct {
	core.Approval
}

// encode is what data holds of an approval.
func (r *approvalRow) encode() ([]byte, error) {
	a := r.Approval
	a.Context = nil
	return store.Encode(&a)
}

const approvalColumns = `a.data, a.context`

func scanApproval(row pgx.Row, more ...any) (*approvalRow, error) {
	var r approvalRow
	var data, context []byte
	switch err := row.Scan(append([]any{&data, &context}, more...)...); {
	case err == pgx.ErrNoRows: //nolint:errorlint // pgx returns it as it is
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decode(data, &r.Approval); err != nil {
		return nil, err
	}
	r.Context = context
	return &r, nil
}

func decode(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		if store.TooDeep(raw) { // as an older pml kept it
			return core.Errorf(core.CodeStoreFailed, "a row of the database cannot be read: it is nested too deeply; nothing is damaged")
		}
		return core.Errorf(core.CodeStoreFailed, "a row of the database cannot be read: %w; restore it from a backup; nothing was changed", err)
	}
	return nil
}

// value is a JSON value as a column keeps it: null when there is none.
func value(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// clean makes foreign text fit for a text column. Filters are cleaned alike;
// data keeps the text as it is.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}

// nanos is a time as columns keep it.
func nanos(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	n := nano(*t)
	return &n
}

// nano is a time in nanoseconds since 1970; one that they cannot count is the
// first or the last that they can.
func nano(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

func timeOf(n *int64) *time.Time {
	if n == nil {
		return nil
	}
	t := time.Unix(0, *n).UTC()
	return &t
}
