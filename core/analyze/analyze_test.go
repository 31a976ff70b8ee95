package analyze_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/analyze"
)

// show writes a plan in a compact form: a line per call with its layer, tool,
// marks (? conditional, * repeated) and arguments, then edges and notes.
func show(p *core.Plan) string {
	var b strings.Builder
	for _, c := range p.Calls {
		fmt.Fprintf(&b, "%s L%d %s", c.ID, c.Layer, c.Tool)
		if c.Conditional {
			b.WriteByte('?')
		}
		if c.Repeated {
			b.WriteByte('*')
		}
		if c.Arguments != nil {
			b.WriteString(" " + string(c.Arguments))
		}
		b.WriteByte('\n')
	}
	for _, e := range p.Edges {
		fmt.Fprintf(&b, "%s>%s %s\n", e.From, e.To, e.Kind)
	}
	for _, n := range p.Unknown {
		fmt.Fprintf(&b, "unknown %d:%d %s\n", n.At.Line, n.At.Column, n.Message)
	}
	for _, n := range p.Warnings {
		fmt.Fprintf(&b, "warning %d:%d %s\n", n.At.Line, n.At.Column, n.Message)
	}
	return b.String()
}

// TestCode_Plans runs testdata/plans.txt: cases divided by lines "== name",
// each a script, a line "--" and the expected plan.
func TestCode_Plans(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/plans.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(string(data), "== ")[1:] {
		name, rest, _ := strings.Cut(c, "\n")
		script, want, ok := strings.Cut(rest, "\n--\n")
		if !ok {
			t.Fatalf("case %s has no --", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := analyze.Code(script, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(show(p))); d != "" {
				t.Errorf("%s\n%s", script, d)
			}
		})
	}
}

func TestCode_Positions(t *testing.T) {
	t.Parallel()
	p, err := analyze.Code("const é = 'é'; await mcp.a.b(é);\nawait mcp['x']['y-z']()", func(p core.Position) core.Position {
		return core.Position{Line: p.Line + 10, Column: p.Column}
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]core.Position{{Line: 1, Column: 28}, {Line: 2, Column: 16}}, []core.Position{p.Calls[0].Site, p.Calls[1].Site}); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(core.Position{Line: 11, Column: 28}, p.Calls[0].At); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a:b", "x:y-z"}, p.Tools); d != "" {
		t.Error(d)
	}
}

func TestCode_DeepNesting(t *testing.T) {
	t.Parallel()
	for _, n := range []int{600, 18000} {
		for name, s := range map[string]string{
			"Arrows":  strings.Repeat("x=>", n) + "1",
			"Params":  strings.Repeat("(a=", n) + "1" + strings.Repeat(")=>0", n),
			"Parens":  strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
			"Arrays":  strings.Repeat("[", n) + strings.Repeat("]", n),
			"Not":     strings.Repeat("!", n) + "1",
			"If":      strings.Repeat("if(1)", n) + "1",
			"Blocks":  strings.Repeat("{", n) + strings.Repeat("}", n),
			"Ternary": strings.Repeat("1?1:", n) + "1",
			"Sum":     strings.Repeat("1+", 8*n) + "1",
			"Dots":    "a" + strings.Repeat(".b", 8*n),
			"Else":    strings.Repeat("if(1){}else ", n) + "{}",
		} {
			start := time.Now()
			p, err := analyze.Code("await mcp.a.b();\n"+s, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(p.Unknown) == 0 && len(p.Calls) != 1 {
				t.Errorf("%s %d: neither a note nor the call", name, n)
			}
			if d := time.Since(start); d > 2*time.Minute {
				t.Errorf("%s %d took %v", name, n, d)
			}
		}
	}
}

func FuzzCode(f *testing.F) {
	data, err := os.ReadFile("testdata/plans.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range strings.Split(string(data), "== ")[1:] {
		_, rest, _ := strings.Cut(c, "\n")
		script, _, _ := strings.Cut(rest, "\n--\n")
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		p, err := analyze.Code(script, nil)
		if err != nil || p == nil {
			t.Fatal(err)
		}
		layer := map[string]int{}
		for _, c := range p.Calls {
			layer[c.ID] = c.Layer
		}
		for _, e := range p.Edges {
			if layer[e.From] >= layer[e.To] {
				t.Fatalf("%s in layer %d comes before %s in layer %d", e.From, layer[e.From], e.To, layer[e.To])
			}
		}
		for _, n := range p.Unknown {
			if strings.HasPrefix(n.Message, "could not be analysed: the parser failed") {
				t.Logf("%q: %s", script, n.Message)
			}
		}
	})
}

func BenchmarkCode100Lines(b *testing.B) {
	var s strings.Builder
	for i := range 25 {
		fmt.Fprintf(&s, "const a%d = await mcp.fs.read({path: \"f%d.txt\", opts: {n: %d}});\nif (a%d.ok) {\n  await mcp.db.write({value: a%d.text});\n}\n", i, i, i, i, i)
	}
	for b.Loop() {
		if _, err := analyze.Code(s.String(), nil); err != nil {
			b.Fatal(err)
		}
	}
}
