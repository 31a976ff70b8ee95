package app

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// CanAsk reports whether a person can be asked: there is a terminal, and the
// output is not for a program.
func (a *App) CanAsk() bool { return a.Human() && a.StdinTTY && a.StderrTTY }

// Ask asks a question whose answer decides something and reads a line. What was typed
// before the question was there is no answer to it.
func (a *App) Ask(ctx context.Context, question string) (string, error) {
	a.dropTyped()
	if a.StderrTTY {
		question = strings.Join(layout.Wrap(question, a.Width()), "\n")
	}
	io.WriteString(a.Stderr, question)
	return a.ReadLine(ctx)
}

// AskYes asks a question until the answer is yes or no: an empty line is
// neither. At the end of the input nobody answered, which is
// core.CodeAwaitingHuman.
func (a *App) AskYes(ctx context.Context, question string) (bool, error) {
	return a.AskYesOrAll(ctx, question, nil)
}

// TooEarly is how long after a question was shown an empty line cannot have been meant
// for it: it was typed before.
const TooEarly = 425 * time.Millisecond

// SayTooEarly tells a person that an empty line came too early to be an answer.
func (a *App) SayTooEarly() {
	a.Say("too early: the question had only just appeared; press enter again")
}

// AskYesEnter is AskYes about what is of low or medium risk: at a terminal an empty line
// is a yes if it was typed after the question was there.
func (a *App) AskYesEnter(ctx context.Context, question string) (bool, error) {
	return a.askYes(ctx, question, nil, a.CanAsk())
}

// AskYesOrAll is AskYes about something of which a part is not shown: all shows the
// whole of it, once, before the question is asked again; nil: all of it was shown.
func (a *App) AskYesOrAll(ctx context.Context, question string, all func()) (bool, error) {
	return a.askYes(ctx, question, all, false)
}

func (a *App) askYes(ctx context.Context, question string, all func(), enter bool) (bool, error) {
	for {
		answers, keys := " [y]es / [n]o: ", "y or n"
		switch {
		case all != nil:
			answers, keys = " [y]es / [n]o / show [a]ll: ", "y, n or a"
		case enter:
			answers = " [y]es (enter) / [n]o: "
		}
		shown := a.Now()
		line, err := a.Ask(ctx, question+answers)
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return false, core.Errorf(core.CodeAwaitingHuman, "nobody answered: nothing was done")
		}
		if err != nil {
			return false, core.Errorf(core.CodeCancelled, "nothing was done: %w", err)
		}
		switch strings.ToLower(line) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		case "":
			if enter && a.Now().Sub(shown) >= TooEarly {
				return true, nil
			}
			if enter {
				a.SayTooEarly()
				continue
			}
		case "a", "all":
			if all != nil {
				all()
				all = nil
				continue
			}
		}
		a.Say("that is no answer: type %s", keys)
	}
}

// TypeOut asks a person to type a text, so that what is risky is not done by
// one key too many. Anything else than the text is no.
func (a *App) TypeOut(ctx context.Context, question, want string) (bool, error) {
	io.WriteString(a.Stderr, question)
	line, err := a.ReadLine(ctx)
	if errors.Is(err, io.EOF) {
		io.WriteString(a.Stderr, "\n")
		return false, nil
	}
	if err != nil {
		return false, core.Errorf(core.CodeCancelled, "no decision was taken: %w", err)
	}
	return strings.EqualFold(line, want), nil
}

// PinFor asks for the PIN where decisions need one, or always.
func (a *App) PinFor(ctx context.Context, b api.Pin, always bool) (string, error) {
	if a.PinFD >= 0 {
		return a.pinFromFD()
	}
	if !always {
		need, err := b.NeedsPin(ctx)
		if err != nil || !need {
			return "", err
		}
	}
	return a.AskSecret(ctx, "PIN: ")
}

// AskSecret reads what must not be seen, from a terminal only: what stands in
// a pipe or a file, any process of the same user could have put there. Without
// one it is core.CodeAuth, as when the backend misses the PIN.
func (a *App) AskSecret(ctx context.Context, prompt string) (string, error) {
	if !a.CanAsk() || a.ReadSecret == nil {
		return "", core.Errorf(core.CodeAuth, "the PIN is typed by a person at a terminal, and there is none here; run this on a terminal, without output for programs, or hand the PIN over with --pin-fd")
	}
	text, err := a.ReadSecret(ctx, prompt)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", core.Errorf(core.CodeCancelled, "no PIN was read, nothing was done: %w", err)
	case text == "":
		return "", core.Errorf(core.CodeAuth, "no PIN was typed: nothing was done")
	}
	return text, nil
}

// AddPinFD adds the flag by which a program hands over the PIN that a person has
// given it: not in the command line, which others can read.
func (a *App) AddPinFD(cmd *cobra.Command) {
	cmd.Flags().IntVar(&a.PinFD, "pin-fd", -1, "read the PIN from this file descriptor, for use without a terminal")
}

// pinFromFD reads the PIN that --pin-fd names.
func (a *App) pinFromFD() (string, error) {
	if a.ReadFD == nil {
		return "", core.Errorf(core.CodeInternal, "this build of pml reads no file descriptors")
	}
	pin, err := a.ReadFD(a.PinFD)
	if err != nil {
		return "", core.Errorf(core.CodeUsage, "cannot read the PIN from the file descriptor %d of --pin-fd: %w", a.PinFD, err)
	}
	if pin == "" {
		return "", core.Errorf(core.CodeAuth, "the file descriptor %d of --pin-fd holds no PIN: nothing was done", a.PinFD)
	}
	return pin, nil
}

// TypeDigits makes sure that a decision of high risk is meant: it asks for the four
// characters of approval.Confirmation.
func (a *App) TypeDigits(ctx context.Context, want string) (bool, error) {
	ok, err := a.TypeOut(ctx, "high risk: type "+want+" to approve: ", want)
	if err == nil && !ok {
		a.Say("not approved: that was not %s", want)
	}
	return ok, err
}
