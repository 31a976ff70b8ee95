package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/casys-ai/pml/core"
)

// asks reports whether a person can be asked: there is a terminal, and the
// output is not for a program.
func (a *app) asks() bool { return a.human() && a.StdinTTY && a.StderrTTY }

// askYes asks a question until the answer is yes or no: an empty line is
// neither. At the end of the input nobody answered, which is
// core.CodeAwaitingHuman.
func (a *app) askYes(ctx context.Context, question string) (bool, error) {
	for {
		io.WriteString(a.Stderr, question+" [y]es / [n]o: ")
		line, err := a.readLine(ctx)
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
		}
	}
}

// typeOut asks a person to type a text, so that what is risky is not done by
// one key too many. Anything else than the text is no.
func (a *app) typeOut(ctx context.Context, question, want string) (bool, error) {
	io.WriteString(a.Stderr, question)
	line, err := a.readLine(ctx)
	if errors.Is(err, io.EOF) {
		io.WriteString(a.Stderr, "\n")
		return false, nil
	}
	if err != nil {
		return false, core.Errorf(core.CodeCancelled, "no decision was taken: %w", err)
	}
	return strings.EqualFold(line, want), nil
}

// pinFor asks for the PIN where decisions need one, or always.
func (a *app) pinFor(ctx context.Context, b Changes, always bool) (string, error) {
	if !always {
		need, err := b.NeedsPin(ctx)
		if err != nil || !need {
			return "", err
		}
	}
	return a.readSecret(ctx, "PIN: ")
}

// readSecret reads what must not be seen, from a terminal only: what stands in
// a pipe or a file, any process of the same user could have put there. Without
// one it is core.CodeAuth, as when the backend misses the PIN.
func (a *app) readSecret(ctx context.Context, prompt string) (string, error) {
	if !a.asks() || a.ReadSecret == nil {
		return "", core.Errorf(core.CodeAuth, "the PIN is typed by a person at a terminal, and there is none here; run this on a terminal, without output for programs")
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
