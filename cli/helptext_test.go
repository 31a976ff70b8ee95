package cli_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/where"
)

// Every page of help fits 80 columns, with its examples: a long command goes on below.
func TestHelp_Fits(t *testing.T) {
	t.Parallel()
	for path, text := range cli.HelpTexts() {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if n := layout.Width(line); n > 80 {
				t.Errorf("%s --help: %d columns: %s", path, n, line)
			}
		}
	}
}

// A paragraph with a line that is too wide is filled anew: no word of it stands
// alone in its middle.
func TestHelp_Refilled(t *testing.T) {
	t.Parallel()
	for path, text := range cli.HelpTexts() {
		long, _, _ := strings.Cut(text, "\nUsage:")
		lines := strings.Split(long, "\n")
		for i, line := range lines[:len(lines)-1] {
			if line != "" && lines[i+1] != "" && !strings.HasPrefix(line, " ") && !strings.ContainsAny(line, " :") {
				t.Errorf("%s --help: a line of one word, %q, before %q", path, line, lines[i+1])
			}
		}
	}
}

func TestHelp_Topics(t *testing.T) {
	t.Parallel()
	(&shell{}).run("help", "exit-codes").want(t, 0).has(t, "out", "8    somebody must decide", "124  --timeout")
	(&shell{}).run("help", "environment").want(t, 0).has(t, "out", "PML_HOME", "NO_COLOR")
	(&shell{}).run("help", "config").want(t, 0).has(t, "out", "approvals.decider", "pml config schema")
	(&shell{}).run("help", "programs").want(t, 0).has(t, "out", "depends_on", "mcp.SERVER.TOOL", `mcp.every["get-sum"]`, "structured content")
	(&shell{}).run("help", "json").want(t, 0).has(t, "out", "error_code", "context.arguments", "layers[].tasks[]", "at_terminal",
		"\n  state          queued", "\n  sent           what", "\n  aborted        true", "unchosen", "call_ids", "place", "computed", "\n  side ", "server.pid")
	for code := range app.ExitCodes {
		(&shell{}).run("help", "exit-codes").has(t, "out", string(code))
	}
	for _, topic := range []string{"json", "exit-codes", "environment", "programs", "config", "conditions"} {
		if out := (&shell{}).run("help", topic).out; strings.Contains(out, "docs/") {
			t.Errorf("help %s refers to a file that who has only the program has not:\n%s", topic, out)
		}
	}
	(&shell{}).run("--help").want(t, 0).has(t, "out", "exit-codes", "environment", "programs", "json")
	s := (&shell{tty: true, env: xterm}).run("--help").want(t, 0)
	if !strings.Contains(s.out, "\x1b[1mUsage:\x1b[0m") {
		t.Errorf("%q", s.out)
	}
}

// What help says of fields is what there is: each that it names is a field of the type, and
// every field of a task that can be written is named.
func TestHelp_Fields(t *testing.T) {
	t.Parallel()
	help := (&shell{}).run("help", "json").want(t, 0).out
	for _, tt := range []struct {
		after string
		typ   reflect.Type
	}{
		{"tools call print:", reflect.TypeFor[api.Result]()},
		{"A run (", reflect.TypeFor[core.Workflow]()},
		{"A task (", reflect.TypeFor[core.Task]()},
		{"An approval (", reflect.TypeFor[core.Approval]()},
		{"A row of the audit log", reflect.TypeFor[core.AuditRow]()},
	} {
		known := fieldsOf(tt.typ)
		_, text, ok := strings.Cut(help, tt.after)
		_, text, _ = strings.Cut(text, "\n\n")
		text, _, _ = strings.Cut(text, "\n\n")
		named := 0
		for line := range strings.SplitSeq(text, "\n") {
			words, _, _ := strings.Cut(strings.TrimPrefix(line, "  "), "  ")
			if strings.HasPrefix(words, " ") {
				continue
			}
			for name := range strings.SplitSeq(strings.TrimSpace(strings.TrimSuffix(words, ",")), ", ") {
				if name, _, _ = strings.Cut(name, " ("); name == "" {
					continue
				}
				if named++; !slices.Contains(known, name) {
					t.Errorf("%s %q is no field of %v", tt.after, name, tt.typ)
				}
			}
		}
		if !ok || named < 5 {
			t.Errorf("%s names %d fields", tt.after, named)
		}
	}
	programs := (&shell{}).run("help", "programs").want(t, 0).out
	for _, name := range fieldsOf(reflect.TypeFor[core.TaskSpec]()) {
		if name != "type" && !strings.Contains(programs, "\n  "+name+" ") {
			t.Errorf("help says nothing of %s of a task", name)
		}
	}
}

// fieldsOf are the names of a type's fields in JSON.
func fieldsOf(typ reflect.Type) (out []string) {
	for f := range typ.Fields() {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			out = append(out, fieldsOf(f.Type)...)
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
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

// What a condition may be is in the help: all functions that it has, and examples that are
// conditions.
func TestHelp_Conditions(t *testing.T) {
	t.Parallel()
	text := (&shell{}).run("help", "conditions").want(t, 0).has(t, "out", "annotations.read_only", "run.depth", "matches", "??", "list has no .length").out
	_, err := where.Compile("nothing(1) == 1", where.Request)
	_, names, _ := strings.Cut(err.Error(), "; there are ")
	for name := range strings.SplitSeq(names, ", ") {
		if !strings.Contains(text, strings.TrimSpace(name)) {
			t.Errorf("no function %s", name)
		}
	}
	examples := []string{"under(args.path, 'docs')", "size(args.content) > 5000", "args.team in ['ENG', 'OPS'] && !has(args.assignee)", "annotations.destructive || args.priority > 2"}
	for _, example := range examples {
		if _, err := where.Compile(example, where.Request); err != nil || !strings.Contains(text, "\n  "+example) {
			t.Errorf("%s: %v", example, err)
		}
	}
	for _, command := range []string{"allow", "ask", "deny", "test"} {
		(&shell{}).run("permissions", command, "--help").want(t, 0).has(t, "out", "pml help")
	}
}

// What is indented is written so that it fits: no word of it stands alone between lines.
func TestHelp_IndentedFits(t *testing.T) {
	t.Parallel()
	indent := func(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }
	for path, text := range cli.HelpTexts() {
		long, _, _ := strings.Cut(text, "\nUsage:")
		lines := strings.Split(long, "\n")
		for i := 1; i < len(lines)-1; i++ {
			if line := lines[i]; indent(line) > 2 && indent(line) == indent(lines[i+1]) && !strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s --help: a line of one word, %q, before %q", path, line, lines[i+1])
			}
		}
	}
}
