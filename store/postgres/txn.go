package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// txn is a transaction of the long way. It reads, and locks what it reads, at
// once; what it writes is sent together with the commit. Locks are taken in one
// order: runs, approvals, the audit log, events.
type txn struct {
	ctx   context.Context
	conn  *pgx.Conn
	now   time.Time
	begun bool

	writes pgx.Batch
	audit  []core.AuditRow
	head   *core.AuditRow // the newest audit row, once it is locked
	added  []*entry
	named  map[core.ID]*approvalRow // approvals that are locked already, nil where there is none
	own    bool                     // nothing but a step or a claim of a runner was written
	quiet  bool                     // no other process has to hear of it
	large  bool                     // what is written takes its time to send
	halt   **core.Halt              // as halted has read it; nil before
}

// update runs f in a transaction that is committed when f returns nil, and
// wakes whoever watches.
func (s *Store) update(ctx context.Context, f func(*txn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.inflight.Done()
	return s.patiently(ctx, briefly, func(ctx context.Context) error { return s.transact(ctx, f) })
}

// transact is one try. After an error that is passing it is unknown whether it
// was committed.
func (s *Store) transact(ctx context.Context, f func(*txn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	t := &txn{ctx: ctx, conn: conn.Conn(), now: s.now()}
	if err := f(t); err != nil {
		t.rollback()
		return err
	}
	if t.writes.Len() == 0 && len(t.audit) == 0 && len(t.added) == 0 {
		t.rollback()
		return nil
	}
	err = t.commit(s)
	if err != nil {
		t.rollback()
	}
	s.watch.committed(t.own && err == nil) // what is unknown may have been kept
	return err
}

func (t *txn) rollback() {
	if !t.begun || t.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), parting)
	defer cancel()
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		shut(t.conn)
	}
}

// parting is how long a connection may take for its last words.
const parting = time.Second

// shut closes a connection, even one that answers no more.
func shut(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	_ = conn.Close(ctx)
}

// brieflyExec runs one statement of a connection of its own.
func brieflyExec(ctx context.Context, conn *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	_, err := conn.Exec(ctx, sql)
	return err
}

// commit sends what is to be written, and COMMIT with it.
func (t *txn) commit(s *Store) error {
	if t.large { // others do not wait for the audit log meanwhile
		if err := t.flush(); err != nil {
			return err
		}
	}
	if err := t.chain(); err != nil {
		return err
	}
	if t.halt != nil && *t.halt != nil {
		t.writes.Queue(stillHalted)
	}
	var rows entries
	for _, e := range t.added {
		rows.add(e)
	}
	rows.queue(&t.writes)
	if !t.quiet {
		t.writes.Queue("SELECT pg_notify($1, $2)", commitChannel, s.origin)
	}
	b := t.batch()
	b.QueuedQueries = append(b.QueuedQueries, t.writes.QueuedQueries...)
	b.Queue("COMMIT")
	if err := s.fault.before(); err != nil {
		return err
	}
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return &unknown{err}
	}
	t.begun = false
	return s.fault.after()
}

// flush sends what is to be written so far.
func (t *txn) flush() error {
	b := t.batch()
	b.QueuedQueries = append(b.QueuedQueries, t.writes.QueuedQueries...)
	t.writes = pgx.Batch{}
	return t.conn.SendBatch(t.ctx, b).Close()
}

// batch begins with BEGIN when the transaction has not begun.
func (t *txn) batch() *pgx.Batch {
	b := &pgx.Batch{}
	if !t.begun {
		b.Queue("BEGIN")
		t.begun = true
	}
	return b
}

// query is a statement that reads one row.
type query struct {
	sql  string
	args []any
	scan func(pgx.Row) error
}

// read sends several statements in one round trip.
func (t *txn) read(qs ...query) error {
	if t.begun && len(qs) == 0 {
		return nil
	}
	first := !t.begun
	b := t.batch()
	for _, q := range qs {
		b.Queue(q.sql, q.args...)
	}
	res := t.conn.SendBatch(t.ctx, b)
	defer func() { _ = res.Close() }()
	if first {
		if _, err := res.Exec(); err != nil {
			return err
		}
	}
	for _, q := range qs {
		if err := q.scan(res.QueryRow()); err != nil {
			return err
		}
	}
	return res.Close()
}

// rows reads any number of rows.
func rows[T any](t *txn, scan func(pgx.Row) (T, error), sql string, args ...any) ([]T, error) {
	if err := t.read(); err != nil { // begins
		return nil, err
	}
	found, err := t.conn.Query(t.ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (T, error) { return scan(row) })
}

const (
	lockRun      = "SELECT " + runColumns + " FROM workflows w WHERE w.id = $1 FOR UPDATE"
	lockRunOf    = "SELECT " + runColumns + " FROM workflows w WHERE w.id = (SELECT workflow_id FROM approvals WHERE id = $1) FOR UPDATE"
	lockApproval = "SELECT " + approvalColumns + " FROM approvals a WHERE a.id = $1 FOR UPDATE"
	lockAudit    = "SELECT value, head FROM counters WHERE name = 'audit' FOR UPDATE"
)

func readRun(into **runRow, sql string, id core.ID) query {
	return query{sql, []any{clean(string(id))}, func(row pgx.Row) (err error) {
		*into, err = scanRun(row)
		return err
	}}
}

func readApproval(into **approvalRow, id core.ID) query {
	return query{lockApproval, []any{clean(string(id))}, func(row pgx.Row) (err error) {
		*into, err = scanApproval(row)
		return err
	}}
}

func (t *txn) readHead() query {
	return query{lockAudit, nil, func(row pgx.Row) error {
		t.head = &core.AuditRow{}
		return row.Scan(&t.head.Seq, &t.head.Hash)
	}}
}

// run locks a run; nil when there is none.
func (t *txn) run(id core.ID) (run *runRow, err error) {
	err = t.read(readRun(&run, lockRun, id))
	return run, err
}

func (t *txn) mustRun(id core.ID) (*runRow, error) {
	run, err := t.run(id)
	if err == nil && run == nil {
		return nil, store.NoRun(id)
	}
	return run, err
}

// approval locks an approval, nil when there is none. Its run is locked before.
func (t *txn) approval(id core.ID) (a *approvalRow, err error) {
	if a, ok := t.named[id]; ok {
		return a, nil
	}
	err = t.read(readApproval(&a, id))
	return a, err
}

// openOf locks those approvals of runs that are open.
func (t *txn) openOf(runs ...core.ID) ([]*approvalRow, error) {
	return rows(t, func(row pgx.Row) (*approvalRow, error) { return scanApproval(row) },
		"SELECT "+approvalColumns+" FROM approvals a WHERE a.workflow_id = ANY ($1) AND a.state = 'open' ORDER BY a.id FOR UPDATE", runs)
}

const putRunSQL = `UPDATE workflows SET state = @state, expires_at = @expires, runner = @runner, epoch = @epoch,
	dag_version = @version, total_layers = @layers, abort = @abort, journal_seq = @seq, last_step = @step, open = @open,
	undone = @undone, seen_version = @seen, data = @data`

// putRun writes what a transaction may change of a run; its result only when a
// step says what that is.
func (t *txn) putRun(r *runRow, result ...[]byte) error {
	if err := t.holdRun(r); err != nil {
		return err
	}
	data, err := header(r.Run)
	if err != nil {
		return err
	}
	var abort []byte
	if r.Abort != nil {
		if abort, err = store.Encode(r.Abort); err != nil {
			return err
		}
	}
	sql, args := putRunSQL, pgx.NamedArgs{
		"id": string(r.ID), "state": string(r.State), "expires": nanos(r.ExpiresAt), "runner": r.Runner, "epoch": r.Epoch,
		"version": r.DAGVersion, "layers": r.TotalLayers, "abort": abort, "seq": r.JournalSeq, "step": r.lastStep,
		"open": r.open, "undone": r.undone, "seen": r.seen, "data": data,
	}
	if len(result) > 0 {
		sql, args["result"] = putRunSQL+", result = @result", result[0]
	}
	t.writes.Queue(sql+" WHERE id = @id", args)
	return nil
}

// putApproval writes an approval and counts for its run; before is the approval
// as it was, nil for a new one. The run is written after it.
func (t *txn) putApproval(run *runRow, before *core.Approval, r *approvalRow) error {
	if before != nil {
		run.count(*before, -1)
	}
	run.count(r.Approval, 1)
	if err := t.hold(&r.Approval); err != nil {
		return err
	}
	a := r.Approval
	data, err := r.encode()
	if err != nil {
		return err
	}
	if before == nil {
		t.writes.Queue(`INSERT INTO approvals (id, workflow_id, owner, workspace, state, used, created_at, expires_at, data, context)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, string(a.ID), string(a.RunID), clean(a.Owner), clean(a.Workspace),
			string(a.State), a.Used, a.CreatedAt.UnixNano(), nanos(a.ExpiresAt), data, value(r.Context))
		return nil
	}
	t.writes.Queue("UPDATE approvals SET state = $2, used = $3, expires_at = $4, data = $5 WHERE id = $1",
		string(a.ID), string(a.State), a.Used, nanos(a.ExpiresAt), data)
	return nil
}

// count keeps the numbers of approvals that the short way and orphans go by.
func (r *runRow) count(a core.Approval, n int) {
	switch {
	case a.State == core.ApprovalOpen:
		r.open += n
	case (a.State == core.ApprovalApproved || a.State == core.ApprovalDenied) && !a.Used:
		r.undone += n
	}
}

func (t *txn) addEvents(r *runRow, events ...core.Event) error {
	if len(events) == 0 {
		return nil
	}
	if n := len(t.added); n == 0 || t.added[n-1].run != r.ID {
		t.added = append(t.added, &entry{run: r.ID, owner: r.Owner})
	}
	of := t.added[len(t.added)-1]
	for _, e := range events {
		if err := of.addEvent(e); err != nil {
			return err
		}
	}
	return nil
}

// chain numbers and chains the audit rows and queues them.
func (t *txn) chain() error {
	if len(t.audit) == 0 {
		return nil
	}
	if t.head == nil {
		if err := t.read(t.readHead()); err != nil {
			return err
		}
	}
	prev := *t.head
	for _, row := range t.audit {
		row, err := approval.Chain(prev, row)
		if err != nil {
			return err
		}
		raw, err := store.Encode(&row)
		if err != nil {
			return err
		}
		t.writes.Queue("INSERT INTO audit (seq, data) VALUES ($1, $2)", row.Seq, raw)
		prev = row
	}
	t.head = &prev
	t.writes.Queue("UPDATE counters SET value = $1, head = $2 WHERE name = 'audit'", prev.Seq, prev.Hash)
	return nil
}

// settle writes what a rule made of an approval: row, audit and event.
func (t *txn) settle(run *runRow, r *approvalRow, res approval.Result) error {
	before := r.Approval
	r.Approval = res.Approval
	if err := t.putApproval(run, &before, r); err != nil {
		return err
	}
	t.audit = append(t.audit, res.Row)
	return t.addEvents(run, approval.Resolved(res.Approval, res.Row.At))
}
