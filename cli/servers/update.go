package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type updateOptions struct {
	name    string
	yes     bool
	digest  string
	scripts bool
}

func serversUpdateCmd(a *app.App) *cobra.Command {
	var o updateOptions
	cmd := &cobra.Command{
		Use:   "update NAME",
		Short: "Update a server's package, after showing what changes",
		Long: `Looks for a newer version that the server's configuration allows, shows the
packages that change, install scripts and size, and asks. Where there is nothing
newer it says so, with exit code 0. A yes installs and
approves exactly that. Install scripts run only when that was allowed. With
--expect-digest it does so only if the update is the one with this digest.`,
		Example: `  pml servers update files
  pml servers update files --expect-digest sha256:9f04… --yes
  pml servers update browser --allow-scripts`,
		Args:              app.ExactArgs("NAME"),
		ValidArgsFunction: completeServers(a, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if err := app.NotEmpty(cmd, "expect-digest"); err != nil {
				return err
			}
			return updateServer(cmd.Context(), a, o)
		},
	}
	a.AddPinFD(cmd)
	cmd.Flags().BoolVar(&o.yes, "yes", false, "install and approve it without asking")
	cmd.Flags().StringVar(&o.digest, "expect-digest", "", "only if the update has this digest")
	cmd.Flags().BoolVar(&o.scripts, "allow-scripts", false, "its install scripts may run")
	return cmd
}

func updateServer(ctx context.Context, a *app.App, o updateOptions) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	req := api.UpdateRequest{Name: o.name, By: a.Actor()}
	u, err := askUpdate(ctx, a, b, req, "looking for a newer version")
	if err != nil {
		return err
	}
	if o.digest != "" && o.digest != u.Digest {
		return core.Errorf(core.CodeDigestMismatch, "the update of %s is not the expected one: its digest is %s", core.Visible(u.Name, 80, false), core.Visible(u.Digest, 0, false)).
			WithNext("pml", "servers", "update", o.name)
	}
	if u.Current {
		return a.Print(u, app.Line("%s is up to date: %s %s", core.Visible(u.Name, 0, false), core.Visible(u.Package, 0, false), core.Visible(u.To, 0, false)))
	}
	if nothingNewer(u) && !o.yes && !a.CanAsk() {
		a.Note("next: pml servers update %s --expect-digest %s --yes", core.Visible(u.Name, 0, false), u.Digest)
		return a.Print(u, app.Line("nothing newer for %s: %s %s is pinned, and not installed or not approved on this machine yet",
			core.Visible(u.Name, 0, false), core.Visible(u.Package, 0, false), core.Visible(u.To, 0, false)))
	}
	if a.Human() {
		var w strings.Builder
		writeUpdate(&w, u)
		io.WriteString(a.Stderr, w.String())
	}
	req.Digest, req.Scripts = u.Digest, o.scripts && len(u.Scripts) > 0
	if !o.yes {
		if req.Scripts, err = agreeToUpdate(ctx, a, u, req.Scripts); err != nil {
			return notUpdated(a, u, err)
		}
	}
	if req.Pin, err = a.PinFor(ctx, b, false); err != nil {
		return notUpdated(a, u, err)
	}
	done, err := askUpdate(ctx, a, b, req, "installing")
	if err != nil && !done.Installed {
		return err
	}
	// What was installed is said, even if its tools could not be looked at.
	return errors.Join(a.Print(done, func(w *strings.Builder) { writeUpdated(w, done, req.Scripts) }), err)
}

// nothingNewer reports whether what is pinned is the newest there is, although it
// is not installed or approved here yet.
func nothingNewer(u api.Update) bool { return u.OldDigest != "" && u.OldDigest == u.Digest }

// askUpdate asks the backend and tells its progress.
func askUpdate(ctx context.Context, a *app.App, b api.Packages, req api.UpdateRequest, what string) (api.Update, error) {
	busy := a.Busy(what)
	defer busy.End()
	u, err := b.UpdateServer(ctx, req, busy.Phase)
	if u.Packages == nil {
		u.Packages = []api.PackageChange{}
	}
	if u.Scripts == nil {
		u.Scripts = []string{}
	}
	return u, err
}

// agreeToUpdate asks whether what was shown may be installed, and whether its
// scripts may run.
func agreeToUpdate(ctx context.Context, a *app.App, u api.Update, scripts bool) (bool, error) {
	if !a.CanAsk() {
		next := []string{"pml", "servers", "update", u.Name, "--expect-digest", u.Digest, "--yes"}
		if scripts {
			next = append(next, "--allow-scripts")
		}
		return false, core.Errorf(core.CodeAwaitingHuman, "nothing was installed: there is no terminal to ask on; look at the update, then install it with --yes").
			WithNext(next...)
	}
	question := "install and approve this? [y]es / [n]o: "
	switch {
	case scripts:
		question = "install and approve this, and run its scripts? [y]es / [n]o: "
	case len(u.Scripts) > 0:
		question = "install and approve this? [y]es, without its scripts / with its [s]cripts / [n]o: "
	}
	for {
		text, err := a.Ask(ctx, question)
		switch text = strings.ToLower(text); {
		case errors.Is(err, io.EOF):
			io.WriteString(a.Stderr, "\n")
			return false, core.Errorf(core.CodeAwaitingHuman, "nobody answered: nothing was installed")
		case err != nil:
			return false, core.Errorf(core.CodeCancelled, "nothing was installed: %w", err)
		case text == "n" || text == "no":
			return false, core.Errorf(core.CodeDenied, "nothing was installed")
		case len(u.Scripts) > 0 && !scripts && (text == "s" || text == "scripts"), scripts && (text == "y" || text == "yes"):
			ok, err := a.TypeDigits(ctx, firstDigits(u.Digest))
			if ok || err != nil {
				return ok, err
			}
		case text == "y" || text == "yes":
			return false, nil
		}
	}
}

// notUpdated ends an update that nobody agreed to. A program gets what was
// found beside the error.
func notUpdated(a *app.App, u api.Update, err error) error {
	if !a.Human() {
		if perr := a.Encode(u, a.Format()); perr != nil {
			return perr
		}
	}
	return err
}

// writeUpdate shows everything that agreeing to an update would bind.
func writeUpdate(w *strings.Builder, u api.Update) {
	text := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "  %-10s %s\n", k, core.Visible(v, 0, false))
		}
	}
	fmt.Fprintf(w, "update of %s\n", core.Visible(u.Name, 0, false))
	text("package", u.Package)
	text("range", u.Range)
	switch {
	case u.From == "":
		text("version", u.To+" (none was pinned)")
	case nothingNewer(u):
		text("version", u.To+" (nothing newer; it is pinned, and not installed or not approved on this machine yet)")
	default:
		text("version", u.From+" -> "+u.To)
	}
	text("size", sizeKnown(u.SizeBytes))
	fmt.Fprintf(w, "  %-10s %d changed\n", "packages", len(u.Packages))
	for _, p := range u.Packages {
		fmt.Fprintf(w, "    %s\n", core.Visible(packageChange(p), 0, false))
	}
	if len(u.Scripts) == 0 {
		text("scripts", "none")
	} else {
		text("scripts", "these want to run on installation:")
		layout.WriteLines(w, u.Scripts, 4)
	}
	text("was", u.OldDigest)
	text("digest", u.Digest)
}

// packageChange is one line about a package of the tree.
func packageChange(p api.PackageChange) string {
	var s string
	switch {
	case p.Rebuilt:
		s = "! " + p.Name + " " + p.To + ": the same version with other content"
	case p.From == "":
		s = "+ " + p.Name + " " + p.To
	case p.To == "":
		s = "- " + p.Name + " " + p.From
	default:
		s = "  " + p.Name + " " + p.From + " -> " + p.To
	}
	if p.Scripts {
		s += " (install script)"
	}
	return s
}

func sizeKnown(n int64) string {
	if n == 0 {
		return "not known"
	}
	return layout.Size(n)
}

func writeUpdated(w *strings.Builder, u api.Update, scripts bool) {
	fmt.Fprintf(w, "updated %s: %s %s\n", core.Visible(u.Name, 0, false), core.Visible(u.Package, 0, false), core.Visible(u.To, 0, false))
	if len(u.Scripts) > 0 && !scripts {
		w.WriteString("its install scripts did not run\n")
	}
	writeToolChanges(w, u.Tools)
}

// firstDigits are the characters that confirm the installation of what has a digest.
func firstDigits(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(4, len(hex))]
}
