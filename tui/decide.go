package tui

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/screen"
)

// verdict is what became of one decision.
type verdict struct {
	approval core.Approval
	result   api.Result
	err      error
	// other is who had decided the same before.
	other *core.DecidedBy
}

// decide carries decisions to their approvals, one by one: each is bound to
// what was on screen.
func (m *model) decide(i screen.Decide) tea.Cmd {
	left := leftOpen(m, i.Approvals, m.o.Clock.Now())
	epochs := make([]int64, len(i.Approvals))
	for n, a := range i.Approvals {
		epochs[n] = m.epoch(a.RunID)
	}
	return m.act(func(ctx context.Context) then {
		var done []verdict
		for _, a := range i.Approvals {
			v := m.decideOne(ctx, a, &api.Decision{
				Presence: core.PresenceTerminal,
				Approve:  i.Approve, Checkpoint: a.ID, ExpectDigest: a.Digest, Abort: i.Abort && !i.Approve,
				Reason: i.Reason, Answer: i.Answer, Pin: i.Pin,
			})
			done = append(done, v)
			if core.CodeOf(v.err) == core.CodeAuth || ctx.Err() != nil {
				break // a wrong PIN is wrong for all, and the guard limits tries
			}
		}
		return func(m *model, now time.Time) tea.Cmd {
			for n, v := range done {
				m.decided(v, epochs[n])
			}
			for _, a := range i.Approvals[len(done):] {
				m.screen.Decided(a.ID, false)
			}
			noteLeft(m, done, verbOf(i), i.Answer, left, now)
			level, text := summary(i, done, now)
			if i.Approve && level == screen.Good {
				text += untilResumed(m, i.Approvals)
			}
			m.say(level, text, now)
			return nil
		}
	})
}

// skew is how far the clock of a server may be behind. Who decided the same
// less than that before is not told apart from this person.
const skew = 5 * time.Second

// decideOne decides one approval; the run goes on behind the call.
func (m *model) decideOne(ctx context.Context, a core.Approval, d *api.Decision) verdict {
	began := m.o.Clock.Now().Add(-skew)
	r, err := m.o.Backend.Continue(ctx, api.ContinueRequest{ID: a.RunID, Decision: d, By: m.actor()})
	v := verdict{approval: a, result: r, err: err}
	if err == nil && r.Decided != nil && (r.Decided.Actor != m.actor() || r.Decided.At.Before(began)) {
		v.other = r.Decided
	}
	return v
}

// decided puts what became of a decision into the model.
func (m *model) decided(v verdict, epoch int64) {
	m.feed.Touch(v.approval.RunID)
	m.screen.Decided(v.approval.ID, v.err == nil && v.other == nil)
	switch {
	case v.err == nil:
		m.taken.saw(v.result, epoch)
	case core.CodeOf(v.err) == core.CodeAuth:
		m.screen.NeedPin(true)
	}
}

// summary says what became of decisions.
func summary(i screen.Decide, done []verdict, now time.Time) (screen.Level, string) {
	word := verbOf(i)
	if len(i.Approvals) == 1 {
		return one(done[0], i, word, now)
	}
	good, gone := 0, 0
	ended := map[core.ID]bool{} // runs that a no of these has ended, or may have
	var bad string
	for _, v := range done {
		switch {
		case v.err == nil:
			good++
			ended[v.approval.RunID] = !i.Approve
		case ended[v.approval.RunID] && core.CodeOf(v.err) == core.CodeNotWaiting:
			gone++
		case bad == "":
			bad = refusal(v, i, now)
		}
	}
	switch {
	case bad == "" && gone > 0:
		return screen.Good, fmt.Sprintf("%d %s; that ended the run, so %s not asked", good, word, moreAre(gone))
	case bad == "":
		return screen.Good, fmt.Sprintf("%d %s", good, word)
	}
	return screen.Bad, fmt.Sprintf("%d of %d %s. %s", good, len(i.Approvals), word, bad)
}

// verbOf says what a decision does to what it is about.
func verbOf(i screen.Decide) string {
	switch {
	case i.Approve && i.Answer != nil && i.Answer.Shape != nil:
		return fmt.Sprintf("approved, up to %d calls from line %s", i.Answer.Shape.Max, approval.Line(i.Answer.Shape.Place))
	case i.Approve && i.Answer != nil && len(i.Answer.Arguments) > 0:
		return "approved with changed arguments"
	case i.Approve && i.Answer != nil && i.Answer.Remember == core.RememberRun:
		return "approved, and the tool for this run"
	case i.Approve && i.Answer != nil && i.Answer.Remember == core.RememberSession:
		return "approved, and the tool for this session"
	case i.Approve:
		return "approved"
	case i.Abort:
		return "denied, and its run is aborted"
	}
	return "denied"
}

func one(v verdict, i screen.Decide, word string, now time.Time) (screen.Level, string) {
	switch {
	case v.err != nil:
		return screen.Bad, refusal(v, i, now)
	case v.other != nil:
		return screen.Note, fmt.Sprintf("already %s by %s", word, who(v.other, nameOf(v.approval), now))
	}
	stands := standing(v.result)
	switch {
	case i.Approve && v.result.Status == api.StatusHalted:
		stands = "" // [untilResumed] says it, and more
	case i.Approve && v.result.Status == api.StatusRunning && v.approval.Type == core.ApproveDependency:
		stands = "; it is being installed"
	}
	return screen.Good, fmt.Sprintf("%s: %s%s", nameOf(v.approval), word, stands)
}

// refusal says why a decision did not count, and who was faster.
func refusal(v verdict, i screen.Decide, now time.Time) string {
	e := core.AsError(v.err)
	what := nameOf(v.approval)
	switch e.Code {
	case core.CodeAlreadyDecided:
		if e.Decided != nil {
			return fmt.Sprintf("too late: %s by %s", decidedBefore(i), who(e.Decided, what, now))
		}
		return problem("too late: "+what, e)
	case core.CodeApprovalExpired:
		return what + " had expired; it can be asked again"
	case core.CodeDigestMismatch:
		return what + " is not what was on screen any more; look at it again, nothing was decided"
	case core.CodeNotWaiting:
		return problem(what+" does not wait any more", e)
	case core.CodeAuth:
		if i.Pin == "" { // it was set since this terminal began
			return what + " needs the PIN that is set here meanwhile: decide again, and type it; nothing was decided"
		}
		return problem(what, e)
	default:
		return problem(what, e)
	}
}

// decidedBefore is what somebody else must have decided, where this decision
// came too late: the opposite, save that a yes can also be another yes.
func decidedBefore(i screen.Decide) string {
	switch {
	case !i.Approve:
		return "approved"
	case i.Answer == nil:
		return "denied"
	}
	return "decided"
}

// who is who decided what, how and when, in the time zone of now. The person and
// the time come first: a narrow window cuts the rest.
func who(d *core.DecidedBy, what string, now time.Time) string {
	text := core.Visible(d.Label(), 80, false)
	if !d.At.IsZero() {
		text += " " + d.At.In(now.Location()).Format(time.TimeOnly)
	}
	text += ": " + what
	if d.Reason != "" {
		text += ", because: " + core.Visible(d.Reason, 120, false)
	}
	return text
}

func nameOf(a core.Approval) string { return named(a, " ") }

// askRule finds the rule that would remember an approval. One of another workspace is refused
// here, before anybody reads it: its file is not written from this one.
func (m *model) askRule(i screen.AskRule) tea.Cmd {
	if of, here := i.Approval.Workspace, m.o.Workspace; of != "" && filepath.IsAbs(here) && of != here { // that of the demonstration is none
		m.screen.ShowRule(api.Rule{}, core.Errorf(core.CodePermissionDenied, "it is for %s; there: pml permissions allow %s",
			core.Visible(of, 120, false), core.Visible(decide.Shell([]string{i.Approval.Tool}), 120, false)), m.o.Clock.Now())
		return nil
	}
	return m.effect(func(ctx context.Context) then {
		rule, err := m.o.Backend.RuleFor(ctx, i.Approval.ID)
		return func(m *model, now time.Time) tea.Cmd {
			m.screen.ShowRule(rule, err, now)
			return nil
		}
	})
}

// remember writes a rule that was shown, and then approves. The rule is there
// before the run goes on, so that what is written is what was agreed to.
func (m *model) remember(i screen.Remember) tea.Cmd {
	epoch := m.epoch(i.Approval.RunID)
	left, others := leftOpen(m, []core.Approval{i.Approval}, m.o.Clock.Now()), ofRule(m, i.Approval, m.o.Clock.Now())
	return m.act(func(ctx context.Context) then {
		trusted, written := true, false
		if string(i.Rule.Change.Before) != string(i.Rule.Change.After) {
			var err error
			trusted, err = m.o.Backend.Write(ctx, api.ChangeSet{Changes: []api.Change{i.Rule.Change}}, true, i.Pin)
			if err != nil {
				return m.notRemembered(verdict{approval: i.Approval, err: err})
			}
			written = true
		}
		answer := &core.Answer{Remember: core.RememberRule}
		v := m.decideOne(ctx, i.Approval, &api.Decision{
			Presence: core.PresenceTerminal,
			Approve:  true, Checkpoint: i.Approval.ID, ExpectDigest: i.Approval.Digest,
			Answer: answer, Pin: i.Pin,
		})
		open, unread := m.o.Backend.Approvals(ctx, false)
		return func(m *model, now time.Time) tea.Cmd {
			m.decided(v, epoch)
			noteLeft(m, []verdict{v}, "approved", answer, left, now)
			level, text := one(v, screen.Decide{Approve: true, Answer: answer}, "approved", now)
			switch {
			case v.err != nil && written:
				text = "the rule was written, but " + text
			case v.err == nil && !trusted:
				level, text = screen.Note, text+"; the rule counts once the workspace is trusted: pml trust"
			case v.err == nil:
				text += "; the rule is remembered"
				if unread == nil {
					text += answered(others, open)
				}
				text += untilResumed(m, []core.Approval{i.Approval})
			}
			m.say(level, text, now)
			return nil
		}
	})
}

// ofRule are the other questions that a rule for the tool of an approval may answer.
func ofRule(m *model, a core.Approval, now time.Time) (out []core.ID) {
	for _, o := range m.state.Waiting(now) {
		if o.Side == a.Side && o.Workspace == a.Workspace && approval.AskedAlike(a, o) {
			out = append(out, o.ID)
		}
	}
	return out
}

// answered says how many of the questions about the tool of a new rule wait no more, and
// where those are that a person still has to decide. A window of 80 columns shows all of it.
func answered(others []core.ID, open []core.Approval) (text string) {
	left := 0
	for _, id := range others {
		if slices.ContainsFunc(open, func(a core.Approval) bool { return a.ID == id && a.State == core.ApprovalOpen }) {
			left++
		}
	}
	if n := len(others) - left; n > 0 {
		text = fmt.Sprintf(", %d more answered", n)
	}
	if left > 0 {
		text += fmt.Sprintf("; %d still to be decided: 2", left)
	}
	return text
}

// notRemembered says that neither the rule was written nor anything decided.
func (m *model) notRemembered(v verdict) then {
	return func(m *model, now time.Time) tea.Cmd {
		m.decided(v, 0)
		m.say(screen.Bad, problem("nothing was decided, the rule was not written", v.err), now)
		return nil
	}
}
