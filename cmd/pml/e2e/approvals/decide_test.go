//go:build unix

package approvals_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestContinue_UnknownID: a made-up id, and none at all, are errors and
// nothing runs.
//
// Scenario 1: the command line's part.
func TestContinue_UnknownID(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	asks := m.Execute(8, `return await mcp.rec.danger({x: "a"})`)
	m.Exit(2, "continue", "--approve")
	for _, id := range []string{uuid.NewString(), "00000000", "@nothing", "nonsense", "../../etc/passwd"} {
		f := m.Exit(3, "continue", id, "--approve", "--json").Fault()
		if diff := cmp.Diff(pmltest.Fault{Code: core.CodeNotFound, Exit: 3}, pmltest.Fault{Code: f.Code, Exit: f.Exit}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if n := m.Count("danger"); n != 0 {
		t.Errorf("danger ran %d times", n)
	}
	if got := len(m.Approvals()); got != 1 {
		t.Errorf("%d approvals wait, want 1", got)
	}
	m.JSON(0, "continue", string(asks.WorkflowID), "--approve")
	if n := m.Count("danger"); n != 1 {
		t.Errorf("danger ran %d times after the approval, want 1", n)
	}
}

// TestContinue_ThreeErrors: unknown, expired and used ids are different
// errors with different exit codes, never a success.
//
// Scenario 2.
func TestContinue_ThreeErrors(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	used := m.Execute(8, `return await mcp.rec.danger({x: "used"})`)
	if r := m.JSON(0, "continue", string(used.WorkflowID), "--approve"); r.Status != api.StatusComplete {
		t.Errorf("status %s, want complete", r.Status)
	}
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "1ms", "resume_ttl": "1ms"}
	m.Configure(c)
	// It expires while the command looks, or just after.
	o := m.PML("execute", "--code", `return await mcp.rec.danger({x: "expired"})`, "--json")
	if o.Exit != 11 {
		o.Want(8)
	}
	expired := o.Result()

	for _, tt := range []struct {
		name, id string
		exit     int
		code     core.Code
	}{
		{"unknown", uuid.NewString(), 3, core.CodeNotFound},
		{"expired", string(expired.WorkflowID), 11, core.CodeWorkflowExpired},
		{"used by approval", string(used.CheckpointID), 12, core.CodeAlreadyDecided},
		{"used", string(used.WorkflowID), 12, core.CodeAlreadyDecided},
	} {
		o := m.Exit(tt.exit, "continue", tt.id, "--deny", "--json")
		if f := o.Fault(); f.Code != tt.code {
			t.Errorf("%s: code %s, want %s", tt.name, f.Code, tt.code)
		}
		if o.Stdout != "" {
			t.Errorf("%s: stdout %s", tt.name, o.Stdout)
		}
	}
	if diff := cmp.Diff([]string{`danger {"x":"used"}`}, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// deciders are how many processes decide at once.
func deciders(t *testing.T) []int {
	t.Helper()
	if skiptest.Race {
		return []int{2, 10}
	}
	return []int{2, skiptest.Sized(t, 10, 50)}
}

// TestContinue_Race: of many approvals at the same instant, from as many
// processes, one runs; the others say who decided and when.
//
// Scenario 3.
func TestContinue_Race(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	for round, n := range deciders(t) {
		r := m.Execute(8, `return await mcp.rec.danger({x: "`+strconv.Itoa(n)+`"})`)
		var procs []*pmltest.Process
		for range n {
			procs = append(procs, m.Start("continue", string(r.WorkflowID), "--approve", "--json"))
		}
		won := map[time.Time]int{} // by when what they report was decided
		for _, p := range procs {
			o := p.Wait()
			if o.Exit == 0 {
				res := o.Result()
				if res.Status != api.StatusComplete || string(res.Result) == "null" || res.Decided == nil {
					t.Fatalf("the winner's result: %s", o.Stdout)
				}
				won[res.Decided.At]++
				continue
			}
			o.Want(12)
			f := o.Fault()
			if f.Code != core.CodeAlreadyDecided || f.DecidedBy == nil || f.DecidedBy.Who == "" || f.DecidedBy.At.IsZero() {
				t.Errorf("a loser was told %+v", f)
			}
		}
		// One that waits for seconds in vain for the winner to take the run up goes
		// on with the winner's decision.
		if len(won) != 1 {
			t.Errorf("%d decisions of %d counted: %v", len(won), n, won)
		}
		if got := m.Count("danger"); got != round+1 {
			t.Errorf("danger ran %d times, want %d", got, round+1)
		}
	}
	if n := m.Audited(core.ApprovalApproved); n != 2 {
		t.Errorf("the audit log has %d approvals, want 2", n)
	}
	m.OK("audit", "verify")
}

// TestContinue_SameAndOpposite: deciding a named approval again in the same
// way is no error and runs nothing; the opposite way is one.
func TestContinue_SameAndOpposite(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, `return await mcp.rec.danger({x: "1"})`)
	run, cp := string(r.WorkflowID), string(r.CheckpointID)
	first := m.JSON(0, "continue", run, "--checkpoint", cp, "--approve")
	again := m.JSON(0, "continue", run, "--checkpoint", cp, "--approve")
	if again.Decided == nil || !again.Decided.At.Equal(first.Decided.At) {
		t.Errorf("decided by %+v, want that of the first decision %+v", again.Decided, first.Decided)
	}
	f := m.Exit(12, "continue", run, "--checkpoint", cp, "--deny", "--json").Fault()
	if f.Code != core.CodeAlreadyDecided || f.DecidedBy == nil {
		t.Errorf("the opposite decision: %+v", f)
	}
	r = m.Execute(8, `return await mcp.rec.danger({x: "2"})`)
	f = m.Exit(12, "continue", string(r.WorkflowID), "--approve", "--expect-digest", "sha256:00", "--json").Fault()
	if f.Code != core.CodeDigestMismatch {
		t.Errorf("another digest: %+v", f)
	}
	if n := m.Count("danger"); n != 1 {
		t.Errorf("danger ran %d times, want 1", n)
	}
}

// TestContinue_OneApprovesNoOther: an approval is for one tool and its
// arguments, whether it was asked ahead or in the middle of the script.
//
// Scenario 4: another tool of the same code. Scenario 5: what ran before the
// approval ran once in all.
func TestContinue_OneApprovesNoOther(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Permissions["ask"] = []string{"rec:danger", "rec:write"}
	m := pmltest.NewMachine(t, c)
	// The arguments are not known before the run, so it asks on its way.
	r := m.Execute(8, `
		const a = await mcp.rec.inc({key: "a"});
		const b = await mcp.rec.danger({x: "n" + a.count});
		const c = await mcp.rec.danger({x: "m" + a.count});
		const d = await mcp.rec.write({path: b.done});
		return [a.count, b.done, c.done, d.path];`)
	run := string(r.WorkflowID)
	var asked []string
	for {
		if len(r.Pending) != 1 {
			t.Fatalf("%d approvals wait, want 1 at a time", len(r.Pending))
		}
		asked = append(asked, r.Pending[0].Subject[:strings.Index(r.Pending[0].Subject, "#")])
		o := m.PML("continue", run, "--approve", "--json")
		r = o.Result()
		if o.Exit == 0 {
			break
		}
		o.Want(8)
	}
	if diff := cmp.Diff([]string{"rec:danger", "rec:danger", "rec:write"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	var got any
	if err := json.Unmarshal(r.Result, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{1.0, "n1", "m1", "n1"}, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	want := []string{`inc {"key":"a"}`, `danger {"x":"n1"}`, `danger {"x":"m1"}`, `write {"path":"n1"}`}
	if diff := cmp.Diff(want, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestContinue_ToolApprovesNoInstall: the permission for a tool installs
// nothing, and the installation permits no tool.
//
// Scenario 4: B's install.
func TestContinue_ToolApprovesNoInstall(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	npm := m.WithNPM("/bin/sh")
	m.Configure(pmltest.Config{Servers: map[string]map[string]any{"a": pmltest.NPX("a")}})
	r := m.Execute(8, `return await mcp.a.danger({x: "1"})`)
	kinds := map[core.ApprovalType]string{}
	for _, p := range r.Pending {
		kinds[p.Type] = string(p.ID)
	}
	if len(kinds) != 2 {
		t.Fatalf("waits for %v, want a dependency and a permission", kinds)
	}
	r = m.JSON(8, "continue", string(r.WorkflowID), "--approve", "--checkpoint", kinds[core.ApproveTool])
	if log := pmltest.ReadFile(t, npm); strings.Contains(log, "ci") {
		t.Errorf("it was installed: %s", log)
	}
	if len(r.Pending) != 1 || r.Pending[0].Type != core.ApproveDependency {
		t.Fatalf("waits for %+v", r.Pending)
	}
	if r = m.JSON(0, "continue", string(r.WorkflowID), "--approve"); string(r.Result) == "null" {
		t.Error("no result")
	}
	// Installed is not permitted.
	if r = m.Execute(8, `return await mcp.a.danger({x: "2"})`); r.ApprovalType != core.ApproveTool || len(r.Pending) != 1 {
		t.Errorf("waits for %+v", r.Pending)
	}
	if n := m.Count("danger"); n != 1 {
		t.Errorf("danger ran %d times, want 1", n)
	}
}

const fourGates = `
	const all = await Promise.allSettled([
		mcp.a.echo({value: 1}), mcp.b.echo({value: 2}), mcp.keyed.echo({value: 3}), mcp.rec.danger({x: "four"})]);
	return all.map(r => r.status === "fulfilled" ? "ok" : r.reason.code ?? String(r.reason));`

func fourGatesMachine(t *testing.T) *pmltest.Machine {
	m := pmltest.BareMachine(t)
	m.WithNPM("/bin/sh")
	c := pmltest.AllowRec()
	c.Permissions["allow"] = []string{"rec:*", "a:*", "b:*", "keyed:*"}
	c.Servers = map[string]map[string]any{
		"a": pmltest.NPX("a"), "b": pmltest.NPX("b"), "keyed": m.Rec(map[string]any{"env": map[string]string{"REC_KEY": "${REC_KEY}"}}),
	}
	m.Configure(c)
	return m
}

// TestContinue_FourGates: two dependencies, a key and a permission of one
// script are asked together and decided one by one, in any order.
//
// Scenario 7.
func TestContinue_FourGates(t *testing.T) {
	t.Parallel()
	names := []string{"dependency a", "dependency b", "api_key_required keyed", "tool_permission rec:danger"}
	for i, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			if i > 1 {
				skiptest.Long(t, "answers the same questions in another order")
			}
			m := fourGatesMachine(t)
			r := m.Execute(8, fourGates)
			ids := map[string]string{}
			for _, p := range r.Pending {
				ids[string(p.Type)+" "+p.Tool] = string(p.ID)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(ids))); diff != "" {
				t.Fatalf("asked (-want +got):\n%s", diff)
			}
			m.Write(".env", "REC_KEY=abcdefghijkl\n")
			for i, k := range order {
				exit := 8
				if i == len(order)-1 {
					exit = 0
				}
				r = m.JSON(exit, "continue", string(r.WorkflowID), "--approve", "--checkpoint", ids[names[k]])
				if len(r.Pending) != len(order)-1-i {
					t.Fatalf("after %s %d wait: %+v", names[k], len(r.Pending), r.Pending)
				}
			}
			if diff := cmp.Diff(`["ok","ok","ok","ok"]`, pmltest.Compact(t, r.Result)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if got := len(m.Calls()); got != 4 {
				t.Errorf("calls: %q", m.Calls())
			}
		})
	}
}

// TestContinue_DenyOne: a denied gate rejects the calls that needed it; the
// script sees that and goes on. With --abort the run ends.
//
// Scenario 7: denying.
func TestContinue_DenyOne(t *testing.T) {
	t.Parallel()
	m := fourGatesMachine(t)
	r := m.Execute(8, fourGates)
	m.Write(".env", "REC_KEY=abcdefghijkl\n")
	for i := range 4 {
		exit, decision := 8, "--approve"
		if i == 3 {
			exit = 0
		}
		p := r.Pending[0]
		if p.Type == core.ApproveTool || p.Type == core.ApproveDependency && p.Tool == "b" {
			decision = "--deny"
		}
		r = m.JSON(exit, "continue", string(r.WorkflowID), decision)
	}
	if diff := cmp.Diff(`["ok","denied","ok","denied"]`, pmltest.Compact(t, r.Result)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got := len(m.Calls()); got != 2 {
		t.Errorf("calls: %q", m.Calls())
	}

	r = m.Execute(8, `try { await mcp.rec.danger({x: "abort"}) } catch {} return await mcp.rec.inc({key: "after"})`)
	o := m.Exit(10, "continue", string(r.WorkflowID), "--deny", "--abort", "--reason", "not today", "--json")
	if res := o.Result(); res.Status != api.StatusAborted || res.Reason != "not today" {
		t.Errorf("aborted: %s", o.Stdout)
	}
	if m.Count("danger") != 0 || m.Count("inc") != 0 {
		t.Errorf("calls: %q", m.Calls())
	}
	if w := m.Workflow(r.WorkflowID); w.State != core.RunAborted {
		t.Errorf("the run is %s", w.State)
	}
	// Uncaught, a denial fails the run.
	r = m.Execute(8, `return await mcp.rec.danger({x: "uncaught"})`)
	if f := m.Exit(9, "continue", string(r.WorkflowID), "--deny", "--json").Fault(); f.Code != core.CodeDenied {
		t.Errorf("denied: %+v", f)
	}
}

// TestContinue_KeyWhileWaiting: a key that is added while the approval waits is
// found; one that is missing, empty or a placeholder is asked for again, in
// the same run.
//
// Scenario 8.
func TestContinue_KeyWhileWaiting(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	c := pmltest.AllowRec()
	c.Servers = map[string]map[string]any{"rec": m.Rec(map[string]any{"env": map[string]string{"REC_KEY": "${REC_KEY}"}})}
	m.Configure(c)
	r := m.Execute(8, `return (await mcp.rec.inc({key: "k"})).count`)
	run := r.WorkflowID
	for _, env := range []string{"", "REC_KEY=\n", "REC_KEY=your-key-here\n", "OTHER=abcdefgh\n"} {
		if env != "" {
			m.Write(".env", env)
		}
		before := r.CheckpointID
		r = m.JSON(8, "continue", string(run), "--approve")
		if r.ApprovalType != core.ApproveKeys || r.WorkflowID != run || r.CheckpointID == before {
			t.Errorf("%q: asks for %s of run %s, checkpoint %s again", env, r.ApprovalType, r.WorkflowID, r.CheckpointID)
		}
		if !strings.Contains(string(r.Context), "REC_KEY") {
			t.Errorf("%q: the key is not named: %s", env, r.Context)
		}
	}
	m.Write(".env", "REC_KEY=abcdefghijkl\n")
	if r = m.JSON(0, "continue", string(run), "--approve"); string(r.Result) != "1" || r.WorkflowID != run {
		t.Errorf("result %s of %s", r.Result, r.WorkflowID)
	}
}

// TestDeny_Everywhere: a deny rule stops a tool before and after its server is
// installed, from code, a computed name, a DAG and a single call, and after an
// approval that was given before the rule.
//
// Scenario 9.
func TestDeny_Everywhere(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	npm := m.WithNPM("/bin/sh")
	c := pmltest.Config{
		Permissions: map[string]any{"allow": []string{"shell"}, "deny": []string{"shell:dan*"}},
		Servers:     map[string]map[string]any{"shell": pmltest.NPX("shell")},
	}
	m.Configure(c)
	dag := m.Write("deny.json", `{"tasks":[{"id":"t1","tool":"shell:danger","arguments":{"x":"dag"}}]}`)
	nested := m.Write("nested.json", `{"tasks":[{"id":"n","type":"code","code":"return await mcp.shell.danger({x: 'nested'})"}]}`)
	tries := func(when string) {
		for _, args := range [][]string{
			{"execute", "--code", `return await mcp.shell.danger({x: "code"})`},
			{"execute", "--code", `const n = "dan" + "ger"; return await mcp["shell"][n]({x: n})`},
			{"execute", "--code", `return await Promise.all([1].map(x => mcp.shell.danger({x: String(x)})))`},
			{"execute", dag},
			{"execute", nested},
			{"tools", "call", "shell:danger", "--args", `{"x":"call"}`},
		} {
			o := m.PML(append(args, "--json")...)
			if o.Exit == 0 || o.Exit == 8 {
				t.Errorf("%s: %q: exit %d\n%s", when, args, o.Exit, o.Stdout)
			} else if args[1] != nested && !strings.Contains(o.Stderr, "permission_denied") && !strings.Contains(o.Stdout, "permission_denied") {
				t.Errorf("%s: %q: %s", when, args, o.Stderr)
			}
		}
		if got := m.Approvals(); len(got) != 0 {
			t.Errorf("%s: %d approvals wait", when, len(got))
		}
	}
	tries("before the install")
	if _, err := os.Stat(npm); err == nil {
		t.Error("npm was asked for a tool that is denied")
	}
	r := m.Execute(8, `return (await mcp.shell.inc({key: "k"})).count`)
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	tries("after the install")

	c.Permissions = map[string]any{"ask": []string{"shell"}}
	m.Configure(c)
	r = m.Execute(8, `return await mcp.shell.danger({x: "late"})`)
	c.Permissions = map[string]any{"deny": []string{"shell:danger"}}
	m.WriteConfig(c) // deny rules hold without trust
	if f := m.Exit(9, "continue", string(r.WorkflowID), "--approve", "--json").Fault(); f.Code != core.CodePermissionDenied {
		t.Errorf("approved, then denied by a rule: %+v", f)
	}
	if n := m.Count("danger"); n != 0 {
		t.Errorf("danger ran %d times", n)
	}
}

// TestApproval_Expiry: an approval that times out is expired, not denied; it
// can be asked for again by continue and by renew, and extended before.
//
// Scenario 12.
func TestApproval_Expiry(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "5s"}
	m := pmltest.NewMachine(t, c)
	r := m.Execute(8, `const a = await mcp.rec.inc({key: "k"}); return (await mcp.rec.danger({x: "n" + a.count})).done`)
	run := string(r.WorkflowID)
	state := func() core.ApprovalState {
		t.Helper()
		list := m.Workflow(r.WorkflowID).Approvals
		return list[0].StateAt(time.Now())
	}
	pmltest.WaitFor(t, "the approval expires", func() bool { return time.Now().After(*r.ExpiresAt) })
	if got := state(); got != core.ApprovalExpired {
		t.Errorf("state %s, want expired", got)
	}
	if w := m.Workflow(r.WorkflowID); w.State != core.RunWaiting {
		t.Errorf("the run is %s, want waiting", w.State)
	}
	if f := m.Exit(12, "continue", run, "--approve", "--expect-digest", "sha256:other", "--json").Fault(); f.Code != core.CodeDigestMismatch {
		t.Errorf("approving something else: %+v", f)
	}
	// continue asks again, and nothing that ran runs twice.
	c.Approvals["ttl"] = "5m"
	m.Configure(c)
	again := m.JSON(8, "continue", run)
	if again.CheckpointID == r.CheckpointID || again.WorkflowID != r.WorkflowID {
		t.Errorf("asked again as %s of %s", again.CheckpointID, again.WorkflowID)
	}
	var ext core.Approval
	m.OK("approvals", "extend", string(again.CheckpointID), "--json").Decode(&ext)
	if !ext.ExpiresAt.After(*again.ExpiresAt) {
		t.Errorf("extended to %s, before %s", ext.ExpiresAt, again.ExpiresAt)
	}
	var ren core.Approval
	m.OK("approvals", "renew", string(r.CheckpointID), "--json").Decode(&ren)
	if ren.ID != again.CheckpointID {
		t.Errorf("renewing what was renewed gives %s, want %s", ren.ID, again.CheckpointID)
	}
	if got := m.JSON(0, "continue", run, "--approve"); string(got.Result) != `"n1"` {
		t.Errorf("result %s", got.Result)
	}
	if diff := cmp.Diff([]string{`inc {"key":"k"}`, `danger {"x":"n1"}`}, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, outcome := range []core.ApprovalState{core.ApprovalExpired, core.ApprovalApproved} {
		if n := m.Audited(outcome); n != 1 {
			t.Errorf("the audit log has %d rows %s, want 1", n, outcome)
		}
	}
}

// TestApproval_ExpiredOnTerminal: where people decide, the terminal shows what has
// expired and takes the answer.
func TestApproval_ExpiredOnTerminal(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "1s", "decider": "human"}
	m := pmltest.NewMachine(t, c)
	r := m.Execute(8, pmltest.AsksOnce)
	pmltest.WaitFor(t, "the approval expires", func() bool { return time.Now().After(*r.ExpiresAt) })
	m.Exit(8, "continue", string(r.WorkflowID), "--approve")
	o := m.ApproveOnTerminal(m.Workflow(r.WorkflowID).Approvals[0])
	if o.Exit != 0 || m.Count("danger") != 1 || m.Audited(core.ApprovalApproved) != 1 {
		t.Errorf("exit %d, danger %d: %s", o.Exit, m.Count("danger"), o.Text)
	}
}

// TestApproval_ExpiredIsDecided: one command decides what has expired, and the audit
// log says that it was asked again.
func TestApproval_ExpiredIsDecided(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "1s"}
	m := pmltest.NewMachine(t, c)
	run := func(x string) api.Result {
		t.Helper()
		r := m.Execute(8, `const a = await mcp.rec.inc({key: "`+x+`"}); return (await mcp.rec.danger({x: "`+x+`" + a.count})).done`)
		pmltest.WaitFor(t, "the approval expires", func() bool { return time.Now().After(*r.ExpiresAt) })
		return r
	}
	first := run("yes")
	if got := m.JSON(0, "continue", string(first.WorkflowID), "--approve", "--expect-digest", first.Digest); string(got.Result) != `"yes1"` {
		t.Errorf("result %s", got.Result)
	}
	second := run("no")
	m.Exit(9, "continue", string(second.CheckpointID), "--deny")
	if diff := cmp.Diff([]string{`inc {"key":"yes"}`, `danger {"x":"yes1"}`, `inc {"key":"no"}`}, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	renewed := map[core.ID]core.ApprovalState{}
	for line := range strings.Lines(m.OK("audit", "export").Stdout) {
		var row core.AuditRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Renewed != "" {
			renewed[row.Renewed] = row.Outcome
		}
	}
	want := map[core.ID]core.ApprovalState{first.CheckpointID: core.ApprovalApproved, second.CheckpointID: core.ApprovalDenied}
	if diff := cmp.Diff(want, renewed); diff != "" {
		t.Errorf("renewed (-want +got):\n%s", diff)
	}
}

// TestApproval_RunExpires: a run that waited longer than approvals.resume_ttl
// is expired for good.
func TestApproval_RunExpires(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits until a run expires")
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"ttl": "5s", "resume_ttl": "5s"}
	m := pmltest.NewMachine(t, c)
	o := m.Exit(8, "execute", "--json", "--code", `return await mcp.rec.danger({x: "1"})`)
	r := o.Result()
	pmltest.WaitFor(t, "the run expires", func() bool { return m.Workflow(r.WorkflowID).State == core.RunExpired })
	for _, args := range [][]string{{"--approve"}, {"--deny"}, {}} {
		f := m.Exit(11, append([]string{"continue", string(r.WorkflowID), "--json"}, args...)...).Fault()
		if f.Code != core.CodeWorkflowExpired {
			t.Errorf("%q: %+v", args, f)
		}
	}
	if n := m.Count("danger"); n != 0 {
		t.Errorf("danger ran %d times", n)
	}
}

// TestContinue_RaceOfOpposites: of yes and no at the same instant one counts,
// whichever it is.
//
// Scenario 3.
func TestContinue_RaceOfOpposites(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	for round := range skiptest.Sized(t, 1, 3) {
		r := m.Execute(8, fmt.Sprintf(`try { return (await mcp.rec.danger({x: "%d"})).done } catch (e) { return e.code }`, round))
		var procs []*pmltest.Process
		for i := range 8 {
			procs = append(procs, m.Start("continue", string(r.WorkflowID), "--json", []string{"--approve", "--deny"}[i%2]))
		}
		var won []*pmltest.Process
		for _, p := range procs {
			if o := p.Wait(); o.Exit == 0 {
				won = append(won, p)
			} else if f := o.Want(12).Fault(); f.DecidedBy == nil {
				t.Errorf("a loser was told %+v", f)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d won", len(won))
		}
		want := `"denied"`
		if slices.Contains(won[0].Args, "--approve") {
			want = fmt.Sprintf(`"%d"`, round)
		}
		if got := string(won[0].Wait().Result().Result); got != want {
			t.Errorf("the winner's result is %s, want %s", got, want)
		}
		if ran := slices.Contains(m.Calls(), fmt.Sprintf(`danger {"x":"%d"}`, round)); ran != (want != `"denied"`) {
			t.Errorf("ran: %v, result %s", ran, want)
		}
	}
}
