//go:build unix

package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestNamed_TCP: a server that is named gets what its tools can run, for the
// owner of the key, and nobody without one.
//
// Scenario 25.
func TestNamed_TCP(t *testing.T) {
	t.Parallel()
	there := pmltest.NewMachine(t, pmltest.AllowRec())
	ann := strings.TrimSpace(there.OK("server", "key", "add", "ann").Stdout)
	bob := strings.TrimSpace(there.OK("server", "key", "add", "bob").Stdout)
	there.Serving("--listen", "127.0.0.1:0")
	url := there.Status(0).Server.URL

	here := pmltest.NewMachine(t, pmltest.Config{
		Permissions: map[string]any{"allow": []string{"rec:*"}}, Servers: map[string]map[string]any{"rec": nil},
	})
	here.Setenv("PML_SERVER", url)
	if f := here.Exit(4, "execute", "--code", `return await mcp.rec.inc({key: "a"})`, "--detach", "--json").Fault(); f.Code != core.CodeAuth {
		t.Errorf("without a key: %+v", f)
	}
	here.Setenv("PML_API_KEY", ann)
	r := here.JSON(0, "execute", "--code", `return (await mcp.rec.inc({key: "a"})).count`)
	if string(r.Result) != "1" || there.Count("inc") != 1 || r.ExecutedLocally {
		t.Errorf("result %+v", r)
	}
	if out := here.OK("workflows", "result", string(r.WorkflowID)); out.Stdout != "1\n" {
		t.Errorf("result %q", out.Stdout)
	}
	if s := here.PML("server", "status", "--server", url, "--json"); s.Exit != 0 {
		t.Errorf("status of a named server: %d %s", s.Exit, s.Stderr)
	}
	here.Setenv("PML_API_KEY", bob)
	here.Exit(3, "workflows", "show", string(r.WorkflowID))
	var page api.Page[core.Run]
	if here.OK("workflows", "ls", "--json").Decode(&page); len(page.Items) != 0 {
		t.Errorf("bob sees %+v", page.Items)
	}
	here.Exit(3, "abort", string(r.WorkflowID))
}

// TestNamed_Mixed: code that needs tools of both machines runs on this one, and
// calls those of the server one by one.
func TestNamed_Mixed(t *testing.T) {
	t.Parallel()
	there := pmltest.NewMachine(t, pmltest.AllowRec())
	key := strings.TrimSpace(there.OK("server", "key", "add", "ann").Stdout)
	there.Serving("--listen", "127.0.0.1:0")
	here := pmltest.NewMachine(t, pmltest.Config{
		Permissions: map[string]any{"allow": []string{"mine:*", "rec:*"}},
		Servers:     map[string]map[string]any{"rec": nil, "mine": {"command": pmltest.Recorder(t), "args": []string{"--log", filepath.Join(t.TempDir(), "calls")}}},
	})
	here.Setenv("PML_SERVER", there.Status(0).Server.URL)
	here.Setenv("PML_API_KEY", key)
	r := here.JSON(0, "execute", "--code", `const a = await mcp.mine.inc({key: "a"}); const b = await mcp.rec.inc({key: "b"}); return [a.count, b.count]`)
	if compactJSON(string(r.Result)) != "[1,1]" || there.Count("inc") != 1 {
		t.Errorf("result %s, %d calls at the server", r.Result, there.Count("inc"))
	}
	if w := here.Workflow(r.WorkflowID); w.Side != core.SideClient {
		t.Errorf("side %s", w.Side)
	}
}

// TestNamed_Flows: a flow of this machine keeps a program here that the server could run
// as a whole, and looks at the call, as the server's own does; each once.
func TestNamed_Flows(t *testing.T) {
	t.Parallel()
	mark := func(by string) string {
		return string(pmltest.Flow("f", nil, `const p = context.request.params; return {params: {...p, arguments: {key: p.arguments.key + "`+by+`"}}}`,
			`const c = context.response.structuredContent; return {response: {content: [], structuredContent: {...c, seen: (c.seen || "") + "`+by+`"}}}`))
	}
	there := pmltest.BareMachine(t)
	there.Write(".pml/flows/f.json", mark(" there"))
	there.Configure(pmltest.AllowRec())
	key := strings.TrimSpace(there.OK("server", "key", "add", "ann").Stdout)
	there.Serving("--listen", "127.0.0.1:0")
	here := pmltest.BareMachine(t)
	here.Write(".pml/flows/f.json", mark(" here"))
	here.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"rec:*"}}, Servers: map[string]map[string]any{"rec": nil}})
	here.Setenv("PML_SERVER", there.Status(0).Server.URL)
	here.Setenv("PML_API_KEY", key)
	for _, args := range [][]string{
		{"execute", "--code", `const r = await mcp.rec.inc({key: "a"}); return r.key + ", seen" + r.seen`}, {"tools", "call", "rec:inc", "--args", `{"key":"a"}`},
	} {
		out := here.OK(args...).Stdout
		if !strings.Contains(out, "a here there") || !strings.Contains(out, " there here") {
			t.Errorf("%s", out)
		}
	}
	if got := there.IncKeys(); got != "a here there a here there" {
		t.Errorf("called %q", got)
	}
	out := here.PML("execute", "--detach", "--code", `return await mcp.rec.inc({key: "a"})`)
	if out.Exit != 9 || !strings.Contains(out.Stderr, "leave --detach out") || there.Count("inc") != 2 {
		t.Errorf("%+v", out)
	}
}

func compactJSON(s string) string { return strings.Join(strings.Fields(s), "") }
