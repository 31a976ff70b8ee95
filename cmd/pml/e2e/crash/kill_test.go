//go:build unix

package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// rounds is how often a heavy test repeats: PML_TEST_ROUNDS, else a few times.
func rounds(t *testing.T, few int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("PML_TEST_ROUNDS"))
	if err != nil {
		return few
	}
	return n
}

// sideEffects are programs whose every call has a side effect, half of them
// after an approval.
var sideEffects = map[string]func(*pmltest.Machine) []string{
	"code": func(*pmltest.Machine) []string {
		return []string{"execute", "--code", `
			const a = await mcp.rec.inc({key: "a"});
			const [b, c] = await Promise.all([mcp.rec.danger({x: "b" + a.count}), mcp.rec.inc({key: "c"})]);
			const d = await mcp.rec.danger({x: "d" + c.count});
			return (await Promise.all(["e", "f", "g"].map(key => mcp.rec.inc({key})))).length`}
	},
	"dag": func(m *pmltest.Machine) []string {
		return []string{"execute", m.Write("effects.json", `{"tasks":[
			{"id":"a","tool":"rec:inc","arguments":{"key":"a"}},
			{"id":"b","tool":"rec:danger","arguments":{"x":"b${a.count}"}},
			{"id":"c","tool":"rec:inc","arguments":{"key":"c"},"depends_on":["a"]},
			{"id":"d","tool":"rec:danger","arguments":{"x":"d${c.count}"},"depends_on":["b"]},
			{"id":"e","tool":"rec:inc","arguments":{"key":"e"},"depends_on":["d"]},
			{"id":"f","tool":"rec:inc","arguments":{"key":"f"},"depends_on":["d"]},
			{"id":"g","tool":"rec:inc","arguments":{"key":"g"},"depends_on":["d"]}]}`)}
	},
}

// TestKilled_AtAnyMoment kills pml and its children again and again, at random
// moments, until the run is complete all the same. Each call with a side effect
// ran once: one that may have run is always asked about.
//
// Scenario 34. PML_TEST_ROUNDS sets how many runs of each kind.
func TestKilled_AtAnyMoment(t *testing.T) { killedAtAnyMoment(t, "") }

// The same with a flow that never makes the same of the arguments: what it has once made
// of a call is what is asked about, in doubt and called.
func TestKilled_WithFlows(t *testing.T) {
	skiptest.Long(t, "kills as TestKilled_AtAnyMoment does, once more")
	killedAtAnyMoment(t, `const p = context.request.params, [name] = Object.keys(p.arguments);
		return {params: {...p, arguments: {[name]: p.arguments[name] + " by " + Math.random()}}}`)
}

// byFlow is what the flow of TestKilled_WithFlows adds.
var byFlow = regexp.MustCompile(` by [-.\de]+`)

func killedAtAnyMoment(t *testing.T, flow string) {
	t.Parallel()
	for kind, program := range sideEffects {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			for range rounds(t, skiptest.Sized(t, 1, 4)) {
				// A new machine each time: what the first start writes counts too.
				m := pmltest.BareMachine(t)
				if flow != "" {
					m.Write(".pml/flows/f.json", string(pmltest.Flow("f", nil, flow, `return undefined`)))
				}
				m.Configure(pmltest.AllowRec())
				killUntilDone(t, m, random, program(m))
				if t.Failed() {
					return
				}
			}
		})
	}
}

func killUntilDone(t *testing.T, m *pmltest.Machine, random *rand.Rand, args []string) {
	t.Helper()
	var id core.ID
	kills, last := 0, pmltest.Output{}
	for step := 0; ; step++ {
		if step > 60 {
			t.Fatalf("not complete after %d processes: run %q; the last: %+v", step, id, last)
		}
		p := m.Start(args...)
		if kills < 12 {
			// Half of them early, where pml starts and takes the run over.
			limit := time.After(time.Duration(random.IntN(120)) * time.Millisecond)
			select {
			case <-limit:
			case <-p.Ended():
			}
			p.Kill()
			kills++
		} else {
			last = p.Wait()
		}
		var page api.Page[core.Run]
		m.OK("workflows", "ls", "--json").Decode(&page)
		if len(page.Items) == 0 {
			continue // killed before there was a run
		}
		id = page.Items[0].ID
		w := m.Workflow(id)
		if w.State.Final() {
			if w.State != core.RunComplete {
				t.Errorf("the run is %s: %v", w.State, w.Error)
			}
			break
		}
		args = nextStep(m, w)
	}
	want := []string{}
	for _, k := range []string{"a", "c", "e", "f", "g"} {
		want = append(want, fmt.Sprintf(`inc {"key":%q}`, k))
	}
	want = append(want, `danger {"x":"b1"}`, `danger {"x":"d1"}`)
	got := m.Calls()
	for i := range got {
		if plain := byFlow.ReplaceAllString(got[i], ""); plain != got[i] {
			got[i] = plain
		} else if _, err := os.Stat(filepath.Join(m.WS, ".pml", "flows")); err == nil {
			t.Errorf("no flow has looked at %s", got[i])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// nextStep is what a person does next about a run: they approve, and about a
// call in doubt they look whether it ran.
func nextStep(m *pmltest.Machine, w core.Workflow) []string {
	m.T.Helper()
	for _, ap := range w.Approvals {
		if ap.StateAt(time.Now()) != core.ApprovalOpen {
			continue
		}
		args := []string{"continue", string(w.ID), "--checkpoint", string(ap.ID)}
		if ap.Type != core.ApproveInDoubt {
			return append(args, "--approve")
		}
		for _, call := range m.Calls() {
			if tool, rest, _ := strings.Cut(call, " "); ap.Tool == "rec:"+tool && strings.Contains(pmltest.Compact(m.T, ap.Context), rest) {
				// Its result is what it would have been.
				return append(args, "--answer", "skip", "--result", `{"count":1}`)
			}
		}
		return append(args, "--answer", "run-again")
	}
	return []string{"continue", string(w.ID)}
}

// TestFirstUse_AtOnce: many processes that use servers of a workspace for the
// first time record what they saw without taking each other's trust or records
// away.
func TestFirstUse_AtOnce(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	c := pmltest.Config{Permissions: map[string]any{"allow": []string{"s*:*"}}, Servers: map[string]map[string]any{}}
	const n = 8
	for i := range n {
		c.Servers[fmt.Sprintf("s%d", i)] = m.Rec(nil)
	}
	m.Configure(c)
	var procs []*pmltest.Process
	for i := range n {
		code := fmt.Sprintf(`await mcp.s%d.inc({key: "k"}); return (await mcp.s%d.inc({key: "k"})).count > 1`, i, (i+1)%n)
		procs = append(procs, m.Start("execute", "--json", "--code", code))
	}
	for _, p := range procs {
		if r := p.Wait().Want(0).Result(); string(r.Result) != "true" {
			t.Errorf("result %s", r.Result)
		}
	}
	lock := pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock"))
	for i := range n {
		if !strings.Contains(lock, fmt.Sprintf(`"s%d"`, i)) {
			t.Errorf("pml.lock has no entry of s%d", i)
		}
	}
	if out := m.OK("trust", "--show").Stdout; !strings.Contains(out, "trusted") || strings.Contains(out, "not trusted") {
		t.Errorf("trust: %s", out)
	}
}
