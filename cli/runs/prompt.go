package runs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// choice is one answer to an approval: what a person types, and what it makes
// of the decision.
type choice struct {
	label string // with the key in brackets, as the question shows it
	words []string
	take  func(d *api.Decision)
	risky bool // asks for the first digits whatever the approval's risk is
	later bool // decides nothing
}

// prompt asks a person about the first of what waits. It never takes an empty
// line for a yes; at the end of the input it leaves the question open.
func prompt(ctx context.Context, a *app.App, b app.Backend, pending []core.Approval) (*api.Decision, error) {
	p := pending[0]
	a.Progress.Hold()
	defer a.Progress.Release()
	io.WriteString(a.Stderr, view.Approval(p, 1, len(pending), a.Now()))
	choices := choicesOf(p)
	question := questionOf(p, choices)
	for {
		io.WriteString(a.Stderr, question)
		line, err := a.ReadLine(ctx)
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return nil, nil
		}
		if err != nil {
			return nil, core.Errorf(core.CodeCancelled, "no decision was taken: %w", err).WithRun(p.RunID)
		}
		i := slices.IndexFunc(choices, func(c choice) bool { return slices.Contains(c.words, strings.ToLower(line)) })
		if i < 0 {
			continue
		}
		if choices[i].later {
			return nil, nil
		}
		d, err := chosen(ctx, a, b, p, choices[i])
		if err != nil || d != nil {
			return d, err
		}
	}
}

// chosen makes the decision of a choice, nil when the person thought better of
// it.
func chosen(ctx context.Context, a *app.App, b app.Backend, p core.Approval, c choice) (*api.Decision, error) {
	d := &api.Decision{Checkpoint: p.ID, ExpectDigest: p.Digest}
	if a.CanAsk() {
		d.Presence = core.PresenceTerminal
	}
	c.take(d)
	if !d.Approve {
		return d, nil
	}
	if d.Answer != nil && d.Answer.Remember == core.RememberRule {
		if ok, err := agreeToRule(ctx, a, b, p.ID); err != nil || !ok {
			return nil, tryAgain(a, err)
		}
	}
	if c.risky || p.Risk == core.RiskHigh {
		if ok, err := a.TypeDigits(ctx, p.Digest, p.ID); err != nil || !ok {
			return nil, err
		}
	}
	pin, err := a.PinFor(ctx, b, false)
	if err != nil {
		return nil, core.AsError(err).WithRun(p.RunID)
	}
	d.Pin = pin
	return d, nil
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

func answers(an core.Answer) func(*api.Decision) {
	return func(d *api.Decision) { d.Approve, d.Answer = true, &an }
}

// choicesOf are the answers that an approval can have.
func choicesOf(p core.Approval) []choice {
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
	case p.Type == core.ApproveDependency && len(scriptsOf(p)) > 0:
		add("[y]es, without its scripts", approves, "y", "yes")
		add("with its [s]cripts", answers(core.Answer{Scripts: true}), "s", "scripts")
		list[1].risky = true
	default:
		add("[y]es", approves, "y", "yes")
	}
	if p.Type != core.ApproveInDoubt {
		add("[n]o (deny)", func(*api.Decision) {}, "n", "no", "deny")
	}
	add("[a]bort", func(d *api.Decision) { d.Abort = true }, "a", "abort")
	return append(list, choice{label: "[l]ater", words: []string{"l", "later"}, later: true})
}

// outlives reports whether the process that asked lives on when the run is
// done. A command of its own is over then, and with it its session.
func outlives(p core.Approval) bool {
	return p.RequestedBy.Via != "" && p.RequestedBy.Via != core.ViaCLI
}

func questionOf(p core.Approval, choices []choice) string {
	labels := make([]string, len(choices))
	for i, c := range choices {
		labels[i] = c.label
	}
	question := "approve? "
	if p.Type == core.ApproveInDoubt {
		question = "it may have run already: "
	}
	return question + strings.Join(labels, " / ") + ": "
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
