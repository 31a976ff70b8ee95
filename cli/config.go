package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

func configCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "config",
		Short: "The configuration: effective values, schema, files, PIN",
		Long: `Shows the configuration that is in effect, the JSON Schema of .pml.json, and where
the files are; sets the PIN that approvals ask for.

What counts, the first that says something: flags, environment variables
(pml help environment), .pml.json of the workspace once you have trusted it
(pml trust), config.json of pml's home. Restrictions of both files add up.

  mcpServers         the servers, as in the settings of an agent host
  permissions        allow, ask and deny: lists of patterns like fs:read_*
  approvals.decider  human: only people decide; any: agents may pass a yes on
  approvals.ttl      how long an approval stays open (5m, 0: always); one that
                     has expired can still be decided, and pml first checks
                     that the question is the same
  limits             time, memory, calls and sizes of runs

"pml config schema" has every setting with what it means.`,
		Example: "  pml config show\n  pml config schema > pml.schema.json\n  pml config path\n  pml config pin",
	}, configShowCmd(a), configSchemaCmd(a), configPathCmd(a), configPinCmd(a))
}

func configShowCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Print the configuration that is in effect",
		Long:    "Prints what flags, environment, workspace and home add up to, as JSON. Secrets are left out.",
		Example: "  pml config show -o yaml",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			raw, err := b.Config(ctx)
			if err != nil {
				return err
			}
			app.NoteTrust(ctx, a, b)
			return printJSON(a, raw)
		}),
	}
}

// configSchemaCmd opens nothing, so that it helps with a file that does not load.
func configSchemaCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of .pml.json",
		Long:    "Prints the JSON Schema (2020-12) of .pml.json and config.json, for editors.",
		Example: "  pml config schema > pml.schema.json",
		Args:    app.MaxArgs(0),
		RunE:    func(*cobra.Command, []string) error { return printJSON(a, env.Schema()) },
	}
}

// printJSON prints a document that is JSON for people as well.
func printJSON(a *app.App, raw []byte) error {
	if a.Human() {
		return a.Write(a.SafeJSON(layout.Indent(raw)) + "\n")
	}
	return a.Encode(rawJSON(raw), a.Format())
}

// rawJSON encodes as the JSON it is.
type rawJSON []byte

// MarshalJSON returns the document itself.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func configPathCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print where the files are",
		Long:    "Prints the paths of the files and folders that pml reads here. They need not exist.",
		Example: "  pml config path --json",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			p, err := b.Paths(ctx)
			if err != nil {
				return err
			}
			return a.Print(p, func(w *strings.Builder) {
				for _, kv := range [][2]string{
					{"workspace", p.Workspace}, {"config", p.Config}, {"lock", p.Lock}, {"home", p.Home}, {"home config", p.HomeConfig},
				} {
					fmt.Fprintf(w, "%-12s %s\n", kv[0], core.Visible(kv[1], 0, false))
				}
			})
		}),
	}
}
