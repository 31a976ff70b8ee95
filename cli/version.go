package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
)

func versionCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of this build. Nothing is opened.",
		Example: "  pml version --json",
		Args:    app.MaxArgs(0),
		RunE: func(*cobra.Command, []string) error {
			return printVersion(a)
		},
	}
}

func printVersion(a *app.App) error {
	return a.Print(a.Version, func(w *strings.Builder) { w.WriteString(versionLine(a)) })
}

func versionLine(a *app.App) string {
	s := "pml " + a.Version.Version
	var about []string
	for _, p := range []string{a.Version.Commit, a.Version.Date, a.Version.Go} {
		if p != "" {
			about = append(about, p)
		}
	}
	if len(about) > 0 {
		s += " (" + strings.Join(about, ", ") + ")"
	}
	return s + "\n"
}
