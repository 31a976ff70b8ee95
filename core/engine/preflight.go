package engine

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
)

// preflight asks, before the program of a run starts, everything that its plan lets
// foresee.
type preflight struct {
	run        *core.Run
	program    *core.Program
	host       Host
	journal    *journal
	questions  *questions
	gates      *gates
	stop       *stopper
	background *background

	done      bool       // the program may start
	refused   []refusal  // planned calls that cannot be made
	foresight *Foresight // what the gates said before there was a run; used once
}

// passed asks all of it, in one list. It reports whether the program may start: not before
// each of the questions has its answer. It is a function of plan, approvals
// and workspace, so that it can be repeated by any process.
func (p *preflight) passed() bool {
	if p.done || p.program.Plan == nil || !p.journal.untouched() {
		return true
	}
	p.questions.dropRemembered()
	if p.background.busy > 0 || p.open() {
		return false
	}
	var slow []Call
	for _, pc := range p.program.Plan.Calls {
		call, ok := PlannedCall(pc)
		if !ok {
			continue
		}
		call = call.Of(p.run)
		if v, ok := p.foretold(call); ok {
			p.foresee(pc, call, v)
		} else {
			slow = append(slow, call)
		}
	}
	p.foresight = nil
	if len(slow) == 0 {
		if p.stop.fault == nil && !p.open() {
			p.done = true
		}
		return p.done
	}
	p.background.run(func(ctx context.Context) func(context.Context) error {
		verdicts := make([]Verdict, len(slow))
		seen := map[string]bool{}
		for i, call := range slow {
			// One call of a server makes the server known; the rest is quick.
			server, _, _ := core.SplitTool(call.Tool)
			if v, ok := p.host.Try(call); ok && seen[server] {
				verdicts[i] = v
				continue
			}
			seen[server] = true
			verdicts[i] = p.host.Check(ctx, call)
		}
		return func(context.Context) error {
			if ctx.Err() != nil {
				return nil
			}
			p.take(slow, verdicts)
			return nil
		}
	})
	return false
}

// foretold is what the gates said of a call before the run was made, or say now.
func (p *preflight) foretold(call Call) (Verdict, bool) {
	if p.foresight != nil {
		if v, ok := p.foresight.verdicts[call.ID]; ok {
			return v, true
		}
	}
	return p.host.Try(call)
}

// take takes the verdicts of planned calls that took a while.
func (p *preflight) take(calls []Call, verdicts []Verdict) {
	byID := map[string]core.PlanCall{}
	for _, pc := range p.program.Plan.Calls {
		byID[pc.ID] = pc
	}
	for i, call := range calls {
		p.foresee(byID[call.ID], call, verdicts[i])
	}
	if p.stop.fault == nil && !p.open() {
		p.done = true
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
func (p *preflight) foresee(pc core.PlanCall, call Call, v Verdict) {
	if v.Deny != nil {
		if hopeless(p.run.Kind, pc, v.Deny.Code) && len(p.refused) < maxRefused {
			p.refused = append(p.refused, refusal{slices.IndexFunc(p.program.Plan.Calls, func(p core.PlanCall) bool { return p.ID == pc.ID }), pc, v.Deny})
			p.stop.fault = refusals(*p.program, p.refused)
		}
		return
	}
	for _, ask := range v.Ask {
		if ask.Type == core.ApproveTool && (!call.ArgsKnown || !ask.Once && p.questions.remembered(ask.Tool) != nil) {
			continue
		}
		p.askAhead(call, ask)
	}
}

// maxRefused is how many calls that cannot be made are named.
const maxRefused = 100

// askAhead opens a question about a planned call. Questions about servers are
// one for all calls; of equal calls each has its own.
func (p *preflight) askAhead(call Call, ask Ask) {
	planned := core.PlannedFor(call.ID)
	for _, ap := range p.questions.list {
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
				p.gates.apply(ap)
				return
			}
			if p.gates.notApplied[ap.ID] != nil && ap.Digest == ask.Digest {
				return // the call gets the error
			}
			continue // carried out, and still asked: ask again
		case core.ApprovalOpen, core.ApprovalExpired, core.ApprovalDenied:
			return
		case core.ApprovalSuperseded:
		}
	}
	if !perCall(ask.Type) {
		planned = ""
	}
	p.questions.ask(ask, nil, planned)
}

// open reports whether a question that was asked ahead is unanswered
// or not yet carried out.
func (p *preflight) open() bool {
	return !p.done && p.questions.unanswered()
}
