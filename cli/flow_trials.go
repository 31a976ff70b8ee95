package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/flow"
)

func flowsTestCmd(a *app.App) *cobra.Command {
	var tool, args, response, since, record, list string
	cmd := flowCmd(a, &cobra.Command{
		Use: "test FLOW", Short: "Try a flow on a call, or on past calls",
		Long: `Runs a flow, enabled or not, on a call that is not made, and shows what each node
did. --since puts the calls of past runs through it and lists those that it would
have blocked, changed or asked about; --record all calls of one run, with their
recorded answers. A flow of tools/list is tried with --list on the tools of a server.`,
		Example: "  pml flows test docs --tool fs:write_file --args '{\"path\": \"src/a.go\"}'\n  pml flows test docs --since 7d --json\n  pml flows test docs --record @latest\n  pml flows test hide --list fs",
	}, func(ctx context.Context, b app.Backend, f api.Flow) error {
		if given := slices.DeleteFunc([]string{tool, since, record, list}, func(s string) bool { return s == "" }); len(given) != 1 {
			return app.Usagef("give one of --tool with --args, --since, --record and --list")
		}
		if (f.Type == flow.ListTools) != (list != "") {
			return app.Usagef("%s is a flow of %s: one of tools/list is tried with --list, others on calls", core.Visible(f.Name, 80, false), f.Type)
		}
		if list != "" {
			t, err := b.TryFlowOn(ctx, f.File, api.FlowCall{Tool: list})
			if err != nil {
				return err
			}
			return a.Print(t, func(w *strings.Builder) { writeListTrial(w, t) })
		}
		if tool == "" {
			t, err := replayed(ctx, a, b, f, since, record)
			if err != nil {
				return err
			}
			return a.Print(t, func(w *strings.Builder) { writeReplay(w, t) })
		}
		call := api.FlowCall{Tool: tool, Args: json.RawMessage(args), Result: json.RawMessage(response)}
		if !json.Valid(call.Args) || response != "" && !json.Valid(call.Result) {
			return app.Usagef("--args and --response must be JSON")
		}
		t, err := b.TryFlowOn(ctx, f.File, call)
		if err != nil {
			return err
		}
		return a.Print(t, func(w *strings.Builder) { writeFlowTrial(w, t) })
	})
	cmd.Flags().StringVar(&tool, "tool", "", "the tool of the call, server:tool")
	cmd.Flags().StringVar(&args, "args", "{}", "its arguments, JSON")
	cmd.Flags().StringVar(&response, "response", "", "the server's answer, an MCP result in JSON")
	addSince(cmd, &since, "", "past calls: 12h, 7d, 2w, or a day")
	cmd.Flags().StringVar(&list, "list", "", "the server whose tools a flow of tools/list is tried on")
	cmd.Flags().StringVar(&record, "record", "", "the recorded calls of a run: its id or @latest")
	return cmd
}

// replayed is what a flow makes of the calls since a time, or of those of one run.
func replayed(ctx context.Context, a *app.App, b app.Backend, f api.Flow, past, record string) (api.FlowReplay, error) {
	if record != "" {
		id, _, err := b.Resolve(ctx, record)
		if err != nil {
			return api.FlowReplay{}, err
		}
		return b.TryFlowOnRun(ctx, f.File, id)
	}
	since, err := sinceOf(a, past)
	if err != nil {
		return api.FlowReplay{}, err
	}
	return b.TryFlowSince(ctx, f.File, since)
}

func writeReplay(w *strings.Builder, t api.FlowReplay) {
	of := "since " + layout.Stamp(t.Since)
	if t.RunID != "" {
		of = "of the run " + t.RunID.Short()
	}
	fmt.Fprintf(w, "%s %s: %d blocked, %d failed, %d asked, %d changed, %d passed\n", layout.Plural(t.Calls, "call"), of,
		t.Counts["blocked"], t.Counts["failed"], t.Counts["asked"], t.Counts["changed"], t.Counts["passed"])
	if t.Calls == 0 {
		w.WriteString("the flow matches no recorded call; calls that still wait are not tried. --tool server:tool --args JSON tries one by hand\n")
	}
	noteUnknown(w, t.Trials)
	for _, c := range t.Trials {
		fmt.Fprintf(w, "\n%s  %s %s  (%s)\n", c.Verdict, core.Visible(c.Tool, 80, false), core.Visible(string(c.Args), 200, false), core.ID(c.RunID).Short())
		writeWhy(w, c)
	}
}

// writeListTrial says which tools are left of a server's.
func writeListTrial(w *strings.Builder, t api.FlowTrial) {
	writeTrialNodes(w, t, "this server's tools")
	if t.Reason != "" {
		fmt.Fprintln(w, "  "+core.Visible(t.Reason, 300, false))
	}
	d, ok := flow.DiffLists(t.Result, t.Given)
	if !ok {
		return
	}
	for _, part := range []struct {
		says  string
		names []string
	}{{"hidden", d.Hidden}, {"changed", d.Changed}, {"as they are", d.Same}} {
		if len(part.names) > 0 {
			fmt.Fprintf(w, "%s: %s\n", part.says, core.Visible(strings.Join(part.names, ", "), 2000, false))
		}
	}
	writeChanges(w, t)
}

func writeTrialNodes(w *strings.Builder, t api.FlowTrial, what string) {
	fmt.Fprintf(w, "%s  %s\n", t.Verdict, core.Visible(t.Tool, 80, false))
	if !t.Matches {
		w.WriteString("as it is, the flow does not look at " + what + " (match)\n")
	}
	for _, n := range t.Nodes {
		fmt.Fprintf(w, "  %-9s %-24s %-16s %s\n", n.State, core.Visible(n.Node, 24, false), core.Visible(n.Type, 30, false), micros(n.DurationUS))
		for _, line := range n.Console {
			fmt.Fprintln(w, "      | "+core.Visible(line, 300, false))
		}
	}
}

func writeFlowTrial(w *strings.Builder, t api.FlowTrial) {
	writeTrialNodes(w, t, "this call")
	noteUnknown(w, []api.FlowTrial{t})
	writeWhy(w, t)
	fmt.Fprintln(w, "sent: "+core.Visible(string(t.Sent), 2000, false))
	if len(t.Given) > 0 {
		fmt.Fprintln(w, "given: "+core.Visible(string(t.Given), 2000, false))
	}
	if len(t.Agent) > 0 {
		fmt.Fprintln(w, "to the agent: "+core.Visible(string(t.Agent), 2000, false))
	}
}

// noteUnknown says once for each tool that nothing is known of what it does.
func noteUnknown(w *strings.Builder, trials []api.FlowTrial) {
	said := map[string]bool{}
	for _, t := range trials {
		if t.Unknown != "" && !said[t.Tool] {
			said[t.Tool] = true
			fmt.Fprintf(w, "note: whether %s only reads is not known (%s); it is treated as if it did more\n", core.Visible(t.Tool, 80, false), core.Visible(t.Unknown, 300, false))
		}
	}
}

func writeWhy(w *strings.Builder, t api.FlowTrial) {
	if t.Reason != "" {
		fmt.Fprintln(w, "  "+core.Visible(t.Reason, 300, false))
	}
	writeChanges(w, t)
}

func writeChanges(w *strings.Builder, t api.FlowTrial) {
	for _, n := range t.Nodes {
		if n.Change == nil {
			continue
		}
		for line := range strings.Lines(n.Change.Diff) {
			fmt.Fprintln(w, "  "+core.Visible(strings.TrimRight(line, "\n"), 300, false))
		}
	}
}
