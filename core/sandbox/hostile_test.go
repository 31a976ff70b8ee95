package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/skiptest"
)

var smallLimits = sandbox.Limits{CPU: 400 * time.Millisecond, MemoryBytes: 32 << 20, ResultBytes: 1 << 20, LogBytes: 64 << 10}

// hostile runs a script as an engine would and returns the code it ended with.
// Every call is answered with null.
func hostile(p *sandbox.Pool, source string) string {
	ctx := context.Background()
	c, err := p.Compile(ctx, source, "")
	if err != nil {
		return string(core.CodeOf(err))
	}
	s, turn, err := p.Open(ctx, sandbox.Start{Script: c.Script, Now: epoch, Seed: "h"})
	if err != nil {
		return string(core.CodeOf(err))
	}
	defer s.Close()
	for seq := int64(0); len(turn.Calls) > 0; {
		list := make([]sandbox.Delivery, len(turn.Calls))
		for i, c := range turn.Calls {
			seq++
			list[i] = sandbox.Delivery{Seq: seq, CallID: c.ID, Value: core.Null, At: epoch}
		}
		if turn, err = s.Deliver(ctx, list); err != nil {
			return string(core.CodeOf(err))
		}
	}
	switch {
	case turn.Err != nil:
		return string(turn.Err.Code)
	case turn.Unhandled != nil:
		return "unhandled " + string(turn.Unhandled.Code)
	case !turn.Done:
		return "stuck"
	}
	return "ok"
}

// TestHostile runs every attack beside a session that must not notice. It
// measures the whole process, so it runs alone.
func TestHostile(t *testing.T) {
	skiptest.Short(t, "runs each attack to the end of its limits")
	// Attacks that must end by time have little of it; the others get enough to
	// reach the limit they are about on a busy machine.
	patient := smallLimits
	patient.CPU = 8 * time.Second
	pools := map[bool]*sandbox.Pool{true: newPool(t, smallLimits), false: newPool(t, patient)}
	files, err := filepath.Glob("testdata/hostile/*.js")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d hostile scripts, %v", len(files), err)
	}
	bystander, turn := mustOpen(t, newPool(t, patientLimits), `let n = 0; while (true) { await mcp.a.b({n: n++}) }`, "")
	seq := int64(0)
	for i, file := range files {
		if skiptest.Race && i%4 != 0 || i%skiptest.Sized(t, 5, 1) != 0 {
			continue // .ci/run runs them all without the race detector
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(source), "\n")
		want := strings.Fields(strings.TrimPrefix(first, "// expect:"))
		name := strings.TrimSuffix(filepath.Base(file), ".js")
		begin := time.Now()
		got := hostile(pools[slices.Contains(want, string(core.CodeSandboxTimeout))], string(source))
		if took := time.Since(begin); took > 5*time.Minute { // far more than its limit, on the busiest machine
			t.Errorf("%s: took %v", name, took)
		}
		// The race detector makes the child twenty times slower: there an attack may
		// run out of time before it reaches its limit.
		slow := skiptest.Race && got == string(core.CodeSandboxTimeout)
		if !slices.Contains(want, got) && !slow {
			t.Errorf("%s: got %s, want %v", name, got, want)
		}
		seq++
		next, err := bystander.Deliver(context.Background(), []sandbox.Delivery{{Seq: seq, CallID: turn.Calls[0].ID, Value: core.Null, At: epoch}})
		if err != nil || len(next.Calls) != 1 {
			t.Fatalf("%s disturbed another session: %v", name, err)
		}
		turn = next
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 32<<20 {
		t.Errorf("the parent's heap is %d MiB", m.HeapAlloc>>20)
	}
}
