package local

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// maxReason bounds what a row of the audit log says.
const maxReason = 500

// record writes rows of the audit log for what was decided here, outside of a
// run.
func (c *Client) record(ctx context.Context, rows ...core.AuditRow) error {
	shown := c.shownOf(c.o.Workspace.Dir)
	for i := range rows {
		r := &rows[i]
		r.At, r.Workspace = c.now(), c.o.Workspace.Dir
		if r.By == (core.Actor{}) {
			r.By = c.o.By
		}
		r.Reason = core.Visible(shown.text(r.Reason), maxReason, false)
	}
	return c.o.Store.Record(ctx, rows...)
}
