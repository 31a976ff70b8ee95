package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// choice is one answer to an approval: what a person types, and what it makes
// of the decision.
type choice struct {
	label string // with the key in brackets, as the question shows it
	words []string
	take  func(d *api.Decision)
	risky bool // asks for the first digits whatever the approval's risk is
	later bool // decides nothing
	enter bool // an empty line means it
	loop  bool // for the calls of the same place, within bounds
	edit  bool // changes the arguments, and asks again
}

// question is what a person is asked about one approval. There is one way to ask, for
// every command that decides.
type question struct {
	about core.Approval
	n, of int
	// given is what the command line has said of the decision; nil: nothing.
	given *api.Decision
	// verb is the word of the question: approve, or deny.
	verb string
	pin  bool // asks for the PIN whatever the configuration says
	// unedited is the digest as it was asked, where somebody has changed the arguments
	// since: a no is about that.
	unedited string
}

// errInputEnds ends a prompt whose input ended: the approval is left open.
var errInputEnds = errors.New("the input ended")

// prompt asks a person about the first of what waits; at the end of the input it leaves
// the question open.
func prompt(ctx context.Context, a *app.App, b app.Backend, pending []core.Approval) (*api.Decision, error) {
	d, err := ask(ctx, a, b, question{about: pending[0], n: 1, of: len(pending), verb: verbApprove})
	if errors.Is(err, errInputEnds) {
		err = nil
	}
	return d, err
}

// ask shows an approval, asks about it and returns the decision, nil for later. An
// empty line is a yes to what is of low or medium risk, on a terminal, if it was typed
// after the question was there. When somebody else decides it meanwhile the question is
// over, and that is the error: core.CodeAlreadyDecided, with a no that came too late.
func ask(ctx context.Context, a *app.App, b app.Backend, q question) (*api.Decision, error) {
	a.Progress.Hold()
	defer a.Progress.Release()
	open, stop := untilDecided(ctx, b, q.about)
	defer stop()
	d, err := q.answer(open, a, b)
	was := faster(open)
	if was == nil || err == nil {
		return d, err
	}
	io.WriteString(a.Stderr, "\n")
	a.ForgetTyped()             // a line that was begun here is nothing for the shell
	if d != nil && !d.Approve { // somebody was faster than the reason
		was.Message += "; your no came too late"
	}
	return d, was
}

// answer shows the card and reads what the person makes of it.
func (q question) answer(ctx context.Context, a *app.App, b app.Backend) (*api.Decision, error) {
	io.WriteString(a.Stderr, cardErr(a, view.Approval(q.about, q.n, q.of, a.Now())))
	choices := q.choices(a)
	for {
		shown := a.Now()
		line, err := a.Ask(ctx, q.text(choices))
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return nil, errInputEnds
		}
		if err != nil {
			return nil, core.Errorf(core.CodeCancelled, "no decision was taken: %w", err).WithRun(q.about.RunID)
		}
		i := slices.IndexFunc(choices, func(c choice) bool {
			return slices.Contains(c.words, strings.ToLower(line)) || c.enter && line == ""
		})
		switch {
		case i < 0:
			a.Say("that is no answer: type one of the letters in brackets")
			continue
		case choices[i].later:
			return nil, nil
		case app.TooEarly(a, line, shown):
			continue
		case choices[i].edit:
			now, err := q.edit(ctx, a, b)
			if err == nil {
				return now.answer(ctx, a, b)
			}
			if err = tryAgain(a, err); err != nil {
				return nil, err
			}
			continue
		}
		d, err := q.chosen(ctx, a, b, choices[i])
		if err != nil || d != nil {
			return d, err
		}
	}
}

// chosen makes the decision of a choice, nil when the person thought better of
// it.
func (q question) chosen(ctx context.Context, a *app.App, b app.Backend, c choice) (d *api.Decision, err error) {
	p := q.about
	if c.loop {
		d, err = askLoop(ctx, a, b, p, q.pin)
		return d, tryAgain(a, err)
	}
	d = &api.Decision{Checkpoint: p.ID, ExpectDigest: p.Digest}
	if a.CanAsk() {
		d.Presence = core.PresenceTerminal
	}
	c.take(d)
	if q.given != nil && q.given.Approve == d.Approve {
		d.Reason = q.given.Reason
	}
	if !d.Approve {
		d.ExpectDigest = cmp.Or(q.unedited, p.Digest)
		if !d.Abort && d.Reason == "" && q.verb != verbDeny { // pml deny has --reason
			d.Reason, err = askReason(ctx, a)
		}
		return d, err
	}
	if d.Answer != nil && d.Answer.Remember == core.RememberRule {
		if ok, err := agreeToRule(ctx, a, b, p); err != nil || !ok {
			return nil, tryAgain(a, err)
		}
	} else if want := approval.Confirmation(p, c.risky); want != "" {
		if ok, err := a.TypeDigits(ctx, want); err != nil || !ok {
			return nil, err
		}
	}
	pin, err := a.PinFor(ctx, b, q.pin)
	if err != nil {
		return nil, core.AsError(err).WithRun(p.RunID)
	}
	d.Pin = pin
	return d, nil
}

// askReason asks once why something is denied, at a terminal: the agent that asked reads
// it, and so does whoever reads the audit log. The end of the input is no reason, and the
// denial stands.
func askReason(ctx context.Context, a *app.App) (string, error) {
	if !a.CanAsk() {
		return "", nil
	}
	line, err := a.Ask(ctx, "reason (enter sends the no, also without one): ")
	if errors.Is(err, io.EOF) {
		io.WriteString(a.Stderr, "\n")
		return "", nil
	}
	if err != nil {
		return "", core.Errorf(core.CodeCancelled, "no decision was taken: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// tryAgain says why a choice cannot be had, so that another one is taken. Only
// the end of the command is an error.
func tryAgain(a *app.App, err error) error {
	switch core.CodeOf(err) {
	case "", core.CodeAwaitingHuman:
		return nil
	case core.CodeCancelled:
		return err
	default:
		a.Say("%s", core.Visible(err.Error(), 2000, false))
		return nil
	}
}

func approves(d *api.Decision) { d.Approve = true }

func denies(*api.Decision) {}

func answers(an core.Answer) func(*api.Decision) {
	return func(d *api.Decision) { d.Approve, d.Answer = true, &an }
}

// choices are the answers that a question can have.
func (q question) choices(a *app.App) []choice {
	var list []choice
	p := q.about
	switch {
	case q.verb == verbDeny:
		list = append(list, choice{label: "[y]es", words: []string{"y", "yes", "deny"}, take: denies})
	case q.given != nil && q.given.Answer != nil:
		list = append(list, givenChoice(*q.given.Answer))
	default:
		list = choicesOf(p, a.CanAsk())
	}
	if q.verb != verbDeny && p.Type != core.ApproveInDoubt {
		if a.CanAsk() && !list[0].risky && !approval.High(p, false) {
			list[0].enter, list[0].label = true, list[0].label+" (enter)"
		}
		list[0].label += thenType(p, q.verb)
		if q.mayEdit(a) {
			list = append(list, choice{label: "[e]dit", words: []string{"e", "edit"}, edit: true})
		}
		list = append(list, choice{label: "[n]o (deny)", words: []string{"n", "no", "deny"}, take: denies})
	}
	list = append(list, choice{label: "[a]bort", words: []string{"a", "abort"}, take: func(d *api.Decision) { d.Abort = true }})
	return append(list, choice{label: "[l]ater", words: []string{"l", "later"}, later: true})
}

// thenType says behind a yes which characters confirm it, where some do.
func thenType(p core.Approval, verb string) string {
	if want := approval.Confirmation(p, false); want != "" && verb == verbApprove {
		return ", then type " + want
	}
	return ""
}

// givenChoice is the yes that the flags of a command have spelt out.
func givenChoice(an core.Answer) choice {
	c := choice{words: []string{"y", "yes"}, take: answers(an), risky: an.Scripts}
	switch {
	case len(an.Arguments) > 0:
		c.label = "[y]es, send these"
	case an.Scripts:
		c.label = "[y]es, with its scripts"
	case an.InDoubt == core.RunAgain:
		c.label = "[y]es, run it again"
	case an.InDoubt == core.SkipResult:
		c.label = "[y]es, skip it with the result " + core.Visible(string(an.Result), 200, false)
	default:
		c.label = "[y]es, for this " + core.Visible(string(an.Remember), 20, false)
	}
	return c
}

// choicesOf are the ways to say yes to an approval; person says that somebody is at a terminal.
func choicesOf(p core.Approval, person bool) []choice {
	var list []choice
	add := func(label string, take func(*api.Decision), words ...string) {
		list = append(list, choice{label: label, words: words, take: take})
	}
	switch {
	case p.Type == core.ApproveInDoubt:
		add("[r]un again", answers(core.Answer{InDoubt: core.RunAgain}), "r", "run again", answerRunAgain)
		add("[s]kip (result null)", answers(core.Answer{InDoubt: core.SkipResult, Result: core.Null}), "s", answerSkip)
	case p.Type == core.ApproveTool:
		add("[y]es, once", approves, "y", "yes", "once")
		if p.Once {
			break
		}
		add("for this [r]un", answers(core.Answer{Remember: core.RememberRun}), "r", "run", "remember")
		if outlives(p) {
			add("for this [s]ession", answers(core.Answer{Remember: core.RememberSession}), "s", "session")
		}
		add("[w]rite a rule", answers(core.Answer{Remember: core.RememberRule}), "w", "rule", "write a rule")
		if _, ok := approval.Propose([]core.Approval{p}); ok && person {
			list = append(list, choice{label: fmt.Sprintf("all of line %d in [b]ounds", p.Place.Line), words: []string{"b", "bounds", "loop"}, loop: true})
		}
	case p.Type == core.ApproveDependency && len(scriptsOf(p)) > 0:
		add("[y]es, without its scripts", approves, "y", "yes")
		add("with its [s]cripts", answers(core.Answer{Scripts: true}), "s", "scripts")
		list[1].risky = true
	default:
		add("[y]es", approves, "y", "yes")
	}
	return list
}

// outlives reports whether the process that asked lives on when the run is
// done. A command of its own is over then, and with it its session.
func outlives(p core.Approval) bool {
	return p.RequestedBy.Via != "" && p.RequestedBy.Via != core.ViaCLI
}

// text is the line that asks.
func (q question) text(choices []choice) string {
	labels := make([]string, len(choices))
	for i, c := range choices {
		labels[i] = c.label
	}
	word := q.verb + "? "
	if q.about.Type == core.ApproveInDoubt && q.verb == verbApprove {
		word = "it may have run already: "
	}
	return word + strings.Join(labels, " / ") + ": "
}

// scriptsOf are the install scripts that an approval of a dependency names.
func scriptsOf(p core.Approval) []string {
	var c struct {
		Dependency struct {
			Scripts []string `json:"scripts"`
		} `json:"dependency"`
	}
	if json.Unmarshal(p.Context, &c) != nil {
		return nil
	}
	return c.Dependency.Scripts
}

// cardErr is the card of an approval for standard error.
func cardErr(a *app.App, text string) string {
	if !a.StderrTTY {
		return text
	}
	return view.Card(text, a.Width(), a.ColourErr())
}

// card is the card of an approval for standard output.
func card(a *app.App, text string) string {
	if !a.StdoutTTY {
		return text
	}
	return view.Card(text, a.LineLimit(), a.Colour())
}
