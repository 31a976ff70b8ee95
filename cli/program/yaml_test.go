package program_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/core"
)

func TestYAML_ToJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"a: 1.10\nb: -0\nc: 1e400\nd: 123456789012345678901234567890", `{"a":1.10,"b":-0,"c":1e400,"d":123456789012345678901234567890}`},
		{"a: 0x1f\nb: 0o17\nc: 1_000\nd: +5\ne: .5", `{"a":31,"b":15,"c":1000,"d":5,"e":0.5}`},
		{"a: yes\nb: true\nc: ~\nd:\ne: '1'\nf: !!str 12", `{"a":"yes","b":true,"c":null,"d":null,"e":"1","f":"12"}`},
		{"a: |\n  x\n  y\nb: >-\n  x\n  y", `{"a":"x\ny\n","b":"x y"}`},
		{"- &x {k: [1]}\n- *x", `[{"k":[1]},{"k":[1]}]`},
		{"1: a\ntrue: b\n~: c", `{"1":"a","true":"b","~":"c"}`},
		{"2026-01-31: 2026-01-31", `{"2026-01-31":"2026-01-31"}`},
		{"{a: [1, {b: c}]}", `{"a":[1,{"b":"c"}]}`},
		{"---\na: 1\n...\n", `{"a":1}`},
	}
	for _, tt := range tests {
		raw, _, err := program.YAMLToJSON([]byte(tt.in))
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, string(raw)); diff != "" {
			t.Errorf("%q: %s", tt.in, diff)
		}
	}
}

func TestYAML_AliasBomb(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		p := strconv.Itoa(i - 1)
		b.WriteString("a" + strconv.Itoa(i) + ": &a" + strconv.Itoa(i) + " [" + strings.Repeat("*a"+p+",", 9) + "*a" + p + "]\n")
	}
	if _, _, err := program.YAMLToJSON([]byte(b.String())); core.CodeOf(err) != core.CodeDAGInvalid {
		t.Errorf("%v", err)
	}
}

// FuzzYAML: whatever is read gives valid JSON, or an error of ours.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{"a: 1", "tasks:\n - id: a\n   arguments: {x: 0x1f}", "&a [*a]", "? a\n: b", "!!int 3", "- - - -", "{a: [", "a: |\n b", "<<: {}", "\"\\x41\": 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, _, err := program.YAMLToJSON(data)
		if err != nil {
			if _, ok := errors.AsType[*core.Error](err); !ok {
				t.Fatalf("%v", err)
			}
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q became %q", data, raw)
		}
		if _, err := layout.YAML(raw); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
	})
}
