package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of this build. Nothing is opened.",
		Example: "  pml version --json",
		Args:    maxArgs(0),
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion()
		},
	}
}

func (a *app) printVersion() error {
	return a.print(a.Version, func(w *strings.Builder) { w.WriteString(a.versionLine()) })
}

func (a *app) versionLine() string {
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
