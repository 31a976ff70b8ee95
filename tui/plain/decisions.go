package plain

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
)

// show reads the whole of the current approval out. It reports whether all was
// there to be read.
func (d *dialogue) show(ctx context.Context) bool {
	a := d.card.Approval()
	w, err := d.o.Backend.Workflow(ctx, a.RunID)
	var tasks []core.Task
	if err == nil {
		tasks = []core.Task{} // what is not among them has no arguments yet
	}
	for _, l := range w.Layers {
		tasks = append(tasks, l.Tasks...)
	}
	d.say("approval %s", d.headline(a, d.now()))
	for _, l := range evidence.Text(a, tasks) {
		d.say("  %s", l)
	}
	if err != nil && a.Type == core.ApproveLayer {
		d.say("this is not all: the arguments of its tasks could not be read. It cannot be approved before.")
		d.failed(err)
		d.card.Unread()
		return false
	}
	d.say("end of approval %s. The same as a command: %s", a.ID.Short(), decide.Line(a, decide.Choice{Verb: decide.Approve, Answer: d.card.Answer()}))
	d.card.Read()
	return true
}

// refresh takes over what is known of the current approval by now.
func (d *dialogue) refresh() {
	if d.current == "" {
		return
	}
	a, known := d.st.Approval(d.current)
	run, _ := d.st.Run(a.RunID)
	d.card.RunIs(run.State)
	if d.card.Update(a, known, d.lost(d.card.Approval().Side), d.now()) {
		d.say("approval %s has changed; type show to read it again.", d.current.Short())
	}
}

func approves(v decide.Verb) bool { return v == decide.Approve || v == decide.Remember }

// possible says why a decision cannot be taken, where it cannot.
func (d *dialogue) possible(v decide.Verb) bool {
	why := d.card.Why(v, d.now())
	if why != "" {
		d.say("not possible: %s.", why)
	}
	return why == ""
}

// decide takes a decision about the current approval.
func (d *dialogue) decide(ctx context.Context, c decide.Choice) {
	if !d.confirmed(ctx, c) || !d.possible(c.Verb) {
		return
	}
	if !approves(c.Verb) {
		d.send(ctx, d.card.Approval(), c, "")
		return
	}
	var rule *api.Rule
	if c.Answer != nil && c.Answer.Remember == core.RememberRule {
		if rule = d.rule(ctx); rule == nil {
			return
		}
	}
	pin, ok := d.pin(ctx)
	if !ok || !d.possible(c.Verb) { // what stood against it may have come up meanwhile
		return
	}
	if rule != nil && !d.write(ctx, rule, pin) {
		return
	}
	d.send(ctx, d.card.Approval(), c, pin)
}

// confirmed has a person say a second time what would do harm.
func (d *dialogue) confirmed(ctx context.Context, c decide.Choice) bool {
	now := d.now()
	if !approves(c.Verb) {
		a := d.card.Approval()
		if c.Verb == decide.Abort && d.card.Why(c.Verb, now) == "" && !d.agrees(ctx, "deny approval "+a.ID.Short()+" and end "+d.st.Name(a.RunID)) {
			d.say("not aborted.")
			return false
		}
		return true
	}
	if !d.card.HasRead() && !d.show(ctx) {
		return false
	}
	switch {
	case d.card.Asks(c.Verb, now):
		line, ok := d.ask(ctx, "confirm: type "+d.card.Wants()+" to approve, anything else goes back")
		if !ok || !d.card.Type(line) || !d.card.Confirmed() {
			d.say("not approved.")
			return false
		}
	case c.Answer != nil && c.Answer.Remember == core.RememberRule: // the rule is agreed to
	case d.card.Why(c.Verb, now) == "" && !d.agrees(ctx, d.what()):
		d.say("not approved.")
		return false
	}
	return true
}

// rule shows the rule that would remember the current approval; nil where there
// is none, or where nobody agrees to it.
func (d *dialogue) rule(ctx context.Context) *api.Rule {
	r, err := d.o.Backend.RuleFor(ctx, d.card.Approval().ID)
	if err != nil {
		d.failed(err)
		return nil
	}
	d.say("rule: permissions.%s gets %q in %s", core.Visible(r.List, 0, false), core.Visible(r.Pattern, 0, false), core.Visible(r.Change.File, 0, false))
	if r.Change.Diff == "" {
		d.say("  the file stays as it is: the rule stands there already.")
	} else {
		for l := range strings.SplitSeq(strings.TrimSuffix(r.Change.Diff, "\n"), "\n") {
			d.say("  %s", core.Visible(l, 0, false))
		}
	}
	for _, note := range r.Change.Notes {
		d.say("  note: %s", core.Visible(note, 0, false))
	}
	if !d.agrees(ctx, "write this rule and approve") {
		d.say("not approved, and the rule was not written.")
		return nil
	}
	return &r
}

// write writes a rule that was agreed to. It is there before the run goes on.
func (d *dialogue) write(ctx context.Context, r *api.Rule, pin string) bool {
	if bytes.Equal(r.Change.Before, r.Change.After) {
		return true
	}
	trusted, err := d.o.Backend.Write(ctx, api.ChangeSet{Changes: []api.Change{r.Change}}, true, pin)
	switch {
	case err != nil:
		d.say("nothing was decided, and the rule was not written.")
		d.failed(err)
		return false
	case !trusted:
		d.say("the rule is written; it counts once the workspace is trusted: pml trust")
	default:
		d.say("the rule is written.")
	}
	return true
}

// skew is how far the clock of a server may be behind.
const skew = 5 * time.Second

// send gives a decision to the backend.
func (d *dialogue) send(ctx context.Context, a core.Approval, c decide.Choice, pin string) {
	decision := &api.Decision{Checkpoint: a.ID, ExpectDigest: a.Digest, Reason: c.Reason, Abort: c.Verb == decide.Abort}
	word := "denied"
	if approves(c.Verb) {
		decision.Approve, decision.Answer, decision.Pin, word = true, c.Answer, pin, "approved"
	}
	if d.o.Echo != nil { // the card was shown and answered on a terminal
		decision.Presence = core.PresenceTerminal
	}
	began := d.now().Add(-skew)
	d.taken.note(ctx, a.RunID)
	r, err := d.o.Backend.Continue(ctx, api.ContinueRequest{ID: a.RunID, By: d.by(), Decision: decision})
	d.feed.Touch(a.RunID)
	if err != nil {
		d.failed(err)
		return
	}
	if by := r.Decided; by != nil && (by.Actor != d.by() || by.At.Before(began)) {
		d.say("it was %s already, by %s.", word, core.Visible(by.Origin(), 80, false))
	} else {
		d.say("done: %s by you at %s.", word, d.now().Format(time.TimeOnly))
	}
	d.done[a.ID] = true
	d.current = ""
}

func (d *dialogue) by() core.Actor { return core.Actor{Who: d.o.User, Via: core.ViaTUI} }

func (d *dialogue) failed(err error) {
	e := core.AsError(err)
	if e.Decided != nil {
		d.say("too late: already decided by %s at %s.", core.Visible(e.Decided.Origin(), 80, false), e.Decided.At.Format(time.TimeOnly))
		return
	}
	d.say("error: %s", core.Visible(err.Error(), 1000, true))
}

func (d *dialogue) remember(ctx context.Context, how string) {
	r := core.Remember(how)
	switch {
	case r != core.RememberRun && r != core.RememberSession && r != core.RememberRule:
		d.say("say remember run, remember session or remember rule.")
	case r == core.RememberSession && !decide.OutlivesRun(d.card.Approval()):
		d.say("the command that asked ends with the run, and its session with it.")
	default:
		d.decide(ctx, decide.Choice{Verb: decide.Remember, Answer: &core.Answer{Remember: r}})
	}
}

func (d *dialogue) inDoubt(ctx context.Context, way core.InDoubtAnswer, result json.RawMessage) {
	if !d.card.ChooseInDoubt(way, result) {
		d.say("that is for a call in doubt, and a result must be JSON.")
		return
	}
	d.decide(ctx, decide.Choice{Verb: decide.Approve, Answer: d.card.Answer()})
}

func (d *dialogue) scripts() {
	switch {
	case !d.card.ToggleScripts():
		d.say("there are no install scripts.")
	case d.card.ScriptsAllowed():
		d.say("with an approval the install scripts run: %s", core.Visible(strings.Join(d.card.Scripts(), "; "), 1000, false))
	default:
		d.say("the install scripts will not run.")
	}
}
