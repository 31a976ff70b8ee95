package sandbox_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// childArg makes the test binary a sandbox child.
const childArg = "pml-sandbox-test-child"

// badArg makes it a child that breaks the protocol.
const badArg = "pml-sandbox-test-bad-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(sandbox.ChildMain(os.Stdin, os.Stdout, countCalls))
	}
	if len(os.Args) > 2 && os.Args[1] == badArg {
		badChild(os.Args[2])
	}
	os.Exit(m.Run())
}

// countCalls is an analyzer that says how long the script is.
func countCalls(script string, toSource func(core.Position) core.Position) (*core.Plan, error) {
	return &core.Plan{Kind: core.KindCode, Calls: []core.PlanCall{{ID: "c1", At: toSource(core.Position{Line: 1, Column: 3})}}}, nil
}

// epoch is the time at which test scripts start.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

// patientLimits are for scripts that are not about time: the race detector makes
// a child twenty times slower, and a busy machine slower still.
var patientLimits = sandbox.Limits{CPU: 10 * time.Minute}

func newPool(t testing.TB, l sandbox.Limits) *sandbox.Pool {
	t.Helper()
	p := sandbox.NewPool(sandbox.Options{Command: []string{os.Args[0], childArg}, Warm: 1, Limits: l})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// mustOpen compiles and starts a script.
func mustOpen(t testing.TB, p *sandbox.Pool, source, input string) (*sandbox.Session, sandbox.Turn) {
	t.Helper()
	c, err := p.Compile(context.Background(), source, "test.ts")
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	s, turn, err := p.Open(context.Background(), sandbox.Start{Script: c.Script, Source: source, Seed: "seed", Now: epoch, Input: json.RawMessage(input)})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(s.Close)
	return s, turn
}

// answer is how a test answers a call: with a value, or an error.
type answer func(sandbox.Call) (json.RawMessage, *core.Error)

// echo answers with the arguments.
func echo(c sandbox.Call) (json.RawMessage, *core.Error) {
	if c.IsSleep {
		return nil, nil
	}
	return c.Args, nil
}

// drive answers all calls, those of a turn in one list, until there is none.
func drive(t testing.TB, s *sandbox.Session, turn sandbox.Turn, a answer) (sandbox.Turn, []sandbox.Call) {
	t.Helper()
	var all []sandbox.Call
	seq, at := int64(0), epoch
	for len(turn.Calls) > 0 {
		all = append(all, turn.Calls...)
		list := make([]sandbox.Delivery, len(turn.Calls))
		for i, c := range turn.Calls {
			seq++
			at = at.Add(time.Second)
			v, e := a(c)
			list[i] = sandbox.Delivery{Seq: seq, CallID: c.ID, Value: v, Err: e, At: at}
		}
		next, err := s.Deliver(context.Background(), list)
		if err != nil {
			t.Fatalf("deliver: %v", err)
		}
		turn = next
	}
	return turn, all
}

// run runs a script to its end.
func run(t testing.TB, p *sandbox.Pool, source string) (sandbox.Turn, []sandbox.Call) {
	t.Helper()
	s, turn := mustOpen(t, p, source, `{"n":1}`)
	return drive(t, s, turn, echo)
}
