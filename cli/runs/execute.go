// Package runs holds the commands about runs: execute and what goes on with a run,
// plan, workflows, approvals and events.
package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type executeOptions struct {
	source   program.Source
	input    string
	inputSet bool
	intent   string
	name     string
	perLayer bool
	hil      string
	key      string
	detach   bool
	accept   acceptFlags
	wait     WaitFlags
}

// ExecuteCmd is pml execute.
func ExecuteCmd(a *app.App) *cobra.Command {
	var o executeOptions
	cmd := &cobra.Command{
		Use:     "execute [FILE|-]",
		Aliases: []string{"run"},
		Short:   "Run code or a DAG; pml run is the same",
		Long: `Runs a script (.ts, .js, .mts, .mjs) or a DAG (.json, .yaml, .yml) and prints
its result. Standard input (-) is a DAG if it is an object with tasks, otherwise
code. When a call needs a decision, pml keeps the run, exits with 8, and
"pml continue" takes it up again.

--detach lets a server run it, so that it outlives this command; pml starts one
in the background if none is running. It prints the ID at once; --wait waits for
the result. With --idempotency-key, the same key and program return the run that
was started first instead of starting another.

Without a program, --intent suggests tools and a DAG for a goal. --accept runs
that DAG if nothing is missing; --accept TOOL --args JSON runs one tool.`,
		Example: `  pml run script.ts
  pml execute script.ts --input '{"path":"a.txt"}'
  pml execute flow.yaml --per-layer
  pml execute nightly.ts --detach --name "nightly report"
  pml execute --intent "list the files of src" --accept
  pml execute --code 'return await mcp.workspace.list_directory({path: "."})'
  generate-dag | pml execute - --json --on-approval exit`,
		Args:              app.MaxArgs(1),
		ValidArgsFunction: programFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.accept.read(cmd, &args)
			if len(args) > 0 {
				o.source.File = args[0]
			}
			o.source.CodeSet = cmd.Flags().Changed("code")
			o.inputSet = cmd.Flags().Changed("input")
			if err := app.NotEmpty(cmd, "idempotency-key"); err != nil {
				return err
			}
			if err := o.wait.Check(a, cmd, false); err != nil {
				return err
			}
			if o.detach {
				o.wait.detach(cmd)
			}
			return execute(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.source.Code, "code", "", "run this code")
	f.StringVar(&o.input, "input", "", "the script's input: JSON, or @FILE")
	f.StringVar(&o.intent, "intent", "", "the goal in words: without a program, suggest tools; with one, a label for the run")
	f.StringVar(&o.name, "name", "", "what to call the run (default the intent, else the file, else the first call)")
	f.BoolVar(&o.perLayer, "per-layer", false, "pause after each layer; pml continue goes on")
	f.StringVar(&o.hil, "hil", "", "ask before a layer: always, side_effects or never (default never)")
	f.StringVar(&o.key, "idempotency-key", "", "a second execute with the same key and the same program gives the run of the first; another program is refused")
	f.BoolVar(&o.detach, "detach", false, "let a server run it, and do not wait for the end")
	o.accept.add(f)
	AddWaitFlags(cmd, &o.wait, true)
	_ = cmd.RegisterFlagCompletionFunc("hil", app.CompleteFixed(hilModes...))
	return cmd
}

var hilModes = []string{string(core.HILAlways), string(core.HILSideEffects), string(core.HILNever)}

// programFiles completes the names of files that can be run.
func programFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"ts", "js", "mts", "mjs", "json", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

func execute(ctx context.Context, a *app.App, o executeOptions) error {
	if !core.HIL(o.hil).Valid() {
		return app.OneOf("hil", o.hil, hilModes...)
	}
	if o.source.File == "" && !o.source.CodeSet && (o.intent != "" || o.accept.name != "") {
		return executeIntent(ctx, a, o)
	}
	if o.accept.set {
		return app.Usagef("--accept runs what was suggested for an --intent; it does not go with a program")
	}
	if err := o.source.Check("execute"); err != nil {
		return err
	}
	if o.source.File == "-" && o.input == "@-" {
		return app.Usagef("standard input cannot be both the program and its --input")
	}
	p, err := program.Read(ctx, a, o.source)
	if err != nil {
		return err
	}
	a.File = p.File
	input, err := executeInput(ctx, a, o)
	if err != nil {
		return err
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	req, err := p.Request(b, input)
	if err != nil {
		return err
	}
	if err := runRequest(ctx, a, b, req, o); err != nil {
		return p.Locate(err)
	}
	return nil
}

func executeInput(ctx context.Context, a *app.App, o executeOptions) (json.RawMessage, error) {
	if !o.inputSet {
		return nil, nil
	}
	return program.ReadJSON(ctx, a, "input", o.input)
}

// ask fills in what the flags say of a request.
func (o executeOptions) ask(a *app.App, req api.ExecuteRequest) api.ExecuteRequest {
	req.Intent = cmp.Or(o.intent, req.Intent) // a DAG may have one of its own
	req.Name, req.PerLayer, req.HIL = o.name, o.perLayer, core.HIL(o.hil)
	req.IdempotencyKey, req.By, req.Detach = o.key, a.Actor(), o.detach
	req.Wait, req.HoldApprovals = o.wait.Limit(a), o.wait.hold()
	req.Started = a.Progress.Begun
	return req
}

// sayWarnings says on stderr what the plan of a run that has begun warns of; output for
// programs has it in the result.
func sayWarnings(a *app.App, list []core.PlanNote) {
	if !a.Human() {
		return
	}
	var w strings.Builder
	writeNotes(&w, "warning", list)
	if text := strings.TrimSuffix(w.String(), "\n"); text != "" {
		a.Say("%s", text)
	}
}

// runRequest executes a request and follows the run to the end of the command.
func runRequest(ctx context.Context, a *app.App, b app.Backend, req api.ExecuteRequest, o executeOptions) error {
	app.NoteTrust(ctx, a, b)
	a.StartProgress()
	defer holding(ctx, a, b, o.wait)()
	req = o.ask(a, req)
	said := false
	req.Warned = func(list []core.PlanNote) {
		said = true
		sayWarnings(a, list)
	}
	r, err := b.Execute(ctx, req)
	if err != nil {
		return err
	}
	if !said { // the server runs it
		sayWarnings(a, r.Warnings)
	}
	o.wait.warnings = r.Warnings
	return Settle(ctx, a, b, r, nil, o.wait)
}
