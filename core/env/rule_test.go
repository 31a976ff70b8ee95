package env_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

func TestAddRule(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{}", "{ // note\n}", `{"permissions": {}}`, "{\n  \"permissions\": {\n    // why\n    \"allow\": [\n      \"a\" // first\n    ]\n  }\n}\n",
		string(env.Starter(false, false)), string(env.Starter(true, false)), string(env.Starter(false, true)),
	} {
		out, err := env.AddRule(".pml.json", []byte(text), "allow", `fs:re"ad`)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		b := newBox(t)
		b.write(".pml.json", string(out))
		rules := b.load().Permissions.Allow
		if len(rules) == 0 || rules[len(rules)-1] != `fs:re"ad` {
			t.Errorf("%q became %q", text, out)
		}
		for _, comment := range []string{"// note", "// why", "// first"} {
			if strings.Contains(text, comment) && !strings.Contains(string(out), comment) {
				t.Errorf("%s is gone from %q", comment, out)
			}
		}
	}
	for _, bad := range []struct{ text, list string }{{`{"a": 1}`, "allow"}, {`{}`, "readonly"}, {`{"permissions": {"allow": ["a",]}}`, "ask"}} {
		if _, err := env.AddRule(".pml.json", []byte(bad.text), bad.list, "x"); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%q, %s: %v", bad.text, bad.list, err)
		}
	}
}
