package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) trustCmd() *cobra.Command {
	var show, yes, full bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "See and trust what this workspace's files grant",
		Long: `What the files of a workspace grant (servers to start, tools to allow) counts
only after you have trusted exactly that content on this machine. What they
forbid counts at once. A change asks again and shows what changed. Of pml.lock and
of flows the digests are shown and what is counted; --full shows every line. Where
a PIN is set ("pml config pin"), it is asked for, with --yes as well.`,
		Example: "  pml trust --show\n  pml trust --show --full\n  pml trust\n  pml trust --yes   # in scripts",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show && yes {
				return usagef("--show only looks; it does not go with --yes")
			}
			return a.trust(cmd.Context(), show, yes, full)
		},
	}
	cmd.Flags().BoolVar(&show, "show", false, "show what is granted; change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "trust without asking")
	cmd.Flags().BoolVar(&full, "full", false, "show every line of it")
	return cmd
}

func (a *app) trust(ctx context.Context, show, yes, full bool) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	t, err := b.Trust(ctx)
	if err != nil {
		return err
	}
	if show || t.Trusted || t.Empty {
		return a.print(t, func(w *strings.Builder) { writeTrust(w, t, full) })
	}
	if !yes {
		if ok, err := a.askTrust(ctx, t, full); err != nil || !ok {
			return err
		}
	}
	pin, err := a.pinFor(ctx, b, false)
	if err != nil {
		return err
	}
	if err := b.SetTrust(ctx, t.Digest, pin); err != nil {
		return err
	}
	t.Trusted = true
	return a.print(t, line("trusted %s", core.Visible(t.Workspace, 0, false)))
}

// askTrust shows what would be trusted and asks. Without a terminal there is
// nobody to ask, and the answer is no.
func (a *app) askTrust(ctx context.Context, t api.TrustState, full bool) (bool, error) {
	refused := core.Errorf(core.CodeNotTrusted, "%s is not trusted", core.Visible(t.Workspace, 0, false))
	if !a.asks() {
		return false, core.Errorf(core.CodeNotTrusted, "%s is not trusted, and there is no terminal to ask on; look with --show, then trust with --yes",
			core.Visible(t.Workspace, 0, false)).WithNext("pml", "trust", "--show")
	}
	var w strings.Builder
	writeTrust(&w, t, full)
	io.WriteString(a.Stderr, w.String()+"trust this? type yes: ")
	text, err := a.readLine(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, core.Errorf(core.CodeCancelled, "nothing was trusted: %w", err)
	}
	if !strings.EqualFold(text, "yes") {
		return false, refused
	}
	return true, nil
}

func writeTrust(w *strings.Builder, t api.TrustState, full bool) {
	w.WriteString("workspace " + core.Visible(t.Workspace, 0, false) + "\n")
	switch {
	case t.Empty:
		w.WriteString("its files grant nothing: there is nothing to trust\n")
		return
	case t.Trusted:
		w.WriteString("trusted\n")
	case t.Diff != "":
		w.WriteString("not trusted: it changed since you trusted it\n")
	default:
		w.WriteString("not trusted\n")
	}
	w.WriteString("digest " + t.Digest + "\n\n")
	text, changes := t.Content, t.Diff != "" && !t.Trusted
	if changes {
		text = t.Diff
	}
	folded := 0
	if !full {
		w.WriteString(counted(t.Content))
		text, folded = fold(text, t.Content, changes)
	}
	w.WriteString(core.Visible(strings.TrimRight(text, "\n"), 0, true) + "\n")
	if folded > 0 {
		fmt.Fprintf(w, "%d line(s) are not shown; the digest is of all of them: pml trust --show --full\n", folded)
	}
}
