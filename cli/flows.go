package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook/claude"
)

func flowsCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "flows", Aliases: []string{"flow"},
		Short: "Hook flows: rules and scripts around tool calls",
		Long: `A hook flow looks at tool calls before they are made and at their answers: it can
change, block, ask or note. Flows of this workspace are in .pml/flows and need
trust (pml trust); those of pml's home hold for all workspaces.`,
		Example: "  pml flows new docs --template approve-outside\n  pml flows test docs --since 7d\n  pml flows enable docs && pml trust",
	}, flowsLsCmd(a), flowsShowCmd(a), flowsNewCmd(a), flowsEditCmd(a), flowsValidateCmd(a), flowsSwitchCmd(a, true), flowsSwitchCmd(a, false),
		flowsTestCmd(a), flowsRunsCmd(a), flowsStatsCmd(a), flowsImportCmd(a), flowsExportCmd(a), flowsRmCmd(a), flowsSchemaCmd(a))
}

func flowsLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the flows",
		Long: "Lists the flows of the home and of this workspace with what each does now.", Example: "  pml flows ls\n  pml flows ls --json",
		Args: app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			list, err := b.Flows(ctx)
			if err != nil {
				return err
			}
			return app.PrintList(a, api.Page[api.Flow]{Items: list}, "no flows; pml flows new NAME --template approve-outside makes one", []app.Column[api.Flow]{
				{Title: "FLOW", Get: func(f api.Flow) string { return f.ID }, Style: app.Always[api.Flow](layout.Ident)},
				{Title: "NAME", Get: func(f api.Flow) string { return f.Name }, Flex: true},
				{Title: "STATE", Get: func(f api.Flow) string { return f.State }, Style: func(f api.Flow) layout.Style { return layout.StyleOf(f.State) }},
				{Title: "OF", Get: placeOf},
				{Title: "MATCH", Below: 1, Get: matchOf},
			})
		}),
	}
}

func placeOf(f api.Flow) string {
	if f.Home {
		return "home"
	}
	return "workspace"
}

// flowCmd is a command about one flow.
func flowCmd(a *app.App, c *cobra.Command, do func(ctx context.Context, b app.Backend, f api.Flow) error) *cobra.Command {
	c.Args = app.ExactArgs("FLOW")
	c.RunE = a.With(func(ctx context.Context, b app.Backend, args []string) error {
		f, err := b.Flow(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, b, f)
	})
	return c
}

func flowsShowCmd(a *app.App) *cobra.Command {
	return flowCmd(a, &cobra.Command{
		Use: "show FLOW", Short: "Show a flow with its graph", Long: "Shows a flow: what it matches, its faults, and its graph as text.", Example: "  pml flows show docs",
	}, func(_ context.Context, _ app.Backend, f api.Flow) error {
		return a.Print(f, func(w *strings.Builder) {
			fmt.Fprintf(w, "%s  %s (%s, %s)\n", core.Visible(f.ID, 80, false), core.Visible(f.Name, 80, false), f.State, placeOf(f))
			if f.Description != "" {
				fmt.Fprintln(w, core.Visible(f.Description, 300, false))
			}
			if len(f.Match) > 0 {
				fmt.Fprintln(w, "match "+matchOf(f))
			}
			fmt.Fprintln(w)
			for _, n := range f.Nodes {
				if n.Type == flow.TypeStart {
					writeNode(w, f, n, "", 0, map[string]bool{})
				}
			}
			for _, fault := range f.Faults {
				fmt.Fprintln(w, "fault: "+core.Visible(fault.String(), 300, false))
			}
		})
	})
}

// writeNode draws a node and all behind it, indented; a node that was drawn is named.
func writeNode(w *strings.Builder, f api.Flow, n api.FlowNode, branch string, depth int, seen map[string]bool) {
	fmt.Fprintf(w, "%s%s[%s] %s %s", strings.Repeat("  ", depth), branch, core.Visible(n.Type, 60, false), core.Visible(n.ID, 60, false), core.Visible(n.Label, 60, false))
	if n.Beside {
		w.WriteString(" (nobody waits for it)")
	}
	if seen[n.ID] || depth > 60 {
		w.WriteString(" …\n")
		return
	}
	seen[n.ID] = true
	w.WriteString("\n")
	var next []api.FlowEdge
	for _, e := range f.Edges {
		if e.Source == n.ID {
			next = append(next, e)
		}
	}
	for _, e := range next {
		for _, m := range f.Nodes {
			if m.ID == e.Target {
				label := "→ "
				if e.Label != "" {
					label = core.Visible(e.Label, 20, false) + " → "
				}
				writeNode(w, f, m, label, depth+1, seen)
			}
		}
	}
}

func flowsNewCmd(a *app.App) *cobra.Command {
	var template string
	var global bool
	var help strings.Builder
	names := []string{}
	for _, t := range flow.Templates() {
		names = append(names, t.Name)
		fmt.Fprintf(&help, "\n  %-16s %s", t.Name, t.Does)
	}
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Make a flow from a template",
		Long:    "Writes a flow that is disabled, so that you can look at it and test it.\nTemplates:\n" + help.String(),
		Example: "  pml flows new docs --template approve-outside\n  pml flows new limit --template rate-limit --global",
		Args:    app.ExactArgs("NAME"),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			for _, t := range flow.Templates() {
				if t.Name != template {
					continue
				}
				file := api.FlowFile{Home: global, Name: args[0] + ".json", Text: t.Flow(args[0], args[0], a.Now())}
				return saveFlow(ctx, a, b, file, "written, and disabled: look at it, test it, enable it", "pml", "flows", "enable", args[0])
			}
			return app.OneOf("template", template, names...)
		}),
	}
	cmd.Flags().StringVar(&template, "template", "", "the template to begin with")
	cmd.Flags().BoolVar(&global, "global", false, "in pml's home, for all workspaces")
	_ = cmd.RegisterFlagCompletionFunc("template", app.CompleteFixed(names...))
	return cmd
}

// savedFlow is what a program reads of a file that was written.
type savedFlow struct {
	File    string `json:"file"`
	Removed bool   `json:"removed,omitempty"`
}

func saveFlow(ctx context.Context, a *app.App, b app.Backend, file api.FlowFile, note string, next ...string) error {
	if err := b.SaveFlow(ctx, file); err != nil {
		return err
	}
	err := a.Print(savedFlow{file.Name, file.Text == nil}, app.Line("%s: %s", core.Visible(file.Name, 80, false), note))
	if len(next) > 0 {
		a.SayNext(next...)
	}
	return err
}

// changed writes another text of a flow.
func changed(ctx context.Context, a *app.App, b app.Backend, f api.Flow, text []byte, note string) error {
	file := api.FlowFile{Home: f.Home, Name: f.File, Text: text, Was: []byte(f.Text)}
	if f.Home {
		return saveFlow(ctx, a, b, file, note)
	}
	return saveFlow(ctx, a, b, file, note, "pml", "trust")
}

func flowsEditCmd(a *app.App) *cobra.Command {
	return flowCmd(a, &cobra.Command{
		Use: "edit FLOW", Short: "Edit a flow in $EDITOR", Long: "Opens the file of a flow in $EDITOR. An enabled flow that has faults is not written: it can be opened again as it was left.", Example: "  pml flows edit docs",
	}, func(ctx context.Context, b app.Backend, f api.Flow) error {
		if a.EditText == nil || !a.CanAsk() {
			return app.Usagef("edit needs a terminal; the file is %s", core.Visible(f.File, 200, false))
		}
		for text := f.Text; ; {
			var err error
			if text, err = a.EditText(ctx, strings.ReplaceAll(f.File, "/", "-"), text); err != nil {
				return err
			}
			err = changed(ctx, a, b, f, []byte(text), "written")
			if core.CodeOf(err) != core.CodeInvalidConfig {
				return err
			}
			for _, fault := range core.AsError(err).Faults {
				a.Say("  %s", core.Visible(fault.String(), 300, false))
			}
			if again, asked := a.AskYes(ctx, "nothing was written; open what you wrote again?"); asked != nil || !again {
				return err
			}
		}
	})
}

func flowsSwitchCmd(a *app.App, on bool) *cobra.Command {
	c := &cobra.Command{
		Use: "disable FLOW", Short: "Switch a flow off", Long: "Switches a flow off. Of a trusted workspace a person has to trust that.", Example: "  pml flows disable docs",
	}
	if on {
		c.Use, c.Short, c.Example = "enable FLOW", "Switch a flow on", "  pml flows enable docs"
		c.Long = "Switches a flow on. One that has faults is refused, and all faults are listed."
	}
	return flowCmd(a, c, func(ctx context.Context, b app.Backend, f api.Flow) error {
		text, err := flow.Switched([]byte(f.Text), on)
		if err != nil {
			return err
		}
		return changed(ctx, a, b, f, text, map[bool]string{true: "enabled", false: "disabled"}[on])
	})
}

func flowsValidateCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "validate [FLOW]", Short: "List the faults of flows", Long: "Lists all faults of one flow, or of all. With faults it ends with the exit code of an invalid configuration.", Example: "  pml flows validate\n  pml flows validate docs --json",
		Args: app.MaxArgs(1),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			list, err := b.Flows(ctx)
			if len(args) == 1 && err == nil {
				list = make([]api.Flow, 1)
				list[0], err = b.Flow(ctx, args[0])
			}
			if err != nil {
				return err
			}
			wrong := core.Errorf(core.CodeInvalidConfig, "flows have faults")
			for _, f := range list {
				wrong.Faults = append(wrong.Faults, f.Faults...)
			}
			if len(wrong.Faults) > 0 {
				return wrong
			}
			return a.Print(map[string]int{"flows": len(list)}, app.Line("%d flow(s), no faults", len(list)))
		}),
	}
}

func flowsRmCmd(a *app.App) *cobra.Command {
	var yes bool
	cmd := flowCmd(a, &cobra.Command{
		Use: "rm FLOW", Short: "Remove a flow", Long: "Removes the file of a flow after a question.", Example: "  pml flows rm docs --yes",
	}, func(ctx context.Context, b app.Backend, f api.Flow) error {
		if !yes {
			if !a.CanAsk() {
				return app.Usagef("rm asks first; --yes removes without a question")
			}
			if ok, err := a.AskYes(ctx, "Remove "+core.Visible(f.File, 80, false)+"?"); err != nil || !ok {
				return err
			}
		}
		return changed(ctx, a, b, f, nil, "removed")
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// bundle is a flow with the files that it uses.
type bundle struct {
	Flow  json.RawMessage   `json:"flow"`
	Files map[string]string `json:"files"`
}

func flowsExportCmd(a *app.App) *cobra.Command {
	return flowCmd(a, &cobra.Command{
		Use: "export FLOW", Short: "Print a flow with its modules", Long: "Prints a flow with the modules and node manifests that it uses, for pml flows import. Ids and unknown keys stay.", Example: "  pml flows export docs > docs.bundle.json",
	}, func(_ context.Context, _ app.Backend, f api.Flow) error {
		var raw bytes.Buffer
		enc := json.NewEncoder(&raw)
		enc.SetEscapeHTML(false) // conditions stay as they were written
		if enc.Encode(bundle{json.RawMessage(f.Text), f.Files}) != nil {
			return core.Errorf(core.CodeInvalidConfig, "%s is no JSON, and cannot be exported", core.Visible(f.File, 80, false))
		}
		return printJSON(a, raw.Bytes())
	})
}

func flowsImportCmd(a *app.App) *cobra.Command {
	var fromClaude, global bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Take over flows of a file",
		Long:    "Takes over a flow, what export has printed, or with --claude the hooks of a .claude/settings.json. A file that is there is not replaced.",
		Example: "  pml flows import docs.bundle.json\n  pml flows import --claude .claude/settings.json",
		Args:    app.ExactArgs("FILE"),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			text, err := a.ReadInput(ctx, args[0])
			if err != nil {
				return err
			}
			files, err := importedFiles(a, text, fromClaude)
			if err != nil {
				return err
			}
			if len(files) == 0 {
				return core.Errorf(core.CodeInvalidConfig, "nothing was written: %s has no hook around calls of MCP tools, which are those that pml runs", core.Visible(args[0], 200, false))
			}
			names := []string{}
			for _, f := range files {
				if err := b.SaveFlow(ctx, api.FlowFile{Home: global, Name: f.Name, Text: f.Text}); err != nil {
					return err
				}
				names = append(names, f.Name)
			}
			if err := a.Print(map[string][]string{"files": names}, app.Line("written: %s", core.Visible(strings.Join(names, ", "), 500, false))); err != nil || global || !a.Human() {
				return err
			}
			a.SayNext("pml", "trust")
			return nil
		}),
	}
	cmd.Flags().BoolVar(&fromClaude, "claude", false, "the file has settings of Claude Code")
	cmd.Flags().BoolVar(&global, "global", false, "into pml's home, for all workspaces")
	return cmd
}

// importedFiles are the files to write: what flows use, then the flows.
func importedFiles(a *app.App, text []byte, fromClaude bool) (out []claude.File, err error) {
	if fromClaude {
		made, err := claude.Import(text, claude.Options{Now: a.Now()})
		for _, left := range made.Left {
			a.Note("left out: %s", core.Visible(left, 300, false))
		}
		return made.Flows, err
	}
	var all bundle
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "the file is no JSON: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(all.Files)) {
		out = append(out, claude.File{Name: name, Text: []byte(all.Files[name])})
	}
	if len(all.Flow) > 0 { // as a file of its own has it, whatever it was printed in
		var own bytes.Buffer
		if err := json.Indent(&own, all.Flow, "", "  "); err != nil {
			return nil, core.Errorf(core.CodeInvalidConfig, "the flow in the file is no JSON: %w", err)
		}
		own.WriteByte('\n')
		text = own.Bytes()
	}
	var head struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(text, &head) != nil || head.ID == "" {
		return nil, core.Errorf(core.CodeInvalidConfig, "the file has no flow with an id")
	}
	return append(out, claude.File{Name: fileOf(head.ID) + ".json", Text: text}), nil
}

func flowsRunsCmd(a *app.App) *cobra.Command {
	var limit int
	cmd := flowCmd(a, &cobra.Command{
		Use: "runs FLOW", Short: "List what a flow did, newest first", Long: "Lists the runs of a flow; the last 1,000 are kept.", Example: "  pml flows runs docs --limit 10",
	}, func(ctx context.Context, b app.Backend, f api.Flow) error {
		h, err := b.FlowHistory(ctx, f.File, limit)
		if err != nil {
			return err
		}
		return app.PrintList(a, api.Page[core.FlowRun]{Items: h.Runs}, "no runs", []app.Column[core.FlowRun]{
			{Title: "AGE", Get: func(r core.FlowRun) string { return layout.Ago(a.Now(), r.StartedAt) }},
			{Title: "STATE", Get: func(r core.FlowRun) string { return string(r.State) }, Style: func(r core.FlowRun) layout.Style { return layout.StyleOf(string(r.State)) }},
			{Title: "TOOL", Get: func(r core.FlowRun) string { return r.Tool }},
			{Title: "NODE", Get: func(r core.FlowRun) string { return r.Node }},
			{Title: "TOOK", Get: func(r core.FlowRun) string { return micros(r.DurationUS) }},
			{Title: "RUN", Get: func(r core.FlowRun) string { return r.RunID.Short() }, Style: app.Always[core.FlowRun](layout.Ident)},
			{Title: "REASON", Below: 1, Get: func(r core.FlowRun) string { return r.Reason }},
		})
	})
	cmd.Flags().IntVar(&limit, "limit", 50, "at most this many")
	return cmd
}

func micros(us int64) string { return fmt.Sprintf("%.1f ms", float64(us)/1000) }

func flowsStatsCmd(a *app.App) *cobra.Command {
	return flowCmd(a, &cobra.Command{
		Use: "stats FLOW", Short: "Times and counts of a flow's nodes", Long: "Shows how often each node ran, blocked and failed, and how long it took; the slowest is marked.", Example: "  pml flows stats docs",
	}, func(ctx context.Context, b app.Backend, f api.Flow) error {
		h, err := b.FlowHistory(ctx, f.File, 1000)
		if err != nil {
			return err
		}
		return app.PrintList(a, api.Page[api.FlowNodeStats]{Items: h.Nodes}, "no runs", []app.Column[api.FlowNodeStats]{
			{Title: "NODE", Get: func(s api.FlowNodeStats) string { return s.Node }},
			{Title: "COUNT", Get: func(s api.FlowNodeStats) string { return strconv.Itoa(s.Count) }},
			{Title: "BLOCKED", Get: func(s api.FlowNodeStats) string { return strconv.Itoa(s.Blocked) }},
			{Title: "FAILED", Get: func(s api.FlowNodeStats) string { return strconv.Itoa(s.Failed) }},
			{Title: "P50", Get: func(s api.FlowNodeStats) string { return micros(s.P50) }},
			{Title: "P95", Get: func(s api.FlowNodeStats) string { return micros(s.P95) }},
			{Title: "MAX", Get: func(s api.FlowNodeStats) string { return micros(s.Max) }},
			{Title: "", Get: func(s api.FlowNodeStats) string { return map[bool]string{true: "slowest"}[s.Slowest] }},
		})
	})
}

// fileOf makes the name of a file of a flow's id.
func fileOf(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, id)
}

// matchOf is what a flow matches, on one line.
func matchOf(f api.Flow) string {
	var b bytes.Buffer
	if len(f.Match) == 0 || json.Compact(&b, f.Match) != nil {
		return ""
	}
	return core.Visible(b.String(), 300, false)
}

// flowsSchemaCmd opens nothing, so that it helps with a file that does not load.
func flowsSchemaCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a flow's file", Long: "Prints the JSON Schema (2020-12) of a flow's file, for editors.", Example: "  pml flows schema > flow.schema.json",
		Args: app.MaxArgs(0),
		RunE: func(*cobra.Command, []string) error { return printJSON(a, flow.Schema()) },
	}
}
