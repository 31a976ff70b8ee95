package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func permissionsCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "permissions",
		Aliases: []string{"permission", "rules"},
		Short:   "The rules that say which tools may be called",
		Long: `Lists the rules of permissions, writes and removes them, tries one on past calls
before it is written, and proposes rules from what people have approved.

A rule is a pattern on server:tool, or an object with a condition on the call:
{"tool": "fs:write_file", "where": "under(args.path, 'docs')"}
"pml help conditions" says what a condition may be.`,
		Example: "  pml permissions ls\n  pml permissions allow fs:write_file --where \"under(args.path, 'docs')\"\n" +
			"  pml permissions test --list allow \\\n    --rule '{\"tool\": \"fs:write_file\", \"where\": \"under(args.path, \\\"docs\\\")\"}'\n  pml permissions suggest --since 30d",
	}, permissionsLsCmd(a), permissionsAllowCmd(a),
		permissionsTightenCmd(a, "ask", "Write a rule that asks about calls", "Writes a rule that asks about the calls of a pattern on server:tool, unless a more\nspecific one allows them."),
		permissionsTightenCmd(a, "deny", "Write a rule that denies calls", "Writes a rule that denies the calls of a pattern on server:tool, whatever else\nallows them."),
		permissionsRmCmd(a), permissionsTestCmd(a), permissionsSuggestCmd(a))
}

func permissionsLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the rules that are in effect",
		Long: `Lists the rules of the home and of this workspace. Those that allow are left out
while the workspace is not trusted.`,
		Example: "  pml permissions ls",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			rules, err := b.Rules(ctx)
			if err != nil {
				return err
			}
			if t, err := b.Trust(ctx); err == nil && !t.Trusted && !t.Empty {
				a.Note("nobody has trusted this workspace's files as they are: what they allow is left out; next: pml trust")
			}
			return app.PrintList(a, api.Page[api.PermissionRule]{Items: rules}, "no rules: every call asks, but for tools that only read where readonly is allow", []app.Column[api.PermissionRule]{
				{Title: "LIST", Get: func(r api.PermissionRule) string { return r.List }},
				{Title: "TOOL", Get: func(r api.PermissionRule) string { return r.Tool }},
				{Title: "WHERE", Below: 1, Get: func(r api.PermissionRule) string { return r.Where }},
				{Title: "FROM", Get: func(r api.PermissionRule) string { return r.From }, Style: app.Always[api.PermissionRule](layout.Dim)},
			})
		}),
	}
}

// shownCalls is how many calls of each kind a person is shown.
const shownCalls = 20

func permissionsTestCmd(a *app.App) *cobra.Command {
	var rule, list, since string
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Try a rule on past calls",
		Long: `Puts the calls that runs of this workspace have made through the rules as they
are, and through those with one more, and lists what would be denied, asked, and
let through that is asked today. Runs that a server keeps, such as those that went on
in the background (--detach), are not among them. Nothing is called and nothing is
written; servers whose tools the rule is about are started if they may be.
"pml help conditions" says what a condition may be.`,
		Example: "  pml permissions test --list deny --rule 'fs:move_*'\n" +
			"  pml permissions test --list ask --since 7d --json \\\n    --rule '{\"tool\": \"fs:write_file\", \"where\": \"size(args.content) > 5000\"}'",
		Args: app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			r, err := parseRule(list, rule)
			if err != nil {
				return err
			}
			from, err := sinceOf(a, since)
			if err != nil {
				return err
			}
			t, err := b.TryRule(ctx, r, from)
			if err != nil {
				return err
			}
			return a.Print(t, func(w *strings.Builder) { writeTrial(w, a, t) })
		}),
	}
	cmd.Flags().StringVar(&rule, "rule", "", "the rule: a pattern, or a JSON object with tool and where")
	cmd.Flags().StringVar(&list, "list", "", "the list that it would be in: allow, ask or deny")
	addSince(cmd, &since, "30d", "only calls since then: 12h, 7d, 2w ago, or a day")
	_ = cmd.RegisterFlagCompletionFunc("list", app.CompleteFixed("allow", "ask", "deny"))
	_ = cmd.RegisterFlagCompletionFunc("rule", cobra.NoFileCompletions)
	return cmd
}

// addSince adds the flag that says how far back a command looks.
func addSince(cmd *cobra.Command, since *string, value, usage string) {
	f := cmd.Flags()
	f.SetNormalizeFunc(sinceFlag)
	f.StringVar(since, "since", value, usage)
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions)
}

// sinceFlag lets --last, its older name, stand for --since.
func sinceFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "last" {
		name = "since"
	}
	return pflag.NormalizedName(name)
}

func sinceOf(a *app.App, text string) (time.Time, error) {
	since, err := core.ParseWhen(text, a.Now())
	if err != nil {
		err = app.Usagef("--since: %s", core.AsError(err).Message)
	}
	return since, err
}

// parseRule reads the rule of a flag.
func parseRule(list, text string) (api.PermissionRule, error) {
	r := api.PermissionRule{List: list, Tool: strings.TrimSpace(text)}
	switch {
	case text == "":
		return r, app.Usagef("--rule is needed: a pattern on server:tool, or an object with tool and where").WithNext("pml", "permissions", "test", "--help")
	case list != "allow" && list != "ask" && list != "deny":
		return r, app.Usagef("--list is needed: allow, ask or deny").WithNext("pml", "permissions", "test", "--help")
	case !strings.HasPrefix(r.Tool, "{"):
		return r, nil
	}
	var object struct {
		Tool  string `json:"tool"`
		Where string `json:"where"`
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&object); err != nil || dec.More() {
		return r, app.Usagef("--rule is no JSON object with tool and where: %s", core.Visible(text, 200, false))
	}
	if object.Tool == "" || object.Where == "" {
		return r, app.Usagef("--rule needs tool and where; a pattern without a condition stands alone")
	}
	r.Tool, r.Where = object.Tool, object.Where
	return r, nil
}

func writeTrial(w *strings.Builder, a *app.App, t api.RuleTrial) {
	fmt.Fprintf(w, "%d calls that the pattern matches, in %d runs since %s\n", t.Calls, t.Runs, layout.Stamp(t.Since))
	w.WriteString("runs that a server keeps, such as detached ones, are not among them\n")
	for _, part := range []struct{ then, title string }{
		{"deny", "would be denied"}, {"ask", "would be asked"}, {"allow", "would be let through without a question"},
	} {
		var of []api.TriedCall
		for _, c := range t.Changed {
			if c.Then == part.then {
				of = append(of, c)
			}
		}
		fmt.Fprintf(w, "%s: %d\n", part.title, len(of))
		for i, c := range of {
			if i == shownCalls {
				fmt.Fprintf(w, "  and %d more (--json has all)\n", len(of)-i)
				break
			}
			writeTried(w, a, c)
		}
	}
	if t.Failed > 0 {
		fmt.Fprintf(w, "the condition could not be evaluated for %d of them\n", t.Failed)
	}
	if t.Unknown > 0 {
		fmt.Fprintf(w, "for %d of them nothing is known of the tool, as its server cannot be asked now: each counts as a write, and what is about annotations says too little (pml servers ls)\n", t.Unknown)
	}
}

func writeTried(w *strings.Builder, a *app.App, c api.TriedCall) {
	fmt.Fprintf(w, "  %s  %s  %s %s", layout.When(a.Now(), c.At), core.ID(c.RunID).Short(), core.Visible(c.Tool, 80, false), layout.Arguments(c.Arguments, 120))
	if c.Decided != "" {
		fmt.Fprintf(w, "  (was asked: %s)", c.Decided)
	}
	if c.Reason != "" {
		fmt.Fprintf(w, "  (%s)", core.Visible(c.Reason, 160, false))
	}
	w.WriteString("\n")
}

func permissionsSuggestCmd(a *app.App) *cobra.Command {
	var since, apply string
	var home bool
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Propose rules from what people have approved",
		Long: `Proposes rules that allow what people have approved at a terminal at least 5
times, with the same fixed arguments, and have never denied. It never proposes
one for calls of high risk, such as those of tools that are destructive by what
their server says or by their name, nor for what an agent has approved. Runs that
a server keeps do not count. Each rule bounds every argument by what was seen, and
says how many questions it would have saved.

--apply writes some of them after it has shown the change and asked, at a
terminal only.`,
		Example: "  pml permissions suggest\n  pml permissions suggest --since 90d --apply 1,3",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			from, err := sinceOf(a, since)
			if err != nil {
				return err
			}
			list, err := b.SuggestRules(ctx, from)
			if err != nil {
				return err
			}
			if apply != "" {
				return applySuggested(ctx, a, b, list, apply, home)
			}
			if home {
				return app.Usagef("--for-all goes with --apply")
			}
			return printSuggested(a, list)
		}),
	}
	addSince(cmd, &since, "30d", "only calls since then: 12h, 7d, 2w ago, or a day")
	cmd.Flags().StringVar(&apply, "apply", "", "write these, by their numbers: 1,3")
	cmd.Flags().BoolVar(&home, "for-all", false, "with --apply: into config.json of pml's home, for all workspaces")
	_ = cmd.RegisterFlagCompletionFunc("apply", cobra.NoFileCompletions)
	return cmd
}

func printSuggested(a *app.App, list []api.RuleSuggestion) error {
	err := app.PrintList(a, api.Page[api.RuleSuggestion]{Items: list}, "nothing to propose: nobody has said yes at a terminal 5 times for the same; calls of high risk do not count", []app.Column[api.RuleSuggestion]{
		{Title: "#", Get: func(s api.RuleSuggestion) string { return strconv.Itoa(s.Number) }},
		{Title: "SAVES", Get: func(s api.RuleSuggestion) string { return strconv.Itoa(s.Saves) }},
		{Title: "TOOL", Get: func(s api.RuleSuggestion) string { return s.Rule.Tool }},
		{Title: "WHERE", Below: 1, Get: func(s api.RuleSuggestion) string { return s.Rule.Where }},
	})
	if err == nil && len(list) > 0 {
		a.Note("next: pml permissions suggest --apply 1")
	}
	return err
}

// applySuggested writes suggestions by their numbers. There is no --yes: a rule that
// allows is a person's to write.
func applySuggested(ctx context.Context, a *app.App, b app.Backend, list []api.RuleSuggestion, numbers string, home bool) error {
	var rules []api.PermissionRule
	for text := range strings.SplitSeq(numbers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > len(list) {
			return app.Usagef("--apply: there is no suggestion %q; there are %d", core.Visible(text, 20, false), len(list))
		}
		rules = append(rules, list[n-1].Rule)
	}
	set, err := b.AddRules(ctx, home, rules...)
	if err != nil {
		return err
	}
	p := &changes.Proposal{
		ChangeSet: set, Ask: "write " + layout.Plural(len(rules), "allow rule") + "?", InPerson: true, AtOnce: home,
		Again: []string{"pml", "permissions", "suggest", "--apply", numbers},
	}
	return changes.Conclude(a, p, changes.Propose(ctx, a, b, p, changes.Flags{}), "pml", "permissions", "ls")
}
