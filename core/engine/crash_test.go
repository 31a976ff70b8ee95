package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/storetest"
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
	{name: "EditedDAG", edit: `{"n":20}`, opts: core.RunOptions{PerLayer: true}, tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "a:ask", "t1"), ref("t3", "a:write", `{"v":"$t2.n"}`)}},
	{name: "Dependency", code: `await mcp.a.write({n: 1}); const v = await mcp.b.read({n: 2}); return await mcp.a.write({n: v.n});`},
	{name: "PerLayer", opts: core.RunOptions{PerLayer: true}, code: `const [x] = await Promise.all([mcp.a.write({n: 1}), mcp.a.read({n: 2})]); await mcp.a.write({n: x.n + 1}); return await mcp.a.write({n: 9});`},
	{name: "HILAlways", opts: core.RunOptions{HIL: core.HILAlways}, code: `await mcp.a.read({n: 1}); await mcp.a.write({n: 2}); await mcp.a.ask({n: 3}); return 4;`},
	{name: "HILSideEffects", opts: core.RunOptions{HIL: core.HILSideEffects}, code: `await mcp.a.read({n: 1}); await Promise.all([mcp.a.write({n: 2}), mcp.a.read({n: 3})]); return await mcp.a.read({n: 4});`},
	{name: "BarrierSleep", opts: core.RunOptions{HIL: core.HILSideEffects}, code: `await Promise.all([mcp.a.write({n: 1}), new Promise((r) => setTimeout(r, 5))]); await new Promise((r) => setTimeout(r, 5)); return await mcp.a.write({n: 2});`},
	{name: "DAG", tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "a:read"), ref("t3", "a:write", `{"x":"$t1.id","y":"${t2.id}"}`), task("t4", "a:write", "t3")}},
	{name: "DAGPerLayer", opts: core.RunOptions{PerLayer: true}, tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "a:read"), task("t3", "a:ask", "t1"), task("t4", "a:write", "t3", "t2")}},
	{name: "DAGGates", tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "b:read"), task("t3", "a:ask", "t1", "t2"), task("t4", "a:write", "t3")}},
	{name: "FlowCode", flow: marked, code: `const w = await mcp.a.write({n: 1}); const r = await mcp.a.read({w}); const [x, q] = await Promise.all([mcp.a.write({r}), mcp.a.ask({r})]); return [w, r, x, q];`},
	{name: "FlowDAG", flow: marked, tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "b:read"), task("t3", "a:ask", "t1", "t2"), ref("t4", "a:write", `{"v":"$t3.id"}`)}},
	{name: "FlowEdited", flow: marked, edit: `{"n":20}`, code: `await mcp.a.write({n: 1}); const q = await mcp.a.ask({n: 2}); return await mcp.a.write({q: q.n});`},
	{name: "FlowLayers", flow: marked, opts: core.RunOptions{HIL: core.HILAlways}, code: `await mcp.a.read({n: 1}); await mcp.a.write({n: 2}); await mcp.a.ask({n: 3}); return 4;`},
	{name: "FlowCounts", flow: counted, chance: true, code: `await mcp.a.write({n: 1}); await Promise.all([mcp.a.ask({n: 2}), mcp.a.ask({n: 3}), mcp.a.write({n: 4})]); return 4;`},
	{name: "FlowCountsLayers", flow: counted, chance: true, opts: core.RunOptions{HIL: core.HILSideEffects}, tasks: []core.TaskSpec{task("t1", "a:write"), task("t2", "a:ask"), {ID: "t3", Type: core.TypeCode, Code: `return 3`, DependsOn: []string{"t1", "t2"}}}},
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
	{name: "AgentNested", goals: map[string][]string{"reach it": {`await mcp.a.write({n: 1}); ` + toInner, `return await mcp.a.write({n: 3});`}, "inner": {`await mcp.a.read({n: 2}); return await mcp.a.write({n: 2});`}}, spec: core.AgentSpec{Budget: core.AgentBudget{Tokens: 90000}}},
	{name: "AgentNestedPermission", goals: map[string][]string{"reach it": {toInner}, "inner": {`const v = await mcp.a.ask({n: 2}); return await mcp.a.write({n: v.n});`}}},
	{name: "AgentInScript", goals: map[string][]string{"inner": {`return await mcp.a.write({n: 2});`}}, code: `await mcp.a.write({n: 1}); const d = await mcp.agent.decide({question: "is it?"}); const r = await mcp.agent.delegate({goal: "inner"}); return [d.decision, r.success];`},
	{name: "AgentShortened", spec: core.AgentSpec{Window: 3200}, ask: forgetful},
	{name: "AgentTooLong", ask: forgetful},
	{name: "DAGKinds", opts: core.RunOptions{HIL: core.HILSideEffects}, tasks: []core.TaskSpec{
		task("t1", "a:write"), safe(task("t2", "a:boom")), when(task("t3", "a:write", "t2"), `deps.t2.status === "failed_safe"`),
		when(task("t4", "a:write", "t1"), "false"), {ID: "t5", Type: core.TypeCode, Code: `return deps.t1.output.id + "!"`, DependsOn: []string{"t1"}}, ref("t6", "a:write", `{"v":"$t5"}`),
	}},
}

// marked is a flow that makes the same of the same arguments, counted one that never does.
func marked(args string, _ int) string { return strings.TrimSuffix(args, "}") + `,"by":"flow"}` }
func counted(args string, n int) string {
	return strings.TrimSuffix(args, "}") + fmt.Sprintf(`,"by":%d}`, n)
}

func ref(id, tool, args string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: json.RawMessage(args)}
}

func safe(t core.TaskSpec) core.TaskSpec { t.SafeToFail = true; return t }

func when(t core.TaskSpec, cond string) core.TaskSpec { t.When = cond; return t }

// TestCrash_EveryCommit stops pml before and after each commit of a run, goes
// on in a new process, and compares what the world saw: the same result, and
// each side effect once. A person who is asked about a call that may have run
// looks and answers what is true. Without PML_TEST_REQUIRE=all, and with the race detector, it stops pml
// before the odd and after the even commits. With PML_TEST_CRASH=2 the second
// process dies as well, at each of its commits.
//
// Scenario 5: a call that ran before an approval is not made again.
// Scenario 34: whatever ends pml, the run goes on from its journal.
func TestCrash_EveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops many runs at each of their commits")
	twice := os.Getenv("PML_TEST_CRASH") == "2"
	every := 2 // before each of so many commits, and after each of so many others
	switch {
	case twice:
		every = 1
	case skiptest.Race:
		every = 8
	case skiptest.All(t):
		every = 1
	}
	for _, c := range crashCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			want := newCrash(t, b, c).run(0, 0, 0)
			if want.commits < 2 || want.writes() == 0 {
				t.Fatalf("%d commits, %v: the case shows nothing", want.commits, want.log)
			}
			points := 0
			for n := 1; n <= want.commits; n++ {
				seconds := 1
				if twice {
					seconds = want.commits + 1
				}
				for m := range seconds {
					if n%every == 1%every {
						newCrash(t, b, c).run(n, 0, m).like(t, want, fmt.Sprintf("before commit %d, then %d", n, m))
						points++
					}
					if n%every == (1+every/2)%every {
						newCrash(t, b, c).run(0, n, m).like(t, want, fmt.Sprintf("after commit %d, then %d", n, m))
						points++
					}
				}
			}
			t.Logf("%d commits, %d points", want.commits, points)
		})
	}
}

// crash is one run of a case in a world of its own.
type crash struct {
	t *testing.T
	b *bench
	c crashCase

	program core.Program
	outcome
	flows crashFlows
	model fakeModel
}

// crashFlows is what is known of the hook flows that the calls of a crash meet.
type crashFlows struct {
	mu   sync.Mutex
	runs int
	// kept are the calls that are journaled with what flows made of them: none runs for
	// them again. approved are the digests that a person has said yes to.
	kept     map[string]bool
	approved map[string]bool
}

// flow is what the flow of a case makes of a call.
func (k *crash) flow(call engine.Call) (core.Passage, *core.Error) {
	k.flows.mu.Lock()
	defer k.flows.mu.Unlock()
	if k.flows.kept[call.ID] {
		k.t.Errorf("a flow runs a second time for %s %s", call.ID, call.Tool)
	}
	k.flows.runs++
	flow := core.PassedFlow{Flow: "f", RunID: newID(), Node: "call", Changed: true}
	return core.Passage{Flows: []core.PassedFlow{flow}, Args: json.RawMessage(k.c.flow(string(call.Args), k.flows.runs))}, nil
}

// keep looks at what the last process has journaled.
func (k *crash) keep(p *process, id core.ID) {
	records, err := p.st.Journal(k.t.Context(), id, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	k.flows.mu.Lock()
	defer k.flows.mu.Unlock()
	for _, r := range records {
		if r.Passage != nil {
			k.flows.kept[r.CallID] = true
		}
	}
}

// sent checks that a call is sent as a person has approved it.
func (k *crash) sent(call engine.Call) {
	k.flows.mu.Lock()
	defer k.flows.mu.Unlock()
	if call.Tool == "a:ask" && k.c.edit == "" && !k.flows.approved[call.Digest] {
		k.t.Errorf("%s %s is sent and nobody has approved it", call.Tool, call.Args)
	}
}

// outcome is what is to be the same however often pml dies.
type outcome struct {
	state   core.RunState
	result  string
	log     []string // calls with side effects, sorted
	commits int
	asked   int // questions about calls that may have run
	chance  bool
}

func (o outcome) writes() int { return len(o.log) }

func (o outcome) like(t *testing.T, want outcome, when string) {
	t.Helper()
	if o.state != want.state || o.result != want.result {
		t.Errorf("%s: %s %s, want %s %s", when, o.state, o.result, want.state, want.result)
	}
	if o.chance {
		if len(o.log) != len(want.log) {
			t.Errorf("%s: %d side effects, want %d: %v", when, len(o.log), len(want.log), o.log)
		}
		return
	}
	if diff := cmp.Diff(want.log, o.log); diff != "" {
		t.Errorf("%s: side effects (-want +got):\n%s", when, diff)
	}
}

func newCrash(t *testing.T, b *bench, c crashCase) *crash {
	t.Helper()
	next := *b
	next.dir = t.TempDir()
	next.host = newHost()
	next.host.needs["b"], next.host.needs[core.ModelTool] = true, c.key
	next.host.tools["a:boom"] = tool{readOnly: true, run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, core.Errorf(core.CodeToolFailed, "boom")
	}}
	k := &crash{t: t, b: &next, c: c, flows: crashFlows{kept: map[string]bool{}, approved: map[string]bool{}}}
	if c.flow != nil {
		next.host.flow, next.host.onCall = k.flow, k.sent
	}
	k.chance = c.chance
	k.program = core.Program{Kind: core.KindDAG, Version: 1, Tasks: c.tasks}
	if c.goals != nil {
		next.ask = (&byGoal{scripts: c.goals}).answer
	}
	switch {
	case c.code != "":
		k.program = b.compile(c.code)
	case c.ask != nil:
		k.program, next.ask = agentProgramOf(c.spec), c.ask
	case c.goals != nil:
		k.program = agentProgramOf(c.spec)
	case c.agent != nil:
		k.program = agentProgramOf(c.spec)
		next.ask = k.model.answer(c.agent)
	default:
		g, err := engine.Graph(k.program)
		if err != nil {
			t.Fatal(err)
		}
		k.program.Plan = g.Plan()
	}
	return k
}

func (b *bench) compile(source string) core.Program {
	b.t.Helper()
	c, err := b.pool.Compile(b.t.Context(), source, "test.ts")
	if err != nil {
		b.t.Fatal(err)
	}
	return core.Program{Kind: core.KindCode, Version: 1, Source: source, Script: c.Script, Plan: c.Plan, Sandbox: sandbox.Version}
}

// run starts the program; its store fails before or after the n-th commit, and
// that of the second process before its again-th. Zero never fails.
func (k *crash) run(before, after, again int) outcome {
	k.t.Helper()
	var faulty *storetest.Faulty
	k.b.wrap = func(s store.Store) store.Store {
		faulty = storetest.NewFaulty(s)
		if before > 0 {
			faulty.FailBefore(before)
		}
		if after > 0 {
			faulty.FailAfter(after)
		}
		return faulty
	}
	p := k.b.process()
	id := newID()
	now := time.Now().UTC()
	h, err := p.Start(k.t.Context(), core.Run{
		ID: id, Side: core.SideClient, Workspace: "/w", Kind: k.program.Kind, CreatedAt: now, UpdatedAt: now,
		Options: k.c.opts, RequestedBy: core.Actor{Who: "test", Via: core.ViaCLI},
	}, k.program)
	for life := 1; ; life++ {
		if err == nil && k.drive(p, h) {
			break
		}
		if life > 3 {
			k.t.Fatalf("life %d: the run %s does not go on: %v", life, id, err)
		}
		p.close()
		k.b.wrap = nil
		if life == 1 && again > 0 {
			k.b.wrap = func(s store.Store) store.Store {
				f := storetest.NewFaulty(s)
				f.FailBefore(again)
				return f
			}
		}
		p = k.b.process()
		if _, missing := p.st.Run(k.t.Context(), id); missing != nil {
			if core.CodeOf(missing) != core.CodeNotFound || before != 1 {
				k.t.Fatal(missing)
			}
			p.close()
			return k.run(0, 0, 0) // it was never there: whoever asked for it asks again
		}
		k.keep(p, id)
		k.model.keep(k.t, p, id)
		h, err = k.resume(p, id)
		if ended, rerr := p.st.Run(k.t.Context(), id); err != nil && rerr == nil && ended.State.Final() {
			k.finish(ended)
			p.close()
			return k.outcome
		}
	}
	ended, err := p.st.Run(k.t.Context(), id)
	if err != nil {
		k.t.Fatal(err)
	}
	k.commits = faulty.Commits()
	k.rows(p, id)
	k.finish(ended)
	p.close()
	return k.outcome
}

// resume goes on with a run, or gives an agent that has ended what it is still to get.
func (k *crash) resume(p *process, id core.ID) (*engine.Handle, error) {
	n := k.given(p, id)
	if run, err := p.st.Run(k.t.Context(), id); err == nil && run.State == core.RunComplete && n < len(k.c.more) {
		return p.Extend(k.t.Context(), id, k.c.more[n], byMe)
	}
	return p.Resume(k.t.Context(), id)
}

// given counts what an agent was given.
func (k *crash) given(p *process, id core.ID) int {
	if k.c.more == nil {
		return 0
	}
	program, err := p.st.Program(k.t.Context(), id)
	if err != nil {
		k.t.Fatal(err)
	}
	return len(program.Agent.More)
}

func (k *crash) finish(run core.Run) {
	k.state, k.result, k.log = run.State, string(run.Result), nil
	if k.program.Kind == core.KindAgent { // its runs have other ids, and a request may be lost
		r := resultOf(k.t, engine.Status{Run: run})
		k.result = fmt.Sprintf("%s %v %d calls, %d runs, %d iterations\n%s", r.Stop, r.Success, r.Calls, len(r.Runs), r.Iterations, r.Result)
	}
	if run.Error != nil {
		k.result = run.Error.Error()
	}
	for _, line := range k.b.host.called() {
		if strings.HasPrefix(line, "a:write") || strings.HasPrefix(line, "a:ask") {
			k.log = append(k.log, line)
		}
	}
	slices.Sort(k.log)
}

// drive answers questions until the run has ended; false when pml died. It
// reads them from the store: a run that also sleeps is not at a pause.
func (k *crash) drive(p *process, h *engine.Handle) bool {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), hung)
	defer cancel()
	changes, err := p.st.Watch(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	for {
		s, changed := h.Status()
		if s.Stopped && s.Err == nil && s.Run.State == core.RunComplete && k.given(p, h.ID) < len(k.c.more) {
			var err error
			if h, err = p.Extend(k.t.Context(), h.ID, k.c.more[k.given(p, h.ID)], byMe); err != nil {
				return false
			}
			continue
		}
		if s.Stopped {
			return s.Err == nil && s.Run.State.Final()
		}
		open, err := p.st.Approvals(k.t.Context(), store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
		if err != nil {
			k.t.Fatal(err)
		}
		for _, ap := range open { // also of the runs of an agent
			k.answer(p, ap)
		}
		select {
		case <-changes:
		case <-changed:
		case <-ctx.Done():
			k.t.Fatalf("the run is %s, %d pending, called %v", s.Run.State, len(s.Pending), k.b.host.called())
		}
	}
}

// answer decides as a person would who can see what has happened.
func (k *crash) answer(p *process, ap core.Approval) {
	k.t.Helper()
	d := core.Decision{
		ApprovalID: ap.ID, Approved: k.c.deny == "" || !strings.Contains(ap.Description, k.c.deny),
		By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(),
	}
	if ap.Type == core.ApproveTool && k.c.edit != "" {
		digest, err := core.Digest(json.RawMessage(k.c.edit))
		if err != nil {
			k.t.Fatal(err)
		}
		d.Answer = &core.Answer{Arguments: json.RawMessage(k.c.edit), Digest: digest}
	}
	if ap.Type == core.ApproveTool && k.c.remember != "" {
		d.Answer = &core.Answer{Remember: k.c.remember}
	}
	if ap.Type == core.ApproveTool && k.c.shape > 0 {
		d.Answer = &core.Answer{Shape: loopOf(k.t, ap, k.c.shape)}
	}
	if ap.Type == core.ApproveInDoubt {
		k.asked++
		var about struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(ap.Context, &about); err != nil {
			k.t.Fatal(err)
		}
		d.Approved, d.Answer = true, &core.Answer{InDoubt: core.RunAgain}
		if slices.Contains(k.b.host.called(), about.Tool+string(about.Arguments)) {
			d.Answer = &core.Answer{InDoubt: core.SkipResult, Result: about.Arguments}
		}
	}
	k.flows.mu.Lock()
	k.flows.approved[ap.Digest] = true
	k.flows.mu.Unlock()
	_, err := p.st.Decide(k.t.Context(), d, store.Renewal{})
	if err != nil && core.CodeOf(err) != core.CodeNotWaiting { // the run may have ended meanwhile
		k.t.Fatal(err)
	}
	if err == nil && ap.Type == core.ApproveTool && k.c.free {
		k.b.host.allows(ap.Tool)
	}
}
