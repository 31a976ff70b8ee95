package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

func backupCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all runs of this machine to a file",
		Long: `Writes the runs of this machine and of its server to FILE, which must not exist yet: a tar archive of both databases as they are at one moment each, and
of all large values. pml and its server may go on working meanwhile.

A backup holds what runs hold: programs, arguments, results, approvals and the audit log. It is readable by you alone (mode 0600); keep it so. It holds
no configuration, trust, credentials or API keys. Runs in PostgreSQL are not in it: use pg_dump.`,
		Example: "  pml backup ~/pml-2026-11-23.tar",
		Args:    app.ExactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return backedUp(cmd.Context(), a, "backed up", func(ctx context.Context, u app.Maintenance) (*app.BackupReport, error) { return u.Backup(ctx, args[0]) })
		},
	}
}

func restoreCmd(a *app.App) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the place of this machine's runs",
		Long: `Verifies FILE, which pml backup has written, and then puts its databases in the place of those of this machine. pml refuses while another process executes
runs or the server runs, and when runs or rows of the audit log would be lost that the backup lacks; --force gives those up.

Each database is replaced at once: if the command is interrupted, each is the old one or the new one, and you can run it again. The audit log says
that it was restored. Approvals that were open then are open again. What ran when the backup was made counts as interrupted, and pml takes it up: calls that a run
made after the backup may be made again.`,
		Example: "  pml server stop\n  pml restore ~/pml-2026-11-23.tar",
		Args:    app.ExactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return backedUp(cmd.Context(), a, "restored", func(ctx context.Context, u app.Maintenance) (*app.BackupReport, error) {
				return u.Restore(ctx, args[0], force)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "give up what is here and not in the backup")
	return cmd
}

// storeWords say what the stores of a backup are.
var storeWords = map[string]string{"pending": "this machine's own runs", "server": "those of its server"}

func backedUp(ctx context.Context, a *app.App, what string, f func(context.Context, app.Maintenance) (*app.BackupReport, error)) error {
	u, err := maintenance(a)
	if err != nil {
		return err
	}
	r, err := f(ctx, u)
	if err != nil {
		return err
	}
	for _, n := range r.Notes {
		a.Note("%s", core.Visible(n, 0, false))
	}
	return a.Print(r, func(w *strings.Builder) {
		var stores []string
		for _, s := range r.Stores {
			stores = append(stores, storeWords[s])
		}
		fmt.Fprintf(w, "%s: %s (%s; %d files)\n", what, core.Visible(r.File, 0, false), strings.Join(stores, ", and "), r.Files)
	})
}
