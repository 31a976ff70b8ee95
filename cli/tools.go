package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/cli/runs"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func toolsCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "tools",
		Aliases: []string{"tool"},
		Short:   "The tools of the workspace's servers",
		Long:    "Lists, shows and searches the tools of the servers that may be started without a decision, and calls one as a run would.",
		Example: "  pml tools ls\n  pml tools show workspace:read_file\n  pml tools call workspace:read_file --args '{\"path\":\"a.txt\"}'",
	}, toolsLsCmd(a), toolsShowCmd(a), toolsSearchCmd(a), toolsCallCmd(a))
}

func toolsLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls [SERVER]",
		Aliases: []string{"list"},
		Short:   "List tools",
		Long:    "Lists the tools of all servers, or of one. Servers that cannot be asked are named on stderr, with the reason.",
		Example: "  pml tools ls\n  pml tools ls filesystem -o wide",
		Args:    app.MaxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return listTools(cmd.Context(), a, func(t core.Tool) bool { return len(args) == 0 || t.Server == args[0] })
		},
	}
}

func toolsSearchCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "search TEXT",
		Short:   "Find tools by words in their name or description",
		Long:    "Finds the tools whose name, title or description has all the words.",
		Example: "  pml tools search read file",
		Args:    app.AtLeastOne("word"),
		RunE: func(cmd *cobra.Command, args []string) error {
			words := strings.Fields(strings.ToLower(strings.Join(args, " ")))
			return listTools(cmd.Context(), a, func(t core.Tool) bool {
				text := strings.ToLower(t.ID() + " " + t.Title + " " + t.Description)
				for _, w := range words {
					if !strings.Contains(text, w) {
						return false
					}
				}
				return true
			})
		},
	}
}

func listTools(ctx context.Context, a *app.App, keep func(core.Tool) bool) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	tools, problems, err := b.Tools(ctx)
	if err != nil {
		return err
	}
	notes(a, problems)
	var page api.Page[core.Tool]
	for _, t := range tools {
		if keep(t) {
			page.Items = append(page.Items, t)
		}
	}
	return app.PrintList(a, page, "no such tools", []app.Column[core.Tool]{
		{Title: "TOOL", Get: core.Tool.ID},
		{Title: "EFFECT", Get: effect},
		{Title: "DESCRIPTION", Get: func(t core.Tool) string { return firstLine(t.Description) }},
	})
}

// notes tells of servers that could not be asked.
func notes(a *app.App, problems []core.Fault) {
	for _, f := range problems {
		a.Note("note: %s", core.Visible(layout.Joined(f.String()), 0, false))
	}
}

// unlisted is the error for a tool of a server that could not be asked, nil where it could.
func unlisted(ctx context.Context, b app.Backend, tool string, problems []core.Fault) error {
	server, _, _ := core.SplitTool(tool)
	i := slices.IndexFunc(problems, func(f core.Fault) bool { return f.Path == server })
	if i < 0 || server == "" {
		return nil
	}
	err := core.Errorf(core.CodeServerUnreachable, "it is not known whether there is a tool %s: %s", core.Visible(tool, 200, false), problems[i].Message)
	if t, wrong := b.Trust(ctx); wrong == nil && !t.Trusted && !t.Empty {
		return err.WithNext("pml", "trust")
	}
	return err.WithNext("pml", "servers", "check", server)
}

// effect says in a word what the tool's annotations say.
func effect(t core.Tool) string {
	switch {
	case t.Annotations.IsReadOnly():
		return "reads"
	case t.Annotations.Destructive != nil && *t.Annotations.Destructive:
		return "destroys"
	case t.Annotations.Destructive != nil:
		return "adds"
	}
	return "unknown"
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

func toolsShowCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:               "show TOOL",
		Short:             "Show a tool with its schemas",
		Long:              "Shows a tool: what it says of itself, its annotations and the schemas of its input and output.",
		Example:           "  pml tools show workspace:read_file",
		Args:              app.ExactArgs("TOOL"),
		ValidArgsFunction: completeTools(a),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			tools, problems, err := b.Tools(ctx)
			if err != nil {
				return err
			}
			var names []string
			for _, t := range tools {
				if t.ID() == args[0] {
					return a.Print(t, func(w *strings.Builder) { writeTool(w, t) })
				}
				names = append(names, t.ID())
			}
			if err := unlisted(ctx, b, args[0], problems); err != nil {
				return err
			}
			notes(a, problems)
			return core.Errorf(core.CodeNoSuchTool, "no such tool: %s%s", core.Visible(args[0], 200, false), core.Suggest(args[0], names))
		}),
	}
}

func completeTools(a *app.App) app.Completer {
	return app.CompleteFirst(func(ctx context.Context) ([]string, error) {
		b, err := a.Backend(ctx)
		if err != nil {
			return nil, err
		}
		tools, _, err := b.Tools(ctx)
		var out []string
		for _, t := range tools {
			out = append(out, core.Visible(t.ID(), 0, false))
		}
		return out, err
	})
}

func writeTool(w *strings.Builder, t core.Tool) {
	fmt.Fprintf(w, "%s\n", core.Visible(t.ID(), 0, false))
	if t.Title != "" {
		fmt.Fprintf(w, "title: %s\n", core.Visible(t.Title, 0, false))
	}
	fmt.Fprintf(w, "effect: %s\n", effect(t))
	fmt.Fprintf(w, "in a script: %s\n", core.Visible(scriptCall(t), 0, false))
	if t.Description != "" {
		fmt.Fprintf(w, "\n%s\n", core.Visible(strings.TrimSpace(t.Description), 0, true))
	}
	for _, s := range []struct {
		title  string
		schema json.RawMessage
	}{{"input", t.InputSchema}, {"output", t.OutputSchema}} {
		if len(s.schema) > 0 {
			fmt.Fprintf(w, "\n%s schema:\n%s\n", s.title, core.Visible(layout.Indent(s.schema), 0, true))
		}
	}
}

// plainName is a name that JavaScript takes without quotes.
var plainName = regexp.MustCompile(`^[A-Za-z_$][\w$]*$`)

// scriptCall is a call of a tool as a script makes it, with the arguments that it must have.
func scriptCall(t core.Tool) string {
	call := "await mcp"
	for _, name := range []string{t.Server, t.Name} {
		if plainName.MatchString(name) {
			call += "." + name
		} else {
			call += fmt.Sprintf("[%q]", name)
		}
	}
	var schema struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(t.InputSchema, &schema) != nil || len(schema.Required) == 0 {
		return call + "({})"
	}
	var args []string
	for _, name := range schema.Required {
		if !plainName.MatchString(name) {
			name = strconv.Quote(name)
		}
		args = append(args, name+": …")
	}
	return call + "({ " + strings.Join(args, ", ") + " })"
}

func toolsCallCmd(a *app.App) *cobra.Command {
	var args string
	var wait runs.WaitFlags
	cmd := &cobra.Command{
		Use:   "call TOOL",
		Short: "Call one tool, as a run of its own",
		Long: `Calls a tool as a run of its own: with the same rules, questions, flows, journal
and exit codes as with "pml execute".`,
		Example:           `  pml tools call workspace:read_file --args '{"path":"a.txt"}'`,
		Args:              app.ExactArgs("TOOL"),
		ValidArgsFunction: completeTools(a),
		RunE: func(cmd *cobra.Command, pos []string) error {
			if err := wait.Check(a, cmd, false); err != nil {
				return err
			}
			return callTool(cmd.Context(), a, pos[0], args, wait)
		},
	}
	cmd.Flags().StringVar(&args, "args", "{}", "the arguments: a JSON object, or @FILE")
	runs.AddWaitFlags(cmd, &wait, true)
	return cmd
}

func callTool(ctx context.Context, a *app.App, tool, args string, wait runs.WaitFlags) error {
	if _, _, ok := core.SplitTool(tool); !ok {
		return app.Usagef("%q is not a tool's full name; it is server:tool", core.Visible(tool, 200, false)).WithNext("pml", "tools", "ls")
	}
	raw, err := program.ReadJSON(ctx, a, "args", args)
	if err != nil {
		return err
	}
	if raw[0] != '{' {
		return app.Usagef("--args is not a JSON object")
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	a.StartProgress()
	r, err := b.CallTool(ctx, tool, raw, a.Actor(), wait.Limit(a))
	r, err = runs.Held(ctx, a, b, r, err, wait)
	return runs.Settle(ctx, a, b, r, err, wait)
}
