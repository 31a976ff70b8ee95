package cli

import (
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

func stdioCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "stdio",
		Short: "Be an MCP server on stdin and stdout, for an agent's host",
		Long: `Serves MCP on stdin and stdout for the workspace of the current folder, or of
PML_WORKSPACE. The agent gets execute, continue, abort, replan, approval_response,
workflow_status, flow_status and discover, and the tools that "expose" of .pml.json
names ("github:*") under their own names; these pass the same gates.

A host starts this command, and it ends when the host closes stdin. Runs that are
unfinished by then are kept: "pml continue" or the next host takes them up.

When a call needs a decision, the agent gets approval_required, and a person decides
in pml tui or with pml continue. If approvals.decider is "human" the agent cannot
decide. pml logs to stderr, where hosts keep it, also why a tool is not offered;
PML_LOG is debug, info, warn (the default) or error.`,
		Example: `  claude mcp add pml -- pml stdio        # or: pml init --host claude-code
  PML_WORKSPACE=. pml stdio              # what a host starts
  printf '' | pml stdio                  # ends at once: pml is found and works`,
		Args: app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.StdinTTY {
				return app.Usagef("pml stdio talks to an agent's host, which starts it; in a terminal use pml tui").WithNext("pml", "tui")
			}
			if a.Stdio == nil {
				return core.Errorf(core.CodeInternal, "this build of pml does not speak MCP on stdio")
			}
			level, _ := a.Environ("PML_LOG")
			return a.Stdio(cmd.Context(), app.OpenOptions{Home: a.Flags.Home, Server: a.Flags.Server, Log: level, Via: core.ViaMCP})
		},
	}
}
