package engine

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/casys-ai/pml/core"
)

var zeroTime time.Time

// sortApprovals puts the oldest first; the newest answer to a question counts.
func sortApprovals(list []*core.Approval) {
	sort.SliceStable(list, func(i, j int) bool {
		if !list[i].CreatedAt.Equal(list[j].CreatedAt) {
			return list[i].CreatedAt.Before(list[j].CreatedAt)
		}
		return list[i].ID < list[j].ID
	})
}

// preflight asks, before the program starts, everything that its plan lets
// foresee, in one list. It reports whether the program may start: not before
// each of the questions has its answer. It is a function of plan, approvals
// and workspace, so that it can be repeated by any process.
func (a *actor) preflight() bool {
	if a.preflighted || a.program.Plan == nil || !a.untouched() {
		return true
	}
	a.dropRemembered()
	if a.busy > 0 || a.preflightOpen() {
		return false
	}
	var slow []Call
	for _, pc := range a.program.Plan.Calls {
		call, ok := PlannedCall(pc)
		if !ok {
			continue
		}
		call.RunID, call.Requester, call.Owner = a.run.ID, a.run.RequestedBy, a.run.Owner
		if v, ok := a.foretold(call); ok {
			a.foresee(pc, call, v)
		} else {
			slow = append(slow, call)
		}
	}
	a.foresight = nil
	if len(slow) == 0 {
		if a.fault == nil && !a.preflightOpen() {
			a.preflighted = true
		}
		return a.preflighted
	}
	a.beside(func(ctx context.Context) func(context.Context) error {
		verdicts := make([]Verdict, len(slow))
		seen := map[string]bool{}
		for i, call := range slow {
			// One call of a server makes the server known; the rest is quick.
			server, _, _ := core.SplitTool(call.Tool)
			if v, ok := a.host.Try(call); ok && seen[server] {
				verdicts[i] = v
				continue
			}
			seen[server] = true
			verdicts[i] = a.host.Check(ctx, call)
		}
		return func(context.Context) error {
			if ctx.Err() != nil {
				return nil
			}
			a.foreseen(slow, verdicts)
			return nil
		}
	})
	return false
}

// untouched reports whether nothing is journaled of any call.
func (a *actor) untouched() bool {
	return len(a.journal.settled)+len(a.journal.begun)+len(a.journal.parked) == 0
}

// foretold is what the gates said of a call before the run was made, or say now.
func (a *actor) foretold(call Call) (Verdict, bool) {
	if a.foresight != nil {
		if v, ok := a.foresight.verdicts[call.ID]; ok {
			return v, true
		}
	}
	return a.host.Try(call)
}

// foreseen takes the verdicts of planned calls that took a while.
func (a *actor) foreseen(calls []Call, verdicts []Verdict) {
	byID := map[string]core.PlanCall{}
	for _, pc := range a.program.Plan.Calls {
		byID[pc.ID] = pc
	}
	for i, call := range calls {
		a.foresee(byID[call.ID], call, verdicts[i])
	}
	if a.fault == nil && !a.preflightOpen() {
		a.preflighted = true
	}
}

// PlannedCall makes a call for the gates of a planned one; ok is false when
// its tool is not known, and for code tasks, which pass no gate.
func PlannedCall(pc core.PlanCall) (Call, bool) {
	server, tool, ok := core.SplitTool(pc.Tool)
	if !ok || server == "*" || tool == "*" || pc.Tool == core.CodeTool {
		return Call{}, false
	}
	call := Call{
		ID: pc.ID, Tool: pc.Tool,
		Args: pc.Arguments, Planned: true, ArgsKnown: pc.Arguments != nil && !pc.Repeated,
	}
	if call.ArgsKnown {
		digest, err := core.Digest(pc.Arguments)
		if err != nil {
			call.ArgsKnown = false
		}
		call.Digest = digest
	}
	return call, true
}

// foresee opens what a planned call will need, unless it was asked before. A
// call that cannot be made ends the run before it starts.
func (a *actor) foresee(pc core.PlanCall, call Call, v Verdict) {
	if v.Deny != nil {
		if hopeless(a.run.Kind, pc, v.Deny.Code) && len(a.refused) < maxRefused {
			a.refused = append(a.refused, refusal{slices.IndexFunc(a.program.Plan.Calls, func(p core.PlanCall) bool { return p.ID == pc.ID }), pc, v.Deny})
			a.fault = refusals(a.program, a.refused)
		}
		return
	}
	for _, ask := range v.Ask {
		remembered := slices.ContainsFunc(a.approvals, func(ap *core.Approval) bool { return remembers(ap) && ap.Tool == ask.Tool })
		if ask.Type == core.ApproveTool && (!call.ArgsKnown || remembered) {
			continue
		}
		a.askAhead(call, ask)
	}
}

// maxRefused is how many calls that cannot be made are named.
const maxRefused = 100

// askAhead opens a question about a planned call. Questions about servers are
// one for all calls; of equal calls each has its own.
func (a *actor) askAhead(call Call, ask Ask) {
	planned := "plan:" + call.ID
	for _, ap := range a.approvals {
		if ap.Type != ask.Type || ap.Subject != ask.Subject || ap.State == core.ApprovalSuperseded {
			continue
		}
		if perCall(ask.Type) {
			if ap.PlannedFor != planned {
				continue
			}
			return
		}
		switch ap.State {
		case core.ApprovalApproved:
			if !ap.Used {
				a.apply(ap)
				return
			}
			continue // carried out, and still asked: ask again
		case core.ApprovalOpen, core.ApprovalExpired, core.ApprovalDenied:
			return
		case core.ApprovalSuperseded:
		}
	}
	a.open(nil, ask)
	if perCall(ask.Type) {
		a.approvals[len(a.approvals)-1].PlannedFor = planned
		a.step.Open[len(a.step.Open)-1].PlannedFor = planned
	}
}

// preflightOpen reports whether a question that was asked ahead is unanswered
// or not yet carried out.
func (a *actor) preflightOpen() bool {
	if a.preflighted || a.started || len(a.order) > 0 {
		return false
	}
	for _, ap := range a.approvals {
		switch ap.State {
		case core.ApprovalOpen, core.ApprovalExpired:
			return true
		case core.ApprovalApproved, core.ApprovalDenied, core.ApprovalSuperseded:
		}
	}
	return false
}
