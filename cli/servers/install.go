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
		Use:   "install [NAME… | --all]",
		Short: "Decide what servers need: trust, keys, packages, integrity",
		Long: `Lists what the named servers, or all of them, need before they can be called,
and decides it, one kind after the other: the trust of this workspace's files,
keys that .env does not have yet, the packages that are missing (one list, one
question), and what is not as it was approved. A yes to the packages installs
and approves exactly those, without install scripts: "pml servers update NAME
--allow-scripts" runs those. A package that is pinned and has a newer version is
left to "pml servers update". A sign-in is left to "pml servers connect".

Without names and --all it asks about all of them, at a terminal only. --yes is a
yes to the packages only. Trust, keys and integrity are asked about at
a terminal; without one what is left is said at the end, with exit code 8.`,
		Example:           "  pml servers install files\n  pml servers install --all\n  pml servers install --all --yes",
		ValidArgsFunction: completeServers(a, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			if o.all && len(args) > 0 || !o.all && len(args) == 0 && !a.CanAsk() {
				return app.Usagef("name the servers, or give --all for those that miss something").WithNext("pml", "servers", "install", "--all")
			}
			return installServers(cmd.Context(), a, o)
		},
	}
	a.AddPinFD(cmd)
	cmd.Flags().BoolVar(&o.all, "all", false, "all servers")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "install and approve the packages without asking")
	return cmd
}

func installServers(ctx context.Context, a *app.App, o installOptions) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	list, err := namedServers(ctx, b, o.names)
	if err != nil {
		return err
	}
	sayNeeded(a, list)
	if list, err = o.trust(ctx, a, b, list); err == nil {
		list, err = o.keys(ctx, a, b, list)
	}
	if err != nil {
		return err
	}
	missing, lost, err := missingPackages(ctx, a, b, list)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if err := printMissing(a, missing); err != nil {
			return lost.or(err)
		}
		if err := agreeToInstall(ctx, a, o, len(missing)); err != nil {
			return lost.or(err)
		}
		if err := installMissing(ctx, a, b, missing); err != nil {
			return lost.or(err)
		}
	} else if lost.first == nil && !slices.ContainsFunc(list, notLookedAt) {
		a.Note("no package is missing")
	}
	return o.acceptRest(ctx, a, b, list, lost)
}

// lookups are the servers whose package could not be looked up, and why the first could not,
// which the command ends with.
type lookups struct {
	names []string
	first *core.Error
}

// or is the failure of the first look-up, else another error.
func (l lookups) or(err error) error {
	if l.first != nil {
		return errors.Join(l.first, err)
	}
	return err
}

// add says at once which server it was where another is what the command ends with.
func (l *lookups) add(a *app.App, name string, err error) {
	e := *core.AsError(err)
	e.Message = core.Visible(name, 80, false) + ": " + e.Message
	l.names = append(l.names, name)
	if l.first == nil {
		l.first = &e
		return
	}
	a.Note("%s", core.Visible(e.Message, 2000, false))
	if len(e.Next) > 0 {
		a.Note("next: %s", layout.ShellJoin(e.Next))
	}
}

// acceptRest asks what is left to ask about the servers whose package could be looked up.
func (o installOptions) acceptRest(ctx context.Context, a *app.App, b app.Backend, list []api.ServerInfo, lost lookups) error {
	if lost.first == nil {
		return o.accept(ctx, a, b)
	}
	o.names = nil
	for _, s := range list {
		if s.Kind != "builtin" && !slices.Contains(lost.names, s.Name) {
			o.names = append(o.names, s.Name)
		}
	}
	if len(o.names) == 0 {
		return lost.first
	}
	err := o.accept(ctx, a, b)
	if _, said := errors.AsType[app.ExitStatus](err); err != nil && !said {
		a.Note("%s", core.Visible(err.Error(), 2000, false))
	}
	return lost.first
}

// namedServers are the servers of these names, all without any.
func namedServers(ctx context.Context, b app.Backend, names []string) ([]api.ServerInfo, error) {
	list, err := b.Servers(ctx)
	if err != nil || len(names) == 0 {
		return list, err
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
	return slices.DeleteFunc(slices.Clone(list), func(s api.ServerInfo) bool { return !slices.Contains(names, s.Name) }), nil
}

// missingPackages are the trees that servers would install. What keeps one server
// from it, trust or its registry, is said and keeps no other from it.
func missingPackages(ctx context.Context, a *app.App, b app.Backend, list []api.ServerInfo) (out []api.Update, lost lookups, err error) {
	for _, s := range list {
		if notLookedAt(s) {
			a.Note("%s: not installed, its workspace is not trusted on this machine; next: pml trust, then pml servers install %s",
				core.Visible(s.Name, 0, false), layout.ShellQuote(s.Name))
			continue
		}
		if s.Kind != "npm" || s.Installed {
			continue
		}
		u, err := askUpdate(ctx, a, b, api.UpdateRequest{Name: s.Name, By: a.Actor()}, "asking the registry: "+s.Name)
		switch {
		case ctx.Err() != nil:
			return nil, lost, err
		case err != nil:
			lost.add(a, s.Name, err)
		case u.Current:
		case u.From != "" && !nothingNewer(u):
			a.Note("%s: %s is pinned and %s is newer; next: pml servers update %s", core.Visible(s.Name, 0, false), u.From, u.To, layout.ShellQuote(s.Name))
		default:
			out = append(out, u)
		}
	}
	return out, lost, nil
}

// notLookedAt reports whether nobody knows what a server would install: its
// workspace is not trusted.
func notLookedAt(s api.ServerInfo) bool {
	return s.Kind == "npm" && !s.Installed && s.State == api.ServerNotTrusted
}

// printMissing shows the list to a person; a program gets what came of it.
func printMissing(a *app.App, missing []api.Update) error {
	if !a.Human() {
		return nil
	}
	columns := []app.Column[api.Update]{
		{Title: "NAME", Get: func(u api.Update) string { return u.Name }},
		{Title: "PACKAGE", Get: func(u api.Update) string { return u.Package + "@" + u.To }},
		{Title: "PACKAGES", Below: 2, Get: func(u api.Update) string { return strconv.Itoa(len(u.Packages)) }},
		{Title: "SIZE", Below: 2, Get: func(u api.Update) string { return sizeKnown(u.SizeBytes) }},
		{Title: "SCRIPTS", Below: 1, Get: scriptsLeftOut},
		{Title: "DIGEST", Below: 1, Get: func(u api.Update) string { return u.Digest }},
	}
	if !slices.ContainsFunc(missing, func(u api.Update) bool { return u.SizeBytes > 0 }) { // the registry says of none
		columns = slices.DeleteFunc(columns, func(c app.Column[api.Update]) bool { return c.Title == "SIZE" })
	}
	return app.PrintList(a, api.Page[api.Update]{Items: missing}, "no package is missing", columns)
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
