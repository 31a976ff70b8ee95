package runs

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
)

// The words of a decision.
const (
	verbApprove = "approve"
	verbDeny    = "deny"
)

// ApproveCmd is pml approve.
func ApproveCmd(a *app.App) *cobra.Command {
	o := continueOptions{approve: true}
	cmd := decisionCmd(a, &o, verbApprove, &cobra.Command{
		Use:   "approve [ID]",
		Short: "Approve what waits: one approval, or all of them one after another",
		Long: `Approves what an ID names, a run or an approval, and goes on with the run: the
same as "pml continue ID --approve". Without an ID it shows what waits, one
after another, and asks about each; Ctrl-D ends it. What asks the same of one
run is shown as one list and decided together or one by one. Where a run waits
for several approvals, its ID asks about each, and --all decides all of them.

--edit, or e at the question, opens the arguments of a call in $EDITOR, and
--arguments takes them from a file: they are checked against the tool, judged
anew and shown again with what changed. What you approve then is sent, for this
call only; the script sees its result, and the audit log has both.

--shape approves a loop: the calls that the same place of the script makes in
this run, as many as --max, with the arguments that the bounds let them have.
What is the same in all calls that wait stays so; what differs is free, and so
is what the script computes, also where one call waits: --fix and --match narrow
that, --free widens it, and --until sets an end. The bounds are shown before they
count. A call outside of them is asked about as before.

` + seenHelp,
		Example: `  pml approve
  pml approve 41d2e07b
  pml approve 41d2e07b --edit
  pml approve 41d2e07b --shape --max 40
  pml approve 7f3a91c2 --all
  pml approve 7f3a91c2 --remember run
  pml approve 41d2e07b --expect-digest sha256:9f04… --json`,
	})
	o.addYes(cmd)
	return cmd
}

// DenyCmd is pml deny.
func DenyCmd(a *app.App) *cobra.Command {
	o := continueOptions{deny: true}
	cmd := decisionCmd(a, &o, verbDeny, &cobra.Command{
		Use:   "deny [ID]",
		Short: "Deny what waits: one approval, or all of them one after another",
		Long: `Denies what an ID names, a run or an approval: the call is rejected and the run
goes on without it; with --abort the run ends. It is the same as
"pml continue ID --deny". Without an ID it shows what waits, one after another,
and asks about each; Ctrl-D ends it. Where a run waits for several approvals,
its ID asks about each, and --all denies all of them.

What is denied is shown first; one approval is denied without a question. --yes
leaves out the question about each of several, and denies the first of them.
Without a terminal it goes to stderr, and @latest denies nothing.`,
		Example: `  pml deny
  pml deny 41d2e07b --reason "wrong folder"
  pml deny 7f3a91c2 --abort`,
	})
	o.addNo(cmd)
	cmd.Flags().BoolVar(&o.extras.yes, "yes", false, "show what is denied, and do not ask")
	return cmd
}

// decisionCmd is a command that decides what an ID names, and without one all that
// waits.
func decisionCmd(a *app.App, o *continueOptions, verb string, cmd *cobra.Command) *cobra.Command {
	cmd.Args = app.MaxArgs(1)
	cmd.ValidArgsFunction = completeApprovals(a)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.id = args[0]
			return o.run(cmd, a)
		}
		if alone := needID(cmd); len(alone) > 0 {
			return app.Usagef("%s needs the ID of a run or an approval: pml %s ID; without any of that, pml %s walks through all that wait, alike ones together", strings.Join(alone, " and "), verb, verb).
				WithNext("pml", verb)
		}
		return inbox(cmd.Context(), a, verb, o.reason)
	}
	o.addWhich(a, cmd)
	return cmd
}

// needID are the flags of a command line that speak of one approval.
func needID(cmd *cobra.Command) (names []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "reason" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}
