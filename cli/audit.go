package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/page"
)

func auditCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "audit",
		Short: "Who decided what, and when",
		Long: `Reads the audit log of decisions. Each line is chained to the one before by a
hash, so that a change shows.`,
		Example: "  pml audit ls --since 7d --args\n  pml audit export > decisions.jsonl\n  pml audit verify",
	}, auditLsCmd(a), auditExportCmd(a), auditVerifyCmd(a))
}

// auditFilter are the flags that say which lines are wanted: those of ls and of export.
type auditFilter struct {
	since, until                                 string
	by, tool, outcome, kind, workspace, approval string
	args                                         bool
}

// auditOptions are the flags of audit ls.
type auditOptions struct {
	auditFilter
	before string
	oldest bool
	limit  int
}

func auditLsCmd(a *app.App) *cobra.Command {
	var o auditOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List decisions, newest first",
		Long: `Lists decisions and refused attempts, newest first, from the log of this machine
and from that of the server. Each log numbers its own lines.

--since and --until take how long ago (30m, 12h, 7d, 2w), a day (2026-11-20) or a
moment (2026-11-20T15:04:05Z); of a day --until means all of it. --since also
takes the number of a line, and skips lines up to and including it:
client:12,server:340, or one number if there is no server. A line with ×N stands
for N refused attempts. SIDE says whose log a line is in: client is this machine,
server the server that keeps runs in the background.

A call that a rule or a permission for the whole run lets on has no line of its own;
pml workflows show ID --json has every call with its arguments. For programs that
keep the lines: pml audit export.`,
		Example: "  pml audit ls --since 7d\n  pml audit ls --since 7d --by agent --outcome approved --args\n" +
			"  pml audit ls --tool write_file --workspace .\n  pml audit ls --oldest --since client:120,server:7 --json",
		Args: app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("since") && cmd.Flags().Changed("after") {
				return app.Usagef("--after is another word for --since: give one of the two")
			}
			q, err := o.query(a.Now())
			if err != nil {
				return err
			}
			return listAudit(cmd.Context(), a, q, o.args)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.since, "after", "", "the same as --since")
	_ = f.MarkHidden("after") // as it was called before
	f.StringVar(&o.before, "before", "", "only lines with a lower number: client:N,server:N")
	f.BoolVar(&o.oldest, "oldest", false, "oldest first")
	f.IntVar(&o.limit, "limit", 100, "at most this many")
	_ = cmd.RegisterFlagCompletionFunc("before", cobra.NoFileCompletions)
	return cmd
}

func (o *auditFilter) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "only later lines: how long ago, a day, or a line's number")
	f.StringVar(&o.until, "until", "", "only earlier lines: how long ago, a day or a moment")
	f.StringVar(&o.by, "by", "", "a part of who decided: user, way (cli, mcp, …) or agent")
	f.StringVar(&o.tool, "tool", "", "a part of the name of the tool or server; finds also rules written or removed for it")
	f.StringVar(&o.outcome, "outcome", "", strings.Join(core.AuditOutcomes, ", "))
	f.StringVar(&o.kind, "type", "", "the type of approval, as in tool_permission; rule: rules written or removed; change: all changes of files")
	f.StringVar(&o.workspace, "workspace", "", "a folder with all below it, or the last name of one")
	f.StringVar(&o.approval, "approval", "", "an approval's id, or the first characters of it")
	f.BoolVar(&o.args, "args", false, "show the arguments that were decided about, the path first")
	_ = cmd.RegisterFlagCompletionFunc("outcome", app.CompleteFixed(core.AuditOutcomes...))
	_ = cmd.RegisterFlagCompletionFunc("type", app.CompleteFixed(core.AuditTypes...))
	for _, name := range []string{"since", "until", "by", "tool", "approval"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// query is what the flags ask for.
func (o auditOptions) query(now time.Time) (api.AuditQuery, error) {
	if o.limit <= 0 {
		return api.AuditQuery{}, app.Usagef("--limit must be above 0")
	}
	q, err := o.auditFilter.query(now)
	if err != nil {
		return q, err
	}
	if q.Before, err = app.ParseNumbers(cmp.Or(o.before, "0")); err != nil {
		return q, app.Usagef("--before %q is neither the number of a line nor client:N,server:N", core.Visible(o.before, 80, false))
	}
	q.Newest, q.Limit = !o.oldest, o.limit
	return q, nil
}

// query is what the flags that ls and export share ask for.
func (o auditFilter) query(now time.Time) (q api.AuditQuery, err error) {
	q.Args = o.args
	since := o.since
	if numbers, err := app.ParseNumbers(cmp.Or(since, "0")); err == nil {
		q.Since, since = numbers, ""
	}
	dir := o.workspace
	if strings.ContainsAny(dir, `./\`) {
		if dir, err = filepath.Abs(dir); err != nil {
			return q, app.Usagef("--workspace %s: %v", core.Visible(o.workspace, 200, false), err)
		}
	}
	for _, set := range [][2]string{
		{"since", since}, {"until", o.until}, {"by", o.by}, {"tool", o.tool}, {"outcome", o.outcome}, {"type", o.kind}, {"workspace", dir}, {"approval", o.approval},
	} {
		if set[1] == "" {
			continue
		}
		if err := q.Set(set[0], set[1], now); err != nil {
			return q, app.Usagef("--%s: %s", set[0], core.AsError(err).Message)
		}
	}
	return q, nil
}

// isFiltered reports whether a query leaves lines out by what they say or by their number.
func isFiltered(q api.AuditQuery) bool {
	return q.AuditFilter != (core.AuditFilter{}) || q.Since != (api.Since{})
}

func listAudit(ctx context.Context, a *app.App, q api.AuditQuery, args bool) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	rows, err := b.Audit(ctx, q)
	if err != nil {
		return err
	}
	page := api.Page[core.AuditRow]{Items: rows}
	flag, from := "--before", q.Before
	if !q.Newest {
		flag, from = "--since", q.Since
	}
	if len(rows) == q.Limit {
		page.Next = sinceText(pastRows(from, rows))
	}
	next := page.Next
	if a.Human() {
		page.Next = ""
	}
	empty := "no decisions yet"
	if isFiltered(q) {
		empty = "no decision is like that"
	}
	err = app.PrintList(a, page, empty, auditColumns(newAuditRows(ctx, a, b, rows), args))
	if err == nil && next != "" {
		a.Note("more: add %s %s", flag, next)
	}
	return err
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
	var o auditFilter
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the log, one JSON object a line",
		Long: `Prints the lines of the audit logs of this machine and of the server as JSON, one
object a line, oldest first, hashes included, whatever the output format. Lines
with the same side are one chain, in which each line has the hash of the one before.

The filters are those of pml audit ls, which prints a table. With one of them lines
of the chain are left out, so that only pml audit verify on this machine can check
those that are printed. --args adds what was decided about; no hash covers it.`,
		Example: "  pml audit export > decisions.jsonl\n  pml audit export --since 30d --tool fs:write_file --args > writes.jsonl",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := o.query(a.Now())
			if err != nil {
				return err
			}
			return exportAudit(cmd.Context(), a, q)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func exportAudit(ctx context.Context, a *app.App, q api.AuditQuery) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	if isFiltered(q) {
		a.Note("note: the chain of hashes cannot be checked on what a filter leaves; pml audit verify checks the whole log")
	}
	for q.Limit = 1000; ; {
		rows, err := b.Audit(ctx, q)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			if err := a.Encode(r, app.FormatJSONL); err != nil {
				return err
			}
		}
		q.Since = pastRows(q.Since, rows)
	}
}

func auditVerifyCmd(a *app.App) *cobra.Command {
	var export string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that no line was changed, added or taken out",
		Long: `Recomputes the chain of hashes of this machine's log and of the server's. One
that does not hold, or that cannot be checked, ends with exit code 1.

--export checks a page that pml workflows export --html has written, too: whether it
shows just the lines about its run that the log had when it was made. All else that it
says (state, calls, arguments, results) is not in the log, and is not checked.`,
		Example: "  pml audit verify && echo untouched\n  pml audit verify --export run.html",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("export") {
				return verifyExport(cmd.Context(), a, export)
			}
			return verifyLog(cmd.Context(), a)
		},
	}
	cmd.Flags().StringVar(&export, "export", "", "compare a page of a run with the log")
	return cmd
}

func verifyLog(ctx context.Context, a *app.App) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
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
}

// verifyExport says whether the page of a run shows what the audit log has.
func verifyExport(ctx context.Context, a *app.App, file string) error {
	data, err := a.ReadUpTo(ctx, file, page.MaxExport)
	if err != nil {
		return err
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	v, err := page.Verify(ctx, b, data)
	if err != nil {
		return err
	}
	err = a.Print(v, func(w *strings.Builder) {
		if !v.OK {
			fmt.Fprintf(w, "not verified: %s\n", core.Visible(v.Reason, 0, false))
			return
		}
		fmt.Fprintf(w, "ok: run %s, %s as in the audit log\n", v.WorkflowID.Short(), layout.Plural(v.Decisions, "line"))
		if n := len(v.Later); n > 0 {
			fmt.Fprintf(w, "%s about the run came later, from %d on: export it again to have them\n", layout.Plural(n, "line"), v.Later[0])
		}
	})
	if err == nil && !v.OK {
		return app.ExitStatus(app.ExitFailed)
	}
	return err
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
