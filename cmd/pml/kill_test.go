//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
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
var sideEffects = map[string]func(*machine) []string{
	"code": func(*machine) []string {
		return []string{"execute", "--code", `
			const a = await mcp.rec.inc({key: "a"});
			const [b, c] = await Promise.all([mcp.rec.danger({x: "b" + a.count}), mcp.rec.inc({key: "c"})]);
			const d = await mcp.rec.danger({x: "d" + c.count});
			return (await Promise.all(["e", "f", "g"].map(key => mcp.rec.inc({key})))).length`}
	},
	"dag": func(m *machine) []string {
		return []string{"execute", m.write("effects.json", `{"tasks":[
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
func TestKilled_AtAnyMoment(t *testing.T) {
	t.Parallel()
	for kind, program := range sideEffects {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			for range rounds(t, 4) {
				// A new machine each time: what the first start writes counts too.
				m := newMachine(t, allowRec())
				killUntilDone(t, m, random, program(m))
				if t.Failed() {
					return
				}
			}
		})
	}
}

func killUntilDone(t *testing.T, m *machine, random *rand.Rand, args []string) {
	t.Helper()
	var id core.ID
	kills, last := 0, output{}
	for step := 0; ; step++ {
		if step > 60 {
			t.Fatalf("not complete after %d processes: run %q; the last: %+v", step, id, last)
		}
		p := m.start(args...)
		if kills < 12 {
			// Half of them early, where pml starts and takes the run over.
			limit := time.After(time.Duration(random.IntN(120)) * time.Millisecond)
			select {
			case <-limit:
			case <-p.ended():
			}
			p.kill()
			kills++
		} else {
			last = p.wait()
		}
		var page api.Page[core.Run]
		m.ok("workflows", "ls", "--json").decode(&page)
		if len(page.Items) == 0 {
			continue // killed before there was a run
		}
		id = page.Items[0].ID
		w := m.workflow(id)
		if w.State.Final() {
			if w.State != core.RunComplete {
				t.Errorf("the run is %s: %v", w.State, w.Error)
			}
			break
		}
		args = m.nextStep(w)
	}
	want := []string{}
	for _, k := range []string{"a", "c", "e", "f", "g"} {
		want = append(want, fmt.Sprintf(`inc {"key":%q}`, k))
	}
	want = append(want, `danger {"x":"b1"}`, `danger {"x":"d1"}`)
	got := m.calls()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// nextStep is what a person does next about a run: they approve, and about a
// call in doubt they look whether it ran.
func (m *machine) nextStep(w core.Workflow) []string {
	m.t.Helper()
	for _, ap := range w.Approvals {
		if ap.StateAt(time.Now()) != core.ApprovalOpen {
			continue
		}
		args := []string{"continue", string(w.ID), "--checkpoint", string(ap.ID)}
		if ap.Type != core.ApproveInDoubt {
			return append(args, "--approve")
		}
		for _, call := range m.calls() {
			if tool, rest, _ := strings.Cut(call, " "); ap.Tool == "rec:"+tool && strings.Contains(compact(m.t, ap.Context), rest) {
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
	m := bareMachine(t)
	c := config{Permissions: map[string]any{"allow": []string{"s*:*"}}, Servers: map[string]map[string]any{}}
	const n = 8
	for i := range n {
		c.Servers[fmt.Sprintf("s%d", i)] = m.rec(nil)
	}
	m.configure(c)
	var procs []*process
	for i := range n {
		code := fmt.Sprintf(`await mcp.s%d.inc({key: "k"}); return (await mcp.s%d.inc({key: "k"})).count > 1`, i, (i+1)%n)
		procs = append(procs, m.start("execute", "--json", "--code", code))
	}
	for _, p := range procs {
		if r := p.wait().want(0).result(); string(r.Result) != "true" {
			t.Errorf("result %s", r.Result)
		}
	}
	lock := readFile(t, filepath.Join(m.WS, "pml.lock"))
	for i := range n {
		if !strings.Contains(lock, fmt.Sprintf(`"s%d"`, i)) {
			t.Errorf("pml.lock has no entry of s%d", i)
		}
	}
	if out := m.ok("trust", "--show").Stdout; !strings.Contains(out, "trusted") || strings.Contains(out, "not trusted") {
		t.Errorf("trust: %s", out)
	}
}
