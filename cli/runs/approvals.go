package runs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// ApprovalsCmd is pml approvals.
func ApprovalsCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "approvals",
		Aliases: []string{"approval"},
		Short:   "What waits for a decision",
		Long:    "Lists and shows what waits for a decision, and keeps it from expiring.",
		Example: "  pml approvals ls\n  pml approvals show 41d2\n  pml continue 41d2 --approve",
	}, approvalsLsCmd(a), approvalsShowCmd(a), approvalsExtendCmd(a), approvalsRenewCmd(a))
}

func approvalsLsCmd(a *app.App) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List what waits, soonest expiry first",
		Long: `Lists the approvals that wait for a decision, soonest expiry first. One whose time is
over (approvals.ttl) still waits where its run does: pml first checks that the question
is the same when it is decided. --all lists also those that are decided or not asked any
more, newest first.`,
		Example: "  pml approvals ls\n  pml approvals ls --all -o wide\n  pml approvals ls --json | jq -r '.items[].checkpoint_id'",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			return listApprovals(ctx, a, b, all)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are decided or not asked any more")
	return cmd
}

func listApprovals(ctx context.Context, a *app.App, b app.Backend, all bool) error {
	list, err := openNow(ctx, a, b)
	if all {
		list, err = b.Approvals(ctx, true)
	}
	if err != nil {
		return err
	}
	order := soonest
	if all { // most of them do not wait any more
		order = func(x, y core.Approval) int { return y.CreatedAt.Compare(x.CreatedAt) }
	}
	slices.SortStableFunc(list, order)
	return app.PrintList(a, api.Page[core.Approval]{Items: list}, "nothing waits for a decision", []app.Column[core.Approval]{
		{Title: "APPROVAL", Get: func(p core.Approval) string { return p.ID.Short() }, Style: app.Always[core.Approval](layout.Ident)},
		{Title: "RISK", Get: func(p core.Approval) string { return string(p.Risk) }, Style: func(p core.Approval) layout.Style { return layout.StyleOf(string(p.Risk)) }},
		{Title: "EXPIRES", Get: func(p core.Approval) string { return layout.Left(a.Now(), p.ExpiresAt) }},
		{Title: "NAME", Flex: true, Get: func(p core.Approval) string { return p.RunName }},
		{Title: "WHAT", Flex: true, Get: whatOf}, // behind NAME, which is cut first
		{Title: "RUN", Drop: 2, Get: func(p core.Approval) string { return p.RunID.Short() }},
		{Title: "TYPE", Drop: 3, Get: func(p core.Approval) string { return string(p.Type) }},
		{Title: "STATE", Drop: 4, Get: func(p core.Approval) string { return string(p.StateAt(a.Now())) }, Style: func(p core.Approval) layout.Style { return layout.StyleOf(string(p.StateAt(a.Now()))) }},
		{Title: "TOOL", Drop: 5, Get: func(p core.Approval) string { return p.Tool }},
		{Title: "DIGEST", Wide: true, Get: func(p core.Approval) string { return p.Digest }},
		{Title: "BY", Wide: true, Get: func(p core.Approval) string { return p.RequestedBy.Label() }},
		{Title: "SIDE", Wide: true, Get: func(p core.Approval) string { return string(p.Side) }},
		{Title: "WORKSPACE", Wide: true, Get: func(p core.Approval) string { return p.Workspace }},
		{Title: "DESCRIPTION", Wide: true, Get: func(p core.Approval) string { return p.Description }},
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

// approvalCmd is a command about one approval.
func approvalCmd(a *app.App, c *cobra.Command, do func(ctx context.Context, b app.Backend, id core.ID) error) *cobra.Command {
	c.Args = app.ExactArgs("ID")
	c.ValidArgsFunction = completeApprovals(a)
	c.RunE = a.With(func(ctx context.Context, b app.Backend, args []string) error {
		id, err := approvalID(ctx, a, b, args[0])
		if err != nil {
			return err
		}
		return do(ctx, b, id)
	})
	return c
}

func approvalsShowCmd(a *app.App) *cobra.Command {
	return approvalCmd(a, &cobra.Command{
		Use:     "show ID",
		Short:   "Show all that an approval asks",
		Long:    "Shows an approval in full: what would run or be called, hashes, risk, expiry and, once decided, by whom.",
		Example: "  pml approvals show 41d2e07b",
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		p, err := b.Approval(ctx, id)
		if err != nil {
			return err
		}
		return printApproval(a, p)
	})
}

func printApproval(a *app.App, p core.Approval) error {
	return a.Print(p, func(w *strings.Builder) {
		text := card(a, view.Approval(p, 1, 1, a.Now()))
		if p.StateAt(a.Now()) != core.ApprovalOpen {
			text = strings.Replace(text, "approval required: ", "approval: ", 1)
		}
		w.WriteString(text)
	})
}

// approvalID finds an approval by its id or a prefix, or by a run that waits
// for exactly one; where none is open, one that expired will do.
func approvalID(ctx context.Context, a *app.App, b app.Backend, text string) (core.ID, error) {
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
	found := slices.DeleteFunc(slices.Clone(list), func(p core.Approval) bool { return p.StateAt(a.Now()) != core.ApprovalOpen })
	verb := "waits for"
	if len(found) == 0 {
		found, verb = unanswered(list, a.Now()), "has let expire"
	}
	switch len(found) {
	case 0:
		return "", core.Errorf(core.CodeNotWaiting, "run %s waits for no approval", run.Short()).WithRun(run)
	case 1:
		return found[0].ID, nil
	}
	var short []string
	for _, p := range found {
		short = append(short, p.ID.Short())
	}
	return "", app.Usagef("run %s %s %d approvals; name one: %s", run.Short(), verb, len(found), strings.Join(short, ", "))
}

func approvalsExtendCmd(a *app.App) *cobra.Command {
	var by time.Duration
	cmd := approvalCmd(a, &cobra.Command{
		Use:     "extend ID",
		Short:   "Give an approval more time",
		Long:    "Moves the expiry of an approval that still waits.",
		Example: "  pml approvals extend 41d2e07b --by 30m",
		PreRunE: func(*cobra.Command, []string) error {
			if by <= 0 {
				return app.Usagef("--by %s is not more time", by)
			}
			return nil
		},
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		p, err := b.Extend(ctx, id, by)
		if err != nil {
			return err
		}
		return a.Print(p, app.Line("approval %s expires %s", p.ID.Short(), layout.In(a.Now(), p.ExpiresAt)))
	})
	cmd.Flags().DurationVar(&by, "by", 5*time.Minute, "how much more")
	return cmd
}

func approvalsRenewCmd(a *app.App) *cobra.Command {
	return approvalCmd(a, &cobra.Command{
		Use:   "renew ID",
		Short: "Ask again for what expired",
		Long: `Asks again for an approval that expired. The new approval has an id of its own. One that
is open, or was asked again already, is only shown.`,
		Example: "  pml approvals renew 41d2e07b",
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		before, err := b.Approval(ctx, id)
		if err != nil {
			return err
		}
		p, err := b.Renew(ctx, id, a.Actor())
		if err != nil {
			return err
		}
		switch p.ID {
		case id:
			a.Note("note: %s is open already; nothing was asked again", id.Short())
		case before.RenewedBy:
			a.Note("note: %s was asked again already, as %s; nothing was asked again", id.Short(), p.ID.Short())
		}
		return printApproval(a, p)
	})
}
