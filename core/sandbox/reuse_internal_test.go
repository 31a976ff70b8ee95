package sandbox

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// reusing is a pool whose children serve more than one script. The argument is
// the one that makes the test binary a child.
func reusing(t *testing.T) *Pool {
	t.Helper()
	p := NewPool(Options{Command: []string{os.Args[0], "pml-sandbox-test-child"}, Warm: -1, Reuse: true, Limits: Limits{CPU: 10 * time.Minute, MemoryBytes: 1 << 30}})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// served counts the scripts that the children which live now have served, once
// none is on its way back.
func (p *Pool) served() (children, scripts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cleaning > 0 {
		p.back.Wait()
	}
	for c := range p.live {
		children++
		scripts += c.served
	}
	return children, scripts
}

func TestPool_Reuse(t *testing.T) {
	t.Parallel()
	p := reusing(t)
	for i := range 5 {
		// Whatever one script leaves behind, the next one does not find.
		s, turn, err := p.Open(context.Background(), Start{
			Seed: "seed",
			Script: `const was = [typeof globalThis.left, ({}).left === undefined, Math.random()].join();
globalThis.left = 1; Object.prototype.left = 1; setTimeout(() => {}, 1e6); mcp.a.b({}); console.log(was); return was`,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !turn.Done || len(turn.Calls) != 2 || turn.Calls[0].ID != 1 || len(turn.Logs) != 1 {
			t.Fatalf("run %d: %+v", i, turn)
		}
		if got := string(turn.Result); got != `"undefined,true,`+seeded(t)+`"` {
			t.Errorf("run %d sees what another one left: %s", i, got)
		}
		s.Close()
		s.Close()
	}
	if children, scripts := p.served(); children != 1 || scripts != 5 {
		t.Errorf("%d children have served %d scripts, want one that served 5", children, scripts)
	}
}

// seeded is the first random number of the seed, by a child that is new.
var seeded = func() func(t *testing.T) string {
	var once sync.Once
	var first string
	return func(t *testing.T) string {
		once.Do(func() {
			p := NewPool(Options{Command: []string{os.Args[0], "pml-sandbox-test-child"}, Warm: -1, Limits: Limits{CPU: 10 * time.Minute}})
			defer p.Close()
			_, turn, err := p.Open(context.Background(), Start{Seed: "seed", Script: `return Math.random()`})
			if err != nil {
				t.Fatal(err)
			}
			first = string(turn.Result)
		})
		return first
	}
}()

// TestPool_NotReused has ends after which a child must not serve again.
func TestPool_NotReused(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"waits":      `await mcp.a.b({})`,
		"big result": `return "x".repeat(9 << 20)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := reusing(t)
			s, _, err := p.Open(context.Background(), Start{Script: script})
			if s != nil {
				s.Close()
			}
			if children, _ := p.served(); children != 0 {
				t.Errorf("%d children are left (%v)", children, err)
			}
		})
	}
}

func TestPool_ServedEnough(t *testing.T) {
	t.Parallel()
	p := reusing(t)
	for range 2 {
		s, _, err := p.Open(context.Background(), Start{Script: `return 1`})
		if err != nil {
			t.Fatal(err)
		}
		s.pool.room.child(s.place).served = maxServed - 1 // as if it had
		s.Close()
		if children, _ := p.served(); children != 0 {
			t.Fatalf("a child that has served %d scripts is kept", maxServed)
		}
	}
}

// TestPool_ReuseStorm has many scripts at once share a pool: each gets its own
// result, and no more children are kept than wanted.
func TestPool_ReuseStorm(t *testing.T) {
	t.Parallel()
	p := reusing(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5 {
				c, err := p.Compile(context.Background(), fmt.Sprintf(`const n: number = %d; return await mcp.a.b({n})`, i*100+j), "")
				if err != nil {
					t.Error(err)
					return
				}
				s, turn, err := p.Open(context.Background(), Start{Script: c.Script})
				if err != nil || len(turn.Calls) != 1 {
					t.Errorf("%+v %v", turn, err)
					return
				}
				turn, err = s.Deliver(context.Background(), []Delivery{{Seq: 1, CallID: 1, Value: turn.Calls[0].Args}})
				if want := fmt.Sprintf(`{"n":%d}`, i*100+j); err != nil || string(turn.Result) != want {
					t.Errorf("got %s (%v), want %s", turn.Result, err, want)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	if children, _ := p.served(); children > reused {
		t.Errorf("%d idle children are kept, want at most %d", children, reused)
	}
}

// TestPool_CloseWhileCleaning ends a pool whose child is on its way back.
func TestPool_CloseWhileCleaning(t *testing.T) {
	t.Parallel()
	p := reusing(t)
	s, _, err := p.Open(context.Background(), Start{Script: `return 1`})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Open(context.Background(), Start{Script: `return 1`}); core.CodeOf(err) != core.CodeCancelled {
		t.Errorf("a closed pool says %v", err)
	}
}

// TestPool_Keep: children that were in use together are kept, as far as Options.Keep
// allows, and so are those that Warm has started.
func TestPool_Keep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ warm, keep, want int }{
		"Warm": {2, 0, 2}, "Kept": {1, 3, 3}, "None": {-1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewPool(Options{Command: []string{os.Args[0], "pml-sandbox-test-child"}, Warm: tt.warm, Keep: tt.keep})
			defer p.Close()
			var used []*process
			for range 4 {
				c, err := p.take()
				if err != nil {
					t.Fatal(err)
				}
				used = append(used, c)
			}
			for _, c := range used {
				p.put(c)
			}
			if n := p.Children(); n != tt.want {
				t.Errorf("%d children are kept, want %d", n, tt.want)
			}
		})
	}
}

// TestPool_TakesTheOneThatStarts: a request that comes while Warm starts a child waits
// for that one.
func TestPool_TakesTheOneThatStarts(t *testing.T) {
	t.Parallel()
	p := NewPool(Options{Command: []string{os.Args[0], "pml-sandbox-test-child"}, Warm: 1})
	defer p.Close()
	p.Warm()
	c, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	defer p.put(c)
	if n := p.Children(); n != 1 {
		t.Errorf("%d children have been started", n)
	}
}

// TestPool_PlaceOfItsOwn: a script that a child runs after it has compiled another one has the
// places of its own source: bounds of an approval and errors go by them.
func TestPool_PlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	p := reusing(t)
	compile := func(source string) Compiled {
		c, err := p.Compile(t.Context(), source, "test.ts")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own := compile("interface A {\n  n: number\n}\nconst a: A = {n: 1}\n\nawait mcp.a.b(a)")
	compile("mcp.c.d({})")
	s, turn, err := p.Open(t.Context(), Start{Seed: "seed", Script: own.Script})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if children, _ := p.served(); children != 1 {
		t.Fatalf("%d children", children)
	}
	if len(turn.Calls) != 1 || turn.Calls[0].At.Line != 6 {
		t.Errorf("%+v, want one call of line 6", turn.Calls)
	}
}
