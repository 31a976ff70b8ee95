package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// TestLayer_ShowsArguments: who is asked whether a layer may start is shown what
// its calls are called with, also those of code, which nothing has journaled yet;
// more than can be read is left out whole.
func TestLayer_ShowsArguments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"Readable": {"n9", true}, "TooMuch": {strings.Repeat("x", 20<<10), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.code(p, `const a = await mcp.a.read({n: 1}); return await mcp.a.write({text: "`+tt.text+`" + a.n});`, core.RunOptions{PerLayer: true})
			var shown struct {
				Next []struct {
					Tool      string
					Arguments json.RawMessage
				}
			}
			if err := json.Unmarshal(b.Wait(h, enginetest.Pending(1)).Pending[0].Context, &shown); err != nil {
				t.Fatal(err)
			}
			if len(shown.Next) != 1 || shown.Next[0].Tool != "a:write" || strings.Contains(string(shown.Next[0].Arguments), tt.text) != tt.want {
				t.Errorf("%+v", shown)
			}
		})
	}
}
