package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
)

// removal is what pml uninstall would remove, and what it has, for a program.
type removal struct {
	Hosts  []api.HostChange `json:"hosts"`
	ByHand []api.HostChange `json:"by_hand,omitempty"` // entries that people wrote, which stay
	Server *int             `json:"server_pid,omitempty"`
	Home   string           `json:"home,omitempty"` // empty: it stays
	// Foreign are the entries of pml's own folder that pml does not know. They stay, and
	// the folder with them.
	Foreign []string `json:"foreign,omitempty"`
	Files   []string `json:"workspace_files"`
	// Kept are the files of pml's in this folder, and in others that pml knows, that stay.
	Kept []string `json:"kept,omitempty"`
	// Left is the workspace's folder of flows, which a person has written.
	Left []string `json:"left,omitempty"`
	Open int      `json:"runs_not_ended"`
	// Done says that all of it was removed.
	Done bool `json:"done"`
}

func uninstallCmd(a *app.App) *cobra.Command {
	var o uninstallOptions
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove pml from this machine: hosts, server, its own folder",
		Long: `Says what it would remove, asks, and removes it: what "pml init" has added to
agent hosts, the server that runs, and pml's own folder with all runs, approvals,
packages and sign-ins; what is in that folder and not pml's is named and stays.
Files of the workspace stay; with --workspace its .pml.json and pml.lock
go, too. The program itself, .env and .pml with its flows are left to you. At the
end it names the files that are left here and in the folders that you have trusted.
An entry of pml that you have written into a host's file yourself stays there: in
this folder and in your own settings it is named, in other folders it is not.

Where "pml init" has added pml to agent hosts from other folders it names those and
removes nothing. --here removes pml from this folder only: what "pml init" has added here,
and with --workspace the two files. The server and pml's own folder stay.`,
		Example: "  pml uninstall\n  pml uninstall --here --workspace\n  pml uninstall --workspace --yes",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return uninstall(cmd.Context(), a, o)
		},
	}
	cmd.Flags().BoolVar(&o.here, "here", false, "only what this folder has; other folders go on using pml")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "remove it without asking")
	cmd.Flags().BoolVar(&o.workspace, "workspace", false, "also .pml.json and pml.lock of this workspace")
	return cmd
}

// uninstallOptions are the flags of pml uninstall.
type uninstallOptions struct {
	yes, workspace, here bool
	noHome               bool // pml's own folder is not there
}

// unmade takes back what a look has made of a folder that was not there: nothing of it, where somebody
// else has begun to use the folder meanwhile.
func unmade(home string) {
	var made []string
	for _, name := range []string{"runners", "pending.seq", "trust"} {
		made = append(made, filepath.Join(home, name))
	}
	all, _ := filepath.Glob(filepath.Join(home, "*"))
	inside, _ := filepath.Glob(filepath.Join(home, "trust", "*"))
	looked, _ := filepath.Glob(filepath.Join(home, "trust", "*.restrictions.json")) // what the files that were read forbid
	if len(inside) > len(looked) || slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(made, name) }) {
		return
	}
	for _, name := range slices.Concat(looked, made, []string{home}) {
		_ = os.Remove(name) // what is not empty is somebody's by now
	}
}

func uninstall(ctx context.Context, a *app.App, o uninstallOptions) error {
	if home, err := env.FindHome(a.Flags.Home, env.Environ(a.Environ)); err == nil {
		if _, err := os.Lstat(home.Dir); errors.Is(err, os.ErrNotExist) {
			o.noHome = true
			defer func() {
				_ = a.CloseBackend()
				unmade(home.Dir)
			}()
		}
	}
	b, err := a.PassiveBackend(ctx) // a look at what there is starts no server
	if err != nil {
		return err
	}
	r, server, err := findRemoval(ctx, a, b, o)
	if err != nil {
		return err
	}
	if r.Kept, err = r.filesKept(ctx, b, o.here); err != nil {
		return err
	}
	if a.Human() {
		changes.Show(a, r.text())
	}
	if (o.here || o.noHome) && r.nothing() {
		return a.Print(r, app.Line("nothing to remove"))
	}
	if err := agreeToRemoval(ctx, a, o.yes); err != nil {
		return err
	}
	for _, h := range r.Hosts {
		if h.Change == nil {
			continue
		}
		if err := b.WriteHost(ctx, h); err != nil {
			return err
		}
	}
	if server != nil {
		if _, err := server.Stop(ctx); err != nil {
			return err
		}
	}
	if err := a.CloseBackend(); err != nil {
		return err
	}
	if err := r.remove(); err != nil {
		return err
	}
	r.Done = true
	if o.here && !o.noHome {
		return a.Print(r, r.done("removed from this folder; pml's own folder is left: pml uninstall removes it"))
	}
	self, err := os.Executable()
	if err != nil {
		self = "pml"
	}
	return a.Print(r, r.done("removed; the program itself is left: rm "+layout.ShellQuote(core.Visible(self, 0, false))))
}

// remove removes the files of the workspace and pml's own folder, or all of it that pml
// knows.
func (r removal) remove() error {
	names := r.Files
	switch {
	case r.Home == "":
	case len(r.Foreign) == 0:
		names = append(names, r.Home)
	default:
		entries, err := os.ReadDir(r.Home)
		if err != nil {
			return core.Errorf(core.CodeStoreFailed, "cannot read %s: %w; remove it by hand", r.Home, err)
		}
		for _, e := range entries {
			if !slices.Contains(r.Foreign, e.Name()) {
				names = append(names, filepath.Join(r.Home, e.Name()))
			}
		}
	}
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			return core.Errorf(core.CodeStoreFailed, "cannot remove %s: %w; remove it by hand", name, err)
		}
	}
	return nil
}

// findRemoval finds out what there is to remove, and refuses what must not be.
func findRemoval(ctx context.Context, a *app.App, b app.Backend, o uninstallOptions) (removal, app.LocalServer, error) {
	r := removal{Files: []string{}}
	paths, err := b.Paths(ctx)
	if err != nil {
		return r, nil, err
	}
	if o.here || o.noHome {
		return r, nil, r.here(ctx, b, paths, o.workspace)
	}
	if r.Home = paths.Home; !isOwnFolder(paths) {
		return r, nil, core.Errorf(core.CodeInvalidConfig, "%s does not look like a folder of pml's own, so nothing was removed; remove it by hand", core.Visible(paths.Home, 0, false))
	}
	if r.Foreign, err = (env.Home{Dir: paths.Home}).Foreign(); err != nil {
		return r, nil, core.Errorf(core.CodeStoreFailed, "cannot read %s: %w; nothing was removed", core.Visible(paths.Home, 0, false), err)
	}
	others, err := b.HostWorkspaces(ctx)
	if err != nil {
		return r, nil, err
	}
	others = slices.DeleteFunc(slices.Clone(others), func(dir string) bool { return dir == paths.Workspace })
	if len(others) > 0 {
		a.NextIn = others[max(slices.IndexFunc(others, isFolder), 0)]
		return r, nil, core.Errorf(core.CodeAwaitingHuman, "agent hosts start pml from other folders, too, so nothing was removed; run pml uninstall --here in each first:\n  %s", core.Visible(strings.Join(others, "\n  "), 0, true)).
			WithNext("pml", "uninstall", "--here")
	}
	if err := r.here(ctx, b, paths, o.workspace); err != nil {
		return r, nil, err
	}
	page, err := b.Workflows(ctx, []core.RunState{core.RunWaiting, core.RunRunning, core.RunInterrupted}, 1000, "")
	if err != nil {
		return r, nil, err
	}
	r.Open = len(page.Items)
	if a.LocalServer == nil {
		return r, nil, nil
	}
	server, err := localServer(a)
	if err != nil {
		return r, nil, err
	}
	st, err := server.Status(ctx)
	if err != nil || st == nil {
		return r, nil, err
	}
	r.Server = &st.PID
	return r, server, nil
}

func isFolder(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// here finds out what pml has in this folder: its entries in files of agent hosts, and
// with files its own two.
func (r *removal) here(ctx context.Context, b app.Backend, paths api.Paths, files bool) (err error) {
	if r.Hosts, err = b.HostChanges(ctx, api.HostRequest{Undo: true}); err != nil {
		return err
	}
	if r.ByHand, err = b.HostChanges(ctx, api.HostRequest{ByHand: true}); err != nil {
		return err
	}
	for _, name := range []string{paths.Config, paths.Lock} {
		if _, err := os.Lstat(name); err == nil && files {
			r.Files = append(r.Files, name)
		}
	}
	if dir := filepath.Join(paths.Workspace, ".pml"); files && paths.Workspace != "" && dir != paths.Home {
		if _, err := os.Lstat(dir); err == nil {
			r.Left = append(r.Left, dir)
		}
	}
	return nil
}

// isOwnFolder reports whether a folder holds what pml keeps and nothing that is
// the person's: it is not above the workspace, the current folder or their home.
func isOwnFolder(p api.Paths) bool {
	own := false
	for _, name := range []string{"pending.db", "trust", "packages", "hosts.json", "pending.seq", "runners"} {
		_, err := os.Lstat(filepath.Join(p.Home, name))
		own = own || err == nil
	}
	inside := []string{p.Workspace}
	if dir, err := os.Getwd(); err == nil {
		inside = append(inside, dir)
	}
	if dir, err := os.UserHomeDir(); err == nil {
		inside = append(inside, dir)
	}
	for _, dir := range inside {
		rel, err := filepath.Rel(p.Home, dir)
		own = own && (err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)))
	}
	return own && filepath.IsAbs(p.Home)
}

// nothing reports whether a folder has nothing of pml's that would go.
func (r removal) nothing() bool {
	return len(r.Files) == 0 && !slices.ContainsFunc(r.Hosts, func(h api.HostChange) bool { return h.Change != nil })
}

func (r removal) text() string {
	var w strings.Builder
	for _, h := range r.Hosts {
		if h.Change != nil {
			changes.WriteChange(&w, *h.Change)
		} else if h.Reason != "" {
			fmt.Fprintf(&w, "left as it is: %s: %s\n", core.Visible(h.File, 0, false), core.Visible(h.Reason, 0, false))
		}
	}
	for _, h := range r.ByHand {
		fmt.Fprintf(&w, "not added by pml init, left as it is: %s (entry %s)\n", core.Visible(h.File, 0, false), core.Visible(h.Entry, 60, false))
	}
	if r.Server != nil {
		fmt.Fprintf(&w, "to stop: the server (process %d)\n", *r.Server)
	}
	for _, name := range r.Files {
		fmt.Fprintf(&w, "to remove: %s\n", core.Visible(name, 0, false))
	}
	for _, name := range r.Left {
		fmt.Fprintf(&w, "left as it is, since people wrote it: %s\n", core.Visible(name, 0, false))
	}
	if r.Home == "" {
		if w.Len() == 0 {
			w.WriteString("pml init has added nothing here that is still there\n")
		}
		return w.String()
	}
	if len(r.Foreign) > 0 {
		fmt.Fprintf(&w, "left as it is, since it is not pml's: %s\n", core.Visible(strings.Join(foreignShown(r.Foreign), ", "), 0, false))
	}
	all := ""
	if len(r.Foreign) > 0 {
		all = "the rest of "
	}
	fmt.Fprintf(&w, "to remove: %s%s, with all runs, approvals, the audit log, packages and sign-ins\n", all, core.Visible(r.Home, 0, false))
	if r.Open > 0 {
		fmt.Fprintf(&w, "%s not ended and will be lost\n", map[bool]string{true: "1 run has", false: fmt.Sprintf("%d runs have", r.Open)}[r.Open == 1])
	}
	return w.String()
}

// foreignShown are the names of foreign entries that a person reads: the first ten.
func foreignShown(names []string) []string {
	const most = 10
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

func agreeToRemoval(ctx context.Context, a *app.App, yes bool) error {
	if yes {
		return nil
	}
	if !a.CanAsk() {
		return core.Errorf(core.CodeAwaitingHuman, "nothing was removed: there is no terminal to ask on; --yes removes it").WithNext(a.WithFlags("--yes")...)
	}
	ok, err := a.AskYes(ctx, "remove all of this?")
	if err == nil && !ok {
		err = core.Errorf(core.CodeDenied, "nothing was removed")
	}
	return err
}
