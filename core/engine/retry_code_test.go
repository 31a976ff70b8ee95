package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/skiptest"
)

// steps is a tool whose calls end when the test says so.
type steps struct {
	t       *testing.T
	arrived chan step
	waiting map[string]step
}

type step struct {
	key  string
	ends chan error
}

func newSteps(t *testing.T) *steps {
	return &steps{t: t, arrived: make(chan step), waiting: map[string]step{}}
}

func (s *steps) tool() tool {
	return tool{Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		var a struct{ K string }
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		c := step{a.K, make(chan error)}
		select {
		case s.arrived <- c:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case err := <-c.ends:
			return args, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// await waits until these calls, and no others, are under way.
func (s *steps) await(keys []string) {
	s.t.Helper()
	deadline := time.After(hung)
	for len(s.waiting) < len(keys) {
		select {
		case c := <-s.arrived:
			s.waiting[c.key] = c
		case <-deadline:
			s.t.Fatalf("waited for the calls %v; under way are only %v", keys, s.under())
		}
	}
	slices.Sort(keys)
	if diff := cmp.Diff(keys, s.under()); diff != "" {
		s.t.Fatalf("the wrong calls are under way: %s", diff)
	}
}

func (s *steps) under() []string {
	var out []string
	for k := range s.waiting {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *steps) end(key string, err error) {
	c := s.waiting[key]
	delete(s.waiting, key)
	c.ends <- err
}

var errStep = core.Errorf(core.CodeToolFailed, "it failed")

// TestRetry_CodeBesideOthers: a call fails beside others that go on: in deeper
// layers than its own, with what the script does in any case. Executing such a
// script anew would repeat their effects.
func TestRetry_CodeBesideOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		ends   []string // in this order; x fails
		opts   core.RunOptions
		again  []string
	}{
		"Deeper": {
			`await Promise.all([(async () => { await mcp.s.tep({k: "a"}); await mcp.s.tep({k: "b"}) })(), mcp.s.tep({k: "x"})]); return "done"`,
			[]string{"a", "b", "x"}, core.RunOptions{}, []string{"x"},
		},
		"GoesOn": {
			`await Promise.all([(async () => { await mcp.s.tep({k: "a"}); await mcp.s.tep({k: "b"}) })(), mcp.s.tep({k: "x"})]); return "done"`,
			[]string{"x", "a", "b"}, core.RunOptions{}, []string{"x"},
		},
		"Settled": { // not a failure alone leads to what follows all of them
			`await Promise.allSettled([mcp.s.tep({k: "x"}), mcp.s.tep({k: "a"})]); await mcp.s.tep({k: "y"}); return "done"`,
			[]string{"x", "a", "y"}, core.RunOptions{}, []string{"y"},
		},
		"Noted": { // something else than the failure's own turn depends on it
			`let bad = false; const x = mcp.s.tep({k: "x"}).catch(() => { bad = true });
			await mcp.s.tep({k: "a"}); await mcp.s.tep({k: bad ? "b" : "c"}); await x; await mcp.s.tep({k: "y"}); return "done"`,
			[]string{"x", "a", "b", "y"}, core.RunOptions{}, []string{"y"},
		},
		"Fallback": {
			`try { await mcp.s.tep({k: "x"}) } catch { await mcp.s.tep({k: "a"}) } await mcp.s.tep({k: "y"}); return "done"`,
			[]string{"x", "a", "y"}, core.RunOptions{}, []string{"y"},
		},
		"TimeLimit": { // of an hour, which begins anew with the call
			`const limit = (p, ms) => { let t; return Promise.race([p, new Promise((_, no) => { t = setTimeout(() => no(new Error("too slow")), ms) })]).finally(() => clearTimeout(t)) }
			await limit(mcp.s.tep({k: "x"}), 3600_000); return "done"`,
			[]string{"x"}, core.RunOptions{}, []string{"x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newBench(t), newSteps(t)
			b.Host.Tools["s:tep"] = s.tool()
			p := b.process()
			h := b.code(p, c.script, c.opts)
			for i, k := range c.ends {
				s.endNext(k)
				b.Wait(h, func(engine.Status) bool { return b.settled(p, h) > i })
			}
			b.failed(h, core.CodeToolFailed, "it failed")
			p.close()
			b.Ahead.Store(int64(2 * time.Hour))
			p = b.process()
			h, n, err := p.Retry(t.Context(), h.ID)
			if err != nil || n != len(c.again) {
				t.Fatal(n, err)
			}
			s.await(c.again)
			for _, k := range c.again {
				s.end(k, nil)
			}
			b.Complete(h, `"done"`)
		})
	}
}

// endNext ends a call once it is under way; one that begins with x or y fails.
func (s *steps) endNext(key string) {
	s.t.Helper()
	deadline := time.After(hung)
	for s.waiting[key].ends == nil {
		select {
		case c := <-s.arrived:
			s.waiting[c.key] = c
		case <-deadline:
			s.t.Fatalf("waited for the call %s; under way are only %v", key, s.under())
		}
	}
	if key[0] == 'x' || key[0] == 'y' {
		s.end(key, errStep)
	} else {
		s.end(key, nil)
	}
}

// settled counts the calls of a run whose outcome is journaled.
func (b *bench) settled(p *process, h *engine.Handle) int {
	b.T.Helper()
	records, err := p.st.Journal(b.T.Context(), h.ID, 0)
	if err != nil {
		b.T.Fatal(err)
	}
	n := 0
	for _, r := range records {
		if r.Kind == core.RecordSettled {
			n++
		}
	}
	return n
}

// A failure that the script went on from is not tried again, and the error says so.
func TestRetry_CodeWentOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `try { await mcp.a.fail({}) } catch (e) { await mcp.a.write({n: 1}); throw e }`, core.RunOptions{})
	b.failed(h, core.CodeToolFailed, "it failed")
	_, _, err := p.Retry(t.Context(), h.ID)
	if core.CodeOf(err) != core.CodeNotWaiting || !strings.Contains(err.Error(), "because of it") {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a:fail{}", `a:write{"n":1}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

// With barriers the outcomes of a layer are given together: what failed in a
// layer before the last is tried again when nothing has followed from it.
func TestRetry_CodeBarriers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var broken atomic.Bool
	broken.Store(true)
	b.Host.Tools["a:mended"] = tool{Run: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		if broken.Load() {
			return nil, errStep
		}
		return args, nil
	}}
	p := b.process()
	h := b.code(p, `const [, x] = await Promise.all([(async () => { await mcp.a.write({n: 1}); await mcp.a.write({n: 2}) })(), mcp.a.mended({n: 3})])
		return await mcp.a.write({n: x.n + 1})`, core.RunOptions{PerLayer: true})
	b.pass(p, h)
	b.failed(h, core.CodeToolFailed, "it failed")
	broken.Store(false)
	h, n, err := p.Retry(t.Context(), h.ID)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	b.pass(p, h)
	b.Complete(h, `{"n":4}`)
	want := []string{`a:mended{"n":3}`, `a:mended{"n":3}`, `a:write{"n":1}`, `a:write{"n":2}`, `a:write{"n":4}`}
	got := b.Host.Called()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// pass lets a run go on over its layers until it ends.
func (b *bench) pass(p *process, h *engine.Handle) {
	b.T.Helper()
	seen := map[core.ID]bool{}
	for {
		s := b.Wait(h, func(s engine.Status) bool {
			return engine.Ended(s) || len(s.Pending) > 0 && !seen[s.Pending[0].ID]
		})
		if s.Run.State.Final() {
			return
		}
		seen[s.Pending[0].ID] = true
		b.decide(p, h, core.ApproveLayer, true, nil)
	}
}

// A node is a piece of a random script: a call, or some in a row, side by side,
// or tried with a fallback.
type node struct {
	kind string // call, seq, par, try
	key  string
	kids []*node
}

func randomNode(r *rand.Rand, depth int, count *int) *node {
	kind := []string{"call", "seq", "par", "seq", "par", "try"}[r.IntN(6)]
	if depth == 0 || *count > 12 {
		kind = "call"
	}
	n := &node{kind: kind}
	if kind == "call" {
		*count++
		n.key = fmt.Sprintf("k%d", *count)
		return n
	}
	kids := 2
	if kind != "try" {
		kids += r.IntN(2)
	}
	for range kids {
		n.kids = append(n.kids, randomNode(r, depth-1, count))
	}
	return n
}

func (n *node) script(w *strings.Builder) {
	switch n.kind {
	case "call":
		fmt.Fprintf(w, "await mcp.s.tep({k: %q});", n.key)
	case "seq":
		for _, k := range n.kids {
			k.script(w)
		}
	case "par":
		w.WriteString("await Promise.all([")
		for _, k := range n.kids {
			w.WriteString("(async () => {")
			k.script(w)
			w.WriteString("})(),")
		}
		w.WriteString("]);")
	case "try":
		w.WriteString("try {")
		n.kids[0].script(w)
		w.WriteString("} catch {")
		n.kids[1].script(w)
		w.WriteString("}")
	}
}

// ready are the calls that are under way, given the outcomes so far, and whether
// the node has ended well (1), failed (-1) or goes on (0).
func (n *node) ready(outcomes map[string]int) (keys []string, state int) {
	switch n.kind {
	case "call":
		if o := outcomes[n.key]; o != 0 {
			return nil, o
		}
		return []string{n.key}, 0
	case "par":
		state = 1
		for _, k := range n.kids {
			more, s := k.ready(outcomes)
			keys = append(keys, more...)
			switch {
			case s < 0 || state < 0:
				state = -1
			case s == 0:
				state = 0
			}
		}
		return keys, state
	case "try":
		keys, state = n.kids[0].ready(outcomes)
		if state < 0 {
			var more []string
			more, state = n.kids[1].ready(outcomes)
			keys = append(keys, more...)
		}
		return keys, state
	}
	for _, k := range n.kids {
		var more []string
		more, state = k.ready(outcomes)
		keys = append(keys, more...)
		if state < 1 {
			return keys, state
		}
	}
	return keys, 1
}

// TestRetry_CodeTrees: random scripts of calls in a row, side by side and with
// fallbacks, in which one or two fail and all end in a random order. A retry
// makes the calls that failed, but for those that led to a fallback, then what
// comes after them, and no other again.
func TestRetry_CodeTrees(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSteps(t)
	b.Host.Tools["s:tep"] = s.tool()
	p := b.process()
	retried := 0
	scripts := skiptest.Sized(t, 20, 60)
	for seed := range uint64(scripts) {
		r := rand.New(rand.NewPCG(14, seed))
		count := 0
		tree := randomNode(r, 4, &count)
		var script strings.Builder
		tree.script(&script)
		bad := []string{fmt.Sprintf("k%d", 1+r.IntN(count)), fmt.Sprintf("k%d", 1+r.IntN(count))}[:1+r.IntN(2)]
		outcomes := map[string]int{}
		h := b.code(p, script.String()+`return "done"`, core.RunOptions{})
		again := s.play(r, tree, outcomes, bad)
		if _, state := tree.ready(outcomes); state > 0 {
			b.Complete(h, `"done"`)
			continue
		}
		b.failed(h, core.CodeToolFailed, "it failed")
		retried++
		h, n, err := p.Retry(t.Context(), h.ID)
		if err != nil || n != len(again) {
			t.Fatalf("seed %d: %d calls again, want %v: %v\n%s", seed, n, again, err, &script)
		}
		for _, k := range again {
			delete(outcomes, k)
		}
		s.play(r, tree, outcomes, nil)
		b.Complete(h, `"done"`)
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, &script)
		}
	}
	if retried < scripts/3 {
		t.Errorf("only %d of the scripts were retried", retried)
	}
}

// play ends calls in a random order until none is under way. It returns the
// calls that failed and led to no other.
func (s *steps) play(r *rand.Rand, tree *node, outcomes map[string]int, bad []string) (again []string) {
	s.t.Helper()
	for {
		keys, _ := tree.ready(outcomes)
		again = slices.DeleteFunc(again, func(k string) bool { return slices.Contains(keys, k) })
		if len(keys) == 0 {
			return again
		}
		s.await(keys)
		k := keys[r.IntN(len(keys))]
		outcomes[k] = 1
		if !slices.Contains(bad, k) {
			s.end(k, nil)
			continue
		}
		outcomes[k] = -1
		if more, _ := tree.ready(outcomes); len(more) < len(keys) {
			again = append(again, k)
		}
		s.end(k, errStep)
	}
}
