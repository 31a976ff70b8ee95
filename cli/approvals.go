package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) approvalsCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:     "approvals",
		Aliases: []string{"approval"},
		Short:   "What waits for a decision",
		Long:    "Lists and shows what waits for a decision, and keeps it from expiring.",
		Example: "  pml approvals ls\n  pml approvals show 41d2\n  pml continue 41d2 --approve",
	}, a.approvalsLsCmd(), a.approvalsShowCmd(), a.approvalsExtendCmd(), a.approvalsRenewCmd())
}

func (a *app) approvalsLsCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List what waits, soonest expiry first",
		Long:    "Lists the approvals that wait, soonest expiry first; with --all also those that are decided or expired.",
		Example: "  pml approvals ls\n  pml approvals ls --all -o wide\n  pml approvals ls --json | jq -r '.items[].checkpoint_id'",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listApprovals(cmd.Context(), all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are decided or expired")
	return cmd
}

func (a *app) listApprovals(ctx context.Context, all bool) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	list, err := b.Approvals(ctx, all)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, soonest)
	return printList(a, api.Page[core.Approval]{Items: list}, "nothing waits for a decision", []column[core.Approval]{
		{title: "APPROVAL", get: func(p core.Approval) string { return p.ID.Short() }},
		{title: "WORKFLOW", get: func(p core.Approval) string { return p.RunID.Short() }},
		{title: "TYPE", get: func(p core.Approval) string { return string(p.Type) }},
		{title: "RISK", get: func(p core.Approval) string { return string(p.Risk) }},
		{title: "STATE", get: func(p core.Approval) string { return string(p.StateAt(a.now())) }},
		{title: "EXPIRES", get: func(p core.Approval) string { return a.left(p.ExpiresAt) }},
		{title: "TOOL", get: func(p core.Approval) string { return p.Tool }},
		{title: "DIGEST", wide: true, get: func(p core.Approval) string { return p.Digest }},
		{title: "SIDE", wide: true, get: func(p core.Approval) string { return string(p.Side) }},
		{title: "WORKSPACE", wide: true, get: func(p core.Approval) string { return p.Workspace }},
		{title: "WHAT", wide: true, get: func(p core.Approval) string { return p.Description }},
	})
}

// soonest orders by expiry, those without one last, then by age.
func soonest(x, y core.Approval) int {
	switch {
	case x.ExpiresAt != nil && y.ExpiresAt != nil:
		if c := x.ExpiresAt.Compare(*y.ExpiresAt); c != 0 {
			return c
		}
	case x.ExpiresAt != nil:
		return -1
	case y.ExpiresAt != nil:
		return 1
	}
	return x.CreatedAt.Compare(y.CreatedAt)
}

// openApproval opens the backend and finds the approval that a person means.
func (a *app) openApproval(ctx context.Context, text string) (Backend, core.ID, error) {
	b, err := a.open(ctx)
	if err != nil {
		return nil, "", err
	}
	id, err := a.approvalID(ctx, b, text)
	return b, id, err
}

func (a *app) approvalsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show all that an approval asks",
		Long:              "Shows an approval in full: what would run or be called, hashes, risk, expiry and, once decided, by whom.",
		Example:           "  pml approvals show 41d2e07b",
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeApprovals,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, id, err := a.openApproval(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			p, err := b.Approval(cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.printApproval(p)
		},
	}
}

func (a *app) printApproval(p core.Approval) error {
	return a.print(p, func(w *strings.Builder) {
		text := a.approvalBlock(p, 1, 1)
		if p.StateAt(a.now()) != core.ApprovalOpen {
			text = strings.Replace(text, "approval required: ", "approval: ", 1)
		}
		w.WriteString(text)
	})
}

// approvalID finds an approval by its id or a prefix, or by a run that waits
// for exactly one; where none is open, one that expired will do.
func (a *app) approvalID(ctx context.Context, b Backend, text string) (core.ID, error) {
	list, err := b.Approvals(ctx, true)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(list))
	for i, p := range list {
		ids[i] = string(p.ID)
	}
	id, perr := pick(text, ids, "approval")
	if perr == nil {
		return id, nil
	}
	run, approval, err := b.Resolve(ctx, text)
	if err != nil {
		return "", perr
	}
	if approval != "" {
		return approval, nil
	}
	list = slices.DeleteFunc(list, func(p core.Approval) bool { return p.RunID != run })
	found := slices.DeleteFunc(slices.Clone(list), func(p core.Approval) bool { return p.StateAt(a.now()) != core.ApprovalOpen })
	verb := "waits for"
	if len(found) == 0 {
		found, verb = a.unanswered(list), "has let expire"
	}
	switch len(found) {
	case 0:
		return "", core.Errorf(core.CodeNotWaiting, "workflow %s waits for no approval", run.Short()).WithRun(run)
	case 1:
		return found[0].ID, nil
	}
	var short []string
	for _, p := range found {
		short = append(short, p.ID.Short())
	}
	return "", usagef("workflow %s %s %d approvals; name one: %s", run.Short(), verb, len(found), strings.Join(short, ", "))
}

func (a *app) approvalsExtendCmd() *cobra.Command {
	var by time.Duration
	cmd := &cobra.Command{
		Use:               "extend ID",
		Short:             "Give an approval more time",
		Long:              "Moves the expiry of an approval that still waits.",
		Example:           "  pml approvals extend 41d2e07b --by 30m",
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeApprovals,
		RunE: func(cmd *cobra.Command, args []string) error {
			if by <= 0 {
				return usagef("--by %s is not more time", by)
			}
			b, id, err := a.openApproval(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			p, err := b.Extend(cmd.Context(), id, by)
			if err != nil {
				return err
			}
			return a.print(p, line("approval %s expires in %s", p.ID.Short(), a.left(p.ExpiresAt)))
		},
	}
	cmd.Flags().DurationVar(&by, "by", 5*time.Minute, "how much more")
	return cmd
}

func (a *app) approvalsRenewCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "renew ID",
		Short:             "Ask again for what expired",
		Long:              "Asks again for an approval that expired. The new approval has an id of its own.",
		Example:           "  pml approvals renew 41d2e07b",
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeApprovals,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, id, err := a.openApproval(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			p, err := b.Renew(cmd.Context(), id, a.actor())
			if err != nil {
				return err
			}
			return a.printApproval(p)
		},
	}
}
