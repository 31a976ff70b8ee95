package sandbox_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// BenchmarkOpenOneCall starts a script in a warm child and ends it. The next
// child is started meanwhile, so this is what back-to-back runs cost; "wait"
// leaves out the start of the next child.
func BenchmarkOpenOneCall(b *testing.B) {
	p := sandbox.NewPool(sandbox.Options{Command: []string{os.Args[0], childArg}, Warm: -1})
	defer p.Close()
	c, err := p.Compile(context.Background(), `return await mcp.a.b({x: 1})`, "")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		// A compile leaves its child idle and prepared.
		if _, err := p.Compile(context.Background(), `return 1`, ""); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		s, turn, err := p.Open(context.Background(), sandbox.Start{Script: c.Script, Now: epoch})
		if err != nil || len(turn.Calls) != 1 {
			b.Fatal(err)
		}
		if turn, err = s.Deliver(context.Background(), []sandbox.Delivery{{Seq: 1, CallID: 1, Value: core.Null, At: epoch}}); err != nil || !turn.Done {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

// BenchmarkThousandCalls answers a Promise.all of 1,000 calls in ten lists.
func BenchmarkThousandCalls(b *testing.B) {
	p := newPool(b, sandbox.Limits{})
	c, err := p.Compile(context.Background(), `const l = await Promise.all(Array.from({length: 1000}, (_, i) => mcp.a.b({i, path: "file" + i}))); return l.length`, "")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		if _, err := p.Compile(context.Background(), `return 1`, ""); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		s, turn, err := p.Open(context.Background(), sandbox.Start{Script: c.Script, Now: epoch})
		if err != nil || len(turn.Calls) != 1000 {
			b.Fatal(err)
		}
		calls := turn.Calls
		for i := 0; i < 1000; i += 100 {
			list := make([]sandbox.Delivery, 100)
			for j := range list {
				list[j] = sandbox.Delivery{Seq: int64(i + j + 1), CallID: calls[i+j].ID, Value: calls[i+j].Args, At: epoch}
			}
			if turn, err = s.Deliver(context.Background(), list); err != nil {
				b.Fatal(err)
			}
		}
		if string(turn.Result) != "1000" {
			b.Fatalf("got %s", turn.Result)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

// BenchmarkColdStart starts a child and runs a script to its first turn.
func BenchmarkColdStart(b *testing.B) {
	p := sandbox.NewPool(sandbox.Options{Command: []string{os.Args[0], childArg}, Warm: -1})
	defer p.Close()
	for b.Loop() {
		s, _, err := p.Open(context.Background(), sandbox.Start{Script: "mcp.a.b()", Now: epoch})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkCompile100Lines compiles in a child that has compiled before.
func BenchmarkCompile100Lines(b *testing.B) {
	p := newPool(b, sandbox.Limits{})
	source := strings.Repeat("const r: string = await mcp.fs.read({path: `a${1}`}); if (r) { console.log(r) }\n{ let x = 1 as number; x++ }\n", 1) +
		strings.Repeat("{ const r: string = await mcp.fs.read({path: `a${1}`}); if (r) { console.log(r) } }\n", 98)
	for b.Loop() {
		if _, err := p.Compile(context.Background(), source, ""); err != nil {
			b.Fatal(err)
		}
	}
}
