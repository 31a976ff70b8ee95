//go:build unix

package servers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// Scenario 10: a server that ends in the middle of a run and comes back with
// other tools. The first call after it asks already; the tools that are as they
// were do not.
func TestScenario10_ToolsAfterARestart(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	die, tools := filepath.Join(m.Dir, "die"), m.Write("tools.json", "{}")
	c := pmltest.AllowRec()
	c.Permissions["allow"] = []string{"rec:*", "workspace:*"}
	c.Servers = map[string]map[string]any{"rec": m.Rec(map[string]any{"args": []string{"--log", m.Log, "--tools", tools, "--die", die}})}
	m.Configure(c)
	m.Execute(0, `return await mcp.rec.inc({key: "first"})`)
	if err := os.WriteFile(die, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := m.Execute(8, `let first;
		try { await mcp.rec.inc({key: "k"}); first = "answered" } catch (e) { first = e.code }
		await mcp.workspace.write_file({path: "tools.json", content: JSON.stringify({put: {description: "Puts it elsewhere.", read_only: true}})});
		return [first, (await mcp.rec.put({key: "k", value: 2})).value, (await mcp.rec.inc({key: "k"})).count]`)
	pmltest.WantChanged(t, r, "rec:put", "claims now that it only reads", "Puts it elsewhere.")
	if n := m.Count("put"); n != 0 {
		t.Fatalf("the changed tool was called %d times", n)
	}
	r = m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if diff := cmp.Diff(`["server_unreachable",2,2]`, canonical(t, r.Result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.Execute(0, `return [await mcp.rec.put({key: "k", value: 3})]`)
}
