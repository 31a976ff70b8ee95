//go:build unix

package servers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// Scenario 32: the value of a declared key that a server gives away, in a
// result, an error, progress, a log line, its stderr or its last words, as it
// is, escaped and in base64, reaches neither screen nor log, event, audit,
// journal or agent, and no file of the home.
func TestScenario32_ValuesStayHere(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "looks for a key in everything that pml writes")
	const key = `k3y/with+odd=chars&"more"`
	m := withBad(t, map[string]string{"BOX_KEY": "${BOX_KEY}"})
	m.Write(".env", "BOX_KEY='"+key+"'\n")
	m.Setenv("PML_LOG", "debug")
	tr := &transcript{Machine: m}
	const code = `const all = [];
		for (const as of ["plain", "json", "base64", "url", "structured", "isError", "rpc", "progress", "log", "stderr", "stdout", "die"]) {
			try { all.push([as, await mcp.bad.leak({name: "BOX_KEY", as})]) } catch (e) { all.push([as, e.code, e.message]) }
		}
		console.log(JSON.stringify(all));`
	o := tr.run(0, "execute", "--json", "--code", code+"return all")
	r := o.Result()
	text := canonical(t, r.Result)
	for _, want := range []string{`["plain","it is «BOX_KEY»."]`, `["isError","tool_failed","`, `["rpc","`, `["progress","done"]`, `["die","server_unreachable","`, "fatal: the key «BOX_KEY» is not good"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Count(text, "«BOX_KEY»") < 8 {
		t.Errorf("the value is not named where it stood: %s", text)
	}
	tr.hearAll(r.WorkflowID)
	// A person's terminal, and a run that fails with it.
	tr.run(0, "execute", "--code", code+"return all")
	o = tr.run(1, "execute", "--code", `await mcp.bad.leak({name: "BOX_KEY", as: "isError"})`)
	pmltest.Wants(t, o.Stderr, "refused: «BOX_KEY»")
	tr.run(1, "execute", "--json", "--code", `throw new Error("with " + (await mcp.bad.leak({name: "BOX_KEY", as: "plain"})))`)
	tr.run(5, "execute", tr.DAG("d.json", pmltest.Task("a", "bad:leak", `{"name":"BOX_KEY","as":"die"}`, nil), pmltest.Task("b", "bad:leak", `{"name":"BOX_KEY","as":"plain"}`, nil)))
	tr.run(0, "tools", "call", "bad:leak", "--args", `{"name":"BOX_KEY","as":"url"}`, "--json")
	tr.keep(tr.PML("servers", "check", "--json"))
	tr.keep(tr.PML("servers", "check"))
	tr.hearAll(r.WorkflowID)
	tr.hearAll("@latest")
	tr.leaksNone([]string{key}, "/ws/.env")

	// Nor what a script or a caller gives away.
	tr.run(0, "execute", "--json", "--input", `{"k": "`+strings.ReplaceAll(key, `"`, `\"`)+`"}`, "--intent", "with "+key, "--code", `console.log(input.k); return [input.k, (await mcp.bad.steady({k: input.k}))]`)
	tr.hearAll("@latest")
	for _, text := range tr.said {
		if strings.Contains(text, key) || strings.Contains(text, strings.ReplaceAll(key, `"`, `\"`)) {
			i := strings.Index(text, "k3y/with")
			t.Errorf("said: …%s", text[max(0, i-300):min(len(text), i+60)])
		}
	}
}

// Scenario 32: the value of a declared key in what a server says of its tools,
// when they are listed, when they change, and in what is kept of them.
func TestScenario32_DefinitionsStayClean(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "starts many commands")
	const key = "k3y-0f-th3-r3c0rd3r"
	m := pmltest.BareMachine(t)
	tools := filepath.Join(m.Dir, "tools.json")
	says := func(text string) {
		t.Helper()
		if err := os.WriteFile(tools, []byte(`{"put":{"description":"`+text+`"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says("Puts it, signed in with " + key + ".")
	c := pmltest.AllowRec()
	c.Servers = map[string]map[string]any{"rec": m.Rec(map[string]any{"args": []string{"--log", m.Log, "--tools", tools}, "env": map[string]string{"REC_KEY": "${REC_KEY}"}})}
	m.Write(".env", "REC_KEY="+key+"\n")
	m.Configure(c)
	m.Setenv("PML_LOG", "debug")
	tr := &transcript{Machine: m}
	for _, args := range [][]string{
		{"tools", "ls"}, {"tools", "ls", "--json"}, {"tools", "show", "rec:put"}, {"tools", "show", "rec:put", "--json"}, {"tools", "search", "signed"},
		{"servers", "check"}, {"servers", "check", "--json"}, {"doctor"}, {"plan", "--code", `await mcp.rec.put({key: "k", value: 1})`},
	} {
		tr.keep(tr.PML(args...))
	}
	pmltest.Wants(t, tr.run(0, "tools", "show", "rec:put").Stdout, "signed in with «REC_KEY».")
	says("Puts it elsewhere, signed in with " + key + ".")
	o := tr.run(8, "execute", "--json", "--code", `return await mcp.rec.put({key: "k", value: 1})`)
	pmltest.WantChanged(t, o.Result(), "rec:put", "elsewhere")
	tr.hearAll(o.Result().WorkflowID)
	tr.keep(tr.PML("servers", "check", "--json"))
	tr.run(0, "continue", string(o.Result().WorkflowID), "--approve")
	tr.leaksNone([]string{key}, "/ws/.env")
}
