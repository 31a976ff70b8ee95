package env_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

func TestAddRule(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{}", "{ // note\n}", `{"permissions": {}}`, "{\n  \"permissions\": {\n    // why\n    \"allow\": [\n      \"a\" // first\n    ]\n  }\n}\n",
		string(env.Starter(false, false)), string(env.Starter(true, false)), string(env.Starter(false, true)),
	} {
		rule := policy.Rule{Tool: `fs:re"ad`}
		if len(text) > 2 { // and with a condition
			rule.Where = `args.to < 3 && "a&b" != 'c'`
		}
		out, err := env.AddRule(".pml.json", []byte(text), "allow", rule)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		b := newBox(t)
		b.write(".pml.json", string(out))
		rules := b.load().Permissions.Allow
		if len(rules) == 0 || rules[len(rules)-1] != rule {
			t.Errorf("%q became %q", text, out)
		}
		for _, comment := range []string{"// note", "// why", "// first"} {
			if strings.Contains(text, comment) && !strings.Contains(string(out), comment) {
				t.Errorf("%s is gone from %q", comment, out)
			}
		}
	}
	for _, bad := range []struct{ text, list string }{{`{"a": 1}`, "allow"}, {`{}`, "readonly"}, {`{"permissions": {"allow": ["a",]}}`, "ask"}} {
		if _, err := env.AddRule(".pml.json", []byte(bad.text), bad.list, policy.Rule{Tool: "x"}); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%q, %s: %v", bad.text, bad.list, err)
		}
	}
}
