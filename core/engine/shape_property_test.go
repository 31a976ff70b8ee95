package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// madeCall is a call of a random script: its arguments, which of two places makes it, and
// what the gates say of it.
type madeCall struct {
	args  map[string]any
	place int
	risky bool
	once  bool
}

// anyArgs are random arguments of few values, so that loops have something in common.
func anyArgs(r *rand.Rand, n int) map[string]any {
	out := map[string]any{"n": float64(n), "team": []any{"ENG", "ENG", "ENG", "OPS", 1.0}[r.IntN(5)], "path": []string{"docs/a.md", "docs/a.md", "docs/a.md", "docs/b/c.md", "docs/../x.md", "src/a.md"}[r.IntN(6)]}
	switch r.IntN(12) {
	case 0:
		out["extra"] = true
	case 1:
		delete(out, "path")
	case 2:
		out["n"] = strconv.Itoa(n)
	}
	return out
}

// narrowed is a random narrowing of what is proposed, with what it means: an oracle that knows
// nothing of how the engine compares.
func narrowed(r *rand.Rand, s *core.Shape, own madeCall) (lets func(madeCall) bool) {
	type test func(v any, has bool) bool
	tests := map[string]test{}
	for i := range s.Fields {
		b := &s.Fields[i]
		mine, has := own.args[b.Name]
		optional := b.Optional
		switch {
		case b.Name == "n" && r.IntN(6) > 0:
			*b = core.Bound{Name: b.Name, Types: []string{"number"}, Size: 9}
			if _, text := mine.(string); text || r.IntN(3) == 0 {
				b.Types = []string{"number", "text"}
			}
			types := b.Types
			tests[b.Name] = func(v any, has bool) bool {
				_, number := v.(float64)
				return has && (number || len(types) == 2)
			}
		case has && r.IntN(4) == 0:
			raw, _ := json.Marshal(mine)
			*b = core.Bound{Name: b.Name, Is: raw, Optional: optional}
			tests[b.Name] = func(v any, has bool) bool { return has && reflect.DeepEqual(v, mine) || !has && optional }
		case has && b.Name == "path" && strings.HasPrefix(mine.(string), "docs/") && !strings.Contains(mine.(string), "..") && r.IntN(2) == 0:
			*b = core.Bound{Name: b.Name, Matches: "docs/*", Size: 100, Optional: optional}
			tests[b.Name] = func(v any, has bool) bool {
				text, ok := v.(string)
				return ok && strings.HasPrefix(text, "docs/") && !strings.Contains(text, "..") || !has && optional
			}
		case b.Is != nil:
			var is any
			_ = json.Unmarshal(b.Is, &is)
			tests[b.Name] = func(v any, has bool) bool { return has && reflect.DeepEqual(v, is) || !has && optional }
		default:
			types := slices.Clone(b.Types)
			tests[b.Name] = func(v any, has bool) bool {
				name := map[reflect.Kind]string{reflect.String: "text", reflect.Float64: "number", reflect.Bool: "boolean"}[reflect.ValueOf(v).Kind()]
				return has && slices.Contains(types, name) || !has && optional
			}
		}
	}
	return func(c madeCall) bool {
		if c.place != own.place || c.once || c.risky && !own.risky {
			return false
		}
		for name := range c.args {
			if tests[name] == nil {
				return false
			}
		}
		for name, holds := range tests {
			if v, has := c.args[name]; !holds(v, has) {
				return false
			}
		}
		return true
	}
}

// TestShape_Property: whatever a script does, no call outside of the bounds is made that
// nobody has said yes to, never more than they are for, and each call within them as long as
// there is room: a person says yes once, with random bounds, and no to everything else.
func TestShape_Property(t *testing.T) {
	t.Parallel()
	rounds := skiptest.Sized(t, 25, 100)
	if skiptest.Race {
		rounds = 8
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	let := 0
	for round := range rounds {
		let += shapeRound(t, r, fmt.Sprintf("seed %d, round %d", seed, round))
	}
	if rounds == 100 && let < 20 {
		t.Errorf("seed %d: bounds have permitted %d calls in %d rounds: it shows little", seed, let, rounds)
	}
}

// shapeRound runs one random script, and returns how many calls its bounds have permitted.
func shapeRound(t *testing.T, r *rand.Rand, when string) (let int) {
	t.Helper()
	calls := make([]madeCall, 3+r.IntN(10))
	for i := range calls {
		calls[i] = madeCall{args: anyArgs(r, i), place: min(r.IntN(6), 1), risky: r.IntN(8) == 0, once: r.IntN(12) == 0}
	}
	b := newBench(t)
	of := func(c engine.Call) madeCall {
		if c.Planned {
			return madeCall{}
		}
		return calls[numberIn(t, c.Args)]
	}
	b.Host.RiskOf = func(c engine.Call) core.Risk {
		return map[bool]core.Risk{true: core.RiskHigh, false: core.RiskMedium}[of(c).risky]
	}
	b.Host.Once = func(c engine.Call) bool { return of(c).once }
	p := b.process()
	defer p.close()
	together := r.IntN(2) == 0
	h := b.code(p, loopScript(t, calls, together), core.RunOptions{})
	person := shapePerson{r: r, calls: calls, refused: map[int]bool{}, own: -1, from: r.IntN(len(calls) / 2)}
	expect := 1 // questions that are open before the person looks again
	if together {
		expect = len(calls)
	}
	for {
		s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() || expect > 0 && len(s.Pending) == expect })
		if s.Run.State.Final() {
			break
		}
		given := person.own
		person.decide(t, b, p, h)
		switch {
		case !together:
			b.Wait(h, func(now engine.Status) bool {
				return now.Run.State.Final() || len(now.Pending) == 1 && now.Pending[0].ID != s.Pending[0].ID
			})
		case person.own != given:
			expect = len(calls) - len(person.refused) - len(person.made())
		default:
			expect--
		}
	}
	want, got := []string{}, b.Host.Called()
	for _, i := range person.made() {
		want = append(want, fmt.Sprintf("a:ask %d", i))
	}
	for i, line := range got {
		got[i] = fmt.Sprintf("a:ask %d", numberIn(t, json.RawMessage(strings.TrimPrefix(line, "a:ask"))))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: made (-want +got):\n%s\nbounds %+v", when, diff, person.shape)
	}
	return max(len(want)-1, 0)
}

// loopScript makes some calls at two places, at once or one after the other.
func loopScript(t *testing.T, calls []madeCall, together bool) string {
	t.Helper()
	var args []map[string]any
	var places []int
	for _, c := range calls {
		args, places = append(args, c.args), append(places, c.place)
	}
	list, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	at, err := json.Marshal(places)
	if err != nil {
		t.Fatal(err)
	}
	how := `for (let i = 0; i < list.length; i++) { try { await make(list[i], i) } catch {} } return 1`
	if together {
		how = `await Promise.allSettled(list.map(make)); return 1`
	}
	return fmt.Sprintf("const list = %s, places = %s;\nconst one = (a) => mcp.a.ask(a);\nconst two = (a) => mcp.a.ask(a);\nconst make = (a, i) => places[i] ? two(a) : one(a);\n%s", list, at, how)
}

func numberIn(t *testing.T, args json.RawMessage) int {
	t.Helper()
	var a struct{ N any }
	if err := json.Unmarshal(args, &a); err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	if f, ok := a.N.(float64); ok {
		return int(f)
	}
	n, err := strconv.Atoi(fmt.Sprint(a.N))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// shapePerson says no to each question, and once, from the call from on, yes with bounds.
type shapePerson struct {
	r       *rand.Rand
	calls   []madeCall
	from    int
	refused map[int]bool // before there were bounds
	own     int          // the call that the bounds were given with; -1: none
	shape   core.Shape
	lets    func(madeCall) bool
}

// made are the calls that may and must be made: the one that was asked about, and those within the
// bounds that nobody had refused before, in their order, up to the count.
func (s *shapePerson) made() (out []int) {
	if s.own < 0 {
		return nil
	}
	left := s.shape.Max - 1
	for i, c := range s.calls {
		if i == s.own || left > 0 && !s.refused[i] && s.lets(c) {
			out = append(out, i)
			if i != s.own {
				left--
			}
		}
	}
	return out
}

// decide decides one question that is open.
func (s *shapePerson) decide(t *testing.T, b *bench, p *process, h *engine.Handle) {
	t.Helper()
	open := b.openOf(p, h)
	number := func(ap core.Approval) int {
		var c struct{ Arguments json.RawMessage }
		if err := json.Unmarshal(ap.Context, &c); err != nil {
			t.Fatal(err)
		}
		return numberIn(t, c.Arguments)
	}
	i := s.r.IntN(len(open))
	open[0], open[i] = open[i], open[0]
	ap := open[0]
	n := number(ap)
	d := core.Decision{ApprovalID: ap.ID, By: enginetest.ByMe.By, At: b.Now()}
	shape, ok := approval.Propose(approval.OfLoop(open))
	if s.own < 0 && ok && n >= s.from {
		shape.Max = 1 + s.r.IntN(len(s.calls))
		s.own, s.lets = n, narrowed(s.r, &shape, s.calls[n])
		s.shape = shape
		d.Approved, d.Answer = true, &core.Answer{Shape: &shape}
	} else if s.own < 0 {
		s.refused[n] = true
	}
	if _, err := p.st.Decide(t.Context(), d, store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	p.Wake(h.ID)
}
