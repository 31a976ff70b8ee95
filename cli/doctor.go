package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "Check this machine and this workspace",
		Long:    "Checks what pml needs: its folder, the database, Node, the configuration, servers and keys. A check that fails ends with exit code 1.",
		Example: "  pml doctor\n  pml doctor --json",
		Args:    maxArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	checks, err := b.Doctor(ctx)
	if err != nil {
		return err
	}
	failed := false
	for _, c := range checks {
		failed = failed || c.Status == "fail"
	}
	if a.human() {
		err = a.write(doctorText(checks))
	} else {
		err = printList(a, api.Page[api.Check]{Items: checks}, "", nil)
	}
	if err == nil && failed {
		return exitStatus(exitFailed)
	}
	return err
}

func doctorText(checks []api.Check) string {
	var rows [][]string
	for _, c := range checks {
		rows = append(rows, []string{c.Status, core.Visible(c.Name, 0, false), core.Visible(c.Detail, 0, false)})
	}
	text := alignRows(rows, 0)
	var b strings.Builder
	b.WriteString(text)
	said := map[string]bool{}
	for _, c := range checks {
		if next := shellJoin(c.Next); next != "" && c.Status != "ok" && !said[next] {
			said[next] = true
			b.WriteString("next: " + next + "\n")
		}
	}
	return b.String()
}
