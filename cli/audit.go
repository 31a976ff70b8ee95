package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func auditCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "audit",
		Short:   "Who decided what, and when",
		Long:    "Reads the audit log of decisions. Each line is chained to the one before by a hash, so that a change shows.",
		Example: "  pml audit ls\n  pml audit export > decisions.jsonl\n  pml audit verify",
	}, auditLsCmd(a), auditExportCmd(a), auditVerifyCmd(a))
}

func auditLsCmd(a *app.App) *cobra.Command {
	var since string
	var limit int
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List decisions in their order",
		Long: `Lists decisions and refused attempts in order, from the log of this machine and
from that of the server. Each log numbers its own lines.

--since skips lines up to and including the one you name: client:12,server:340, or
one number if there is no server. A line with ×N stands for N refused attempts.`,
		Example: "  pml audit ls --limit 20\n  pml audit ls --since client:120,server:7 -o wide",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit <= 0 {
				return app.Usagef("--limit must be above 0")
			}
			if cmd.Flags().Changed("since") && cmd.Flags().Changed("after") {
				return app.Usagef("--after is another word for --since: give one of the two")
			}
			after, err := app.ParseNumbers(since)
			if err != nil {
				return err
			}
			return listAudit(cmd.Context(), a, after, limit)
		},
	}
	cmd.Flags().StringVar(&since, "since", "0", "only lines after this one: its number, or client:N,server:N")
	cmd.Flags().StringVar(&since, "after", "0", "the same as --since")
	_ = cmd.Flags().MarkHidden("after") // as it was called before
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this many")
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions)
	return cmd
}

func listAudit(ctx context.Context, a *app.App, since api.Since, limit int) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	rows, err := b.Audit(ctx, since, limit)
	if err != nil {
		return err
	}
	page := api.Page[core.AuditRow]{Items: rows}
	if len(rows) == limit {
		page.Next = sinceText(pastRows(since, rows))
	}
	next := page.Next
	if a.Human() {
		page.Next = ""
	}
	err = app.PrintList(a, page, "no decisions yet", []app.Column[core.AuditRow]{
		{Title: "SIDE", Get: func(r core.AuditRow) string { return string(r.Side) }},
		{Title: "SEQ", Get: func(r core.AuditRow) string { return strconv.FormatInt(r.Seq, 10) }},
		{Title: "AT", Get: func(r core.AuditRow) string { return layout.Stamp(r.At) }},
		{Title: "OUTCOME", Get: outcomeText},
		{Title: "TYPE", Get: func(r core.AuditRow) string { return string(r.Type) }},
		{Title: "BY", Get: func(r core.AuditRow) string { return r.By.Label() }},
		{Title: "WORKFLOW", Get: func(r core.AuditRow) string { return r.RunID.Short() }},
		{Title: "TOOL", Get: func(r core.AuditRow) string { return r.Tool }},
		{Title: "REASON", Get: func(r core.AuditRow) string { return r.Reason }},
		{Title: "DIGEST", Wide: true, Get: func(r core.AuditRow) string { return r.Digest }},
		{Title: "HASH", Wide: true, Get: func(r core.AuditRow) string { return r.Hash }},
	})
	if err == nil && next != "" {
		a.Note("more: add --since %s", next)
	}
	return err
}

// outcomeText is the outcome of a row, and how many attempts it stands for.
func outcomeText(r core.AuditRow) string {
	if r.Count > 1 {
		return fmt.Sprintf("%s ×%d", r.Outcome, r.Count)
	}
	return string(r.Outcome)
}

// pastRows is since with rows left out that were listed.
func pastRows(since api.Since, rows []core.AuditRow) api.Since {
	for _, r := range rows {
		since = since.Past(r.Side, r.Seq)
	}
	return since
}

// sinceText is since as --since takes it.
func sinceText(s api.Since) string {
	text := "client:" + strconv.FormatInt(s.Of(core.SideClient), 10)
	if n := s.Of(core.SideServer); n > 0 {
		text += ",server:" + strconv.FormatInt(n, 10)
	}
	return text
}

func auditExportCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "export",
		Short:   "Print the whole log, one JSON object a line",
		Long:    "Prints every line of the audit logs of this machine and of the server as JSON, one object a line, hashes included, whatever the output format. Lines with the same side are one chain.",
		Example: "  pml audit export > decisions.jsonl",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			for since := (api.Since{}); ; {
				rows, err := b.Audit(ctx, since, 1000)
				if err != nil || len(rows) == 0 {
					return err
				}
				for _, r := range rows {
					if err := a.Encode(r, app.FormatJSONL); err != nil {
						return err
					}
				}
				since = pastRows(since, rows)
			}
		}),
	}
}

func auditVerifyCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "verify",
		Short:   "Check that no line was changed, added or taken out",
		Long:    "Recomputes the chain of hashes of this machine's log and of the server's. One that does not hold, or that cannot be checked, ends with exit code 1.",
		Example: "  pml audit verify && echo untouched",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			r, err := b.VerifyAudit(ctx)
			if err != nil {
				return err
			}
			err = a.Print(r, func(w *strings.Builder) {
				for _, log := range r.Logs {
					writeReport(w, log)
				}
				if len(r.Logs) == 0 {
					writeReport(w, r)
				}
			})
			if err == nil && !r.OK {
				return app.ExitStatus(app.ExitFailed)
			}
			return err
		}),
	}
}

// writeReport says how one log is.
func writeReport(w *strings.Builder, r api.AuditReport) {
	side := ""
	if r.Side != "" {
		side = string(r.Side) + ": "
	}
	switch {
	case r.OK:
		fmt.Fprintf(w, "%sok: %d lines\n", side, r.Rows)
	case r.Bad == 0:
		fmt.Fprintf(w, "%s%s\n", side, core.Visible(r.Reason, 0, false))
	default:
		fmt.Fprintf(w, "%sbroken at line %d: %s\n", side, r.Bad, core.Visible(r.Reason, 0, false))
	}
}
