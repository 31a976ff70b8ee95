package cli_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
)

// Every page of help fits 80 columns; only examples, which are to be copied, may
// be longer.
func TestHelp_Fits(t *testing.T) {
	t.Parallel()
	for path, text := range cli.HelpTexts() {
		examples := false
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if !strings.HasPrefix(line, " ") {
				examples = line == "Examples:"
			}
			if n := layout.Width(line); n > 80 && !examples {
				t.Errorf("%s --help: %d columns: %s", path, n, line)
			}
		}
	}
}

func TestHelp_Topics(t *testing.T) {
	t.Parallel()
	(&shell{}).run("help", "exit-codes").want(t, 0).has(t, "out", "8    somebody must decide", "124  --timeout")
	(&shell{}).run("help", "environment").want(t, 0).has(t, "out", "PML_HOME", "NO_COLOR")
	(&shell{}).run("help", "config").want(t, 0).has(t, "out", "approvals.decider", "pml config schema")
	(&shell{}).run("--help").want(t, 0).has(t, "out", "exit-codes", "environment")
	s := (&shell{tty: true, env: xterm}).run("--help").want(t, 0)
	if !strings.Contains(s.out, "\x1b[1mUsage:\x1b[0m") {
		t.Errorf("%q", s.out)
	}
}

// Words of other programs lead to what people mean by them.
func TestTypos(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"ls": "pml workflows ls", "list": "pml workflows ls", "logs": "pml workflows logs", "install": "pml servers install", "update": "pml servers update",
	} {
		(&shell{}).run(word).want(t, 2).has(t, "err", "did you mean "+want, "next: "+want)
	}
	root := cli.Root(app.Deps{})
	for word, meant := range app.MeantBy {
		var path []string
		for _, part := range meant[1:] {
			if !strings.HasPrefix(part, "-") && !strings.HasPrefix(part, "@") {
				path = append(path, part)
			}
		}
		if found, _, err := root.Find(path); err != nil || found.CommandPath() != "pml "+strings.Join(path, " ") {
			t.Errorf("%s leads to %v, which is not there", word, meant)
		}
		if found, _, err := root.Find([]string{word}); err == nil && found != root {
			t.Errorf("%s is a command: %s", word, found.CommandPath())
		}
	}
}
