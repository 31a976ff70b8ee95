package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/casys-ai/pml/cli/app"
)

func manCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a folder",
		Long:    "Writes one man page for each command into a folder, for packages.",
		Example: "  pml man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    app.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return app.Usagef("cannot make %s: %w", args[0], err)
			}
			date := a.Now()
			root := cmd.Root()
			root.DisableAutoGenTag = true
			h := &doc.GenManHeader{Title: "PML", Section: "1", Source: "pml " + a.Version.Version, Manual: "pml", Date: &date}
			if err := doc.GenManTree(root, h, args[0]); err != nil {
				return app.Usagef("cannot write the man pages into %s: %w", args[0], err)
			}
			return nil
		},
	}
}
