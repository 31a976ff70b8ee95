// Package audit is the trail of what was decided and what was refused: rows that
// a chain of hashes ties together. Attempts that are refused again and again share
// rows, so that whoever repeats them fills no disk.
package audit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/machine"
	"github.com/casys-ai/pml/store"
)

const (
	maxReason = 500  // of a row, in letters
	pageRows  = 1000 // that are verified at once
)

// Options are what all views of a trail share. All fields are needed.
type Options struct {
	Home    env.Home
	Side    core.Side // whose trail it is: refusals of each side have a file of their own
	Store   store.Store
	Machine *machine.Machine
	Clock   core.Clock
	Logger  *slog.Logger
}

// View is for whom, and from where, a trail is written and read.
type View struct {
	Store     store.Store // with the rows that may be seen
	Partial   bool        // whether those are not all
	Workspace string
	By        core.Actor // named where a row names nobody
}

// Trail is the audit trail in one view.
type Trail struct {
	o        Options
	view     View
	refusals *refusals
}

var (
	_ api.Audit    = (*Trail)(nil)
	_ api.Refusals = (*Trail)(nil)
)

// Open returns the trail in a first view.
func Open(o Options, v View) *Trail { return &Trail{o: o, view: v, refusals: &refusals{}} }

// In is the same trail in another view.
func (t *Trail) In(v View) *Trail { return &Trail{o: t.o, view: v, refusals: t.refusals} }

// Close keeps what only this process has counted of refused attempts.
func (t *Trail) Close(ctx context.Context) {
	if !t.refusals.pending() {
		return
	}
	if err := t.tally(ctx, nil); err != nil {
		t.o.Logger.Warn("refused attempts are lost for the audit log", "error", core.AsError(err))
	}
}

// Record writes rows for what was decided here, outside of a run.
func (t *Trail) Record(ctx context.Context, rows ...core.AuditRow) error {
	for i := range rows {
		rows[i] = t.Row(rows[i])
	}
	return t.view.Store.Record(ctx, rows...)
}

// Row is a row as Record writes it, for who writes it together with what it tells of.
func (t *Trail) Row(r core.AuditRow) core.AuditRow {
	r.At, r.Workspace = t.now(), t.view.Workspace
	if r.By == (core.Actor{}) {
		r.By = t.view.By
	}
	r.Reason = core.Visible(t.o.Machine.Redactor(t.view.Workspace).Text(r.Reason), maxReason, false)
	return r
}

func (t *Trail) now() time.Time { return t.o.Clock.Now().UTC() }

// Audit lists rows of the audit log, of a scope those of its runs. Values of keys
// are left out of reasons that were written before they were declared: then the
// hash of the row, which VerifyAudit checks, is that of the reason as it was.
func (t *Trail) Audit(ctx context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	t.tallyDue(ctx)
	t.expireDue(ctx)
	rows, err := t.view.Store.Audit(ctx, store.AuditFilter{
		AuditFilter: q.AuditFilter, After: q.Since.Of(t.o.Side), Before: q.Before.Of(t.o.Side), Newest: q.Newest, Limit: q.Limit,
	})
	if rows == nil {
		rows = []core.AuditRow{}
	}
	args := argsReader{t: t, journals: map[core.ID][]core.Record{}}
	for i := range rows {
		dir := rows[i].Workspace
		if dir == "" {
			dir = t.view.Workspace
		}
		rows[i].Reason = t.o.Machine.Redactor(dir).Text(rows[i].Reason)
		rows[i].Shown = core.ShownOutcome(rows[i])
		if err == nil && q.Args {
			rows[i].Arguments, rows[i].Sent, err = args.of(ctx, rows[i], dir)
		}
	}
	return rows, err
}

// expireDue records what has expired, so that its rows are there.
func (t *Trail) expireDue(ctx context.Context) {
	if _, err := t.o.Store.Expire(ctx, t.now()); err != nil {
		t.o.Logger.Warn("what has expired is not in the audit log yet", "error", core.AsError(err))
	}
}

// VerifyAudit checks the chain of hashes of the whole audit log, also for a scope
// that sees a part of it: then the rows of that part are counted.
func (t *Trail) VerifyAudit(ctx context.Context) (api.AuditReport, error) {
	report := api.AuditReport{OK: true}
	var last []core.AuditRow // the one before the next page
	for {
		after := int64(0)
		if len(last) > 0 {
			after = last[0].Seq
		}
		rows, err := t.o.Store.Audit(ctx, store.AuditFilter{After: after, Limit: pageRows})
		if err != nil {
			return api.AuditReport{}, err
		}
		if len(rows) == 0 {
			break
		}
		bad, reason := approval.Verify(append(last, rows...))
		if reason == "" && len(last) == 0 && rows[0].Seq != 1 {
			bad, reason = rows[0].Seq, fmt.Sprintf("the rows before %d are missing", rows[0].Seq)
		}
		report.Rows += len(rows)
		if report.OK = reason == ""; !report.OK {
			report.Bad, report.Reason = bad, reason
			break
		}
		last = []core.AuditRow{rows[len(rows)-1]}
	}
	if !t.view.Partial {
		return report, nil
	}
	mine, err := t.view.Store.Audit(ctx, store.AuditFilter{})
	report.Rows = len(mine)
	return report, err
}
