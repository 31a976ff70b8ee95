package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/analyze"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/sandbox"
)

// mortalArg starts a sandbox child that writes its process id into a folder,
// and dies at once when the folder holds a file that says how: killed, also
// only once, or with words.
const mortalArg = "engine-test-mortal-child"

func mortalMain(dir string) int {
	name := filepath.Join(dir, strconv.Itoa(os.Getpid())+".pid")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return 1
	}
	_, err := os.Stat(filepath.Join(dir, "killed"))
	if err == nil || os.Remove(filepath.Join(dir, "killed-once")) == nil {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {}
	}
	if _, err := os.Stat(filepath.Join(dir, "words")); err == nil {
		fmt.Fprintln(os.Stderr, "fatal error: stack overflow")
		return 2
	}
	return sandbox.ChildMain(os.Stdin, os.Stdout, analyze.Code)
}

// mortal gives a bench children that can be killed, and returns their folder.
func (b *bench) mortal() string {
	b.T.Helper()
	dir := b.T.TempDir()
	b.Sandbox(sandbox.Options{Command: []string{os.Args[0], mortalArg, dir}, Warm: -1, Limits: sandbox.Limits{CPU: hung}})
	return dir
}

// children are the process ids of the children that were ever started.
func children(t *testing.T, dir string) []int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, n := range names {
		pid, err := strconv.Atoi(filepath.Base(n[:len(n)-len(".pid")]))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// killChildren kills all children that were ever started and forgets them.
func killChildren(t *testing.T, dir string) {
	t.Helper()
	for _, pid := range children(t, dir) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended
		}
		if err := os.Remove(filepath.Join(dir, strconv.Itoa(pid)+".pid")); err != nil {
			t.Fatal(err)
		}
	}
}

func mark(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLost_GoesOn kills a run's child at each of its calls, while other calls
// and sleeps are under way: the run goes on in another child, and nothing that
// has run runs again.
func TestLost_GoesOn(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]core.RunOptions{"Free": {Input: json.RawMessage("3600e3")}, "Barrier": {PerLayer: true, Input: json.RawMessage("1")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			dir := b.mortal()
			b.Host.OnCall = func(call engine.Call) {
				if call.Tool == "a:write" {
					killChildren(t, dir)
				}
			}
			p := b.process()
			h := b.code(p, `
				const long = setTimeout(() => mcp.a.read({never: 1}), input);
				const [x, y] = await Promise.all([mcp.a.write({n: 1}), mcp.a.read({n: 2})]);
				await new Promise((r) => setTimeout(r, 20));
				const z = await mcp.a.write({n: x.n + y.n});
				clearTimeout(long);
				return [z.n, (await mcp.a.write({n: 4})).n];`, opts)
			seen := map[core.ID]bool{}
			var s engine.Status
			for {
				s = b.Wait(h, func(s engine.Status) bool {
					return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 1 && !seen[s.Pending[0].ID]
				})
				if s.Run.State.Final() {
					break
				}
				seen[s.Pending[0].ID] = true
				b.decide(p, h, core.ApproveLayer, true, nil)
			}
			if s.Run.State != core.RunComplete || string(s.Run.Result) != "[3,4]" {
				t.Fatalf("%s %s %v", s.Run.State, s.Run.Result, s.Run.Error)
			}
			var writes []string
			for _, c := range b.Host.Called() {
				if !strings.HasPrefix(c, "a:read") {
					writes = append(writes, c)
				}
			}
			if n := len(children(t, dir)); n != 1 {
				t.Errorf("%d children after the last kill, want one", n)
			}
			if diff := cmp.Diff([]string{`a:write{"n":1}`, `a:write{"n":3}`, `a:write{"n":4}`}, writes); diff != "" {
				t.Errorf("side effects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLost_WhileWaiting: a child that is killed while a person decides is not
// missed.
func TestLost_WhileWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := b.mortal()
	p := b.process()
	h := b.code(p, `const v = await mcp.a.read({n: 1}); return (await mcp.a.ask({n: v.n})).n`, core.RunOptions{})
	b.Wait(h, enginetest.Pending(1))
	killChildren(t, dir)
	b.decide(p, h, core.ApproveTool, true, nil)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
		t.Errorf("%s %v", s.Run.State, s.Run.Error)
	}
	if n := len(b.Host.Called()); n != 2 {
		t.Errorf("%d calls: %v", n, b.Host.Called())
	}
}

// TestLost_Bounded: when every child is killed, the run is left interrupted
// after a few; it goes on once they live.
func TestLost_Bounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := b.mortal()
	b.Host.OnCall = func(engine.Call) { mark(t, dir, "killed"); killChildren(t, dir) }
	p := b.process()
	h := b.code(p, `return (await mcp.a.write({n: 1})).n`, core.RunOptions{})
	s, err := h.Wait(t.Context(), func(engine.Status) bool { return false })
	if err != nil || !s.Stopped || core.CodeOf(s.Err) != core.CodeSandboxCrashed {
		t.Fatalf("%v, stopped %t: %v", err, s.Stopped, s.Err)
	}
	if next := core.AsError(s.Err).Next; len(next) < 2 || next[1] != "continue" {
		t.Errorf("next: %q", next)
	}
	if n := len(children(t, dir)); n != 3 {
		t.Errorf("%d children after the first, want 3", n)
	}
	run, err := p.st.Run(t.Context(), h.ID)
	if err != nil || run.State != core.RunInterrupted {
		t.Errorf("the run is %s, %v", run.State, err)
	}
	if err := os.Remove(filepath.Join(dir, "killed")); err != nil {
		t.Fatal(err)
	}
	p.close()
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 1 {
		t.Errorf("%s %v: %v", s.Run.State, s.Run.Error, b.Host.Called())
	}
}

// TestLost_ItsOwnDeath: a child that dies by itself, with words, fails the run,
// once.
func TestLost_ItsOwnDeath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := b.mortal()
	p := b.process()
	program := b.Compile(`return 1`)
	killChildren(t, dir) // that of the compilation
	mark(t, dir, "words")
	h := b.start(p, program, core.RunOptions{})
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunFailed || core.CodeOf(s.Run.Error) != core.CodeSandboxCrashed {
		t.Errorf("%s %v", s.Run.State, s.Run.Error)
	}
	if n := len(children(t, dir)); n > 2 { // the first may be the one that compiled, killed meanwhile
		t.Errorf("%d children", n)
	}
}

// TestLost_Limits: a script that runs into a limit fails with its code; it is
// not tried again.
func TestLost_Limits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// Small limits and much time: the race detector is slow.
	b.Sandbox(sandbox.Options{
		Command: enginetest.ChildCommand(), Limits: sandbox.Limits{CPU: hung, MemoryBytes: 16 << 20, ResultBytes: 1 << 20},
	})
	for name, c := range map[string]struct {
		source string
		code   core.Code
	}{
		"Memory": {`const a = []; for (;;) a.push("x".repeat(1 << 20) + a.length)`, core.CodeSandboxMemory},
		"Stack":  {`const f = () => f() + 1; return f()`, core.CodeScript},
		"Output": {`return "x".repeat(2 << 20)`, core.CodeResultTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := b.process()
			s := b.Wait(b.code(p, c.source, core.RunOptions{}), engine.Ended)
			if s.Run.State != core.RunFailed || core.CodeOf(s.Run.Error) != c.code {
				t.Errorf("%s %v", s.Run.State, s.Run.Error)
			}
		})
	}
}

// TestLost_CodeTask: the evaluation of a code task whose child is killed is
// made again in another.
func TestLost_CodeTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := b.mortal()
	mark(t, dir, "killed-once")
	p := b.process()
	h := b.dag(p, []core.TaskSpec{
		task("t", "a:read"), {ID: "c", Type: core.TypeCode, Code: `return deps.t.output.id`, DependsOn: []string{"t"}},
	}, core.RunOptions{})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || string(s.Run.Result) != `{"c":"t"}` {
		t.Errorf("%s %s %v", s.Run.State, s.Run.Result, s.Run.Error)
	}
}

// TestLost_Compile: so is the reading of a script, before there is a run.
func TestLost_Compile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mark(t, b.mortal(), "killed-once")
	if p := b.Compile(`return 1`); p.Script == "" {
		t.Error("there is no script")
	}
}
