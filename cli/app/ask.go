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
// output is not for a program, unless the command decides.
func (a *App) CanAsk() bool { return (a.Human() || a.Decides) && a.StdinTTY && a.StderrTTY }

// Ask asks a question whose answer decides something and reads a line. What was typed
// before the question was there is no answer to it.
func (a *App) Ask(ctx context.Context, question string) (string, error) {
	a.ForgetTyped()
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
	return YesNo{Question: question}.Ask(ctx, a)
}

// YesNo is a question whose answer is yes or no.
type YesNo struct {
	Question string
	// Enter says that it is about what is of low or medium risk: at a terminal an empty
	// line is a yes if it was typed after the question was there.
	Enter bool
	// Typed are the characters that confirm a yes to what is of high risk; empty: none do.
	Typed string
	// All shows the whole of what the question is about, where a part is not shown, before the
	// question is asked again; gone: nothing of it is left on the screen, and it can be shown
	// once more. Nil: all of it was shown.
	All func() (gone bool)
	// Else takes a line that is none of the answers, and says whether it ends the question,
	// which is no yes then; nil: there is no other answer. Other is what it takes, in words.
	Else  func(line string) bool
	Other string
}

// Ask asks until there is an answer, as AskYes does. Who mistypes the characters is asked
// again.
func (q YesNo) Ask(ctx context.Context, a *App) (bool, error) {
	q.Enter = q.Enter && a.CanAsk()
	for {
		shown := a.Now()
		line, err := a.Ask(ctx, q.text())
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return false, core.Errorf(core.CodeAwaitingHuman, "nobody answered: nothing was done")
		}
		if err != nil {
			return false, core.Errorf(core.CodeCancelled, "nothing was done: %w", err)
		}
		switch word := strings.ToLower(line); {
		case q.Enter && TooEarly(a, line, shown):
		case word == "y" || word == "yes" || q.Enter && word == "":
			if q.Typed == "" {
				return true, nil
			}
			if ok, err := a.TypeDigits(ctx, q.Typed); ok || err != nil {
				return ok, err
			}
		case word == "n" || word == "no":
			return false, nil
		case q.All != nil && (word == "a" || word == "all"):
			if !q.All() {
				q.All = nil
			}
		case q.Else != nil && q.Else(word):
			return false, nil
		case q.All != nil:
			a.Say("that is no answer: type y, n or a")
		case q.Else != nil:
			a.Say("that is no answer: type y, n or %s", q.Other)
		default:
			a.Say("that is no answer: type y or n")
		}
	}
}

// text is the line that asks.
func (q YesNo) text() string {
	text := q.Question + " [y]es"
	switch {
	case q.Enter:
		text += " (enter)"
	case q.Typed != "":
		text += ", then type " + q.Typed
	}
	text += " / [n]o"
	if q.All != nil {
		text += " / show [a]ll"
	}
	if q.Else != nil {
		text += " / " + q.Other
	}
	return text + ": "
}

// tooEarly is how long after a question was shown an empty line cannot have been meant
// for it: it was typed before.
const tooEarly = 425 * time.Millisecond

// TooEarly reports whether an empty line came too early to be an answer to a question that
// was shown then, and tells the person so.
func TooEarly(a *App, line string, shown time.Time) bool {
	early := line == "" && a.Now().Sub(shown) < tooEarly
	if early {
		a.Say("too early: the question had only just appeared; press enter again")
	}
	return early
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
