package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func trustCmd(a *app.App) *cobra.Command {
	var show, yes, full bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "See and trust what this workspace's files grant",
		Long: `Shows what the files of a workspace grant (servers to start, tools to allow) and
asks you to trust exactly that content on this machine. Nothing that they grant
counts before. What they forbid counts at once, and removing it (deny, ask,
readonly, decider, a limit) needs your trust, too: until then the old and the new
restrictions both hold.

After a change pml asks again and shows what changed. It shows the digests of
pml.lock and of flows, and counts what is in them; --full shows every line. If a
PIN is set ("pml config pin"), pml asks for it, also with --yes. If only people may
decide (approvals.decider is human), --yes needs the PIN.`,
		Example: "  pml trust --show\n  pml trust --show --full\n  pml trust\n  pml trust --yes   # in scripts",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show && yes {
				return app.Usagef("--show only looks; it does not go with --yes")
			}
			return trust(cmd.Context(), a, show, yes, full)
		},
	}
	cmd.Flags().BoolVar(&show, "show", false, "show what is granted; change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "trust without asking")
	a.AddPinFD(cmd)
	cmd.Flags().BoolVar(&full, "full", false, "show every line of it")
	return cmd
}

func trust(ctx context.Context, a *app.App, show, yes, full bool) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	t, err := b.Trust(ctx)
	if err != nil {
		return err
	}
	if show || t.Trusted || t.Empty && len(t.TakenOut) == 0 {
		return a.Print(t, func(w *strings.Builder) { writeTrust(w, t, full) })
	}
	if !yes {
		if ok, err := askTrust(ctx, a, t, full); err != nil || !ok {
			return err
		}
	}
	pin, err := a.PinFor(ctx, b, false)
	if err != nil {
		return err
	}
	if t.Human && yes && pin == "" {
		return changes.TrustsInPerson(t)
	}
	if err := b.SetTrust(ctx, t.Digest, pin); err != nil {
		return err
	}
	t.Trusted = true
	return a.Print(t, app.Line("trusted %s", core.Visible(t.Workspace, 0, false)))
}

// askTrust shows what would be trusted and asks. Without a terminal there is
// nobody to ask, and the answer is no.
func askTrust(ctx context.Context, a *app.App, t api.TrustState, full bool) (bool, error) {
	refused := core.Errorf(core.CodeNotTrusted, "%s is not trusted", core.Visible(t.Workspace, 0, false))
	if !a.CanAsk() {
		return false, core.Errorf(core.CodeNotTrusted, "%s is not trusted, and there is no terminal to ask on; look with --show, then trust with --yes",
			core.Visible(t.Workspace, 0, false)).WithNext("pml", "trust", "--show")
	}
	var w strings.Builder
	writeTrust(&w, t, full)
	io.WriteString(a.Stderr, w.String()+"trust this? type yes: ")
	text, err := a.ReadLine(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, core.Errorf(core.CodeCancelled, "nothing was trusted: %w", err)
	}
	if answer := strings.ToLower(text); answer != "y" && answer != "yes" {
		return false, refused
	}
	return true, nil
}

func writeTrust(w *strings.Builder, t api.TrustState, full bool) {
	w.WriteString("workspace " + core.Visible(t.Workspace, 0, false) + "\n")
	switch {
	case t.Empty && len(t.TakenOut) == 0:
		w.WriteString("its files grant nothing: there is nothing to trust\n")
		return
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
		return
	}
	text, changes := t.Content, t.Diff != "" && !t.Trusted
	if changes {
		text = t.Diff
	}
	folded := 0
	if !full {
		w.WriteString(view.Counted(t.Content))
		text, folded = view.Fold(text, t.Content, changes)
	}
	w.WriteString(core.Visible(strings.TrimRight(text, "\n"), 0, true) + "\n")
	for _, warning := range t.Warnings {
		w.WriteString("warning: " + core.Visible(warning, 0, false) + "\n")
	}
	if folded > 0 {
		fmt.Fprintf(w, "%d line(s) are not shown; the digest is of all of them: pml trust --show --full\n", folded)
	}
}
