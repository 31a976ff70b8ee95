package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// acceptDAG is the value of --accept without one: the DAG as it was suggested.
const acceptDAG = "the DAG"

// acceptFlags say what of the suggestions is to be run.
type acceptFlags struct {
	set  bool
	text string
	name string // of a tool; empty: the DAG
	args string
}

func (f *acceptFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.text, "accept", "", "run what is suggested for --intent: the DAG, or the TOOL that is named")
	flags.Lookup("accept").NoOptDefVal = acceptDAG
	flags.StringVar(&f.args, "args", "", "with --accept TOOL: its arguments, JSON or @FILE")
}

// read takes the name of a tool that stands behind --accept out of the
// arguments: the parser sees a flag that may be without a value.
func (f *acceptFlags) read(cmd *cobra.Command, args *[]string) {
	f.set = cmd.Flags().Changed("accept")
	switch {
	case !f.set:
	case f.text != acceptDAG:
		f.name = f.text
	case len(*args) == 1:
		f.name, *args = (*args)[0], nil
	}
}

// executeIntent asks for suggestions and runs what was accepted of them.
func executeIntent(ctx context.Context, a *app.App, o executeOptions) error {
	if o.accept.args != "" && o.accept.name == "" {
		return app.Usagef("--args are the arguments of a tool: name it with --accept TOOL")
	}
	input, err := executeInput(ctx, a, o)
	if err != nil {
		return err
	}
	req := api.ExecuteRequest{}
	req.Input = input
	if o.accept.name != "" {
		if req.Accept, err = acceptTool(ctx, a, o.accept); err != nil {
			return err
		}
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	if !o.accept.set || req.Accept != nil {
		return runRequest(ctx, a, b, req, o)
	}
	return acceptSuggested(ctx, a, b, req, o)
}

func acceptTool(ctx context.Context, a *app.App, f acceptFlags) (*api.Acceptance, error) {
	args := json.RawMessage(`{}`)
	if f.args != "" {
		var err error
		if args, err = program.ReadJSON(ctx, a, "args", f.args); err != nil {
			return nil, err
		}
	}
	return &api.Acceptance{CallName: f.name, Args: args}, nil
}

// acceptSuggested runs the DAG that is suggested, if nothing is missing.
func acceptSuggested(ctx context.Context, a *app.App, b app.Backend, req api.ExecuteRequest, o executeOptions) error {
	a.StartProgress()
	r, err := b.Execute(ctx, o.ask(a, req))
	if err != nil {
		return err
	}
	if r.Status != api.StatusSuggestions {
		return Settle(ctx, a, b, r, nil, o.wait)
	}
	s := r.Suggestions
	switch {
	case s == nil || s.SuggestedDAG == nil || len(s.SuggestedDAG.Tasks) == 0:
		why := "nothing fits it well enough"
		if s != nil && s.Error != "" {
			why = s.Error
		}
		return core.Errorf(core.CodeInvalidArguments, "no DAG is suggested for this intent: %s", why).WithNext("pml", "tools", "search", o.intent)
	case len(s.SuggestedDAG.Missing) > 0:
		return core.Errorf(core.CodeInvalidArguments, "the DAG that is suggested lacks %s; say them in the intent, or accept one tool with its arguments",
			missingText(s.SuggestedDAG.Missing)).WithNext("pml", "execute", "--intent", o.intent)
	}
	req.Accept = &api.Acceptance{Workflow: &api.WorkflowBody{Tasks: s.SuggestedDAG.Tasks}}
	return runRequest(ctx, a, b, req, o)
}

func missingText(list []api.MissingArgument) string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.TaskID + "." + m.Argument
	}
	return strings.Join(out, ", ")
}

// reportSuggestions shows what an intent could mean, and how to run it.
func reportSuggestions(a *app.App, r api.Result) error {
	s := r.Suggestions
	if s == nil {
		s = &api.Suggestions{}
	}
	if len(s.Tools) == 0 {
		text := "no tool fits this intent"
		if s.Error != "" {
			text = core.Visible(s.Error, 2000, false)
		}
		a.Say("%s", text)
		a.SayNext("pml", "tools", "ls")
		return nil
	}
	if err := a.Write(suggestionsText(a, s)); err != nil {
		return err
	}
	if d := s.SuggestedDAG; d != nil && len(d.Tasks) > 0 && len(d.Missing) == 0 {
		a.Note("run the DAG by adding --accept")
		return nil
	}
	a.Note("run a tool by adding --accept %s --args JSON", layout.ShellQuote(core.Visible(s.Tools[0].CallName, 0, false)))
	return nil
}

func suggestionsText(a *app.App, s *api.Suggestions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "confidence %.2f\n", s.Confidence)
	rows := make([][]string, 0, len(s.Tools))
	for _, t := range s.Tools {
		about, _, _ := strings.Cut(t.Description, "\n")
		rows = append(rows, []string{fmt.Sprintf("  %.2f", t.Score), core.Visible(t.CallName, 0, false), core.Visible(about, 0, false)})
	}
	b.WriteString(layout.Align(rows, a.LineLimit()))
	if s.SuggestedDAG == nil || len(s.SuggestedDAG.Tasks) == 0 {
		return b.String()
	}
	b.WriteString("DAG\n")
	rows = rows[:0]
	for _, t := range s.SuggestedDAG.Tasks {
		after := ""
		if len(t.DependsOn) > 0 {
			after = "after " + strings.Join(t.DependsOn, ", ")
		}
		rows = append(rows, []string{"  " + core.Visible(t.ID, 0, false), core.Visible(t.Tool, 0, false), layout.Compact(t.Arguments), core.Visible(after, 0, false)})
	}
	b.WriteString(layout.Align(rows, a.LineLimit()))
	for _, m := range s.SuggestedDAG.Missing {
		fmt.Fprintf(&b, "missing: %s of %s\n", core.Visible(m.Argument, 0, false), core.Visible(m.TaskID, 0, false))
	}
	return b.String()
}
