package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type installOptions struct {
	names    []string
	all, yes bool
}

func serversInstallCmd(a *app.App) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install (NAME… | --all)",
		Short: "Install the packages that servers miss, after one question for all",
		Long: `Looks up what the named servers, or all of them, miss on this machine, shows it
in one list and asks once. A yes installs and approves exactly that, without
install scripts: "pml servers update NAME --allow-scripts" runs those. A package
that is pinned and has a newer version is left to "pml servers update". What else
a server needs, a key or a sign-in, is said at the end.`,
		Example:           "  pml servers install files\n  pml servers install --all\n  pml servers install --all --yes",
		ValidArgsFunction: completeServers(a, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			if o.all == (len(args) > 0) {
				return app.Usagef("name the servers, or give --all for those that miss something").WithNext("pml", "servers", "install", "--help")
			}
			return installServers(cmd.Context(), a, o)
		},
	}
	a.AddPinFD(cmd)
	cmd.Flags().BoolVar(&o.all, "all", false, "all servers that miss a package")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "install and approve it without asking")
	return cmd
}

func installServers(ctx context.Context, a *app.App, o installOptions) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	missing, err := missingPackages(ctx, a, b, o.names)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if err := printMissing(a, missing); err != nil {
			return err
		}
		if err := agreeToInstall(ctx, a, o, len(missing)); err != nil {
			return err
		}
		if err := installMissing(ctx, a, b, missing); err != nil {
			return err
		}
	} else {
		a.Note("no package is missing")
	}
	return checkServers(ctx, a, b, o.names)
}

// missingPackages are the trees that servers would install.
func missingPackages(ctx context.Context, a *app.App, b app.Backend, names []string) ([]api.Update, error) {
	list, err := b.Servers(ctx)
	if err != nil {
		return nil, err
	}
	known := make([]string, len(list))
	for i, s := range list {
		known[i] = s.Name
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, core.Errorf(core.CodeInvalidArguments, "no server is called %q%s", core.Visible(n, 80, false), core.Suggest(n, known)).WithNext("pml", "servers", "ls")
		}
	}
	out := []api.Update{}
	for _, s := range list {
		if s.Kind != "npm" || s.Installed || len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		if s.State == api.ServerNotTrusted {
			return nil, core.Errorf(core.CodeNotTrusted, "the server %s comes from a workspace that is not trusted on this machine; nothing was installed", core.Visible(s.Name, 80, false)).
				WithNext("pml", "trust")
		}
		u, err := askUpdate(ctx, a, b, api.UpdateRequest{Name: s.Name, By: a.Actor()}, "asking the registry: "+s.Name)
		switch {
		case err != nil:
			return nil, err
		case u.Current:
		case u.From != "" && !nothingNewer(u):
			a.Note("%s: %s is pinned and %s is newer; next: pml servers update %s", core.Visible(s.Name, 0, false), u.From, u.To, layout.ShellQuote(s.Name))
		default:
			out = append(out, u)
		}
	}
	return out, nil
}

// printMissing shows the list to a person; a program gets what came of it.
func printMissing(a *app.App, missing []api.Update) error {
	if !a.Human() {
		return nil
	}
	return app.PrintList(a, api.Page[api.Update]{Items: missing}, "no package is missing", []app.Column[api.Update]{
		{Title: "NAME", Get: func(u api.Update) string { return u.Name }},
		{Title: "PACKAGE", Get: func(u api.Update) string { return u.Package + "@" + u.To }},
		{Title: "PACKAGES", Get: func(u api.Update) string { return strconv.Itoa(len(u.Packages)) }},
		{Title: "SIZE", Get: func(u api.Update) string { return sizeKnown(u.SizeBytes) }},
		{Title: "SCRIPTS", Below: 1, Get: scriptsLeftOut},
		{Title: "DIGEST", Below: 1, Get: func(u api.Update) string { return u.Digest }},
	})
}

func scriptsLeftOut(u api.Update) string {
	if len(u.Scripts) == 0 {
		return "none"
	}
	return layout.Plural(len(u.Scripts), "script") + " will not run"
}

func agreeToInstall(ctx context.Context, a *app.App, o installOptions, n int) error {
	if o.yes {
		return nil
	}
	if !a.CanAsk() {
		again := append([]string{"pml", "servers", "install"}, o.names...)
		if o.all {
			again = append(again, "--all")
		}
		return core.Errorf(core.CodeAwaitingHuman, "nothing was installed: there is no terminal to ask on; look at the list, then install it with --yes").
			WithNext(append(again, "--yes")...)
	}
	question := "install and approve this?"
	if n > 1 {
		question = fmt.Sprintf("install and approve these %d?", n)
	}
	ok, err := a.AskYes(ctx, question)
	if err == nil && !ok {
		err = core.Errorf(core.CodeDenied, "nothing was installed")
	}
	return err
}

// installMissing installs what was shown. One that fails keeps no other from it.
func installMissing(ctx context.Context, a *app.App, b app.Backend, missing []api.Update) error {
	pin, err := a.PinFor(ctx, b, false)
	if err != nil {
		return err
	}
	var failed []error
	for _, u := range missing {
		done, err := askUpdate(ctx, a, b, api.UpdateRequest{Name: u.Name, Digest: u.Digest, Pin: pin, By: a.Actor()}, "installing "+u.Name)
		if err != nil && !done.Installed {
			failed = append(failed, err)
			continue
		}
		a.Note("installed %s: %s %s", core.Visible(u.Name, 0, false), core.Visible(u.Package, 0, false), core.Visible(u.To, 0, false))
	}
	return errors.Join(failed...)
}
