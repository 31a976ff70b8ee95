// Package cli is the command line: the tree of commands, and those that belong to no
// family with a package of its own.
package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/runs"
	"github.com/casys-ai/pml/cli/servers"
	"github.com/casys-ai/pml/core/env"
)

// The groups in which help lists the commands.
const (
	groupRun   = "run"
	groupWatch = "watch"
	groupSetup = "setup"
)

// Main runs the command line and returns the exit code. args leaves the
// program's name out. It never ends the process.
func Main(ctx context.Context, args []string, deps app.Deps) int {
	a := app.New(deps)
	return a.Run(ctx, args, root(a))
}

// root builds the whole tree of commands. Building it opens nothing.
func root(a *app.App) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "pml",
		Short: "Run code and task graphs on MCP tools, durably, stopping for approvals",
		Long: `pml runs scripts and task graphs (DAGs) that call tools of MCP servers. It
journals every call, stops where a person has to decide, and continues from
there, even after a crash.`,
		Example:       "  pml init\n  pml run script.ts\n  pml status\n  pml approve",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version {
				return printVersion(a)
			}
			if len(args) == 0 {
				if hasHome(a) && runs.StatusIfWaiting(cmd.Context(), a) {
					a.Note("pml status says more; pml --help lists the commands")
					return nil
				}
				if unconfigured(a) {
					return a.Write(firstPage)
				}
				return cmd.Help()
			}
			return app.UnknownCommand(cmd, args[0])
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(app.FlagError)
	a.GlobalFlags(root.PersistentFlags())
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	_ = root.RegisterFlagCompletionFunc("output", app.CompleteFixed(app.Formats...))
	_ = root.RegisterFlagCompletionFunc("server", cobra.NoFileCompletions)
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run and decide:"},
		&cobra.Group{ID: groupWatch, Title: "Look:"},
		&cobra.Group{ID: groupSetup, Title: "Set up:"},
	)
	addGroup(root, groupRun, runs.ExecuteCmd(a), runs.AgentCmd(a), runs.ApproveCmd(a), runs.DenyCmd(a), runs.ContinueCmd(a), runs.RetryCmd(a), runs.AbortCmd(a), runs.HaltCmd(a), runs.ResumeCmd(a), runs.ReplanCmd(a), runs.ApprovalsCmd(a))
	addGroup(root, groupWatch, runs.StatusCmd(a), runs.StatsCmd(a), tuiCmd(a), runs.PlanCmd(a), runs.WorkflowsCmd(a), toolsCmd(a), runs.EventsCmd(a), auditCmd(a))
	addGroup(root, groupSetup, initCmd(a), servers.Command(a), trustCmd(a), serveCmd(a), serverCmd(a), pairCmd(a), stdioCmd(a), hookCmd(a), doctorCmd(a), backupCmd(a), restoreCmd(a), configCmd(a), permissionsCmd(a), notifyCmd(a), modelsCmd(a), flowsCmd(a), uninstallCmd(a), completionCmd(a), versionCmd(a))
	root.AddCommand(manCmd(a))
	root.AddCommand(topics()...)
	root.SetHelpCommand(helpCmd())
	setHelp(a, root)
	return root
}

// hasHome reports whether pml may show what waits: at a terminal, where pml was
// used before.
func hasHome(a *app.App) bool {
	if !a.Human() || !a.StdoutTTY {
		return false
	}
	home, err := env.FindHome(a.Flags.Home, env.Environ(a.Environ))
	if err != nil {
		return false
	}
	_, err = os.Stat(home.Dir)
	return err == nil
}

func addGroup(root *cobra.Command, id string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = id
		root.AddCommand(c)
	}
}
