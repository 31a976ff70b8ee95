package claude_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook/claude"
)

var update = flag.Bool("update", false, "write the golden file")

func imported(t *testing.T, text string, root string) (claude.Imported, *flow.Folder) {
	t.Helper()
	im, err := claude.Import([]byte(text), claude.Options{PluginRoot: root, Now: time.UnixMilli(1767323045000)})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range im.Flows {
		files[f.Name] = f.Text
	}
	folder := flow.Parse(files, false)
	for _, f := range folder.Flows {
		if len(f.Faults) > 0 {
			t.Errorf("%s: %v", f.File, f.Faults)
		}
	}
	return im, folder
}

// A settings file in the shape of real ones: what becomes a flow, and what does not.
func TestImport(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile("testdata/settings.json")
	if err != nil {
		t.Fatal(err)
	}
	im, _ := imported(t, string(settings), "/plugins/scan")
	var b strings.Builder
	for _, f := range im.Flows {
		b.WriteString("-- " + f.Name + " --\n" + string(f.Text))
	}
	b.WriteString("-- left out --\n" + strings.Join(im.Left, "\n") + "\n")
	const golden = "testdata/settings.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v: it is now\n%s", err, b.String())
	}
}

// A matcher of Claude Code matches the same tools as the flow that it has become.
func TestImport_Matchers(t *testing.T) {
	t.Parallel()
	tools := []string{"git:push", "git:push_all", "files:write_file", "files:read_file", "memory:create_entities", "tickets:delete_ticket"}
	for matcher, want := range map[string]string{
		"":                             strings.Join(tools, " "),
		"*":                            strings.Join(tools, " "),
		".*":                           strings.Join(tools, " "),
		"mcp__.*":                      strings.Join(tools, " "),
		"Bash|mcp__.*":                 strings.Join(tools, " "),
		"mcp__git__push":               "git:push",
		"mcp__git__push$|x.y":          "-",
		"^mcp__git__push$":             "git:push",
		"^mcp__git__push":              "git:push git:push_all",
		"mcp__git__.*|mcp__memory__.+": "git:push git:push_all memory:create_entities",
		"mcp__.*__write.*":             "files:write_file",
		"mcp__files.*":                 "files:write_file files:read_file",
		".*delete.*":                   "tickets:delete_ticket",
		"mcp__git":                     "git:push git:push_all", // hosts match nothing by it, and its author means the server
		"Bash":                         "-",
		"Edit|Write":                   "-",
		"Notebook.*":                   "-",
		"mcp__[a-z]+__push":            "-",
		"mcp__(git|files)__.*":         "-",
	} {
		_, folder := imported(t, `{"hooks":{"PreToolUse":[{"matcher":"`+matcher+`","hooks":[{"type":"command","command":"true"}]}]}}`, "")
		got := "-"
		if len(folder.Flows) > 0 {
			set := flow.NewSet(nil, folder, true)
			got = strings.Join(slices.DeleteFunc(slices.Clone(tools), func(tool string) bool { return !set.Matches(tool) }), " ")
		}
		if got != want {
			t.Errorf("%q matches %q, want %q", matcher, got, want)
		}
	}
}

func TestImport_Faults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `[]`, `{"hooks":[]}`, `{"hooks":{"PreToolUse":{}}}`} {
		if _, err := claude.Import([]byte(text), claude.Options{}); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzImport(f *testing.F) {
	f.Add(`{"hooks":{"PreToolUse":[{"matcher":"mcp__.*","hooks":[{"type":"command","command":"x","timeout":1e300}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		im, err := claude.Import([]byte(text), claude.Options{})
		if err != nil {
			return
		}
		files := map[string][]byte{}
		for _, file := range im.Flows {
			files[file.Name] = file.Text
		}
		if len(flow.Parse(files, false).Flows) != len(im.Flows) {
			t.Errorf("%d flows of %q", len(im.Flows), text)
		}
	})
}
