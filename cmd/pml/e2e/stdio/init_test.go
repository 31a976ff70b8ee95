//go:build unix

package stdio_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// initBudget is how much the initialisation of one package may allocate, in
// bytes. What is above it belongs to the commands that need it.
const initBudget = 2 << 20

// TestInit_Budget: no package does work at the start that most commands do not
// need. Allocations are counted, because times depend on the machine.
func TestInit_Budget(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Setenv("GODEBUG", "inittrace=1")
	trace := m.OK("version", "--json").Stderr // plainly asked for, it is answered before the packages
	line := regexp.MustCompile(`^init (\S+) @.* (\d+) bytes, \d+ allocs`)
	packages := 0
	for l := range strings.Lines(trace) {
		f := line.FindStringSubmatch(l)
		if f == nil {
			continue
		}
		packages++
		if n, err := strconv.Atoi(f[2]); err != nil || n > initBudget {
			t.Errorf("the initialisation of %s allocates %d bytes (%v)", f[1], n, err)
		}
	}
	if packages < 20 {
		t.Errorf("only %d packages in the trace: %s", packages, trace)
	}
}

// TestInit_Hosts: pml is told to hosts by the real binary, what stands there
// starts it, it is not among the servers that hosts know, and taking it back
// leaves every byte.
func TestInit_Hosts(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	files := map[string]string{
		filepath.Join(m.Dir, ".codex", "config.toml"): "# mine\r\nmodel = \"o9\"\r\n[mcp_servers.gh]\r\ncommand = \"gh\"\r\nenv = { TOKEN = \"ghp_0123456789abcdefghij\" }",
		filepath.Join(m.WS, ".vscode", "mcp.json"):    "\ufeff{\n\t// shared\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // last\n\t},\n}\n",
		filepath.Join(m.WS, ".mcp.json"):              `{"mcpServers": {"pml": {"command": "node", "args": ["pml.js", "--token=SECRET-12345678"]}}}`,
		filepath.Join(m.Dir, ".cursor", "unrelated"):  "",
		filepath.Join(m.Dir, ".claude", "unrelated"):  "",
		filepath.Join(m.Dir, ".claude.json"):          `{"numStartups": 3}`,
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := m.Exit(8, "init", "--all-hosts")
	done := m.OK("init", "--host", "claude-code", "--host", "codex", "--host", "vscode", "--host", "cursor", "--yes")
	for _, o := range []pmltest.Output{shown, done} {
		if text := o.Stdout + o.Stderr; strings.Contains(text, "ghp_") || strings.Contains(text, "SECRET") {
			t.Errorf("a key is shown:\n%s", text)
		}
	}
	var entry struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(pmltest.ReadFile(t, filepath.Join(m.WS, ".mcp.json"))), &entry); err != nil {
		t.Fatal(err)
	}
	if e := entry.Servers["pml"]; e.Command != "pml" {
		t.Errorf("%+v", entry)
	} else if o := m.OK(e.Args...); o.Stdout != "" { // stdin is at its end
		t.Errorf("%s", o.Stdout)
	}
	pmltest.Wants(t, pmltest.ReadFile(t, filepath.Join(m.Dir, ".codex", "config.toml")), "[mcp_servers.pml]\r\n", "PML_WORKSPACE")
	if o := m.Exit(8, "servers", "import"); strings.Contains(o.Stderr, `"pml"`) || !strings.Contains(o.Stderr, `"gh"`) {
		t.Errorf("%s", o.Stderr)
	}
	pmltest.Wants(t, m.OK("init", "--host", "codex", "--yes").Stderr, "Codex knows pml already")
	m.OK("init", "--undo", "--yes")
	for name, text := range files {
		if got := pmltest.ReadFile(t, name); got != text {
			t.Errorf("%s was %q and is %q", name, text, got)
		}
	}
	if _, err := os.Stat(filepath.Join(m.WS, ".cursor")); !os.IsNotExist(err) {
		t.Errorf("a folder that pml made stays: %v", err)
	}
}
