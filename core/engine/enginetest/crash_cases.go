package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
)

// crashCase is a program that is stopped at every one of its commits.
type crashCase struct {
	name  string
	code  string
	tasks []core.TaskSpec
	// agent are the scripts that the model of an agent asks for, one answer after the
	// other.
	agent [][]string
	ask   func(context.Context, core.Run, string, model.Request) (model.Answer, error) // what it asks
	goals map[string][]string                                                          // the same by goals, of agents inside one another
	spec  core.AgentSpec                                                               // of it
	more  []core.AgentMore                                                             // what a person gives it, each time when it has used up what it had
	opts  core.RunOptions
	deny  string // approvals whose description holds this are denied
	edit  string // with these arguments instead, every permission is given
	free  bool   // after the decision nobody would be asked about the tool any more
	// remember is for how long each permission is given.
	remember core.Remember
	// shape is for how many calls of its loop each permission is given.
	shape int
	key   bool // the model has no key before somebody has decided about that
	// flow is what a hook flow makes of arguments, the n-th time that it runs.
	flow func(args string, n int) string
	// chance is set when arguments differ from run to run by the run's id.
	chance bool
}

var crashCases = []crashCase{
	{name: "WriteThenRead", code: `const w = await mcp.a.write({n: 1}); const r = await mcp.a.read({w}); return [w, r];`},
	{name: "AllThenUse", code: `const [x, y, z] = await Promise.all([mcp.a.write({n: 1}), mcp.a.read({n: 2}), mcp.a.write({n: 3})]); return await mcp.a.write({sum: x.n + y.n + z.n});`},
	{name: "Loop", code: `const out = []; for (const n of [1, 2, 3]) { const v = await mcp.a.write({n}); if (v.n % 2) out.push(await mcp.a.read({odd: n})); } return out;`},
	{name: "Chains", code: `return await Promise.all([1, 2, 3].map(async (n) => { const a = await mcp.a.write({n}); const b = await mcp.a.read({b: a.n}); return (await mcp.a.write({c: b.b * 10})).c; }));`},
	{name: "Catch", code: `let msg = ""; try { await mcp.a.boom({}); } catch (e) { msg = e.message; await mcp.a.write({cleanup: true}); } finally { await mcp.a.write({last: 1}); } return msg;`},
	{name: "Settled", code: `const r = await Promise.allSettled([mcp.a.write({n: 1}), mcp.a.boom({}), mcp.a.read({n: 2})]); await mcp.a.write({oks: r.map((x) => x.status)}); return r.map((x) => x.status);`},
	{name: "Sleep", code: `await mcp.a.write({n: 1}); await new Promise((r) => setTimeout(r, 5)); await mcp.a.write({n: 2}); return "slept";`},
	{name: "SleepTakenBack", code: `const t = setTimeout(() => mcp.a.write({never: 1}), 60000); await mcp.a.write({n: 1}); clearTimeout(t); return await mcp.a.write({n: 2});`},
	{name: "Branch", code: `const v = await mcp.a.read({n: 1}); if (v.n === 1) { await mcp.a.write({yes: 1}); } else { await mcp.a.ask({no: 1}); } return v;`},
	{name: "Unawaited", code: `mcp.a.write({loose: 1}); mcp.a.write({loose: 2}); const v = await mcp.a.write({n: 3}); return v.n;`},
	{name: "UnawaitedParked", code: `(async () => { const v = await mcp.a.write({n: 1}); const q = await mcp.a.ask({q: v.n}); await mcp.a.write({w: q.q}); })().catch(console.error); return "returned";`},
	{name: "Chance", chance: true, code: `for (let i = 0; i < 3; i++) await mcp.a.write({r: Math.random(), u: crypto.randomUUID(), t: Date.now()}); return 3;`},
	{name: "Permission", code: `await mcp.a.write({n: 1}); const v = await mcp.a.read({n: 2}); const q = await mcp.a.ask({n: v.n}); return await mcp.a.write({q: q.n});`},
	{name: "AskedAhead", code: `await mcp.a.write({n: 1}); await mcp.a.ask({n: 2}); return await mcp.a.write({n: 3});`},
	{name: "Shape", shape: 3, code: `const out = []; for (const n of [1, 2, 3, 4, 5]) { await mcp.a.write({n}); out.push((await mcp.a.ask({n, team: "ENG"})).n); } return out;`},
	{name: "ShapeAtOnce", shape: 3, code: `await mcp.a.write({n: 0}); return await Promise.all([1, 2, 3, 4, 5].map((n) => mcp.a.ask({n, team: "ENG"})));`},
	{name: "Denied", deny: "a:ask", code: `await mcp.a.write({n: 1}); try { await mcp.a.ask({n: 2}); } catch { return await mcp.a.write({instead: 1}); }`},
	{name: "Edited", edit: `{"n":20}`, code: `await mcp.a.write({n: 1}); const v = await mcp.a.read({n: 2}); const q = await mcp.a.ask({n: v.n}); return await mcp.a.write({q: q.n});`},
	{name: "EditedAhead", edit: `{"n":20}`, code: `await mcp.a.write({n: 1}); const q = await mcp.a.ask({n: 2}); return await mcp.a.write({q: q.n});`},
	{name: "EditedFree", edit: `{"n":20}`, free: true, code: `await mcp.a.write({n: 1}); const v = await mcp.a.read({n: 2}); const q = await mcp.a.ask({n: v.n}); return await mcp.a.write({q: q.n});`},
	{name: "DeniedFree", deny: "a:ask", free: true, code: `await mcp.a.write({n: 1}); const v = await mcp.a.read({n: 2}); try { await mcp.a.ask({n: v.n}); } catch { return await mcp.a.write({instead: 1}); }`},
	{name: "EditedDAG", edit: `{"n":20}`, opts: core.RunOptions{PerLayer: true}, tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "a:ask", "t1"), Ref("t3", "a:write", `{"v":"$t2.n"}`)}},
	{name: "Dependency", code: `await mcp.a.write({n: 1}); const v = await mcp.b.read({n: 2}); return await mcp.a.write({n: v.n});`},
	{name: "PerLayer", opts: core.RunOptions{PerLayer: true}, code: `const [x] = await Promise.all([mcp.a.write({n: 1}), mcp.a.read({n: 2})]); await mcp.a.write({n: x.n + 1}); return await mcp.a.write({n: 9});`},
	{name: "HILAlways", opts: core.RunOptions{HIL: core.HILAlways}, code: `await mcp.a.read({n: 1}); await mcp.a.write({n: 2}); await mcp.a.ask({n: 3}); return 4;`},
	{name: "HILSideEffects", opts: core.RunOptions{HIL: core.HILSideEffects}, code: `await mcp.a.read({n: 1}); await Promise.all([mcp.a.write({n: 2}), mcp.a.read({n: 3})]); return await mcp.a.read({n: 4});`},
	{name: "BarrierSleep", opts: core.RunOptions{HIL: core.HILSideEffects}, code: `await Promise.all([mcp.a.write({n: 1}), new Promise((r) => setTimeout(r, 5))]); await new Promise((r) => setTimeout(r, 5)); return await mcp.a.write({n: 2});`},
	{name: "DAG", tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "a:read"), Ref("t3", "a:write", `{"x":"$t1.id","y":"${t2.id}"}`), Task("t4", "a:write", "t3")}},
	{name: "DAGPerLayer", opts: core.RunOptions{PerLayer: true}, tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "a:read"), Task("t3", "a:ask", "t1"), Task("t4", "a:write", "t3", "t2")}},
	{name: "DAGGates", tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "b:read"), Task("t3", "a:ask", "t1", "t2"), Task("t4", "a:write", "t3")}},
	{name: "FlowCode", flow: marked, code: `const w = await mcp.a.write({n: 1}); const r = await mcp.a.read({w}); const [x, q] = await Promise.all([mcp.a.write({r}), mcp.a.ask({r})]); return [w, r, x, q];`},
	{name: "FlowDAG", flow: marked, tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "b:read"), Task("t3", "a:ask", "t1", "t2"), Ref("t4", "a:write", `{"v":"$t3.id"}`)}},
	{name: "FlowEdited", flow: marked, edit: `{"n":20}`, code: `await mcp.a.write({n: 1}); const q = await mcp.a.ask({n: 2}); return await mcp.a.write({q: q.n});`},
	{name: "FlowLayers", flow: marked, opts: core.RunOptions{HIL: core.HILAlways}, code: `await mcp.a.read({n: 1}); await mcp.a.write({n: 2}); await mcp.a.ask({n: 3}); return 4;`},
	{name: "FlowCounts", flow: Counted, chance: true, code: `await mcp.a.write({n: 1}); await Promise.all([mcp.a.ask({n: 2}), mcp.a.ask({n: 3}), mcp.a.write({n: 4})]); return 4;`},
	{name: "FlowCountsLayers", flow: Counted, chance: true, opts: core.RunOptions{HIL: core.HILSideEffects}, tasks: []core.TaskSpec{Task("t1", "a:write"), Task("t2", "a:ask"), {ID: "t3", Type: core.TypeCode, Code: `return 3`, DependsOn: []string{"t1", "t2"}}}},
	{name: "Agent", agent: [][]string{{`return await mcp.a.write({n: 1});`}, {`const v = await mcp.a.read({n: 2}); return await mcp.a.write({n: v.n});`}}},
	{name: "AgentTogether", agent: [][]string{{`return await mcp.a.write({n: 1});`, `return await mcp.a.boom({});`, `await mcp.a.read({n: 3}); return await mcp.a.write({n: 3});`}, {`return await mcp.a.write({n: 4});`}}},
	{name: "AgentPermission", agent: [][]string{{`const v = await mcp.a.read({n: 1}); return await mcp.a.ask({n: v.n});`, `return await mcp.a.write({n: 2});`}, {`return await mcp.a.write({n: 3});`}}},
	{name: "AgentDeniedTwice", deny: "a:ask", agent: [][]string{{`await mcp.a.write({n: 2}); return await mcp.a.ask({n: 1});`}, {`try { await mcp.a.ask({n: 1}); } catch { return "caught"; }`}, {`return await mcp.a.write({never: 1});`}}},
	{name: "AgentRemembered", remember: core.RememberRun, agent: [][]string{{`const n = [1].length; return await mcp.a.ask({n});`, `return await mcp.a.ask({n: 2});`}, {`const n = [1].length; await mcp.a.ask({n: n + 2}); return await mcp.a.write({n: 4});`}, {`return await mcp.a.ask({n: 5});`}}},
	{name: "AgentIntended", agent: [][]string{{`intent: do it`, `intent: write it`}, {`return await mcp.a.write({n: 2});`}}},
	{name: "AgentKey", key: true, agent: [][]string{{`return await mcp.a.write({n: 1});`}, {`return await mcp.a.write({n: 2});`}}},
	{name: "AgentKeyInside", key: true, goals: map[string][]string{"inner": {`return await mcp.a.write({n: 2});`}}, code: `await mcp.a.write({n: 1}); const r = await mcp.agent.delegate({goal: "inner"}); return r.success;`},
	{name: "AgentKeyDenied", key: true, deny: "needs KEY", goals: map[string][]string{"inner": {`return await mcp.a.write({n: 2});`}}, code: `await mcp.a.write({n: 1}); try { await mcp.agent.delegate({goal: "inner"}); } catch (e) { return e.code; }`},
	{name: "AgentDenied", deny: "a:ask", agent: [][]string{{`return await mcp.a.ask({n: 1});`}, {`return await mcp.a.write({n: 3});`}}},
	{name: "AgentMoreBudget", spec: core.AgentSpec{Budget: core.AgentBudget{Calls: 2, Ask: true}}, agent: [][]string{{`return await mcp.a.write({n: 1});`}, {`return await mcp.a.write({n: 2});`}, {`return await mcp.a.write({n: 3});`}}},
	{name: "AgentNoMore", deny: "has used", spec: core.AgentSpec{Budget: core.AgentBudget{Calls: 2, Ask: true}}, agent: [][]string{{`return await mcp.a.write({n: 1});`}, {`return await mcp.a.write({n: 2});`}, {`return await mcp.a.write({n: 3});`}}},
	{name: "AgentExtended", deny: "has used", more: []core.AgentMore{{Calls: 1}, {Iterations: 2}}, spec: core.AgentSpec{Iterations: 3, Budget: core.AgentBudget{Calls: 2, Ask: true}}, agent: [][]string{{`return await mcp.a.write({n: 1});`}, {`return await mcp.a.write({n: 2});`}, {`return await mcp.a.write({n: 3});`}, {`return 4;`}}},
	{name: "AgentNested", goals: map[string][]string{"reach it": {`await mcp.a.write({n: 1}); ` + ToInner, `return await mcp.a.write({n: 3});`}, "inner": {`await mcp.a.read({n: 2}); return await mcp.a.write({n: 2});`}}, spec: core.AgentSpec{Budget: core.AgentBudget{Tokens: 90000}}},
	{name: "AgentNestedPermission", goals: map[string][]string{"reach it": {ToInner}, "inner": {`const v = await mcp.a.ask({n: 2}); return await mcp.a.write({n: v.n});`}}},
	{name: "AgentInScript", goals: map[string][]string{"inner": {`return await mcp.a.write({n: 2});`}}, code: `await mcp.a.write({n: 1}); const d = await mcp.agent.decide({question: "is it?"}); const r = await mcp.agent.delegate({goal: "inner"}); return [d.decision, r.success];`},
	{name: "AgentShortened", spec: core.AgentSpec{Window: 3200}, ask: forgetful},
	{name: "AgentTooLong", ask: forgetful},
	{name: "DAGKinds", opts: core.RunOptions{HIL: core.HILSideEffects}, tasks: []core.TaskSpec{
		Task("t1", "a:write"), safe(Task("t2", "a:boom")), when(Task("t3", "a:write", "t2"), `deps.t2.status === "failed_safe"`),
		when(Task("t4", "a:write", "t1"), "false"), {ID: "t5", Type: core.TypeCode, Code: `return deps.t1.output.id + "!"`, DependsOn: []string{"t1"}}, Ref("t6", "a:write", `{"v":"$t5"}`),
	}},
}

// marked is a flow that makes the same of the same arguments.
func marked(args string, _ int) string { return strings.TrimSuffix(args, "}") + `,"by":"flow"}` }

// Counted is a flow that never makes the same of the same arguments: it says how often it ran.
func Counted(args string, n int) string {
	return strings.TrimSuffix(args, "}") + fmt.Sprintf(`,"by":%d}`, n)
}

// Ref is a task whose arguments are given.
func Ref(id, tool, args string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: json.RawMessage(args)}
}

func safe(t core.TaskSpec) core.TaskSpec { t.SafeToFail = true; return t }

func when(t core.TaskSpec, cond string) core.TaskSpec { t.When = cond; return t }
