package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// read runs f on a connection of the pool, again after a connection was lost.
func (s *Store) read(ctx context.Context, f func(context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.inflight.Done()
	return s.patiently(ctx, briefly, f)
}

// list reads rows with a scan for each.
func list[T any](ctx context.Context, s *Store, scan func(pgx.Row) (T, error), sql string, args ...any) (out []T, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		found, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (T, error) { return scan(row) })
		if len(out) == 0 {
			out = nil
		}
		return err
	})
	return out, err
}

// Run implements store.Reader.
func (s *Store) Run(ctx context.Context, id core.ID) (core.Run, error) {
	var out core.Run
	err := s.read(ctx, func(ctx context.Context) error {
		var input, result []byte
		row, err := scanRun(s.pool.QueryRow(ctx, "SELECT "+runColumns+", w.input, w.result FROM workflows w WHERE w.id = $1",
			clean(string(id))), &input, &result)
		if err != nil {
			return err
		}
		if row == nil {
			return store.NoRun(id)
		}
		out = approval.RunAt(row.Run, s.now())
		out.Result, out.Options.Input = result, input
		return nil
	})
	return out, err
}

// Program implements store.Reader.
func (s *Store) Program(ctx context.Context, id core.ID) (core.Program, error) {
	found, err := list(ctx, s, scanJSON[core.Program],
		"SELECT program FROM workflow_dags WHERE workflow_id = $1 ORDER BY version DESC LIMIT 1", clean(string(id)))
	if err == nil && len(found) == 0 {
		if _, err = s.Run(ctx, id); err == nil {
			err = core.Errorf(core.CodeNotFound, "the run %s has no program", id.Short()).WithRun(id)
		}
	}
	if err != nil {
		return core.Program{}, err
	}
	return found[0], nil
}

func scanJSON[T any](row pgx.Row) (v T, err error) {
	var raw []byte
	if err = row.Scan(&raw); err == nil {
		err = decode(raw, &v)
	}
	return v, err
}

func scanID(row pgx.Row) (id core.ID, err error) {
	err = row.Scan(&id)
	return id, err
}

// Find implements store.Reader.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (store.Found, error) {
	var found store.Found
	if prefix != "" && !store.ValidID(core.ID(prefix)) {
		return found, nil
	}
	for table, into := range map[string]*[]core.ID{"workflows": &found.Runs, "approvals": &found.Approvals} {
		ids, err := list(ctx, s, scanID, "SELECT id FROM "+table+" WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3",
			prefix, prefix+"\x7f", limitOf(limit))
		if err != nil {
			return store.Found{}, err
		}
		*into = ids
	}
	return found, nil
}

// filter collects conditions and their arguments.
type filter struct {
	conditions []string
	args       []any
}

// add adds a condition in which each ? stands for the argument.
func (f *filter) add(condition string, arg any) {
	f.args = append(f.args, arg)
	f.conditions = append(f.conditions, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(f.args))))
}

func (f *filter) where() string {
	if len(f.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conditions, " AND ")
}

// limitOf makes 0 no limit.
func limitOf(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// Runs implements store.Reader. Results and inputs are left out; a commit of
// such a header does not lose the input.
func (s *Store) Runs(ctx context.Context, f store.RunFilter) ([]core.Run, error) {
	now := s.now()
	var where filter
	if f.Before != "" {
		from, err := s.Run(ctx, f.Before)
		if err != nil {
			return nil, err
		}
		where.add("(w.created_at, w.id) < (?::bigint, ", from.CreatedAt.UnixNano())
		last := len(where.conditions) - 1
		where.args = append(where.args, string(from.ID))
		where.conditions[last] += fmt.Sprintf("$%d)", len(where.args))
	}
	if len(f.States) > 0 {
		where.add("w.state = ANY (?)", candidates(f.States))
	}
	if f.Workspace != "" {
		where.add("w.workspace = ?", clean(f.Workspace))
	}
	if f.Owner != "" {
		where.add("w.owner = ?", clean(f.Owner))
	}
	if f.IdempotencyKey != "" {
		where.add("w.key = ?", clean(f.IdempotencyKey))
	}
	if len(f.States) > 0 {
		where.add(stateMatches(f.States), now.UnixNano())
	}
	where.args = append(where.args, limitOf(f.Limit))
	found, err := list(ctx, s, func(row pgx.Row) (*runRow, error) { return scanRun(row) },
		"SELECT "+runColumns+" FROM workflows w"+where.where()+
			fmt.Sprintf(" ORDER BY w.created_at DESC, w.id DESC LIMIT $%d", len(where.args)), where.args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	out := make([]core.Run, len(found))
	for i, r := range found {
		out[i] = approval.RunAt(r.Run, now)
	}
	return out, nil
}

// candidates are the recorded states of which runs may be read in some states:
// one that is past its expiry is read as expired.
func candidates(states []core.RunState) []string {
	var out []string
	for _, s := range core.RunStates {
		if slices.Contains(states, s) || approval.MayExpire(s) && slices.Contains(states, core.RunExpired) {
			out = append(out, string(s))
		}
	}
	return out
}

// stateMatches is the condition that the state at a time is one of those asked
// for, given candidates.
func stateMatches(states []core.RunState) string {
	const past = "(w.state IN ('waiting', 'interrupted') AND w.expires_at IS NOT NULL AND w.expires_at <= ?)"
	if !slices.Contains(states, core.RunExpired) {
		return "NOT " + past
	}
	plain := []string{"''"}
	for _, s := range states {
		if slices.Contains(core.RunStates, s) {
			plain = append(plain, "'"+string(s)+"'")
		}
	}
	return "(" + past + " OR w.state IN (" + strings.Join(plain, ", ") + "))"
}

// Approvals implements store.Reader.
func (s *Store) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if f.Now.IsZero() {
		f.Now = s.now()
	}
	where := filter{args: []any{f.Now.UnixNano()}}
	if f.ID != "" {
		where.add("a.id = ?", clean(string(f.ID)))
	}
	if f.RunID != "" {
		where.add("a.workflow_id = ?", clean(string(f.RunID)))
	}
	if f.Workspace != "" {
		where.add("a.workspace = ?", clean(f.Workspace))
	}
	if f.Owner != "" {
		where.add("a.owner = ?", clean(f.Owner))
	}
	const gone = "(a.state = 'open' AND " + pastExpiry + ")"
	if f.Agent != "" {
		where.add("w.created_at >= (SELECT r.created_at FROM workflows r WHERE r.id = ?)", clean(string(f.Agent)))
	}
	if f.Digest != "" {
		where.add("position(?::bytea in a.data) > 0", []byte(f.Digest))
	}
	if len(f.States) > 0 {
		states := make([]string, len(f.States))
		for i, st := range f.States {
			states[i] = string(st)
		}
		if !slices.Contains(f.States, core.ApprovalExpired) {
			where.add("a.state = ANY (?)", states)
		}
		if len(states) == 1 && f.States[0] == core.ApprovalOpen { // there is an index of these
			where.conditions = append(where.conditions, "a.state = 'open'")
		}
		where.add("CASE WHEN "+gone+" OR a.state = 'open' AND a.expires_at <= $1 THEN 'expired' ELSE a.state END = ANY (?)", states)
	}
	limit, chosen := f.Limit, f.Decidable || f.Agent != "" || f.Digest != ""
	if chosen { // the data says the rest
		limit = 0
	}
	if f.Decidable {
		where.conditions = append(where.conditions, "a.state IN ('open', 'expired')", "w.state IN "+unended+" AND NOT "+pastExpiry)
	}
	where.args = append(where.args, limitOf(limit))
	sql := "SELECT " + approvalColumns + ", " + gone + " FROM approvals a JOIN workflows w ON w.id = a.workflow_id" + where.where() +
		fmt.Sprintf(" ORDER BY a.expires_at NULLS LAST, a.created_at, a.id LIMIT $%d", len(where.args))
	var out []core.Approval
	var err error
	if f.Into != nil {
		out, err = s.withRun(ctx, f, sql, where.args)
	} else {
		out, err = list(ctx, s, approvalOf, sql, where.args...)
	}
	if chosen {
		out = slices.DeleteFunc(out, func(a core.Approval) bool {
			return f.Decidable && !approval.CanDecide(a, f.Now) || f.Agent != "" && a.Agent != f.Agent || f.Digest != "" && a.Digest != f.Digest
		})
		if f.Limit > 0 && len(out) > f.Limit {
			out = out[:f.Limit]
		}
	}
	return out, err
}

// unended are the states of runs that have not ended, and pastExpiry is the condition
// that one of these has expired at $1, although nobody has recorded it. They are texts
// of the statement, so that it can be planned with the index of states.
const (
	unended    = "('running', 'waiting', 'interrupted')"
	pastExpiry = "(w.state IN ('waiting', 'interrupted') AND w.expires_at IS NOT NULL AND w.expires_at <= $1)"
)

// approvalOf reads a row of an approval and whether its run has expired.
func approvalOf(row pgx.Row) (core.Approval, error) {
	var past bool
	r, err := scanApproval(row, &past)
	if err != nil {
		return core.Approval{}, err
	}
	if past {
		r.State = core.ApprovalExpired
	}
	return r.Approval, nil
}

// withRun reads the header of a run and its approvals in one round trip, as they
// stand at one moment.
func (s *Store) withRun(ctx context.Context, f store.ApprovalFilter, sql string, args []any) (out []core.Approval, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		var b pgx.Batch
		b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		b.Queue("SELECT "+runColumns+" FROM workflows w WHERE w.id = $1", clean(string(f.RunID)))
		b.Queue(sql, args...)
		b.Queue("COMMIT")
		res := s.pool.SendBatch(ctx, &b)
		defer func() { _ = res.Close() }()
		if _, err := res.Exec(); err != nil {
			return err
		}
		row, err := scanRun(res.QueryRow())
		if err != nil {
			return err
		}
		if row == nil || f.Owner != "" && row.Owner != clean(f.Owner) || f.Workspace != "" && row.Workspace != clean(f.Workspace) {
			return store.NoRun(f.RunID)
		}
		found, err := res.Query()
		if err != nil {
			return err
		}
		if out, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (core.Approval, error) { return approvalOf(row) }); err != nil {
			return err
		}
		if err := res.Close(); err != nil {
			return err
		}
		*f.Into = approval.RunAt(row.Run, s.now())
		return nil
	})
	return out, err
}

// Audit implements store.Reader.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]core.AuditRow, error) {
	var out []core.AuditRow
	for after, before := f.After, f.Before; ; {
		order, below, most := "", before, auditPage
		if f.Newest {
			order = " DESC"
		}
		if below <= 0 {
			below = math.MaxInt64
		}
		if f.AuditFilter == (core.AuditFilter{}) { // each row counts
			most = f.Limit - len(out)
		}
		rows, err := list(ctx, s, scanJSON[core.AuditRow],
			"SELECT data FROM audit WHERE seq > $1 AND seq < $2 ORDER BY seq"+order+" LIMIT $3", after, below, limitOf(most))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if !f.Match(r) {
				continue
			}
			if out = append(out, r); len(out) == f.Limit {
				return out, nil
			}
		}
		if len(rows) < auditPage || most != auditPage {
			return out, nil
		}
		if last := rows[len(rows)-1].Seq; f.Newest {
			before = last
		} else {
			after = last
		}
	}
}

// auditPage is how many rows are looked through at once for those that match.
const auditPage = 1000
