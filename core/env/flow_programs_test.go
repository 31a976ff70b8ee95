package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// The trust in a flow covers the files of the workspace that it starts.
func TestFlowPrograms(t *testing.T) {
	t.Parallel()
	command := func(command string, args ...string) *flow.Node {
		return &flow.Node{ID: "x", Type: flow.TypeCommand, Data: flow.Data{Command: &flow.Command{Command: command, Args: args, Env: map[string]string{"ROOT": ""}}}}
	}
	with := func(env map[string]string, line string) *flow.Node {
		return &flow.Node{ID: "x", Type: flow.TypeCommand, Data: flow.Data{Command: &flow.Command{Command: "bash", Args: []string{"-c", line}, Env: env}}}
	}
	for name, tt := range map[string]struct {
		node   *flow.Node
		covers bool
	}{
		"Relative":   {command("./hooks/guard.sh"), true},
		"Argument":   {command("node", "hooks/guard.sh", "--strict"), true},
		"Shell":      {command("bash", "-c", "exec hooks/guard.sh --x"), true},
		"Chained":    {command("bash", "-c", "true;hooks/guard.sh|cat"), true},
		"Variable":   {command("bash", "-c", `uv run "$CLAUDE_PROJECT_DIR"/hooks/guard.sh`), true},
		"Braces":     {command("bash", "-c", `"${CLAUDE_PROJECT_DIR}/hooks/guard.sh"`), true},
		"Exec":       {command("node", "${CLAUDE_PROJECT_DIR}/hooks/guard.sh"), true},
		"Prefix":     {with(map[string]string{"H": "x", "HO": "y", "HOOKS": "hooks"}, "$HOOKS/guard.sh"), true},
		"Nested":     {with(map[string]string{"ROOT": "${CLAUDE_PROJECT_DIR}/hooks"}, "exec $ROOT/guard.sh"), true},
		"NotThere":   {command("./hooks/later.sh"), true},
		"Elsewhere":  {command("/bin/true", "../hooks/guard.sh"), false},
		"NoProgram":  {command("true"), false},
		"OtherNodes": {&flow.Node{ID: "x", Type: flow.TypeHTTP}, false},
	} {
		dir := t.TempDir()
		write := func(name, content string) {
			if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "hooks", name), []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		write("guard.sh", "exit 2")
		mine := &flow.Flow{Home: true}
		c := &Config{Workspace: Workspace{Dir: dir}, workFlows: &flow.Folder{Flows: []*flow.Flow{{Nodes: []*flow.Node{tt.node}}}}}
		c.readPrograms()
		if err := c.CheckProgram(&flow.Flow{}, tt.node); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		write("guard.sh", "exit 0")
		write("later.sh", "exit 0")
		err := c.CheckProgram(&flow.Flow{}, tt.node)
		if tt.covers != (core.CodeOf(err) == core.CodeNotTrusted) || err != nil && !tt.covers {
			t.Errorf("%s: after a change: %v", name, err)
		}
		if err := c.CheckProgram(mine, tt.node); tt.covers != (core.CodeOf(err) == core.CodeInvalidConfig) {
			t.Errorf("%s: of the home: %v", name, err)
		}
	}
}

// A file that a flow starts is part of what a person trusts.
func TestFlowPrograms_Trust(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	files := map[string]string{
		".pml/flows/guard.json": `{"id":"g","name":"G","nodes":[{"id":"s","type":"start","data":{}},{"id":"x","type":"command","data":{"command":{"command":"sh","args":["guard.sh"]}}},
{"id":"c","type":"mcp-call","data":{}},{"id":"e","type":"end","data":{}}],"edges":[{"source":"s","target":"x"},{"source":"x","target":"c"},{"source":"c","target":"e"}]}`,
		"guard.sh": "exit 2",
	}
	write := func() {
		for name, content := range files {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	var now *Config
	state := func() TrustState {
		t.Helper()
		c, err := Load(LoadOptions{Workspace: Workspace{Dir: dir}, Home: Home{Dir: home}, Environ: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Home{Dir: home}.TrustOf(c)
		if err != nil {
			t.Fatal(err)
		}
		now = c.Effective(s.Counts())
		return s
	}
	s := state()
	if !strings.Contains(s.Content, `"guard.sh": "`) {
		t.Errorf("it is not shown: %s", s.Content)
	}
	if err := (Home{Dir: home}).SetTrust(s, s.Digest, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if !state().Trusted {
		t.Error("it is not trusted")
	}
	_, work := now.HookFlows()
	guard, of := work.Flow("g"), work.Flow("g").Node("x")
	if err := now.CheckProgram(guard, of); err != nil {
		t.Error(err)
	}
	files["guard.sh"] = "exit 0"
	if write(); state().Trusted {
		t.Error("it is trusted after the program was swapped")
	}
	// The flow as it was trusted, when the configuration has been read again since.
	if err := now.CheckProgram(guard, of); core.CodeOf(err) != core.CodeNotTrusted {
		t.Errorf("the swapped program may start: %v", err)
	}
	// What cannot be read whole is never known to be what was trusted.
	if err := os.Truncate(filepath.Join(dir, "guard.sh"), maxProgram+1); err != nil {
		t.Fatal(err)
	}
	if s = state(); (Home{Dir: home}).SetTrust(s, s.Digest, time.Unix(2, 0)) != nil || !state().Trusted {
		t.Fatal("it cannot be trusted")
	}
	if err := now.CheckProgram(guard, of); core.CodeOf(err) != core.CodeNotTrusted || !strings.Contains(err.Error(), "read whole") {
		t.Errorf("a program that was not read whole may start: %v", err)
	}
}
