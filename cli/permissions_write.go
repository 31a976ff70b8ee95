package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// writtenRule is a rule that a command writes or removes, and where.
type writtenRule struct {
	rule   api.PermissionRule
	home   bool
	change changes.Flags
}

func (o *writtenRule) addFlags(cmd *cobra.Command, where string) {
	cmd.Flags().StringVar(&o.rule.Where, "where", "", where)
	cmd.Flags().BoolVar(&o.home, "for-all", false, "in config.json of pml's home, for all workspaces")
	_ = cmd.RegisterFlagCompletionFunc("where", cobra.NoFileCompletions)
}

// text is the rule as a person reads it in a question.
func (o *writtenRule) text() string {
	text := core.Visible(o.rule.Tool, 120, false)
	if o.rule.Where != "" {
		text += " where " + core.Visible(o.rule.Where, 300, false)
	}
	return text
}

const whereItIs = `It is written into .pml.json, or with --for-all into config.json of pml's home;
the change is shown first, and a workspace that was trusted stays so.`

func permissionsAllowCmd(a *app.App) *cobra.Command {
	o := writtenRule{rule: api.PermissionRule{List: "allow"}}
	cmd := &cobra.Command{
		Use:   "allow PATTERN",
		Short: "Write a rule that lets calls through without a question",
		Long: `Writes a rule that lets the calls of a pattern on server:tool through without a
question; --where bounds it to those for which a condition holds ("pml help
conditions" has what one may be). Of the rules that allow and those that ask, the
most specific one counts, and what denies always does.

` + whereItIs + `
A person at a terminal agrees to it, with the PIN where one is set: there is no
--yes. "pml permissions test" tries the rule on past calls first.`,
		Example: "  pml permissions allow fs:read_file\n  pml permissions allow fs:write_file --where \"under(args.path, 'docs')\"",
		Args:    app.ExactArgs("PATTERN"),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			o.rule.Tool = args[0]
			p := &changes.Proposal{Ask: "allow " + o.text() + "?", InPerson: true, AtOnce: o.home, Again: a.WithFlags()}
			if err := o.write(ctx, a, b, p); err != nil || !p.Written {
				return err
			}
			o.askedBefore(ctx, a, b)
			return nil
		}),
	}
	o.addFlags(cmd, "only calls for which this holds: under(args.path, 'docs')")
	return cmd
}

// permissionsTightenCmd is pml permissions ask, or deny: nothing more is let through by it.
func permissionsTightenCmd(a *app.App, list, short, does string) *cobra.Command {
	o := writtenRule{rule: api.PermissionRule{List: list}}
	cmd := &cobra.Command{
		Use:   list + " PATTERN",
		Short: short,
		Long: does + `
--where bounds it to those for which a condition holds (pml help conditions); one
that cannot be evaluated counts as if it did.

` + whereItIs,
		Example: "  pml permissions " + list + " 'fs:move_*'\n  pml permissions " + list + " fs:write_file --where \"size(args.content) > 5000\" --yes",
		Args:    app.ExactArgs("PATTERN"),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			o.rule.Tool = args[0]
			return o.write(ctx, a, b, &changes.Proposal{Ask: list + " " + o.text() + "?", Again: a.WithFlags("--yes")})
		}),
	}
	o.addFlags(cmd, "only calls for which this holds: size(args.content) > 5000")
	changes.AddFlags(cmd, &o.change, true)
	return cmd
}

func permissionsRmCmd(a *app.App) *cobra.Command {
	var o writtenRule
	cmd := &cobra.Command{
		Use:     "rm PATTERN",
		Aliases: []string{"remove"},
		Short:   "Remove rules",
		Long: `Removes the rules whose pattern is exactly that text from .pml.json, or with
--for-all from config.json of pml's home: all of them, or those of one list or with
one condition. The change is shown first. A person at a terminal agrees to it,
with the PIN where one is set: there is no --yes.`,
		Example: "  pml permissions rm fs:read_file\n  pml permissions rm 'fs:move_*' --list allow",
		Args:    app.ExactArgs("PATTERN"),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			if o.rule.Tool = args[0]; o.rule.List != "" {
				if err := app.OneOf("list", o.rule.List, "allow", "ask", "deny"); err != nil {
					return err
				}
			}
			set, err := b.RemoveRules(ctx, o.home, o.rule)
			if err != nil {
				return err
			}
			p := &changes.Proposal{ChangeSet: set, Ask: "remove what is shown?", InPerson: true, AtOnce: o.home, Again: a.WithFlags()}
			return changes.Conclude(a, p, changes.Propose(ctx, a, b, p, o.change), "pml", "permissions", "ls")
		}),
	}
	o.addFlags(cmd, "only the rule with this condition")
	cmd.Flags().StringVar(&o.rule.List, "list", "", "only of this list: allow, ask or deny")
	_ = cmd.RegisterFlagCompletionFunc("list", app.CompleteFixed("allow", "ask", "deny"))
	return cmd
}

// write shows the change that adds the rule, has it agreed to, and writes it.
func (o *writtenRule) write(ctx context.Context, a *app.App, b app.Backend, p *changes.Proposal) error {
	set, err := b.AddRules(ctx, o.home, o.rule)
	if err != nil {
		return err
	}
	p.ChangeSet = set
	return changes.Conclude(a, p, changes.Propose(ctx, a, b, p, o.change), "pml", "permissions", "ls")
}

// names reports whether a tool is one of the pattern, or of the server that it names.
func (o *writtenRule) names(tool string) bool {
	return approval.Matches(o.rule.Tool, tool) || strings.HasPrefix(tool, o.rule.Tool+":")
}

// askedBefore says how many questions wait about tools of the pattern: the rule answers what is
// asked from now on, and those a person still decides.
func (o *writtenRule) askedBefore(ctx context.Context, a *app.App, b app.Backend) {
	paths, err := b.Paths(ctx)
	if err != nil {
		return
	}
	list, err := b.Approvals(ctx, false)
	if err != nil {
		return
	}
	n := 0
	for _, ap := range list {
		if ap.Type == core.ApproveTool && (o.home || ap.Workspace == paths.Workspace) && o.names(ap.Tool) {
			n++
		}
	}
	switch n {
	case 0:
	case 1:
		a.Note("note: 1 question about such a tool was asked before the rule, and still waits: pml approve")
	default:
		a.Note("note: %d questions about such tools were asked before the rule, and still wait: pml approve", n)
	}
}
