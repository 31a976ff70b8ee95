package local

import (
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
)

// mayDecide refuses decisions that the workspace of a run leaves to people:
// core.CodeAwaitingHuman. It fails closed: without a configuration that can be
// read no agent decides. A call's denial and the abort of a run that comes with
// it are decisions, too; the abort of a run by itself is not.
func (c *Client) mayDecide(run core.Run, by core.Actor) error {
	if by.Via != core.ViaMCP && by.Via != core.ViaElicitation {
		return nil
	}
	cfg, err := c.configOf(run.Workspace)
	if err != nil {
		return err
	}
	if cfg.Approvals.Decider != env.DeciderHuman || by.Via == core.ViaElicitation && cfg.Approvals.TrustHost {
		return nil
	}
	return core.Errorf(core.CodeAwaitingHuman, "the run %s waits for a person: here no agent decides (approvals.decider is human); it goes on when somebody decides in a terminal", run.ID.Short()).
		WithRun(run.ID).WithNext("pml", "approvals", "ls")
}

// forTheServer are the questions about what a server's machine runs and is
// trusted with.
var forTheServer = []core.ApprovalType{core.ApproveDependency, core.ApproveIntegrity, core.ApproveOAuth}

// mayGrant refuses what the owner of an API key cannot allow to the machine that
// the server runs on, which others use too: core.CodePermissionDenied. The
// question stays open for the person at the server. To deny it is anybody's
// right whose run it is.
func (c *Client) mayGrant(run core.Run, ap core.Approval, d *api.Decision) error {
	refuse := func(format string, args ...any) error {
		return core.Errorf(core.CodePermissionDenied, format, args...).WithRun(run.ID).WithNext("pml", "approvals", "show", ap.ID.Short())
	}
	switch {
	case !d.Approve:
	case run.Owner != "" && d.Answer != nil && d.Answer.Remember == core.RememberRule:
		return refuse("a rule would allow %s to everybody who uses this workspace, so the decision about a run of %s writes none; nothing was decided: approve it for the run or the session",
			core.Visible(ap.Tool, 120, false), core.Visible(run.Owner, 60, false))
	case c.scope.Owner == "":
	case slices.Contains(forTheServer, ap.Type), ap.Type == core.ApproveKeys && d.Answer != nil, d.Answer != nil && d.Answer.Scripts:
		return refuse("the person at the server decides this (%s for %s): an API key cannot; it stays open", ap.Type, core.Visible(ap.Tool, 120, false))
	}
	return nil
}
