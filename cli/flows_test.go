package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func TestFlows(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.world.flows = []api.Flow{{
		ID: "docs", Name: "docs", File: "docs.json", State: "off", Text: `{"id":"docs","enabled":false,"x":1}`,
		Nodes: []api.FlowNode{{ID: "s", Type: "start"}, {ID: "e", Type: "end"}}, Edges: []api.FlowEdge{{Source: "s", Target: "e"}},
	}}
	(&shell{fake: f}).run("flows", "ls").want(t, 0).has(t, "out", "docs")
	(&shell{fake: f}).run("flows", "show", "docs").want(t, 0).has(t, "out", "→ [end] e")
	(&shell{fake: f}).run("flows", "test", "docs", "--tool", "fs:w").want(t, 0).has(t, "out", "blocked  fs:w")
	(&shell{fake: f}).run("flows", "test", "docs", "--record", "@latest").want(t, 0).has(t, "out", "2 calls of the run", "2 passed")
	(&shell{fake: f}).run("flows", "test", "docs", "--since", "7d").want(t, 0).has(t, "out", "0 calls", "calls that still wait are not tried", "--tool server:tool")
	(&shell{fake: f}).run("flows", "test", "docs").want(t, 2)
	(&shell{fake: f}).run("flows", "test", "docs", "--tool", "fs:w", "--since", "7d").want(t, 2)
	f.world.flows = append(f.world.flows, api.Flow{ID: "hide", Name: "hide", File: "hide.json", Type: "tools/list"})
	(&shell{fake: f}).run("flows", "test", "hide", "--tool", "fs:w").want(t, 2).has(t, "err", "--list")
	(&shell{fake: f}).run("flows", "test", "docs", "--list", "fs").want(t, 2).has(t, "err", "--list")
	(&shell{fake: f}).run("flows", "test", "hide", "--list", "fs").want(t, 0).has(t, "out", "changed  fs", "hidden: write\n", "changed: read\n", "as they are: stat\n")
	(&shell{fake: f}).run("flows", "new", "x", "--template", "none").want(t, 2)
	(&shell{fake: f}).run("flows", "new", "x", "--template", "taint", "--global").want(t, 0)
	(&shell{fake: f}).run("flows", "enable", "docs").want(t, 0).has(t, "err", "pml trust")
	saved := f.world.saved
	if len(saved) != 2 || !saved[0].Home || saved[0].Name != "x.json" || !strings.Contains(string(saved[1].Text), `"x":1`) || !strings.Contains(string(saved[1].Text), `"enabled":true`) {
		t.Errorf("%+v", saved)
	}
}

// A file without a hook that pml can run leads nowhere, and says why.
func TestFlows_ImportNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, `{"hooks":{}}`, `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"echo"}]}]}}`} {
		file := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := (&shell{fake: &fake{}}).run("flows", "import", "--claude", file).want(t, 13).has(t, "err", "nothing was written", "settings.json has no hook around calls of MCP tools")
		if strings.Contains(r.err, "next:") {
			t.Errorf("%s", r.err)
		}
	}
}

// What somebody has written is not lost when it has faults: it is opened again as it was
// left, until it has none or they give up.
func TestFlows_EditAgain(t *testing.T) {
	t.Parallel()
	faults := core.Errorf(core.CodeInvalidConfig, "the flow has faults")
	faults.Faults = []core.Fault{{Path: "/nodes/0", Message: "is no start"}}
	f := &fake{failWith: faults}
	f.world.flows = []api.Flow{{ID: "docs", Name: "docs", File: "docs.json", State: "on", Text: `{}`}}
	var opened []string
	s := &shell{fake: f, tty: true, stdin: "y\nn\n", edit: func(_ context.Context, _, text string) (string, error) {
		opened = append(opened, text)
		return text + "x", nil
	}}
	s.run("flows", "edit", "docs").want(t, 13).has(t, "err", "is no start", "open what you wrote again?")
	if len(opened) != 2 || opened[1] != "{}x" || len(f.world.saved) != 2 || string(f.world.saved[1].Text) != "{}xx" {
		t.Errorf("%q %+v", opened, f.world.saved)
	}
}
