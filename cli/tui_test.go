package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

// TestTui_PlainBy: the dialogue of lines knows what asked for it.
func TestTui_PlainBy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"Flag":     {[]string{"--plain"}, map[string]string{"PML_PLAIN": "1", "TERM": "dumb"}, "--plain"},
		"Variable": {nil, map[string]string{"PML_PLAIN": "1", "TERM": "dumb"}, "PML_PLAIN"},
		"Dumb":     {nil, map[string]string{"PML_PLAIN": "0", "TERM": "dumb"}, "TERM=dumb"},
		"Nothing":  {nil, map[string]string{"TERM": "xterm"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got app.TerminalOptions
			var out, errs bytes.Buffer
			code := cli.Main(context.Background(), append([]string{"tui"}, c.args...), app.Deps{
				Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, StdinTTY: true, StdoutTTY: true, StderrTTY: true,
				Width:   func() int { return 80 },
				Environ: func(n string) (string, bool) { v, ok := c.env[n]; return v, ok },
				Clock:   clock{}, User: "ann",
				Terminal: func(_ context.Context, o app.TerminalOptions) ([]core.ID, error) { got = o; return nil, nil },
			})
			if code != 0 || got.PlainBy != c.want || got.Plain != (c.want != "") {
				t.Errorf("exit code %d, plain %v by %q, want %q: %s", code, got.Plain, got.PlainBy, c.want, errs.String())
			}
		})
	}
}
