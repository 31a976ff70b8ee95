package service

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/policy"
)

// pmlItself is who ends the run of a question that nobody has answered.
var pmlItself = core.Actor{Who: "pml", Via: core.ViaRule}

// HostMay says whether an agent's host may make a call of its own: by the rules, or by
// a person, who is asked in the inbox for as long as hooks.wait. Where nobody has
// answered by then, or the context has ended, the question is taken back.
func (c *Service) HostMay(ctx context.Context, hc api.HostCall) (api.HostAnswer, error) {
	h, err := c.own()
	if err != nil {
		return api.HostAnswer{}, err
	}
	call, err := c.hostCall(hc)
	if err != nil {
		return api.HostAnswer{}, err
	}
	rule, err := h.HostRule(call)
	if err != nil {
		return api.HostAnswer{}, err
	}
	switch {
	case rule.Effect == policy.Deny:
		deny := gate.HostDenied(call, rule)
		row := core.AuditRow{Tool: call.Tool, Digest: call.Digest, Outcome: core.ApprovalDenied, By: deny.DeniedBy(), Reason: deny.Message, Type: core.ApproveHost}
		if err := c.trail.Record(context.WithoutCancel(ctx), row); err != nil {
			c.o.Logger.Warn("cannot put a refusal into the audit log", "error", core.AsError(err))
		}
		return api.HostAnswer{Effect: api.HostDeny, Reason: deny.Message}, nil
	case rule.Effect == policy.Allow:
		if err := c.brake.maySend(ctx); err != nil {
			return api.HostAnswer{}, err
		}
		return api.HostAnswer{Effect: api.HostAllow, Reason: "allowed by the rule " + core.Visible(rule.Rule, 300, false) + " in permissions.allow"}, nil
	case !hc.Asking && rule.Rule == "" && rule.Failed == nil:
		return api.HostAnswer{Effect: api.HostSilent}, nil
	}
	return c.askHost(ctx, h, call, hc)
}

// hostCall is the call of a host as the gates judge it.
func (c *Service) hostCall(hc api.HostCall) (engine.Call, error) {
	args := literal(hc.Args)
	tool := hc.Host + ":" + hc.Tool
	by := core.Actor{Who: c.scope.By.Who, Via: core.ViaHook, Client: hc.Client}
	if !core.OfHost(by, tool) {
		return engine.Call{}, core.Errorf(core.CodeInvalidArguments, "%s is no tool of an agent's host", core.Visible(tool, 120, false))
	}
	if err := core.CheckDepth("the argument of "+tool, args); err != nil {
		return engine.Call{}, err
	}
	if err := core.CheckKeys("the argument of "+tool, args); err != nil {
		return engine.Call{}, err
	}
	digest, err := core.Digest(args)
	if err != nil {
		return engine.Call{}, err
	}
	name := core.CleanCallName(tool, args, c.shownOf(c.o.Workspace.Dir).Text)
	run := core.Run{ID: c.o.NewID(), Name: name, RequestedBy: by, Owner: c.scope.Owner}
	return engine.Call{ID: taskID("host", args), Tool: tool, Args: args, Digest: digest, ArgsKnown: true}.Of(&run), nil
}

// askHost asks a person about a call of a host, as a run of one call whose result is the
// yes.
func (c *Service) askHost(ctx context.Context, h *gate.Host, call engine.Call, hc api.HostCall) (api.HostAnswer, error) {
	cfg, err := h.Config()
	if err != nil {
		return api.HostAnswer{}, err
	}
	wait := cfg.Hooks.Wait
	if wait <= 0 {
		return api.HostAnswer{Effect: api.HostAsk, Reason: "pml asks nobody (hooks.wait is 0)"}, nil
	}
	c.takeBackUnheard(ctx)
	h.Attend(call.RunID, &gate.Guest{Folder: hc.Folder})
	defer h.Leave(call.RunID)
	r, err := c.Execute(ctx, api.ExecuteRequest{
		ID: call.RunID, Name: call.RunName, By: call.Requester, Wait: wait, HoldApprovals: true,
		Tasks: []core.TaskSpec{{ID: call.ID, Tool: call.Tool, Arguments: call.Args}},
	})
	if a, over := hostAnswer(r, err); over {
		return a, nil
	}
	late, lerr := c.takeBack(ctx, call.RunID)
	if a, over := hostAnswer(late, lerr); over && late.Status != api.StatusAborted {
		return a, nil // it was decided in the last moment
	}
	if err != nil {
		return api.HostAnswer{}, err
	}
	return api.HostAnswer{Effect: api.HostAsk, Reason: "nobody has answered in pml within " + wait.String()}, nil
}

// takeBackWithin bounds how long a question is taken back when its host waits no more.
const takeBackWithin = 5 * time.Second

// takeBack ends the run of a question that nobody waits for any more, so that nothing of
// it stays in the inbox, and says how it stands then.
func (c *Service) takeBack(ctx context.Context, id core.ID) (api.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackWithin)
	defer cancel()
	r, err := c.Abort(ctx, id, pmlItself, "nobody has answered in time: the agent's host asks by itself")
	if err == nil {
		return r, nil
	}
	run, rerr := c.o.Store.Run(ctx, id)
	if rerr != nil || !run.State.Final() {
		return api.Result{}, err
	}
	return c.waiting.stored(ctx, run, api.StatusComplete)
}

// takeBackUnheard ends what hooks have asked that were killed before they could take it
// back themselves: it has expired by now, and nobody would hear the answer.
func (c *Service) takeBackUnheard(ctx context.Context) {
	list, err := c.Decidable(ctx)
	if err != nil {
		return // it is only tidied
	}
	for _, a := range list {
		if a.Type == core.ApproveHost && a.StateAt(c.now()) == core.ApprovalExpired {
			if _, err := c.takeBack(ctx, a.RunID); err != nil {
				c.o.Logger.Debug("cannot take back what a hook has asked", "run", a.RunID, "error", core.AsError(err))
			}
		}
	}
}

// hostAnswer is what the run of a question has come to; over is false where nobody has
// answered.
func hostAnswer(r api.Result, err error) (a api.HostAnswer, over bool) {
	if err == nil {
		switch r.Status {
		case api.StatusSuccess, api.StatusComplete:
			return api.HostAnswer{Effect: api.HostAllow, Reason: "approved in pml"}, true
		case api.StatusAborted:
			return api.HostAnswer{Effect: api.HostDeny, Reason: "denied in pml: the question was aborted"}, true
		case api.StatusError:
			if err = failureOf(r); len(r.Failures) > 0 { // of its only call
				err = core.Errorf(r.Failures[0].Code, "%s", r.Failures[0].Error)
			}
		default:
			return a, false
		}
	}
	if code := core.CodeOf(err); code != core.CodeDenied && code != core.CodePermissionDenied {
		return a, false
	}
	return api.HostAnswer{Effect: api.HostDeny, Reason: core.AsError(err).Message}, true
}
