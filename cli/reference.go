package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
)

// WriteReference writes the commands with their flags as Markdown, for
// docs/reference.md.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	root := root(app.New(app.Deps{Stdout: io.Discard, Stderr: io.Discard}))
	b.WriteString("Every command takes these:\n\n")
	writeFlags(&b, root.PersistentFlags())
	writeCommands(&b, root)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCommands(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if c.HasSubCommands() {
			writeCommands(b, c)
			continue
		}
		fmt.Fprintf(b, "\n### `%s`\n\n%s.\n", strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short)
		if c.LocalNonPersistentFlags().HasAvailableFlags() {
			b.WriteString("\n")
			writeFlags(b, c.LocalNonPersistentFlags())
		}
	}
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | what |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + strings.ToUpper(kind)
		}
		if def := f.DefValue; def != "" && def != "false" && def != "[]" && def != "0" && def != "0s" && !strings.Contains(usage, def) {
			usage += " (default " + def + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`))
	})
}
