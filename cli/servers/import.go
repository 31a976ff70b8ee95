package servers

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// importHosts are the agent hosts whose files can be named by a word.
var importHosts = []string{"claude-code", "claude-desktop", "vscode", "cursor", "codex", "mcp.json"}

func serversImportCmd(a *app.App) *cobra.Command {
	var req api.ImportRequest
	var f changes.Flags
	cmd := &cobra.Command{
		Use:   "import [HOST|FILE] [NAME…]",
		Short: "Take over the servers of an agent host",
		Long: `Takes over the MCP servers that an agent host knows: claude-code,
claude-desktop, vscode, cursor, codex, mcp.json (the workspace's own file), or any
file of theirs; without one, those of every host that is found. Names choose among
its servers. What is configured already stays as it is, unless --replace is
given. The change is shown first; keys go to .env and are not shown.`,
		Example: `  pml servers import
  pml servers import claude-desktop
  pml servers import .vscode/mcp.json github files --yes
  pml servers import cursor --global --replace`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				req.From, req.Names = args[0], args[1:]
			}
			if err := checkSource(req.From); err != nil {
				return err
			}
			return importServers(cmd.Context(), a, req, f)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return importHosts, cobra.ShellCompDirectiveDefault // a file will do as well
		},
	}
	cmd.Flags().BoolVar(&req.Replace, "replace", false, "also those that are configured already with other content")
	cmd.Flags().BoolVar(&req.Home, "global", false, "write to the configuration of pml's home: for all workspaces")
	changes.AddFlags(cmd, &f, true)
	return cmd
}

// checkSource wants the name of a host, or what is or looks like a file.
func checkSource(from string) error {
	if from == "" || slices.Contains(importHosts, from) || strings.ContainsAny(from, `/\`) || strings.HasSuffix(from, ".json") {
		return nil
	}
	if _, err := os.Stat(from); err == nil {
		return nil
	}
	return app.Usagef("%q is neither an agent host (%s) nor a file%s", core.Visible(from, 80, false), strings.Join(importHosts, ", "),
		core.Suggest(from, importHosts)).WithNext("pml", "servers", "import", "--help")
}

func importServers(ctx context.Context, a *app.App, req api.ImportRequest, f changes.Flags) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	imp, err := b.ImportServers(ctx, req)
	if err != nil {
		return err
	}
	p := &changes.Proposal{Sources: imp.Sources, ChangeSet: imp.ChangeSet, Ask: "take these servers over?", Again: a.WithFlags("--yes")}
	err = changes.Propose(ctx, a, b, p, f)
	return changes.Conclude(a, p, err, "pml", "servers", "install", "--all")
}
