package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// A session's own limits stand for the pool's, in the child and in its parent.
func TestOpen_OwnLimits(t *testing.T) {
	t.Parallel()
	p := newPool(t, sandbox.Limits{CPU: 10 * time.Minute, ResultBytes: 1 << 10, LogBytes: 1 << 10})
	open := func(source string, s sandbox.Start) (sandbox.Turn, error) {
		c, err := p.Compile(t.Context(), source, "test.ts")
		if err != nil {
			t.Fatal(err)
		}
		s.Script, s.Source = c.Script, source
		session, turn, err := p.Open(t.Context(), s)
		if err == nil {
			session.Close()
		}
		return turn, err
	}
	turn, err := open(`return "x".repeat(12 << 20)`, sandbox.Start{ResultBytes: 16 << 20})
	if err != nil || len(turn.Result) != 12<<20+2 {
		t.Errorf("%d bytes, %v", len(turn.Result), err)
	}
	_, err = open(`return "x".repeat(2000)`, sandbox.Start{})
	if core.CodeOf(err) != core.CodeResultTooLarge || !strings.Contains(err.Error(), "limits.result_bytes") || !strings.Contains(err.Error(), "write_file") ||
		!strings.Contains(err.Error(), "blob") || !strings.Contains(err.Error(), "journaled") {
		t.Errorf("%v", err)
	}
	// A script can ask before it writes. It goes on with the limit that it was told.
	turn, err = open(`return [pml.limits.result_bytes, "x".repeat(2000).length]`, sandbox.Start{})
	if err != nil || string(turn.Result) != `[1024,2000]` {
		t.Errorf("%s, %v", turn.Result, err)
	}
	turn, err = open(`return [pml.limits.result_bytes, "x".repeat(2000)]`, sandbox.Start{ToldBytes: 4096})
	if err != nil || !strings.HasPrefix(string(turn.Result), `[4096,"x`) {
		t.Errorf("%d bytes, %v", len(turn.Result), err)
	}
	for name, source := range map[string]string{
		"Main":  "const a = 1;\nconst f = () => {\n  while (true) Math.sqrt(2);\n};\nf();",
		"Job":   "await null;\n\n  for (;;) Date.now();",
		"Timer": "await null;\n\n  [1].forEach(() => { for (;;) ; });",
	} {
		_, err = open(source, sandbox.Start{CPU: 100 * time.Millisecond})
		e := core.AsError(err)
		if e.Code != core.CodeSandboxTimeout || !strings.Contains(e.Message, "limits.cpu") || !strings.Contains(e.Message, "stands still") {
			t.Errorf("%s: %v", name, err)
		}
		if e.Location == nil || e.Location.Line != 3 {
			t.Errorf("%s: at %+v, want line 3", name, e.Location)
		}
	}
}
