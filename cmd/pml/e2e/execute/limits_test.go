//go:build unix

package execute_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// Scenario 21: a loop without end, an allocation bomb, deep recursion, a bomb
// of a regular expression, a result of 100 MB: a clear error of its own within
// the limit, and everything else goes on.
func TestHostile(t *testing.T) {
	t.Parallel()
	// Only what ends by its processor time has little of it: on a busy machine a script needs seconds to fill its memory.
	m := pmltest.NewMachine(t, pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Limits: map[string]any{"calls": 700}})
	timed := pmltest.NewMachine(t, pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Limits: map[string]any{"cpu": "3s"}})
	for i, c := range []struct {
		name, script string
		code         core.Code
		text         string
	}{
		{"Loop", `while (true) {}`, core.CodeSandboxTimeout, "without waiting"},
		{"LoopAfterCall", `await mcp.rec.echo({value: 1}); for (;;) {}`, core.CodeSandboxTimeout, "without waiting"},
		{"Microtasks", `for (;;) await null`, core.CodeSandboxTimeout, "without waiting"},
		{"Memory", `const a = []; while (true) a.push(new Array(10000).fill(1))`, core.CodeSandboxMemory, "memory"},
		{"String", `let s = "x".repeat(1 << 20); const a = []; while (true) a.push(s + a.length)`, core.CodeSandboxMemory, "memory"},
		{"Recursion", `function f(n) { return f(n + 1) + 1 } return f(0)`, core.CodeScript, "stack"},
		{"Regexp", `return /(a+)+$/.test("a".repeat(40) + "b")`, core.CodeSandboxTimeout, "without waiting"},
		{"Result", `return "x".repeat(100 << 20)`, core.CodeSandboxMemory, "memory"},
		{"Upstream", `return await mcp.rec.big({bytes: 60000000})`, core.CodeResultTooLarge, "limits.result_bytes"},
		{"Never", `await new Promise(() => {})`, core.CodeScript, "never happens"},
		{"Calls", `for (;;) await Promise.all(Array.from({length: 500}, () => mcp.workspace.stat({path: "."})))`, core.CodeCallLimit, "limits.calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			skiptest.Share(t, i, 3)
			t.Parallel()
			if c.code == core.CodeSandboxTimeout && c.name != "Loop" || c.code == core.CodeSandboxMemory && c.name != "Memory" {
				skiptest.Long(t, "uses up a script's time or memory once more")
			}
			m := m.In(t)
			if c.code == core.CodeSandboxTimeout {
				m = timed.In(t)
			}
			begin := time.Now()
			r := m.Execute(1, c.script)
			t.Logf("%s: %s", time.Since(begin).Round(time.Millisecond), r.Error)
			if skiptest.Race && r.ErrorCode == core.CodeSandboxTimeout {
				return // the race detector makes the child so slow that its time may be over first
			}
			if r.ErrorCode != c.code || !strings.Contains(r.Error, c.text) {
				t.Errorf("code %s, want %s: %s", r.ErrorCode, c.code, r.Error)
			}
		})
	}
	t.Run("OthersGoOn", func(t *testing.T) {
		t.Parallel()
		if r := m.In(t).Execute(0, `return await mcp.rec.echo({value: "alive"})`); pmltest.Compact(t, r.Result) != `{"value":"alive"}` {
			t.Errorf("%+v", r)
		}
	})
}

// TestHostile_Flood: output without end is cut, and the run goes on.
func TestHostile_Flood(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	o := m.OK("execute", "--code", `const line = "spam ".repeat(2000); for (let i = 0; i < 300; i++) console.log(line); return 1`)
	if o.Stdout != "1\n" || len(o.Stderr) > 8<<20 || !strings.Contains(o.Stderr, "dropped") {
		t.Errorf("stdout %q, %d bytes of stderr", o.Stdout, len(o.Stderr))
	}
}

// Scenario 20: console.log in code and chatter on a server's stdout reach
// neither the protocol nor the result.
func TestOutput_ResultOnly(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	script := `
		console.log("from the script"); console.error({a: 1});
		await mcp.rec.noise({text: '{"jsonrpc":"2.0","id":1,"result":{}}'});
		await mcp.rec.noise({text: "\u001b[2J"});
		return {ok: await mcp.rec.echo({value: 1})}`
	o := m.OK("execute", "--code", script, "--name", "prints")
	if o.Stdout != "{\n  \"ok\": {\n    \"value\": 1\n  }\n}\n" {
		t.Errorf("stdout %q", o.Stdout)
	}
	if !strings.Contains(o.Stderr, "log: from the script") || strings.Contains(o.Stderr, "noise") || strings.Contains(o.Stderr, "\x1b") {
		t.Errorf("stderr %q", o.Stderr)
	}
	o = m.OK("execute", "--code", script, "--json")
	var r api.Result
	if err := json.Unmarshal([]byte(o.Stdout), &r); err != nil || r.Status != api.StatusSuccess || o.Stderr != "" {
		t.Errorf("%v\nstdout %s\nstderr %q", err, o.Stdout, o.Stderr)
	}
	if o = m.OK("workflows", "logs", "@latest"); !strings.Contains(o.Stdout, "from the script") {
		t.Errorf("logs: %q", o.Stdout)
	}
}

// Scenario 19, a little of it end to end: what a script means is what
// JavaScript says, in calls, order and result.
func TestCode_Means(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(0, `
		interface Item { key: string }
		enum Kind { A = "a", B = "b" }
		const items: Item[] = [Kind.A, Kind.B].map((key) => ({key}));
		const out: Record<string, number> = {};
		for (const {key} of items) {
			const {count} = await mcp.rec.inc({key});
			out[key] = count;
		}
		try { await mcp.rec.fail({message: "größer 日本"}) } catch (e) { out[e.message] = -1 } finally { await mcp.rec.inc({key: "finally"}) }
		const [x, y] = await Promise.all([mcp.rec.echo({value: {n: [1, 2]}}), mcp["rec"]["list"]({n: 3})]);
		if (y.length > 5) await mcp.rec.inc({key: "no"}); else await mcp.rec.inc({key: `+"`${input.who}-${x.value.n[1]}`"+`});
		if (out.a === 1) return {out, y, said: "function class export"};
		await mcp.rec.inc({key: "unreachable"});`, "--input", `{"who":"me"}`)
	want := `{"out":{"a":1,"b":1,"größer 日本":-1},"y":[0,1,2],"said":"function class export"}`
	if got := pmltest.Compact(t, r.Result); got != want {
		t.Errorf("result %s", got)
	}
	if got := m.IncKeys(); got != "a b finally me-2" {
		t.Errorf("calls %q", got)
	}
}

// TestProgress_Calm: in a log, a run of many calls is a few lines.
func TestProgress_Calm(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	o := m.OK("execute", "--code", `await Promise.all(Array.from({length: 250}, () => mcp.workspace.stat({path: "."}))); return "x"`)
	lines := strings.Split(strings.TrimSpace(o.Stderr), "\n")
	if len(lines) > 4 || !strings.Contains(o.Stderr, "tasks 250/250") || !strings.Contains(o.Stderr, "layer 1: 250 calls done in") {
		t.Errorf("%d lines:\n%s", len(lines), o.Stderr)
	}
	if o = m.OK("execute", "--code", `return await mcp.rec.echo({value: 1})`, "-q"); o.Stderr != "" {
		t.Errorf("quiet: %q", o.Stderr)
	}
}

// TestRedaction: the value of a declared key reaches neither result, screen,
// log, event, error nor approval (scenario 32).
func TestRedaction(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value-1234"
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Write(".env", "REC_KEY="+secret+"\n")
	m.Configure(pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Servers: map[string]map[string]any{
		"rec": m.Rec(map[string]any{"env": map[string]string{"REC_KEY": "${REC_KEY}"}}),
	}})
	// The script puts the key together, as a tool that leaks it would return it.
	leak := `const k = ["s3cr3t", "value", "1234"].join("-");`
	runs := []pmltest.Output{
		m.OK("execute", "--code", leak+`console.log("log " + k); return {v: await mcp.rec.echo({value: k}), k}`),
		m.OK("execute", "--json", "--code", leak+`return await mcp.rec.echo({value: {[k]: k + "!"}})`),
		m.Exit(1, "execute", "--code", leak+`await mcp.rec.fail({message: "bad " + k})`),
		m.Exit(1, "execute", "--json", "--code", leak+`await mcp.rec.fail({message: "bad " + k})`),
		m.Exit(1, "execute", "--code", leak+`throw new Error("own " + k)`),
		m.Exit(8, "execute", "--code", leak+`await mcp.rec.danger({x: k})`),
		m.OK("tools", "call", "rec:echo", "--args", `{"value":"`+secret+`"}`),
	}
	if !strings.Contains(runs[0].Stdout, "«REC_KEY»") {
		t.Errorf("nothing was redacted: %s", runs[0].Stdout)
	}
	for _, run := range m.Runs() {
		id := string(run.ID)
		runs = append(runs, m.OK("workflows", "show", id), m.OK("workflows", "show", id, "--json"),
			m.OK("workflows", "logs", id), m.PML("workflows", "result", id))
	}
	runs = append(runs, m.OK("events"), m.OK("events", "--json"), m.OK("approvals", "ls", "--json"), m.OK("approvals", "show", string(m.Approvals()[0].ID)),
		m.OK("audit", "ls", "--json"), m.OK("trust", "--show"), m.OK("doctor"), m.OK("config", "show"), m.OK("config", "show", "--json"))
	for _, o := range runs {
		if strings.Contains(o.Stdout+o.Stderr, secret) {
			t.Errorf("pml %s shows the key:\n%s%s", strings.Join(o.Args, " "), o.Stdout, o.Stderr)
		}
	}
	// The tool got the real value: what is hidden is hidden on the way back.
	if calls := fmt.Sprint(m.Calls()); strings.Count(calls, secret) < 3 {
		t.Errorf("calls %s", calls)
	}
}

// TestRetry_CodeAndDAG: retry runs the failed calls and what depends on them,
// nothing else.
func TestRetry_CodeAndDAG(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	file := m.DAG("dag.json", pmltest.Task("a", "rec:inc", `{"key":"a"}`, nil), pmltest.Task("b", "rec:read", `{"path":"missing"}`, pmltest.After("a")),
		pmltest.Task("c", "rec:inc", `{"key":"c"}`, pmltest.After("b")))
	r := m.JSON(1, "execute", file)
	r = m.JSON(1, "retry", string(r.WorkflowID))
	if m.IncKeys() != "a" || m.Count("read") != 2 {
		t.Errorf("%d reads, calls of inc: %q", m.Count("read"), m.IncKeys())
	}
	if got := pmltest.States(m.Workflow(r.WorkflowID)); got["c"] != "skipped" || got["b"] != "error" {
		t.Errorf("states %v", got)
	}
}

// limits.per_server bounds the calls that are under way at one server at once.
func TestLimits_PerServer(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Limits: map[string]any{"per_server": 2}})
	m.Execute(0, `await Promise.all(Array.from({length: 16}, (_, n) => mcp.rec.slow({value: n, ms: 10})))`)
	now, most := 0, 0
	for _, e := range m.Entries() {
		if e.Event == "start" {
			now++
		} else {
			now--
		}
		most = max(most, now)
	}
	if most != 2 || m.Count("slow") != 16 {
		t.Errorf("%d of %d calls at once, want 2 of 16", most, m.Count("slow"))
	}
}
