package local

import (
	"context"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// Audit lists rows of the audit log, of a scope those of its runs. Values of keys
// are left out of reasons that were written before they were declared: then the
// hash of the row, which VerifyAudit checks, is that of the reason as it was.
func (c *Client) Audit(ctx context.Context, after int64, limit int) ([]core.AuditRow, error) {
	c.tallyDue(ctx)
	rows, err := c.o.Store.Audit(ctx, after, limit)
	if rows == nil {
		rows = []core.AuditRow{}
	}
	for i := range rows {
		dir := rows[i].Workspace
		if dir == "" {
			dir = c.o.Workspace.Dir
		}
		rows[i].Reason = c.shownOf(dir).text(rows[i].Reason)
	}
	return rows, err
}

// VerifyAudit checks the chain of hashes of the whole audit log, also for a scope
// that sees a part of it: then the rows of that part are counted.
func (c *Client) VerifyAudit(ctx context.Context) (api.AuditReport, error) {
	report := api.AuditReport{OK: true}
	var last []core.AuditRow // the one before the next page
	for {
		after := int64(0)
		if len(last) > 0 {
			after = last[0].Seq
		}
		rows, err := c.base.Store.Audit(ctx, after, auditAtOnce)
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
	if !c.scoped() {
		return report, nil
	}
	mine, err := c.o.Store.Audit(ctx, 0, 0)
	report.Rows = len(mine)
	return report, err
}

// scoped reports whether this client sees a part of the store only.
func (c *Client) scoped() bool { return c.scope.Owner != "" || c.scope.Confined }
