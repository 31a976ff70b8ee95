package changes

import (
	"context"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Trust trusts what the files of a workspace grant, unless a person who was shown it
// says no, which is core.CodeNotTrusted. With yes nobody is asked; full shows every line.
func Trust(ctx context.Context, a *app.App, b app.Backend, t api.TrustState, yes, full bool) error {
	if !yes {
		if ok, err := askTrust(ctx, a, t, full); err != nil || !ok {
			return err
		}
	}
	pin, err := a.PinFor(ctx, b, false)
	if err != nil {
		return err
	}
	if t.Human && yes {
		if shows, err := b.ShowsPerson(ctx); err != nil {
			return err
		} else if pin == "" || !shows {
			return TrustsInPerson(t)
		}
	}
	return b.SetTrust(ctx, t.Digest, pin)
}

// askTrust shows what would be trusted and asks. Without a terminal there is
// nobody to ask, and the answer is no.
func askTrust(ctx context.Context, a *app.App, t api.TrustState, full bool) (bool, error) {
	if !a.CanAsk() {
		return false, core.Errorf(core.CodeNotTrusted, "%s is not trusted, and there is no terminal to ask on; look with --show, then trust with --yes",
			core.Visible(t.Workspace, 0, false)).WithNext("pml", "trust", "--show")
	}
	var all func() (gone bool)
	text, folded := askedTrust(t, full)
	if Show(a, text); folded > 0 {
		all = func() bool { return showAllOfTrust(ctx, a, t) }
	}
	ok, err := app.YesNo{Question: "trust this?", All: all}.Ask(ctx, a)
	if core.CodeOf(err) == core.CodeAwaitingHuman || err == nil && !ok {
		err = core.Errorf(core.CodeNotTrusted, "%s is not trusted", core.Visible(t.Workspace, 0, false))
	}
	return ok, err
}

// askedTrust is what stands above the question, and how many lines it leaves out.
func askedTrust(t api.TrustState, full bool) (text string, folded int) {
	var w strings.Builder
	folded = WriteTrust(&w, t, full)
	text = w.String()
	if rest, ok := strings.CutSuffix(text, seeAll+"\n"); ok {
		text = rest + "; a shows them\n"
	}
	if strings.Count(text, "\n") > screenful {
		text += "\n" + view.InShort(t.Content)
	}
	return text, folded
}

// showAllOfTrust shows every line of what would be trusted: in the person's pager, where they
// scroll and search, or else above the question. It reports whether that was the pager.
func showAllOfTrust(ctx context.Context, a *app.App, t api.TrustState) (paged bool) {
	text, _ := askedTrust(t, true)
	if a.Page != nil && a.StderrTTY && a.Page(ctx, text) == nil {
		return true
	}
	Show(a, text)
	return false
}

// seeAll ends what is shown in part, with the command that shows all of it.
const seeAll = ": pml trust --show --full"

// screenful is how many lines stay on a small terminal above a question.
const screenful = 16

// WriteTrust writes what would be trusted, and returns how many lines it has left out.
func WriteTrust(w *strings.Builder, t api.TrustState, full bool) (folded int) {
	w.WriteString("workspace " + core.Visible(t.Workspace, 0, false) + "\n")
	switch {
	case t.Empty && len(t.TakenOut) == 0:
		w.WriteString("its files grant nothing: there is nothing to trust\n")
		return 0
	case len(t.TakenOut) > 0:
		w.WriteString("not trusted: these restrictions were taken out of its files since; they hold until you trust this\n")
		for _, line := range t.TakenOut {
			w.WriteString("-" + core.Visible(line, 0, false) + "\n")
		}
	case t.LockAside:
		w.WriteString("pml.lock changed since you trusted it: the one that you trusted counts until you trust this one\n")
	case t.Trusted:
		w.WriteString("trusted\n")
	case t.Diff != "":
		w.WriteString("not trusted: it changed since you trusted it\n")
	default:
		w.WriteString("not trusted\n")
	}
	w.WriteString("digest " + t.Digest + "\n\n")
	if t.Empty {
		w.WriteString("its files grant nothing\n")
		return 0
	}
	text, changes := t.Content, t.Diff != "" && !t.Trusted
	if changes {
		text = t.Diff
	}
	if !full {
		w.WriteString(view.Counted(t.Content))
		text, folded = view.Fold(text, t.Content, changes)
	}
	w.WriteString(core.Visible(strings.TrimRight(text, "\n"), 0, true) + "\n")
	for _, warning := range t.Warnings {
		w.WriteString("warning: " + core.Visible(warning, 0, false) + "\n")
	}
	if folded > 0 {
		fmt.Fprintf(w, "not shown: %s; the digest is of all of them"+seeAll+"\n", layout.Plural(folded, "line"))
	}
	return folded
}

// TrustsInPerson is the error where people decide and nobody has shown to be one:
// what is trusted could allow what they are asked about.
func TrustsInPerson(t api.TrustState) error {
	return core.Errorf(core.CodeAwaitingHuman, "people decide in %s (approvals.decider is human), so one of them trusts what its files grant: on a terminal without --yes, or with the PIN (pml config pin; without a terminal --pin-fd); nothing was trusted",
		core.Visible(t.Workspace, 0, false)).WithNext("pml", "trust")
}
