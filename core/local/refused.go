package local

import (
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
// client is for, at a run if that is in its scope. Attempts that follow one
// another share a row.
func (c *Client) Refused(ctx context.Context, run core.ID, reason string) error {
	row := core.AuditRow{RunID: run, Reason: reason}
	if run != "" {
		kept, err := c.o.Store.Run(ctx, run)
		if row.Workspace = kept.Workspace; err != nil { // whose it is is not said by the row either
			row.RunID, row.Reason = "", fmt.Sprintf("%s (about %q)", reason, core.Visible(string(run), 60, false))
		}
	}
	return c.refuse(ctx, "request", row)
}

// refusedDecision puts a decision that was refused for good into the audit log.
// What the decider has decided already, or was asked too long ago, is none; a
// wrong PIN has a row of its own.
func (c *Client) refusedDecision(ctx context.Context, run core.Run, req api.ContinueRequest, refused error) {
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
	row := core.AuditRow{RunID: run.ID, Workspace: run.Workspace, By: req.By, Reason: string(e.Code) + ": " + e.Message}
	if id := req.Decision.Checkpoint; id != "" {
		list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{ID: id, Now: c.now()})
		if err == nil && len(list) == 1 && list[0].RunID == run.ID {
			ap := list[0]
			row.ApprovalID, row.Type, row.Tool, row.Digest = ap.ID, ap.Type, ap.Tool, ap.Digest
		}
	}
	c.noteRefused(ctx, string(e.Code), row)
}

// unknownRun puts a decision about a run that is not in scope into the audit log.
func (c *Client) unknownRun(ctx context.Context, req api.ContinueRequest, err error) {
	if req.Decision == nil || core.CodeOf(err) != core.CodeNotFound {
		return
	}
	c.noteRefused(ctx, string(core.CodeNotFound), core.AuditRow{
		By: req.By, Reason: fmt.Sprintf("%s: a decision about a run %q", core.CodeNotFound, core.Visible(string(req.ID), 60, false)),
	})
}

// noteRefused is refuse where the refusal stands without its row, too.
func (c *Client) noteRefused(ctx context.Context, code string, row core.AuditRow) {
	if err := c.refuse(ctx, code, row); err != nil {
		c.o.Logger.Warn("a refusal is not in the audit log yet", "error", core.AsError(err))
	}
}

// refuse writes the row of a refused attempt. When the same actor was refused
// the same way within the last minute it is counted for a later row. code says
// how it was refused.
func (c *Client) refuse(ctx context.Context, code string, row core.AuditRow) error {
	if row.By == (core.Actor{}) {
		row.By = c.o.By
	}
	if row.Workspace == "" {
		row.Workspace = c.o.Workspace.Dir
	}
	row.Outcome = core.OutcomeRefused
	row.Reason = core.Visible(c.shownOf(row.Workspace).text(row.Reason), maxReason, false)
	r := refusal{Code: code, Row: row}
	if c.refusals.counted(r, c.now()) {
		return nil
	}
	return c.tally(ctx, &r)
}

// tallyDue writes the rows of attempts that were only counted, once their minute
// is over. What goes wrong is logged: they stay counted.
func (c *Client) tallyDue(ctx context.Context) {
	file, err := c.readRefused()
	if err == nil && !c.refusals.due(c.now()) && !file.due(c.now()) {
		return
	}
	if err == nil {
		err = c.tally(ctx, nil)
	}
	if err != nil {
		c.o.Logger.Warn("refused attempts are not in the audit log yet", "error", core.AsError(err))
	}
}

// settleRefused keeps, at the end of this process, what only it has counted.
func (c *Client) settleRefused(ctx context.Context) {
	if err := c.tally(ctx, nil); err != nil {
		c.o.Logger.Warn("refused attempts are lost for the audit log", "error", core.AsError(err))
	}
}

// tally counts an attempt, if there is one, and writes the rows that are due.
func (c *Client) tally(ctx context.Context, attempt *refusal) error {
	var due []refusal
	err := c.withRefused(func(f refusedFile) {
		if attempt != nil {
			f.add(*attempt, c.now())
		}
		due = f.takeDue(c.now())
	})
	if err != nil || len(due) == 0 {
		return err
	}
	rows := make([]core.AuditRow, len(due))
	for i, r := range due {
		rows[i] = r.Row
		if rows[i].At = c.now(); r.More > 1 {
			rows[i].Count = r.More
		}
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedIn)
	defer cancel()
	if err = c.o.Store.Record(late, rows...); err == nil {
		return nil
	}
	if lost := c.withRefused(func(f refusedFile) { f.giveBack(due) }); lost != nil {
		c.o.Logger.Warn("refused attempts are lost for the audit log", "error", core.AsError(lost))
	}
	return err
}
