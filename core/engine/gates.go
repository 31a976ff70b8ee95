package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// gates take each call from the moment when the program makes it to the one when it
// may run, is refused, or waits for people. They ask the host, which has the rules,
// and act upon what people have decided.
type gates struct {
	run        *core.Run
	host       Host
	batch      *batch
	calls      *callTable
	questions  *questions
	mayPrompt  func(ctx context.Context, run core.Run, model string) (to string, v Verdict) // nil: nobody is asked
	layers     *layers
	stop       *stopper
	background *background

	known    *Verdict         // what the host says of the next call, when it was asked already
	applying map[core.ID]bool // approvals that the host is carrying out
	// notApplied are the approvals whose installation has failed, with why.
	notApplied map[core.ID]*core.Error
	relied     map[core.ID]bool // permissions of other runs that this one has used
	// lookedAgain are the questions about providers that promptedElsewhere has looked at.
	lookedAgain map[core.ID]bool
}

// check asks the gates about a call, at once where that is quick.
func (g *gates) check(c *call) {
	if ownCall(c.tool) {
		g.own(c)
		return
	}
	if v := g.known; v != nil {
		g.known = nil
		g.checked(c, *v)
		return
	}
	gc := g.call(c)
	if v, ok := g.host.Try(gc); ok {
		g.checked(c, v)
		return
	}
	g.background.run(func(ctx context.Context) func(context.Context) error {
		v := g.host.Check(ctx, gc)
		return func(context.Context) error {
			if ctx.Err() == nil {
				g.checked(c, v)
			}
			return nil
		}
	})
}

// call is a call as the host sees it.
func (g *gates) call(c *call) Call {
	out := Call{ID: c.id, Tool: c.tool, Args: c.sent.raw, Digest: c.sent.digest, ArgsKnown: true, Passage: c.passage, Side: c.verdict.Side}.Of(g.run)
	if c.passed.digest != c.digest {
		out.Program = c.args
	}
	return out
}

// checked takes the gates' answer. With barriers the call is held until its
// layer may start; nobody is asked about it before.
func (g *gates) checked(c *call, v Verdict) {
	if c.state != callIssued && c.state != callParked {
		return
	}
	c.verdict, c.checked = v, true
	if v.Passage != nil {
		if err := g.calls.pass(c, *v.Passage); err != nil {
			g.calls.settleFailed(c, core.OutcomeDenied, core.AsError(err))
			return
		}
	}
	if g.edited(c) {
		return
	}
	if !g.layers.holds(c) {
		g.admit(c)
	}
}

// admit lets a checked call go on: it is rejected, parked on the questions
// that are open, or queued to run.
func (g *gates) admit(c *call) {
	if !c.checked || g.stop.ending() || g.edited(c) {
		return
	}
	if d := c.verdict.Deny; d != nil {
		outcome := core.OutcomeError
		if d.Code == core.CodePermissionDenied || d.Code == core.CodeDenied || d.Code == core.CodeHookFailed {
			outcome = core.OutcomeDenied
			g.batch.audit(core.AuditRow{Tool: c.tool, Digest: c.digest, Outcome: core.ApprovalDenied, By: d.DeniedBy(), Reason: d.Message})
		}
		if !c.started { // not even by a process that is gone: nothing of it has got to its server
			d = d.WithNotMade()
		}
		g.calls.settleFailed(c, outcome, d)
		return
	}
	if ap := g.questions.refusedSince(c); ap != nil {
		g.calls.settleFailed(c, core.OutcomeDenied, denied(ap))
		return
	}
	asks := slices.Clone(c.verdict.Ask)
	if c.started && !c.repeatable() {
		asks = append(asks, g.inDoubt(c))
	}
	c.asks, c.by = c.asks[:0], nil
	for _, ask := range asks {
		switch g.answered(c, ask) {
		case answerYes:
		case answerNo, answerLater:
			return
		case answerOpen:
			c.asks = append(c.asks, ask)
		}
	}
	if c.state == callSettled {
		return
	}
	if c.verdict.AllowedBy != "" && g.questions.permitted(c) { // by a rule or for the run, which that answer has made
		c.verdict.AllowedBy = ""
	}
	switch {
	case len(c.asks) > 0:
		g.calls.park(c)
	case g.unasked(c):
	default:
		if err := g.calls.overBudget(c); err != nil {
			g.calls.settleFailed(c, core.OutcomeError, err)
			return
		}
		g.rely(c)
		g.permit(c)
		g.calls.admit(c)
	}
}

// unasked acts on the question whether a call may be made that its gates do not ask any
// more: a no stands, a yes to be remembered is remembered, and an open one is taken back. It
// reports whether the call has settled.
func (g *gates) unasked(c *call) bool {
	ap := g.questions.own(c)
	switch {
	case ap == nil || len(c.edits) > 0:
	case ap.State == core.ApprovalDenied:
		g.questions.use(ap, c.id)
		g.calls.settleFailed(c, core.OutcomeDenied, denied(ap))
		return true
	case ap.State == core.ApprovalOpen || ap.State == core.ApprovalExpired:
		g.questions.withdraw(ap)
	case remembersLonger(ap) && !ap.Used:
		g.apply(ap)
	}
	return false
}

// edited takes up the arguments that a person has put in the place of a call's with
// the yes to it. It looks before anything else is acted upon, so that the program's own
// are not sent either where nobody would be asked about them any more.
func (g *gates) edited(c *call) bool {
	if len(c.edits) > 0 {
		return false
	}
	ap := g.questions.edited(c)
	if ap == nil {
		return false
	}
	g.takeEdit(c, ap)
	return true
}

// takeEdit puts changed arguments into a call and asks the gates about those: whatever
// they said before was about other ones.
func (g *gates) takeEdit(c *call, ap *core.Approval) {
	digest, err := core.Digest(ap.Answer.Arguments)
	if err != nil {
		g.calls.settleFailed(c, core.OutcomeError, core.Errorf(core.CodeInvalidArguments, "the changed arguments of %s cannot be read: %w", c.tool, err))
		return
	}
	c.edits, c.sent = append(c.edits, ap), arguments{ap.Answer.Arguments, digest}
	c.checked = false
	g.questions.use(ap, c.id)
	g.check(c)
}

type answer int

const (
	answerOpen answer = iota
	answerYes
	answerNo
	answerLater // the call is checked again
)

// answered looks a question of a call up among the approvals, opens it when
// nobody was asked, and carries out what was decided.
func (g *gates) answered(c *call, ask Ask) answer {
	if c.approvedAs(ask) {
		return answerYes // what is sent is what was shown and approved
	}
	if got, ok := g.remembered(c, ask); ok {
		return got
	}
	ap := g.questions.find(c, ask)
	undecided := ap == nil || ap.State == core.ApprovalOpen || ap.State == core.ApprovalExpired
	if undecided && g.within(c, ask) {
		c.verdict.AllowedBy = "approval " + c.by.ID.Short() + ", within its bounds"
		return answerYes
	}
	if ap == nil {
		g.questions.open(c, ask)
		return answerOpen
	}
	switch ap.State {
	case core.ApprovalOpen, core.ApprovalExpired:
		return answerOpen
	case core.ApprovalDenied:
		if perCall(ask.Type) {
			g.questions.use(ap, c.id) // an equal call must not take it for its own
		} else {
			g.questions.use(ap, "")
		}
		g.calls.settleFailed(c, core.OutcomeDenied, denied(ap))
		return answerNo
	case core.ApprovalApproved:
		return g.granted(c, ask, ap)
	case core.ApprovalSuperseded:
	}
	g.questions.open(c, ask)
	return answerOpen
}

// granted acts on an approval. One for a tool is consumed by its call; one for
// a server is carried out, and when the gate still asks afterwards, somebody is
// asked again.
func (g *gates) granted(c *call, ask Ask, ap *core.Approval) answer {
	switch perCall := approval.TypeOf(ask.Type).PerCall; {
	case perCall && ask.Type != core.ApproveInDoubt:
		if ap.Digest != ask.Digest || ap.Renews != "" && ap.Risk.Below(ask.Risk) || c.tookEdit(ap) {
			break
		}
		if ap.IfEdited() != nil {
			g.takeEdit(c, ap)
			return answerLater
		}
		g.questions.use(ap, c.id)
		return answerYes
	case perCall:
		g.questions.use(ap, c.id)
		if ap.Answer != nil && ap.Answer.InDoubt == core.SkipResult {
			g.calls.settle(c, core.OutcomeSuccess, orNull(ap.Answer.Result), nil)
			return answerNo
		}
		return answerYes
	default:
		if !ap.Used {
			if ap.Renews != "" && ap.Digest != ask.Digest {
				break
			}
			g.apply(ap)
			return answerOpen
		}
		if err := g.notApplied[ap.ID]; err != nil && ap.Digest == ask.Digest {
			g.calls.settleFailed(c, core.OutcomeError, err)
			return answerNo
		}
	}
	g.questions.use(ap, "") // it was about something else
	g.questions.open(c, ask)
	return answerOpen
}

// remembered answers a question about a tool whose permission was given for the
// rest of the run; ok is false when none was. One that is to be remembered for
// longer is carried out by the host first: the call goes on after that,
// whether it works or not.
func (g *gates) remembered(c *call, ask Ask) (got answer, ok bool) {
	if ask.Type != core.ApproveTool || ask.Once {
		return answerOpen, false
	}
	ap := g.questions.remembered(ask.Tool)
	if ap == nil {
		return answerOpen, false
	}
	g.questions.dropRemembered()
	if ap.Answer.Remember == core.RememberRun || ap.Used {
		c.verdict.AllowedBy = "approval " + ap.ID.Short() + ", for all calls of the tool"
		return answerYes, true
	}
	g.apply(ap)
	return answerOpen, true
}

// apply carries out an approval beside the run: it installs, records a hash,
// reads keys again, remembers a permission. Then everything that waited for it is checked again.
func (g *gates) apply(ap *core.Approval) {
	if g.applying[ap.ID] {
		return
	}
	g.applying[ap.ID] = true
	carried := *ap
	carried.Owner = g.run.Owner // the store says so too, of one that was read
	g.background.run(func(ctx context.Context) func(context.Context) error {
		err := g.host.Apply(ctx, carried, func(msg string) { g.background.report("", carried.Tool, msg) })
		return func(context.Context) error {
			delete(g.applying, carried.ID)
			if ctx.Err() != nil {
				return nil
			}
			// What waits was perhaps read anew meanwhile.
			now := g.questions.newest(ap)
			g.questions.use(now, "")
			if err != nil {
				g.applyFailed(now, core.AsError(err))
			}
			g.recheck(now)
			return nil
		}
	})
}

// applyFailed tells of a failure. An installation that failed would fail again
// if the same question were asked again: its calls get the error. Everything
// else the gate asks again with the next check.
func (g *gates) applyFailed(ap *core.Approval, err *core.Error) {
	if ap.Type == core.ApproveDependency && err.Code != core.CodeDigestMismatch {
		g.notApplied[ap.ID] = err
	}
	e := g.batch.event(core.EventTaskWarning)
	e.ApprovalID, e.Tool, e.Message, e.Error = ap.ID, ap.Tool, err.Message, err
	g.batch.emit(e)
}

// recheck asks the gates again about the calls that are parked on what an
// approval has answered.
func (g *gates) recheck(ap *core.Approval) {
	for _, c := range g.calls.order {
		if c.state == callParked && answers(ap, c) {
			g.check(c)
		}
	}
}

// readmit lets the calls go on that are parked on what an approval has answered.
func (g *gates) readmit(ap *core.Approval) {
	for _, c := range g.calls.order {
		if c.state == callParked && answers(ap, c) {
			g.admit(c)
		}
	}
}

// maxWhy bounds what is shown of how a call in doubt has ended.
const maxWhy = 2000

func (g *gates) inDoubt(c *call) Ask {
	subject := fmt.Sprintf("in_doubt:%s#%d", c.id, c.attempt)
	digest, err := core.DigestOf([]string{subject, c.tool, c.sent.digest})
	if err != nil {
		digest = c.sent.digest
	}
	shown := map[string]any{"tool": c.tool, "arguments": g.batch.redact.JSON(c.sent.raw), "started_at": c.before, "risk_why": "it may have run already"}
	if c.why != nil {
		shown["error"] = core.Visible(g.batch.redact.Error(c.why).Message, maxWhy, true)
	}
	return Ask{
		Type: core.ApproveInDoubt, Subject: subject, Tool: c.tool, Risk: core.RiskHigh, Digest: digest, Context: shown,
		Description: fmt.Sprintf("%s was started and %s: it %s run. Run it again, skip it with a given result, or abort?", c.tool, endedHow(c.why), may(c.why)),
	}
}

// decided acts on a decision that has just become known.
func (g *gates) decided(ap *core.Approval, started bool) {
	if g.stop.ending() || ap.State != core.ApprovalApproved && ap.State != core.ApprovalDenied {
		return
	}
	if ap.Renews != "" && ap.State == core.ApprovalApproved {
		g.recheck(ap) // what was shown has expired: it may not be what the gates ask now
	} else {
		g.readmit(ap)
	}
	g.takeIn(ap, started)
}

// takeIn marks a decision that nothing can act upon yet, or at all: the run has
// seen it, and waits for others. Otherwise a waiting run would be one that has
// something to do for as long as they are open. A call that is made later takes
// the decision for its own all the same. What was asked ahead is carried out.
func (g *gates) takeIn(ap *core.Approval, started bool) {
	switch {
	case ap.Used || ap.Type == core.ApproveLayer: // a layer looks by itself
	case ap.State == core.ApprovalDenied, perCall(ap.Type) && !remembersLonger(ap):
		g.questions.use(ap, "")
	case !started:
		g.apply(ap)
	}
}

// ownCall reports whether a call is one of pml's own, which no host judges.
func ownCall(tool string) bool {
	return tool == core.CodeTool || tool == core.ModelTool || tool == core.RunTool
}

// reserved reports whether a name is that of a pseudo-tool under which pml journals what it
// does itself. Whoever called one could start a run of any id, or ask a model anything: no
// record has such a name but of what pml does.
func reserved(tool string) bool { return ownCall(tool) || tool == core.SleepTool }

func noSuchTool(tool string) *core.Error {
	return core.Errorf(core.CodeNoSuchTool, "there is no tool %s", tool).WithNotMade()
}

// own takes a call of pml's own to its gates. One that asks a model passes that of the
// model's provider first, which may take a look at the store.
func (g *gates) own(c *call) {
	if c.tool != core.ModelTool || g.mayPrompt == nil {
		g.prompted(c, "", Verdict{})
		return
	}
	run, name := *g.run, c.prompt.name
	g.background.run(func(ctx context.Context) func(context.Context) error {
		to, v := g.mayPrompt(ctx, run, name)
		return func(context.Context) error {
			if ctx.Err() == nil {
				g.prompted(c, to, v)
			}
			return nil
		}
	})
}

// prompted takes what a provider's gate says of a call of pml's own, and where the call would go.
func (g *gates) prompted(c *call, to string, provider Verdict) {
	v := Verdict{Known: true, ReadOnly: true, Repeatable: true, Deny: provider.Deny, Ask: provider.Ask}
	if c.question != nil {
		v.Ask = append(v.Ask, *c.question)
	}
	if c.prompt != nil {
		c.prompt.To = to
	}
	g.checked(c, v)
}

// refusedProvider reports whether a request to a model was refused because its conversation
// may not go to the provider.
func refusedProvider(d delivery) bool {
	return d.outcome == core.OutcomeDenied && d.err != nil && d.err.Provider
}
