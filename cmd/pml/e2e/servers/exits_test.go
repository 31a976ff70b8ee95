//go:build unix

package servers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// soon is less than the limit on a call, and enough for a busy machine: what takes
// as long has waited for something that could not come.
const soon = 55 * time.Second

// Scenario 22: a server that exits in the middle of a call is an error at once,
// with what it wrote last; the next call of the same run finds it restarted.
func TestScenario22_ExitsDuringCall(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	die := filepath.Join(m.Dir, "die")
	c := pmltest.AllowRec()
	c.Servers = map[string]map[string]any{"rec": m.Rec(map[string]any{"args": []string{"--log", m.Log, "--die", die}})}
	m.Configure(c)
	if err := os.WriteFile(die, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := m.Execute(0, `let first;
		try { await mcp.rec.inc({key: "k"}); first = "answered" } catch (e) { first = e.code }
		return [first, (await mcp.rec.put({key: "k", value: 2})).value]`)
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	if diff := cmp.Diff(`["server_unreachable",2]`, canonical(t, r.Result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := m.Count("inc"); n != 1 {
		t.Errorf("the call that was cut off was made %d times", n)
	}
	if pids := pids(m); len(pids) != 2 {
		t.Errorf("%d processes of the server, want 2", len(pids))
	}
}

// Scenario 22: a server that takes its time to start and is called by many
// calls at once is one process, and each call is answered.
func TestScenario22_SlowStart(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	c := pmltest.AllowRec()
	c.Servers = map[string]map[string]any{"rec": m.Rec(map[string]any{"args": []string{"--log", m.Log, "--start-delay", "3s"}})}
	m.Configure(c)
	r := m.Execute(0, `return (await Promise.all(Array.from({length: 10}, (_, i) => mcp.rec.inc({key: "k" + i})))).map(x => x.count)`)
	if diff := cmp.Diff(`[1,1,1,1,1,1,1,1,1,1]`, canonical(t, r.Result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if pids := pids(m); len(pids) != 1 {
		t.Errorf("%d processes of the server, want 1", len(pids))
	}
}

// Scenario 22: a server that ends before it answers says why on its stderr,
// and that is what a person reads.
func TestScenario22_ExitsAtStart(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	script := m.Write("broken.sh", "#!/bin/sh\necho 'fatal: no database at /var/lib/x' >&2\nexit 7\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	m.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"*"}}, Servers: map[string]map[string]any{"broken": {"command": "./broken.sh"}}})
	began := time.Now()
	o := m.PML("execute", "--json", "--code", `return await mcp.broken.anything({})`)
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	f := o.Want(5).Fault()
	if f.Code != core.CodeServerUnreachable || !strings.Contains(f.Message, "broken") || !strings.Contains(f.Message, "no database at /var/lib/x") {
		t.Errorf("%+v", f)
	}
	// The others are not concerned.
	m.Execute(0, `return await mcp.workspace.stat({path: "."})`)
}

// pids are the processes of the recorder that were called.
func pids(m *pmltest.Machine) map[int]bool {
	m.T.Helper()
	out := map[int]bool{}
	for _, e := range m.Entries() {
		out[e.PID] = true
	}
	return out
}
