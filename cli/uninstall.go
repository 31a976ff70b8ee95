package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// removal is what pml uninstall would remove, and what it has, for a program.
type removal struct {
	Hosts  []api.HostChange `json:"hosts"`
	Server *int             `json:"server_pid,omitempty"`
	Home   string           `json:"home"`
	Files  []string         `json:"workspace_files"`
	Open   int              `json:"runs_not_ended"`
	// Done says that all of it was removed.
	Done bool `json:"done"`
}

func uninstallCmd(a *app.App) *cobra.Command {
	var yes, workspace bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove pml from this machine: hosts, server, its own folder",
		Long: `Says what it would remove, asks, and removes it: what "pml init" has added to
agent hosts, the server that runs, and pml's own folder with all runs, approvals,
packages and sign-ins. Files of the workspace stay; with --workspace its .pml.json
and pml.lock go, too. The program itself and .env are left to you.

Where other folders have pml in their agent hosts, nothing is removed before that
is undone there.`,
		Example: "  pml uninstall\n  pml uninstall --workspace --yes",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return uninstall(cmd.Context(), a, workspace, yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "remove it without asking")
	cmd.Flags().BoolVar(&workspace, "workspace", false, "also .pml.json and pml.lock of this workspace")
	return cmd
}

func uninstall(ctx context.Context, a *app.App, workspace, yes bool) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	r, server, err := findRemoval(ctx, a, b, workspace)
	if err != nil {
		return err
	}
	if a.Human() {
		io.WriteString(a.Stderr, r.text())
	}
	if err := agreeToRemoval(ctx, a, yes); err != nil {
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
	for _, name := range append(r.Files, r.Home) {
		if err := os.RemoveAll(name); err != nil {
			return core.Errorf(core.CodeStoreFailed, "cannot remove %s: %w; remove it by hand", name, err)
		}
	}
	r.Done = true
	self, err := os.Executable()
	if err != nil {
		self = "pml"
	}
	return a.Print(r, app.Line("removed; the program itself is left: rm %s", layout.ShellQuote(core.Visible(self, 0, false))))
}

// findRemoval finds out what there is to remove, and refuses what must not be.
func findRemoval(ctx context.Context, a *app.App, b app.Backend, workspace bool) (removal, app.LocalServer, error) {
	r := removal{Files: []string{}}
	paths, err := b.Paths(ctx)
	if err != nil {
		return r, nil, err
	}
	if r.Home = paths.Home; !isOwnFolder(paths) {
		return r, nil, core.Errorf(core.CodeInvalidConfig, "%s does not look like a folder of pml's own, so nothing was removed; remove it by hand", core.Visible(paths.Home, 0, false))
	}
	others, err := b.HostWorkspaces(ctx)
	if err != nil {
		return r, nil, err
	}
	for _, dir := range others {
		if dir != paths.Workspace {
			return r, nil, core.Errorf(core.CodeAwaitingHuman, "agent hosts start pml from %s, too; nothing was removed: undo that in that folder first, with pml init --undo", core.Visible(dir, 0, false)).
				WithNext("cd", dir)
		}
	}
	if r.Hosts, err = b.HostChanges(ctx, api.HostRequest{Undo: true}); err != nil {
		return r, nil, err
	}
	page, err := b.Workflows(ctx, []core.RunState{core.RunWaiting, core.RunRunning, core.RunInterrupted}, 1000, "")
	if err != nil {
		return r, nil, err
	}
	r.Open = len(page.Items)
	for _, name := range []string{paths.Config, paths.Lock} {
		if _, err := os.Lstat(name); err == nil && workspace {
			r.Files = append(r.Files, name)
		}
	}
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

// isOwnFolder reports whether a folder holds what pml keeps and nothing that is
// the person's: it is not above the workspace, the current folder or their home.
func isOwnFolder(p api.Paths) bool {
	own := false
	for _, name := range []string{"pending.db", "trust", "packages", "hosts.json"} {
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

func (r removal) text() string {
	var w strings.Builder
	for _, h := range r.Hosts {
		if h.Change != nil {
			changes.WriteChange(&w, *h.Change)
		} else if h.Reason != "" {
			fmt.Fprintf(&w, "left as it is: %s: %s\n", core.Visible(h.File, 0, false), core.Visible(h.Reason, 0, false))
		}
	}
	if r.Server != nil {
		fmt.Fprintf(&w, "to stop: the server (process %d)\n", *r.Server)
	}
	for _, name := range r.Files {
		fmt.Fprintf(&w, "to remove: %s\n", core.Visible(name, 0, false))
	}
	fmt.Fprintf(&w, "to remove: %s, with all runs, approvals, the audit log, packages and sign-ins\n", core.Visible(r.Home, 0, false))
	if r.Open > 0 {
		fmt.Fprintf(&w, "%s not ended and will be lost\n", map[bool]string{true: "1 run has", false: fmt.Sprintf("%d runs have", r.Open)}[r.Open == 1])
	}
	return w.String()
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
