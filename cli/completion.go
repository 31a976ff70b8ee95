package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:                   "completion SHELL",
		Short:                 "Print a completion script for a shell",
		Long:                  "Prints a script that completes pml's commands, flags, ids and states: bash, zsh, fish or powershell.",
		Example:               "  source <(pml completion bash)\n  pml completion zsh > \"${fpath[1]}/_pml\"\n  pml completion fish > ~/.config/fish/completions/pml.fish",
		Args:                  app.ExactArgs("SHELL"),
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.Stdout)
			case "fish":
				return root.GenFishCompletion(a.Stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.Stdout)
			}
			return app.Usagef("unknown shell %q%s; it is one of %s", core.Visible(args[0], 40, false),
				core.Suggest(args[0], shells), strings.Join(shells, ", "))
		},
	}
}
