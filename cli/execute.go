package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type executeOptions struct {
	source   source
	input    string
	inputSet bool
	intent   string
	perLayer bool
	hil      string
	key      string
	detach   bool
	accept   acceptFlags
	wait     waitFlags
}

func (a *app) executeCmd() *cobra.Command {
	var o executeOptions
	cmd := &cobra.Command{
		Use:   "execute [FILE|-]",
		Short: "Run code or a DAG",
		Long: `Runs a script (.ts, .js, .mts, .mjs) or a DAG (.json, .yaml, .yml) and prints
its result. Standard input (-) is a DAG when it is an object with tasks, else
code. A run that needs a decision stops, is kept, and goes on with
"pml continue"; the exit code is then 8.

With --detach a server runs it, so that it outlives this command; one is started
in the background where none runs. Its id is printed at once, also of a run that
the --idempotency-key has started before; --wait waits for the result. With --intent and nothing to run, tools and a DAG are suggested;
--accept runs that DAG when nothing is missing, --accept TOOL --args JSON a tool.`,
		Example: `  pml execute script.ts --input '{"path":"a.txt"}'
  pml execute flow.yaml --per-layer
  pml execute nightly.ts --detach
  pml execute --intent "list the files of src" --accept
  pml execute --code 'return await mcp.workspace.list_directory({path: "."})'
  generate-dag | pml execute - --json --on-approval exit`,
		Args:              maxArgs(1),
		ValidArgsFunction: programFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.accept.read(cmd, &args)
			if len(args) > 0 {
				o.source.file = args[0]
			}
			o.source.codeSet = cmd.Flags().Changed("code")
			o.inputSet = cmd.Flags().Changed("input")
			if err := notEmpty(cmd, "idempotency-key"); err != nil {
				return err
			}
			if err := o.wait.check(a, cmd, false); err != nil {
				return err
			}
			if o.detach {
				o.wait.detach(cmd)
			}
			return a.execute(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.source.code, "code", "", "run this code")
	f.StringVar(&o.input, "input", "", "the script's input: JSON, or @FILE")
	f.StringVar(&o.intent, "intent", "", "what is wanted, in words: without a program tools are suggested, with one it is a label")
	f.BoolVar(&o.perLayer, "per-layer", false, "stop after each layer")
	f.StringVar(&o.hil, "hil", "", "ask before a layer: always, side_effects or never (default never)")
	f.StringVar(&o.key, "idempotency-key", "", "a second execute with the same key and the same program gives the run of the first; another program is refused")
	f.BoolVar(&o.detach, "detach", false, "let a server run it, and do not wait for the end")
	o.accept.add(f)
	a.addWaitFlags(cmd, &o.wait, true)
	_ = cmd.RegisterFlagCompletionFunc("hil", fixed(hilModes...))
	return cmd
}

var hilModes = []string{string(core.HILAlways), string(core.HILSideEffects), string(core.HILNever)}

// programFiles completes the names of files that can be run.
func programFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"ts", "js", "mts", "mjs", "json", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

func (a *app) execute(ctx context.Context, o executeOptions) error {
	if !core.HIL(o.hil).Valid() {
		return oneOf("hil", o.hil, hilModes...)
	}
	if o.source.file == "" && !o.source.codeSet && (o.intent != "" || o.accept.name != "") {
		return a.executeIntent(ctx, o)
	}
	if o.accept.set {
		return usagef("--accept runs what was suggested for an --intent; it does not go with a program")
	}
	if err := o.source.check("execute"); err != nil {
		return err
	}
	if o.source.file == "-" && o.input == "@-" {
		return usagef("standard input cannot be both the program and its --input")
	}
	p, err := a.readProgram(o.source)
	if err != nil {
		return err
	}
	a.file = p.file
	input, err := a.executeInput(o)
	if err != nil {
		return err
	}
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	req, err := p.request(b, input)
	if err != nil {
		return err
	}
	if err := a.runRequest(ctx, b, req, o); err != nil {
		return inFile(err, p.file, p.places)
	}
	return nil
}

func (a *app) executeInput(o executeOptions) (json.RawMessage, error) {
	if !o.inputSet {
		return nil, nil
	}
	return a.readJSON("input", o.input)
}

// ask fills in what the flags say of a request.
func (o executeOptions) ask(a *app, req api.ExecuteRequest) api.ExecuteRequest {
	req.Intent, req.PerLayer, req.HIL = o.intent, o.perLayer, core.HIL(o.hil)
	req.IdempotencyKey, req.By, req.Detach = o.key, a.actor(), o.detach
	req.Wait, req.HoldApprovals = o.wait.limit(a), o.wait.hold()
	req.Started = a.progress.begun
	return req
}

// runRequest executes a request and follows the run to the end of the command.
func (a *app) runRequest(ctx context.Context, b Backend, req api.ExecuteRequest, o executeOptions) error {
	a.progress.start()
	if o.wait.hold() {
		a.progress.wait()
	}
	r, err := b.Execute(ctx, o.ask(a, req))
	if err != nil {
		return err
	}
	return a.settle(ctx, b, r, nil, o.wait)
}
