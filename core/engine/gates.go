package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// check asks the gates about a call, at once where that is quick.
func (a *actor) check(c *call) {
	gc := a.gateCall(c)
	if v, ok := a.host.Try(gc); ok {
		a.checked(c, v)
		return
	}
	a.beside(func(ctx context.Context) func(context.Context) error {
		v := a.host.Check(ctx, gc)
		return func(context.Context) error {
			if ctx.Err() == nil {
				a.checked(c, v)
			}
			return nil
		}
	})
}

func (a *actor) gateCall(c *call) Call {
	return Call{
		RunID: a.run.ID, Requester: a.run.RequestedBy, Owner: a.run.Owner,
		ID: c.id, Tool: c.tool, Args: c.args, Digest: c.digest, ArgsKnown: true,
	}
}

// checked takes the gates' answer. With barriers the call is held until its
// layer may start; nobody is asked about it before.
func (a *actor) checked(c *call, v Verdict) {
	if c.state != callIssued && c.state != callParked {
		return
	}
	c.verdict, c.checked = v, true
	if !a.layers.barrier || a.layers.passed[c.layer] {
		a.admit(c)
	}
}

// admit lets a checked call go on: it is rejected, parked on the questions
// that are open, or queued to run.
func (a *actor) admit(c *call) {
	if !c.checked || a.ending() {
		return
	}
	if d := c.verdict.Deny; d != nil {
		outcome := core.OutcomeError
		if d.Code == core.CodePermissionDenied || d.Code == core.CodeDenied || d.Code == core.CodeHookFailed {
			outcome = core.OutcomeDenied
			a.audit(core.AuditRow{Tool: c.tool, Digest: c.digest, Outcome: core.ApprovalDenied, By: core.Actor{Who: "policy", Via: core.ViaRule}, Reason: d.Message})
		}
		a.settleFailed(c, outcome, d)
		return
	}
	if ap := a.refusedMeanwhile(c); ap != nil {
		a.settleFailed(c, core.OutcomeDenied, denied(ap))
		return
	}
	asks := slices.Clone(c.verdict.Ask)
	if c.started && !a.repeatable(c) {
		asks = append(asks, a.inDoubt(c))
	}
	c.asks = c.asks[:0]
	for _, ask := range asks {
		switch a.answered(c, ask) {
		case answerYes:
		case answerNo:
			return
		case answerOpen:
			c.asks = append(c.asks, ask)
		}
	}
	if c.state == callSettled {
		return
	}
	if len(c.asks) == 0 {
		a.pass(c)
		return
	}
	a.park(c)
}

// refusedMeanwhile returns the denial of a question about the server or the tool
// of a call that waited for it. The gates may have nothing to ask any more, since
// a server that is started anew can be what was approved; the call that somebody
// refused is refused all the same.
func (a *actor) refusedMeanwhile(c *call) *core.Approval {
	if c.parkedAt.IsZero() {
		return nil
	}
	server, _, _ := core.SplitTool(c.tool)
	for _, ap := range a.approvals {
		if ap.State != core.ApprovalDenied || perCall(ap.Type) || a.outdated(ap) || ap.DecidedBy == nil {
			continue
		}
		if (ap.Subject == c.tool || ap.Subject == server) && !ap.DecidedBy.At.Before(c.parkedAt) {
			return ap
		}
	}
	return nil
}

type answer int

const (
	answerOpen answer = iota
	answerYes
	answerNo
)

// answered looks a question of a call up among the approvals, opens it when
// nobody was asked, and carries out what was decided.
func (a *actor) answered(c *call, ask Ask) answer {
	if got, ok := a.remembered(ask); ok {
		return got
	}
	ap := a.approvalFor(c, ask)
	if ap == nil {
		a.open(c, ask)
		return answerOpen
	}
	switch ap.State {
	case core.ApprovalOpen, core.ApprovalExpired:
		return answerOpen
	case core.ApprovalDenied:
		if perCall(ask.Type) {
			a.use(ap, c.id) // an equal call must not take it for its own
		} else {
			a.use(ap, "")
		}
		a.settleFailed(c, core.OutcomeDenied, denied(ap))
		return answerNo
	case core.ApprovalApproved:
		return a.granted(c, ask, ap)
	case core.ApprovalSuperseded:
	}
	a.open(c, ask)
	return answerOpen
}

// granted acts on an approval. One for a tool is consumed by its call; one for
// a server is carried out, and when the gate still asks afterwards, somebody is
// asked again.
func (a *actor) granted(c *call, ask Ask, ap *core.Approval) answer {
	switch ask.Type {
	case core.ApproveTool, core.ApproveHook:
		if ap.Digest != ask.Digest {
			break
		}
		a.use(ap, c.id)
		return answerYes
	case core.ApproveInDoubt:
		a.use(ap, c.id)
		if ap.Answer != nil && ap.Answer.InDoubt == core.SkipResult {
			a.settle(c, core.OutcomeSuccess, orNull(ap.Answer.Result), nil)
			return answerNo
		}
		return answerYes
	case core.ApproveDependency, core.ApproveKeys, core.ApproveIntegrity, core.ApproveOAuth, core.ApproveLayer:
		if !ap.Used {
			a.apply(ap)
			return answerOpen
		}
	}
	a.use(ap, "") // it was about something else
	a.open(c, ask)
	return answerOpen
}

// remembers reports whether a permission was given for all calls of its tool, at
// least for the rest of the run.
func remembers(ap *core.Approval) bool {
	return ap.Type == core.ApproveTool && ap.State == core.ApprovalApproved && ap.Answer != nil && ap.Answer.Remember != ""
}

// remembersLonger reports whether the host is to remember a permission.
func remembersLonger(ap *core.Approval) bool {
	return remembers(ap) && ap.Answer.Remember != core.RememberRun
}

// remembered answers a question about a tool whose permission was given for the
// rest of the run; ok is false when none was. One that is to be remembered for
// longer is carried out by the host first: the call goes on after that,
// whether it works or not.
func (a *actor) remembered(ask Ask) (got answer, ok bool) {
	if ask.Type != core.ApproveTool {
		return answerOpen, false
	}
	for _, ap := range a.approvals {
		if !remembers(ap) || ap.Tool != ask.Tool {
			continue
		}
		a.dropRemembered()
		if ap.Answer.Remember == core.RememberRun || ap.Used {
			return answerYes, true
		}
		a.apply(ap)
		return answerOpen, true
	}
	return answerOpen, false
}

// dropRemembered takes back the questions that a remembered permission answers.
func (a *actor) dropRemembered() {
	for _, ap := range a.approvals {
		if !remembers(ap) {
			continue
		}
		for _, other := range a.approvals {
			if other.Type == core.ApproveTool && other.Tool == ap.Tool && other.State == core.ApprovalOpen {
				a.drop(other)
			}
		}
	}
}

// approvalFor returns the newest approval that answers a question of a call. A
// question about a server is one for all calls; one about a call is its own,
// or the first asked ahead that no call has used.
func (a *actor) approvalFor(c *call, ask Ask) *core.Approval {
	var ahead *core.Approval
	for i := len(a.approvals) - 1; i >= 0; i-- {
		ap := a.approvals[i]
		if ap.Type != ask.Type || ap.Subject != ask.Subject || ap.State == core.ApprovalSuperseded {
			continue
		}
		if !perCall(ask.Type) || c == nil || slices.Contains(ap.CallIDs, c.id) {
			return ap
		}
		if len(ap.CallIDs) == 0 {
			ahead = ap
		}
	}
	if ahead != nil {
		ahead.CallIDs = []string{c.id} // from here on it is this call's
	}
	return ahead
}

func perCall(t core.ApprovalType) bool {
	return t == core.ApproveTool || t == core.ApproveInDoubt || t == core.ApproveHook
}

// open asks a person. The approval becomes visible with the next commit.
func (a *actor) open(c *call, ask Ask) {
	raw, err := json.Marshal(ask.Context)
	if err != nil {
		raw = json.RawMessage("{}")
	}
	now := a.now()
	ap := &core.Approval{
		ID: a.o.NewID(), RunID: a.run.ID, Workspace: a.run.Workspace, Side: a.run.Side,
		Type: ask.Type, Subject: ask.Subject, Tool: ask.Tool, Risk: ask.Risk,
		Description: ask.Description, Context: raw, Digest: ask.Digest,
		RequestedBy: a.run.RequestedBy, State: core.ApprovalOpen, CreatedAt: now,
	}
	if c != nil && perCall(ask.Type) {
		ap.CallIDs = []string{c.id}
	}
	if ttl := a.limits.ApprovalTTL; ttl > 0 && ask.Type != core.ApproveLayer {
		t := approval.Bounded(now.Add(ttl))
		ap.ExpiresAt = &t
	} else if ask.Type == core.ApproveLayer {
		ap.ExpiresAt = a.resumeUntil()
	}
	a.approvals = append(a.approvals, ap)
	a.step.Open = append(a.step.Open, *ap)
	e := a.event(core.EventApprovalRequested)
	e.ApprovalID, e.Tool, e.Message = ap.ID, ap.Tool, ap.Description
	a.emit(e)
	if a.run.Kind == core.KindDAG {
		e.Type = core.EventDecisionRequired
		a.emit(e)
	}
}

// use marks an approval as acted upon, for a call or for none.
func (a *actor) use(ap *core.Approval, callID string) {
	key := string(ap.ID) + " " + callID
	if ap.Used && (callID == "" || a.taken[key]) {
		return
	}
	ap.Used, a.taken[key] = true, true
	a.step.Used = append(a.step.Used, store.Use{Approval: ap.ID, CallID: callID})
}

// park stops a call until its questions are answered.
func (a *actor) park(c *call) {
	if c.state != callParked {
		a.move(c, callParked)
	}
	if c.parkedAt.IsZero() {
		c.parkedAt = a.now()
		a.record(callRecord(core.RecordParked, c))
	}
}

// apply carries out an approval beside the run: it installs, records a hash,
// reads keys again, remembers a permission. Then everything that waited for it is checked again.
func (a *actor) apply(ap *core.Approval) {
	if a.applying[ap.ID] {
		return
	}
	a.applying[ap.ID] = true
	approval := *ap
	approval.Owner = a.run.Owner // the store says so too, of one that was read
	a.beside(func(ctx context.Context) func(context.Context) error {
		err := a.host.Apply(ctx, approval, func(msg string) { a.report("", approval.Tool, msg) })
		return func(context.Context) error {
			delete(a.applying, approval.ID)
			if ctx.Err() != nil {
				return nil
			}
			// What waits was perhaps read anew meanwhile.
			now := a.newest(ap)
			a.use(now, "")
			if err != nil {
				a.applyFailed(now, core.AsError(err))
			}
			a.recheck(now)
			return nil
		}
	})
}

// newest returns an approval as it was last read.
func (a *actor) newest(ap *core.Approval) *core.Approval {
	for _, other := range a.approvals {
		if other.ID == ap.ID {
			return other
		}
	}
	return ap
}

// applyFailed tells of a failure; the gate asks again with the next check.
func (a *actor) applyFailed(ap *core.Approval, err *core.Error) {
	e := a.event(core.EventTaskWarning)
	e.ApprovalID, e.Tool, e.Message, e.Error = ap.ID, ap.Tool, err.Message, err
	a.emit(e)
}

// answeredBy reports whether a decision answers a question: it is the same one,
// or about the same tool whose permission is remembered.
func answeredBy(ap *core.Approval) func(Ask) bool {
	return func(ask Ask) bool {
		return ask.Type == ap.Type && (ask.Subject == ap.Subject || remembers(ap) && ask.Tool == ap.Tool)
	}
}

// recheck asks the gates again about the calls that are parked on what an
// approval has answered.
func (a *actor) recheck(ap *core.Approval) {
	for _, c := range a.order {
		if c.state == callParked && slices.ContainsFunc(c.asks, answeredBy(ap)) {
			a.check(c)
		}
	}
}

// repeatable reports whether a call that may have run can simply run again.
func (a *actor) repeatable(c *call) bool {
	if c.spec != nil && c.spec.SideEffects != nil {
		return !*c.spec.SideEffects
	}
	return c.verdict.Repeatable
}

// maxWhy bounds what is shown of how a call in doubt has ended.
const maxWhy = 2000

func (a *actor) inDoubt(c *call) Ask {
	subject := fmt.Sprintf("in_doubt:%s#%d", c.id, c.attempt)
	digest, err := core.DigestOf([]string{subject, c.tool, c.digest})
	if err != nil {
		digest = c.digest
	}
	shown := map[string]any{"tool": c.tool, "arguments": a.redactJSON(c.args), "started_at": c.before}
	if c.why != nil {
		shown["error"] = core.Visible(a.redactError(c.why).Message, maxWhy, true)
	}
	return Ask{
		Type: core.ApproveInDoubt, Subject: subject, Tool: c.tool, Risk: core.RiskHigh, Digest: digest, Context: shown,
		Description: fmt.Sprintf("%s was started and %s: it may have run. Run it again, skip it with a given result, or abort?", c.tool, endedHow(c.why)),
	}
}

func denied(ap *core.Approval) *core.Error {
	who, reason := "a person", ""
	if d := ap.DecidedBy; d != nil {
		who = d.Who
		if d.Reason != "" {
			reason = ": " + d.Reason
		}
	}
	what := strings.ReplaceAll(string(ap.Type), "_", " ")
	e := core.Errorf(core.CodeDenied, "%s denied %s for %s%s", who, what, ap.Tool, reason)
	e.Decided = ap.DecidedBy
	return e
}
