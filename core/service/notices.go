package service

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// noticed adds to a result what a caller has to know of the workspace: which
// restrictions were taken out of its files and hold all the same. That goes to
// the audit log as well, as attempts that were refused do.
func (c *view) noticed(ctx context.Context, workspace string, r api.Result, err error) (api.Result, error) {
	list, taken := c.Setup.Workspace.Notices(workspace)
	if taken != "" {
		c.trail.NoteRefused(ctx, "taken_out", core.AuditRow{Workspace: workspace, Reason: taken})
	}
	r.Notices = append(r.Notices, list...)
	return r, err
}

// notices are those of this client's workspace, for lists: not for a caller with a
// key, whose workspace it is not.
func (c *view) notices() []string {
	if c.scope.Owner != "" {
		return nil
	}
	list, _ := c.Setup.Workspace.Notices(c.o.Workspace.Dir)
	return list
}
