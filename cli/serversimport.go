package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// importHosts are the agent hosts whose files can be named by a word.
var importHosts = []string{"claude-code", "claude-desktop", "vscode", "cursor", "codex", "mcp.json"}

func (a *app) serversImportCmd() *cobra.Command {
	var req api.ImportRequest
	var f changeFlags
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
			return a.importServers(cmd.Context(), req, f)
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
	addChangeFlags(cmd, &f, true)
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
	return usagef("%q is neither an agent host (%s) nor a file%s", core.Visible(from, 80, false), strings.Join(importHosts, ", "),
		core.Suggest(from, importHosts)).WithNext("pml", "servers", "import", "--help")
}

func (a *app) importServers(ctx context.Context, req api.ImportRequest, f changeFlags) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	imp, err := b.ImportServers(ctx, req)
	if err != nil {
		return err
	}
	p := &proposal{Sources: imp.Sources, ChangeSet: imp.ChangeSet, ask: "take these servers over?", again: a.withFlags("--yes")}
	err = a.propose(ctx, b, p, f)
	return a.concluded(p, err, "pml", "servers", "check")
}

func writeSource(w *strings.Builder, s api.ImportSource) {
	names := "no servers"
	if len(s.Servers) > 0 {
		names = strings.Join(s.Servers, ", ")
	}
	fmt.Fprintf(w, "from %s (%s): %s\n", core.Visible(s.File, 0, false), core.Visible(s.Host, 0, false), core.Visible(names, 0, false))
	for _, text := range s.Skipped {
		fmt.Fprintf(w, "  not taken over: %s\n", core.Visible(text, 0, false))
	}
}
