package service

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/env"
)

// presence says how whoever decides has shown to be a person, as far as that is
// known without the PIN. A host's dialog counts where the run's workspace trusts it;
// what came by MCP otherwise never does.
func presence(cfg *env.Config, req api.ContinueRequest) core.Presence {
	switch {
	case req.By.Via == core.ViaMCP:
		return ""
	case req.By.Via == core.ViaElicitation && cfg.Approvals.TrustHost:
		return core.PresenceHost
	case req.By.Via == core.ViaElicitation:
		return ""
	}
	return req.Decision.Presence
}

// mayDecide says how whoever decides has shown to be a person, and refuses
// decisions that the workspace of a run, or a question itself, leaves to people when
// nobody has: core.CodeAwaitingHuman. It fails closed: without a configuration that
// can be read nobody decides. A call's denial and the abort of a run that comes with
// it are decisions, too; the abort of a run by itself is not. The PIN, where one is
// set, shows a person as well; byPin says that it has to.
func (c *decisions) mayDecide(ctx context.Context, run core.Run, targets []core.Approval, req api.ContinueRequest) (p core.Presence, byPin bool, err error) {
	cfg, err := c.configOf(run.Workspace)
	if err != nil {
		return "", false, err
	}
	human := cfg.Approvals.Decider == env.DeciderHuman || slices.ContainsFunc(targets, func(a core.Approval) bool { return a.Human })
	if p = presence(cfg, req); p != "" || !human {
		return p, false, nil
	}
	if req.By.Via != core.ViaMCP && req.By.Via != core.ViaElicitation && req.Decision.Pin != "" {
		if shows, err := c.Setup.Pin.ShowsPerson(ctx); err != nil || shows {
			return "", true, err
		}
	}
	return "", false, approval.AwaitingHuman(run.ID)
}

// mayApprove refuses the yes of an agent to what is not for it to approve:
// core.CodeAwaitingHuman. That is what is of high risk, what leaves the workspace,
// and what holds for longer than the call, unless approvals.agent_may is "high".
// An agent may always deny. What a person answers in the host's dialog is no
// agent's.
func (c *decisions) mayApprove(run core.Run, ap core.Approval, by core.Actor, d *api.Decision) error {
	if by.Via != core.ViaMCP || !d.Approve {
		return nil
	}
	if state := ap.StateAt(c.now()); state != core.ApprovalOpen && state != core.ApprovalExpired {
		return nil // what is decided already is said by the store
	}
	why := ap.NotForAgents()
	if d.Answer != nil && d.Answer.Scripts {
		why = "install scripts"
	}
	if d.Answer != nil && (d.Answer.Remember == core.RememberRule || d.Answer.Remember == core.RememberSession) {
		why = "what lasts longer than its run"
	}
	if why == "" {
		return nil
	}
	cfg, err := c.configOf(run.Workspace)
	if err != nil || cfg.Approvals.AgentMay == env.AgentMayHigh {
		return err
	}
	return core.Errorf(core.CodeAwaitingHuman, `the run %s waits for a person: an agent does not approve %s (%s for %s). Tell the user: it is decided in pml tui, or in any terminal with pml continue %s; "approvals": {"agent_may": "high"} in .pml.json would let an agent decide it`,
		run.ID.Short(), why, ap.Type, core.Visible(ap.Tool, 120, false), run.ID.Short()).
		WithRun(run.ID).WithNext("pml", "tui")
}

// mayGrant refuses what the owner of an API key cannot allow to the machine that
// the server runs on, which others use too: core.CodePermissionDenied. The
// question stays open for the person at the server. To deny it is anybody's
// right whose run it is.
func (c *decisions) mayGrant(run core.Run, ap core.Approval, d *api.Decision) error {
	refuse := func(format string, args ...any) error {
		return core.Errorf(core.CodePermissionDenied, format, args...).WithRun(run.ID).WithNext("pml", "approvals", "show", ap.ID.Short())
	}
	switch {
	case !d.Approve:
	case run.Owner != "" && d.Answer != nil && d.Answer.Remember == core.RememberRule:
		return refuse("a rule would allow %s to everybody who uses this workspace, so the decision about a run of %s writes none; nothing was decided: approve it for the run or the session",
			core.Visible(ap.Tool, 120, false), core.Visible(run.Owner, 60, false))
	case c.scope.Owner == "":
	case approval.TypeOf(ap.Type).Machine, ap.Type == core.ApproveKeys && d.Answer != nil, d.Answer != nil && d.Answer.Scripts:
		return refuse("the person at the server decides this (%s for %s): an API key cannot; it stays open", ap.Type, core.Visible(ap.Tool, 120, false))
	}
	return nil
}

// HostMayDecide reports whether the answer of a person to a question of an agent's
// host can decide an approval. It cannot where a PIN is needed, which
// is not typed into a host's form, nor where people decide and the host is not
// trusted with it. What cannot be read lets nobody decide: the decision would be
// refused.
func (c *decisions) HostMayDecide(ctx context.Context, a core.Approval) bool {
	if pin, err := c.Setup.Pin.NeedsPin(ctx); err != nil || pin {
		return false
	}
	run, err := c.o.Store.Run(ctx, a.RunID)
	if err != nil {
		return false
	}
	cfg, err := c.configOf(run.Workspace)
	return err == nil && (cfg.Approvals.Decider != env.DeciderHuman || cfg.Approvals.TrustHost)
}
