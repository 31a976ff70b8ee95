package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
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
	opts  core.RunOptions
	deny  string // approvals whose description holds this are denied
	edit  string // with these arguments instead, every permission is given
	free  bool   // after the decision nobody would be asked about the tool any more
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
	{name: "DAGKinds", opts: core.RunOptions{HIL: core.HILSideEffects}, tasks: []core.TaskSpec{
		task("t1", "a:write"), safe(task("t2", "a:boom")), when(task("t3", "a:write", "t2"), `deps.t2.status === "failed_safe"`),
		when(task("t4", "a:write", "t1"), "false"), {ID: "t5", Type: core.TypeCode, Code: `return deps.t1.output.id + "!"`, DependsOn: []string{"t1"}}, ref("t6", "a:write", `{"v":"$t5"}`),
	}},
}

func ref(id, tool, args string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: json.RawMessage(args)}
}

func safe(t core.TaskSpec) core.TaskSpec { t.SafeToFail = true; return t }

func when(t core.TaskSpec, cond string) core.TaskSpec { t.When = cond; return t }

// TestCrash_EveryCommit stops pml before and after each commit of a run, goes
// on in a new process, and compares what the world saw: the same result, and
// each side effect once. A person who is asked about a call that may have run
// looks and answers what is true. With PML_TEST_CRASH=2 the second process
// dies as well, at each of its commits.
//
// Scenario 5: a call that ran before an approval is not made again.
// Scenario 34: whatever ends pml, the run goes on from its journal.
func TestCrash_EveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops many runs at each of their commits")
	twice := os.Getenv("PML_TEST_CRASH") == "2"
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
					newCrash(t, b, c).run(n, 0, m).like(t, want, fmt.Sprintf("before commit %d, then %d", n, m))
					newCrash(t, b, c).run(0, n, m).like(t, want, fmt.Sprintf("after commit %d, then %d", n, m))
					points += 2
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
	next.host.needs["b"] = true
	next.host.tools["a:boom"] = tool{readOnly: true, run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, core.Errorf(core.CodeToolFailed, "boom")
	}}
	k := &crash{t: t, b: &next, c: c}
	k.chance = c.chance
	k.program = core.Program{Kind: core.KindDAG, Version: 1, Tasks: c.tasks}
	if c.code != "" {
		k.program = b.compile(c.code)
	} else {
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
		h, err = p.Resume(k.t.Context(), id)
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
	k.finish(ended)
	p.close()
	return k.outcome
}

func (k *crash) finish(run core.Run) {
	k.state, k.result, k.log = run.State, string(run.Result), nil
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
		if s.Stopped {
			return s.Err == nil && s.Run.State.Final()
		}
		open, err := p.st.Approvals(k.t.Context(), store.ApprovalFilter{RunID: h.ID, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
		if err != nil {
			k.t.Fatal(err)
		}
		for _, ap := range open {
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
	_, err := p.st.Decide(k.t.Context(), d, store.Renewal{})
	if err != nil && core.CodeOf(err) != core.CodeNotWaiting { // the run may have ended meanwhile
		k.t.Fatal(err)
	}
	if err == nil && ap.Type == core.ApproveTool && k.c.free {
		k.b.host.allows(ap.Tool)
	}
}
