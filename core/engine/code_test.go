package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// open lists the open approvals of a run.
func (b *bench) open(p *process, id core.ID) []core.Approval {
	b.T.Helper()
	list, err := p.st.Approvals(b.T.Context(), store.ApprovalFilter{RunID: id, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
	if err != nil {
		b.T.Fatal(err)
	}
	slices.SortFunc(list, func(x, y core.Approval) int { return x.CreatedAt.Compare(y.CreatedAt) })
	return list
}

// rule decides one approval.
func (b *bench) rule(p *process, ap core.Approval, approve bool) {
	b.T.Helper()
	_, err := p.st.Decide(b.T.Context(), core.Decision{
		ApprovalID: ap.ID, Approved: approve, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), Reason: "because",
	}, store.Renewal{})
	if err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) failed(h *engine.Handle, code core.Code, text string) *core.Error {
	b.T.Helper()
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunFailed || s.Run.Error == nil || s.Run.Error.Code != code || !strings.Contains(s.Run.Error.Message, text) {
		b.T.Fatalf("%s %+v, want failed with %s and %q", s.Run.State, s.Run.Error, code, text)
	}
	return s.Run.Error
}

// hang makes a tool that reports that it began and then waits for its context.
func hang(began chan<- struct{}) tool {
	return tool{Run: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

// Scenario 7: what can be foreseen is asked in one list, and nothing runs
// before each of it has its answer; two equal calls have two approvals.
func TestPreflight_AsksTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Needs["b"] = true
	p := b.process()
	h := b.code(p, `const w = await mcp.a.write({n: 0}); await mcp.b.read({n: 1});
		const out = []; try { out.push(await mcp.a.ask({n: 2})) } catch (e) { out.push(e.code) }
		try { out.push(await mcp.a.ask({n: 2})) } catch (e) { out.push(e.code) } return out;`, core.RunOptions{})
	s := b.Wait(h, enginetest.Pending(3))
	var kinds []string
	for _, ap := range s.Pending {
		kinds = append(kinds, string(ap.Type))
	}
	slices.Sort(kinds)
	if diff := cmp.Diff([]string{"dependency", "tool_permission", "tool_permission"}, kinds); diff != "" {
		t.Fatal(diff)
	}
	list := b.open(p, h.ID)
	for _, ap := range slices.Backward(list) {
		if ap.Type == core.ApproveTool {
			b.rule(p, ap, ap.PlannedFor == list[1].PlannedFor)
		}
	}
	b.Wait(h, enginetest.Pending(1))
	if got := b.Host.Called(); len(got) != 0 {
		t.Fatalf("%v ran before all was decided", got)
	}
	b.decide(p, h, core.ApproveDependency, true, nil)
	b.Complete(h, `[{"n":2},"denied"]`)
}

// Scenario 7: the same with pml killed between the two equal calls: neither
// takes the decision of the other.
func TestPreflight_EqualCallsKeepTheirDecisions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.StopGrace = 1
	p := b.process()
	began := make(chan struct{}, 1)
	b.Host.Tools["a:slow"] = hang(began)
	h := b.code(p, `const out = []; try { out.push(await mcp.a.ask({n: 2})) } catch (e) { out.push(e.code) }
		await mcp.a.slow({}).catch(() => 0); try { out.push(await mcp.a.ask({n: 2})) } catch (e) { out.push(e.code) } return out;`, core.RunOptions{})
	b.Wait(h, enginetest.Pending(2))
	for i, ap := range b.open(p, h.ID) {
		b.rule(p, ap, i == 1)
	}
	<-began
	p.close()
	b.Host.Tools["a:slow"] = tool{ReadOnly: true}
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	b.Complete(h, `["denied",{"n":2}]`)
}

func TestPreflight_PlannedCallThatNeverHappens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `if (input) { await mcp.a.ask({n: 1}) } else { return await mcp.a.write({n: 2}) }`, core.RunOptions{Input: json.RawMessage("false")})
	s := b.Wait(h, engine.Paused)
	if !s.Run.State.Final() {
		b.rule(p, b.open(p, h.ID)[0], true)
	}
	b.Complete(h, `{"n":2}`)
	if diff := cmp.Diff([]string{`a:write{"n":2}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

func TestPreflight_UnknownToolsAreAllNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, "await mcp.a.write({});\nawait mcp.a.wriet({});\nawait mcp.c.x({});", core.RunOptions{})
	e := b.failed(h, core.CodeNoSuchTool, "nothing was run")
	if len(e.Faults) != 2 || e.Faults[1].At == nil || e.Faults[1].At.Line != 3 {
		t.Errorf("faults %+v", e.Faults)
	}
	if got := b.Host.Called(); len(got) != 0 {
		t.Errorf("%v was called", got)
	}
}

// A run that failed before it began, on what may be otherwise by now, begins by a retry.
func TestRetry_NotBegun(t *testing.T) {
	t.Parallel()
	warmAndCold(t, func(t *testing.T, cold bool) {
		b := newBench(t)
		p := b.process()
		h := b.code(p, "return await mcp.a.late({n: 1})", core.RunOptions{})
		b.failed(h, core.CodeNoSuchTool, "there is no tool a:late")
		b.Host.Mu.Lock()
		b.Host.Tools["a:late"] = b.Host.Tools["a:write"]
		b.Host.Mu.Unlock()
		h = b.retryIn(&p, cold, h.ID)
		b.Complete(h, `{"n":1}`)
		if diff := cmp.Diff([]string{`a:late{"n":1}`}, b.Host.Called()); diff != "" {
			t.Error(diff)
		}
		failing := b.code(p, `throw new Error("mine")`, core.RunOptions{})
		b.failed(failing, core.CodeScript, "mine")
		if _, _, err := p.Retry(t.Context(), failing.ID); core.CodeOf(err) != core.CodeNotWaiting {
			t.Errorf("a fault of the program: %v", err)
		}
	})
}

// Scenario 12: what expires is expired, not denied, and can be asked again;
// the call is neither rejected nor run meanwhile.
func TestApproval_ExpiresAndIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"AskedAhead": `return await mcp.a.ask({n: 1})`,
		"AtTheCall":  `const v = await mcp.a.read({n: 1}); return await mcp.a.ask(v)`,
	} {
		for _, cold := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.Limits.ApprovalTTL = 50 * time.Millisecond
				p := b.process()
				h := b.code(p, source, core.RunOptions{})
				first := b.Wait(h, engine.Paused).Pending
				s := b.Wait(h, enginetest.Pending(0))
				if s.Run.State != core.RunWaiting {
					t.Fatalf("%s %v", s.Run.State, s.Run.Error)
				}
				if cold {
					p.close()
					b.Limits.ApprovalTTL = time.Minute
					p = b.process()
					h = b.Resume(p.Process, h.ID)
					b.Wait(h, enginetest.Pending(0))
				}
				list, err := p.st.Approvals(t.Context(), store.ApprovalFilter{RunID: h.ID, Now: time.Now()})
				if err != nil || len(list) != 1 || list[0].StateAt(time.Now()) != core.ApprovalExpired {
					t.Fatalf("%+v %v", list, err)
				}
				if len(first) == 1 && list[0].ID != first[0].ID {
					t.Error("it asked by itself")
				}
				until := time.Now().Add(time.Minute)
				again, err := p.st.Renew(t.Context(), list[0].ID, newID(), time.Now(), &until, core.Actor{Who: "me"})
				if err != nil {
					t.Fatal(err)
				}
				b.rule(p, again, true)
				b.Complete(h, `{"n":1}`)
			})
		}
	}
}

// Scenario 4: an approval is bound to its arguments.
func TestApproval_BoundToArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `const v = await mcp.a.read({n: 1}); await mcp.a.ask({n: v.n}); return await mcp.a.ask({n: v.n + 1});`, core.RunOptions{})
	for n := 1; n <= 2; n++ {
		b.Wait(h, enginetest.Pending(1))
		list := b.open(p, h.ID)
		if got := len(b.Host.Called()); got != n {
			t.Fatalf("%d calls before decision %d", got, n)
		}
		b.rule(p, list[0], true)
		b.Wait(h, func(s engine.Status) bool {
			return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 1 && s.Pending[0].ID != list[0].ID
		})
	}
	b.Complete(h, `{"n":2}`)
}

// Scenario 4: a gate is no exception: nothing is thrown into the script, whose
// catch cannot swallow the question.
func TestApproval_IsNotAnException(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `const v = await mcp.a.read({n: 1}); try { return await mcp.a.ask(v) } catch (e) { return "swallowed " + e.message } finally { await mcp.a.write({f: 1}) }`, core.RunOptions{})
	b.Wait(h, enginetest.Pending(1))
	if diff := cmp.Diff([]string{`a:read{"n":1}`}, b.Host.Called()); diff != "" {
		t.Fatal(diff)
	}
	b.rule(p, b.open(p, h.ID)[0], true)
	b.Complete(h, `{"n":1}`)
}

// An installation that fails ends its question: the call gets the error, and the
// same tree is asked about again only in a retry, or when it is another one.
func TestApproval_ApplyFails(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"AskedAhead": `return await mcp.b.read({n: 1})`,
		"AtTheCall":  `const s = (await mcp.a.read({s: "b"})).s; return await mcp[s].read({n: 1})`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.Needs["b"] = true
			b.Host.ApplyErr = core.Errorf(core.CodeInstallFailed, "the registry is away")
			p := b.process()
			h := b.code(p, source, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			first := b.open(p, h.ID)[0]
			b.rule(p, first, true)
			s := b.Wait(h, func(s engine.Status) bool {
				return engine.Ended(s) || len(s.Pending) == 1 && s.Pending[0].ID != first.ID
			})
			if s.Run.State != core.RunFailed || s.Run.Error == nil || s.Run.Error.Code != core.CodeInstallFailed {
				t.Fatalf("%s %v %+v", s.Run.State, s.Run.Error, s.Pending)
			}
			b.Host.Mu.Lock()
			b.Host.ApplyErr = nil
			b.Host.Mu.Unlock()
			var err error
			if h, _, err = p.Retry(t.Context(), h.ID); err != nil {
				t.Fatal(err)
			}
			b.Wait(h, enginetest.Pending(1))
			b.rule(p, b.open(p, h.ID)[0], true)
			b.Complete(h, `{"n":1}`)
		})
	}
}

// Scenario 6: a waiting run keeps no child, and comes back with the decision.
func TestIdle_ChildIsPutAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.IdleChild = 20 * time.Millisecond
	p := b.process()
	var reads atomic.Int32
	b.Host.Tools["a:read"] = tool{ReadOnly: true, Run: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
		reads.Add(1)
		return a, nil
	}}
	h := b.code(p, `const v = await mcp.a.read({n: 1}); const r = Math.random(); const [q, w] = await Promise.all([mcp.a.ask(v), mcp.a.ask({n: v.n + 1})]); return [q.n, w.n, r === Math.random()];`, core.RunOptions{})
	b.Wait(h, enginetest.Pending(2))
	for n := range 2 {
		b.asleep(h)
		b.rule(p, b.open(p, h.ID)[0], true)
		if n == 0 {
			b.Wait(h, enginetest.Pending(1))
		}
	}
	b.Complete(h, `[1,2,false]`)
	if reads.Load() != 1 {
		t.Errorf("%d reads", reads.Load())
	}
}

// asleep waits until the run has put its child away.
func (b *bench) asleep(h *engine.Handle) {
	b.T.Helper()
	b.Wait(h, func(s engine.Status) bool { return s.Asleep })
}

// TestReplay_AnotherWay: a call that is not the one in the journal ends the
// run with an error that names both, and nothing is called.
func TestReplay_AnotherWay(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]string{
		"Arguments": `await mcp.a.write({n: 7}); return await mcp.a.ask({n: (await mcp.a.read({n: 2})).n})`,
		"Tool":      `await mcp.a.read({n: 1}); return await mcp.a.ask({n: (await mcp.a.read({n: 2})).n})`,
		"Missing":   `return 5`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.code(p, `await mcp.a.write({n: 1}); return await mcp.a.ask({n: (await mcp.a.read({n: 2})).n})`, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			before := len(b.Host.Called())
			p.close()
			b.wrap = func(s store.Store) store.Store { return otherProgram{s, b.Compile(changed)} }
			p = b.process()
			h = b.Resume(p.Process, h.ID)
			e := b.failed(h, core.CodeReplay, "a:write")
			if !strings.Contains(e.Message, "c1") || !strings.Contains(e.Message, `{"n":1}`) {
				t.Error(e.Message)
			}
			if got := len(b.Host.Called()); got != before {
				t.Errorf("%v", b.Host.Called())
			}
		})
	}
}

// otherProgram is a store that gives a run another program.
type otherProgram struct {
	store.Store
	program core.Program
}

func (o otherProgram) Program(context.Context, core.ID) (core.Program, error) { return o.program, nil }

// TestBarrier_DeniedCall: a call that a rule denies while its layer opens has
// its outcome at once; the script goes on.
func TestBarrier_DeniedCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Tools["a:never"] = tool{Deny: core.Errorf(core.CodePermissionDenied, "a rule says no")}
	p := b.process()
	h := b.code(p, `await mcp.a.read({n: 1}); try { await mcp.a.never({}) } catch (e) { return e.code }`, core.RunOptions{HIL: core.HILSideEffects})
	s := b.Wait(h, engine.Paused)
	if !s.Run.State.Final() {
		b.decide(p, h, core.ApproveLayer, true, nil)
	}
	b.Complete(h, `"permission_denied"`)
}

// TestRetry_Code: the failures after which a script did nothing more run anew.
func TestRetry_Code(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var broken atomic.Bool
	broken.Store(true)
	b.Host.Tools["a:mended"] = tool{Run: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		if broken.Load() {
			return nil, core.Errorf(core.CodeToolFailed, "broken")
		}
		return args, nil
	}}
	p := b.process()
	h := b.code(p, `await mcp.a.write({n: 1}); const [x] = await Promise.all([mcp.a.mended({n: 2}), mcp.a.write({n: 3})]); return await mcp.a.write({n: x.n + 2})`, core.RunOptions{})
	b.failed(h, core.CodeToolFailed, "broken")
	broken.Store(false)
	h, n, err := p.Retry(t.Context(), h.ID)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	b.Complete(h, `{"n":4}`)
	want := map[string]int{`a:write{"n":1}`: 1, `a:mended{"n":2}`: 2, `a:write{"n":3}`: 1, `a:write{"n":4}`: 1}
	got := map[string]int{}
	for _, c := range b.Host.Called() {
		got[c]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRetry_Timeout: what a run's timeout cancelled is tried again, after a
// question when it may have run.
func TestRetry_Timeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began := make(chan struct{}, 1)
	b.Host.Tools["a:slow"] = hang(began)
	p := b.process()
	h := b.code(p, `const s = mcp.a.slow({n: 1}); await mcp.a.write({n: 2}); return await s`, core.RunOptions{TimeoutMS: 10_000})
	b.failed(h, core.CodeTimeout, "limit")
	b.Host.Mu.Lock()
	b.Host.Tools["a:slow"] = tool{}
	b.Host.Mu.Unlock()
	h, n, err := p.Retry(t.Context(), h.ID)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	b.Wait(h, enginetest.Pending(1))
	b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.RunAgain})
	b.Complete(h, `{"n":1}`)
}

// TestStoreFails: an error of the store in the middle stops the run without
// losing it, and the handle says so.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var broken atomic.Bool // a run also reads when its own commits wake it
	b.wrap = func(s store.Store) store.Store { return unreadable{s, &broken} }
	p := b.process()
	h := b.code(p, `const v = await mcp.a.read({n: 1}); return await mcp.a.ask(v)`, core.RunOptions{})
	ap := b.Wait(h, enginetest.Pending(1)).Pending[0]
	broken.Store(true)
	b.rule(p, ap, true)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	s, err := h.Wait(ctx, engine.Ended)
	if err != nil || !s.Stopped || core.CodeOf(s.Err) != core.CodeStoreFailed {
		t.Fatalf("%v: %+v", err, s)
	}
	broken.Store(false)
	h = b.Resume(p.Process, h.ID)
	b.Complete(h, `{"n":1}`)
}

// unreadable is a store whose reads of approvals can fail.
type unreadable struct {
	store.Store
	broken *atomic.Bool
}

func (u unreadable) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if u.broken.Load() {
		return nil, core.Errorf(core.CodeStoreFailed, "the disk is gone")
	}
	return u.Store.Approvals(ctx, f)
}

// TestDelivery_OneByOne: results are given to a script in the order in which
// they came, each with its own chain of microtasks, and a replay is the same.
func TestDelivery_OneByOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	source := `const seen = []; const chain = async (n, f) => { try { await f(); } catch { seen.push("x" + n); } seen.push(n); await null; await mcp.a.read({after: n}); seen.push(n + "!"); };
		await Promise.all([chain(1, () => mcp.a.write({n: 1})), chain(2, () => mcp.a.fail({n: 2})), chain(3, () => new Promise((r) => setTimeout(r, 3))), chain(4, () => mcp.a.write({n: 4}))]);
		await mcp.a.write({seen}); await mcp.a.ask({n: seen.length}); return seen;`
	h := b.code(p, source, core.RunOptions{})
	b.Wait(h, enginetest.Pending(1))
	p.close()
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	b.Wait(h, enginetest.Pending(1))
	b.rule(p, b.open(p, h.ID)[0], true)
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunComplete {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
	journaled := slices.IndexFunc(b.Host.Called(), func(c string) bool { return strings.HasPrefix(c, `a:write{"seen"`) })
	if want := `a:write{"seen":` + string(s.Run.Result) + "}"; b.Host.Called()[journaled] != want {
		t.Errorf("first %s, replayed %s", b.Host.Called()[journaled], want)
	}
}
