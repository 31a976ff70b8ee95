package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
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

// auditOptions are the flags of audit ls.
type auditOptions struct {
	since, until, before                         string
	by, tool, outcome, kind, workspace, approval string
	oldest, args                                 bool
	limit                                        int
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
for N refused attempts.

A call that a rule or a permission for the whole run lets on has no line of its own;
pml workflows show ID --json has every call with its arguments.`,
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
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "only later lines: how long ago, a day, or a line's number")
	f.StringVar(&o.since, "after", "", "the same as --since")
	_ = f.MarkHidden("after") // as it was called before
	f.StringVar(&o.until, "until", "", "only earlier lines: how long ago, a day or a moment")
	f.StringVar(&o.before, "before", "", "only lines with a lower number: client:N,server:N")
	f.StringVar(&o.by, "by", "", "a part of who decided: user, way (cli, mcp, …) or agent")
	f.StringVar(&o.tool, "tool", "", "a part of the name of the tool or server; finds also rules written or removed for it")
	f.StringVar(&o.outcome, "outcome", "", strings.Join(core.AuditOutcomes, ", "))
	f.StringVar(&o.kind, "type", "", "the type of approval, as in tool_permission; rule: rules written or removed; change: all changes of files")
	f.StringVar(&o.workspace, "workspace", "", "a folder with all below it, or the last name of one")
	f.StringVar(&o.approval, "approval", "", "an approval's id, or the first characters of it")
	f.BoolVar(&o.args, "args", false, "show the arguments that were decided about, the path first")
	f.BoolVar(&o.oldest, "oldest", false, "oldest first")
	f.IntVar(&o.limit, "limit", 100, "at most this many")
	_ = cmd.RegisterFlagCompletionFunc("outcome", app.CompleteFixed(core.AuditOutcomes...))
	_ = cmd.RegisterFlagCompletionFunc("type", app.CompleteFixed(core.AuditTypes...))
	for _, name := range []string{"since", "until", "before", "by", "tool", "approval"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// query is what the flags ask for.
func (o auditOptions) query(now time.Time) (api.AuditQuery, error) {
	q := api.AuditQuery{Newest: !o.oldest, Limit: o.limit, Args: o.args}
	if o.limit <= 0 {
		return q, app.Usagef("--limit must be above 0")
	}
	since := o.since
	if numbers, err := app.ParseNumbers(cmp.Or(since, "0")); err == nil {
		q.Since, since = numbers, ""
	}
	var err error
	if q.Before, err = app.ParseNumbers(cmp.Or(o.before, "0")); err != nil {
		return q, app.Usagef("--before %q is neither the number of a line nor client:N,server:N", core.Visible(o.before, 80, false))
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
	if q.AuditFilter != (core.AuditFilter{}) || q.Since != (api.Since{}) {
		empty = "no decision is like that"
	}
	err = app.PrintList(a, page, empty, auditColumns(a, args))
	if err == nil && next != "" {
		a.Note("more: add %s %s", flag, next)
	}
	return err
}

// auditColumns: one line for each row, in which what was decided, by whom and about what
// is never cut at 80 columns; why takes the place that is left.
func auditColumns(a *app.App, args bool) []app.Column[core.AuditRow] {
	when := func(r core.AuditRow) string { return layout.Stamp(r.At) }
	if a.StdoutTTY {
		when = func(r core.AuditRow) string { return layout.When(a.Now(), r.At) }
	}
	outcome := func(r core.AuditRow) layout.Style { return layout.StyleOf(core.ShownOutcome(r)) }
	cols := []app.Column[core.AuditRow]{
		{Title: "WHAT", Get: func(r core.AuditRow) string { return auditWhat(a, r) }},
		{Title: "OUTCOME", Get: outcomeText, Style: outcome},
		{Title: "BY", Get: func(r core.AuditRow) string { return r.By.Label() }},
		{Title: "AT", Get: when, Style: app.Always[core.AuditRow](layout.Dim)},
		{Title: "APPROVAL", Drop: 1, Get: func(r core.AuditRow) string { return r.ApprovalID.Short() }, Style: app.Always[core.AuditRow](layout.Ident)},
		{Title: "NAME", Drop: 2, Get: func(r core.AuditRow) string { return r.RunName }},
		{Title: "TYPE", Drop: 3, Get: func(r core.AuditRow) string { return string(r.Type) }},
		{Title: "RUN", Drop: 4, Get: func(r core.AuditRow) string { return r.RunID.Short() }},
		{Title: "SEQ", Drop: 5, Get: func(r core.AuditRow) string { return strconv.FormatInt(r.Seq, 10) }},
		{Title: "SIDE", Drop: 6, Get: func(r core.AuditRow) string { return string(r.Side) }},
		{Title: "WORKSPACE", Wide: true, Get: func(r core.AuditRow) string { return r.Workspace }},
		{Title: "ASKED", Wide: true, Get: func(r core.AuditRow) string { return string(r.Asked) }},
		{Title: "DIGEST", Wide: true, Get: func(r core.AuditRow) string { return r.Digest }},
		{Title: "HASH", Wide: true, Get: func(r core.AuditRow) string { return r.Hash }},
	}
	if args {
		cols = append(cols, app.Column[core.AuditRow]{Title: "ARGUMENTS", Below: 1, Get: func(r core.AuditRow) string {
			text := layout.Arguments(r.Arguments, 200)
			if len(r.Sent) > 0 {
				text += ", changed to " + layout.Arguments(r.Sent, 200)
			}
			return text
		}})
	}
	return append(cols, app.Column[core.AuditRow]{Title: "REASON", Rest: true, Get: func(r core.AuditRow) string { return auditReason(a, r) }})
}

// auditWhat is what a row is about: a tool or server, on a terminal with what was to be done with
// a server. What a decision about none of them
// was about is in its reason, of which a terminal shows the beginning, and of a path its
// last name.
func auditWhat(a *app.App, r core.AuditRow) string {
	if kind := approval.TypeOf(r.Type); a.StdoutTTY && r.Tool != "" && r.Type != "" && !kind.PerCall {
		return r.Tool + " (" + kind.Words + ")"
	}
	if r.Tool != "" || !a.StdoutTTY {
		return cmp.Or(r.Tool, r.Reason)
	}
	words := strings.Fields(r.Reason)
	for i, w := range words {
		if _, name := path.Split(w); len(w) > auditPath && name != "" && name != w {
			words[i] = "…/" + name
		}
	}
	return core.OneLine(strings.Join(words, " "), auditWords)
}

const (
	auditPath  = 16 // a path that is longer is its last name alone
	auditWords = 30
)

// auditReason is why, and the rule that the decision wrote.
func auditReason(a *app.App, r core.AuditRow) string {
	reason := core.ShownReason(r)
	if auditWhat(a, r) == reason {
		reason = ""
	}
	parts := slices.DeleteFunc([]string{rememberedText(r), reason}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// rememberedText says what a decision was to allow from then on. An older pml has not
// written the rule into the reason.
func rememberedText(r core.AuditRow) string {
	switch r.Remember {
	case core.RememberRule:
		if rule := "allow " + r.Tool; r.Reason != rule && !strings.HasPrefix(r.Reason, rule+": ") {
			return rule
		}
	case core.RememberRun, core.RememberSession:
		return "allow for this " + string(r.Remember)
	}
	if r.Shape != "" && r.Reason == "" {
		return "calls within bounds: pml approvals show " + r.ApprovalID.Short()
	}
	return ""
}

// outcomeText is the outcome of a row, and how many attempts it stands for.
func outcomeText(r core.AuditRow) string {
	if r.Count > 1 {
		return fmt.Sprintf("%s ×%d", core.ShownOutcome(r), r.Count)
	}
	return core.ShownOutcome(r)
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
		Use:   "export",
		Short: "Print the whole log, one JSON object a line",
		Long: `Prints every line of the audit logs of this machine and of the server as JSON,
one object a line, hashes included, whatever the output format. Lines with the
same side are one chain.`,
		Example: "  pml audit export > decisions.jsonl",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			for since := (api.Since{}); ; {
				rows, err := b.Audit(ctx, api.AuditQuery{Since: since, Limit: 1000})
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
