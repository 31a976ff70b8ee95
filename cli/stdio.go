package cli

import (
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
)

func (a *app) stdioCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "stdio",
		Short: "Be an MCP server on stdin and stdout, for an agent's host",
		Long: `Answers MCP on stdin and stdout: execute, continue, abort, replan,
approval_response, workflow_status and discover, for the workspace of the current
folder. The host starts it; it ends when the host closes stdin. Runs that it leaves
unfinished are gone on with by pml continue, or by the next host.

What needs a decision is answered as approval_required. A person decides in pml tui
or with pml continue; with approvals.decider "human" the agent cannot.

Tools that "expose" of .pml.json names ("github:*") are offered beside pml's own,
under their own names, and pass the same gates. The variable PML_WORKSPACE names
another folder than the current one. What keeps tools from being offered is said
on stderr, which hosts keep as a log; PML_LOG is debug, info, warn (as without it)
or error.`,
		Example: `  claude mcp add pml -- pml stdio        # or: pml init --host claude-code
  PML_WORKSPACE=. pml stdio              # what a host starts
  printf '' | pml stdio                  # ends at once: pml is found and works`,
		Args: maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.StdinTTY {
				return usagef("pml stdio talks to an agent's host, which starts it; in a terminal use pml tui").WithNext("pml", "tui")
			}
			if a.Stdio == nil {
				return core.Errorf(core.CodeInternal, "this build of pml does not speak MCP on stdio")
			}
			level, _ := a.Environ("PML_LOG")
			return a.Stdio(cmd.Context(), OpenOptions{Home: a.flags.home, Server: a.flags.server, Log: level, Via: core.ViaMCP})
		},
	}
}
