package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// A program that finds by itself what it runs is said to, where it looks first is
// covered by the trust, and a flow of the home may not start it in a workspace.
func TestFlowPrograms_Find(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line []string
		file string // where it looks; empty: it finds nothing
		by   string
	}{
		"NPM":       {[]string{"npm", "run", "guard"}, "package.json", "npm"},
		"Path":      {[]string{"/usr/bin/make", "-s", "guard"}, "Makefile", "make"},
		"Folder":    {[]string{"make", "-C", "tools"}, "tools/Makefile", "make"},
		"Shell":     {[]string{"bash", "-c", "cd tools && make guard"}, "tools/Makefile", "make"},
		"Wrapper":   {[]string{"env", "X=1", "npm", "run", "x"}, "package.json", "npm"},
		"Module":    {[]string{"python3", "-m", "hooks.guard"}, "hooks/guard.py", "python3 -m"},
		"Package":   {[]string{"python3.12", "-B", "-mhooks"}, "hooks/__main__.py", "python3.12 -m"},
		"Around":    {[]string{"python", "-m", "hooks.guard"}, "hooks/__init__.py", "python -m"},
		"Script":    {[]string{"python3", "/opt/guard.py", "-m", "x"}, "", ""},
		"Argument":  {[]string{"/opt/notify", "make", "task"}, "", ""},
		"Shell2":    {[]string{"bash", "-c", "exec /opt/guard"}, "", ""},
		"Elsewhere": {[]string{"/opt/guard"}, "", ""},
	} {
		dir := t.TempDir()
		put := func(content string) {
			if tt.file == "" {
				return
			}
			at := filepath.Join(dir, tt.file)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("as trusted")
		n := &flow.Node{ID: "x", Type: flow.TypeCommand, Data: flow.Data{Command: &flow.Command{Command: tt.line[0], Args: tt.line[1:]}}}
		f := &flow.Flow{File: "f.json", Nodes: []*flow.Node{n}}
		c := &Config{Workspace: Workspace{Dir: dir}, workFlows: &flow.Folder{Flows: []*flow.Flow{f}}}
		c.readPrograms()
		if err := c.CheckProgram(f, n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		put("swapped")
		finds := tt.by != ""
		if err := c.CheckProgram(f, n); finds != (core.CodeOf(err) == core.CodeNotTrusted) {
			t.Errorf("%s: swapped: %v", name, err)
		}
		warnings := strings.Join(c.FlowWarnings(), "\n")
		if finds != strings.Contains(warnings, "flow f.json, node x: of high risk: runs whatever "+tt.by+" finds") || !finds && warnings != "" {
			t.Errorf("%s: %q", name, warnings)
		}
		if err := c.CheckProgram(&flow.Flow{Home: true}, n); finds != (core.CodeOf(err) == core.CodeInvalidConfig) {
			t.Errorf("%s: of the home: %v", name, err)
		}
	}
}

// A relative program of a flow of the home is one of the home, whatever the workspace has.
func TestFlowPrograms_OfTheHome(t *testing.T) {
	t.Parallel()
	work, home := t.TempDir(), t.TempDir()
	for _, at := range []string{filepath.Join(work, "guard.sh"), filepath.Join(home, "guard.sh")} {
		if err := os.WriteFile(at, []byte("exit 0"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := &Config{Workspace: Workspace{Dir: work}, Home: Home{Dir: home}}
	for name, tt := range map[string]struct {
		command flow.Command
		want    string
		refused bool
	}{
		"Program":  {flow.Command{Command: "./guard.sh", Args: []string{"-x"}}, filepath.Join(home, "guard.sh") + " -x", false},
		"Variable": {flow.Command{Command: "sh", Args: []string{"${PML_HOME}/guard.sh"}}, "sh " + home + "/guard.sh", false},
		"Argument": {flow.Command{Command: "sh", Args: []string{"guard.sh"}}, "sh guard.sh", true},
		"Project":  {flow.Command{Command: "sh", Args: []string{"${CLAUDE_PROJECT_DIR}/guard.sh"}}, "sh " + work + "/guard.sh", true},
	} {
		f := &flow.Flow{Home: true}
		if got := strings.Join(f.CommandLine(&tt.command, work, home), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		err := c.CheckProgram(f, &flow.Node{Type: flow.TypeCommand, Data: flow.Data{Command: &tt.command}})
		if tt.refused != (core.CodeOf(err) == core.CodeInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	of := &flow.Flow{}
	if got := of.CommandLine(&flow.Command{Command: "./guard.sh", Args: []string{"${PML_HOME}"}}, work, home); got[0] != "./guard.sh" || got[1] != "${PML_HOME}" {
		t.Errorf("of the workspace: %v", got)
	}
}
