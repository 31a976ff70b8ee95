package cli

import (
	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
)

// completer completes an argument or the value of a flag.
type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// fixed completes from a list that is known beforehand.
func fixed(values ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRuns completes the first argument with recent runs. A backend that
// does not open completes nothing: a shell is no place for errors.
func (a *app) completeRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.passive = true
	b, err := a.open(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	page, err := b.Workflows(cmd.Context(), nil, 50, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := []string{"@latest"}
	for _, r := range page.Items {
		out = append(out, r.ID.Short()+"\t"+string(r.State)+" "+core.Visible(r.Intent, 40, false))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeRun completes the value of a flag with recent runs.
func (a *app) completeRun(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return a.completeRuns(cmd, nil, text)
}

// completeKeys completes with the names of the server's keys, once each.
func (a *app) completeKeys(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := a.localServer()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	keys, err := s.Keys(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeApprovals completes the first argument with what waits.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.passive = true
	b, err := a.open(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := b.Approvals(cmd.Context(), false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, p := range list {
		out = append(out, p.ID.Short()+"\t"+string(p.Type)+" "+core.Visible(p.Tool, 60, false))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func completeStates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, s := range core.RunStates {
		out = append(out, string(s))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func completeTypes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, t := range core.EventTypes {
		out = append(out, string(t))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
