//go:build unix

package servers_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestServersImport_Hosts: the servers of Claude Code, VS Code and Cursor are
// taken over in one go and can be called. Keys that stood there in clear are in
// .env, and nowhere else.
func TestServersImport_Hosts(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "starts many commands")
	const key, inArgs = "q8Zk3Jx7Rt2Lw9Nv4Hc6Yp1Md5Fg", "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	m := pmltest.BareMachine(t)
	seen := filepath.Join(m.Dir, "env.txt")
	rec := func(args ...string) string {
		raw, err := json.Marshal(append([]string{"--log", m.Log}, args...))
		if err != nil {
			t.Fatal(err)
		}
		return `"command": ` + pmltest.Quote(t, pmltest.Recorder(t)) + `, "args": ` + string(raw)
	}
	home := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(m.Dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home(".claude.json", `{"numStartups": 3, "mcpServers": {
		"everywhere": {"type": "stdio", `+rec("--name", "everywhere", "--env", seen)+`, "env": {"REC_API_KEY": "`+key+`"}},
		"pml": {"type": "stdio", "command": "pml", "args": ["stdio"]}},
		"projects": {`+pmltest.Quote(t, m.WS)+`: {"mcpServers": {"here": {`+rec("--name", "here")+`}}}, "/elsewhere": {"mcpServers": {"no": {"command": "no"}}}}}`)
	m.Write(".vscode/mcp.json", `{ // of this project
		"inputs": [{"type": "promptString", "id": "rec-token", "password": true}],
		"servers": {"asked": {`+rec("--name", "asked")+`, "env": {"TOKEN": "${input:rec-token}"}}, "old": {"type": "sse", "url": "https://old.example/sse"},},
	}`)
	m.Write(".cursor/mcp.json", `{"mcpServers": {"tokened": {`+rec("--name", inArgs)+`}}}`)
	m.Write(".pml.json", "{\n  // mine\n  \"permissions\": {\"allow\": [\"*\"]}\n}\n")
	m.OK("trust", "--yes")

	shown := m.Exit(8, "servers", "import")
	pmltest.Wants(t, shown.Stdout+shown.Stderr, "everywhere", "here", "asked", "tokened", "old", "SSE")
	if text := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")); strings.Contains(text, "here") {
		t.Fatalf("written before anybody agreed:\n%s", text)
	}
	done := m.OK("servers", "import", "--yes", "--trust")
	for _, o := range []pmltest.Output{shown, done, m.OK("servers", "ls", "--json"), m.OK("config", "show")} {
		if text := o.Stdout + o.Stderr; strings.Contains(text, key) || strings.Contains(text, inArgs) {
			t.Errorf("pml %s shows a key:\n%s", strings.Join(o.Args, " "), text)
		}
	}
	text := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json"))
	pmltest.Wants(t, text, "// mine", `"${REC_API_KEY}"`, `"${REC_TOKEN}"`, `"${TOKENED_TOKEN}"`)
	if strings.Contains(text, key) || strings.Contains(text, inArgs) || strings.Contains(text, `"stdio"`) || strings.Contains(text, "/elsewhere") {
		t.Errorf(".pml.json:\n%s", text)
	}
	pmltest.Wants(t, pmltest.ReadFile(t, filepath.Join(m.WS, ".env")), key, inArgs)
	info, err := os.Stat(filepath.Join(m.WS, ".env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf(".env: %v, %v", info.Mode(), err)
	}

	// What was agreed to is trusted, and is called with the real keys.
	// A line that .env fills a part of is agreed to once more: .env is not trusted.
	r := m.Execute(8, `return [await mcp.here.echo({value: 1}), await mcp.everywhere.echo({value: 2}), await mcp.tokened.echo({value: 3})].length`)
	if r.ApprovalType != core.ApproveIntegrity || !strings.Contains(string(r.Context), "from .env: args/3") || strings.Contains(string(r.Context), inArgs) {
		t.Errorf("%s %s", r.ApprovalType, r.Context)
	}
	r = m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if string(r.Result) != "3" || !strings.Contains(pmltest.ReadFile(t, seen), "REC_API_KEY="+key) {
		t.Errorf("result %s, environment %s", r.Result, pmltest.ReadFile(t, seen))
	}
	if servers := serversOf(m); !servers[inArgs] {
		t.Errorf("the key in the arguments did not arrive: %v", servers)
	}
	r = m.Execute(8, `return await mcp.asked.echo({value: 4})`)
	if r.ApprovalType != core.ApproveKeys || !strings.Contains(string(r.Context), "REC_TOKEN") {
		t.Errorf("what VS Code asked for each time: %s %s", r.ApprovalType, r.Context)
	}

	// Once more there is nothing to do.
	m.OK("servers", "import", "--yes")
	if again := pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")); again != text {
		t.Errorf("the second import wrote:\n%s", again)
	}
}

// serversOf are the names under which the recorder was called.
func serversOf(m *pmltest.Machine) map[string]bool {
	m.T.Helper()
	out := map[string]bool{}
	for _, e := range m.Entries() {
		out[e.Server] = true
	}
	return out
}
