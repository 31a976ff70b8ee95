package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// refusedIn bounds how long a refusal waits for its row: whoever is refused is
// told so whatever becomes of the row.
const refusedIn = 10 * time.Second

// Refused puts an attempt that was refused into the audit log: of whom this
// client is for where nobody is named, at a run if that is in its scope. Attempts
// that follow one another share a row.
func (t *Trail) Refused(ctx context.Context, run core.ID, by core.Actor, reason string) error {
	row := core.AuditRow{RunID: run, By: by, Reason: reason}
	if run != "" {
		kept, err := t.view.Store.Run(ctx, run)
		if row.Workspace, row.RunName = kept.Workspace, kept.Name; err != nil { // whose it is is not said by the row either
			row.RunID, row.Reason = "", fmt.Sprintf("%s (about %q)", reason, core.Visible(string(run), 60, false))
		}
	}
	return t.refuse(ctx, "request", row)
}

// Visit puts into the audit log what somebody did, or tried, to be let in or to shut
// somebody out: a row each, or one for all of the same code and actor within a minute.
func (t *Trail) Visit(ctx context.Context, code string, row core.AuditRow) error {
	return t.refuse(ctx, "visit: "+code, row)
}

// RefusedDecision puts a decision that was refused for good into the audit log.
// What the decider has decided already, or was asked too long ago, is none; a
// wrong PIN has a row of its own.
func (t *Trail) RefusedDecision(ctx context.Context, run core.Run, req api.ContinueRequest, refused error) {
	e := core.AsError(refused)
	switch e.Code {
	case core.CodeAwaitingHuman, core.CodeDigestMismatch, core.CodePermissionDenied, core.CodeNotFound:
	case core.CodeAlreadyDecided:
		if e.Decided != nil && e.Decided.Actor == req.By {
			return
		}
	default:
		return
	}
	row := core.AuditRow{RunID: run.ID, RunName: run.Name, Workspace: run.Workspace, By: req.By, Reason: string(e.Code) + ": " + e.Message}
	if id := req.Decision.Checkpoint; id != "" {
		list, err := t.view.Store.Approvals(ctx, store.ApprovalFilter{ID: id, Now: t.now()})
		if err == nil && len(list) == 1 && list[0].RunID == run.ID {
			ap := list[0]
			row.ApprovalID, row.Type, row.Tool, row.Digest = ap.ID, ap.Type, ap.Tool, ap.Digest
		}
	}
	t.NoteRefused(ctx, string(e.Code), row)
}

// UnknownRun puts a decision about a run that is not in scope into the audit log.
func (t *Trail) UnknownRun(ctx context.Context, req api.ContinueRequest, err error) {
	if req.Decision == nil || core.CodeOf(err) != core.CodeNotFound {
		return
	}
	t.NoteRefused(ctx, string(core.CodeNotFound), core.AuditRow{
		By: req.By, Reason: fmt.Sprintf("%s: a decision about a run %q", core.CodeNotFound, core.Visible(string(req.ID), 60, false)),
	})
}

// NoteRefused is refuse where the refusal stands without its row, too.
func (t *Trail) NoteRefused(ctx context.Context, code string, row core.AuditRow) {
	if err := t.refuse(ctx, code, row); err != nil {
		t.o.Logger.Warn("a refusal is not in the audit log yet", "error", core.AsError(err))
	}
}

// refuse writes the row of an attempt, refused unless the row says otherwise. When the same actor was refused
// the same way within the last minute it is counted for a later row. code says
// how it was refused.
func (t *Trail) refuse(ctx context.Context, code string, row core.AuditRow) error {
	if row.By == (core.Actor{}) {
		row.By = t.view.By
	}
	if row.Workspace == "" {
		row.Workspace = t.view.Workspace
	}
	row.Outcome = cmp.Or(row.Outcome, core.OutcomeRefused)
	row.Reason = core.Visible(t.o.Machine.Redactor(row.Workspace).Text(row.Reason), maxReason, false)
	r := refusal{Code: code, Row: row}
	if t.refusals.counted(r, t.now()) {
		return nil
	}
	return t.tally(ctx, &r)
}

// tallyDue writes the rows of attempts that were only counted, once their minute
// is over. What goes wrong is logged: they stay counted.
func (t *Trail) tallyDue(ctx context.Context) {
	file, err := t.readRefused()
	if err == nil && !t.refusals.due(t.now()) && !file.due(t.now()) {
		return
	}
	if err == nil {
		err = t.tally(ctx, nil)
	}
	if err != nil {
		t.o.Logger.Warn("refused attempts are not in the audit log yet", "error", core.AsError(err))
	}
}

// tally counts an attempt, if there is one, and writes the rows that are due.
func (t *Trail) tally(ctx context.Context, attempt *refusal) error {
	var due []refusal
	err := t.withRefused(func(f refusedFile) {
		if attempt != nil {
			f.add(*attempt, t.now())
		}
		due = f.takeDue(t.now())
	})
	if err != nil || len(due) == 0 {
		return err
	}
	rows := make([]core.AuditRow, len(due))
	for i, r := range due {
		rows[i] = r.Row
		if rows[i].At = t.now(); r.More > 1 {
			rows[i].Count = r.More
		}
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedIn)
	defer cancel()
	if err = t.view.Store.Record(late, rows...); err == nil {
		return nil
	}
	if lost := t.withRefused(func(f refusedFile) { f.giveBack(due) }); lost != nil {
		t.o.Logger.Warn("refused attempts are lost for the audit log", "error", core.AsError(lost))
	}
	return err
}
