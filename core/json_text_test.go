package core_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestValueEnd: the end of a value is where it ends for encoding/json, too, and
// broken text ends at its end.
func TestValueEnd(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`1`, `-0.5e+9`, `true`, `null`, `""`, `"a"`, `"\\"`, `"\\\""`, `"\"\\\"x"`, `"a\u0022b"`, `[]`, `{}`, `[[],{"a":"]}"}]`,
		`{"a":{"b":[1,"}\\"]},"c":"{"}`, `"` + strings.Repeat(`\\\"`, 1000) + `"`,
	} {
		for _, rest := range []string{"", ",1", " ]", "\n}"} {
			text := []byte("  " + value + rest)
			at := core.SkipSpace(text, 0)
			if end := core.ValueEnd(text, at); string(text[at:end]) != value || !json.Valid(text[at:end]) {
				t.Errorf("of %q the value is %q", text, text[at:end])
			}
		}
	}
	for _, broken := range []string{``, `"`, `"a`, `"a\`, `"a\"`, `[`, `{"a`, `{"a":"\`, `[[]`} {
		if end := core.ValueEnd([]byte(broken), 0); end != len(broken) {
			t.Errorf("%q ends at %d", broken, end)
		}
	}
}
