package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) auditCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:     "audit",
		Short:   "Who decided what, and when",
		Long:    "Reads the audit log of decisions. Each line is chained to the one before by a hash, so that a change shows.",
		Example: "  pml audit ls\n  pml audit export > decisions.jsonl\n  pml audit verify",
	}, a.auditLsCmd(), a.auditExportCmd(), a.auditVerifyCmd())
}

func (a *app) auditLsCmd() *cobra.Command {
	var after int64
	var limit int
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List decisions in their order",
		Long:    "Lists decisions in their order, after a sequence number.",
		Example: "  pml audit ls --limit 20\n  pml audit ls --after 120 -o wide",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit <= 0 || after < 0 {
				return usagef("--limit must be above 0 and --after not below it")
			}
			return a.listAudit(cmd.Context(), after, limit)
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only lines after this sequence number")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this many")
	return cmd
}

func (a *app) listAudit(ctx context.Context, after int64, limit int) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	rows, err := b.Audit(ctx, after, limit)
	if err != nil {
		return err
	}
	page := api.Page[core.AuditRow]{Items: rows}
	if len(rows) == limit {
		page.Next = strconv.FormatInt(rows[len(rows)-1].Seq, 10)
	}
	next := page.Next
	if a.human() {
		page.Next = ""
	}
	err = printList(a, page, "no decisions yet", []column[core.AuditRow]{
		{title: "SEQ", get: func(r core.AuditRow) string { return strconv.FormatInt(r.Seq, 10) }},
		{title: "AT", get: func(r core.AuditRow) string { return stamp(r.At) }},
		{title: "OUTCOME", get: func(r core.AuditRow) string { return string(r.Outcome) }},
		{title: "TYPE", get: func(r core.AuditRow) string { return string(r.Type) }},
		{title: "BY", get: func(r core.AuditRow) string { return r.By.Who + "/" + string(r.By.Via) }},
		{title: "WORKFLOW", get: func(r core.AuditRow) string { return r.RunID.Short() }},
		{title: "TOOL", get: func(r core.AuditRow) string { return r.Tool }},
		{title: "REASON", get: func(r core.AuditRow) string { return r.Reason }},
		{title: "DIGEST", wide: true, get: func(r core.AuditRow) string { return r.Digest }},
		{title: "HASH", wide: true, get: func(r core.AuditRow) string { return r.Hash }},
	})
	if err == nil && next != "" {
		a.note("more: add --after %s", next)
	}
	return err
}

func (a *app) auditExportCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "export",
		Short:   "Print the whole log, one JSON object a line",
		Long:    "Prints every line of the audit log as JSON, one object a line, hashes included, whatever the output format.",
		Example: "  pml audit export > decisions.jsonl",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			for after := int64(0); ; {
				rows, err := b.Audit(cmd.Context(), after, 1000)
				if err != nil || len(rows) == 0 {
					return err
				}
				for _, r := range rows {
					if err := a.encode(r, formatJSONL); err != nil {
						return err
					}
				}
				after = rows[len(rows)-1].Seq
			}
		},
	}
}

func (a *app) auditVerifyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "verify",
		Short:   "Check that no line was changed, added or taken out",
		Long:    "Recomputes the chain of hashes. A log that does not hold ends with exit code 1.",
		Example: "  pml audit verify && echo untouched",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			r, err := b.VerifyAudit(cmd.Context())
			if err != nil {
				return err
			}
			err = a.print(r, func(w *strings.Builder) {
				if r.OK {
					fmt.Fprintf(w, "ok: %d lines\n", r.Rows)
					return
				}
				fmt.Fprintf(w, "broken at line %d: %s\n", r.Bad, core.Visible(r.Reason, 0, false))
			})
			if err == nil && !r.OK {
				return exitStatus(exitFailed)
			}
			return err
		},
	}
}
