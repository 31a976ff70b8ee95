//go:build unix

package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestFlowsPage: the commands of docs/flows.md, as one script in an empty workspace with
// one call of the past, do what the page says.
func TestFlowsPage(t *testing.T) {
	t.Parallel()
	shell := skiptest.Tool(t, "sh")
	page, err := os.ReadFile("docs/flows.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/flows.md has no commands")
	}
	// A person types yes after pml trust has shown what it is about.
	script := "set -eu\npml() { case \"$*\" in trust) command pml trust --yes;; *) command pml \"$@\";; esac; }\n"
	for _, b := range blocks {
		script += b[1]
	}

	m := pmltest.BareMachine(t)
	m.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"workspace:*"}}})
	const outside = `return await mcp.workspace.write_file({path: "past.txt", content: "x"})`
	m.Execute(0, outside)
	bin := filepath.Join(m.Dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.Binary(), filepath.Join(bin, "pml")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), shell, "-c", script)
	cmd.Dir, cmd.Env = m.WS, append(m.Env, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	pmltest.Wants(t, string(out), "asked  workspace:write_file", "This writes outside of docs.", "1 call since", "1 asked", "trusted ")

	r := m.Execute(8, outside)
	if len(r.Pending) != 1 || r.Pending[0].Type != core.ApproveTool || !strings.Contains(r.Pending[0].Description, "This writes outside of docs.") {
		t.Errorf("%+v", r.Pending)
	}
	m.Write("docs/a.md", "a")
	m.Execute(0, `return await mcp.workspace.write_file({path: "docs/b.md", content: "x"})`)
}
